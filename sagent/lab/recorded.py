"""Recorded sessions as they are named: a directory, an exported bundle, an id or the beginning of one."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from sagent.config import Settings
from sagent.errors import UsageError
from sagent.session.bundle import SESSION, is_bundle, open_bundle, unpacked
from sagent.session.store import find, is_session, latest


def locate(settings: Settings, name: str | None) -> Path:
    """What a name means; the last session of the directory where there is none. Raises UsageError."""
    if not name:
        return latest(settings.state_dir, settings.cwd)
    path = Path(name).expanduser()
    path = path.parent if path.name == "root.jsonl" else path
    if path.is_dir() and (is_session(path) or unpacked(path)):
        return path.absolute()
    if path.is_file():
        if is_bundle(path):
            return path.absolute()
        raise UsageError(f"{name} is neither a session's directory nor a bundle that sagent has exported.")
    return find(settings.state_dir, name, settings.cwd)


@contextmanager
def session_at(path: Path) -> Generator[Path]:
    """The directory of a session, which a bundle holds; of a packed one a copy, gone in the end. Raises UsageError."""
    if path.is_dir():
        yield path / SESSION.rstrip("/") if unpacked(path) else path
        return
    with tempfile.TemporaryDirectory(prefix="sagent-bundle-") as directory:
        home = Path(directory)
        for name, place in open_bundle(path)[0].items():
            parts = PurePosixPath(name).parts
            if not name.startswith(SESSION) or ".." in parts:
                continue
            target = home.joinpath(*parts)
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with target.open("wb") as file:
                for piece in place.pieces():
                    file.write(piece)
        if not is_session(home / SESSION):
            raise UsageError(f"{path} holds no session.")
        yield home / SESSION
