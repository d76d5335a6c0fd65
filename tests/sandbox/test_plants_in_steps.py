"""Plants that take several steps: what an earlier session left, what links lead to, and what is written while a command
runs outside of the sandbox."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from sagent.policy.permissions import PermissionPolicy
from sagent.sandbox import Confined, Sandbox
from sagent.sandbox.probe import Confinement
from sagent.sandbox.profile import Need
from sagent.tool import Workspace
from tests.depth import later

WHO = {f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
CACHE = "mkdir -p ~/.cache/pip/x/y; cp evil ~/.cache/pip/x; cd ~/.cache/pip/x"
MONITOR = "printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = ./evil\\n' > "
BARE = "mkdir -p objects refs; echo ref: refs/heads/x > HEAD"
REBASE = (
    "git init -q d; cp evil d; cd d; git commit -q --allow-empty -m 1; echo 1 > n; git add n; git commit -qm n; "
    "GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i HEAD~1"
)
TODO = "git-rebase-todo"
LINKED = "echo ref: refs/heads/x > HEAD; echo ../.. > commondir; echo ~/w/d/.git > gitdir"
CONTINUE = "cd d; GIT_EDITOR=true git rebase --continue"
LOOK = "cd d; git status; git diff"
REMOTE = "git init -q d; cp evil d; git -C d commit -q --allow-empty -m 1; mkdir -p d/.git/remotes d/.git/branches; "
FETCH = "cd d; git -c protocol.ext.allow=always fetch o"
OPENED = "[ -e {} ] && ./evil"
STEPS = {
    # name: the lines of each session, and what somebody does later
    "todo list by a link": (
        [f"{REBASE}; cd .git; mv rebase-merge ../x; echo 'exec ./evil' >> ../x/{TODO}; ln -s ../x rebase-merge"],
        CONTINUE,
    ),
    "legacy remote": ([f"{REMOTE} echo URL: ext::./evil > d/.git/remotes/o"], FETCH),
    "legacy branch": ([f"{REMOTE} echo ext::./evil > d/.git/branches/o"], FETCH),
    "legacy remotes by a link": (
        [f"{REMOTE} mkdir r; echo URL: ext::./evil > r/o; rmdir d/.git/remotes; ln -s ../../r d/.git/remotes"],
        FETCH,
    ),
    "link to a cache": (
        [f"{CACHE}; git init -q; {MONITOR} .git/config; ln -s $PWD ~/w/d"],
        LOOK,
    ),
    "link below a repository in a cache": (
        [f"{CACHE}; git init -q; {MONITOR} .git/config; ln -s $PWD/y ~/w/d"],
        LOOK,
    ),
    "link to an old cache": (
        [f"{CACHE}; {BARE}; {MONITOR} config; echo worktree = . >> config",
         "ln -s ~/.cache/pip/x d"],
        LOOK,
    ),
    "old link to a cache": (
        ["mkdir ~/.cache/pip/x; ln -s ~/.cache/pip/x d", f"cd d; cp ~/w/evil .; git init -q; {MONITOR} .git/config"],
        LOOK,
    ),
    "link to a link": (
        ["mkdir -p vendor/a; ln -s vendor/a d", f"ln -s ~/.cache/pip/x d/b; {CACHE}; echo x > .envrc"],
        OPENED.format("d/b/.envrc"),
    ),
    "link to what was fetched": (
        ["mkdir -p vendor/p; echo x > vendor/p/.envrc; ln -s vendor/p p"], OPENED.format("p/.envrc"),
    ),
    "link to what was fetched before": (
        ["mkdir -p .venv/p; echo x > .venv/p/.envrc", "ln -s .venv/p p"], OPENED.format("p/.envrc"),
    ),
    "copy of what was fetched": (
        ["mkdir -p vendor/p/.vscode; echo x > vendor/p/.vscode/tasks.json", "mkdir s; cp -r vendor/p/.vscode s"],
        OPENED.format("s/.vscode/tasks.json"),
    ),
    "renamed from what was built": (
        ["mkdir -p x/target/.vscode; echo x > x/target/.vscode/tasks.json", "mv x/target x/y"],
        OPENED.format("x/y/.vscode/tasks.json"),
    ),
    "installed, moved": (
        ["mkdir -p node_modules/p; echo x > node_modules/p/.envrc", "mv node_modules/p p"], OPENED.format("p/.envrc"),
    ),
    "moved out of a cache": (
        [f"{CACHE}; git init -q; {MONITOR} .git/config",
         "mv ~/.cache/pip/x d"],
        LOOK,
    ),
    "moved out of objects": (
        [f"mkdir -p .git/objects/z; cp evil .git/objects/z; cd .git/objects/z; git init -q; {MONITOR} .git/config",
         "mv .git/objects/z d"],
        LOOK,
    ),
    "shared without a head": (
        [f"mkdir -p s/objects s/refs; {MONITOR} s/config; sleep 1.1",
         f"mkdir -p s/worktrees/w d; cp evil d; cd s/worktrees/w; {LINKED}; echo gitdir: $PWD > ~/w/d/.git; sleep 1.1"],
        LOOK,
    ),
    "todo list without a head": (
        [f"{REBASE}; mv .git g; mv g/HEAD h; echo 'exec ./evil' >> g/rebase-merge/{TODO}",
         "cd d; mv h g/HEAD; mv g .git"],
        CONTINUE,
    ),
}  # fmt: skip


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository `w` in a home of its own."""
    work = tmp_path.resolve() / "w"
    (tmp_path / ".cache/pip").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(work.parent))
    work.mkdir()
    shell("git init -q; git commit -q --allow-empty -m one", work)
    (work / "evil").write_text(f"#!/bin/sh\n: > {tmp_path}/made\n")
    (work / "evil").chmod(0o755)
    return work


