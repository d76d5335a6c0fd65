"""A process that stops with its job of the shell, as Ctrl-Z wants it."""

import os
import shlex
import signal
import subprocess
import sys

import pytest

from tests.depth import deep
from tests.waiting import wait_until

BUSY = """
import subprocess, threading, time
from sagent.lib.process import stop_job

def start() -> None:
    while True:
        subprocess.run(["true"], start_new_session=True)

for _ in range(3):
    threading.Thread(target=start, daemon=True).start()
while True:
    time.sleep(0.02)
    stop_job()
"""


def states(job: int) -> list[str]:
    """Of each process of a job of the shell."""
    listed = subprocess.run(["ps", "-eo", "pgid=,state="], capture_output=True, text=True, check=True).stdout
    return [row.split()[1][0] for row in listed.splitlines() if row.split()[0] == str(job)]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say who is in a job")
def test_busy_forker_is_stopped_at_once() -> None:
    """One that is stopped before it is its own would hold up the thread that starts it, and so all of the program."""
    child = subprocess.Popen([sys.executable, "-c", BUSY], process_group=0)
    try:
        for _ in range(deep(15, 30)):
            wait_until(lambda: os.waitpid(child.pid, os.WNOHANG | os.WUNTRACED)[0], "stopped")
            os.killpg(child.pid, signal.SIGCONT)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def test_parent_in_same_job_stops_too() -> None:
    code = "from sagent.lib.process import stop_job; stop_job(); print('on', flush=True)"
    script = f"{shlex.join([sys.executable, '-c', code])}; echo after"
    child = subprocess.Popen(["bash", "-c", script], process_group=0, stdout=subprocess.PIPE)
    try:
        wait_until(lambda: states(child.pid) == ["T", "T"], "both are stopped")
        os.killpg(child.pid, signal.SIGCONT)
        assert child.communicate(timeout=60)[0] == b"on\nafter\n"
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
