"""Records of a session's tasks: a file of lines for each session, `a2a/SESSION.jsonl` in the state directory.

A line is synced to disk before it takes effect. The work itself is in the session's log: a record has the range of its
entries.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from a2a.types.a2a_pb2 import Message, TaskState, TaskStatus
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_object, as_str, wire_bytes
from sagent.lib.regular import read_given
from sagent.session.log import make_directory

State: TypeAlias = "TaskState"


@dataclass(slots=True)
class TaskRecord:
    """A task. `after` is the last entry of the log before it began, None while it waits; `head` its own last entry.
    `state` is None until it has ended, `text` is the reason."""

    id: str
    context: str
    at: datetime  # of the last known change
    said: list[Message] = field(default_factory=list[Message])
    digests: dict[str, str] = field(default_factory=dict[str, str])  # of messages, by id
    after: str | None = None
    head: str = ""
    state: "State | None" = None
    text: str = ""
    usage: Mapping[str, object] = field(default_factory=dict[str, object])

    def status(self) -> TaskStatus:
        """Return the state, and since when."""
        status = TaskStatus(state=self.state)
        status.timestamp.FromDatetime(self.at)
        return status


class RecordFile:
    """The records of one session, by task, in order of arrival. `context` is its id for the client, who may have chosen
    it; by default the session's own."""

    def __init__(self, directory: Path, session: str, context: str = "") -> None:
        self._file, self.context = directory / f"{session}.jsonl", context or session
        self.tasks: dict[str, TaskRecord] = {}
        self._ragged = False  # a killed process left half a line

    @classmethod
    def read(cls, file: Path) -> "RecordFile":
        """Read a file; half a line at its end never counted. Raises OSError."""
        found = cls(file.parent, file.stem)
        data = read_given(file)
        found._ragged = not data.endswith(b"\n")
        for line in data.splitlines():
            try:
                found._take(as_object(json.loads(line)))
            except (ValueError, KeyError, TypeError, ParseError):
                continue
        return found

    def accept(self, task: str, message: Message, digest: str) -> TaskRecord:
        """Return a new task, or a further message of one. Raises OSError."""
        self._write(task, context=self.context, message=MessageToDict(message), digest=digest)
        return self.tasks[task]

    def begin(self, task: str, after: str) -> None:
        self._write(task, begun=after)

    def end(self, task: str, state: State, text: str, head: str, usage: Mapping[str, object]) -> None:
        self._write(task, ended=TaskState.Name(state), text=text, head=head, usage=usage)

    def settle(self, task: str, state: State, text: str, head: str) -> None:
        """Record the end of a task that its server left open: nothing is known to have happened since."""
        at = self.tasks[task].at.isoformat(timespec="milliseconds")
        self._write(task, at=at, ended=TaskState.Name(state), text=text, head=head)

    def _write(self, task: str, **members: object) -> None:
        line = {"task": task, "at": datetime.now(UTC).isoformat(timespec="milliseconds"), **members}
        make_directory(self._file.parent)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self._file, flags, 0o600), "wb") as out:
            out.write((b"\n" if self._ragged else b"") + wire_bytes(line) + b"\n")
            out.flush()
            os.fsync(out.fileno())
        self._ragged = False
        self._take(line)

    def _take(self, line: Mapping[str, object]) -> None:
        name, at = as_str(line["task"]), datetime.fromisoformat(as_str(line["at"]))
        if "message" in line:
            message = ParseDict(dict(as_object(line["message"])), Message())
            self.context = as_str(line.get("context"), self.context)
            record = self.tasks.setdefault(name, TaskRecord(name, self.context, at))
            record.said.append(message)
            record.digests[message.message_id] = as_str(line.get("digest"))
        elif (record := self.tasks.get(name)) is None:
            return
        elif "begun" in line:
            record.after = as_str(line["begun"])
        elif "ended" in line:
            record.state = TaskStatus(state=as_str(line["ended"])).state
            record.text, record.head = as_str(line.get("text")), as_str(line.get("head"))
            record.usage = as_object(line.get("usage") or {})
        record.at = at
