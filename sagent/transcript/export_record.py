"""What happened in a session, agent by agent and turn by turn: calls with their results, consultations,
charges and everything else, in the order in which it was written."""

import difflib
import heapq
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from pathlib import Path

from sagent.events import Advice
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_object
from sagent.lib.names import quote_path
from sagent.rewind.plan import REWIND
from sagent.session.contents import (
    AdviceOutcome,
    AdviceRated,
    ChargeEntry,
    Compacted,
    ConsultationEntry,
    Content,
    Environment,
    FailedEntry,
    Forked,
    Handoff,
    JobEntry,
    Label,
    MessageDelivered,
    MessageEntry,
    MessagePosted,
    MessageSent,
    NoticeEntry,
    Opened,
    Repaired,
    RequestSent,
    ResultEntry,
    Returned,
    Spawned,
    SwitchedEntry,
)
from sagent.session.entries import Entry, parse_line
from sagent.session.names import agent_of
from sagent.session.stored import StoredMessage
from sagent.session.touches import Touched
from sagent.usage import Charge, Usage

MOST_TEXT = 200_000  # characters of one text that are kept
MOST_FILES = 20  # that are named where files were wound back


@dataclass(slots=True)
class Call:
    """A tool call and what came of it. `done` is False while its result is not known; `media` are type and blob."""

    id: str
    name: str
    arguments: Mapping[str, object]
    result: str = ""
    done: bool = False
    failed: bool = False
    denied: bool = False
    seconds: float = 0.0
    diff: str = ""
    media: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


@dataclass(slots=True)
class Block:
    """One thing that happened. `kind` is "said", "turn", "advice" or "note"; `number` counts an agent's turns."""

    kind: str
    agent: str
    at: str
    title: str = ""
    text: str = ""
    thinking: str = ""
    number: int = 0
    stop: str = ""
    status: str = ""
    usd: Decimal | None = None
    calls: list[Call] = field(default_factory=list[Call])
    media: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


@dataclass(slots=True)
class Sums:
    """What some calls of models came to; `unpriced` counts those without a known price."""

    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    usd: Decimal = Decimal(0)
    unpriced: int = 0


@dataclass(slots=True)
class Member:
    """An agent of the tree."""

    path: str
    models: dict[str, None] = field(default_factory=dict[str, None])
    turns: int = 0
    calls: int = 0
    entries: int = 0
    first: str = ""
    last: str = ""
    head: str = ""


@dataclass(slots=True)
class Record:
    """A session as it is shown. Times are UTC, ISO 8601; `damaged` are lines that could not be read."""

    session: str = ""
    cwd: str = ""
    title: str = ""
    environment: dict[str, object] = field(default_factory=dict[str, object])
    blocks: list[Block] = field(default_factory=list[Block])
    agents: dict[str, Member] = field(default_factory=dict[str, Member])
    by_role: dict[str, Sums] = field(default_factory=dict[str, Sums])
    by_model: dict[str, Sums] = field(default_factory=dict[str, Sums])
    by_agent: dict[str, Sums] = field(default_factory=dict[str, Sums])
    tools: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    parameters: list[Mapping[str, object]] = field(default_factory=list[Mapping[str, object]])
    compactions: int = 0
    compacted: int = 0  # tokens that left the context, as estimated
    damaged: list[str] = field(default_factory=list[str])

    @property
    def total(self) -> Sums:
        """Of everything."""
        total = Sums()
        for sums in self.by_role.values():
            total.calls += sums.calls
            total.usage += sums.usage
            total.usd += sums.usd
            total.unpriced += sums.unpriced
        return total

    @property
    def first(self) -> str:
        """When it began."""
        return min((member.first for member in self.agents.values() if member.first), default="")

    @property
    def last(self) -> str:
        """When the last thing happened."""
        return max((member.last for member in self.agents.values()), default="")


def read_record(session: Path, files: Sequence[Path]) -> Record:
    """What the logs of a session tell. Raises OSError."""
    reader = _Reader()
    streams = [_entries(agent_of(session, file), file, reader.record.damaged) for file in files]
    for _, agent, entry in heapq.merge(*streams, key=lambda item: item[0]):
        reader.read(agent, entry)
    return reader.record


