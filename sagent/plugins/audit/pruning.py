"""Deletion of old sessions, with the reasons to keep others."""

import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path

from sagent.errors import SagentError, UsageError
from sagent.lib.dataclass import dataclass
from sagent.session.lock import in_use
from sagent.session.retention import Glance
from sagent.session.store import delete, log_files

_UNITS = {"h": 1, "d": 24, "w": 24 * 7}


@dataclass(frozen=True, slots=True)
class Pruned:
    """A session that was let go, or why it was not."""

    session: Glance
    kept: str = ""


def prune(sessions: Iterable[Glance], state: Path, cutoff: float, keep: int, *, dry: bool = False) -> Iterator[Pruned]:
    """Delete sessions last used before `cutoff` (seconds since the epoch), except the `keep` newest. Sessions in use or
    outside the state directory are kept and reported.

    With `dry`, nothing is deleted.
    """
    home = (state / "sessions").resolve()
    for place, session in enumerate(sessions):
        if place < keep or session.used >= cutoff:
            continue
        if session.path.is_symlink() or session.path.resolve().parent.parent != home:
            yield Pruned(session, "it is not in the state directory")
        elif dry:
            yield Pruned(session, "it is in use" if in_use(session.path) else "")
        else:
            yield Pruned(session, _removed(session, cutoff))


def age(text: str) -> timedelta:
    """Return a time like 90d, 12h or 2w. Raises UsageError."""
    match = re.fullmatch(r"(\d{1,6})([hdw])", text)
    if match is None:
        raise UsageError(f"{text!r} is not an age: give hours, days or weeks, such as 12h, 90d or 2w.")
    return timedelta(hours=int(match[1]) * _UNITS[match[2]])


def _removed(session: Glance, cutoff: float) -> str:
    """Delete one session; return why that failed, or ""."""
    try:
        if max(file.stat().st_mtime for file in log_files(session.path)) >= cutoff:
            return "it was used just now"
        delete(session.path)
    except SagentError as error:
        return str(error)
    except OSError as error:
        return f"{error.filename or session.path}: {error.strerror or error}"
    return ""
