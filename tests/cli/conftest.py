"""A fresh place to run the program in."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from program import CHECKOUT, Shell

from tests.forks import Forks
from tests.session_place import place
from tests.warm import STATE, warm

__all__ = ["place", "processes", "shell"]


@pytest.fixture
def shell(tmp_path: Path, forks: Forks) -> Iterator[Shell]:
    """A fresh directory and an environment with nothing of the person's in it."""
    cwd = tmp_path / "work"
    cwd.mkdir()
    warm(tmp_path / "home" / STATE)
    environment = {name: os.environ[name] for name in ("PATH", "TMPDIR")}
    environment |= {"HOME": str(tmp_path / "home"), "PYTHONPATH": str(CHECKOUT)}
    with ExitStack() as stack:
        shell = Shell(cwd, environment, stack, forks)
        yield shell
        for child in shell.children:
            child.kill()
            child.communicate()


@pytest.fixture
def processes() -> Callable[[str], list[int]]:
    """The processes whose command line contains a text."""

    def find(text: str) -> list[int]:
        found: list[int] = []
        for directory in Path("/proc").iterdir():
            if directory.name.isdigit():
                try:
                    if text.encode() in (directory / "cmdline").read_bytes():
                        found.append(int(directory.name))
                except OSError:
                    continue
        return found

    return find
