"""What programs that are killed leave among temporary files, for tests of the core and of plugins."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from sagent.sandbox.scratch import sweep

READY = "import sys\ndef ready(): print('ready', end='', flush=True); sys.stdin.read()\n"


def check_leavings(tmp_path: Path, place: Path, program: str, *, named: bool = True) -> None:
    """Run a program that leaves something, and kill it; `named` says that others can tell that it lives."""
    (tmp_path / "project/skills/one").mkdir(parents=True)
    (tmp_path / "project/skills/one/SKILL.md").write_text("---\nname: one\n---\n")
    environment, pipe = {**os.environ, "TMPDIR": str(place)}, subprocess.PIPE
    argv = [sys.executable, "-c", READY + program]
    with subprocess.Popen(argv, env=environment, cwd=tmp_path, stdin=pipe, stdout=pipe, start_new_session=True) as run:
        assert run.stdout is not None
        said = b""
        while not said.endswith(b"ready") and (piece := os.read(run.stdout.fileno(), 1000)):
            said += piece
        there = age(place)
        assert there, said
        if named:
            sweep()
            assert age(place) == there
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
    sweep()
    assert age(place) == []


def age(place: Path) -> list[Path]:
    """What lies there, as if for an hour."""
    there = sorted(place.iterdir())
    for path in there:
        os.utime(path, (0, 0))
    return there
