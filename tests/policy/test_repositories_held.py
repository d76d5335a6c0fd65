"""A command in the sandbox plants nothing that git runs by itself, in whatever kind of repository."""

import os
import subprocess
from pathlib import Path

import pytest

from sagent.policy.permissions import PermissionPolicy
from sagent.sandbox import Sandbox
from sagent.sandbox.probe import Confinement
from sagent.tool import Workspace
from tests.repositories import copy_repositories

SET_UP = """
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a
git init -q origin; git -C origin commit -q --allow-empty -m one
git init -q work; cd work
git -c protocol.file.allow=always submodule --quiet add ../origin sub
git commit -qm one
git worktree add -q ../linked; git worktree add -q inside
git init -q --separate-git-dir=meta separate
git config include.path ../shared.conf; echo '[user] name = b' > shared.conf
git init -q hooked; git -C hooked config core.hooksPath tools/hooks; mkdir -p hooked/tools/hooks
printf '#!/bin/sh\\n: > "%s/made"\\n' "$(dirname "$PWD")" > evil; chmod +x evil
"""
FSMONITOR = "core.fsmonitor $PWD/evil"
COPY = f"cp -r .git/modules/sub e; git config -f e/config {FSMONITOR}; git config -f e/config core.worktree ../sub"
PLANT = {
    "the .git file of a submodule": (
        f"{COPY}; echo 'gitdir: ../e' > sub/.git",
        "git status; git -C sub status",
    ),
    "a submodule that is replaced": (
        f"{COPY}; mv sub old; mkdir sub; echo 'gitdir: ../e' > sub/.git",
        "git status; git -C sub status",
    ),
    "the configuration of a submodule": (
        "git config -f .git/modules/sub/config core.fsmonitor $PWD/evil",
        "git status",
    ),
    "a hook of a submodule": ("cp evil .git/modules/sub/hooks/post-checkout", "git -C sub checkout -q -b x"),
    "what a worktree beside shares": (
        "cp -r .git e; git config -f e/config core.fsmonitor $PWD/evil; echo $PWD/e > .git/worktrees/linked/commondir",
        "git -C ../linked status",
    ),
    "the configuration of a worktree beside": (
        f"git config -f .git/worktrees/linked/config.worktree {FSMONITOR}; git config extensions.worktreeConfig true",
        "git -C ../linked status",
    ),
    "the .git file of a worktree inside": (
        "cp -r .git e; git config -f e/config core.fsmonitor $PWD/evil; echo gitdir: $PWD/e > inside/.git",
        "git -C inside status",
    ),
    "a repository that lies apart": ("git config -f meta/config core.fsmonitor $PWD/evil", "git -C separate status"),
    "a hook of a repository that lies apart": (
        "cp evil meta/hooks/post-checkout",
        "git -C separate commit -q --allow-empty -m x; git -C separate checkout -q -b x",
    ),
    "what the configuration includes": ("echo '[core] fsmonitor = '$PWD/evil >> shared.conf", "git status"),
    "a directory of hooks that the configuration names": (
        "cp evil hooked/tools/hooks/post-checkout",
        "git -C hooked commit -q --allow-empty -m x; git -C hooked checkout -q -b x",
    ),
}


def shell(line: str, cwd: Path) -> None:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
    identity = {f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(["bash", "-c", line], cwd=cwd, env={**environment, **identity}, capture_output=True, check=False)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("repositories").resolve()
    subprocess.run(["bash", "-ec", SET_UP], cwd=made, check=True, capture_output=True)
    return made


@pytest.fixture
def work(made: Path, tmp_path: Path) -> Path:
    place = tmp_path.resolve()
    copy_repositories(made, place)
    return place / "work"


@pytest.mark.costly
@pytest.mark.parametrize("means", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("name", PLANT)
async def test_nothing_is_planted(work: Path, monkeypatch: pytest.MonkeyPatch, name: str, means: str) -> None:
    if means == "landlock":
        monkeypatch.setattr("sagent.sandbox.probe.probe", lambda cache: Confinement("landlock"))
    sandbox = Sandbox()
    if sandbox.means.name != means:
        pytest.skip(sandbox.means.why)
    plant, fire = PLANT[name]
    try:
        profile = PermissionPolicy("edit").profile(Workspace(work))
        confined = await sandbox.confine(["bash", "-c", plant], profile, work)
        argv, environment = confined.launched({**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"})
        subprocess.run(argv, cwd=work, env=environment, capture_output=True, check=False)
        confined.finish()
    finally:
        await sandbox.aclose()
    shell(fire, work)
    assert not (work.parent / "made").exists()


@pytest.mark.parametrize("name", PLANT)
def test_same_is_planted_without_the_sandbox(work: Path, name: str) -> None:
    plant, fire = PLANT[name]
    shell(plant, work)
    shell(fire, work)
    assert (work.parent / "made").exists()
