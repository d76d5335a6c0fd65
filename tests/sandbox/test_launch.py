"""The programs that lead into the sandbox: nothing that a command sets or writes has a say in them."""

import asyncio
import os
import shlex
import socket
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from sagent.errors import ToolError
from sagent.lib.json import json_freeze_object
from sagent.sandbox import Confined, Sandbox
from sagent.sandbox.probe import Confinement
from sagent.sandbox.profile import Profile
from sagent.tool import RunContext, ToolOutput, Workspace
from sagent.tools.bash import Bash
from tests.tools.conftest import Folder

pytestmark = pytest.mark.needs("bwrap")
WALL = ("bwrap", "nsenter", "unshare", "setpriv", "prlimit", "env", "bash", "sh")


class Boxed:
    """A Bash tool whose commands write in one directory only."""

    def __init__(self, place: Path, sandbox: Sandbox) -> None:
        self.work, self.outside = place / "work", place / "outside"
        self.work.mkdir()
        self.outside.mkdir()
        self.workspace = Workspace(self.work)
        self.workspace.profile = lambda workspace: Profile(writable=(str(self.work),))
        self.blobs = Folder(place / "blobs")
        self.sandbox = sandbox
        self.tool = Bash(sandbox=sandbox)

    def plant(self, directory: Path) -> None:
        """Programs by the names of the wall's, which leave a trace where no command may write."""
        directory.mkdir()
        for name in WALL:
            program = directory / name
            trace = f"touch {self.outside}/{name} 2>/dev/null"
            program.write_text(f'#!/bin/sh\n{trace}\nPATH={shlex.quote(os.environ["PATH"])} exec {name} "$@"\n')
            program.chmod(0o755)

    async def run(self, command: str, *needs: str, agent: str = "root", workspace: Workspace | None = None) -> str:
        context = RunContext(agent, "call", workspace or self.workspace, self.blobs, lambda text: None)
        output = await self.tool(json_freeze_object({"command": command, "needs": needs}), context)
        assert isinstance(output, ToolOutput)
        return "".join(getattr(part, "text", "") for part in output.content)


@pytest.fixture
async def boxed(tmp_path: Path) -> AsyncIterator[Boxed]:
    sandbox = Sandbox()
    if sandbox.means.name != "bubblewrap":
        pytest.skip(sandbox.means.why)
    rig = Boxed(tmp_path.resolve(), sandbox)
    try:
        yield rig
    finally:
        await rig.tool.aclose()
        await sandbox.aclose()


async def test_exported_path_misses_wall_programs(boxed: Boxed) -> None:
    boxed.plant(boxed.work / "bin")
    await boxed.run("export PATH=$PWD/bin:$PATH")
    assert await boxed.run("printf fine") == "fine"
    assert not list(boxed.outside.iterdir())


PLANT = "mkdir bin; printf '#!/bin/sh\necho planted' > bin/tac; chmod +x bin/tac; echo 'echo planted' > start.sh; "
EXPORT = "export PATH=$PWD/bin:$PATH BASH_ENV=$PWD/start.sh OWN=inside"
TRIED = "echo one | tac; echo [$OWN]"


async def test_inside_variables_stay_inside(boxed: Boxed) -> None:
    await boxed.run("export OWN=before", "all")
    await boxed.run(PLANT + EXPORT)
    assert await boxed.run(TRIED) == "planted\nplanted\n[inside]"
    said = await boxed.run(TRIED, "all")
    assert said.startswith("one\n[before]\n")
    assert "BASH_ENV" in said
    assert "PATH" in said
    assert "PWD" not in said
    child = replace(boxed.workspace, environment=dict(boxed.workspace.environment or {}))
    assert (await boxed.run(TRIED, "all", agent="root/a", workspace=child)).startswith("one\n[before]\n")
    boxed.sandbox.switch("off")
    assert (await boxed.run(TRIED)).startswith("one\n[before]\n")


async def test_outside_variables_cross_the_wall(boxed: Boxed) -> None:
    await boxed.run("export KEPT=inside GONE=1")
    await boxed.run("export OWN=outside; unset LANG_OF_MINE", "all")
    assert await boxed.run("echo $OWN $KEPT") == "outside inside"
    assert (await boxed.run("echo $OWN [$KEPT]; unset OWN", "all")).startswith("outside []\n")
    assert await boxed.run("echo [$OWN] $KEPT") == "[] inside"


async def test_granted_path_is_the_judged_one(boxed: Boxed) -> None:
    (boxed.outside / "link").symlink_to("asked")
    arguments = json_freeze_object({"command": "touch x/made", "needs": [f"write:{boxed.outside}/link"]})
    for name in ("asked", "other"):
        (boxed.outside / name).mkdir()
    (boxed.work / "x").symlink_to(boxed.outside / "other")
    effect = boxed.tool.effect(arguments, boxed.workspace)
    (boxed.outside / "link").unlink()
    (boxed.outside / "link").symlink_to("other")
    context = RunContext("root", "call", boxed.workspace, boxed.blobs, lambda text: None, effect=effect)
    await boxed.tool(arguments, context)
    assert not (boxed.outside / "other/made").exists()


async def test_granted_directory_made_link_is_dead(boxed: Boxed) -> None:
    (boxed.work / "x").mkdir()
    arguments = json_freeze_object({"command": f"touch x/made {boxed.outside}/made", "needs": ["write:x"]})
    effect = boxed.tool.effect(arguments, boxed.workspace)
    (boxed.work / "x").rename(boxed.work / "y")
    (boxed.work / "x").symlink_to(boxed.outside)
    context = RunContext("root", "call", boxed.workspace, boxed.blobs, lambda text: None, effect=effect)
    await boxed.tool(arguments, context)
    assert not list(boxed.outside.iterdir())


