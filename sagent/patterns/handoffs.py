"""Hand-offs between the roles of a team, as the log of the agent above them keeps them, and what can be read of it:
who has finished, with what words, at what cost."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from pathlib import Path
from typing import Literal, TypeAlias

from sagent.agent.agent import Agent
from sagent.events import Failure
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_int, as_object, as_str
from sagent.session.entries import Entry
from sagent.session.folds import branch, charges
from sagent.session.log import Log, read_log
from sagent.session.names import log_file
from sagent.usage import Sum, Usage

ASKER = ""
"""Stands for whoever asked the team: the first hand-off comes from there, the last one goes there."""

State: TypeAlias = Literal["not begun", "at work", "done", "failed", "kept"]
"""How a role stands. "kept" is done in an earlier run of the session, and not done again."""


@dataclass(frozen=True, slots=True)
class Said:
    """What is passed on: by which agent, and how many bytes of which sha256; or why there is nothing."""

    agent: str = ""
    sha256: str = ""
    size: int = 0
    error: Failure | None = None

    def encode(self) -> Mapping[str, object]:
        """As an entry keeps it."""
        if self.error is not None:
            return {"agent": self.agent, "error": {"kind": self.error.kind, "message": self.error.message}}
        return {"agent": self.agent, "sha256": self.sha256, "bytes": self.size}


@dataclass(frozen=True, slots=True)
class Given:
    """What a role begins with. `sha256` and `size`, in bytes, are of its prompt; `visible` and `left_out` are the roles
    whose hand-offs are in it and are only named. `budget` is its own, in USD, `cap` the team's."""

    agent: str
    sha256: str
    size: int
    model: str
    budget: Decimal | None = None
    cap: Decimal | None = None
    visible: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def encode(self) -> Mapping[str, object]:
        """As an entry keeps it. USD are texts: a log keeps every digit."""
        return {
            "agent": self.agent,
            "prompt_sha256": self.sha256,
            "prompt_bytes": self.size,
            "model": self.model,
            "budget_usd": None if self.budget is None else str(self.budget),
            "cap_usd": None if self.cap is None else str(self.cap),
            "visible": self.visible,
            "left_out": self.left_out,
        }


@dataclass(frozen=True, slots=True)
class HandOff:
    """One hand-off. `giver` and `taker` are roles; `given` is None where the taker does not begin with it yet.

    `entry` is the id of the log's entry.
    """

    giver: str
    taker: str
    said: Said
    given: Given | None
    entry: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class Round:
    """One task of a team, as far as it came. `answer` is None while it is open."""

    task: str
    handoffs: tuple[HandOff, ...]
    answer: str | None = None
    team: Mapping[str, object] = field(default_factory=dict[str, object])

    def finished(self, role: str) -> tuple[Said, Given] | None:
        """What a role has passed on, and what it was given for that; None where it has not, or has failed since."""
        given: Given | None = None
        found: tuple[Said, Given] | None = None
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
    """The last task of a team that a log tells of; None where its last request was none."""
    task, answer, team = "", None, as_object(None)
    handoffs: list[HandOff] = []
    for entry in branch(entries):
        if entry.kind == "handoff":
            body = entry.body
            team = as_object(body.get("team"))
            handoffs.append(_read(entry, body))
        elif entry.kind == "message":
            body = entry.body
            if body.get("role") == "assistant":
                answer = text_of(body)
            elif not body.get("sender"):
                task, answer = text_of(body), None
                handoffs.clear()
    return Round(task, tuple(handoffs), answer, team) if handoffs else None


def _read(entry: Entry, body: Mapping[str, object]) -> HandOff:
    said, given = as_object(body.get("said")), as_object(body.get("given"))
    error = as_object(said.get("error"))
    return HandOff(
        giver=as_str(body.get("from")),
        taker=as_str(body.get("to")),
        said=Said(
            as_str(said.get("agent")),
            as_str(said.get("sha256")),
            as_int(said.get("bytes")),
            Failure(as_str(error.get("kind")), as_str(error.get("message"))) if error else None,
        ),
        given=_read_given(given) if given else None,
        entry=entry.id,
        at=entry.at,
    )


def _read_given(given: Mapping[str, object]) -> Given:
    return Given(
        as_str(given.get("agent")),
        as_str(given.get("prompt_sha256")),
        as_int(given.get("prompt_bytes")),
        as_str(given.get("model")),
        _usd(given.get("budget_usd")),
        _usd(given.get("cap_usd")),
        tuple(map(as_str, as_array(given.get("visible")))),
        tuple(map(as_str, as_array(given.get("left_out")))),
    )


def _usd(value: object) -> Decimal | None:
    try:
        return Decimal(value) if isinstance(value, str) else None
    except ArithmeticError:
        return None


def text_of(body: Mapping[str, object]) -> str:
    """The visible text of a logged message."""
    parts = map(as_object, as_array(body.get("parts")))
    return "".join(as_str(part.get("text")) for part in parts if part.get("type") == "text")


# -- what a role has done ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RoleReport:
    """What a role came to, in all its tries. `usd` is None where a price is not known; `text` is what it passed on.

    `agent` and `model` are those of the last try; `turns` counts replies of models, `usage` includes that of agents
    below it and of advisors.
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


def report_role(lead: Agent, found: Round, name: str) -> RoleReport:
    """What the logs tell of a role in a round of the team below `lead`."""
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
            for charge in charges(_entries(lead.log, path)):
                billed.add(charge)
        told = (entry.body for entry in _entries(lead.log, agent) if entry.kind == "message")
        turns += sum(body.get("role") == "assistant" for body in told)
    text = answer_of(lead.log, last) if state == "done" else ""
    return RoleReport(name, state, last, model, turns, billed.usage, billed.price, text, error)


def answer_of(log: Log, agent: str) -> str:
    """What an agent said last; "" where its log tells nothing of it."""
    found = ""
    for entry in branch(_entries(log, agent)):
        if entry.kind == "message":
            body = entry.body
            found = text_of(body) if body.get("role") == "assistant" else found
    return found


def _family(lead: Agent, path: str) -> Sequence[str]:
    """An agent and those below it that were billed anything."""
    billed = lead.ledger.totals().by_agent
    return sorted(agent for agent in billed if agent == path or agent.startswith(f"{path}/"))


def _entries(log: Log, agent: str) -> Iterator[Entry]:
    """Another agent's log of the same session, which may have ended."""
    if not log.path:
        return log.child(agent).entries() if agent != log.agent else log.entries()
    file = log_file(Path(log.path), agent)
    return read_log(file) if file.exists() else iter(())
