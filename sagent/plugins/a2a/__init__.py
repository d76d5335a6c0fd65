"""sagent as an A2A agent (a2a-protocol.org, versions 1.0 and 0.3), and remote agents as tools. Needs sagent[a2a].

A context is a session, and a task is one prompt in it. A task's outcome is in the session's log: `records` maps log
entries to tasks, and stores the clients' messages.
"""

import re
from collections.abc import Mapping
from typing import cast

from sagent.config.values import texts, url
from sagent.plugin import (
    SERVERS,
    Command,
    Extra,
    Part,
    Plugin,
    RefusedError,
    SecretFolder,
    Setting,
    ToolEntry,
    Variable,
)


def agents_of(value: object, _: object = None) -> tuple[str, ...]:
    """Return agents elsewhere, each as "name=URL", from a table of names and URLs, "name=URL" or a list of those."""
    if isinstance(value, Mapping):
        value = [f"{name}={address}" for name, address in cast("Mapping[object, object]", value).items()]
    found: list[str] = []
    for text in [value] if isinstance(value, str) else texts(value, "a2a"):
        name, equals, address = text.partition("=")
        if not equals:
            raise RefusedError("give NAME=URL, as in reviewer=https://host")
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", name.strip()):
            raise RefusedError("give NAME=URL, with a name of at most 32 letters, digits, _ and -")
        found.append(f"{name.strip()}={url(address)}")
    return tuple(found)


AGENTS = Setting(  # each "name=URL"
    "a2a",
    agents_of,
    (),
    "tuple[str, ...]",
    "Mapping[str, str] | str | Sequence[str] | None",
    adds=True,
    metavar="NAME=URL",
    each=True,
    help="use a remote agent as a tool, over the A2A protocol (repeatable)",
)
PACKAGES = "a2a-sdk sse-starlette starlette uvicorn"
"""Packages of the extra a2a."""
plugin = Plugin(
    "a2a",
    "sagent for other agents, and other agents as tools, by the A2A protocol",
    commands=(
        Command(
            "a2a",
            "accept tasks from other agents over the A2A protocol: a card, JSON-RPC and REST",
            "sagent.plugins.a2a.command:run_a2a",
            group=SERVERS,
        ),
    ),
    parts=(Part("sagent.plugins.a2a.part:add", ("a2a",)),),
    settings=(AGENTS,),
    tools=(ToolEntry("a2a__*"),),
    variables=(Variable("SAGENT_A2A_TOKEN", each=True),),
    secret_folders=(SecretFolder("a2a"), SecretFolder("a2a-serve")),  # tokens that clients gave, and the server's
    needs=("gateway", "hosting"),
    extras=(Extra("examples", "./examples.txt"),),
)
