"""Makes a session's directory from its log on the bus. Every line is verified; a wrong one is rejected."""

import asyncio
import time
from dataclasses import field
from io import BytesIO
from pathlib import Path
from typing import IO

from sagent.errors import SessionCorrupt
from sagent.lib.dataclass import dataclass
from sagent.plugins.mesh.mirror import BEGUN, BLOBS, FILES, HOLDER, MARKS, TAKEN, LogMessage, LogStream, mark_of
from sagent.session.blobs import BlobDirectory
from sagent.session.log import make_directory, read_contents
from sagent.session.names import log_file
from sagent.session.store import log_files

_REREAD_DELAY_SECONDS = 0.1  # seconds until a replica is read again
_MAX_OLD_DIRECTORIES = 3  # directories of a session that were set aside


@dataclass(slots=True)
class Rebuilt:
    """Facts of a log on the bus besides its entries: its inbox messages, the session's files, and the calls that have
    `begun`, which are known if each holder has `marked` them. `lines` is the number of entries."""

    lines: int = 0
    taken: set[int] = field(default_factory=set[int])
    files: str = ""
    begun: set[str] = field(default_factory=set[str])
    marked: bool = True

    def may_have_run(self, agent: str, call: str) -> bool:
        """Return True if a call without a result may have been carried out, fully or in part, if it has effects."""
        return not self.marked or mark_of(agent, call) in self.begun


async def rebuild(stream: LogStream, directory: Path, until: int = 0) -> Rebuilt:
    """Make a session's directory, empty if there is no entry; an existing one is moved aside, because it may be
    incomplete. `until` is the number of an existing message: a lagging replica is read until it has it. Raises
    SessionCorrupt, Unavailable and OSError."""
    await asyncio.to_thread(set_aside, directory)
    copy = LogCopy(stream, directory)
    try:
        while await copy.read() < until:  # noqa: ASYNC110 -- nobody tells when a replica has it
            await asyncio.sleep(_REREAD_DELAY_SECONDS)
    finally:
        copy.close()
    for file in log_files(directory) if copy.found.lines else ():
        await asyncio.to_thread(read_contents, file)
    return copy.found


class LogCopy:
    """A new session directory that receives a log's entries from the bus. `found` has the other facts."""

    def __init__(self, stream: LogStream, directory: Path) -> None:
        make_directory(directory)
        self.directory, self.found = directory, Rebuilt()
        self.blobs = BlobDirectory(directory / "blobs")
        self._stream, self._last = stream, 0
        self._logs: dict[str, IO[bytes]] = {}

    @property
    def has_lines(self) -> bool:
        """True once it has any entry."""
        return self.found.lines > 0

    async def read(self) -> int:
        """Read new entries; return the number of the last message. Raises SessionCorrupt, Unavailable and OSError."""
        async for piece in self._stream.read(self._last):
            for name in filter(None, piece.headers.get(BLOBS, "").split(",")):
                if self.blobs.put(await self._stream.get_blob(name)).name != name:
                    raise SessionCorrupt(f"blob {name} on the bus was changed")
            await self._add(piece)
            self._last = piece.sequence
        for log in self._logs.values():
            log.flush()
        return self._last

    async def _add(self, piece: LogMessage) -> None:
        found = self.found
        for text in BytesIO(piece.body):
            agent, _, line = text.partition(b"\t")
            if line.startswith(b"@"):
                line = await self._stream.get_blob(line[1:-1].decode("ascii", "replace"))
            name = agent.decode("ascii", "replace")
            if name not in self._logs:
                self._logs[name] = _open(self.directory, name)
            self._logs[name].write(line)
            found.lines += 1
        found.taken |= {int(text) for text in piece.headers.get(TAKEN, "").split(",") if text.isdecimal()}
        found.files = piece.headers.get(FILES, found.files)
        found.begun |= set(piece.headers.get(BEGUN, "").split(","))
        found.marked = found.marked and (HOLDER not in piece.headers or MARKS in piece.headers)

    def close(self) -> None:
        for file in self._logs.values():
            file.close()


def _open(directory: Path, agent: str) -> IO[bytes]:
    try:
        path = log_file(directory, agent)
    except ValueError as error:
        raise SessionCorrupt(f"a log on the bus cannot be read: {error}") from error
    make_directory(path.parent)
    path.touch(0o600)
    return path.open("ab")


def set_aside(directory: Path) -> None:
    """Give a session's directory another name, and delete the oldest that were set aside before. Raises OSError."""
    import shutil

    if directory.exists():
        if not any(path.stat().st_size for path in directory.rglob("*.jsonl")):
            shutil.rmtree(directory)
        else:
            directory.rename(directory.with_name(f"{directory.name}.stale-{time.time_ns():020}"))
    for old in sorted(directory.parent.glob(f"{directory.name}.stale-*"))[:-_MAX_OLD_DIRECTORIES]:
        shutil.rmtree(old, ignore_errors=True)
