"""Small Mermaid diagrams, drawn in the terminal with lines and boxes."""

from sagent.plugin import Extra, Plugin

plugin = Plugin(
    "diagrams",
    "small Mermaid diagrams, drawn in the terminal",
    extras=(Extra("fence mermaid", f"{__name__}.mermaid:draw"),),
)
