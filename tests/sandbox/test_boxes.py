"""Boxes that are opened ahead, that are killed, and that are made while files come and go."""

import asyncio
import contextlib
import gc
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from sagent.app import open_agent
from sagent.config import load
from sagent.errors import ToolError
from sagent.lib.json import json_freeze_object
from sagent.messages import Text
from sagent.sandbox import Sandbox
from sagent.sandbox.bubblewrap import Box, Boxes, View, refusal
from sagent.sandbox.profile import Profile
from sagent.sandbox.scratch import Scratch
from sagent.session.blobs import BlobDirectory
from sagent.testing.server import FakeProviderServer, Received, Turn
from sagent.tool import RunContext, Workspace
from sagent.tools.bash import Bash
from tests.depth import later
from tests.waiting import stop, until

pytestmark = pytest.mark.needs("bwrap")


class Boxed:
    """The Bash tool in a sandbox of its own."""

    def __init__(self, root: Path) -> None:
        self.sandbox = Sandbox()
        self.workspace, self.blobs = Workspace(root), BlobDirectory(root / "blobs")
        self.tool = Bash(sandbox=self.sandbox)

    async def run(self, command: str) -> str:
        run = RunContext("root", "call", self.workspace, self.blobs, lambda text: None)
        output = await self.tool(json_freeze_object({"command": command}), run)
        return "".join(part.text for part in output.content if isinstance(part, Text))

    async def processes(self) -> list[int]:
        """Those in the box of commands, by the first of it."""
        found = (await self.run("readlink /proc/self/ns/pid")).strip()
        names = [name for name in os.listdir("/proc") if name.isdigit()]
        return sorted(int(name) for name in names if namespace(name) == found)


