"""A session's directory, made from its log on the bus. Every line is verified; what is not right is refused."""

import asyncio
import time
from dataclasses import field
from io import BytesIO
from pathlib import Path
from typing import IO

from sagent.errors import SessionCorrupt
from sagent.lib.dataclass import dataclass
from sagent.mesh.mirror import BEGUN, BLOBS, FILES, HOLDER, MARKS, TAKEN, LogStream, Piece, mark_of
from sagent.session.blobs import BlobDirectory
from sagent.session.log import make_directory, read_contents
from sagent.session.names import log_file
from sagent.session.store import log_files

_LAGGING = 0.1  # seconds until a replica is looked at again
_KEPT = 3  # directories of a session that were set aside


@dataclass(slots=True)
class Rebuilt:
    """What a log on the bus says besides its entries: which messages of the inbox are in it, the session's files, and
    the calls that have `begun`, which is known where each holder has `marked` them. `lines` is how many entries there
    are."""

    lines: int = 0
    taken: set[int] = field(default_factory=set[int])
    files: str = ""
    begun: set[str] = field(default_factory=set[str])
    marked: bool = True
    logs: dict[str, IO[bytes]] = field(default_factory=dict[str, IO[bytes]])

    def may_have_run(self, agent: str, call: str) -> bool:
        """Whether a call without a result may have been carried out, in part or whole, if it changes something."""
        return not self.marked or mark_of(agent, call) in self.begun


async def rebuild(stream: LogStream, directory: Path, until: int = 0) -> Rebuilt:
    """Make a session's directory, empty where there is no entry; one that is there already is set aside, for nobody
    knows what it lacks. `until` is the number of a message that is there: a replica that lags is read until it has got
    that one. Raises SessionCorrupt, Unavailable and OSError."""
    await asyncio.to_thread(set_aside, directory)
    make_directory(directory)
    blobs, found = BlobDirectory(directory / "blobs"), Rebuilt()
    try:
        last = 0
        while True:
            async for piece in stream.read(last):
                for name in filter(None, piece.headers.get(BLOBS, "").split(",")):
                    if blobs.put(await stream.get_blob(name)).name != name:
                        raise SessionCorrupt(f"blob {name} on the bus is not what was kept")
                await _add(found, piece, stream, directory)
                last = piece.sequence
            if last >= until:
                break
            await asyncio.sleep(_LAGGING)
    finally:
        for file in found.logs.values():
            file.close()
    await asyncio.to_thread(_verify, directory, found)
    return found


async def _add(found: Rebuilt, piece: Piece, stream: LogStream, directory: Path) -> None:
    for text in BytesIO(piece.body):
        agent, _, line = text.partition(b"\t")
        if line.startswith(b"@"):
            line = await stream.get_blob(line[1:-1].decode("ascii", "replace"))
        name = agent.decode("ascii", "replace")
        if name not in found.logs:
            found.logs[name] = _open(directory, name)
        found.logs[name].write(line)
        found.lines += 1
    found.taken |= {int(text) for text in piece.headers.get(TAKEN, "").split(",") if text.isdecimal()}
    found.files = piece.headers.get(FILES, found.files)
    found.begun |= set(piece.headers.get(BEGUN, "").split(","))
    found.marked = found.marked and (HOLDER not in piece.headers or MARKS in piece.headers)


def _open(directory: Path, agent: str) -> IO[bytes]:
    try:
        path = log_file(directory, agent)
    except ValueError as error:
        raise SessionCorrupt(f"a log on the bus cannot be read: {error}") from error
    make_directory(path.parent)
    path.touch(0o600)
    return path.open("ab")


def _verify(directory: Path, found: Rebuilt) -> None:
    for file in log_files(directory) if found.logs else ():
        read_contents(file)


def set_aside(directory: Path) -> None:
    """Give a session's directory another name, and delete the oldest that were set aside before. Raises OSError."""
    import shutil

    if directory.exists():
        if not any(path.stat().st_size for path in directory.rglob("*.jsonl")):
            shutil.rmtree(directory)
        else:
            directory.rename(directory.with_name(f"{directory.name}.stale-{time.time_ns():020}"))
    for old in sorted(directory.parent.glob(f"{directory.name}.stale-*"))[:-_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
