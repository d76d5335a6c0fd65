"""No process of a group outlives the process that started it."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator
from glob import glob
from pathlib import Path

import pytest

from sagent.lib.process import MARK, Finished, ProcessGroup, open_reader, run, system_path
from sagent.repl.terminal.clipboard import image_from_clipboard
from sagent.tools.listing import list_files
from tests.depth import later
from tests.surroundings import PYTHON
from tests.waiting import wait_until

pytestmark = pytest.mark.needs("linux")

AGENT = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from sagent.lib.json import json_freeze_object
from sagent.tool import RunContext, Workspace
from sagent.tools.bash import Bash

class Shelf:
    count = 0
    def put(self, data): raise OSError
    def adopt(self, path, *, sha256=None): raise OSError
    def show(self, path): return path
    def drop(self, path): path.unlink(missing_ok=True)
    def shown(self): return Path({tmp!r}), Path({tmp!r})
    def scratch(self):
        self.count += 1
        return Path({tmp!r}, f"scratch-{{self.count}}")

async def main():
    tool = Bash()
    run = RunContext("root", "1", Workspace(Path({tmp!r})), Shelf(), print)
    async def call(command):
        await tool(json_freeze_object({{"command": command}}), run)
{body}

asyncio.run(main())
"""


def living(marker: str) -> dict[int, str]:
    """The living processes (zombies have no command line) whose arguments hold the marker."""
    found: dict[int, str] = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if marker.encode() in line and int(path.parent.name) != os.getpid():
            found[int(path.parent.name)] = line.replace(b"\0", b" ").decode()
    return found


def sleeping(marker: str) -> list[int]:
    return [pid for pid, line in living(marker).items() if line.startswith("sleep")]


def children(pid: int) -> set[int]:
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.fixture
def marker() -> Iterator[str]:
    """An argument for `sleep` that no other process has; nothing that bears it is left after the test."""
    marker = f"3600.{uuid.uuid4().int % 10**15:015}"
    yield marker
    for pid in living(marker):
        os.kill(pid, signal.SIGKILL)


def an_agent(tmp_path: Path, body: str) -> subprocess.Popen[bytes]:
    root = str(Path(__file__).parents[2])
    source = AGENT.format(root=root, tmp=str(tmp_path), body=textwrap.indent(textwrap.dedent(body), "    "))
    (tmp_path / "agent.py").write_text(source)
    return subprocess.Popen([sys.executable, str(tmp_path / "agent.py")], start_new_session=True)


STUBBORN = {
    "background": "sleep {m} &",
    "quiet": "sleep {m} >/dev/null 2>&1 &",
    "setsid": "setsid sleep {m} &",
    "nohup": "nohup sleep {m} >/dev/null 2>&1 &",
    "double fork": "(setsid sh -c '(sleep {m} &) ; exit' >/dev/null 2>&1 &)",
    "no environment": "(env -i setsid sleep {m} >/dev/null 2>&1 &)",
    "closed files": "(setsid " + PYTHON + ' -c \'import subprocess; subprocess.run(["sleep", "{m}"])\' &)',
    "deaf": "(trap '' TERM HUP INT; setsid sleep {m} &)",
    "stopped": "setsid sleep {m} & sleep 0.1; kill -STOP $!",
}


@pytest.mark.costly
@pytest.mark.parametrize("whole_group", [False, True], ids=["process", "group"])
def test_kill_9_of_agent_leaves_no_orphan(tmp_path: Path, marker: str, whole_group) -> None:
    commands = [command.format(m=marker) for command in STUBBORN.values()]
    running = f"env -i sleep {marker} 219>&-"  # bears no mark; it is in the group of a running call
    agent = an_agent(
        tmp_path,
        f"""
        for command in {commands!r}:
            await call(command)
        await asyncio.gather(call({running!r}), call("sh -c 'sleep {marker}; true'"))
        """,
    )
    try:
        wait_until(lambda: len(sleeping(marker)) == len(STUBBORN) + 2, "start")
        helpers = children(agent.pid)
    finally:
        (os.killpg if whole_group else os.kill)(agent.pid, signal.SIGKILL)
        agent.wait()
    wait_until(lambda: not living(marker), "orphans are left")
    wait_until(lambda: all(map(gone, helpers)), "the watchdog or another helper is left")
    assert not living(marker)


