"""A run from a session's logs, its agents' entries put in the order in which they were written."""

import heapq
from collections.abc import Iterator, Sequence
from pathlib import Path

from sagent.events import Advice
from sagent.messages import DENIED
from sagent.session.contents import (
    AdviceOutcome,
    AdviceRated,
    ChargeEntry,
    Compacted,
    ConsultationEntry,
    Content,
    FailedEntry,
    Forked,
    Handoff,
    JobEntry,
    Label,
    MessageEntry,
    NoticeEntry,
    Opened,
    Repaired,
    ResultEntry,
    Returned,
    Spawned,
    SwitchedEntry,
)
from sagent.session.entries import Entry, parse_line
from sagent.session.names import agent_of
from sagent.session.stored import StoredMessage
from sagent.transcript import steps
from sagent.transcript.steps import Answered, Asked, Charged, Consulted, Damaged, Refused, Remark, Said, Step, Turn


def read_entries(session: Path, files: Sequence[Path]) -> Iterator[Step]:
    """The steps that a session's logs tell. A line that cannot be read is a step of its own. Raises OSError."""
    logs = [_Log(agent_of(session, file), file if len(files) > 1 else None) for file in files]
    streams = [log.steps(file) for log, file in zip(logs, files, strict=True)]
    for _, step in heapq.merge(*streams, key=lambda each: each[0]):
        yield step


def consulted_by(agent: str, advice: Advice) -> Consulted:
    """A consultation of an agent's, as a step."""
    name, said = advice.advisor or "advisor", (advice.verdict, advice.text, advice.reason, advice.question)
    return Consulted(agent, name, advice.model, advice.trigger, advice.status, *said, advice.seconds)


class _Log:
    """One agent's log. `file` is named in what is said of damage."""

    def __init__(self, agent: str, file: Path | None) -> None:
        self._agent = agent
        self._place = file.name if file else ""
        self._names: dict[str, str] = {}  # of calls, by their ids

    def steps(self, file: Path) -> Iterator[tuple[str, Step]]:
        """The steps, each with its time; a damaged line has that of the one before."""
        at = ""
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    entry = parse_line(line)
                    found = list(self._read(entry))
                except ValueError as error:
                    torn = "" if line.endswith(b"\n") else "; it has no end: its writer was killed, or is still at work"
                    yield at, Damaged(number, f"{error}{torn}", self._place)
                    continue
                at = entry.at
                for step in found:
                    yield at, step

    def _read(self, entry: Entry) -> Iterator[Step]:
        agent = self._agent
        match entry.content:
            case Opened(session, _, cwd):
                yield steps.Opened(agent, session, cwd=cwd, at=entry.at)
            case MessageEntry(message):
                yield from self._message(entry, message)
            case ResultEntry(result, seconds):
                name = self._names.get(result.call_id, "")
                if result.denied:
                    yield Refused(agent, result.call_id, name, result.text.removeprefix(DENIED))
                else:
                    yield Answered(agent, result.call_id, name, result.text, result.is_error, seconds)
            case ConsultationEntry(advice):
                yield consulted_by(agent, advice)
            case AdviceOutcome(name, reason=reason):
                yield Consulted(agent, name, "", "", "", reason=reason)
            case AdviceRated(name):
                yield Consulted(agent, name, "", "", "")
            case ChargeEntry(bill):
                usage = bill.usage
                model = f"{bill.provider}/{bill.model}"
                yield Charged(agent, bill.role, model, usage.total_input, usage.output, bill.usd)
            case content:
                yield from self._remark(entry.kind, content)

    def _message(self, entry: Entry, message: StoredMessage) -> Iterator[Step]:
        if message.role != "assistant":
            if text := message.text:
                yield Said(self._agent, text, message.sender)
            return
        calls = tuple(Asked(call.id, call.name, call.arguments) for call in message.calls)
        self._names |= {call.id: call.name for call in calls}
        yield Turn(self._agent, message.model, message.text, calls, message.stop, entry.at)

    def _remark(self, kind: str, content: Content) -> Iterator[Remark]:
        members: tuple[object, ...]
        match content:
            case SwitchedEntry(model, effort, _, advisor, reason):
                members = (model, effort, advisor, reason)
            case Compacted(_, before, after, reason):
                members = (reason, before, after)
            case FailedEntry(why, message):
                members = (why, message)
            case NoticeEntry(text) | Label(text):
                members = (text,)
            case Spawned(agent) | Returned(agent):
                members = (agent,)
            case JobEntry(job, state=state):
                members = (job, state)
            case Handoff(giver=giver, taker=taker):
                members = (giver, taker)
            case Forked() | Repaired():
                members = ()
            case _:
                return
        words = [str(member) for member in members if member != ""]
        yield Remark(self._agent, f"{kind}: {', '.join(words)}" if words else kind)
