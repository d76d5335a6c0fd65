"""Changes of a directory's files since a server was last notified."""

import time
from collections.abc import Mapping
from pathlib import Path

from sagent.plugins.code.lsp.rows import ServerRow
from sagent.tools.walk import walk

CREATED, CHANGED, DELETED = 1, 2, 3
MAX_FILES = 20_000  # files that are looked at
_SCAN_TIMEOUT_SECONDS = 2.0  # for a scan
_MAX_AGE_SECONDS = 10.0  # seconds after which the person may have changed files


class Watched:
    """The files that a server reads below its directory, as at the last notification."""

    def __init__(self, root: Path, row: ServerRow) -> None:
        self._root, self._row = root, row
        self._states: Mapping[Path, tuple[int, int]] | None = None
        self._is_too_large = False
        self._looked, self._commands = 0.0, 0

    def is_due(self, commands: int) -> bool:
        """Return True if there may be changes, after so many commands."""
        if self._is_too_large:
            return False
        return commands != self._commands or self._states is None or time.monotonic() - self._looked > _MAX_AGE_SECONDS

    def changes(self, commands: int) -> list[tuple[Path, int]]:
        """Return the files created, changed and deleted since the last time; nothing at first, and in a too large
        directory. Call it in a thread."""
        before, self._states = self._states, self._look()
        self._looked, self._commands = time.monotonic(), commands
        states = self._states
        self._is_too_large = states is None
        if before is None or states is None:
            return []
        found = [
            (path, CREATED if path not in before else CHANGED) for path in states if before.get(path) != states[path]
        ]
        return found + [(path, DELETED) for path in before if path not in states]

    def _look(self) -> Mapping[Path, tuple[int, int]] | None:
        """Return the states of all files; None if there are too many."""
        states: dict[Path, tuple[int, int]] = {}
        until = time.monotonic() + _SCAN_TIMEOUT_SECONDS
        for number, name in enumerate(walk(str(self._root), lambda: False)):
            if number >= MAX_FILES or time.monotonic() > until:
                return None
            path = self._root / name
            if self._row.language(path) or path.name in self._row.roots:
                try:
                    stat = path.stat()
                except OSError:
                    continue
                states[path] = (stat.st_mtime_ns, stat.st_size)
        return states
