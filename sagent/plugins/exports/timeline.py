"""A session as a page or document shows it: its steps, each turn with its number, its cost and the results of its
calls, and the totals."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from decimal import Decimal
from pathlib import Path
from typing import Literal, TypeAlias, assert_never

from sagent.cost.prices import PriceBook
from sagent.lib.dataclass import dataclass
from sagent.lib.diff import unified
from sagent.lib.json import as_array, as_object
from sagent.messages import DENIED
from sagent.plugins.audit.savings import add_savings
from sagent.plugins.exports.entries import LogEnds, SessionReader
from sagent.plugins.exports.steps import (
    Answered,
    Charged,
    Checkout,
    Consulted,
    Damaged,
    Judged,
    MessageStep,
    Opened,
    Refused,
    Remark,
    Requested,
    Step,
    Turn,
)
from sagent.session.contents import AdviceOutcome, AdviceRated, StoredCall, StoredMedia
from sagent.transcript.redaction import Redaction
from sagent.usage import Charge, Saving, Totals

MAX_TEXT_CHARS = 200_000  # of one text; the rest is cut
MAX_TITLE_CHARS = 80
_BLANK_CHARS = 4_000  # characters before the cut in which to look for a blank, so that no word is cut
MAX_PARAMETERS = 100  # different parameter sets to keep


@dataclass(slots=True)
class Call:
    """A tool call and its result; `state` is "" until it is known."""

    name: str
    arguments: Mapping[str, object]
    diff: str = ""
    state: Literal["", "done", "failed", "denied"] = ""
    result: str = ""
    seconds: float = 0.0
    media: tuple[StoredMedia, ...] = ()


@dataclass(slots=True)
class TurnShown:
    """A turn with its calls and cost from later steps; `number` counts the turns of its agent."""

    turn: Turn
    number: int
    calls: Sequence[Call]
    usd: Decimal | None = None


Shown: TypeAlias = MessageStep | TurnShown | Consulted | Remark
"""Anything with its own place in the timeline."""


@dataclass(slots=True)
class Member:
    path: str
    log: LogEnds = field(default_factory=LogEnds)
    models: dict[str, None] = field(default_factory=dict[str, None])
    turns: int = 0
    calls: int = 0


@dataclass(slots=True)
class Timeline:
    """A session's timeline. `damaged` lists lines that could not be read."""

    session: str = ""
    cwd: str = ""
    title: str = ""
    environment: dict[str, object] = field(default_factory=dict[str, object])
    shown: list[Shown] = field(default_factory=list[Shown])
    agents: dict[str, Member] = field(default_factory=dict[str, Member])
    spent: Totals = field(default_factory=Totals)
    tools: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    parameters: list[Mapping[str, object]] = field(default_factory=list[Mapping[str, object]])
    compactions: int = 0
    compacted: int = 0  # estimated tokens removed from the context
    saving: Saving = field(default_factory=Saving)  # USD at list prices
    damaged: list[str] = field(default_factory=list[str])

    def heading(self, redaction: Redaction) -> str:
        """Return the title in one line, redacted before it is cut."""
        return redaction.line(self.title, MAX_TITLE_CHARS)

    @property
    def first(self) -> str:
        return min((member.log.first for member in self.agents.values() if member.log.first), default="")

    @property
    def last(self) -> str:
        return max((member.log.last for member in self.agents.values()), default="")


def calls_of(timeline: Timeline) -> Iterator[tuple[int, Turn, Call]]:
    """Yield each call with its turn and the turn's place in the timeline."""
    for place, each in enumerate(timeline.shown):
        if isinstance(each, TurnShown):
            yield from ((place, each.turn, call) for call in each.calls)


def advisor_of(step: Consulted) -> str:
    return step.advice.advisor or "advisor"


def verdict_of(step: Consulted) -> str:
    """Return the verdict of the advice, or why there is none."""
    return step.advice.verdict or step.advice.status


def asked_of(step: Consulted) -> str:
    """Return the model, trigger, reason and question of a consultation, as far as known."""
    advice = step.advice
    return " · ".join(filter(None, (advice.model, advice.trigger, advice.reason, advice.question)))


