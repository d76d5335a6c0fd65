"""The logs of a session as steps, in the order in which they were written."""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.errors import SessionCorrupt
from sagent.lib.dataclass import dataclass
from sagent.lib.names import quote_path
from sagent.messages import DENIED
from sagent.plugins.audit.segment import ASTRAY
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
    torn,
)
from sagent.rewind.plan import REWIND
from sagent.session import contents
from sagent.session.contents import StoredMessage
from sagent.session.entries import Entry, parse_line
from sagent.session.folds import LOST
from sagent.session.names import agent_of
from sagent.session.touches import Touched

if TYPE_CHECKING:
    from sagent.usage import Charge

MAX_NAMED_FILES = 20  # to list when files were rewound
_DETAILS: Mapping[type[contents.Content], Sequence[str]] = {
    contents.SwitchedEntry: ("model", "effort", "advisor", "reason"),
    contents.Compacted: ("reason", "before", "after"),
    contents.FailedEntry: ("kind", "message"),
    contents.NoticeEntry: ("text",),
    contents.Label: ("text",),
    contents.Spawned: ("agent", "model", "persistent"),
    contents.Returned: ("agent",),
    contents.MessageSent: ("to", "text"),
    contents.MessagePosted: ("to", "due"),
    contents.MessageDelivered: ("to",),
    contents.JobEntry: ("job", "tool", "state"),
    contents.Forked: (),
    contents.Repaired: ("reason", "dropped_bytes"),
}
"""The shown fields of entries that are remarks."""


@dataclass(slots=True)
class LogEnds:
    """Number of entries of a log, times of the first and the last, and the id of the last."""

    entries: int = 0
    first: str = ""
    last: str = ""
    head: str = ""


class SessionReader:
    """Reads some logs of a session. After all steps, `logs` has each log's range, by agent."""

    def __init__(self, session: Path, files: Sequence[Path]) -> None:
        self.logs: dict[str, LogEnds] = {}
        self._files = {file: LogReader(agent_of(session, file)) for file in files}

    def steps(self) -> Iterator[Step]:
        """Yield the steps. An unreadable line is a step of its own. Raises OSError."""
        streams = [_lines(file) for file in self._files]
        for _, file, number, found, damage in heapq.merge(*streams, key=lambda each: each[0]):
            log, error = self._files[file], found
            if isinstance(found, Entry):
                self._count(log.agent, found)
                try:
                    yield from log.read(found)
                    continue
                except SessionCorrupt as unreadable:
                    error = unreadable
            place = file.name if len(self._files) > 1 else ""
            yield Damaged(number, f"{error}{damage}", place, log.agent)
        for log in self._files.values():
            yield from (Charged(log.agent, charge) for charge in log.reserved.values())

    def _count(self, agent: str, entry: Entry) -> None:
        ends = self.logs.setdefault(agent, LogEnds(first=entry.at))
        ends.entries += 1
        ends.last, ends.head = entry.at, entry.id


def _lines(file: Path) -> Iterator[tuple[str, Path, int, Entry | ValueError | SessionCorrupt, str]]:
    """Yield the lines with their times, numbers, and damage: a damaged one has the time of the line before, and a clock
    that was set back does not change the order."""
    at, before = "", ""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                entry = parse_line(line)
            except ValueError as error:
                before = ""
                yield at, file, number, error, torn(line)
                continue
            if before not in ("", entry.parent) and entry.kind != "forked":
                yield at, file, number, ValueError(ASTRAY), ""
            at, before = max(at, entry.at), entry.id
            yield at, file, number, entry, torn(line)


class LogReader:
    """Reads the entries of one agent's log in order."""

    def __init__(self, agent: str) -> None:
        self.agent = agent
        self._names: dict[str, str] = {}  # of calls, by their ids
        self.reserved: dict[str, Charge] = {}  # for calls without a known end

    def read(self, entry: Entry) -> Iterable[Step]:
        """Return the steps of an entry. Raises SessionCorrupt for an unreadable one."""
        agent, at, content = self.agent, entry.at, entry.content
        self._follow(entry.id, content)
        match content:
            case contents.Opened(session, _, cwd, environment):
                return [Opened(agent, session, cwd=cwd, at=at, environment=environment)]
            case contents.Environment(facts):
                return [Checkout(agent, facts)]
            case contents.MessageEntry(message):
                return self._message(message, at)
            case contents.RequestSent(model=model, parameters=parameters, role=role):
                return [Requested(agent, role, model, parameters)]
            case contents.ResultEntry() as result:
                return [self._result(result)]
            case contents.ConsultationEntry(advice):
                return [Consulted(agent, advice, at, entry.id)]
            case contents.AdviceOutcome() | contents.AdviceRated() as judgement:
                return [Judged(agent, judgement, at)]
            case contents.ChargeEntry(charge):
                return [Charged(agent, charge)]
            case Touched(tool=tool, ended=ended, files=files):
                paths = [quote_path(touch.path) for touch in files]
                more = f" and {len(paths) - MAX_NAMED_FILES} more" if len(paths) > MAX_NAMED_FILES else ""
                named = ", ".join(paths[:MAX_NAMED_FILES]) + more
                return [Remark(agent, "files rewound", (("", named),), at)] if tool == REWIND and ended else []
            case contents.Repaired(has_lost_cost=True) as repaired:
                remark = Remark(agent, entry.kind, _details(entry.kind, repaired) or (), at)
                return [remark, Charged(agent, replace(LOST, agent=agent))]
            case _:
                details = _details(entry.kind, content)
                return [] if details is None else [Remark(agent, entry.kind, details, at)]

    def _follow(self, entry: str, content: contents.Content) -> None:
        match content:
            case contents.Reserved(charge):
                self.reserved[entry] = charge
            case contents.ChargeEntry(_, of) | contents.Released(of):
                self.reserved.pop(of, None)
            case _:
                pass

    def _message(self, message: StoredMessage, at: str) -> Iterable[Step]:
        text, media = "".join(message.texts("text", "opaque")), message.media
        if message.role != "assistant":
            return [MessageStep(self.agent, text, message.sender, at, media)] if text or media else []
        calls = message.calls
        self._names |= {call.id: call.name for call in calls}
        thinking = "\n\n".join(message.texts("thinking"))
        return [Turn(self.agent, message.model, text, calls, message.stop, at, thinking, media)]

    def _result(self, entry: contents.ResultEntry) -> Step:
        result = entry.result
        call, name = result.call_id, self._names.get(result.call_id, "")
        if result.denied:
            return Refused(self.agent, call, name, result.text.removeprefix(DENIED), entry.seconds)
        said, failed = result.text, result.is_error
        return Answered(self.agent, call, name, said, failed, entry.seconds, entry.diff, result.media)


def _details(kind: str, content: contents.Content) -> Sequence[tuple[str, str]] | None:
    """Return the details of a remark on an entry; None for an entry that is not shown."""
    if isinstance(content, contents.Handoff):
        return [(name, role) for name, role in (("from", content.giver), ("to", content.taker)) if role]
    names = () if kind == "closed" else _DETAILS.get(type(content))
    if names is None:
        return None
    members: list[tuple[str, object]] = [(name, getattr(content, name)) for name in names]
    return [(name, str(value)) for name, value in members if value not in ("", None)]
