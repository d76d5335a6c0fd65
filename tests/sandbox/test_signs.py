"""What is said of programs that the sandbox may have stopped."""

import subprocess
from pathlib import Path

import pytest

from sagent.lib.json import json_freeze_object
from sagent.sandbox import Sandbox
from sagent.sandbox.profile import Profile
from sagent.sandbox.signs import was_held_back, within
from sagent.tool import RunContext, ToolOutput, Workspace
from sagent.tools.bash import Bash
from tests.tools.conftest import Folder


@pytest.mark.parametrize(
    "said",
    [
        "chmod: changing permissions of 'sub': Operation not permitted",
        "cp: preserving permissions for ‘sub2’: Operation not permitted",
        "shutil.Error: [('sub', 'q', \"[Errno 1] Operation not permitted: 'q'\")]",
        "Error: EPERM: operation not permitted, chmod 'sub'",
        "fatal: Could not make /w/r/.git/hooks/ writable by group",
    ],
)
def test_refused_mode_is_explained(tmp_path: Path, said: str) -> None:
    assert was_held_back(said, failed=True)
    assert "`chmod g-s`" in within(Profile(), [tmp_path], message=said)


def test_other_failures_tell_nothing_of_modes(tmp_path: Path) -> None:
    for said in ("touch: cannot touch '/etc/x': Read-only file system", "curl: (6) Could not resolve host: a", ""):
        assert "chmod" not in within(Profile(), [tmp_path], message=said)


def test_success_tells_nothing_of_sandbox() -> None:
    for said in (
        "3: if error == 'Read-only file system':",
        "docs: what is busy (Device or resource busy) is skipped",
        "",
    ):
        assert not was_held_back(said, failed=False)


@pytest.mark.needs("bwrap")
@pytest.mark.needs("git")
async def test_half_done_submodule_is_explained(tmp_path: Path) -> None:
    """Git goes on where it cannot write its configuration, and exits with 0."""
    place = tmp_path.resolve()
    who = "-c user.name=a -c user.email=a@b"
    line = f"git init --quiet repository && git -C repository {who} commit --quiet --allow-empty -m first"
    subprocess.run(line, shell=True, cwd=place, check=True)
    workspace, sandbox = Workspace(place / "repository"), Sandbox(cache=place)
    tool = Bash(sandbox=sandbox)
    context = RunContext("root", "call", workspace, Folder(place / "blobs"), lambda text: None)
    line = 'git -c protocol.file.allow=always submodule add "$PWD" sub'
    try:
        answer = await tool(json_freeze_object({"command": line}), context)
    finally:
        await tool.aclose()
        await sandbox.aclose()
    assert isinstance(answer, ToolOutput)
    assert not answer.is_error, answer.content
    assert f'"write:{place}/repository/.git/config"' in str(answer.content)
