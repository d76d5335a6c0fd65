"""The language servers of a session: one for each row and directory, started on demand."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from sagent.errors import SagentError
from sagent.lib.process import ProcessGroup
from sagent.plugins.code.lsp.connection import ServerError
from sagent.plugins.code.lsp.rows import ServerRow, filled, find_program, project_python, serving
from sagent.plugins.code.lsp.server import START_TIMEOUT_SECONDS, LanguageServer
from sagent.plugins.code.lsp.watched import Watched
from sagent.sandbox import Confined

MAX_RESTARTS = 2
MAX_IDLE_SECONDS = 600.0  # seconds without requests, after which one is ended
MAX_RUNNING = 4
MAX_MEMORY_BYTES = 4 << 30  # of data of each process


Allowed: TypeAlias = Literal["all", "outside", "none"]
"""All programs, only those outside the project, or none."""


class Launcher(Protocol):
    """Launcher of servers' programs."""

    async def allowed(self) -> Allowed:
        """Return the programs that may be run."""
        ...

    async def launch(self, argv: Sequence[str], root: Path) -> Confined: ...

    def environment(self) -> Mapping[str, str]:
        """Return the environment of programs, without keys."""
        ...


class ServerSlot:
    """A server's slot, whether it runs or not. `failure` is a permanent reason why it does not; "" otherwise."""

    def __init__(self, row: ServerRow, root: Path) -> None:
        self.row, self.root = row, root
        self.server: LanguageServer | None = None
        self.failure = ""
        self.ends = 0
        self.watched = Watched(root, row)
        self.turn = asyncio.Lock()  # held during notifications of changed files
        self._gate = asyncio.Lock()  # held while it begins or ends
        self._locks: dict[Path, asyncio.Lock] = {}
        self._finish: Callable[[], object] = lambda: None
        self._starting: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None

    @property
    def ready(self) -> LanguageServer | None:
        """The server, if it runs and is initialized."""
        started = self._starting is not None and self._starting.done()
        return self.server if self.server is not None and started and not self.server.fault else None

    def lock(self, path: Path) -> asyncio.Lock:
        """Return the lock of a file, held during a check, so that changes come one after the other."""
        return self._locks.setdefault(path, asyncio.Lock())

    async def get(
        self, start: Callable[[], Coroutine[None, None, None]], close: Callable[["ServerSlot"], None]
    ) -> None:
        """Start it, if permitted. Several may wait for it; cancelling a wait does not end it."""
        async with self._gate:
            if self.server is not None and self.server.fault and self._starting is not None and self._starting.done():
                self.ends += 1
                self.failure = self.failure or (self.server.fault if self.ends > MAX_RESTARTS else "")
                await self._end()
            if self.failure:
                return
            starting = self._starting = self._starting or asyncio.create_task(start())
            if self._idle is not None:
                self._idle.cancel()
            self._idle = asyncio.get_running_loop().call_later(MAX_IDLE_SECONDS, close, self)
        await asyncio.wait([starting])

    async def open(self, argv: Sequence[str], python: str, launcher: Launcher, group: ProcessGroup) -> None:
        """Start its program, which may run this interpreter. A reason against that is set in `failure`."""
        settings = filled(self.row.settings, python)
        server = self.server = LanguageServer(self.row, self.root, group, settings)
        try:
            launched = await launcher.launch(argv, self.root)
            self._finish = launched.finish
            await server.open(*launched.launched({**launcher.environment(), **self.row.env}))
        except TimeoutError:
            self.failure = f"it was not ready within {START_TIMEOUT_SECONDS:g} s"
        except (OSError, ValueError, ServerError, SagentError) as error:
            self.failure = server.fault or str(error)
        if self.failure:
            await server.aclose()

    async def aclose(self) -> None:
        """End it. It may be started again."""
        async with self._gate:
            await self._end()

    async def _end(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        starting, self._starting = self._starting, None
        if starting is not None:
            starting.cancel()
            await asyncio.wait([starting])
        server, self.server = self.server, None
        self.watched = Watched(self.root, self.row)
        if server is not None:
            await server.aclose()
        self._finish()


class Servers:
    """The servers of a session. `warn` tells the person once about an unusable one."""

    def __init__(self, rows: Sequence[ServerRow], launcher: Launcher, warn: Callable[[str], None]) -> None:
        self._rows, self._launcher, self._warn = rows, launcher, warn
        self._slots: dict[tuple[str, Path], ServerSlot] = {}  # the last used at the end
        self._group = ProcessGroup()
        self._closing: set[asyncio.Task[None]] = set()
        self._warned: set[str] = set()

    def kinds(self, path: Path) -> list[str]:
        """Return the kinds of servers for a file's language."""
        return list(dict.fromkeys(row.kind for row in serving(self._rows, path)))

    def is_ready(self, kind: str, path: Path, roots: Sequence[Path]) -> bool:
        """Return True if a server of a kind runs for a file, and so answers soon."""
        rows = (row for row in serving(self._rows, path) if row.kind == kind)
        slots = (self._slots.get((row.name, root)) for row in rows if (root := row.root_of(path, roots)) is not None)
        return any(slot is not None and slot.ready for slot in slots)

    def running(self) -> list[ServerSlot]:
        return [slot for slot in self._slots.values() if slot.ready]

    async def get(self, kind: str, path: Path, roots: Sequence[Path]) -> ServerSlot | None:
        """Return the first running server of a kind for the directory of a file."""
        if (allowed := await self._launcher.allowed()) == "none":
            return None
        missed: list[ServerSlot] = []
        for row in serving(self._rows, path):
            root = row.root_of(path, roots) if row.kind == kind else None
            program = find_program(row, root, roots, own=allowed == "all") if root is not None else ""
            if root is None or not program:
                continue
            slot = self._slots.pop((row.name, root), None) or ServerSlot(row, root)
            self._slots[row.name, root] = slot
            python = project_python(root, roots) if allowed == "all" else ""
            argv = _bounded([program, *row.command[1:]])
            await slot.get(partial(slot.open, argv, python, self._launcher, self._group), self._close)
            if slot.ready:
                for old in self.running()[:-MAX_RUNNING]:
                    self._close(old)
                return slot
            missed.append(slot)
        for slot in missed:
            if slot.failure and slot.row.name not in self._warned:
                self._warned.add(slot.row.name)
                self._warn(
                    f"The language server {slot.row.name} is not used in this session: {slot.failure.rstrip('.')}."
                )
        return None

    def hint(self, path: Path) -> str:
        """Return how to install a server for a file."""
        return " or ".join(row.install for row in serving(self._rows, path) if row.install) or "it is not in PATH"

    async def aclose(self) -> None:
        """End them all."""
        await asyncio.gather(*(slot.aclose() for slot in self._slots.values()), *self._closing, return_exceptions=True)
        await self._group.aclose()

    def _close(self, slot: ServerSlot) -> None:
        task = asyncio.create_task(slot.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _bounded(argv: Sequence[str]) -> list[str]:
    """Return a command line whose processes each get limited memory, by the system's limit if it has one; larger
    allocations fail."""
    return ["/bin/sh", "-c", 'ulimit -d "$0" 2>/dev/null; exec "$@"', str(MAX_MEMORY_BYTES >> 10), *argv]
