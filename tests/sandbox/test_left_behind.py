"""Within Landlock there are no namespaces that would end with a session: what hides from us is found all the same."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sagent.lib.json import json_freeze_object
from sagent.sandbox import Sandbox
from sagent.sandbox.landlock import available
from sagent.sandbox.probe import Confinement
from sagent.sandbox.profile import Profile
from sagent.sandbox.scratch import sweep
from sagent.tool import RunContext, Workspace
from sagent.tools.bash import Bash
from tests.surroundings import PYTHON
from tests.tools.conftest import Folder
from tests.waiting import wait_until

# It leaves its session, its descriptors and its environment, lowers whatever limit it can, and says so.
DAEMON = """
import os, resource, sys
if os.fork() or os.setsid() or os.fork():
    os._exit(0)
shed = []
for limit in (2, 6, 10, 11):  # data, processes, locks, signals that wait
    try:
        resource.setrlimit(limit, (1 << 28, 1 << 28) if limit == 2 else (64, 64))
    except (OSError, ValueError) as error:
        shed.append(f"{limit}: {error}")
with open(sys.argv[1], "w") as file:
    file.write(f"{os.getpid()} {shed}")
os.closerange(0, 1000)
os.execve("/bin/sleep", ["sleep", "600"], {})
"""


@pytest.fixture(autouse=True)
def landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    if why := available():
        pytest.skip(why)
    monkeypatch.setattr("sagent.sandbox.probe.probe", lambda cache: Confinement("landlock"))


def daemon(told: Path) -> str:
    told.with_name("daemon.py").write_text(DAEMON)
    wait = f"for _ in $(seq 200); do [ -s {shlex.quote(str(told))} ] || sleep 0.05; done"
    return f"{PYTHON} {shlex.quote(str(told.with_name('daemon.py')))} {shlex.quote(str(told))}; {wait}"


def runs(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


@pytest.mark.parametrize("detached", [False, True])
async def test_hidden_daemon_ends_with_session(tmp_path: Path, *, detached: bool) -> None:
    place, sandbox = tmp_path.resolve(), Sandbox()
    workspace = Workspace(place)
    workspace.profile = lambda workspace: Profile((str(place),))
    tool, run = Bash(sandbox=sandbox), RunContext("root", "call", workspace, Folder(place / "blobs"), lambda text: None)
    try:
        await tool(json_freeze_object({"command": daemon(place / "told")}), run)
        if detached:
            (await sandbox.confine(["true"], Profile(), place)).detach()
    finally:
        await tool.aclose()
        await sandbox.aclose()
    pid = int((place / "told").read_text().split()[0])
    assert "10: " in (place / "told").read_text(), "it has shed the mark"
    try:
        if detached:
            wait_until(lambda: runs(pid), "it has become another program")
        else:
            assert not runs(pid)
    finally:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def killed_owner(place: Path, more: str = "") -> int:
    """The daemon of a session that was killed."""
    owner = f"""
import asyncio, os, signal, subprocess
from pathlib import Path
from sagent.sandbox import Sandbox, probe
from sagent.sandbox.profile import Profile
probe.probe = lambda cache: probe.Confinement("landlock")
{more}
async def main():
    line = ["sh", "-c", {daemon(place / "told")!r}]
    confined = await Sandbox().confine(line, Profile(({str(place)!r},)), Path("/"))
    argv, environment = confined.launched(os.environ)
    subprocess.run(argv, env=environment, check=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", owner], env={**os.environ, "TMPDIR": str(place)}, check=False)
    return int((place / "told").read_text().split()[0])


def test_hidden_daemon_ends_on_session_kill(tmp_path: Path) -> None:
    pid = killed_owner(tmp_path.resolve())
    wait_until(lambda: not runs(pid), "its end")


def test_killed_sessions_daemon_ended_by_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose watchdog was killed as well."""
    place = tmp_path.resolve()
    pid = killed_owner(place, "from sagent.sandbox import tasks; tasks.Watchdog = lambda *marks: None")
    wait_until(lambda: runs(pid), "it has become another program")
    monkeypatch.setattr("tempfile.tempdir", str(place))
    for directory in place.glob("sagent-tmp-*"):
        os.utime(directory, (0, 0))
    sweep()
    wait_until(lambda: not runs(pid), "its end")
