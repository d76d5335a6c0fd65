"""The cache of recent fetches, on disk, for all processes of this person."""

import json
import time
from contextlib import suppress
from pathlib import Path

from sagent.lib.atomic import put
from sagent.lib.json import as_object, sha256_hex
from sagent.lib.regular import read_regular

FRESH_SECONDS = 900.0  # seconds
_MAX_FILES = 300
_MAX_FILE_BYTES = 11_000_000


class FetchCache:
    """Entries by a key: a JSON object and bytes. Unreadable and unwritable entries count as missing."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, key: str, *, fresh: float = FRESH_SECONDS) -> tuple[dict[str, object], bytes] | None:
        """Return an entry that is not older than so many seconds."""
        path = self._path(key)
        with suppress(OSError, ValueError):
            if not 0 <= time.time() - path.stat().st_mtime <= fresh:
                return None
            head, _, body = read_regular(path).partition(b"\n")
            return dict(as_object(json.loads(head))), body
        return None

    def put(self, key: str, members: dict[str, object], body: bytes = b"") -> None:
        """Keep an entry."""
        if len(body) > _MAX_FILE_BYTES:
            return
        with suppress(OSError):
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            put(self._path(key), json.dumps(members).encode() + b"\n" + body)  # ASCII: half a surrogate pair passes too
            self._prune()

    def _prune(self) -> None:
        """Delete the oldest of too many."""
        found = list(self._directory.iterdir())
        if len(found) > _MAX_FILES:
            found.sort(key=lambda path: path.stat().st_mtime)
            for path in found[: len(found) - _MAX_FILES // 2]:
                path.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self._directory / sha256_hex(key.encode())
