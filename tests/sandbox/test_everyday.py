"""What people do every day in a repository works in the sandbox, or the answer names the files that are in its way."""

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sagent.errors import ToolError
from sagent.lib.json import json_freeze_object
from sagent.policy.permissions import PermissionPolicy
from sagent.policy.rules import Rules
from sagent.sandbox import Sandbox
from sagent.sandbox.probe import Confinement
from sagent.sandbox.profile import Profile
from sagent.sandbox.signs import stopped_halfway
from sagent.tool import RunContext, ToolOutput, Workspace
from sagent.tools.bash import Bash
from sagent.tools.exports import outside_judge
from tests.tools.conftest import Folder

WHO = {f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
FILE = "protocol.file.allow=always"
ONE = "echo 1 > a; git add .; git commit -qm 1"
HOOKS = "mkdir .githooks .vscode; echo 1 > .githooks/pre-commit; echo 1 > .vscode/s"
TWO = f"{HOOKS}; {ONE}; git checkout -qb two; echo 2 > .githooks/pre-commit; git commit -qam 2; git checkout -q -"
SUBMODULE = f"git init -q ../o; git -C ../o commit -q --allow-empty -m 1; git -c {FILE} submodule --quiet add ../o s"
TAKEN = "test ! -e wt && test $(git worktree list | wc -l) = 1"
# name: what the person has made, the commands of one session, what is so then, and needs that nothing names
MADE = {
    "worktree": (ONE, ["git worktree add -q wt", "git worktree remove wt"], TAKEN),
    "worktree with copies": (
        f"{HOOKS}; echo x > .envrc; {ONE}", ["git worktree add -q wt", "git worktree remove wt"], TAKEN,
    ),
    "worktree moved": (
        ONE, ["git worktree add -q wt", "git worktree move wt w2", "git -C w2 status && git worktree remove w2"], TAKEN,
    ),
    "repository": (
        ONE,
        ["git init -q x", "cd x && git remote add o /o && git sparse-checkout init && cd ..", "mv x y", "rm -r y"],
        "test ! -e y",
    ),
    "first repository": (
        "rm -rf .git",
        ["git init -q", "git config user.name b", "git remote add o /o", "git branch -M x && git init -q"],
        "test $(git config user.name) = b && git config remote.o.url",
    ),
    "clone": (
        f"git init -q ../o; git -C ../o commit -q --allow-empty -m 1; {ONE}",
        ["git clone -q ../o c", "git -C c branch -q -u origin/$(git -C c branch --show-current)", "rm -r c"],
        "test ! -e c",
    ),
    "submodule": (
        f"{ONE}; {SUBMODULE}; git commit -qm s; git clone -q . ../w2; cp -r ../w2 n",
        [f"cd n && git -c {FILE} clone -q ../../o t", "rm -r t"],
        "test ! -e n/t && test -e s/.git",
    ),
}  # fmt: skip
NAMED = {
    "worktree remove": (f"{ONE}; git worktree add -q wt", "git worktree remove --force wt", TAKEN),
    "rm of a worktree": (f"{ONE}; git worktree add -q wt", "rm -fr ./wt/", "test ! -e wt"),
    "rm of a submodule": (f"{ONE}; {SUBMODULE}", "rm --recursive -f s", "test ! -e s"),
    "worktree move": (f"{ONE}; git worktree add -q wt", "git worktree move wt w2", "git -C w2 status"),
    "worktree prune": (f"{ONE}; git worktree add -q wt; rm -r wt", "git worktree prune", TAKEN),
    "worktree repair": (f"{ONE}; git worktree add -q wt; mv wt w2", "git worktree repair w2", "git -C w2 status"),
    "submodule removed": (f"{SUBMODULE}; {ONE}", "git rm -qf s", "test ! -e s"),
    "clean": (f"{ONE}; mkdir -p n/.vscode; echo 1 > n/.vscode/s", "git clean -qfdx", "test ! -e n"),
    "stash": (f"{ONE}; mkdir .vscode; echo 1 > .vscode/s", "git stash -qu", "test ! -e .vscode"),
    "checkout": (TWO, "git checkout -qf two", "grep 2 .githooks/pre-commit"),
    "merge": (TWO, "git merge -q two", "grep 2 .githooks/pre-commit"),
    "config": (ONE, "git config user.name b", "test $(git config user.name) = b"),
    "branch": (ONE, "git branch -m x", "git rev-parse x"),
    "hook": (ONE, "echo 1 > .git/hooks/pre-commit", "test -e .git/hooks/pre-commit"),
    "folder": (f"mkdir -p n/.idea; {ONE}; echo 1 > n/.idea/x", "rm -r n", "test ! -e n"),
    "repository": (f"{ONE}; git init -q n", "rm -rf n", "test ! -e n"),
    "moved": (f"mkdir -p n/.idea; echo 1 > n/.idea/x; {ONE}", "mv n m", "test -e m/.idea/x"),
    "other directory": (f"{ONE}; git init -q m", "cd m && git remote add o /o", "git -C m config remote.o.url"),
}  # fmt: skip


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = tmp_path.resolve() / "w"
    work.mkdir()
    for name, value in {**WHO, "HOME": str(tmp_path), "GIT_CONFIG_GLOBAL": "/dev/null"}.items():
        monkeypatch.setenv(name, value)
    return work


def found_landlock(_: Path | None) -> Confinement:
    return Confinement("landlock")


@pytest.fixture(params=["bubblewrap", "landlock"])
def means(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "landlock":
        monkeypatch.setattr("sagent.sandbox.probe.probe", found_landlock)
    if (found := Sandbox().means).name != request.param:
        pytest.skip(found.why)
    return request.param


async def session(
    work: Path, *lines: tuple[str, Sequence[str]], policy: PermissionPolicy | None = None
) -> tuple[list[ToolOutput], list[str]]:
    """Run commands, each with its needs, in one session; return what they answered, and what the person was told."""
    sandbox, workspace, said, told = Sandbox(), Workspace(work), list[ToolOutput](), list[str]()
    sandbox.warn = told.append
    workspace.profile = (policy or PermissionPolicy("edit")).profile
    blobs = Folder(work.parent / f"b{len([*work.parent.iterdir()])}")
    tool, run = Bash(sandbox=sandbox), RunContext("root", "c", workspace, blobs, lambda text: None)
    try:
        for line, needs in lines:
            try:
                answer = await tool(json_freeze_object({"command": line, "needs": list(needs)}), run)
            except ToolError as error:
                answer = replace(ToolOutput.of(str(error)), is_error=True)
            said.append(answer)
    finally:
        await tool.aclose()
        await sandbox.aclose()
    return said, told


def shell(line: str, work: Path) -> None:
    subprocess.run(["bash", "-ec", line], cwd=work, env=os.environ, check=True, capture_output=True)


@pytest.mark.costly
@pytest.mark.needs("git")
@pytest.mark.parametrize("name", MADE)
async def test_commands_go_on_with_their_own(work: Path, means: str, name: str) -> None:
    before, lines, then = MADE[name]
    shell(f"git init -q; {before}", work)
    said, told = await session(work, *((line, ()) for line in lines))
    assert not told, means
    assert not [answer for answer in said if answer.is_error or "sandbox" in str(answer.content)]
    shell(then, work)


@pytest.mark.costly
@pytest.mark.needs("git")
@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("name", NAMED)
async def test_answer_names_what_is_protected(work: Path, name: str) -> None:
    before, line, then = NAMED[name]
    shell(f"git init -q; {before}", work)
    said, _ = await session(work, (line, ()))
    needs = re.findall(r'"(write:[^"]*)"', str(said[0].content))
    assert needs, said
    if name in ("worktree remove", "rm of a worktree"):
        assert (work / "wt/a").exists()  # nothing was begun
    shell("find . -mindepth 1 -delete", work)  # git has removed what it could, in an order of the file system's
    shell(f"git init -q; {before}", work)
    said, told = await session(work, (line, needs))
    assert not said[0].is_error, said
    assert not told
    shell(then, work)


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("rm -r wt", True), ("ls; rm -rf 'wt/'; rm -r x", True), ("rm --recursive ./wt a", True), ("rm -Rf .", True),
        ("git worktree remove wt", True), ("git -C a worktree remove ../wt", True), ("rm -r out/wt", False),
        ("rm -f wt", False), ("rm my-repo wt", False), ("rm -r wt2 repo", False), ("git worktree remove", False),
        ("rm -r", False), ("git worktree list; ls wt", False), ("cd a && rm -rf ../wt", True),
        ("cd .. && rm -r */wt", True), ("cd a; cd ..; rm -r wt", True), ("(cd a/b; ls); rm -rf wt", True),
        ("cd a && rm -r b", False), ("cd a && rm -r wt", False), ("bash -c 'cd a; rm -r ../w[t]'", True),
        ("pushd a; rm -r '../wt'; popd", True), ("rm -rf *", True), ("rm -rf a/*", False), ("echo rm -r wt", False),
        ("cd repo && git worktree remove ../wt", True),
    ],
)  # fmt: skip
def test_removal_of_a_work_tree_is_seen(tmp_path: Path, line: str, *, refused: bool) -> None:
    for name in ("wt", "repo/.git/worktrees/wt", "a/b", "a/wt", "repo"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    (tmp_path / "repo/.git/config").touch()
    (tmp_path / "wt/.git").write_text(f"gitdir: {tmp_path}/repo/.git/worktrees/wt\n")
    profile = Profile(protected=(f"{tmp_path}/wt/.git", f"{tmp_path}/repo/.git/config"))
    remover = outside_judge(line, Workspace(tmp_path)).remover
    assert bool(stopped_halfway(remover, profile)) == refused


@pytest.mark.costly
@pytest.mark.parametrize("name", [".husky", ".git/hooks", "n/.vscode"])
async def test_grant_of_what_is_not_there(work: Path, means: str, name: str) -> None:
    """What was undone can be asked for by its name."""
    shell("git init -q; rm -r .git/hooks", work)
    line, file = f"mkdir -p {name}; echo 1 > {name}/pre-commit", work / name / "pre-commit"
    await session(work, (line, ()))
    assert not file.exists(), means
    said, told = await session(work, (line, [f"write:{name}"]))
    assert file.exists(), (said, told)


@pytest.mark.costly
@pytest.mark.parametrize("name", [".vscode/x", ".husky/pre-commit", ".git/hooks/pre-commit"])
async def test_grant_of_one_file_in_a_new_directory(work: Path, name: str) -> None:
    """Before anything is run, its directory is asked for: that would be undone with the file."""
    shell("git init -q; rm -r .git/hooks", work)
    above = Path(name).parent
    line = f"mkdir -p {above}; echo 1 > {name}"
    said, _ = await session(work, (line, [f"write:{name}"]))
    assert said[0].is_error and f"Ask for write:{work}/{above}." in str(said[0].content)
    assert not (work / above).exists()
    said, told = await session(work, (line, [f"write:{above}"]))
    assert (work / name).exists(), (said, told)


@pytest.mark.costly
@pytest.mark.parametrize("rule", ["Edit(.vscode/**)", "Write(.vscode/)", "Edit(/{work}/.vscode)", "Edit(./n/**)"])
async def test_rule_allows_what_is_not_there(work: Path, means: str, rule: str) -> None:
    """What a rule names itself stays, now and later; what lies in it by another name is taken out."""
    rules, file = Rules.parse([rule.format(work=work)]), work / ".vscode/tasks.json"
    line = f"mkdir -p .vscode; echo 1 > {file}; mkdir -p n/.vscode; echo 1 > n/.vscode/tasks.json"
    _, told = await session(work, (line, ()), ("true", ()), policy=PermissionPolicy("edit", rules))
    assert file.exists() is ("vscode" in rule), (means, told)
    assert not (work / "n/.vscode").exists()


PLANTS = {
    # a grant that edits of the workspace include, and what it does not lift
    ".": "git init -q d; git -C d config core.fsmonitor ./evil; ! grep fsmonitor d/.git/config",
    "n": "echo x > n/.envrc; test ! -e n/.envrc",
    "n/mise": "echo x > n/mise/config.toml; test ! -e n/mise/config.toml",
    "a": "rm a; mkdir -p a/.vscode; echo x > a/.vscode/tasks.json; test ! -e a/.vscode/tasks.json",
}


@pytest.mark.costly
@pytest.mark.needs("git")
@pytest.mark.parametrize("name", PLANTS)
async def test_grant_of_place_lifts_nothing_in_it(work: Path, means: str, name: str) -> None:
    shell(f"git init -q; mkdir -p n/mise; {ONE}", work)
    line, _, then = PLANTS[name].rpartition("; ")
    said, _ = await session(work, (line, [f"write:{name}"]), ("true", ()))
    assert not said[0].is_error, means
    shell(then, work)


LOST = {
    "checkout": (f"{TWO}", "git checkout -q two"),
    "stash": (f"{ONE}; {HOOKS}", "git stash -qu; git stash pop -q"),
    "clean": (f"{ONE}; {HOOKS}; echo x > .envrc", "git clean -qfdx"),
    "written anew": (f"{HOOKS}; {ONE}", "cp -r .githooks x; rm -r .githooks; mv x .githooks"),
}  # fmt: skip


@pytest.mark.costly
@pytest.mark.needs("git")
@pytest.mark.parametrize("name", LOST)
async def test_what_is_put_back_stays(work: Path, means: str, name: str) -> None:
    """After the session, too, when nothing is protected any more."""
    before, line = LOST[name]
    shell(f"git init -q; {before}", work)
    _, told = await session(work, (line, ()), ("true", ()))
    assert not told, means
    shell("grep 1 .githooks/pre-commit && test -e .vscode/s", work)
