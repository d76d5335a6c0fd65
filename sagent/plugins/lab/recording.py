"""A log as a list of turns with their input, request and reply, for replays and comparisons."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from sagent.codec import Fetch
from sagent.config import Settings
from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.names import path_of
from sagent.messages import Message, ToolCall, ToolResult
from sagent.model import ToolSpec
from sagent.plugins.audit.bundle import NAME, SESSION, is_bundle, open_bundle, read_manifest, unpacked
from sagent.sandbox.scratch import temporary
from sagent.session import contents
from sagent.session.entries import Entry, unreadable
from sagent.session.folds import origin
from sagent.session.log import read_log
from sagent.session.names import agent_of
from sagent.session.store import find, is_session, latest, named_logs
from sagent.usage import Charge


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """A message that entered the conversation from outside. `received` is the entry of its arrival, "" for the prompt
    of a run and for the engine's own messages."""

    entry: str
    message: Message
    received: str = ""

    @property
    def is_prompt(self) -> bool:
        """True for a person's prompt of a run."""
        return not self.received and not self.message.sender


@dataclass(frozen=True, slots=True)
class InheritedMessage:
    """A message inherited from another agent's conversation."""

    message: Message


Step: TypeAlias = IncomingMessage | InheritedMessage | contents.SwitchedEntry | contents.Compacted | contents.Forked


@dataclass(frozen=True, slots=True)
class Prompt:
    """The system prompt and the tools as sent. `ordered` names the tools whose schema has its original key order:
    version 1 of a log sorts keys."""

    system: str
    tools: tuple[ToolSpec, ...]
    ordered: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Turn:
    """A model call and its consequences. `before` are the events since the previous turn; `place` counts the log's
    entries before its request; `entry` identifies the turn: its request, or a substitute.

    `sent` is None without a complete reply, because then no request was logged; so is `reply` without any text.
    `failed` is the error that ended the run with this turn. `bills` are all charges since the previous turn. Times are
    UTC, ISO 8601: of the entry before its request, and of its last one.
    """

    number: int
    place: int
    before: tuple[Step, ...]
    prompt: Prompt | None
    entry: str = ""
    sent: contents.RequestSent | None = None
    said: str = ""  # the entry of the reply
    reply: Message | None = None
    answers: tuple[ToolResult, ...] = ()
    answered: str = ""  # its last entry
    bills: tuple[Charge, ...] = ()
    failed: contents.FailedEntry | None = None
    began: str = ""
    ended: str = ""

    @property
    def came(self) -> tuple[IncomingMessage, ...]:
        return tuple(step for step in self.before if isinstance(step, IncomingMessage))

    @property
    def prompted(self) -> bool:
        """True if a run begins with it."""
        return any(came.is_prompt for came in self.came)

    @property
    def was_interrupted(self) -> bool:
        return self.failed is not None and self.failed.kind == "interrupted"

    @property
    def answered_calls(self) -> list[tuple[ToolCall, ToolResult]]:
        """The turn's calls that have a result, in their order."""
        known = {result.call_id: result for result in self.answers}
        return [(call, known[call.id]) for call in (self.reply.calls if self.reply else ()) if call.id in known]

    @property
    def results(self) -> Message | None:
        """The message with the results, in the order of the calls; None if there are none."""
        found = tuple(result for _, result in self.answered_calls)
        return Message("user", found) if found else None

    @property
    def open_calls(self) -> tuple[str, ...]:
        """Calls without a result in the log."""
        known = {result.call_id for result in self.answers}
        return tuple(call.id for call in self.reply.calls if call.id not in known) if self.reply else ()


@dataclass(frozen=True, slots=True)
class Recording:
    """The log of one agent. `origin` is its first entry, `head` the id of its last one; `pending` came in after the
    last turn."""

    agent: str
    origin: contents.Opened
    turns: tuple[Turn, ...]
    pending: tuple[Step, ...] = ()
    head: str = ""

    @property
    def spoken(self) -> tuple[Message, ...]:
        """The messages of the person, in order, also on the branches that were left."""
        steps = (step for turn in self.turns for step in turn.before)
        came = (step.message for step in (*steps, *self.pending) if isinstance(step, IncomingMessage))
        return tuple(message for message in came if not message.sender)


def read_recording(agent: str, entries: Sequence[Entry], fetch: Fetch) -> Recording:
    """Return the turns of a log. Raises SessionCorrupt for an unreadable message."""
    reader = _Reader(entries, fetch)
    for place, entry in enumerate(entries):
        try:
            reader.read(place, entry)
        except (ValueError, RecursionError) as error:
            raise unreadable(entry, error) from error
    reader.close()
    head = entries[-1].id if entries else ""
    return Recording(agent, origin(entries), tuple(reader.turns), tuple(reader.before), head)


