"""Transcripts of opencode: rows of the database `~/.local/share/opencode/opencode.db`, read without writing to it."""

import sqlite3
from binascii import a2b_base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from sagent.errors import UsageError
from sagent.lib.json import as_array, as_int, as_object, as_str, json_parse
from sagent.messages import Part, StopReason
from sagent.plugins.transfer.pi import usd_of
from sagent.plugins.transfer.steps import MAX_DEPTH, Child, Draft, Spent, Transcript, iso_time, tasks, word
from sagent.usage import Usage

_STOPS: Mapping[str, StopReason] = {
    "stop": "end",
    "tool-calls": "tool_use",
    "length": "max_tokens",
    "content-filter": "content_filter",
    "error": "error",
}
_STEPS = ("step-start", "step-finish", "agent")


def connect(database: Path) -> sqlite3.Connection:
    """Open a database for reading. Raises UsageError."""
    try:
        connection = sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, timeout=5)
        with ExitStack() as failing:
            failing.callback(connection.close)
            connection.execute("select id, data from message limit 0")
            failing.pop_all()
    except (sqlite3.Error, ValueError) as error:
        raise UsageError(f"{database} cannot be read as opencode's database: {error}.") from error
    connection.text_factory = _text
    return connection


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def read_opencode(database: Path, session: str, *, own: bool) -> Transcript:
    """Return a session of opencode with its sub-agents. Raises UsageError if it cannot be read."""
    try:
        with closing(connect(database)) as connection:
            return _Reader(connection, database, session, own=own, depth=0, agents={session}).read()
    except sqlite3.Error as error:
        raise UsageError(f"{database} is damaged: {error}.") from error


