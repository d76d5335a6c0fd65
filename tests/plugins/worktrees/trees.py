"""What git says of a repository, and what is left of worktrees."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.cli.program import Shell


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
