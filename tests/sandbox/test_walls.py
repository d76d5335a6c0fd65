"""Walls by Landlock of one process: each command has its own, and whoever starts them loses nothing."""

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

import pytest

from sagent.lib.gate import Gate
from sagent.lib.json import json_freeze_object
from sagent.sandbox import Sandbox
from sagent.sandbox.probe import Confinement, keep
from sagent.sandbox.profile import Profile
from sagent.tool import RunContext, Workspace
from sagent.tools.bash import Bash
from tests.depth import later
from tests.tools.conftest import Folder

pytestmark = pytest.mark.needs("landlock")


def rights() -> set[str]:
    """What the threads of this process may do."""
    threads = Path("/proc/self/task").iterdir()
    names = ("Cap", "NoNewPrivs", "Seccomp:")
    lines = (line for thread in threads for line in (thread / "status").read_text().splitlines())
    return {line for line in lines if line.startswith(names)}


def open_walls() -> int:
    found = 0
    for file in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found += "sagent-wall" in os.readlink(f"/proc/self/fd/{file}")
    return found


@later
async def test_parallel_commands_have_own_walls(tmp_path: Path) -> None:
    place = tmp_path.resolve()
    keep(place, Confinement("landlock"))
    sandbox, theirs = Sandbox(cache=place), list[RunContext]()
    tool = Bash(sandbox=sandbox)
    for name in ("one", "two"):
        (place / name).mkdir()
        workspace = Workspace(place / name)
        workspace.profile = lambda workspace: Profile((str(workspace.cwd),))
        theirs.append(RunContext("root", "call", workspace, Folder(place / f"blobs-{name}"), lambda text: None))

    async def run(number: int) -> None:
        line = f"echo x > ../one/{number}; echo x > ../two/{number}"
        await tool(json_freeze_object({"command": line}), theirs[number % 2])

    async def cancelled(number: int) -> None:
        task = asyncio.create_task(run(number))
        for _ in range(number % 20):  # before the wall is made, while the command starts, while it runs
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    try:
        await asyncio.gather(run(0), run(1))
        before = rights(), open_walls()
        await asyncio.gather(*map(run, range(2, 10)))
        await asyncio.gather(*map(cancelled, range(10, 50)))
        assert (rights(), open_walls()) == before
    finally:
        await tool.aclose()
        await sandbox.aclose()
    written = {name: {int(file.name) for file in (place / name).iterdir()} for name in ("one", "two")}
    assert written["one"] >= {0, 2, 4, 6, 8}
    assert written["two"] >= {1, 3, 5, 7, 9}
    assert {number % 2 for number in written["one"]} | {1 + number % 2 for number in written["two"]} == {0, 2}


@pytest.mark.parametrize("path", ["", "ls", "/no/such/program"])
async def test_program_is_found_or_missed_inside(tmp_path: Path, path: str) -> None:
    place = tmp_path.resolve()
    keep(place, Confinement("landlock"))
    sandbox = Sandbox(cache=place)
    try:
        confined = await sandbox.confine([path or sys.executable, "--version"], Profile(), place)
        argv, environment = confined.launched({"PATH": "/usr/bin:/bin"})
        process = await asyncio.create_subprocess_exec(*argv, env=environment, stdout=DEVNULL, stderr=PIPE)
        said = (await process.communicate())[1].decode()
        assert process.returncode == (127 if "no" in path else 0), said
        assert ("No such file" in said) == ("no" in path)
        assert confined.finish() == []
    finally:
        await sandbox.aclose()


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_programs_only_for_known_machines(machine: str) -> None:
    gate = Gate(machine)
    gate.call("nothing", "prctl", 38, 1)
    program = gate.made()
    assert program.startswith(b"\x7fELF")
    assert int.from_bytes(program[24:32], "little") - 0x400000 in range(0x78, len(program))
    with pytest.raises(ValueError, match="riscv64 are not known"):
        Gate("riscv64")