async def test_cancelled_commands_plant_is_removed(boxed: Boxed) -> None:
    planted = boxed.work / ".vscode"
    boxed.workspace.profile = lambda workspace: Profile((str(boxed.work),), (str(planted),))
    running = asyncio.create_task(boxed.run("mkdir .vscode; touch made; sleep 60"))
    while not (boxed.work / "made").exists():
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not planted.exists()


async def test_writable_path_entry_has_no_wall_program(boxed: Boxed, monkeypatch: pytest.MonkeyPatch) -> None:
    boxed.plant(boxed.work / "bin")
    monkeypatch.setenv("PATH", f"{boxed.work}/bin:{os.environ['PATH']}")
    assert await boxed.run("printf fine") == "fine"
    assert not list(boxed.outside.iterdir())


async def test_processes_filling_sandbox_are_ended(boxed: Boxed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.sandbox.bubblewrap.MAX_THREADS", 700)
    threads = "Thread(target=sleep, args=(60,), daemon=True).start()"
    program = f"from threading import Thread; from time import sleep; [{threads} for _ in range(320)]"
    await boxed.run(
        f"python3 -c '{program}; print(1, flush=True); sleep(60)' >up & until [ -s up ]; do sleep 0.02; done"
    )
    with pytest.raises(ToolError, match="left running was ended: run it again"):
        await boxed.run("echo next")
    assert await boxed.run("ps -e -o comm= | grep -c python; printf next") == "0\nnext"


async def test_tmp_as_workspace_reaches_nobody(boxed: Boxed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Terminals, desktops and other sessions listen there, and our own files lie there."""
    temporary = str(boxed.work)  # in place of the machine's, in which other tests make and remove what they need
    monkeypatch.setattr("sagent.sandbox.mounts.TEMPORARY", (temporary,))
    monkeypatch.setattr(tempfile, "tempdir", temporary)
    boxed.workspace.profile = lambda workspace: Profile((temporary,))
    with tempfile.TemporaryDirectory(prefix="a-") as place, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{place}/socket")
        server.listen()
        said = await boxed.run(f"ls -A {place} {boxed.sandbox.scratch}; touch {place}-new && ls -d {place}-new")
    assert Path(f"{place}-new").is_file(), said
    assert said == f"{place}:\n\n{boxed.sandbox.scratch}:\n{place}-new"


async def test_new_socket_in_tmp_is_not_reached(boxed: Boxed) -> None:
    line = "import socket; socket.socket(socket.AF_UNIX).connect('{0}/socket'); print('con' 'nected')"
    with tempfile.TemporaryDirectory(prefix="a-") as place, socket.socket(socket.AF_UNIX) as server:
        Path(place, "file").touch()
        assert "file" in await boxed.run(f"ls {place}")
        server.bind(f"{place}/socket")
        server.listen()
        said = await boxed.run(f'python3 -c "{line.format(place)}"')
    assert "connected" not in said
    assert "No such file" in said


async def test_writable_paths_are_named_unchanged(boxed: Boxed, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"only {boxed.work}, /tmp can be written" in await boxed.run("touch /etc/x")
    monkeypatch.setattr("sagent.sandbox.probe.probe", lambda cache: Confinement("landlock"))
    sandbox = Sandbox()
    monkeypatch.setattr(boxed, "tool", Bash(sandbox=sandbox))
    try:
        said = await boxed.run("touch /etc/x; ulimit -u; exit 1")
        assert f"only {boxed.work}, {sandbox.scratch}/tmp can be written" in said
        assert 4096 < int(said.splitlines()[1]) < 30_000
    finally:
        await boxed.tool.aclose()
        await sandbox.aclose()


async def test_loader_variables_apply_behind_wall(boxed: Boxed) -> None:
    await boxed.run("export LD_PRELOAD=/of/no/avail.so")
    said = await boxed.run('printf "%s" "$LD_PRELOAD"')
    assert said.endswith("/of/no/avail.so")
    assert said.count("ld.so") <= 1  # of the shell: nsenter and the others say nothing


def test_message_files_apply_behind_wall() -> None:
    confined = Confined(["/bin/true"], wall=["wall"])
    argv, environment = confined.launched({"LANG": "C.UTF-8", "LANGUAGE": "../../work/messages"})
    assert argv == ["wall", "/usr/bin/env", "LANGUAGE=../../work/messages", "/bin/true"]
    assert environment == {"LANG": "C.UTF-8"}


async def test_unmounted_guard_copy_is_unaltered(boxed: Boxed, monkeypatch: pytest.MonkeyPatch) -> None:
    (boxed.work / ".envrc").write_text("old")
    boxed.workspace.profile = lambda workspace: Profile((str(boxed.work),), (f"{boxed.work}/.envrc",))
    monkeypatch.setattr("sagent.sandbox.probe.probe", lambda cache: Confinement("landlock"))
    sandbox = Sandbox()
    monkeypatch.setattr(boxed, "tool", Bash(sandbox=sandbox))
    await boxed.run('for copy in "$TMPDIR"/*/*/copy "$TMPDIR"/../*/*/copy; do echo evil > "$copy"; done; echo > .envrc')
    assert (boxed.work / ".envrc").read_text() == "old"
    await boxed.tool.aclose()
    await sandbox.aclose()
