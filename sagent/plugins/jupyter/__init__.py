"""Agents in notebooks: `%load_ext sagent` shows results with their calls, changes and costs. Needs IPython."""

from sagent.plugin import Extra, Plugin

plugin = Plugin(
    "jupyter",
    "results, changes and costs shown in notebooks, with %load_ext sagent",
    needs=("exports",),
    extras=(
        Extra("load_ipython_extension", f"{__name__}.extension:load"),
        Extra("unload_ipython_extension", f"{__name__}.extension:unload"),
    ),
)
