"""Agents put together: one after the other, side by side, by choice, by handing on, again and again.

What each of these functions returns is used as an agent is: run, stream, interrupt, as_tool, and member of another.
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
