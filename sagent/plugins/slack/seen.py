"""The messages that were handled: a service may deliver one twice, and again after a restart of this process."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from sagent.lib.atomic import put
from sagent.lib.regular import read_given

MESSAGE_LIFE_SECONDS = 48 * 3600.0  # seconds that a message is remembered


class SeenMessages:
    """In a file of lines, each a time and a key. Raises OSError."""

    def __init__(self, file: Path, now: Callable[[], float] = time.time) -> None:
        self._file, self._now = file, now
        self._keys: dict[str, float] = {}
        since = now() - MESSAGE_LIFE_SECONDS
        for line in self._lines():
            at, _, key = line.partition(" ")
            if key and at.isdecimal() and float(at) >= since:
                self._keys[key] = float(at)
        file.parent.mkdir(parents=True, exist_ok=True)
        put(file, "".join(f"{at:.0f} {key}\n" for key, at in self._keys.items()).encode())

    def knows(self, key: str) -> bool:
        """Return True if it was handled."""
        return " ".join(key.split()) in self._keys

    def take(self, key: str) -> bool:
        """Return True if it is new; from now on it is not."""
        key = " ".join(key.split())
        if key in self._keys:
            return False
        self._keys[key] = self._now()
        with self._file.open("a", encoding="utf-8") as out:
            out.write(f"{self._keys[key]:.0f} {key}\n")
            out.flush()
            os.fsync(out.fileno())
        return True

    def _lines(self) -> list[str]:
        try:
            return read_given(self._file).decode(errors="replace").splitlines()
        except FileNotFoundError:
            return []