class _Reader:
    def __init__(
        self, connection: sqlite3.Connection, file: Path, session: str, *, own: bool, depth: int, agents: set[str]
    ) -> None:
        self._connection, self._file, self._id, self._depth = connection, file, session, depth
        self._agents = agents  # ids of sessions, those of all levels together
        self._draft = Draft("opencode", own=own, depth=depth)
        self._spent: list[Spent] = []
        self._started: dict[str, str] = {}  # by sub-agent, the call that started it
        self._tail, self._begins_tail = "", False  # of a compaction whose summary follows

    def read(self) -> Transcript:
        rows = self._rows("select directory, title, version from session where id = ?")
        if not rows:
            raise UsageError(f"{self._file} has no session {word(self._id)}.")
        directory, title, version = map(as_str, rows[0])
        reverted = self._reverted()
        parts: dict[str, list[tuple[str, Mapping[str, object]]]] = {}
        for name, message, data in self._rows(
            "select id, message_id, data from part where session_id = ? order by message_id, id"
        ):
            parts.setdefault(as_str(message), []).append((as_str(name), self._object(data)))
        for name, created, data in self._rows(
            "select id, time_created, data from message where session_id = ? order by time_created, id"
        ):
            if reverted and as_str(name) >= reverted:
                self._draft.leave_out("a message that was taken back")
                continue
            self._take(as_str(name), self._object(data), parts.get(as_str(name), []), iso_time(created))
        rows = self._rows("select content, status from todo where session_id = ? order by position")
        todo = tasks([{"content": text, "status": status} for text, status in rows], "content")
        facts = (directory, title, version, tuple(self._spent), todo)
        children = tuple(self._children())
        return Transcript("opencode", self._id, self._file, self._draft.steps(), *facts, children, self._draft.left_out)

    def _rows(self, query: str) -> Sequence[Sequence[object]]:
        return self._connection.execute(query, (self._id,)).fetchall()

    def _reverted(self) -> str:
        """Return the id of the first message that the person took back, "" for none."""
        with suppress(sqlite3.OperationalError, IndexError):  # earlier versions have no such column
            (held,) = self._rows("select revert from session where id = ?")[0]
            return as_str(self._object(held).get("messageID")) if held else ""
        return ""

    def _object(self, data: object) -> Mapping[str, object]:
        try:
            return as_object(json_parse(as_str(data)))
        except (ValueError, RecursionError):
            self._draft.leave_out("a damaged row")
            return {}

    def _take(
        self, key: str, message: Mapping[str, object], parts: Sequence[tuple[str, Mapping[str, object]]], at: str
    ) -> None:
        if message.get("role") == "assistant":
            self._take_reply(key, message, [part for _, part in parts], at)
        elif message.get("role") == "user":
            self._take_prompt(key, [part for _, part in parts], at)
        else:
            self._draft.leave_out(f"a message of the role {word(message.get('role'))}")

    def _take_prompt(self, key: str, parts: Sequence[Mapping[str, object]], at: str) -> None:
        """Take the person's words, and before them what the program added to them."""
        draft = self._draft
        said: list[Part] = []
        added: list[Part] = []
        for part in parts:
            into = added if part.get("synthetic") is True else said
            match part.get("type"):
                case "text":
                    into += draft.text(part.get("text"))
                case "file":
                    said += self._file_part(part)
                case "compaction":
                    self._tail = as_str(part.get("tail_start_id"))
                    self._begins_tail = True
                case "subtask":
                    into += draft.text(f"{as_str(part.get('description'))}: {as_str(part.get('prompt'))}")
                case kind if kind in _STEPS:
                    pass
                case kind:
                    draft.leave_out(f"a part of a message: {word(kind)}")
        draft.tell(added, at)
        number = draft.say(said, at, key)
        draft.alias(key, number if number >= 0 else draft.size)

    def _take_reply(
        self, key: str, message: Mapping[str, object], parts: Sequence[Mapping[str, object]], at: str
    ) -> None:
        draft = self._draft
        provider, model = as_str(message.get("providerID")), as_str(message.get("modelID"))
        self._bill(message, provider, model)
        if message.get("summary") is True:
            text = "\n".join(as_str(part.get("text")) for part in parts if part.get("type") == "text")
            kept = list(draft.numbers_since(self._tail)) if self._tail else []
            draft.compact(text, kept)
            return
        stop: StopReason | None = _STOPS.get(as_str(message.get("finish")))
        error = as_str(as_object(message.get("error")).get("name"))
        if error:
            stop = "interrupted" if error == "MessageAbortedError" else "error"
            draft.leave_out(f"an error message of the program: {word(error)}")
        made: list[Part] = []
        answers: list[Mapping[str, object]] = []
        for part in parts:
            match part.get("type"):
                case "text":
                    made += draft.text(part.get("text"))
                case "reasoning":
                    made += draft.thinking(part.get("text"))
                case "tool":
                    made += draft.call(part.get("callID"), part.get("tool"), as_object(part.get("state")).get("input"))
                    answers.append(part)
                case "file":
                    made += self._attached(part)
                case kind if kind in _STEPS:
                    pass
                case kind:
                    draft.leave_out(f"a part of a reply: {word(kind)}")
        stop = None if stop in ("interrupted", "error") and answers else stop  # its calls were answered
        number = draft.reply(made, f"{provider}/{model}" if model else "", stop, at, key)
        draft.alias(key, number if number >= 0 else draft.size)
        for part in answers:
            self._take_result(part)

    def _take_result(self, part: Mapping[str, object]) -> None:
        draft, state = self._draft, as_object(part.get("state"))
        child = as_str(as_object(state.get("metadata")).get("sessionId"))
        if child:
            self._started[child] = as_str(part.get("callID"))
        match state.get("status"):
            case "completed":
                parts = draft.text(state.get("output"))
                for each in map(as_object, as_array(state.get("attachments"))):
                    parts += self._attached(each)
                draft.answer(part.get("callID"), parts)
            case "error":
                draft.answer(part.get("callID"), draft.text(state.get("error")), failed=True)
            case _:
                draft.leave_out("a call that had not ended")

    def _attached(self, part: Mapping[str, object]) -> list[Part]:
        """Return a file of a reply or a result, whose text stands nowhere else."""
        mime, (head, _, data) = as_str(part.get("mime")), as_str(part.get("url")).partition(";base64,")
        if not mime.startswith("text/") and mime != "application/x-directory":
            return self._file_part(part)
        try:
            text = a2b_base64(data).decode("utf-8", "replace") if head.startswith("data:") else ""
        except ValueError:
            text = ""
        if not text:
            self._draft.leave_out("a file that the transcript only names")
        return self._draft.text(text)

    def _file_part(self, part: Mapping[str, object]) -> list[Part]:
        mime = as_str(part.get("mime"))
        if mime.startswith("text/") or mime == "application/x-directory":
            return []  # its content is a text beside it
        return self._draft.media_url(part.get("url"), as_str(part.get("filename")))

    def _bill(self, message: Mapping[str, object], provider: str, model: str) -> None:
        tokens = as_object(message.get("tokens"))
        cache = as_object(tokens.get("cache"))
        reasoning = as_int(tokens.get("reasoning"))
        counted = Usage(
            input=as_int(tokens.get("input")),
            cache_read=as_int(cache.get("read")),
            cache_write=as_int(cache.get("write")),
            output=as_int(tokens.get("output")) + reasoning,
            reasoning=reasoning,
        )
        if counted != Usage():
            self._spent.append(Spent(provider, model, counted, usd_of(message.get("cost"))))

    def _children(self) -> Iterator[Child]:
        for row in self._rows("select id, slug from session where parent_id = ? order by time_created, id"):
            name, slug = map(as_str, row)
            if self._depth >= MAX_DEPTH or name in self._agents:
                self._draft.leave_out("a sub-agent that is too deep, or was taken over already")
                continue
            self._agents.add(name)
            reader = _Reader(self._connection, self._file, name, own=False, depth=self._depth + 1, agents=self._agents)
            yield Child(slug or name, self._started.get(name, ""), reader.read())