@later
@pytest.mark.parametrize(
    "ending", ["await tool.aclose()", "tool.close()", "pass", "raise SystemExit(0)", "import os; os._exit(0)"]
)
def test_any_agent_end_leaves_nothing(tmp_path: Path, marker: str, ending: str) -> None:
    agent = an_agent(tmp_path, f"await call('setsid sleep {marker} & sleep {marker} &')\n{ending}")
    assert agent.wait() == 0
    wait_until(lambda: not living(marker), "orphans are left")


@later
def test_quitting_agent_kills_deaf_command(tmp_path: Path, marker: str) -> None:
    deaf = f"trap '' TERM INT HUP; setsid sleep {marker} & sleep {marker}"
    agent = an_agent(
        tmp_path,
        f"""
        import os, signal
        running = asyncio.ensure_future(call({deaf!r}))
        def leave():
            running.cancel()
            asyncio.get_running_loop().call_later(0.1, os._exit, 130)  # before SIGKILL is due
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, leave)
        await call({f"(trap '' TERM INT; setsid sleep {marker} >/dev/null 2>&1 &)"!r})
        await running
        """,
    )
    try:
        wait_until(lambda: len(sleeping(marker)) == 3, "start")
        os.kill(agent.pid, signal.SIGINT)
        assert agent.wait() == 130
    finally:
        agent.kill()
        agent.wait()
    wait_until(lambda: not living(marker), "orphans are left")


async def test_closed_group_is_empty_and_reusable(marker: str) -> None:
    group = ProcessGroup()
    for _ in range(2):
        process = await start(group, "sh", "-c", f"(trap '' TERM; setsid sleep {marker} &); sleep {marker} & exit 0")
        await process.ended()
        process.close()
        wait_until(lambda: len(sleeping(marker)) == 2, "start")
        await group.aclose()
        assert living(marker) == {}
    await group.aclose()


async def start(group: ProcessGroup, *argv: str, **environment: str):
    sink = os.open(os.devnull, os.O_WRONLY)
    try:
        return group.start(argv, env={"PATH": os.environ["PATH"], **environment}, cwd=Path("/"), output=sink)
    finally:
        os.close(sink)


async def test_process_has_own_session_and_notes() -> None:
    group = ProcessGroup()
    process = await start(group, "sh", "-c", 'echo "$SAGENT_CUSTODY $(ps -o sid= -p $$) $$" >&0')
    await process.ended()
    mark, session, pid = process.notes().decode().split()
    assert process.code == 0
    assert session == pid
    assert mark.startswith("sagent-")
    process.close()
    await group.aclose()


@pytest.mark.parametrize("when", ["open", "closed"])
async def test_released_process_leaves_no_zombie(tmp_path: Path, when: str) -> None:
    """A program that uses the library may run for months."""
    group, (reading, writing) = ProcessGroup(), os.pipe()
    process = group.start(["cat"], env={"PATH": os.environ["PATH"]}, output=writing, input=reading)
    group.drain(reading, tmp_path / "kept", limit=1 << 20, before=reading)
    process.release()
    process.close()
    if when == "closed":
        await group.aclose()
    assert Path(f"/proc/{process.pid}").exists()
    os.killpg(process.pid, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{process.pid}").exists(), "it is reaped")
    os.close(reading)
    os.close(writing)
    await group.aclose()
    wait_until(lambda: not zombies(), "what copied its output is reaped too")


def zombies() -> list[str]:
    found: list[str] = []
    for file in glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            words = Path(file).read_text().rpartition(")")[2].split()
            found += [file] if words[:2] == ["Z", str(os.getpid())] else []
    return found


async def test_only_own_marked_processes_are_swept(marker: str) -> None:
    group = ProcessGroup()
    processes = [await start(group, "sleep", marker) for _ in range(11)]  # the mark of 1 begins those of 10, 11
    wait_until(lambda: len(living(marker)) == 11, "start")
    await processes[0].kill_tree()
    assert len(living(marker)) == 10
    await group.aclose()
    assert living(marker) == {}
    for process in processes:
        await process.ended()
        assert process.code < 0
        process.close()


async def test_watchdog_holds_nothing_and_no_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MARK, "somebody else's")
    before = children(os.getpid())
    group = ProcessGroup()
    process = await start(group, "true")
    await process.ended()
    process.close()
    [watchdog] = children(os.getpid()) - before
    proc = Path(f"/proc/{watchdog}")
    assert MARK.encode() not in (proc / "environ").read_bytes()
    assert (proc / "cwd").readlink() == Path("/")
    held = {int(fd.name): str(fd.readlink()) for fd in (proc / "fd").iterdir()}
    assert held[0].startswith("pipe:")
    assert (held[1], held[2]) == ("/dev/null", "/dev/null")
    ours = {str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.exists()} - {held[0], "/dev/null"}
    assert not ours & set(held.values())
    assert os.getsid(watchdog) == watchdog
    await group.aclose()
    assert gone(watchdog)


