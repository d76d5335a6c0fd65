"""A sandbox whose owner is killed, at whatever moment."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.waiting import wait_until

pytestmark = pytest.mark.needs("bwrap")

OWNER = """
import asyncio, os, subprocess, sys
from pathlib import Path
from sagent.sandbox import Sandbox
from sagent.sandbox.profile import Profile

async def main():
    sandbox = Sandbox(cache=Path(sys.argv[1]))
    print(sandbox.means.name, flush=True)
    confined = await sandbox.confine(["sh", "-c", "setsid env -i sleep 600 & exec sleep 600"], Profile(), Path("/"))
    subprocess.run([*confined.wall, *confined.argv], env={**os.environ, **confined.environment})

asyncio.run(main())
"""


def left(mark: str) -> list[str]:
    """The processes that name the mark, in their environment or as an argument, or that stand in a box of it."""
    found: list[str] = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (directory / "cmdline").read_bytes() + (directory / "environ").read_bytes():
                found.append((directory / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def children(pid: int) -> Iterator[str]:
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            yield from file.read_text().split()


@pytest.mark.costly
@pytest.mark.parametrize("moment", [-6, -5, -4, -3, -2, -1, 0, 2, 5, 10, 20, 60])
def test_nothing_is_left_of_killed_owner(tmp_path: Path, moment: int) -> None:
    """Below 0: as soon as bubblewrap is there, else as many milliseconds after it was asked for."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # where its own directory lies, which names it everywhere
    owner = subprocess.Popen([sys.executable, "-c", OWNER, tmp_path], env=environment, stdout=subprocess.PIPE)
    assert owner.stdout is not None
    with owner, owner.stdout:
        assert owner.stdout.readline() == b"bubblewrap\n"
        while moment < 0 and not list(children(owner.pid)):  # as soon as bubblewrap is there
            pass
        time.sleep(max(0, moment) / 1000)
        owner.send_signal(signal.SIGKILL)
    wait_until(lambda: not left(str(tmp_path)), f"the end of {left(str(tmp_path))}")
