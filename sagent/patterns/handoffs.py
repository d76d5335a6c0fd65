"""Hand-offs between the roles of a team, as the log of the agent above them keeps them, and what can be read of it:
who has finished, with what words, at what cost."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import field
from decimal import Decimal
from typing import Literal, TypeAlias

from sagent.agent.agent import Agent
from sagent.engine.state import EXECUTOR
from sagent.events import Failure
from sagent.lib.dataclass import dataclass
from sagent.session.contents import Handoff, HandoffGiven, HandoffSaid, MessageEntry
from sagent.session.entries import Entry
from sagent.session.folds import branch_contents, charges, contents
from sagent.session.log import Log, read_agent
from sagent.session.view import MemoryLogView, branch
from sagent.usage import Saving, Sum, Usage

MOST_HANDED = 40_000  # characters of a hand-off that the next prompt has
ASKER = ""
"""Stands for whoever asked the team: the first hand-off comes from there, the last one goes there."""

State: TypeAlias = Literal["not begun", "at work", "done", "failed", "kept"]
"""How a role stands. "kept" is done in an earlier run of the session, and not done again."""


@dataclass(frozen=True, slots=True)
class HandOff:
    """One hand-off. `giver` and `taker` are roles; `given` is None where the taker does not begin with it yet.

    `entry` is the id of the log's entry.
    """

    giver: str
    taker: str
    said: HandoffSaid
    given: HandoffGiven | None
    entry: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class Round:
    """One task of a team, as far as it came. `answer` is None while it is open."""

    task: str
    handoffs: tuple[HandOff, ...]
    answer: str | None = None
    model: str = ""  # the one that the team was begun with

    def finished(self, role: str) -> tuple[HandoffSaid, HandoffGiven] | None:
        """What a role has passed on, and what it was given for that; None where it has not, or has failed since."""
        given: HandoffGiven | None = None
        found: tuple[HandoffSaid, HandoffGiven] | None = None
        for handoff in self.handoffs:
            if handoff.giver == role and given is not None:
                found = (handoff.said, given) if handoff.said.error is None else None
            if handoff.taker == role and handoff.given is not None:
                given, found = handoff.given, None
        return found


def digest(text: str) -> tuple[str, int]:
    """The sha256 of a text, in UTF-8, and its size in bytes."""
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest(), len(data)


def last_round(entries: Iterable[Entry]) -> Round | None:
    """The last task of a team that a log has; None where its last request was none."""
    task, answer, model = "", None, ""
    handoffs: list[HandOff] = []
    for entry in branch(entries):
        if entry.kind not in ("handoff", "message"):
            continue
        content = entry.content
        if isinstance(content, Handoff):
            model = content.model
            handoffs.append(HandOff(content.giver, content.taker, content.said, content.given, entry.id, entry.at))
        elif isinstance(content, MessageEntry):
            message = content.message
            if message.role == "assistant":
                answer = message.text
            elif not message.sender:
                task, answer = message.text, None
                handoffs.clear()
    return Round(task, tuple(handoffs), answer, model) if handoffs else None


# -- what a role has done ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RoleReport:
    """What a role came to, in all its tries. `usd` is None where a price is not known; `text` is what it passed on.

    `agent` and `model` are those of the last try; `turns` counts replies of models, `usage` includes that of agents
    below it and of advisors. `saving` is what it would have been sent more with all hand-offs before it, whole.
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


def report_role(lead: Agent, found: Round, name: str) -> RoleReport:
    """What the logs say of a role in a round of the team below `lead`."""
    state: State = "not begun"
    model, error, last = "", None, ""
    tries: dict[str, None] = {}
    for handoff in found.handoffs:
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
    saving = sum((_saved(lead, found, handoff) for handoff in found.handoffs if handoff.taker == name), Saving())
    return RoleReport(name, state, last, model, turns, billed.usage, billed.price, text, error, saving)


def _saved(lead: Agent, found: Round, begun: HandOff) -> Saving:
    """What a role was not sent for what its prompt leaves out of the hand-offs before it."""
    if (given := begun.given) is None:
        return Saving()
    missing = 0.0
    for name, said in {each.giver: each.said for each in found.handoffs if each.said.error is None}.items():
        if name in (*given.left_out, *given.visible) and said.size:
            own = [charge for charge in charges(read_agent(lead.log, said.agent)) if charge.role == EXECUTOR]
            tokens = own[-1].usage.output - own[-1].usage.reasoning if own else 0  # those of its answer
            shown = 0 if name in given.left_out else min(MOST_HANDED, said.size)
            missing += tokens * (1 - shown / said.size)
    if missing < 1:
        return Saving()
    from sagent.session.savings import save_ahead  # for few teams

    log = MemoryLogView(tuple(read_agent(lead.log, given.agent)))
    return save_ahead(log, lead.ledger.prices.price, round(missing))


def answer_of(log: Log, agent: str) -> str:
    """What an agent said last; "" where its log says nothing of it."""
    found = ""
    for each in branch_contents(read_agent(log, agent), MessageEntry):
        found = each.message.text if each.message.role == "assistant" else found
    return found


def _family(lead: Agent, path: str) -> Sequence[str]:
    """An agent and those below it that were billed anything."""
    billed = lead.ledger.totals().by_agent
    return sorted(agent for agent in billed if agent == path or agent.startswith(f"{path}/"))