def words_of(remark: Remark) -> str:
    """Describe a remark in a sentence made of its known details."""
    facts = {name: value for name, value in remark.details if value}
    pieces = _SENTENCES.get(remark.kind)
    if pieces is None:
        return ", ".join(filter(None, (remark.kind, *(f"{name} {value}".strip() for name, value in facts.items()))))
    known = (piece for piece in pieces if all(name in facts for name in _NAME.findall(piece)))
    return "".join(_NAME.sub(lambda name: _grouped(facts[name[1]]), piece) for piece in known)


_NAME = re.compile(r"\{(\w*)\}")
_SENTENCES: Mapping[str, Sequence[str]] = {
    "advice": ("The advice", " of {advisor}", " was {outcome}", ": {by}", ": {reason}"),
    "compacted": ("The context was compacted", ": about {before} tokens became {after}", " ({reason})"),
    "failed": ("It failed", ": {message}", " ({kind})"),
    "files rewound": ("Files were rewound: {}",),
    "forked": ("The session continues from an earlier point: a new branch begins here",),
    "handoff": ("Work was handed on", " from {from}", " to {to}"),
    "job": ("{job}", " ({tool})", " is {state}"),
    "notice": ("{text}",),
    "repaired": ("The log was repaired: {reason}", " ({dropped_bytes} bytes)"),
    "returned": ("{agent} is done",),
    "sent": ("A message", " to {to}", ", due {due}", ": {text}"),
    "spawned": ("{agent} begins", " with {model}"),
    "switched": ("Switched", " to {model}", ", effort {effort}", ": {advisor}", ": {reason}"),
}
"""Sentences for remarks: a piece is left out if one of its details is unknown."""


def _grouped(value: str) -> str:
    return f"{int(value):,}" if value.isdecimal() and value.isascii() and 4 < len(value) < 20 else value


def texts_of(shown: Shown) -> tuple[str, ...]:
    """Return all texts of a step except those of its calls."""
    match shown:
        case MessageStep(_, text):
            return (text,)
        case TurnShown(turn):
            return (turn.text, turn.thinking)
        case Consulted(_, advice):
            return (advice.text, asked_of(shown))
        case Remark():
            return (words_of(shown),)
        case _:
            assert_never(shown)


def read_timeline(session: Path, files: Sequence[Path]) -> Timeline:
    """Read the logs of a session into a timeline. Raises OSError."""
    reader, builder = SessionReader(session, files), _Builder()
    for step in reader.steps():
        builder.add(step)
    timeline = builder.timeline
    timeline.agents = {path: replace(builder.member(path), log=log) for path, log in reader.logs.items()}
    if timeline.compactions:
        timeline.saving = add_savings(files, PriceBook().price)
    return timeline


def timeline_of(steps: Iterable[Step]) -> Timeline:
    """Return the timeline of some steps."""
    builder = _Builder()
    for step in steps:
        builder.add(step)
    return builder.timeline


