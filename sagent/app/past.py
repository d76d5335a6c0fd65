"""Opens a session for writing, and reads the facts that an earlier run logged."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from sagent.config import Settings
from sagent.errors import SagentError, SessionNotFound, UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.text import failure
from sagent.messages import Message
from sagent.model import Model
from sagent.session.contents import Content, Environment, PromptEntry, SwitchedEntry
from sagent.session.entries import kind_of
from sagent.session.folds import history, last_model
from sagent.session.log import FileLog, Log, MemoryLog
from sagent.session.names import agent_of, is_session_id
from sagent.session.store import Session, copy, find, is_damaged, is_session, latest, log_files, unusable
from sagent.session.view import LogView
from sagent.tool import Tool
from sagent.usage import Charge

C = TypeVar("C", bound=Content)


@dataclass(frozen=True, slots=True)
class Past:
    """Facts that an earlier run logged; nothing for a new session."""

    messages: tuple[Message, ...] = ()
    charges: Iterable[Charge] = ()  # read from the logs on demand
    system: str | None = None
    model: str = ""  # that answered last, or that was switched to since
    agents: tuple[str, ...] = ()
    sandbox: str = ""  # means of the sandbox
    address: str = ""  # address of its model, if not the provider's own
    advisors: tuple[str, ...] = ()  # changes of advisors, oldest first
    proposes: bool = False  # plans, by a tool
    resumed: bool = False


class SessionMirror(Protocol):
    """Mirrors a session in another place, and makes its agents wait for that before any visible effect."""

    def follow(self, session: Session) -> None:
        """Start mirroring a newly opened session without new entries. May be called in another thread."""
        ...

    def model(self, model: Model) -> Model:
        """Return the model with calls that wait for the mirror; unchanged if it waits already."""
        ...

    def tools(self, tools: Sequence[Tool]) -> list[Tool]:
        """Return the tools; calls that may change something wait for the mirror."""
        ...


def open_log(
    settings: Settings, stack: AsyncExitStack, notices: list[str], keeper: SessionMirror | None
) -> tuple[Log, Past]:
    """Return the session's log and what is in it. If a new session cannot be written, it is kept in memory, with a
    notice. An earlier one is not: without its history it would be another conversation. Raises UsageError."""
    if not settings.ephemeral:
        try:
            return _open_file_log(settings, stack, notices, keeper)
        except OSError as error:
            told = failure(unusable(error, settings.session or settings.state_dir))
            named = settings.session is not None and _is_named(settings, settings.session)
            if settings.continue_session or settings.fork is not None or named or keeper is not None:
                start = "Or start without --continue, --session and --fork."
                raise UsageError(f"The session cannot be opened for writing: {told} {start}") from error
            notices.append(f"The session cannot be saved: {told} This run is not recorded.")
    log = MemoryLog()
    stack.callback(log.close)
    return log, Past()


def _is_named(settings: Settings, path: Path) -> bool:
    """Return True if the setting names an existing session, by path or id."""
    try:
        if not (is_session(path) or is_damaged(path)):
            find(settings.state_dir, path.name if path.parent == settings.cwd else str(path), settings.cwd)
    except (SagentError, OSError) as error:
        return isinstance(error, OSError)
    return True


def _open_file_log(
    settings: Settings, stack: AsyncExitStack, notices: list[str], keeper: SessionMirror | None
) -> tuple[Log, Past]:
    session, resumed = _open_session(settings, mirrored=keeper is not None)
    if keeper is not None:
        keeper.follow(session)
    log = session.log()
    if resumed and log.head:
        stack.push(partial(_close, session, log.head if settings.fork is not None else ""))
        notices.extend(session.losses())
        return log, _read_past(log, session)
    first = session.begin(settings.cwd)
    stack.callback(session.close_begun, first)  # for instance if no model was found
    return log, Past()


def _close(session: Session, copied: str, kind: type[BaseException] | None, *_: object) -> None:
    """Close it. After an error, a copied session is deleted if nobody continued in it."""
    if copied and kind is not None:
        session.close_begun(copied)
    else:
        session.close()


def _open_session(settings: Settings, *, mirrored: bool) -> tuple[Session, bool]:
    """Return the session to write to, and whether it existed. A mirrored one may get a given id."""
    if settings.fork is not None:
        name, _, entry = settings.fork.partition("@")
        source = find(settings.state_dir, name, settings.cwd)
        return Session.open(copy(source, settings.state_dir, settings.cwd, entry)), True
    if (path := settings.session) is not None:
        if is_session(path):
            return Session.open(path), True
        name = path.name if path.parent == settings.cwd else str(path)  # a name taken for a path
        try:
            return Session.open(find(settings.state_dir, name, settings.cwd)), True
        except SessionNotFound:
            if is_session_id(path.name) and not mirrored:
                raise
            return Session.create_at(path), False
    if settings.continue_session:
        return Session.open(latest(settings.state_dir, settings.cwd)), True
    return Session.create(settings.state_dir, settings.cwd), False


def _read_past(log: FileLog, session: Session) -> Past:
    """Return the contents of a log, with the charges of all agents of its session."""
    contents = log.contents()
    prompt = next(_latest(contents, PromptEntry), None)
    addresses = (each.address for each in _latest(contents, Environment))
    return Past(
        messages=history(contents, log.blobs.get),
        charges=session.charges(),
        agents=tuple(agent_of(session.path, file) for file in log_files(session.path) if file != log.file),
        resumed=True,
        sandbox=next((each.sandbox for each in _latest(contents, Environment) if each.sandbox), ""),
        address=next((address for address in addresses if address is not None), ""),
        advisors=tuple(each.advisor for each in _latest(contents, SwitchedEntry) if each.advisor)[::-1],
        system=prompt.system if prompt else None,
        proposes=prompt is not None and any(tool.name == "ExitPlan" for tool in prompt.tools),
        model=last_model(contents),
    )


def _latest(contents: LogView, *of: type[C]) -> Iterator[C]:
    """Return the contents of some kinds of entries, newest first."""
    entries = contents.latest(*map(kind_of, of))
    return (content for entry in entries if isinstance(content := entry.content, of))
