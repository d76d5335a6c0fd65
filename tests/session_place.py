"""A directory with sessions, and the program as a process in it."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from sagent.messages import user
from sagent.session.contents import MessageEntry, Opened, StoredMessage
from sagent.session.store import Session, log_files
from tests.forks import CHECKOUT, Forks
from tests.warm import warm


@dataclass
class Place:
    """A directory to work in, with a state directory of its own."""

    home: Path
    forks: Forks

    @property
    def cwd(self) -> Path:
        return self.home / "work"

    @property
    def state(self) -> Path:
        return self.home / "state"

    def run(self, *argv: str, code: int = 0) -> tuple[str, str]:
        """Run a command; what it said."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "PYTHONPATH": str(CHECKOUT)}
        environment["SAGENT_STATE_DIR"] = str(self.state)
        done = self.forks.run(*argv, cwd=self.cwd, environment=environment)
        assert done.returncode == code, done
        return done.stdout.decode(), done.stderr.decode()

    def session(self, text: str = "hello", days: float = 0) -> Path:
        """A session of this directory."""
        return aged_session(self.state, self.cwd, days, text)


def aged_session(state: Path, cwd: Path, days: float = 0, prompt: str = "do it") -> Path:
    """Return a session of a directory whose logs were last written days ago."""
    with Session.create(state, cwd) as session:
        session.log().append(Opened(session.id, "root", str(cwd), {}))
        session.log().append(MessageEntry(StoredMessage.of(user(prompt), None)))
    at = time.time() - days * 86_400
    for file in log_files(session.path):
        os.utime(file, (at, at))
    return session.path


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def place(tmp_path: Path, forks: Forks) -> Place:
    (tmp_path / "work").mkdir()
    place = Place(tmp_path, forks)
    warm(place.state)
    return place