def _entries(agent: str, file: Path, damaged: list[str]) -> Iterator[tuple[str, str, Entry]]:
    at = ""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                entry = parse_line(line)
            except ValueError as error:
                damaged.append(f"{agent}, line {number}: {error}")
                continue
            at = max(at, entry.at)  # a clock that went back does not change the order
            yield at, agent, entry


class _Reader:
    """Puts a record together."""

    def __init__(self) -> None:
        self.record = Record()
        self._open: dict[tuple[str, str], Call] = {}
        self._turns: dict[str, Block] = {}
        self._labelled = False

    def read(self, agent: str, entry: Entry) -> None:
        """One more entry."""
        record = self.record
        member = record.agents.setdefault(agent, Member(agent, first=entry.at))
        member.entries += 1
        member.last, member.head = entry.at, entry.id
        try:
            content = entry.content
        except ValueError as error:
            record.damaged.append(f"{agent}, entry {entry.id}: {error}")
            return
        match content:
            case Opened():
                self._opened(agent, content)
            case Environment(facts):
                record.environment.update(facts)
            case MessageEntry(message):
                self._message(member, entry, message)
            case ResultEntry():
                self._result(agent, content)
            case ChargeEntry(bill):
                self._spent(bill)
            case RequestSent():
                self._request(content)
            case ConsultationEntry(advice):
                self._advice(agent, entry, advice)
            case Label(text):
                record.title, self._labelled = text, True
            case _:
                self._note(agent, entry, content)

    def _opened(self, agent: str, opened: Opened) -> None:
        if agent == "root" and not self.record.session:
            self.record.session = opened.session
            self.record.cwd = opened.cwd
            self.record.environment.update(opened.environment)

    def _message(self, member: Member, entry: Entry, message: StoredMessage) -> None:
        text, media = "".join(message.texts("text", "opaque")), list[tuple[str, str]](message.media)
        if message.role != "assistant":
            if text or media:
                who = message.sender
                self._add(Block("said", member.path, entry.at, who or "person", _bounded(text), media=media))
                if not who and not self._labelled and not self.record.title:
                    self.record.title = " ".join(text.split())[:80]
            return
        member.turns += 1
        model = message.model
        if model:
            member.models[model] = None
        thinking = "\n\n".join(message.texts("thinking"))
        turn = Block("turn", member.path, entry.at, model, _bounded(text), _bounded(thinking), member.turns)
        turn.stop, turn.media = message.stop, media
        for asked in message.calls:
            call = Call(asked.id, asked.name, _arguments(asked.arguments))
            call.diff = _diff(call)
            turn.calls.append(call)
            self._open[member.path, call.id] = call
            member.calls += 1
            self.record.tools.setdefault(call.name, Counter())["calls"] += 1
        self._turns[member.path] = turn
        self._add(turn)

    def _result(self, agent: str, entry: ResultEntry) -> None:
        result = entry.result
        call = self._open.pop((agent, result.call_id), None)
        if call is None:
            return
        call.result = _bounded(result.text)
        call.media = list(result.media)
        call.done, call.failed, call.denied = True, result.is_error, result.denied
        call.seconds = entry.seconds
        call.diff = "" if call.failed else _without_names(entry.diff) or call.diff
        counts = self.record.tools.setdefault(call.name, Counter())
        counts["denied"] += call.denied
        counts["failed"] += call.failed and not call.denied

    def _spent(self, bill: Charge) -> None:
        model = f"{bill.provider}/{bill.model}"
        for sums, name in (
            (self.record.by_role, bill.role or "executor"),
            (self.record.by_model, model),
            (self.record.by_agent, bill.agent),
        ):
            found = sums.setdefault(name, Sums())
            found.calls += 1
            found.usage += bill.usage
            found.usd += bill.usd or Decimal(0)
            found.unpriced += bill.usd is None
        turn = self._turns.get(bill.agent)
        if turn is not None and bill.role == "executor" and bill.usd is not None:
            turn.usd = (turn.usd or Decimal(0)) + bill.usd

    def _request(self, request: RequestSent) -> None:
        members = {"role": request.role, "model": request.model, "parameters": request.parameters}
        sent = {name: value for name, value in members.items() if value}
        if sent not in self.record.parameters and len(self.record.parameters) < 100:
            self.record.parameters.append(sent)

    def _advice(self, agent: str, entry: Entry, advice: Advice) -> None:
        status = advice.verdict or advice.status
        block = Block("advice", agent, entry.at, advice.advisor or "advisor", _bounded(advice.text), status=status)
        asked = (advice.model, advice.trigger, advice.reason, advice.question)
        block.thinking = " · ".join(words for words in asked if words)
        block.stop = advice.status
        self._add(block)

    def _note(self, agent: str, entry: Entry, content: Content) -> None:
        if isinstance(content, Compacted):
            self.record.compactions += 1
            self.record.compacted += max(0, content.before - content.after)
        if isinstance(content, Touched):
            if content.tool == REWIND and content.ended:
                files = [quote_path(touch.path) for touch in content.files]
                more = f" and {len(files) - MOST_FILES} more" if len(files) > MOST_FILES else ""
                self._add(Block("note", agent, entry.at, "files wound back", ", ".join(files[:MOST_FILES]) + more))
            return
        if (words := _noted(entry.kind, content)) is not None:
            self._add(Block("note", agent, entry.at, entry.kind, ", ".join(words)))

    def _add(self, block: Block) -> None:
        self.record.blocks.append(block)


