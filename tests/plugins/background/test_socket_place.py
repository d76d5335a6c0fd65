"""The directory of sockets: private, with a short path, and never another user's."""

import os
import stat
from pathlib import Path

import pytest

from sagent.errors import UsageError
from sagent.plugins.background import place
from sagent.plugins.background.place import ForeignSocketError, UnreachableError


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a directory that may be named briefly, whatever the length of its path."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_long_runtime_directory_is_avoided(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    temporary = Path("/proc/self/cwd")  # a short name
    os.chdir(tmp_path)
    path = place.socket_path("20261201-000000-abcdef", {"XDG_RUNTIME_DIR": str(deep)}, temporary)
    assert path.parent == temporary / f"sagent-{os.getuid()}"
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    with pytest.raises(UsageError, match="too long for a socket"):
        place.socket_path("20261201-000000-abcdef", {}, deep)


def test_directory_of_another_user_is_refused(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = os.getuid() + 1
    (short / f"sagent-{other}").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: other)
    with pytest.raises(ForeignSocketError, match="belongs to another user"):
        place.socket_path("x", {}, Path("/proc/self/cwd"))


def test_link_is_no_directory_for_sockets(short: Path) -> None:
    (short / f"sagent-{os.getuid()}").symlink_to(short)
    with pytest.raises(ForeignSocketError, match="is no directory"):
        place.socket_path("x", {}, Path("/proc/self/cwd"))


def test_socket_is_private_and_replaced(short: Path) -> None:
    path = Path("s.sock")
    place.listening(path).close()  # as a process leaves it that was killed
    with pytest.raises(UnreachableError, match="Nobody answers"):
        place.connected(path)
    with place.listening(path):
        assert stat.S_IMODE((short / path).stat().st_mode) == 0o600
        with place.connected(path) as connection:
            assert place.peer_uid(connection) == os.getuid()


def test_socket_of_another_user_is_refused(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert short.is_dir()
    with place.listening(Path("s.sock")):
        monkeypatch.setattr(os, "getuid", lambda: 12_345)
        with pytest.raises(ForeignSocketError, match="belongs to another user"):
            place.connected(Path("s.sock"))
