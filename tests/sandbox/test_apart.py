"""Who shares a box: nobody sees processes of those that may reach more, and a box's way out is mended."""

import asyncio
import os
import shlex
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from sagent.errors import ToolError
from sagent.sandbox import Sandbox
from sagent.sandbox.profile import Need, Profile
from tests.waiting import until

pytestmark = [pytest.mark.needs("bwrap"), pytest.mark.plugin("network")]
SHOW = r"cat /proc/[0-9]*/environ | tr '\0' '\n' | grep -c '^MARK=mine\|^HTTP_PROXY=http'"


class Rig:
    """Commands of several agents in one sandbox."""

    def __init__(self, work: Path) -> None:
        self.work, self.sandbox = work, Sandbox()
        self.origin: tuple[str, ...] = ()
        self.running: list[subprocess.Popen[bytes]] = []

    async def start(
        self, line: str, *domains: str, needs: Sequence[Need] = (), lasting: bool = False, hidden: Sequence[str] = ()
    ) -> "subprocess.Popen[bytes]":
        there = tuple(f"{self.work}/{name}" for name in hidden)
        profile = Profile((str(self.work),), hidden=there, domains=domains, origin=self.origin)
        confined = await self.sandbox.confine(["bash", "-c", line], profile, self.work, needs, lasting=lasting)
        argv, environment = confined.launched({"PATH": os.environ["PATH"], "MARK": "mine"})
        process = subprocess.Popen(
            argv, env=environment, cwd=self.work, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self.running.append(process)
        return process

    async def run(self, line: str, *domains: str) -> str:
        """What a command prints that has nothing of what is looked for in its own environment."""
        process = await self.start(f'exec env -i PATH="$PATH" P="$HTTP_PROXY" bash -c {shlex.quote(line)}', *domains)
        out, _ = await asyncio.to_thread(process.communicate)
        return out.decode().strip()


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    (tmp_path / "work").mkdir()
    rig = Rig(tmp_path.resolve() / "work")
    if rig.sandbox.means.name != "bubblewrap":
        pytest.skip(rig.sandbox.means.why)
    try:
        yield rig
    finally:
        await rig.sandbox.aclose()
        for process in rig.running:
            process.kill()
            process.communicate()


@pytest.mark.costly
@pytest.mark.parametrize("child", [(), ("one.example",), ("one.example", "two.example:8080")])
async def test_agents_with_less_network_see_no_more(rig: Rig, child: tuple[str, ...]) -> None:
    parent = await rig.start("echo there; read", "one.example", "two.example")
    assert parent.stdout is not None
    parent.stdout.readline()
    seen = "0" if os.geteuid() else "2"  # those who may reach the same are one, but each has an own space of users
    assert await rig.run(SHOW, "two.example", "one.example") == seen
    assert await rig.run(SHOW, *child) == "0"


@pytest.mark.costly
@pytest.mark.parametrize("origin", ["other", "unknown"])
async def test_agents_that_read_less_see_no_more(rig: Rig, origin: str) -> None:
    rig.origin = () if origin == "unknown" else ("edit",)
    parent = await rig.start("echo there; read")
    assert parent.stdout is not None
    parent.stdout.readline()
    (rig.work / "key").write_text("KEY")
    rig.origin = () if origin == "unknown" else ("edit", "Read(key)")
    child = await rig.start("cat key /proc/[0-9]*/root/$PWD/key; cat /proc/[0-9]*/comm", hidden=["key"])
    assert (await asyncio.to_thread(child.communicate))[0] == b"bash\ncat\n"


async def test_relay_shows_no_hidden_files(rig: Rig) -> None:
    rig.origin = ("edit",)
    (rig.work / "key").write_text("KEY")
    namespaces = await rig.run("readlink /proc/self/ns/net", "one.example")
    line = "readlink /proc/self/ns/net; cat key /proc/[0-9]*/root/$PWD/key; head -1 /proc/[0-9]*/cmdline"
    child = await rig.start(line, "one.example", hidden=["key"])
    said = (await asyncio.to_thread(child.communicate))[0].decode()
    assert said.startswith(namespaces)
    assert "relay.py" in said
    assert "KEY" not in said


async def test_persons_programs_are_isolated(rig: Rig) -> None:
    server = await rig.start("echo there; read", lasting=True)
    assert server.stdout is not None
    server.stdout.readline()
    other = await rig.start(f"unset MARK; exec env -u MARK bash -c {shlex.quote(SHOW)}", lasting=True)
    assert (await asyncio.to_thread(other.communicate))[0] == b"0\n"
    assert await rig.run(SHOW) == "0"


async def test_way_out_survives_killed_relay(rig: Rig) -> None:
    ask = r"exec 3<>/dev/tcp/127.0.0.1/${P##*:} && printf 'GET / HTTP/1.1\r\nHost: a\r\n\r\n' >&3 && head -1 <&3"
    assert "407" in await rig.run(ask, "one.example")
    assert await rig.run("grep -l relay /proc/[0-9]*/cmdline | cut -d/ -f3 | xargs kill -9", "one.example") == ""
    for _ in range(100):  # what had started it hears of its end a moment later
        if "407" in (said := await rig.run(ask, "one.example")):
            break
    assert "407" in said


async def test_failing_way_out_is_said(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(ToolError, match="/bin/false does not run in the sandbox"):
        await rig.start("true", "example.org")


async def test_relay_has_none_of_our_environment(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "key-of-ours")
    assert "key-of-ours" not in await rig.run("cat /proc/[0-9]*/environ | tr '\\0' '\\n'", "one.example")


async def test_relay_does_not_keep_detached_box(rig: Rig) -> None:
    (place := rig.work / "ns").touch()
    assert await rig.run("readlink /proc/self/ns/pid > ns", "one.example") == ""
    profile = Profile(writable=(str(rig.work),), domains=("one.example",))
    (await rig.sandbox.confine(["true"], profile, rig.work)).detach()
    await rig.sandbox.aclose()
    await until(lambda: not any(namespace(each) == place.read_text().strip() for each in os.listdir("/proc")))


def namespace(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""
