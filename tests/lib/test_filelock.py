"""Processes that change a file one after another."""

import fcntl
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from sagent.lib import filelock
from sagent.lib.filelock import in_turn


class Clock:
    """A clock that goes on by a second at each sleep, while another process holds the lock: each of its turns shows on
    the file, and after `turns` sleeps the lock is free."""

    def __init__(self, lock: Path, turns: int, *, shows: bool) -> None:
        self.now, self._lock, self._turns, self._shows = 0.0, lock, turns, shows
        self._held = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._held, fcntl.LOCK_EX)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, _: float) -> None:
        self.now += 1
        if self._shows:
            os.utime(self._lock, (self.now, self.now))
        if self.now >= self._turns and self._held >= 0:
            self.release()

    def release(self) -> None:
        os.close(self._held)
        self._held = -1


def is_free(lock: Path) -> bool:
    handle = os.open(lock, os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


@pytest.mark.parametrize("turns", [1, 9, 60])
def test_turns_of_others_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: int) -> None:
    lock = tmp_path / "a.lock"
    clock = Clock(lock, turns, shows=True)
    monkeypatch.setattr(filelock, "time", SimpleNamespace(monotonic=clock.monotonic, sleep=clock.sleep))
    with in_turn(lock):
        assert clock.now == turns
        assert not is_free(lock)
    assert is_free(lock)


def test_stopped_process_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(tmp_path / "a.lock", 60, shows=False)
    monkeypatch.setattr(filelock, "time", SimpleNamespace(monotonic=clock.monotonic, sleep=clock.sleep))
    with in_turn(tmp_path / "a.lock"):
        assert clock.now < 20
    clock.release()


def test_lock_shows_its_turn(tmp_path: Path) -> None:
    lock = tmp_path / "a.lock"
    lock.touch()
    os.utime(lock, (1, 1))
    with in_turn(lock):
        assert lock.stat().st_mtime > 1
