"""The way between a script in the sandbox and its session: two FIFOs among the temporary files of commands."""

import asyncio
import json
import os
import shutil
import stat
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from sagent.errors import ToolError
from sagent.lib.json import as_array, as_object, as_str, json_freeze_object
from sagent.lib.process import open_reader
from sagent.tool import Workspace

MAX_LINE_BYTES = 32 << 20  # of a call, and of what a script has not read yet
_POLL_SECONDS = 0.005

Answer: TypeAlias = tuple[bool, str]
"""Whether a call failed, and its text."""


class Channel:
    """Answers the calls of one script. `name` is that of the directory that the script makes for it."""

    def __init__(self, workspace: Workspace, answer: Callable[[str, dict[str, object]], Awaitable[Answer]]) -> None:
        self.name = f"sagent-script-{os.urandom(8).hex()}"
        self._workspace, self._answer = workspace, answer

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Answer calls within the block; afterwards remove the directory."""
        task = asyncio.create_task(self._serve())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if (place := self._place()) is not None:
                shutil.rmtree(place, ignore_errors=True)

    async def _serve(self) -> None:
        while (place := self._place()) is None or not _is_ready(place / "answers"):  # noqa: ASYNC110 -- in a sandbox
            await asyncio.sleep(_POLL_SECONDS)
        asked, source = await open_reader(_open(place / "asked", os.O_RDONLY), limit=MAX_LINE_BYTES)
        try:
            await asked.readline()  # the script says that it reads the answers next
            target = await self._open_answers(place / "answers")
            loop = asyncio.get_running_loop()
            writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(target, "wb"))
            try:
                while line := await asked.readline():
                    writer.write(json.dumps(await self._answered(line)).encode() + b"\n")  # it waits for each
            finally:
                writer.abort()
        finally:
            source.close()

    async def _answered(self, line: bytes) -> Answer:
        try:
            name, arguments = as_array(json.loads(line))
            return await self._answer(as_str(name), dict(json_freeze_object(as_object(arguments))))
        except (ValueError, TypeError, RecursionError):
            return True, "a call is not JSON: give texts, numbers, lists and dictionaries"

    async def _open_answers(self, path: Path) -> int:
        """Open the FIFO for answers once the script reads it."""
        while True:
            with suppress(OSError):
                return _open(path, os.O_WRONLY)
            await asyncio.sleep(_POLL_SECONDS)

    def _place(self) -> Path | None:
        """Return the directory as this process sees it, once the script has made it."""
        return next((place for place in self._places() if _is_own(place)), None)

    def _places(self) -> Iterable[Path]:
        for own in (*self._workspace.temporary.values(), Path(tempfile.gettempdir()), Path("/tmp")):  # noqa: S108 -- as commands call it
            yield own / self.name


def _is_own(place: Path) -> bool:
    """Return True for a directory of this user, which is no link."""
    with suppress(OSError):
        found = place.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return False


def _is_ready(fifo: Path) -> bool:
    with suppress(OSError):
        return stat.S_ISFIFO(fifo.lstat().st_mode)
    return False


def _open(fifo: Path, access: int) -> int:
    """Open a FIFO without waiting for its other end. Raises OSError, and ToolError for anything else."""
    descriptor = os.open(fifo, access | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ToolError(f"{fifo} was replaced.")
    return descriptor
