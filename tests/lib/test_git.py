"""Nothing that a repository names is run when this program asks git about it."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sagent.agent import Agent
from sagent.app.background import read_git_status, start_git_status
from sagent.lib import git as git_module
from sagent.lib.git import git_call, programs_named
from sagent.lib.json import json_freeze_object
from sagent.messages import ToolCall
from sagent.policy.harmless import is_plain_repository
from sagent.repl import project
from sagent.repl.project import list_files
from sagent.rewind.snapshot import Stop
from sagent.testing import ScriptedModel
from sagent.tools.bash import Bash

MINE = {**os.environ, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b"}  # fmt: skip
PLANTED = {
    "fsmonitor": "[core]\n\tfsmonitor = {touch}\n",
    "one line": "[core] FSMonitor={touch}\n",
    "hooks": "[core]\n\thooksPath = {hooks}\n",
    "filter": '[filter "x"]\n\tclean = {touch}\n\tprocess = {touch}\n',
    "include": "[include]\n\tpath = more\n",
    "external diff": "[diff]\n\texternal = {touch}\n",
    "worktree": "[extensions]\n\tworktreeConfig = true\n",
}


def git(cwd: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=cwd, env=MINE, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q")
    (root / "a.txt").write_text("one\n")
    (root / ".gitattributes").write_text("*.txt filter=x\n")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "one")
    (root / "a.txt").write_text("two\n")
    return root


def plant(repository: Path, what: str) -> Path:
    """A configuration that has a file made by whoever runs what it names."""
    made, touch, hooks = repository / "made", repository / "touch.sh", repository / "hooks"
    hooks.mkdir()
    for program in (touch, hooks / "post-checkout", hooks / "post-index-change"):
        program.write_text(f"#!/bin/sh\n: > '{made}'\ncat\n")
        program.chmod(0o755)
    text = PLANTED[what].format(touch=touch, hooks=hooks)
    with (repository / ".git/config").open("a") as config:
        config.write(text)
    for name in ("more", "config.worktree"):
        (repository / ".git" / name).write_text(f"[core]\n\tfsmonitor = {touch}\n")
    return made


def ask_status(repository: Path) -> None:
    if (started := start_git_status(repository)) is not None:
        read_git_status(started)


def ask_files(repository: Path) -> None:
    assert "a.txt" in asyncio.run(list_files(repository))


def ask_changed(repository: Path) -> None:
    Stop().git(os.fsencode(repository), "ls-files", "-z", "-s", "-v", "-c", "-o", "-m", "--exclude-standard")


@pytest.mark.parametrize("ask", [ask_status, ask_files, ask_changed])
@pytest.mark.parametrize("what", PLANTED)
def test_configured_programs_are_not_run(repository: Path, what: str, ask: Callable[[Path], None]) -> None:
    made = plant(repository, what)
    ask(repository)
    assert not made.exists()


@pytest.mark.needs("linux")
@pytest.mark.parametrize("ask", [ask_status, ask_files, ask_changed])
@pytest.mark.parametrize("what", PLANTED)
def test_later_configured_programs_are_not_run(
    repository: Path, what: str, ask: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plant(repository, what)
    monkeypatch.setattr(git_module, "programs_named", lambda _: frozenset())  # a command was quicker
    ask(repository)
    assert not made.exists()


def test_custom_submodules_are_not_entered(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    git = ["git", "-c", "protocol.file.allow=always", "-c", "user.name=a", "-c", "user.email=a@b"]
    for place, words in (
        (other, ["init", "-q"]),
        (other, ["commit", "-q", "--allow-empty", "-m", "c"]),
        (repository, ["submodule", "--quiet", "add", str(other), "sub"]),
        (repository, ["config", "-f", ".gitmodules", "submodule.sub.ignore", "none"]),
        (repository, ["config", "submodule.sub.ignore", "none"]),
    ):
        subprocess.run([*git, *words], cwd=place, check=True)
    (repository / "sub" / "new").touch()
    call = git_call(repository, "status", "--porcelain")
    assert call is not None
    subprocess.run(call.argv, env=call.environment, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.needs("linux")
def test_git_by_name_where_wall_is_refused(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused:
        path = "/dev/null"  # which is no program

    monkeypatch.setattr("sagent.lib.gate.childless", lambda process: Refused())
    call = git_call(repository, "ls-files")
    assert call is not None
    assert call.argv[0] == "git"


def test_committed_bare_repository_runs_nothing(repository: Path) -> None:
    made = plant(repository, "fsmonitor")
    bare = repository / "docs"
    (repository / ".git").rename(bare)
    (repository / "inside").mkdir()
    config = (bare / "config").read_text().replace("bare = false", "bare = false\n\tworktree = ../inside")
    (bare / "config").write_text(config)
    for directory in (bare, bare / "objects"):
        ask_status(directory)
        ask_changed(directory)
        asyncio.run(list_files(directory))
        assert not is_plain_repository(str(directory))
    assert not made.exists()


def test_pipe_as_configuration_does_not_block(repository: Path) -> None:
    (repository / ".git/config").unlink()
    os.mkfifo(repository / ".git/config")
    asking = threading.Thread(target=ask_status, args=(repository,), daemon=True)
    asking.start()
    asking.join(30)
    assert not asking.is_alive()
    assert programs_named(repository) == {"unreadable"}


@pytest.mark.costly
@pytest.mark.parametrize("before", ["", "fsmonitor =", "[include]\npath"])
def test_blank_filled_configuration_is_quick(repository: Path, before: str) -> None:
    (repository / ".git/config").write_text(f"[core]\n{before}{' ' * 1_000_000}!\n")
    told = "import sys; from sagent.lib.git import files_named, programs_named; "
    told += "print(*files_named(sys.argv[1]), *programs_named(sys.argv[1]))"
    argv = [sys.executable, "-c", told, repository]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)  # it would be for hours
    assert ended.stdout.split() == (["fsmonitor"] if before == "fsmonitor =" else ["include"] if before else [])


async def test_pipe_as_ignore_file_does_not_block(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "_GIT_TIMEOUT_SECONDS", 0.5)
    os.mkfifo(repository / ".gitignore")
    async with asyncio.timeout(60):
        assert "a.txt" in await list_files(repository)


def test_ordinary_repository_gets_own_environment(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    with (repository / ".git/config").open("a") as config:
        config.write("[core]\n\tfsmonitor = true\n[clean]\n\trequireForce = true\n")
    assert programs_named(repository) == frozenset()
    call = git_call(repository, "status")
    assert call is not None
    assert "secret" not in call.environment.values()
    monkeypatch.delenv("GIT_DIR")
    started = start_git_status(repository)
    assert started is not None
    assert read_git_status(started)["git_dirty"] is True
    worktree = repository.parent / "linked"
    git(repository, "worktree", "add", "-q", str(worktree))
    assert is_plain_repository(str(worktree))
    plant(repository, "fsmonitor")
    assert programs_named(worktree) == {"fsmonitor"}
    assert not is_plain_repository(str(worktree))


async def test_commands_do_not_write_the_index() -> None:
    call = ToolCall("1", "Bash", json_freeze_object({"command": "echo locks=$GIT_OPTIONAL_LOCKS"}))
    async with Agent(ScriptedModel((call,), "done"), tools=[Bash()]) as agent:
        await agent.run("go")
        assert "locks=0" in agent.messages[2].results[0].text
