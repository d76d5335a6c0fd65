"""Agents put together: one after the other, side by side, by choice, by handing on, again and again.

What each of these functions returns is used as an agent is: run, stream, interrupt, as_tool, and member of another.
"""

from sagent.agent.agent_tool import Runnable
from sagent.patterns.branches import Gathered, parallel
from sagent.patterns.chain import sequential
from sagent.patterns.choice import triage
from sagent.patterns.pattern import Pattern
from sagent.patterns.relay import handoff
from sagent.patterns.rounds import loop_until
from sagent.patterns.team import Role, Team, TeamResult

__all__ = [
    "Gathered",
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
