"""Network access of sandboxed commands: a proxy to the allowed hosts. Without it, commands in a sandbox reach none."""

from sagent.plugin import Extra, Plugin

plugin = Plugin(
    "network",
    "a proxy by which sandboxed commands reach the allowed hosts",
    extras=(Extra("sandbox network", f"{__name__}.access:ProxiedNetwork"),),
    needs=("hosting",),
)
