"""Teams of roles, and patterns that combine agents: in sequence, in parallel, by choice, by hand-off, and in a loop.

Each of these functions returns a pattern, which is used like an agent: it has run, stream, interrupt and
as_tool, and can be a member of another pattern.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from sagent.plugin import Command, Extra, Flag, Plugin

if TYPE_CHECKING:
    from sagent.agent.agent_tool import Runnable as Runnable
    from sagent.plugins.teams.branches import Gathered as Gathered
    from sagent.plugins.teams.branches import parallel as parallel
    from sagent.plugins.teams.handoffs import HandoffBudget as HandoffBudget
    from sagent.plugins.teams.pattern import Pattern as Pattern
    from sagent.plugins.teams.team import Role as Role
    from sagent.plugins.teams.team import Team as Team
    from sagent.plugins.teams.team import TeamResult as TeamResult
    from sagent.plugins.teams.turns import handoff as handoff
    from sagent.plugins.teams.turns import loop_until as loop_until
    from sagent.plugins.teams.turns import sequential as sequential
    from sagent.plugins.teams.turns import triage as triage

__all__ = [
    "Gathered",
    "HandoffBudget",
    "Pattern",
    "Role",
    "Runnable",
    "Team",
    "TeamResult",
    "handoff",
    "loop_until",
    "parallel",
    "plugin",
    "sequential",
    "triage",
]
_HOMES = {
    "sagent.agent.agent_tool": ("Runnable",),
    "sagent.plugins.teams.branches": ("Gathered", "parallel"),
    "sagent.plugins.teams.handoffs": ("HandoffBudget",),
    "sagent.plugins.teams.pattern": ("Pattern",),
    "sagent.plugins.teams.team": ("Role", "Team", "TeamResult"),
    "sagent.plugins.teams.turns": ("handoff", "loop_until", "sequential", "triage"),
}

plugin = Plugin(
    "teams",
    "teams of roles, and patterns that combine agents",
    needs=("hosting",),
    commands=(
        Command(
            "team",
            "have a team of roles work on one task, each handing its results to the next: presets, or your own file",
            "sagent.plugins.teams.command:run_team",
        ),
    ),
    flags=(Flag("team", "have a team answer: a preset, or a file (see sagent team list)", "NAME|FILE", of="a2a"),),
    extras=(
        Extra("examples", "./examples.txt"),
        Extra("a2a worker", "sagent.plugins.teams.serving:worker_of"),
        Extra("session costs", "sagent.plugins.teams.rounds:tell_saved"),
    ),
)


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
