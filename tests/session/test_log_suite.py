"""Both logs keep every promise of a Log."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from sagent.session.log import Log, MemoryLog
from sagent.session.store import Session
from sagent.testing.log_suite import LogSuite


class TestFileLog(LogSuite):
    @pytest.fixture
    def log(self, tmp_path: Path) -> Iterator[Log]:
        with Session.create(tmp_path / "state", tmp_path) as session:
            yield session.log()


class TestMemoryLog(LogSuite):
    @pytest.fixture
    def log(self) -> Iterator[Log]:
        log = MemoryLog()
        yield log
        log.close()


def test_memory_log_leaves_nothing_behind():
    log = MemoryLog()
    path = log.child("root/a").blobs.put(b"x")
    assert path.parent.stat().st_mode & 0o777 == 0o700
    log.close()
    assert not path.parent.exists()
    assert log.path == ""


def test_unclosed_memory_log_leaves_nothing():
    log = MemoryLog()
    path = log.blobs.put(b"x")
    del log
    gc.collect()
    assert not path.parent.exists()


def test_closing_a_child_keeps_the_blobs():
    log = MemoryLog()
    path = log.blobs.put(b"x")
    log.child("root/a").close()
    assert path.exists()
    log.close()
