"""Attaching to a background session of this machine: in the REPL, in lines, or without a terminal."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from sagent.cli.settings import load_settings
from sagent.errors import SagentError, SessionNotFound
from sagent.events import Finished, Result
from sagent.plugins.background.commands.ending import tell_result
from sagent.plugins.background.place import UnreachableError
from sagent.plugins.background.records import Record, find
from sagent.plugins.hosting.attach_command import follow, talk_of
from sagent.plugins.hosting.attaching import opening_of
from sagent.plugins.hosting.followed import FollowedAgent
from sagent.session.blobs import BlobDirectory

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.events import Event
    from sagent.plugins.background.peer import LocalPeer
    from sagent.plugins.hosting.questions import Answer, Reply
    from sagent.repl.opening import Listener, Opening


def attach(session: str, options: Mapping[str, object]) -> int | None:
    """Attach to a background session of this machine; None if there is none of that name. Raises SagentError."""
    if options.get("bus"):
        return None
    settings, watch = load_settings({}), options.get("watch") is True
    try:
        record = find(settings.state_dir, session)
    except SessionNotFound:
        return None
    if (talk := talk_of(lambda: load(record))) is not None:
        return asyncio.run(talk(lambda: load(record), opening(settings.state_dir, record, watch=watch)))
    if not record.is_open:
        return tell_result(record)
    return asyncio.run(_follow(settings, record, watch=watch))


def opening_of_held(settings: "Settings") -> "Opening | None":
    """Return a function that follows the session in the settings, if a background process has it open."""
    if settings.session is None:
        return None
    with suppress(SagentError):
        record = find(settings.state_dir, settings.session.name)
        if record.is_open and settings.session.resolve() == Path(record.path).resolve():
            return opening(settings.state_dir, record, watch=False)
    return None


def load(record: Record) -> "Settings":
    """Load the settings of the person's terminal. Those of the session are in its process."""
    own = load_settings({"cwd": record.cwd}).without("mcp", "hooks")
    return replace(own, advisors=(), wish=None, session=None, fork=None, continue_session=False)


async def _follow(settings: "Settings", record: Record, *, watch: bool) -> int:
    from sagent.plugins.background.peer import LocalPeer

    @asynccontextmanager
    async def attached(reply: "Reply | None", answer: "Answer | None") -> "AsyncGenerator[LocalPeer]":
        async with LocalPeer.attached(settings.state_dir, record, reply, answer) as peer:
            yield peer

    return await follow(attached, f"{record.id}  {record.title}  ({record.state})\n", watch=watch)


def opening(state_dir: Path, record: Record, *, watch: bool) -> "Opening":
    """Return a function that opens the session in the REPL."""

    @asynccontextmanager
    async def following(
        listener: "Listener", reply: "Reply | None", answer: "Answer | None"
    ) -> "AsyncGenerator[FollowedAgent]":
        from sagent.plugins.background.peer import LocalPeer

        async with LocalPeer.attached(state_dir, record, reply, answer) as peer:
            agent = LocalAgent(peer, LocalLog(Path(record.path)), listener)
            async with agent.keeping_up():
                yield agent

    return opening_of(following, "this machine", f"sagent attach {record.id}", watch=watch)


class LocalLog:
    """The logs of a session, which its process writes on this machine."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.blobs = BlobDirectory(directory / "blobs")

    @property
    def has_lines(self) -> bool:
        """True: a session has a log once it is open."""
        return (self.directory / "root.jsonl").exists()

    async def read(self) -> None:
        """Do nothing: they are here."""


class LocalAgent(FollowedAgent):
    """The root agent of a background session."""

    nobody: ClassVar[type[SagentError]] = UnreachableError
    rests: ClassVar[str] = "The process of this session has ended: send a message first, which opens it again."

    def __init__(self, peer: "LocalPeer", copy: LocalLog, listener: "Callable[[Event], None]") -> None:
        super().__init__(peer, copy, listener)
        self._local, self._left = peer, False

    async def continue_run(self) -> Result:
        """Wait for the end of the current run. Raises SagentError; an event has told the end of the process."""
        return await self._local.wait()

    def leave(self) -> None:
        """Follow it no more; it goes on, though the screen shows nothing in progress from here."""
        if self.running:
            self._emit(Finished("root", Result("", (), "end")))
        self._left = True
        self._local.leave()

    @property
    def running(self) -> bool:
        """True while it works, and is followed."""
        return super().running and not self._left

    @property
    def where(self) -> str:
        """The process that has it open; "" if none has."""
        return self._local.place if self._local.is_connected else ""