@pytest.fixture(params=["bubblewrap", "landlock"])
def means(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "landlock":
        monkeypatch.setattr("sagent.sandbox.probe.probe", lambda cache: Confinement("landlock"))
    if (found := Sandbox().means).name != request.param:
        pytest.skip(found.why)
    return request.param


def shell(line: str, cwd: Path) -> None:
    subprocess.run(["bash", "-c", line], cwd=cwd, env={**os.environ, **WHO}, capture_output=True, check=False)


async def begin(sandbox: Sandbox, line: str, cwd: Path, *needs: Need) -> tuple[Confined, asyncio.subprocess.Process]:
    profile = PermissionPolicy("edit").profile(Workspace(cwd))
    confined = await sandbox.confine(["bash", "-c", line], profile, cwd, needs)
    argv, environment = confined.launched({**os.environ, **WHO})
    null = asyncio.subprocess.DEVNULL
    started = await asyncio.create_subprocess_exec(
        *argv, cwd=cwd, env=environment, stdin=null, stdout=null, stderr=null, start_new_session=True
    )
    return confined, started


async def run(sandbox: Sandbox, line: str, cwd: Path, *needs: Need) -> list[str]:
    confined, started = await begin(sandbox, line, cwd, *needs)
    await started.wait()
    return list(confined.finish())


@pytest.mark.costly
@pytest.mark.usefixtures("means")
@pytest.mark.parametrize("name", STEPS)
async def test_plant_in_steps_runs_nothing(work: Path, name: str) -> None:
    lines, then = STEPS[name]
    for line in lines:
        sandbox = Sandbox()
        await run(sandbox, line, work)
        await sandbox.aclose()
    shell(then, work)
    assert not (work.parent / "made").exists()


@pytest.mark.parametrize("name", STEPS)
def test_same_steps_run_it_without_sandbox(work: Path, name: str) -> None:
    lines, then = STEPS[name]
    for line in (*lines, then):
        shell(line, work)
    assert (work.parent / "made").exists()


@later
@pytest.mark.costly
@pytest.mark.usefixtures("means")
async def test_harmless_links_and_moves_stay(work: Path) -> None:
    before = (
        "mkdir -p pkg/.vscode node_modules/m .venv/src/p; echo 1 > pkg/.vscode/s; cp pkg/.vscode/s node_modules/m; "
        "git init -q .venv/src/p; git -C .venv/src/p config alias.x '!true'; cp evil .venv/src/p/.git/hooks/pre-push"
    )
    shell(before, work)
    lines = (
        "touch pkg/new node_modules/m/new .venv/src/p/new; git -C .venv/src/p status",
        "mkdir -p ~/.cache/pip/o node_modules/y; : > ~/.cache/pip/o/f; ln -s ~/.cache/pip/o o; ln -s node_modules/y .",
        "mkdir q; cp -r pkg/.vscode q; git clone -q . node_modules/z; ln -s node_modules/z z; ln -s loop loop",
        "git worktree add -q t; git -C t commit -q --allow-empty -m x",
    )
    sandbox = Sandbox()
    said = [each for line in lines for each in await run(sandbox, line, work)]
    await sandbox.aclose()
    assert not said, said[0][:600]
    there = ("pkg/.vscode/s", "q/.vscode/s", "o/f", "y", "z/.git/HEAD", ".venv/src/p/.git/hooks/pre-push", "t/.git")
    assert [name for name in there if not (work / name).exists()] == []
    assert "alias" in (work / ".venv/src/p/.git/config").read_text()


LEFT = {
    # name: what something that a command left does while another runs outside, and what must not be there then
    "a file": ("echo x > .envrc", ".envrc"),
    "a directory": ("mkdir -p .vscode; echo x > .vscode/tasks.json", ".vscode"),
    "a configuration": ("printf '[core]\\n\\tfsmonitor = x\\n' > .git/config.worktree", ".git/config.worktree"),
}


@pytest.mark.costly
@pytest.mark.usefixtures("means")
@pytest.mark.parametrize("name", LEFT)
async def test_what_runs_outside_lets_nothing_else_in(work: Path, name: str) -> None:
    plant, path = LEFT[name]
    sandbox = Sandbox()
    try:
        await run(sandbox, f"(while :; do {plant}; sleep 0.02; done) > /dev/null 2>&1 & true", work)
        await run(sandbox, f"until [ -e {path} ]; do sleep 0.01; done", work, Need("all"))
    finally:
        await sandbox.aclose()
    assert not os.path.lexists(work / path)


@pytest.mark.costly
@pytest.mark.usefixtures("means")
@pytest.mark.parametrize("name", LEFT)
async def test_command_beside_plants_nothing(work: Path, name: str) -> None:
    plant, path = LEFT[name]
    sandbox = Sandbox()
    try:
        confined, outside = await begin(sandbox, "exec tail -f /dev/null", work, Need("all"))
        await run(sandbox, plant, work)
        outside.kill()
        await outside.wait()
        confined.finish()
    finally:
        await sandbox.aclose()
    assert not os.path.lexists(work / path)


@pytest.mark.costly
@pytest.mark.usefixtures("means")
async def test_what_a_command_outside_makes_stays(work: Path) -> None:
    sandbox = Sandbox()
    try:
        await run(sandbox, "true", work)
        assert not sandbox.is_busy
        assert (
            await run(sandbox, "echo x > .envrc; git config a.b c; cp evil .git/hooks/pre-push", work, Need("all"))
            == []
        )
        assert await run(sandbox, "true", work) == []
    finally:
        await sandbox.aclose()
    assert (work / ".envrc").exists()
    assert (work / ".git/hooks/pre-push").exists()
    assert "b = c" in (work / ".git/config").read_text()


async def test_what_still_writes_is_ended_first(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.sandbox.probe.probe", lambda cache: Confinement("landlock"))
    sandbox = Sandbox()
    if sandbox.means.name != "landlock":
        pytest.skip(sandbox.means.why)
    await run(sandbox, "(while :; do echo x > .envrc; done) > /dev/null 2>&1 & true", work)
    await sandbox.aclose()  # ends what still runs before it looks for the last time
    assert not (work / ".envrc").exists()
