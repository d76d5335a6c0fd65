"""What git would obey in a repository that a command made is taken out when it has ended."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sagent.lib.git import harmless_config
from sagent.policy.permissions import PermissionPolicy
from sagent.sandbox import Sandbox
from sagent.sandbox.probe import Confinement
from sagent.sandbox.profile import Need
from sagent.tool import Workspace
from tests.repositories import copy_repositories

GIT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    **{f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}
SET_UP = """
git init -q repo; cd repo; git commit -q --allow-empty -m one; echo x > f; git add f; git commit -qm two
git config extensions.worktreeConfig true
cd ..; git init -q hooked; cd hooked; git commit -q --allow-empty -m one
git config core.hooksPath tools/hooks; git config include.path ../c/more
"""
EVIL = "printf '#!/bin/sh\\n: > \"%s/made\"\\n' $PWD > evil; chmod +x evil; E=$PWD/evil"
BARE = "mkdir -p {0}/objects {0}/refs; echo ref: refs/heads/main > {0}/HEAD"
LINES = r"[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = %s\n\tfsmonitor = %s\n"
MONITOR = f"printf '{LINES}' $PWD $E"
EDIT = "GIT_SEQUENCE_EDITOR='sed -i s/pick/edit/' git rebase -q -i HEAD~1"
TODO = ".git/rebase-merge/git-rebase-todo"
CHECKOUT = "git -C sub commit -q --allow-empty -m x; git -C sub checkout -q -b x"
PIECES = [*'[]"\\=#;\n\t \r!x', "core", "[core]\n", "fsmonitor", "bare", "\ufeff", "include", "path", "bare = x\n"]
PLANTS = {
    # name: where, what a command does, what somebody does later
    "clone": ("plain", "git init -q sub; git -C sub config core.fsmonitor $E", "git -C sub status"),
    "hook": ("plain", "git init -q sub; cp evil sub/.git/hooks/post-checkout", CHECKOUT),
    "hooks elsewhere": (
        "plain",
        "git init -q sub; mkdir h; cp evil h/post-checkout; git -C sub config core.hooksPath $PWD/h",
        CHECKOUT,
    ),
    "linked hooks": (
        "plain",
        "git init -q sub; rm -r sub/.git/hooks; mkdir h; cp evil h/post-checkout; ln -s ../../h sub/.git/hooks",
        CHECKOUT,
    ),
    "alias": ("plain", 'git init -q sub; git -C sub config alias.up "!$E"', "git -C sub up"),
    **{
        f"address in {setting}": (
            "plain",
            f"git init -q -b main sub; cd sub; git config {setting} ext::$E; git config branch.main.merge refs/heads/x",
            f"cd sub; git commit -q --allow-empty -m x; git -c protocol.ext.allow=always {then}",
        )
        for setting, then in (
            ("branch.main.remote", "fetch"),
            ("branch.main.pushRemote", "-c push.default=current push"),
            ("remote.pushDefault", "-c push.default=current push"),
        )
    },
    "included": (
        "plain",
        'git init -q sub; echo "[core] fsmonitor=$E" > c; git -C sub config include.path $PWD/c',
        "git -C sub status",
    ),
    "pager": (
        "plain",
        "git init -q sub; git -C sub config diff.external $E; cd sub; echo 1 >f; git add f; echo 2 >f",
        "git -C sub diff",
    ),
    "filter": (
        "plain",
        "git init -q sub; git -C sub config filter.x.clean $E; echo '* filter=x' > sub/.gitattributes",
        "cd sub; echo 1 > g; git add g",
    ),
    "root": ("plain", f"{BARE.format('.')}; {MONITOR} > config", "git status"),
    "root in steps": ("plain", f"mkdir objects refs; {MONITOR} > config; echo ref: refs/heads/x > HEAD", "git status"),
    "other name": ("plain", f"{BARE.format('deep/x')}; {MONITOR} > deep/x/config", "cd deep/x; git status"),
    "node_modules": (
        "plain",
        f"{BARE.format('node_modules/a')}; {MONITOR} > node_modules/a/config",
        "cd node_modules/a; git status",
    ),
    "gitfile": (
        "plain",
        f"{BARE.format('store')}; {MONITOR} > store/config; mkdir sub; echo gitdir: ../store > sub/.git",
        "git -C sub status",
    ),
    "old times": (
        "plain",
        f"{BARE.format('a/b')}; {MONITOR} > a/b/config; find . -exec touch -d 2001-01-01 {{}} +",
        "cd a/b; git status",
    ),
    "common directory": (
        "plain",
        (
            f"{BARE.format('s')}; {MONITOR} > s/config; mkdir w t; echo ../s > w/commondir; cp s/HEAD w; "
            "echo gitdir: ../w > t/.git"
        ),
        "git -C t status",
    ),
    "new worktree": (
        "repo",
        "git worktree add -q in; git -C in config --worktree core.fsmonitor $E",
        "git -C in status",
    ),
    "rebase": ("repo", f'{EDIT}; echo "exec $E" >> {TODO}', "git rebase --continue"),
    "rebase, short": ("repo", f"{EDIT}; printf '\\t x\\t%s' $E >> {TODO}", "git rebase --continue"),
    "hooks that the person named": (
        "hooked",
        "mkdir -p tools/hooks; cp evil tools/hooks/post-checkout",
        "git checkout -q -b x",
    ),
    "file that the person includes": ("hooked", 'mkdir c; echo "[core] fsmonitor=$E" > c/more', "git status"),
    "strategy": (
        "repo",
        (
            "git checkout -q -b y HEAD~1; echo 1 > g; git add g; git commit -qm y; mkdir git-merge-.. .git/sequencer; "
            "git rev-parse HEAD > .git/sequencer/head; "
            "for a in 1 2; do echo pick $(git rev-parse @{-1}); done > .git/sequencer/todo; "
            "printf '[options]\\n\\tstrategy = ../../evil\\n' > .git/sequencer/opts"
        ),
        "git cherry-pick --continue",
    ),
    "closed directories": (
        "plain",
        f"mkdir -p a/b; git init -q a/b/s; {MONITOR} > a/b/s/.git/config; chmod 111 a/b/s/.git a/b/s a/b",
        "git -C a/b/s status",
    ),
    "closed hooks": (
        "plain",
        "git init -q sub; cp evil sub/.git/hooks/post-checkout; chmod 111 sub/.git/hooks",
        CHECKOUT,
    ),
    "submodule": (
        "repo",
        "git -c protocol.file.allow=always submodule -q add $PWD s; git -C s config core.fsmonitor $E",
        "git status; git -C s status",
    ),
}
IN_TWO = {
    # name: two commands, and what somebody does later
    "other name of a file": ("git init -q s; ln s/.git/config c", f"{MONITOR} > c", "git -C s status"),
    "what a gitfile led to": (
        "mkdir s; echo 'gitdir: ../n/x' > s/.git",
        f"{BARE.format('n/x')}; {MONITOR} > n/x/config",
        "git -C s status",
    ),
    "what runs on": (
        f"git init -q s; (sleep 1; {MONITOR} > s/.git/config) & sleep 0.2",
        "sleep 1.5",
        "git -C s status",
    ),
    "made whole later": (
        f"mkdir -p s/o s/refs; {MONITOR} > s/config; echo ref: refs/heads/m > s/HEAD",
        "mv s/o s/objects",
        "cd s; git status",
    ),
}


def shell(line: str, cwd: Path) -> None:
    subprocess.run(["bash", "-c", line], cwd=cwd, env={**os.environ, **GIT}, capture_output=True, check=False)


async def confined(sandbox: Sandbox, line: str, cwd: Path, *needs: Need) -> list[str]:
    profile = PermissionPolicy("edit").profile(Workspace(cwd))
    confined = await sandbox.confine(["bash", "-c", line], profile, cwd, needs)
    argv, environment = confined.launched({**os.environ, **GIT})
    subprocess.run(argv, cwd=cwd, env=environment, capture_output=True, check=False)
    return list(confined.finish())


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("repositories").resolve()
    shell(SET_UP, made)
    (made / "plain").mkdir()
    return made


@pytest.fixture
def place(repositories: Path, tmp_path: Path) -> Path:
    place = tmp_path.resolve()
    copy_repositories(repositories, place)
    return place


def made(means: str, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    if means == "landlock":
        monkeypatch.setattr("sagent.sandbox.probe.probe", lambda cache: Confinement("landlock"))
    sandbox = Sandbox()
    if sandbox.means.name != means:
        pytest.skip(sandbox.means.why)
    return sandbox


@pytest.mark.costly
@pytest.mark.parametrize("means", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("name", PLANTS)
async def test_plant_runs_nothing(place: Path, monkeypatch: pytest.MonkeyPatch, name: str, means: str) -> None:
    where, plant, fire = PLANTS[name]
    sandbox = made(means, monkeypatch)
    try:
        said = await confined(sandbox, f"{EVIL}; {plant}", place / where)
    finally:
        await sandbox.aclose()
    shell(fire, place / where)
    assert not (place / where / "made").exists()
    assert any("would obey" in each for each in said)


@pytest.mark.costly
@pytest.mark.parametrize("means", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("name", IN_TWO)
async def test_plant_of_two_commands_runs_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str, means: str
) -> None:
    first, second, fire = IN_TWO[name]
    sandbox = made(means, monkeypatch)
    work = place / "plain"
    try:
        await confined(sandbox, f"{EVIL}; ({first}) >/dev/null 2>&1", work)
        await confined(sandbox, f"{EVIL}; {second}", work)
    finally:
        await sandbox.aclose()
    shell(fire, work)
    assert not (work / "made").exists()


@pytest.mark.parametrize("name", IN_TWO)
def test_same_two_commands_run_unsandboxed(place: Path, name: str) -> None:
    first, second, fire = IN_TWO[name]
    shell(f"{EVIL}; {first}; {second}; {fire}", place / "plain")
    assert (place / "plain/made").exists()


@pytest.mark.costly
@pytest.mark.parametrize("means", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("line", ["git config user.name me", "git config core.hooksPath .husky", "git remote add o /x"])
async def test_granted_configuration_is_written(
    place: Path, monkeypatch: pytest.MonkeyPatch, line: str, means: str
) -> None:
    sandbox, work = made(means, monkeypatch), place / "repo"
    config = work / ".git/config"
    before = config.read_bytes()
    try:
        await confined(sandbox, line, work)
        assert config.read_bytes() == before
        await confined(sandbox, line, work, Need("write", str(config)))
        after = config.read_bytes()
        assert await confined(sandbox, "ls", work) == []
    finally:
        await sandbox.aclose()
    assert after != before
    assert config.read_bytes() == after


async def test_large_tree_is_searched_gradually(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.sandbox.survey._NEAR_DIRECTORIES", 1)
    monkeypatch.setattr("sagent.sandbox.plants._SLICE_SECONDS", 0.0)
    work = place / "plain"
    sandbox = made("bubblewrap", monkeypatch)
    warned: list[str] = []
    sandbox.warn = warned.append
    try:
        assert await confined(sandbox, f"{EVIL}; git init -q a/b/c; git -C a/b/c config alias.up '!true'", work) == []
    finally:
        await sandbox.aclose()
    assert "!true" not in (work / "a/b/c/.git/config").read_text()
    assert f"{work}/a/b/c/.git/config (alias.up)" in warned[0]


async def test_too_many_directories_are_said(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.sandbox.plants.MAX_DIRECTORIES", 2)
    work = place / "plain"
    (work / "a/b/c").mkdir(parents=True)
    sandbox = made("bubblewrap", monkeypatch)
    warned: list[str] = []
    sandbox.warn = warned.append
    await confined(sandbox, "ls", work)
    await sandbox.aclose()
    assert f"{work} has more directories" in warned[0]


@pytest.mark.parametrize("name", PLANTS)
def test_same_plant_runs_without_sandbox(place: Path, name: str) -> None:
    where, plant, fire = PLANTS[name]
    shell(f"{EVIL}; {plant}", place / where)
    shell(fire, place / where)
    assert (place / where / "made").exists()


@pytest.mark.costly
@pytest.mark.parametrize("means", ["bubblewrap", "landlock"])
async def test_ordinary_work_is_left_alone(place: Path, monkeypatch: pytest.MonkeyPatch, means: str) -> None:
    sandbox = made(means, monkeypatch)
    work = place / "plain"
    try:
        line = "git init -q c; cd c; git config user.name me; git remote add o /x; git init -q --bare b"
        assert await confined(sandbox, line, work) == []
        before = (work / "c/.git/config").read_bytes()
        shell("git init -q mine; cp ../repo/f mine/.git/hooks/pre-commit; git -C mine config alias.x '!true'", work)
        assert await confined(sandbox, "ls", work) == []
        assert await confined(sandbox, "cd c; echo 1 > f; git add f; git commit -qm one", work) == []
    finally:
        await sandbox.aclose()
    assert b"name = me" in before
    assert (work / "c/.git/config").read_bytes() == before
    assert (work / "mine/.git/hooks/pre-commit").exists()
    assert "alias" in (work / "mine/.git/config").read_text()


async def test_rebase_of_person_keeps_its_lines(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = place / "repo"
    shell("GIT_SEQUENCE_EDITOR='sed -i s/pick/edit/' git rebase -q -i -x 'touch own' HEAD~1", work)
    sandbox = made("bubblewrap", monkeypatch)
    try:
        todo = ".git/rebase-merge/git-rebase-todo"
        assert "exec touch own" in (work / todo).read_text()
        assert await confined(sandbox, "true", work) == []
        assert await confined(sandbox, f"echo 'exec touch planted' >> {todo}", work)
    finally:
        await sandbox.aclose()
    assert (work / todo).read_text() == "exec touch own\n"


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("[remote \"o\"]\n\turl = https://x/y\n", True), ("[remote \"o\"]\n\turl = ext:\":\"sh -c id\n", False),
        ("[remote \"o\"]\n\turl = \"-x\"\n", False), ("[remote \"o\"]\n\tuploadpack = id\n", False),
        ("[submodule \"s\"]\n\tupdate = \"!id\"\n", False), ("[submodule \"s\"]\n\tupdate = merge\n", True),
        ("[core]\n\tworktree = /home\n", False), ("[core] fsmonitor = x\n", False),
        ("[credential]\n\thelper = x\n", False), ("[gc]\n\trecentObjectsHook = x\n", False),
        ("[include]\n\tpath = x\n", False), ("[lfs]\n\tconcurrenttransfers=1\n", False),
    ],
)  # fmt: skip
def test_harmless_setting_is_kept(line: str, kept: bool) -> None:
    assert (harmless_config(line.encode(), "/x/config").decode() == line) is kept


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
@example("\r\r\n")
@example("\r!x\n\n")
@example("#\rfsmonitor=x\n\n")
def test_kept_lines_are_understood(text: str) -> None:
    kept = harmless_config(text.encode(), "/x/config")
    assert harmless_config(kept, "/x/config") == kept
    for line in kept.decode().lower().splitlines():
        assert "=" not in line or line.split("=")[0].strip() == "bare" or line.lstrip()[0] in "#;["
