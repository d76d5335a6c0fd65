"""Large payloads next to the log, each a file named by the sha256 of its content."""

import hashlib
import os
import re
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.errors import SessionCorrupt
from sagent.lib.regular import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable

    from sagent.sandbox.scratch import Scratch


OUTPUTS = "outputs"  # a directory of a session


class BlobDirectory:
    """Blobs in a directory that is created with the first one; without a directory, in a private temporary one. Every
    method may raise OSError. `put` and `adopt` may be called from several threads."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._temporary = directory is None
        self._made = False
        self._making = threading.Lock()
        self._unsynced: deque[Path] = deque()
        self._end: Callable[[], object] = lambda: None
        self.follow: Callable[[Path], None] | None = None  # called with each new blob, in any thread

    def put(self, data: bytes) -> Path:
        """Store bytes and return their path; the same bytes are stored once."""
        path = self._home() / hashlib.sha256(data).hexdigest()
        if _is_whole(path, len(data)):
            return path
        fresh = self.scratch()
        try:
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(data)
            return self._settle(fresh, path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise

    def adopt(self, path: Path, *, sha256: str | None = None) -> Path:
        """Move a finished file on the same file system into the blobs. Without a given hash it is computed."""
        if sha256 is None:
            with path.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        kept = self._home() / sha256
        (self._outputs() / path.name).unlink(missing_ok=True)
        if _is_whole(kept, path.stat().st_size):
            path.unlink()
            return kept
        path.chmod(0o600)
        return self._settle(path, kept)

    def scratch(self) -> Path:
        """Return an unused path on the same file system."""
        return self._home() / f"scratch-{os.getpid()}-{os.urandom(6).hex()}"

    def show(self, path: Path) -> Path:
        """Let sandboxed commands, which see no other blobs, read this file; return its path there. A file still being
        written is shown as it grows."""
        link(str(path), str(self._outputs() / path.name))
        return path

    def drop(self, path: Path) -> None:
        """Remove a scratch file, also from what commands see."""
        for place in (path, self._outputs() / path.name):
            place.unlink(missing_ok=True)

    def shown(self) -> tuple[Path, Path]:
        """Return the directory of all blobs, and the one with second names of those that commands may read."""
        return self._home(), self._outputs()

    def get(self, sha256: str) -> bytes:
        """Return the bytes of a blob. Raises SessionCorrupt if they are missing or changed."""
        if len(sha256) != 64 or not set(sha256) <= set("0123456789abcdef"):
            raise SessionCorrupt(f"not the name of a blob: {sha256[:80]!r}")
        path = self._home() / sha256
        try:
            with open_regular(os.path.realpath(path)) as file:
                data = file.read()
        except FileNotFoundError as error:
            raise SessionCorrupt(f"{path} is missing. Restore it to read its content.") from error
        if hashlib.sha256(data).hexdigest() != sha256:
            raise SessionCorrupt(f"{path} was changed: its content does not match its name. Restore the original.")
        return data

    def find(self, sha256: str) -> bytes | None:
        """Return a blob; None if it is missing or damaged."""
        try:
            return self.get(sha256)
        except (SessionCorrupt, OSError):
            return None

    def sync(self) -> None:
        """Have every blob on the disk. May run in another thread than `put`."""
        if self._temporary:
            return
        if self._unsynced:
            while self._unsynced:
                sync_path(self._unsynced.popleft())
            sync_path(self._home())

    def sweep(self) -> None:
        """Remove partial files of an earlier process that died. Only for the one writer of a session."""
        if self._directory is not None and self._directory.is_dir():
            for left in (*self._directory.glob("scratch-*"), *self._directory.parent.glob(f"{OUTPUTS}/scratch-*")):
                if is_blob(left.name):
                    left.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the temporary directory, if this is one."""
        if self._temporary and self._directory is not None:
            self._end()
            self._directory, self._made = None, False

    def _home(self) -> Path:
        if not self._made:
            with self._making:
                if self._temporary:
                    self._directory = self._directory or self._make_temporary()
                elif self._directory is not None:
                    self._directory.mkdir(mode=0o700, exist_ok=True)
                self._made = True
        assert self._directory is not None
        return self._directory

    def _outputs(self) -> Path:
        """Return the directory of files that commands may read: beside the blobs, or in them if these are temporary."""
        home = self._home()
        place = (home if self._temporary else home.parent) / OUTPUTS
        place.mkdir(mode=0o700, exist_ok=True)
        return place

    def _make_temporary(self) -> Path:
        import weakref

        from sagent.sandbox.scratch import Scratch

        scratch = Scratch()
        # if it is not closed: at exit, or else by a later session
        self._end = weakref.finalize(self, _remove, scratch, os.getpid())
        return scratch.path

    def _settle(self, fresh: Path, path: Path) -> Path:
        fresh.replace(path)
        self._unsynced.append(path)
        if self.follow is not None:
            self.follow(path)
        return path


def is_blob(name: str) -> bool:
    """Return True for the name of a blob, or of one that is being written."""
    return re.fullmatch(r"[0-9a-f]{64}|scratch-\d+-[0-9a-f]{12}", name) is not None


def link(source: str, target: str) -> None:
    """Link a file that is never changed again; copy it if the file system has no links. An existing target is kept.
    Raises OSError."""
    import shutil

    try:
        os.link(source, target)
    except FileExistsError:
        return
    except OSError:
        draft = f"{os.path.dirname(target)}/scratch-{os.getpid()}-{os.urandom(6).hex()}"  # noqa: PTH120 -- as os.link
        shutil.copy2(source, draft)
        os.replace(draft, target)  # noqa: PTH105


def sync_path(path: Path) -> None:
    """Have a file, or a directory's names, on the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _is_whole(path: Path, size: int) -> bool:
    """Return True if a complete blob exists; one cut short by a crash is written again."""
    try:
        return path.stat().st_size == size
    except FileNotFoundError:
        return False


def _remove(scratch: "Scratch", owner: int) -> None:
    if os.getpid() == owner:  # a forked child must not remove what its parent still uses
        import shutil

        shutil.rmtree(scratch.path, ignore_errors=True)  # its contents are ours
        scratch.close()
