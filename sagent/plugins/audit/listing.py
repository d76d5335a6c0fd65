"""The list of many sessions, of which only those are read that have changed since the last list.

The file in the state directory is a cache: it may be deleted at any time.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

from sagent.lib.atomic import put
from sagent.lib.regular import read_regular
from sagent.plugins.audit.kept_savings import seal, unseal
from sagent.session.retention import HEAD_BYTES, TAIL_BYTES, Glance, glance
from sagent.session.store import sessions
from sagent.version import __version__

NAME = "sessions-listed.json"
MIN_SESSIONS = 100  # of a list that is worth keeping
MAX_FILE_BYTES = 256 << 20


def list_sessions(state: Path, cwd: Path | None = None) -> list[Glance]:
    """List sessions as `glances` does, last used first; unreadable ones are left out."""
    kept = _read(state / NAME)
    room = bytearray(HEAD_BYTES + TAIL_BYTES)
    found: list[Glance] = []
    fresh = 0
    listed = list(sessions(state, cwd))
    for path in listed:
        name, row = str(path), kept.get(str(path))
        with suppress(OSError):  # deleted just now, or not ours to read
            stamp = _stamp(name)
            if row is None or row[0] != stamp:
                seen = glance(path, room)
                row = kept[name] = [stamp, seen.used, seen.size, seen.cwd, seen.title, seen.last]
                fresh += 1
            found.append(Glance(path, *cast("tuple[float, int, str, str, str]", tuple(row[1:]))))
    if fresh and len(listed) >= MIN_SESSIONS:
        with suppress(OSError, ValueError):
            here = set(map(str, listed))
            rows = {name: row for name, row in kept.items() if name in here or os.path.exists(name)}  # noqa: PTH110 -- of very many
            put(state / NAME, seal({"version": __version__, "rows": rows}))
    return sorted(found, key=lambda each: (each.used, each.id), reverse=True)


def _stamp(session: str) -> str:
    """Return what changes whenever a file of a session does: times and sizes. Raises OSError."""
    parts: list[str] = []
    with os.scandir(session) as entries:
        for entry in entries:
            if entry.name == "root":  # logs of children, which grow while the root waits
                parts += (_file(Path(above, name)) for above, _, names in os.walk(entry.path) for name in names)
            elif entry.name != "lock":
                status = entry.stat(follow_symlinks=False)
                parts.append(f"{entry.name}:{status.st_mtime_ns}:{status.st_size}")
    return " ".join(sorted(parts))


def _file(path: Path) -> str:
    status = path.lstat()
    return f"{path}:{status.st_mtime_ns}:{status.st_size}"


def _read(file: Path) -> dict[str, Sequence[object]]:
    """Return the rows of an earlier list by session; none if there is none, or one of another version."""
    with suppress(OSError, ValueError, KeyError):
        said = unseal(read_regular(file, max_bytes=MAX_FILE_BYTES))
        if said["version"] == __version__:
            return cast("dict[str, Sequence[object]]", said["rows"])
    return {}
