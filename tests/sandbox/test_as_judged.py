"""A command outside of the sandbox runs with the configuration that it was judged by."""

import asyncio
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from sagent.errors import ToolError
from sagent.lib.json import json_freeze_object
from sagent.policy.permissions import PermissionPolicy
from sagent.sandbox import Sandbox
from sagent.sandbox.profile import Need
from sagent.tool import RunContext, Workspace
from sagent.tools.bash import Bash
from tests.tools.conftest import Folder

ALL = (Need("all"),)
CHANGES = {
    # name: a command, and what is done between judgement and start
    "setting": ("git status", "git config core.fsmonitor ./evil"),
    "setting of a work tree": ("git status", "printf '[core]\\nfsmonitor=./evil\\n' > .git/config.worktree"),
    "new repository": ("git -C d status", "git init -q d; git -C d config core.fsmonitor ../evil"),
    "new repository above": ("cd d && git status", "git init -q d; git -C d config core.fsmonitor ../evil"),
    "hook of another": ("git -C d add .", "git init -q d; cp evil d/.git/hooks/post-index-change"),
    "mercurial": ("hg status", "mkdir .hg; printf '[hooks]\\npre-status = ./evil\\n' > .hg/hgrc"),
    "subversion": ("svn commit", "mkdir .svn; echo file:///x > .svn/wc.db"),
}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path.resolve() / "w"
    (work / "d").mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    (work / "evil").write_text(f"#!/bin/sh\n: > {tmp_path}/made\n")
    (work / "evil").chmod(0o755)
    return work


@pytest.mark.needs("git")
@pytest.mark.parametrize("name", CHANGES)
async def test_change_after_judgement_is_refused(work: Path, name: str) -> None:
    command, change = CHANGES[name]
    sandbox, workspace = Sandbox(), Workspace(work)
    workspace.profile = PermissionPolicy("edit").profile
    tool, arguments = Bash(sandbox=sandbox), json_freeze_object({"command": command, "needs": ["all"]})
    if not sandbox.stands:
        pytest.skip(sandbox.means.why)
    effect = tool.effect(arguments, workspace)
    subprocess.run(["bash", "-ec", change], cwd=work, check=True)
    run = RunContext("root", "c", workspace, Folder(work.parent / "b"), lambda text: None, effect=effect)
    try:
        with pytest.raises(ToolError, match="since"):
            await tool(arguments, run)
    finally:
        await tool.aclose()
        await sandbox.aclose()
    assert not (work.parent / "made").exists()


async def test_nothing_starts_beside_it(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox, profile = Sandbox(), PermissionPolicy("edit").profile(Workspace(work))
    if not sandbox.stands:
        pytest.skip(sandbox.means.why)
    try:
        other = await sandbox.confine(["true"], profile, work, ALL)  # obeys nothing here
        (await sandbox.confine(["true"], profile, work)).finish()
        outside = await sandbox.confine(["git", "push"], profile, work, ALL, is_as_judged=lambda: True)
        inside = asyncio.create_task(sandbox.confine(["true"], profile, work))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not inside.done()
        outside.finish()
        (await inside).finish()
        other.finish()
        outside = await sandbox.confine(["git", "push"], profile, work, ALL, is_as_judged=lambda: True)
        monkeypatch.setattr("sagent.sandbox.MAX_WAIT_SECONDS", 0)
        with pytest.raises(ToolError, match="outside"):
            await sandbox.confine(["true"], profile, work)
    finally:
        await sandbox.aclose()


@pytest.mark.needs("git")
async def test_job_outside_is_not_waited_for(work: Path) -> None:
    sandbox, workspace = Sandbox(), Workspace(work)
    workspace.profile = PermissionPolicy("edit").profile
    if not sandbox.stands:
        pytest.skip(sandbox.means.why)
    tool, goes = Bash(sandbox=sandbox), asyncio.Event()
    os.mkfifo(work.parent / "go")
    outside = json_freeze_object(
        {"command": f"git status; : > {work.parent}/began; read x < {work.parent}/go", "needs": ["all"]}
    )
    run = RunContext("root", "c", workspace, Folder(work.parent / "b"), lambda text: None)
    try:
        job = asyncio.create_task(tool(outside, replace(run, in_background=goes.is_set)))
        while not (work.parent / "began").exists() and not job.done():
            await asyncio.sleep(0.01)
        inside = asyncio.create_task(tool(json_freeze_object({"command": "true"}), run))
        await asyncio.sleep(0)
        assert not inside.done()
        goes.set()
        with pytest.raises(ToolError, match=r"git status.*BackgroundTask"):
            await inside
        await asyncio.to_thread((work.parent / "go").write_text, "on\n")
        assert not (await job).is_error
        assert not (await tool(json_freeze_object({"command": "true"}), run)).is_error
    finally:
        await tool.aclose()
        await sandbox.aclose()


async def test_not_beside_other_sessions(work: Path) -> None:
    (work.parent / "other").mkdir()
    here, one, two = (Workspace(place) for place in (work, work, work.parent / "other"))
    profiles = [PermissionPolicy("edit").profile(each) for each in (here, one, two)]
    sandbox, others = Sandbox(cache=work.parent / "cache"), Sandbox(cache=work.parent / "cache")
    if not sandbox.stands:
        pytest.skip(sandbox.means.why)
    (work / ".envrc").write_text("x")
    try:
        apart = await others.confine(["true"], profiles[2], work.parent / "other")
        (await sandbox.confine(["git"], profiles[0], work, ALL, is_as_judged=lambda: True)).finish()
        running = await others.confine(["true"], profiles[1], work)
        with pytest.raises(ToolError, match="since"):
            await sandbox.confine(["git"], profiles[0], work, ALL, is_as_judged=lambda: True)
        running.finish()
        apart.finish()
        (await sandbox.confine(["git"], profiles[0], work, ALL, is_as_judged=lambda: True)).finish()
    finally:
        await sandbox.aclose()
        await others.aclose()
