"""Processes that a cancelled command leaves nothing of, whatever they do to be left."""

import asyncio
import os
import signal
import subprocess
from pathlib import Path

import pytest

from sagent import Agent, Resources
from sagent.lib import descent
from sagent.lib.descent import Descent
from sagent.messages import ToolResult
from sagent.model import Request
from sagent.testing import ScriptedModel
from sagent.tool import Workspace
from sagent.tools import BackgroundTask
from sagent.tools.bash import Bash
from tests.agent.test_jobs import call
from tests.depth import later
from tests.surroundings import PYTHON
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
UNMARKED = "env -i bash -c 'exec 219<&- </dev/null;"
WRITE, WAIT = "echo $$ >> pids", "sleep 7778; sleep 7778"
WAYS = {
    "ignores SIGTERM": f"trap '' TERM; {WRITE}; {WAIT}",
    "a session of its own": f"setsid sh -c 'trap \"\" TERM; {WRITE}; {WAIT}' & sleep 7778",
    "forked twice": f"(setsid bash -c '(trap \"\" TERM; echo $BASHPID >> pids; {WAIT}) &' &); sleep 7778",
    "without marks": f"setsid {UNMARKED} {WRITE}; exec sleep 7778' & sleep 7778",
    "without marks, ignores SIGTERM": f'setsid {UNMARKED} trap "" TERM; {WRITE}; {WAIT}\' & wait',
    "an orphan without marks": f"(setsid {UNMARKED} (echo $BASHPID >> pids; {WAIT}) & exit' &); sleep 7778",
    "an orphan without marks and output": (
        f"(setsid {UNMARKED} exec >/dev/null 2>&1; (echo $BASHPID >> pids; {WAIT}) & exit' &); sleep 7778"
    ),
    "a grandchild": f'sh -c "{UNMARKED} echo \\$\\$ >> pids; {WAIT}\' & wait"',
    "stops itself": f"{WRITE}; kill -STOP $$; sleep 7778",
}

CHAIN = """
import os, time
os.closerange(0, 219)
end = time.monotonic() + 40  # should nothing else end it
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(0.001)
    with open("pids", "a") as file:
        file.write(f"{os.getpid()}\\n")
"""


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_parent_comes_before_its_child() -> None:
    """A shell that is signalled after its command prints how that ended."""
    while True:  # until a set of both numbers is in the other order: one in eight
        with subprocess.Popen(["sh", "-c", "sleep 7778; :"], start_new_session=True) as root:
            children = Path(f"/proc/{root.pid}/task/{root.pid}/children")
            try:
                wait_until(children.read_text, "the start of the child")
                found = Descent(root.pid, 0)
                found.look()
                assert found.left() == (root.pid, int(children.read_text()))
                if next(iter(set(found.left()))) != root.pid:
                    return
            finally:
                os.killpg(root.pid, signal.SIGKILL)


async def started(file: Path) -> list[int]:
    for _ in range(600):
        if file.exists() and file.read_text().endswith("\n"):
            return [int(line) for line in file.read_text().split()]
        await asyncio.sleep(0.05)
    raise AssertionError("it did not start")


async def cancelled(root: Path, command: str) -> tuple[str, list[int]]:
    """What the model reads of a cancelled job, and which of the processes ran when it did."""
    said, left = list[str](), list[int]()

    async def cancel(request: Request):
        await started(root / "pids")
        return (call("c2", "BackgroundTask", operation="cancel", id="job:1"),)

    def look(request: Request) -> str:
        left.extend(pid for pid in map(int, (root / "pids").read_text().split()) if runs(pid))
        said.extend(part.text for part in request.messages[-1].parts if isinstance(part, ToolResult))
        return "end"

    bash = Bash()
    model = ScriptedModel((call("c1", "Bash", command=command, background=True),), cancel, look)
    agent = Agent(model, tools=[bash, BackgroundTask()], resources=Resources(workspace=Workspace(root)))
    try:
        await agent.run("go")
    finally:
        await agent.aclose()
        await bash.aclose()
    return said[0], left


@pytest.mark.costly
@pytest.mark.parametrize("name", WAYS)
async def test_cancel_answers_when_all_ended(tmp_path: Path, name: str) -> None:
    said, left = await cancelled(tmp_path, WAYS[name])
    assert left == []
    assert "cancelled" in said


@later
async def test_cancel_ends_a_fast_forker(tmp_path: Path) -> None:
    (tmp_path / "chain.py").write_text(CHAIN)
    said, _ = await cancelled(tmp_path, f"{PYTHON} chain.py & sleep 7778")
    written = (tmp_path / "pids").read_text()
    await asyncio.sleep(0.5)
    assert (tmp_path / "pids").read_text() == written
    assert "could not be ended" not in said


async def test_cancel_says_what_could_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descent, "MAX_SECONDS", 0.1)
    monkeypatch.setattr(Descent, "signal", lambda _, number: None)  # as of a process of another user
    said, left = await cancelled(tmp_path, WAYS["without marks"])
    assert len(left) == 1
    os.kill(left[0], signal.SIGKILL)
    assert f"may still run: {left[0]}" in said


async def test_others_are_left_alone(tmp_path: Path) -> None:
    other = await asyncio.create_subprocess_exec("sleep", "7778")
    reading, writing = os.pipe()
    reader = await asyncio.create_subprocess_exec("sleep", "7778", stdin=reading)
    ours = await asyncio.create_subprocess_exec("sleep", "7778", stdout=writing)
    found = Descent(ours.pid, os.fstat(writing).st_ino)
    os.close(writing)
    os.close(reading)
    try:
        assert await found.end() == ()
        await ours.wait()
        assert [runs(other.pid), runs(reader.pid)] == [True, True]
    finally:
        for each in (other, reader):
            each.kill()
            await each.wait()
