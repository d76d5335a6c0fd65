"""Patterns that combine agents: in sequence, in parallel, by choice, by hand-off, and in a loop.

What each of these functions returns is used like an agent: it has run, stream, interrupt and as_tool, and can be a
member of another pattern.
"""

from sagent.agent.agent_tool import Runnable
from sagent.patterns.branches import Gathered, parallel
from sagent.patterns.handoffs import HandoffBudget
from sagent.patterns.pattern import Pattern
from sagent.patterns.team import Role, Team, TeamResult
from sagent.patterns.turns import handoff, loop_until, sequential, triage

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
    "sequential",
    "triage",
]
