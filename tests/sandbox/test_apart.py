"""Who shares a box: nobody sees processes of those that may reach more, and a box's way out is mended."""

import asyncio
import os
import shlex
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from sagent.sandbox import Sandbox
from sagent.sandbox.profile import Need, Profile

pytestmark = pytest.mark.needs("bwrap")


class Rig:
    """Commands of several agents in one sandbox."""

    def __init__(self, work: Path) -> None:
        self.work, self.sandbox = work, Sandbox()
        self.running: list[subprocess.Popen[bytes]] = []

    async def start(
        self, line: str, *domains: str, needs: Sequence[Need] = (), lasting: bool = False
    ) -> "subprocess.Popen[bytes]":
        profile = Profile(writable=(str(self.work),), domains=domains)
        confined = await self.sandbox.confine(["bash", "-c", line], profile, self.work, needs, lasting=lasting)
        argv, environment = confined.launched({"PATH": os.environ["PATH"], "MARK": "mine"})
        process = subprocess.Popen(
            argv, env=environment, cwd=self.work, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self.running.append(process)
        return process

    async def run(self, line: str, *domains: str) -> str:
        """What a command prints that has nothing of what is looked for in its own environment."""
        process = await self.start(f"exec env -i PATH=$PATH P=$HTTP_PROXY bash -c {shlex.quote(line)}", *domains)
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


async def test_what_leads_out_of_a_box_has_nothing_of_our_environment(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "key-of-ours")
    assert "key-of-ours" not in await rig.run("cat /proc/[0-9]*/environ | tr '\\0' '\\n'", "one.example")
