"""A repository with a submodule, made once and copied for each test, and what is left of worktrees."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.program import Shell
from tests.repositories import copy_repositories


def git(directory: Path, *words: str) -> str:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
    return subprocess.run(
        ["git", *words], cwd=directory, env=environment, check=True, capture_output=True, text=True
    ).stdout.rstrip("\n")


def worktrees_of(shell: Shell) -> Sequence[Path]:
    """The directories of worktrees."""
    state = Path(shell.environment["HOME"], ".local/state/sagent-worktrees")
    return sorted(each for each in state.glob("*/*") if each.is_dir())


def assert_nothing_left(shell: Shell) -> None:
    state = Path(shell.environment["HOME"], ".local/state/sagent-worktrees")
    assert [*state.glob("**/*")] == []
    assert git(shell.cwd, "worktree", "list", "--porcelain").count("worktree ") == 1
    assert "sagent" not in git(shell.cwd, "for-each-ref", "--format=%(refname)")
    assert not (shell.cwd / ".git/worktrees").exists() or not [*(shell.cwd / ".git/worktrees").iterdir()]


SET_UP = """
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a
git init -q -b main inner && cd inner && echo in > inner.txt && git add . && git commit -qm inner && cd ..
git init -q -b main work && cd work
git config user.name Ann && git config user.email ann@example.org
printf 'one\\ntwo\\nthree\\n' > a.txt && echo b > b.txt && printf '.env\\nbuilt/\\n' > .gitignore
mkdir folder && echo c > folder/c.txt && git add . && git commit -qm first
cp -r . ../modular && cd ../modular
git -c protocol.file.allow=always submodule add -q ../inner sub && git commit -qm 'add sub'
"""


@pytest.fixture(scope="session")
def made_repositories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("repositories").resolve()
    subprocess.run(["bash", "-ec", SET_UP], cwd=made, check=True, capture_output=True)
    return made


@pytest.fixture
def project(shell: Shell, made_repositories: Path) -> Shell:
    """A shell in the repository `work`; `modular` beside it has the submodule `sub`."""
    place = shell.cwd.parent / "repositories"
    copy_repositories(made_repositories, place)
    shell.cwd = place / "work"
    git(shell.cwd, "status")
    return shell
