"""Small Mermaid diagrams, drawn in the terminal with lines and boxes, and formulas in Unicode."""

from sagent.plugin import Extra, Plugin

plugin = Plugin(
    "diagrams",
    "small Mermaid diagrams and formulas, drawn in the terminal",
    extras=(Extra("fence mermaid", f"{__name__}.mermaid:draw"), Extra("fence _formula", f"{__name__}.formula:draw")),
)