async def test_killed_watchdog_is_replaced(marker: str) -> None:
    before = children(os.getpid())
    group = ProcessGroup()
    (await start(group, "true")).close()
    [watchdog] = children(os.getpid()) - before
    os.kill(watchdog, signal.SIGKILL)
    wait_until(lambda: gone(watchdog), "it was killed")
    process = await start(group, "setsid", "sleep", marker)
    wait_until(lambda: living(marker), "start")
    await group.aclose()
    assert living(marker) == {}
    process.close()


async def test_dropped_group_ends_its_processes(marker: str) -> None:
    group = ProcessGroup()
    process = await start(group, "sh", "-c", f"setsid sleep {marker} &")
    await process.ended()
    process.close()
    wait_until(lambda: living(marker), "start")
    del group, process
    assert living(marker) == {}


async def test_waiting_works_without_pidfd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(pid: int) -> int:
        raise OSError("no such system call")

    monkeypatch.setattr(os, "pidfd_open", missing)
    group = ProcessGroup()
    process = await start(group, "sh", "-c", 'until [ -e "$GATE" ]; do sleep 0.05; done', GATE=str(tmp_path / "gate"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await process.ended()
    (tmp_path / "gate").touch()
    await process.ended()
    assert process.code == 0
    process.close()
    await group.aclose()


async def test_close_kills_forgotten_processes(marker: str) -> None:
    group = ProcessGroup()
    process = await start(group, "sleep", marker)
    process.close()
    assert living(marker) == {}
    await group.aclose()


async def test_run_returns_code_and_output_or_none() -> None:
    done = await run(["sh", "-c", "cat; echo out; echo err >&2; exit 3"], env={"PATH": os.environ["PATH"]}, cwd="/")
    assert done == Finished(3, b"out\n")
    assert await run(["/no/such/program"]) is None


async def test_cancelled_run_ends_the_children(marker: str) -> None:
    running = asyncio.create_task(run(["sh", "-c", f"sleep {marker} & sleep {marker}"]))
    while len(sleeping(marker)) < 2:
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    wait_until(lambda: not living(marker), "orphans are left")


@pytest.mark.plugin("programs")
async def test_process_reads_and_writes_pipes() -> None:
    from sagent.plugins.programs.piped import open_writer

    group = ProcessGroup()
    (stdin, ours), (output, stdout), (errors, stderr) = os.pipe(), os.pipe(), os.pipe()
    environment = {"PATH": os.environ["PATH"]}
    process = group.start(["sh", "-c", "cat; echo no >&2"], env=environment, input=stdin, output=stdout, errors=stderr)
    for end in (stdin, stdout, stderr):
        os.close(end)
    writer = await open_writer(ours)
    (reader, _), (complaints, _) = await open_reader(output), await open_reader(errors)
    writer.write(b"hello\n")
    await writer.drain()
    assert await reader.readline() == b"hello\n"
    assert process.alive
    writer.close()
    assert await complaints.read() == b"no\n"
    await process.ended()
    assert (process.code, process.alive) == (0, False)
    process.close()
    await group.aclose()


async def test_terminated_process_may_clean_up() -> None:
    group = ProcessGroup()
    process = await start(
        group, "sh", "-c", "trap 'echo bye >&0; exit 5' TERM; echo ready >&0; while :; do sleep 0.01; done"
    )
    while process.notes() != b"ready\n":
        await asyncio.sleep(0.01)
    process.terminate()
    await process.ended()
    assert (process.code, process.notes()) == (5, b"ready\nbye\n")
    process.close()
    await group.aclose()


async def test_own_programs_are_not_from_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, link, elsewhere = tmp_path / "work", tmp_path / "link", tmp_path / "elsewhere"
    inside = work / ".venv" / "bin"
    inside.mkdir(parents=True)
    link.symlink_to(inside)
    for name in ("wl-paste", "rg", "git"):
        (inside / name).write_text(f"#!/bin/sh\n: > {work}/ran\n")
        (inside / name).chmod(0o755)
    monkeypatch.chdir(work)
    monkeypatch.setenv("PATH", f"{inside}:{link}:{work}:{elsewhere}:.")
    assert system_path() == f"{elsewhere}:{os.defpath}"
    await image_from_clipboard()
    await list_files(str(work))
    assert not (work / "ran").exists()
    monkeypatch.chdir("/")
    assert str(inside) in system_path()