_NOTED: Mapping[type[Content], tuple[str, ...]] = {
    SwitchedEntry: ("model", "effort", "advisor", "reason"),
    Compacted: ("reason", "before", "after"),
    FailedEntry: ("kind", "message"),
    NoticeEntry: ("text",),
    Spawned: ("agent", "model", "persistent"),
    Returned: ("agent",),
    MessageSent: ("to", "text"),
    MessagePosted: ("to", "due"),
    MessageDelivered: ("to",),
    JobEntry: ("job", "tool", "state"),
    Forked: (),
    Repaired: ("kept", "dropped_bytes"),
}
"""What is shown of other entries, member by member."""


def _noted(kind: str, content: Content) -> Sequence[str] | None:
    """An entry in words; None for one that is not shown."""
    if isinstance(content, Handoff):
        return [f"{name} {role}" for name, role in (("from", content.giver), ("to", content.taker)) if role]
    if isinstance(content, AdviceOutcome):
        advisor, of, outcome, reason = content.advisor, content.of, content.outcome, content.reason
        return [f"advisor: {advisor}", f"of: {of}", f"outcome: {outcome}", f"reason: {reason}"]
    if isinstance(content, AdviceRated):
        return [f"advisor: {content.advisor}", f"by: {content.by}", f"outcome: {content.outcome}"]
    names = () if kind == "closed" else _NOTED.get(type(content))
    if names is None:
        return None
    members: list[tuple[str, object]] = [(name, getattr(content, name)) for name in names]
    return [f"{name} {value}" for name, value in members if value != ""]


def _arguments(text: str) -> Mapping[str, object]:
    try:
        return as_object(json.loads(text))
    except (ValueError, RecursionError):
        return {"arguments": text}


def _bounded(text: str) -> str:
    if len(text) <= MOST_TEXT:
        return text
    return f"{text[:MOST_TEXT]}\n[... {len(text) - MOST_TEXT} characters more, in the log ...]"


def _without_names(diff: str) -> str:
    """A unified diff without its first two lines: the call tells which file it is."""
    lines = diff.rstrip("\n").split("\n")
    return "\n".join(lines[2:] if lines[0].startswith("--- ") and len(lines) > 2 else lines)


def _diff(call: Call) -> str:
    """The change that a call asks for, where its arguments tell: of a file's text, not of the lines' numbers."""
    edits = [as_object(edit) for edit in as_array(call.arguments.get("edits"))] or [call.arguments]
    pairs = [(edit.get("old_string"), edit.get("new_string")) for edit in edits]
    if isinstance(call.arguments.get("content"), str) and "file_path" in call.arguments:
        pairs = [("", call.arguments["content"])]
    shown: list[str] = []
    for old, new in pairs:
        if isinstance(old, str) and isinstance(new, str) and len(old) + len(new) < MOST_TEXT:
            before, after = old.splitlines(), new.splitlines()
            if len(before) * len(after) > 40_000:  # comparing takes time in proportion to this
                shown += ["@@", *(f"-{line}" for line in before), *(f"+{line}" for line in after)]
                continue
            rows = difflib.unified_diff(before, after, n=3, lineterm="")
            shown += [row for row in rows if not row.startswith(("---", "+++"))]
    return "\n".join(shown)
