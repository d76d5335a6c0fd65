"""Hand-offs between the roles of a team, from the log of the agent above them: which roles have finished, their answers
and their costs."""

import hashlib
from collections.abc import Sequence
from dataclasses import field
from decimal import Decimal
from functools import partial
from typing import Literal, TypeAlias

from sagent.agent.tree import Node
from sagent.events import Failure
from sagent.lib.dataclass import dataclass
from sagent.lib.text import count
from sagent.plugins.teams.rounds import Round, saved_by_handoffs
from sagent.session.contents import MessageEntry
from sagent.session.folds import branch_contents, charges, contents
from sagent.session.log import Log, read_agent
from sagent.usage import Saving, Sum, Usage

ASKER = ""
"""Stands for the caller of the team, which begins the first hand-off and takes the last one."""

State: TypeAlias = Literal["not begun", "at work", "done", "failed", "kept"]
"""State of a role. "kept": an earlier run of the session has done it, and it is not repeated."""


@dataclass(frozen=True, slots=True)
class HandoffBudget:
    """A limit on how much of a role's hand-off the following prompts show: a number of tokens, as the role's own
    provider counted them, and a number of bytes. A longer hand-off is cut to its beginning and end, with the path of
    the full text. None means no limit of that kind."""

    tokens: int | None = None
    bytes: int | None = None

    def __bool__(self) -> bool:
        return (self.tokens, self.bytes) != (None, None)

    def __str__(self) -> str:
        kinds = ((self.tokens, "token"), (self.bytes, "byte"))
        return " and ".join(count(most, kind) for most, kind in kinds if most is not None)

    def room(self, size: int, tokens: int) -> int:
        """Return the number of bytes to show of a text of this size. Without a token count, each byte may be a
        token."""
        most = size if self.bytes is None else min(size, self.bytes)
        counted = tokens or size
        return most if self.tokens is None or counted <= self.tokens else min(most, size * self.tokens // counted)


def digest(text: str) -> tuple[str, int]:
    """Return the sha256 of a text, in UTF-8, and its size in bytes."""
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest(), len(data)


# -- what a role has done ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RoleReport:
    """A report on a role, over all its tries. `usd` is None if a price is not known; `text` is what it passed on.

    `agent` and `model` are those of the last try. `turns` counts replies of models. `usage` includes agents below it
    and advisors. `saving` is the number of tokens that all earlier hand-offs in full would have added.
    """

    name: str
    state: State = "not begun"
    agent: str = ""
    model: str = ""
    turns: int = 0
    usage: Usage = field(default_factory=Usage)
    usd: Decimal | None = Decimal(0)
    text: str = ""
    error: Failure | None = None
    saving: Saving = field(default_factory=Saving)


def report_role(lead: Node, team_round: Round, name: str) -> RoleReport:
    """Report on a role in a round of the team below `lead`, by the logs."""
    state: State = "not begun"
    model, error, last = "", None, ""
    tries: dict[str, None] = {}
    for handoff in team_round.handoffs:
        if handoff.giver == name:
            error = handoff.said.error
            state = "done" if error is None else "failed"
            last = handoff.said.agent or last
        if handoff.taker == name and handoff.given is not None:
            state, model, error, last = "at work", handoff.given.model, None, handoff.given.agent
        if last:
            tries[last] = None
    billed, turns = Sum(), 0
    for agent in tries:
        for path in _family(lead, agent):
            for charge in charges(read_agent(lead.log, path)):
                billed.add(charge)
        turns += sum(each.message.role == "assistant" for each in contents(read_agent(lead.log, agent), MessageEntry))
    text = answer_of(lead.log, last) if state == "done" else ""
    saving = saved_by_handoffs(team_round, partial(read_agent, lead.log), lead.ledger.prices.price, name)
    return RoleReport(name, state, last, model, turns, billed.usage, billed.price, text, error, saving)


def answer_of(log: Log, agent: str) -> str:
    """Return the last answer of an agent; "" if its log has none."""
    answer = ""
    for entry in branch_contents(read_agent(log, agent), MessageEntry):
        answer = entry.message.text if entry.message.role == "assistant" else answer
    return answer


def shortened(text: str, max_bytes: int, location: str) -> tuple[str, int]:
    """Return a text's beginning and end, at most this many bytes, and its size. `location` tells the place of the
    rest."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= max_bytes:
        return text, len(data)
    head, tail = (
        part.decode("utf-8", "ignore")
        for part in (data[: max_bytes - max_bytes // 3], data[len(data) - max_bytes // 3 :])
    )
    shown_bytes = len(head.encode()) + len(tail.encode())
    return f"{head}\n[... {len(data) - shown_bytes} bytes left out; {location} ...]\n{tail}", shown_bytes


def _family(lead: Node, path: str) -> Sequence[str]:
    """Return an agent and the agents below it that had costs."""
    billed = lead.ledger.totals().by_agent
    return sorted(agent for agent in billed if agent == path or agent.startswith(f"{path}/"))
