"""A terminal to run the REPL in."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forks import Forks
from tests.repl.console import CHECKOUT, Console
from tests.repl.recorded import context
from tests.warm import STATE, warm

__all__ = ["console", "context"]


@pytest.fixture
def console(tmp_path: Path, forks: Forks) -> Iterator[Console]:
    """A fresh directory, home and terminal."""
    cwd, home = tmp_path / "work", tmp_path / "home"
    cwd.mkdir()
    warm(home / STATE)
    environment = {
        "PATH": os.environ["PATH"],
        "TMPDIR": os.environ["TMPDIR"],
        "HOME": str(home),
        "PYTHONPATH": str(CHECKOUT),
        "SAGENT_MODEL": "anthropic/claude-sonnet-4-6",
    }
    found = Console(tmp_path / "tmux", cwd, environment, forks)
    yield found
    found.close()
