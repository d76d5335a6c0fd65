"""A place where sessions run in the background; they end with the test."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Outcome, Shell
from tests.waiting import wait_until


@dataclass
class Place:
    """A shell, and the background sessions that were started from it."""

    shell: Shell

    def start(self, *argv: str) -> str:
        """Start a session; return its id."""
        done = self.shell.run("--bg", *argv)
        assert done.code == 0, done.err
        return done.out.strip()

    def run(self, *argv: str) -> Outcome:
        """Run a command that takes no model."""
        return self.shell.run(*argv, model="")

    def record(self, session: str) -> dict[str, Any]:
        """Return what `sagent ps` says of a session."""
        (found,) = (one for one in json.loads(self.run("ps", "--all", "--json").out) if one["id"] == session)
        return found

    def until(self, session: str, state: str) -> dict[str, Any]:
        """Wait until a session is in this state."""
        wait_until(lambda: self.raw(session)["state"] == state)
        return self.record(session)

    def raw(self, session: str) -> dict[str, Any]:
        """Return the record of a session as it is written."""
        state = Path(self.shell.environment["HOME"]) / ".local/state/sagent/background"
        return json.loads((state / f"{session}.json").read_text())

    def kill(self, session: str) -> None:
        """Kill the process of a session, and wait for its end."""
        pid = self.raw(session)["pid"]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{pid}/stat").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text())


@pytest.fixture
def place(shell: Shell, tmp_path: Path) -> Iterator[Place]:
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    shell.environment["XDG_RUNTIME_DIR"] = str(runtime)
    yield Place(shell)
    for path in (tmp_path / "home").rglob("background/*.json"):
        with suppress(ProcessLookupError, ValueError, KeyError):
            record = json.loads(path.read_text())
            if record["state"] != "ended":
                os.kill(record["pid"], signal.SIGKILL)
