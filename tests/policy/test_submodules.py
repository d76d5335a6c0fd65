"""Submodules and linked work trees can be worked in from the sandbox, also where one is opened itself."""

import os
import subprocess
from pathlib import Path

import pytest

from sagent.lib.git import shared_directory, without_work_tree
from sagent.policy.permissions import PermissionPolicy
from sagent.sandbox import Sandbox
from sagent.sandbox.probe import Confinement
from sagent.tool import Workspace
from tests.depth import later
from tests.repositories import copy_repositories

GIT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ALLOW_PROTOCOL": "file",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "protocol.file.allow",
    "GIT_CONFIG_VALUE_0": "always",
    **{f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}
SET_UP = """
for n in deep lib; do git init -q $n; git -C $n commit -q --allow-empty -m one; done
(cd lib; git submodule --quiet add ../deep deep; git commit -qm deep)
git init -q named; (cd named; for n in 'a#b;c' 'a"b' 'd e'; do git submodule --quiet add ../deep "$n"; done)
git init -q apart; cd apart; git submodule --quiet add ../deep sub; cd sub; git config extensions.worktreeConfig true
git config --worktree core.worktree ../../../sub; git config --unset core.worktree; cd ../..
git init -q main; cd main
git submodule --quiet add ../lib sub; git submodule --quiet add ../lib group/sub
git submodule --quiet update --init --recursive; git commit -qm sub
git worktree add -q ../linked; git -C ../linked submodule --quiet update --init --recursive
git -C sub worktree add -q ../../subtree
cd ..; git clone -q --bare deep bare.git; git -C bare.git worktree add -q ../baretree
printf '#!/bin/sh\\n: > "%s/made"\\n' "$PWD" > evil; chmod +x evil
"""
COMMIT = "echo $RANDOM$RANDOM > new && git add new && git commit -qm two && git checkout -q -b branch"
PLANT = "for f in $(git rev-parse --git-common-dir) $(git rev-parse --git-dir); do {}; done"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("repositories").resolve()
    shell(SET_UP, made)
    return made


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    place = tmp_path.resolve()
    copy_repositories(made, place)
    return place


def shell(line: str, cwd: Path) -> str:
    ran = subprocess.run(["bash", "-ec", line], cwd=cwd, env={**os.environ, **GIT}, capture_output=True, check=True)
    return ran.stdout.decode()


async def confined(monkeypatch: pytest.MonkeyPatch, means: str, line: str, cwd: Path) -> str:
    """Run a line in the sandbox and return its output, or why it failed."""
    if means == "landlock":
        monkeypatch.setattr("sagent.sandbox.probe.probe", lambda cache: Confinement("landlock"))
    sandbox = Sandbox()
    if sandbox.means.name != means:
        pytest.skip(sandbox.means.why)
    try:
        work = await sandbox.confine(["bash", "-ec", line], PermissionPolicy("edit").profile(Workspace(cwd)), cwd)
        argv, environment = work.launched({**os.environ, **GIT})
        ran = subprocess.run(argv, cwd=cwd, env=environment, capture_output=True, check=False)
        work.finish()
        return ran.stdout.decode() if ran.returncode == 0 else f"failed: {ran.stderr.decode()}"
    finally:
        await sandbox.aclose()


@pytest.mark.costly
@pytest.mark.parametrize("means", ["bubblewrap", "landlock"])
@pytest.mark.parametrize(
    ("opened", "inside"),
    [
        ("main", "sub/deep"), ("main", "group/sub"), ("linked", "sub/deep"), ("main/sub", "."), ("main/sub/deep", "."),
        ("subtree", "."), ("baretree", "."), ("named/a#b;c", "."), ('named/a"b', "."), ("named/d e", "."),
        ("apart/sub", "."),
    ],
)  # fmt: skip
async def test_commit(place: Path, monkeypatch: pytest.MonkeyPatch, means: str, opened: str, inside: str) -> None:
    line = f"cd {inside}; {COMMIT}; git log -1 --format=%s"
    assert await confined(monkeypatch, means, line, place / opened) == "two\n"
    hooks = f"cd {inside}; " + PLANT.format("cp ../evil $f/hooks/post-checkout; git config -f $f/config alias.x y")
    await confined(monkeypatch, means, hooks, place / opened)
    assert "alias" not in shell("git config --list", place / opened / inside)
    shell("git checkout -q -b other", place / opened / inside)
    assert not (place / "made").exists()


@later
@pytest.mark.costly
@pytest.mark.parametrize("means", ["bubblewrap", "landlock"])
async def test_update_and_add(place: Path, monkeypatch: pytest.MonkeyPatch, means: str) -> None:
    update = "git submodule update --init --recursive; git submodule absorbgitdirs"
    line = f"{update}; git submodule --quiet add $PWD/sub/deep new; ls new"
    assert await confined(monkeypatch, means, line, place / "main") == ""
    assert shell("git diff --cached --name-only", place / "main") == ".gitmodules\nnew\n"
    assert await confined(monkeypatch, means, f"cd new; {COMMIT}; git log -1 --format=%s", place / "main") == "two\n"
    assert shell("git -C sub config core.worktree", place / "main") == "../../../sub\n"  # as it was


def test_only_repository_of_work_tree_is_writable(place: Path) -> None:
    found = shared_directory(place / "main/sub")
    assert found == place / "main/.git/modules/sub"
    assert without_work_tree(f"{found}/config") is not None
    other = place / "other"
    other.mkdir()
    for named in ("main/.git", "main/.git/modules/sub", "main/.git/worktrees/linked", "baretree", "nothing"):
        (other / ".git").write_text(f"gitdir: {place}/{named}\n")
        assert shared_directory(other) is None
    assert shared_directory(place / "main") is None  # it lies in the work tree
    assert without_work_tree(f"{place}/main/.git/config") is None
