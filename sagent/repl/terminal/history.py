"""The input history, one file per project, loaded in the background. It is created before the prompt, so its own
imports happen on first use."""

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Iterable
from typing import TYPE_CHECKING

from prompt_toolkit.history import History

if TYPE_CHECKING:
    from pathlib import Path

MAX_ENTRY_CHARS = 20_000
MAX_FILE_BYTES = 2_000_000  # then the older half is dropped


class ProjectHistory(History):
    """Entries as JSON strings, one a line, newest last, in the file that `open` names."""

    def __init__(self) -> None:
        super().__init__()
        self._path: Path | None = None
        self._known = asyncio.Event()

    def open(self, path: "Path | None") -> None:
        """Use this file; None keeps entries in this process only."""
        self._path = path
        self._known.set()

    async def load(self) -> AsyncGenerator[str]:
        await self._known.wait()
        if not self._loaded:
            older = await asyncio.to_thread(lambda: list(self.load_history_strings()))
            self._loaded_strings += older
            self._loaded = True
        for item in self._loaded_strings:
            yield item

    def load_history_strings(self) -> Iterable[str]:
        """Return the entries of the file, newest first; unreadable ones are skipped."""
        import json

        from sagent.lib.atomic import put
        from sagent.lib.regular import read_given

        if self._path is None:
            return []
        try:
            data = read_given(self._path)
        except OSError:
            return []
        if len(data) > MAX_FILE_BYTES:
            data = data[-MAX_FILE_BYTES // 2 :].partition(b"\n")[2]
            with contextlib.suppress(OSError):
                put(self._path, data)
        found: list[str] = []
        for line in data.splitlines():
            try:
                entry: object = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, str) and (not found or found[-1] != entry):
                found.append(entry)
        return reversed(found)

    def store_string(self, string: str) -> None:
        """Append an entry to a file that only its owner can read. A full disk is ignored."""
        import json

        if self._path is None or len(string) > MAX_ENTRY_CHARS:
            return
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            number = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o600)
            with os.fdopen(number, "ab") as file:
                file.write(json.dumps(string).encode() + b"\n")
