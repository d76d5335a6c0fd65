"""A conversation in plain lines, for terminals that can only print and for people who cannot see the screen."""

from sagent.config.values import switch
from sagent.plugin import Extra, Plugin, Setting

PLAIN = Setting(
    "plain", switch, default=False, type="bool", group="session and output", scope="surface", everyday=True,
    help="talk in plain lines: nothing is redrawn or coloured",
)  # fmt: skip
plugin = Plugin(
    "plain",
    "a conversation in plain lines, without redrawing",
    settings=(PLAIN,),
    extras=(Extra("plain lines", f"{__name__}.repl:chosen"),),
)
