"""The outcome of finished tasks, from the log of their session."""

from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from a2a.types.a2a_pb2 import Message, Task, TaskState, TaskStatus

from sagent.errors import SessionCorrupt
from sagent.lib.dataclass import dataclass
from sagent.plugins.a2a.parts import agent_message, answer_artifact, diff_artifact, struct_of
from sagent.plugins.a2a.records import RecordFile, State, TaskRecord
from sagent.session.contents import FailedEntry, MessageEntry, ResultEntry
from sagent.session.entries import Entry
from sagent.session.lock import in_use
from sagent.session.log import read_log

_WAITED = "The server stopped before it began this task. Nothing was done: send the message again."
_STOPPED = "The server stopped while it worked on this task. Send a message with this contextId to continue."
_ELSEWHERE = "Another process has this session open."


@dataclass(frozen=True, slots=True)
class _Work:
    """The entries of a task, in short."""

    texts: Sequence[str]  # of replies with calls
    answer: str | None
    diffs: Sequence[str]
    failure: str


def show_past(session: Path, records: Mapping[str, TaskRecord], wanted: Iterable[str]) -> Mapping[str, Task]:
    """Return the tasks with some ids of a session's directory. May block."""
    names = set(wanted)
    try:
        works = _works(session, records)
    except (SessionCorrupt, OSError) as error:
        text = f"The session's log cannot be read: {error}"
        works, lost = dict[str, _Work](), text
    else:
        lost = ""
    busy = any(records[name].state is None for name in names) and in_use(session)
    return {name: _show(records[name], works.get(name), lost, busy=busy) for name in names}


def settle_past(session: Path, file: RecordFile, running: Container[str]) -> None:
    """Record how the tasks of a killed server ended, before anything else happens in their session. May block."""
    left = [name for name, record in file.tasks.items() if record.state is None and name not in running]
    if not left:
        return
    head = ""
    with suppress(SessionCorrupt, OSError):
        for entry in read_log(session / "root.jsonl"):
            head = entry.id
    for name, task in show_past(session, file.tasks, left).items():
        if task.status.state != TaskState.TASK_STATE_WORKING:
            text = "".join(part.text for part in task.status.message.parts)
            file.settle(name, task.status.state, text, head if file.tasks[name].after is not None else "")


def _works(session: Path, records: Mapping[str, TaskRecord]) -> dict[str, _Work]:
    starts = {record.after: name for name, record in records.items() if record.after is not None}
    ends = {record.head for record in records.values() if record.head}
    found: dict[str, list[Entry]] = {}
    current: str | None = None
    for entry in read_log(session / "root.jsonl"):
        if current is not None:
            found[current].append(entry)
        if entry.id in ends:
            current = None
        if entry.id in starts:  # even if the task before it never ended
            current = starts[entry.id]
            found[current] = []
    return {name: _read(entries) for name, entries in found.items()}


def _read(entries: Iterable[Entry]) -> _Work:
    texts: list[str] = []
    diffs: list[str] = []
    answer, failure = None, ""
    for entry in entries:
        match entry.content:
            case MessageEntry(message) if message.role == "assistant":
                answer = None
                if not message.calls and message.stop in ("end", "stop_sequence"):
                    answer = message.text
                elif message.text:
                    texts.append(message.text)
            case MessageEntry(message):  # its calls were answered, or another message followed
                if answer is not None:
                    texts.append(answer)
                answer = None
            case ResultEntry(diff=diff) if diff:
                diffs.append(diff)
            case FailedEntry(_, failure):
                pass
            case _:
                pass
    return _Work(texts, answer, diffs, failure)


def _show(record: TaskRecord, work: _Work | None, lost: str, *, busy: bool) -> Task:
    state, text = _state(record, work, lost, busy=busy)
    status = TaskStatus(state=state)
    status.timestamp.FromDatetime(record.at)
    if text:
        status.message.CopyFrom(agent_message(text, f"{record.id}-end", record.id, record.context))
    task = Task(id=record.id, context_id=record.context, status=status, history=record.said)
    if work is not None:
        task.history.extend(said_by_agent(record, work.texts))
        task.artifacts.extend(diff_artifact(diff, number) for number, diff in enumerate(work.diffs, 1))
        if work.answer:
            task.artifacts.append(answer_artifact(work.answer))
    if record.usage:
        task.metadata.CopyFrom(struct_of(record.usage))
    return task


def said_by_agent(record: TaskRecord, texts: Sequence[str]) -> list[Message]:
    """Return the agent's messages between a prompt and the answer."""
    return [
        agent_message(text, f"{record.id}-{number}", record.id, record.context) for number, text in enumerate(texts, 1)
    ]


def _state(record: TaskRecord, work: _Work | None, lost: str, *, busy: bool) -> tuple[State, str]:
    if record.state is not None:
        return record.state, record.text or lost
    if busy:
        return TaskState.TASK_STATE_WORKING, _ELSEWHERE
    if lost:
        return TaskState.TASK_STATE_FAILED, lost
    if work is None:
        return TaskState.TASK_STATE_FAILED, _WAITED
    if work.answer is not None:
        return TaskState.TASK_STATE_COMPLETED, ""
    return TaskState.TASK_STATE_FAILED, work.failure or _STOPPED