class _Reader:
    def __init__(self, entries: Sequence[Entry], fetch: Fetch) -> None:
        self.turns: list[Turn] = []
        self.before: list[Step] = []
        self._fetch = fetch
        self._prompt: Prompt | None = None
        self._turn: Turn | None = None  # the open turn
        self._at = ""
        self._loose: list[Charge] = []  # charges since the last turn was opened
        self._inherited = _last_inherited(entries)

    def read(self, place: int, entry: Entry) -> None:
        match entry.content:
            case contents.MessageEntry() as said:
                self._message(place, entry, said)
            case contents.RequestSent(role="") as request:
                self._open(place, entry)
                self._put(sent=request)
            case contents.ResultEntry(result):
                found = result.load(self._fetch)
                if self._turn is not None:
                    self._put(answers=(*self._turn.answers, found), answered=entry.id)
            case contents.PromptEntry() as prompt:
                self.close()
                self._prompt = read_prompt(prompt)
            case contents.FailedEntry() as failed:
                if self._turn is None:
                    self._open(place, entry)
                self._put(failed=failed)
            case contents.ChargeEntry(bill):
                self._bill(bill)
            case contents.SwitchedEntry() | contents.Compacted() | contents.Forked() as step:
                self._step(entry, step)
            case _:
                pass
        self._at = entry.at
        self._put(ended=entry.at)

    def close(self) -> None:
        if self._turn is not None:
            self.turns.append(self._turn)
            self._turn = None

    def _message(self, place: int, entry: Entry, content: contents.MessageEntry) -> None:
        message = content.message.load(self._fetch)
        if place <= self._inherited:
            self._step(entry, InheritedMessage(message))
        elif message.role == "user":
            self._step(entry, IncomingMessage(entry.id, message, content.received))
        else:
            if self._turn is None or self._turn.reply is not None or self._turn.failed is not None:
                self._open(place, entry)
            self._put(reply=message, said=entry.id)

    def _open(self, place: int, entry: Entry) -> None:
        self.close()
        number, before, bills = len(self.turns) + 1, tuple(self.before), tuple(self._loose)
        began = self._at or entry.at
        self._turn = Turn(number, place, before, self._prompt, entry.id, bills=bills, began=began)
        self.before.clear()
        self._loose.clear()

    def _step(self, entry: Entry, step: Step) -> None:
        self.close()
        self.before.append(step)

    def _bill(self, bill: Charge) -> None:
        if self._turn is not None:
            self._put(bills=(*self._turn.bills, bill))
        elif self.turns and not self.before:
            last = self.turns[-1]
            self.turns[-1] = replace(last, bills=(*last.bills, bill))
        else:
            self._loose.append(bill)

    def _put(self, **changed: object) -> None:
        if self._turn is not None:
            self._turn = replace(self._turn, **changed)


def _last_inherited(entries: Iterable[Entry]) -> int:
    """Return the place of the last message inherited from another agent (replies and results before any request); -1 if
    there is none."""
    last = -1
    for place, entry in enumerate(entries):
        if entry.kind in ("prompt", "request"):
            break
        said = entry.content if entry.kind == "message" else None
        if isinstance(said, contents.MessageEntry) and (said.message.role == "assistant" or said.message.has_results):
            last = place
    return last


def read_logs(session: Path) -> dict[str, tuple[Entry, ...]]:
    """Return the logs of a session, by their agents' paths."""
    return {agent_of(session, file): tuple(read_log(file)) for file in named_logs(session)}


def read_prompt(prompt: contents.PromptEntry) -> Prompt:
    """Return the prompt of an entry. Raises ValueError for an unreadable schema."""
    ordered = frozenset(tool.name for tool in prompt.tools if tool.ordered)
    return Prompt(prompt.system or "", tuple(tool.load() for tool in prompt.tools), ordered)


def name_of(session: Path, opened: contents.Opened) -> str:
    """Return the name of a session: its directory's, because a copy has a new one; in a bundle, the one in its log."""
    return session.name if session.name != SESSION.rstrip("/") else opened.session or session.name


def models_of(recording: Recording) -> Iterator[str]:
    """Yield every model that answered, as "provider/id", in order, each once."""
    yield from dict.fromkeys(turn.reply.model for turn in recording.turns if turn.reply and turn.reply.model)


# -- where recorded sessions are ---------------------------------------------------------------------------------------


def locate(settings: Settings, name: str | None) -> Path:
    """Return the session of a name; without a name, the last session of the directory. Raises UsageError."""
    if not name:
        return latest(settings.state_dir, settings.cwd, empty=True)
    path = path_of(name)
    path = path.parent if path.name == "root.jsonl" else path
    if path.is_dir() and (is_session(path) or unpacked(path)):
        return path.absolute()
    if path.is_file():
        if is_bundle(path):
            return path.absolute()
        raise UsageError(f"{name} is not a session's directory or an exported bundle.")
    return find(settings.state_dir, name, settings.cwd)


@contextmanager
def session_at(path: Path) -> Generator[Path]:
    """Yield the directory of a session, or of one in a bundle; a packed bundle is unpacked temporarily. Raises
    UsageError, also for a redacted bundle."""
    if path.is_dir():
        if unpacked(path):
            _check_redacted(path, (path / NAME).read_bytes())
        yield path / SESSION.rstrip("/") if unpacked(path) else path
        return
    with temporary() as home:
        places = open_bundle(path)[0]
        _check_redacted(path, places[NAME].read() if NAME in places else b"")
        for name, place in places.items():
            parts = PurePosixPath(name).parts
            if not name.startswith(SESSION) or ".." in parts:
                continue
            target = home.joinpath(*parts)
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with target.open("wb") as file:
                for piece in place.pieces():
                    file.write(piece)
        if not is_session(home / SESSION):
            raise UsageError(f"{path} has no session.")
        yield home / SESSION


def _check_redacted(path: Path, manifest: bytes) -> None:
    """Refuse a bundle with redacted secrets, as it cannot be read as a log. Raises UsageError."""
    with suppress(ValueError):  # `sagent verify` reports damaged ones
        if read_manifest(manifest).redacted:
            raise UsageError(f"{path}: secrets were taken out of it when it was exported. Name the original session.")
