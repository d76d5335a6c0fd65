"""The MCP client against the conformance suite of the protocol (npm), in both eras, OAuth included.

It needs Node 22.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.depth import later, slow
from tests.npm import packages

PACKAGE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
HERE = Path(__file__).parent
ROOT = HERE.parents[2]
CHECKS = {"2026-07-28": 455, "2025-11-25": 350}
"""Checks that pass at least."""
EXTENSIONS = {f"auth/{name}" for name in ("enterprise-managed-authorization", "dpop", "dpop-nonce", "wif-jwt-bearer")}
"""Scenarios that no revision requires, and that are not supported."""


@pytest.fixture(scope="module")
def suite() -> list[Path]:
    """The command that plays the suite."""
    there = packages(PACKAGE)
    return [there.node, there.modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[str]:
    """The command that plays one scenario."""
    path = tmp_path / "asked"
    argv = [sys.executable, "-m", "tests.plugins.mcp.conformance_client", str(path)]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield shlex.join([sys.executable, "-S", "-E", str(HERE / "conformance_asker.py"), str(path)])
        server.kill()


@later
@pytest.mark.parametrize("revision", ["2026-07-28", pytest.param("2025-11-25", marks=slow)])
def test_client_conforms_to_revision(suite: list[Path], client: str, revision: str, tmp_path: Path) -> None:
    argv = [*suite, "client", "--command", client, "--requirements", revision, "--timeout", "60000"]
    done = subprocess.run([*argv, "-o", tmp_path / "out"], capture_output=True, text=True, check=False, timeout=300)
    summary = done.stdout.partition("SUITE SUMMARY")[2]
    assert done.returncode == 0, summary
    assert {*re.findall(r"✗ (\S+): ", summary)} == EXTENSIONS
    passed = re.search(r"Total: (\d+) passed", summary)
    assert passed is not None, summary
    assert int(passed[1]) >= CHECKS[revision], summary
