"""The demo: what it shows, and that nothing of it outlives it."""

import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.cli.program import Shell
from tests.waiting import wait_until


def test_demo_fixes_test(shell: Shell) -> None:
    done = shell.run("demo", model="")
    assert done.code == 0, done.err
    for words in (
        "a failing test",
        "⏺ Edit(intervals.py)",
        "+        if merged and start <=",
        "Ran 4 tests",
        "USD",
        "root.jsonl",
        "nothing was charged",
    ):
        assert words in done.out
    log = re.search(r"^log +(\S+)", done.out, re.MULTILINE)
    assert log is not None
    assert Path(log[1]).is_file()


def test_killed_demo_leaves_no_server(shell: Shell, processes: Callable[[str], list[int]]) -> None:
    shell.environment["TMPDIR"] = str(shell.cwd)
    child = shell.start("demo", model="", stderr=subprocess.STDOUT)
    wait_until(lambda: processes(f"--port-file\0{shell.cwd}"), "the demo's server runs", child=child)
    child.kill()
    assert child.wait() == -signal.SIGKILL  # it did not end by itself, and closed nothing
    wait_until(lambda: not processes(f"--port-file\0{shell.cwd}"), "the end of the server")
