"""Records of background sessions in the state directory: what the process of each says of it, also when it is gone."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, field, fields, replace
from pathlib import Path
from typing import Literal, TypeAlias, cast

from sagent.errors import SessionNotFound, UsageError
from sagent.lib.atomic import put
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_object
from sagent.lib.regular import read_given
from sagent.lib.text import count
from sagent.plugins.hosting.typed import adapter
from sagent.session.lock import in_use
from sagent.session.log import make_directory

State: TypeAlias = Literal["working", "asking", "idle", "ended"]
MAX_RECORDS = 500
MAX_AGE_SECONDS = 30 * 24 * 3_600  # of the record of an ended session
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Record:
    """A background session: its process `pid` on `host`, its `socket`, the file with its `output`, its state there,
    what it asks the person, its `bill` so far, and once it has ended its exit code, its result and a `note` for the
    person. `place` is the name of its worktree, if it has one. Times are in seconds since 1970."""

    id: str
    path: str
    cwd: str
    pid: int
    host: str
    socket: str
    output: str
    started: float
    title: str = ""
    state: State = "working"
    asks: tuple[str, ...] = ()
    model: str = ""
    bill: str = ""
    usd: float = 0.0
    place: str = ""
    note: str = ""
    ended: float = 0.0
    code: int = 0
    result: Mapping[str, object] = field(default_factory=dict[str, object])
    flags: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def is_here(self) -> bool:
        """True if it runs, or ran, on this machine."""
        return self.host == os.uname().nodename

    @property
    def is_alive(self) -> bool:
        """True while its process runs here, which holds a lock on its output: the kernel releases that in any case."""
        if not self.is_here:
            return False
        output = Path(self.output)
        with suppress(OSError):
            return not output.is_symlink() and in_use(output.parent, output.name)
        return False

    @property
    def is_open(self) -> bool:
        """True while its process has the session open."""
        return self.state != "ended" and self.is_alive

    @property
    def is_lost(self) -> bool:
        """True if its process ended without a word: killed, or with the machine."""
        if self.state == "ended" or not self.is_here or self.is_alive:
            return False
        with suppress(OSError, ValueError, TypeError):  # it may have ended, and said so, since this was read
            return read(Path(self.output).with_name(f"{self.id}.json")).state != "ended"
        return True

    @property
    def condition(self) -> str:
        """The state for a person."""
        if self.state == "ended":
            return "done" if not self.code else "stopped" if self.code > 128 else f"failed ({self.code})"
        if not self.is_here:
            return f"on {self.host}"
        if self.is_lost:
            return f"ended by the system; sagent --resume {self.id}"
        return f"asks: {self.asks[0]}" if self.asks else self.state


_MEMBERS = frozenset(each.name for each in fields(Record))


def folder(state_dir: Path) -> Path:
    return state_dir / "background"


def log_path(state_dir: Path, name: str) -> Path:
    """Return the file with what the process of a session wrote beside the session."""
    return folder(state_dir) / f"{name}.log"


def write(state_dir: Path, record: Record) -> None:
    """Write a record. Raises OSError."""
    put(folder(state_dir) / f"{record.id}.json", _encode(record))


def write_end(state_dir: Path, record: Record) -> None:
    """Write the record of a session that has ended; on a full disk in the place of the one that is there, if need be
    without the result. Raises OSError."""
    try:
        write(state_dir, record)
    except OSError:
        with (folder(state_dir) / f"{record.id}.json").open("r+b", buffering=0) as file:
            room = os.fstat(file.fileno()).st_size
            less = replace(record, result={}, note=f"The disk is full: its result is in `sagent logs {record.id}`.")
            every = (record, less, replace(less, flags={}, title="", model=""))
            data = next((data for data in map(_encode, every) if len(data) <= room), _encode(every[-1]))
            file.write(data.ljust(room))


def _encode(record: Record) -> bytes:
    return json.dumps({"version": _VERSION, **asdict(record)}).encode() + b"\n"


def read(path: Path) -> Record:
    """Read a record. Raises OSError and ValueError."""
    data = as_object(json.loads(read_given(path)))
    members = {name: data[name] for name in _MEMBERS if name in data}
    record = cast("Record", adapter(Record).validate_python(members))
    if record.id != path.stem:
        raise ValueError(f"{path} is no record of a session")
    return record


def records(state_dir: Path) -> Sequence[Record]:
    """Return all that can be read, the latest last."""
    return sorted(_read_all(state_dir), key=lambda record: (record.started, record.id))


def _read_all(state_dir: Path) -> Iterator[Record]:
    for path in folder(state_dir).glob("*.json"):
        with suppress(OSError, ValueError, TypeError):
            yield read(path)


def find(state_dir: Path, name: str) -> Record:
    """Return a session by its id or the beginning of its id; for "" the only one that runs. Raises SessionNotFound,
    and UsageError if several match."""
    known = records(state_dir)
    if name:
        exact = [record for record in known if record.id == name]
        matching = exact or [record for record in known if record.id.startswith(name)]
    else:
        matching = [record for record in known if record.is_open]
    if len(matching) == 1:
        return matching[0]
    ids = ", ".join(record.id for record in matching[-8:])
    if matching and name:
        raise UsageError(f"{name!r} could be any of {ids}: give more of the id.")
    if matching:
        raise UsageError(f"{count(len(matching), 'session')} run in the background ({ids}): give the id of one.")
    if name:
        raise SessionNotFound(f"no background session {name!r}: `sagent ps --all` lists them")
    raise SessionNotFound("no session runs in the background: `sagent ps --all` lists earlier ones")


def prune(state_dir: Path) -> None:
    """Delete the oldest records of ended sessions, and their files of output. The sessions stay. Raises OSError."""
    make_directory(folder(state_dir))
    closed = [one for one in records(state_dir) if not one.is_alive]
    old = [one for one in closed if one.started < time.time() - MAX_AGE_SECONDS]
    for record in {record.id: record for record in (*closed[:-MAX_RECORDS], *old)}.values():
        for path in (folder(state_dir) / f"{record.id}.json", log_path(state_dir, record.id)):
            path.unlink(missing_ok=True)
