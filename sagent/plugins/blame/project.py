"""The sessions of a project: those that were begun in it, below it, above it, or in another work tree of it."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sagent.errors import SessionCorrupt
from sagent.lib.git import work_tree_directories
from sagent.session.contents import Opened
from sagent.session.entries import parse_line
from sagent.session.store import is_session, sessions


def project_sessions(state: Path, path: Path) -> list[Path]:
    """Return the sessions that may have changed a file. Raises OSError."""
    root = _root(path)
    top = str(root or path.parent)
    shared = _shared(root)
    of_homes: dict[Path, bool] = {}
    found: list[Path] = []
    for session in sessions(state):
        if session.parent not in of_homes:
            cwd = _cwd(session)
            if cwd is None:
                continue
            of_homes[session.parent] = _concerns(cwd, top, shared)
        if of_homes[session.parent] and is_session(session):
            found.append(session)
    return found


def _concerns(cwd: str, top: str, shared: Path | None) -> bool:
    inside = os.path.commonpath((cwd, top)) in (cwd, top)
    return inside or (shared is not None and _shared(_root(Path(cwd) / "file")) == shared)


def _cwd(session: Path) -> str | None:
    """Return the directory that a session was begun in; None if that cannot be read."""
    with suppress(OSError, ValueError, SessionCorrupt), (session / "root.jsonl").open("rb") as file:
        opened = parse_line(file.readline()).content
        if isinstance(opened, Opened) and os.path.isabs(opened.cwd):  # noqa: PTH117 -- a text
            return os.path.realpath(opened.cwd)
    return None


def _root(path: Path) -> Path | None:
    """Return the work tree that a file is in."""
    return next((each for each in _above(path) if os.path.lexists(each / ".git")), None)


def _above(path: Path) -> Iterator[Path]:
    yield from path.parents


def _shared(root: Path | None) -> Path | None:
    """Return the directory that all work trees of a repository share."""
    return None if root is None else Path(os.path.realpath(work_tree_directories(root)[1]))
