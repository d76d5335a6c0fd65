"""A system without the modules of POSIX: what is imported, and what the command line says there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

BLOCKED = (
    "import sys\nfor name in ('fcntl', 'pty', 'termios', 'resource', 'pwd', 'grp', 'tty'): sys.modules[name] = None\n"
)
RUN = BLOCKED + "from sagent.bin.cli import main\nsys.argv[0] = 'sagent'\nsys.exit(main())"
PACKAGE = Path(__file__).parents[2] / "sagent"


def run(tmp_path: Path, code: str, *argv: str) -> "subprocess.CompletedProcess[str]":
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(PACKAGE.parent)}
    words = [sys.executable, "-c", code, *argv]
    return subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("argv", [("--version",), ("--help",), ("help", "all"), ("config", "show")])
def test_command_line_answers(argv: tuple[str, ...], tmp_path: Path) -> None:
    done = run(tmp_path, RUN, *argv)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "sagent" in done.stdout


def test_package_and_its_store_are_imported(tmp_path: Path) -> None:
    names = (
        "sagent, sagent.app, sagent.agent, sagent.config, sagent.session.store, sagent.repl.repl, sagent.testing.script"
    )
    assert run(tmp_path, f"{BLOCKED}import {names}").returncode == 0


def test_lock_that_cannot_be_had_is_an_os_error(tmp_path: Path) -> None:
    code = f"{BLOCKED}from sagent.lib import flock\ntry: flock.lock(0)\nexcept OSError as error: print(error.strerror)"
    assert "no locks" in run(tmp_path, code).stdout


def test_files_are_locked_in_one_module() -> None:
    asking = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if _locks(path)}
    assert asking == {"lib/flock.py"}


def _locks(path: Path) -> bool:
    return re.search(r"fcntl\.(?:flock|lockf)|from fcntl import .*LOCK_", path.read_text("utf-8")) is not None