def namespace(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


@pytest.fixture
async def boxed(tmp_path: Path) -> AsyncIterator[Boxed]:
    boxed = Boxed(tmp_path.resolve())
    try:
        if boxed.sandbox.means.name != "bubblewrap":
            pytest.skip("bubblewrap does not work here")
        yield boxed
    finally:
        await boxed.tool.aclose()
        await boxed.sandbox.aclose()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What boxes are opened with, as they are."""
    found, really = list[object](), Boxes.open

    def count(boxes: Boxes, mounts: tuple[str, ...], box: Box | None = None) -> object:
        found.append(mounts)
        return really(boxes, mounts, box)

    monkeypatch.setattr(Boxes, "open", count)
    return found


async def test_box_opened_ahead_serves_first_command(
    boxed: Boxed, opened: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def listening(_: object) -> tuple[str, ...]:
        return ()  # what others begin to would need another view

    monkeypatch.setattr("sagent.sandbox.mounts.listening", listening)
    await boxed.tool.prepare(boxed.workspace, boxed.blobs)
    ahead = [*opened]
    assert ahead
    assert await boxed.run("echo there") == "there"
    assert opened == ahead


def test_box_made_for_an_ended_loop_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    if refusal():
        pytest.skip("bubblewrap does not work here")
    scratch, begun, may_end, really = Scratch(), Event(), Event(), Boxes.open
    boxes = Boxes(scratch)
    made = list[subprocess.Popen[bytes]]()

    def wait(boxes: Boxes, mounts: Sequence[str], box: Box | None = None) -> View | str:
        begun.set()
        may_end.wait()
        opened = really(boxes, mounts, box)
        assert isinstance(opened, View)
        made.append(vars(opened.box)["_process"])
        return opened

    async def end_late() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            may_end.set()

    async def leave() -> None:
        tasks = [asyncio.create_task(boxes.view(Profile())), asyncio.create_task(end_late())]
        await asyncio.to_thread(begun.wait)
        assert not any(task.done() for task in tasks)

    monkeypatch.setattr(Boxes, "open", wait)
    asyncio.run(leave())
    gc.collect()
    scratch.remove()
    assert made[0].returncode is not None


@later
async def test_undone_while_opening_is_told(boxed: Boxed) -> None:
    work = boxed.workspace.cwd
    running = asyncio.create_task(boxed.run("echo mine > .envrc; until [ -e go ]; do sleep 0.01; done"))
    await until(lambda: (work / ".envrc").exists(), "the file", task=running)
    await boxed.tool.prepare(boxed.workspace, boxed.blobs)
    (work / "go").touch()
    assert "the sandbox undid the changes to" in await running


async def test_first_box_is_made_while_model_thinks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[object]
) -> None:
    async def think(_: Received) -> Turn:
        await until(lambda: any(opened), "the box")  # the one in which it is tried has nothing of a profile
        return Turn(text="done")

    async with FakeProviderServer(think) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        settings = load({"cwd": str(tmp_path), "model": "anthropic/claude-sonnet-4-6"})
        async with open_agent(settings, lambda _: None) as agent:
            assert (await agent.run("go")).content == "done"


@contextlib.contextmanager
def listens(place: Path) -> Generator[None]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place / "socket"))
        server.listen()
        yield


@contextlib.contextmanager
def appears(work: Path) -> Generator[None]:
    (work / ".env").write_text("KEY")
    yield


@contextlib.contextmanager
def is_replaced(work: Path) -> Generator[None]:
    subprocess.run(["git", "config", "user.name", "x"], cwd=work, check=True)
    yield


@contextlib.contextmanager
def is_made(work: Path) -> Generator[None]:
    subprocess.run(["git", "init", "-q", "sub"], cwd=work, check=True)
    yield


SERVE = (
    "python3 -ISc 'import socket, time; server = socket.create_server((\"127.0.0.1\", 8123)); time.sleep(600)' "
    ">/dev/null 2>&1 & echo $! > pid; until {}; do sleep 0.02; done"
)
ANSWERS = "(exec 3<>/dev/tcp/127.0.0.1/8123)"
LOOK = (
    "cat .env; echo >> .git/config; echo >> sub/.git/config;"
    "grep -E 'shared:|master:' /proc/self/mountinfo && echo OUT; [ $(ls /proc | grep -c '^[0-9]') -lt 20 ] || echo OUT"
)


@later
@pytest.mark.costly
@pytest.mark.parametrize("happens", [listens, appears, is_replaced, is_made])
async def test_left_process_is_reached_by_next(
    boxed: Boxed, happens: Callable[[Path], contextlib.AbstractContextManager[None]]
) -> None:
    """A program begins to listen in /tmp, there is a key to hide, git replaces its config, or there is a new one: what
    commands see of files is made anew, and nothing else."""
    work = boxed.workspace.cwd
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    with tempfile.TemporaryDirectory(prefix="sagent-test-", dir="/tmp") as place:
        assert await boxed.run(f"ls -d {place}") == place
        await boxed.run(SERVE.format(ANSWERS + " 2>/dev/null"))
        with happens(Path(place) if happens is listens else work):
            said = await boxed.run(f"{ANSWERS} && {LOOK}; ls {place}; kill $(cat pid) && echo ended")
    assert "ended" in said
    assert not any(word in said for word in ("refused", "KEY", "socket", "OUT"))
    assert said.count("Read-only file system") == 1 + (happens is is_made)


@later
async def test_left_process_writes_nothing_protected(boxed: Boxed) -> None:
    work = boxed.workspace.cwd
    writes = "until [ -e go ]; do sleep 0.02; done; echo '[x]' >> sub/.git/config; touch done"
    await boxed.run(f"({writes}) >/dev/null 2>&1 &")
    with is_made(work):
        before = (work / "sub/.git/config").read_text()
        said = await boxed.run("touch go; until [ -e done ]; do sleep 0.02; done")
    assert "the sandbox undid the changes to" in said
    assert (work / "sub/.git/config").read_text() == before


async def test_blocking_left_process_is_ended(boxed: Boxed) -> None:
    await boxed.run("(while :; do kill -9 -1; done) >/dev/null 2>&1 & sleep 60")
    (boxed.workspace.cwd / ".env").touch()
    with pytest.raises(ToolError, match="left running was ended: run it again"):
        await boxed.run("echo next")
    assert await boxed.run("echo next") == "next"


async def test_abandoned_box_serves_the_next(boxed: Boxed, opened: list[object]) -> None:
    preparing = asyncio.create_task(boxed.tool.prepare(boxed.workspace, boxed.blobs))
    await until(lambda: opened, "the box", task=preparing)
    preparing.cancel()
    await asyncio.wait([preparing])
    assert await boxed.run("echo there") == "there"
    assert opened[0] == opened[-1]
    profile = Profile(exposed=(str(boxed.workspace.cwd),))
    opening = asyncio.create_task(boxed.sandbox.confine((), profile, boxed.workspace.cwd))
    await until(lambda: opened[-1] != opened[0], "the second box", task=opening)
    opening.cancel()
    processes, scratch = await boxed.processes(), boxed.sandbox.scratch
    await boxed.sandbox.aclose()
    await until(lambda: not any(map(alive, processes)), "the end of the boxes")
    assert not scratch.exists()


async def test_slow_end_of_box_delays_nobody(boxed: Boxed, monkeypatch: pytest.MonkeyPatch) -> None:
    order, really = list[str](), Box.close

    def close(box: Box) -> None:
        really(box)
        order.append("closed")

    def resume() -> None:
        order.append("resumed")
        os.kill(first, signal.SIGCONT)

    first, *_ = await boxed.processes()
    monkeypatch.setattr(Box, "close", close)
    stop(first)
    asyncio.get_running_loop().call_later(0.1, resume)
    await boxed.sandbox.aclose()
    assert order == ["resumed", "closed"]


def alive(pid: int) -> bool:
    return bool(namespace(str(pid)))


@later
@pytest.mark.costly
@pytest.mark.parametrize("moment", ["while it runs", "between two"])
async def test_killed_box_is_told_and_replaced(boxed: Boxed, moment: str) -> None:
    first, *_ = await boxed.processes()
    if moment == "while it runs":
        started = boxed.workspace.cwd / "started"
        running = asyncio.create_task(boxed.run("touch started; sleep 600"))
        await until(started.exists, "the command", task=running)
        os.kill(first, signal.SIGKILL)
        assert "its sandbox was killed" in await running
    else:
        os.kill(first, signal.SIGKILL)
        await until(lambda: not alive(first), "its end")
    assert await boxed.run("echo next") == "next"


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What bubblewrap says at the next tries, before it works."""
    answers, really = list[str](), Boxes.open

    def fail(boxes: Boxes, mounts: Sequence[str], box: Box | None = None) -> View | str:
        return answers.pop(0) if answers else really(boxes, mounts, box)

    monkeypatch.setattr(Boxes, "open", fail)
    return answers


async def test_box_is_retried_when_files_change(boxed: Boxed, failing: list[str]) -> None:
    failing += ["bwrap: Can't bind mount /oldroot/tmp/x: No such file or directory"] * 3
    assert await boxed.run("echo there") == "there"
    failing += ["bwrap: Can't create file at /tmp/x: Is a directory"] * 3
    assert refusal() == ""
    failing += ["bwrap: setting up uid map: Permission denied"] * 3
    assert "apparmor" in refusal().lower()
    assert len(failing) == 2  # which is for good, and said at once
    failing[:] = ["bwrap: No permissions to create new namespace. See <https://deb.li/bubblewrap>."]
    assert refusal().endswith("See <https://deb.li/bubblewrap>")  # sentences go on after it


async def test_kept_sessions_hide_no_new_file(boxed: Boxed) -> None:
    """They keep it under a date to come, and it is not shown."""
    with contextlib.ExitStack() as stack:
        kept = [stack.enter_context(tempfile.TemporaryDirectory(prefix="sagent-tmp-", dir="/tmp")) for _ in range(25)]
        for place in kept:
            os.utime(place, (4e9, 4e9))
        new = stack.enter_context(tempfile.TemporaryDirectory(prefix="sagent-test-", dir="/tmp"))
        assert await boxed.run(f"ls -d {new}") == new
        assert "No such file" in await boxed.run(f"ls -d {kept[-1]}")


async def test_files_in_tmp_do_not_stop_boxes(boxed: Boxed) -> None:
    """The host then has something of another kind at that name, which is new and so shown in boxes."""
    with tempfile.TemporaryDirectory(prefix="sagent-test-", dir="/tmp") as place:
        names = [f"{place}-{number}" for number in range(3)]
        file, directory, link = names
        assert await boxed.run(f"mkdir {file}; touch {directory}; ln -s /nowhere {link}; echo made") == "made"
        try:
            Path(directory).mkdir()
            for name in (file, link):
                Path(name).write_text("the host's")
            boxed.workspace.profile = lambda workspace: replace(Profile(), writable=(str(workspace.cwd),))
            assert await boxed.run(f"ls -d {' '.join(names)}") == "\n".join(sorted(names))
        finally:
            subprocess.run(["rm", "-rf", *names], check=True)
