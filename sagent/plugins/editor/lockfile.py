"""Lock files of editors: `PORT.lock` in a directory of the person's, with a token and the folders that are open."""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_int, as_object, as_str, json_parse
from sagent.lib.names import path_of

_MAX_FILE_BYTES = 64_000  # of a lock file
_LISTENS = "0A"  # a socket's state, as Linux has it


@dataclass(frozen=True, slots=True)
class LockFile:
    """An editor that listens on a port of this machine; `folder` is the open one that contains the directory."""

    port: int
    token: str = field(repr=False)
    editor: str
    folder: Path


def find_lock_file(cwd: Path, environ: Mapping[str, str]) -> LockFile | None:
    """Return the editor in which a directory is open: the editor of this terminal, else the one with the nearest
    folder."""
    own = environ.get("CLAUDE_CODE_SSE_PORT", "")
    found = [lock for place in _places(environ) for lock in _locks(place, cwd.resolve())]
    return max(found, key=lambda lock: (str(lock.port) == own, len(lock.folder.parts)), default=None)


def _places(environ: Mapping[str, str]) -> Iterator[Path]:
    home = Path(environ.get("HOME") or Path("~").expanduser())
    named = environ.get("CLAUDE_CONFIG_DIR")
    for base in dict.fromkeys([path_of(named)] if named else [home / ".claude", home / ".config" / "claude"]):
        yield base / "ide"


def _locks(place: Path, cwd: Path) -> Iterator[LockFile]:
    with suppress(OSError):
        for file in sorted(place.glob("*.lock")):
            with suppress(OSError, ValueError, RecursionError):
                if (lock := _read(file, cwd)) is not None:
                    yield lock


def _read(file: Path, cwd: Path) -> LockFile | None:
    """Read a lock file. It counts if the person owns it, its editor is alive, and the directory is open there."""
    port = int(file.stem) if file.stem.isascii() and file.stem.isdecimal() else 0
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(file, flags), "rb") as stream:
        status = os.fstat(stream.fileno())
        written_by_others = status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not stat.S_ISREG(status.st_mode) or written_by_others:
            return None
        said = as_object(json_parse(stream.read(_MAX_FILE_BYTES).decode()))
    folders = [Path(text).resolve() for each in as_array(said.get("workspaceFolders")) if (text := as_str(each))]
    containing = [folder for folder in folders if cwd.is_relative_to(folder)]
    token = as_str(said.get("authToken"))
    usable = 0 < port < 65536 and token and said.get("transport") == "ws" and _lives(as_int(said.get("pid")))
    usable = usable and not listens_for_others(port)
    if not usable or not containing:
        return None
    nearest = max(containing, key=lambda folder: len(folder.parts))
    return LockFile(port, token, as_str(said.get("ideName")) or "the editor", nearest)


def _lives(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def listens_for_others(port: int, tables: Iterable[Path] = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))) -> bool:
    """Return True if another user listens on a port: anybody may open an editor's port once the editor has ended. Works
    only on Linux."""
    for table in tables:
        with suppress(OSError):
            for line in table.read_text().splitlines()[1:]:
                _, local, _, state, _, _, _, user, *_ = line.split()
                if state == _LISTENS and int(local.rpartition(":")[2], 16) == port and int(user) != os.geteuid():
                    return True
    return False