class _Builder:
    def __init__(self) -> None:
        self.timeline = Timeline()
        self._open: dict[tuple[str, str], Call] = {}
        self._turns: dict[str, TurnShown] = {}
        self._labelled = False

    def member(self, agent: str) -> Member:
        return self.timeline.agents.setdefault(agent, Member(agent))

    def add(self, step: object) -> None:  # noqa: C901 -- one arm for each class of the union
        timeline = self.timeline
        match step:
            case Opened("root") if not timeline.session:
                timeline.session, timeline.cwd = step.session, step.cwd
                timeline.environment.update(step.environment)
            case Checkout(_, facts):
                timeline.environment.update(facts)
            case MessageStep(_, text, sender):
                timeline.shown.append(replace(step, text=_bounded(text)))
                if not (sender or self._labelled or timeline.title):
                    timeline.title = text
            case Turn():
                self._turn(step)
            case Answered() | Refused():
                self._result(step)
            case Charged(_, charge):
                self._charge(charge)
            case Requested(_, role, model, parameters):
                named = {"role": role, "model": model, "parameters": parameters}
                sent = {name: value for name, value in named.items() if value}
                if sent not in timeline.parameters and len(timeline.parameters) < MAX_PARAMETERS:
                    timeline.parameters.append(sent)
            case Consulted():
                timeline.shown.append(replace(step, advice=replace(step.advice, text=_bounded(step.advice.text))))
            case Judged(agent, judgement, at):
                timeline.shown.append(Remark(agent, "advice", _judgement_details(judgement), at))
            case Remark(_, "label"):
                timeline.title, self._labelled = dict(step.details).get("text", ""), True
            case Remark(_, kind, details):
                if kind == "compacted":
                    tokens = dict(details)
                    timeline.compactions += 1
                    timeline.compacted += max(0, int(tokens["before"]) - int(tokens["after"]))
                timeline.shown.append(step)
            case Damaged(line, reason, _, agent):
                timeline.damaged.append(f"{agent}, line {line}: {reason}")
            case _:
                pass

    def _turn(self, turn: Turn) -> None:
        member = self.member(turn.agent)
        member.turns += 1
        member.calls += len(turn.calls)
        if turn.model:
            member.models[turn.model] = None
        calls = [_call(asked) for asked in turn.calls]
        for asked, call in zip(turn.calls, calls, strict=True):
            self._open[turn.agent, asked.id] = call
            self.timeline.tools.setdefault(call.name, Counter())["calls"] += 1
        bounded = replace(turn, text=_bounded(turn.text), thinking=_bounded(turn.thinking))
        shown = self._turns[turn.agent] = TurnShown(bounded, member.turns, calls)
        self.timeline.shown.append(shown)

    def _result(self, step: Answered | Refused) -> None:
        call = self._open.pop((step.agent, step.call), None)
        if call is None:
            return
        call.seconds = step.seconds
        if isinstance(step, Refused):
            call.state, call.result, call.diff = "denied", _bounded(DENIED + step.reason), ""
        else:
            call.state, call.result = "failed" if step.failed else "done", _bounded(step.what)
            call.diff = "" if step.failed else without_names(step.diff) or call.diff
            call.media = step.media
        counts = self.timeline.tools[call.name]
        counts["denied"] += call.state == "denied"
        counts["failed"] += call.state == "failed"

    def _charge(self, charge: Charge) -> None:
        charge = charge if charge.role else replace(charge, role="executor")
        self.timeline.spent.add(charge)
        turn = self._turns.get(charge.agent)
        if turn is not None and charge.role == "executor" and charge.usd is not None:
            turn.usd = (turn.usd or Decimal(0)) + charge.usd


def _judgement_details(judgement: AdviceOutcome | AdviceRated) -> Sequence[tuple[str, str]]:
    advisor, outcome = ("advisor", judgement.advisor), ("outcome", judgement.outcome)
    if isinstance(judgement, AdviceRated):
        return advisor, ("by", str(judgement.by)), outcome
    return advisor, ("of", judgement.of), outcome, ("reason", judgement.reason)


def _call(call: StoredCall) -> Call:
    try:
        arguments = as_object(json.loads(call.arguments))
    except (ValueError, RecursionError):
        arguments = {"arguments": call.arguments}
    return Call(call.name, arguments, _diff(arguments))


def _bounded(text: str) -> str:
    if len(text) <= MAX_TEXT_CHARS:
        return text
    end = max(text.rfind(blank, MAX_TEXT_CHARS - _BLANK_CHARS, MAX_TEXT_CHARS) for blank in " \n") + 1 or MAX_TEXT_CHARS
    return f"{text[:end]}\n[... {len(text) - end} characters more, in the log ...]"


def without_names(diff: str) -> str:
    """Return a unified diff without the two header lines, because the call names the file."""
    lines = diff.rstrip("\n").split("\n")
    return "\n".join(lines[2:] if lines[0].startswith("--- ") and len(lines) > 2 else lines)


def _diff(arguments: Mapping[str, object]) -> str:
    """Return the text change that a call's arguments request, as a diff without line numbers; "" if there is none."""
    edits = [as_object(edit) for edit in as_array(arguments.get("edits"))] or [arguments]
    pairs = [(edit.get("old_string"), edit.get("new_string")) for edit in edits]
    if isinstance(arguments.get("content"), str) and "file_path" in arguments:
        pairs = [("", arguments["content"])]
    shown: list[str] = []
    for old, new in pairs:
        if isinstance(old, str) and isinstance(new, str) and len(old) + len(new) < MAX_TEXT_CHARS:
            shown.append(unified(old.splitlines(), new.splitlines()))
    return "\n".join(filter(None, shown))
