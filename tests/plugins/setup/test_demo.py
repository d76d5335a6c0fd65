"""The demo: what it shows, and that nothing of it outlives it."""

import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.program import Shell
from tests.waiting import wait_until


def test_demo_fixes_test(shell: Shell) -> None:
    done = shell.run("demo", model="")
    assert done.code == 0, done.err
    folder = re.search(r"To remove them: rm -r (\S+)$", done.out, re.MULTILINE)
    assert folder is not None
    assert not list(Path(folder[1]).rglob("*.pyc"))
    for words in (
        "a failing test",
        "● Edit intervals.py · +2 -2",
        "+         if merged and start <=",
        "… 2 more lines\n",
        "Ran 4 tests",
        "$0.03",
        "root.jsonl",
        "nothing was charged",
    ):
        assert words in done.out
    log = re.search(r"^log +(\S+)", done.out, re.MULTILINE)
    assert log is not None
    assert Path(log[1]).is_file()
    assert not list(Path(shell.environment["HOME"]).rglob("root.jsonl"))  # so /usage counts nothing
    assert not re.search(r"^(---|\+\+\+|@@) ", done.out, re.MULTILINE)


@pytest.mark.costly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_ended_demo_leaves_nothing(shell: Shell, processes: Callable[[str], list[int]], number: signal.Signals) -> None:
    (temporary := shell.cwd / "t").mkdir()
    shell.environment["TMPDIR"] = str(temporary)
    child = shell.start("demo", model="", stderr=subprocess.STDOUT)
    wait_until(lambda: processes(f"--port-file\0{shell.cwd}"), "the demo's server runs", child=child)
    child.send_signal(number)
    assert child.wait() == (-signal.SIGKILL if number == signal.SIGKILL else 128 + number)
    wait_until(lambda: not processes(f"--port-file\0{shell.cwd}"), "the end of the server")
    if number != signal.SIGKILL:
        assert not list(temporary.iterdir())
