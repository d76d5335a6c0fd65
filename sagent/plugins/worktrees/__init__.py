"""Git worktrees to work in: a branch and a directory for a run or an agent, whose result is merged, kept or dropped."""

from pathlib import PurePosixPath

from sagent.config.values import names_of, text_of
from sagent.plugin import (
    MORE,
    Command,
    Extra,
    Flag,
    Part,
    PathBase,
    Plugin,
    RefusedError,
    Runner,
    Setting,
    SlashCommand,
    choice,
)


def patterns_of(value: object, base: PathBase | None = None) -> tuple[str, ...]:
    """Return patterns of paths below a repository's top directory. Raises RefusedError for any other path."""
    found = names_of(value, base)
    for pattern in found:
        path = PurePosixPath(pattern)
        if path.is_absolute() or ".." in path.parts or pattern.startswith("~") or path.parts[:1] == (".git",):
            raise RefusedError("give paths or patterns below the repository's top directory, as .env or config/*.local")
    return found


SETUP = Setting(
    "worktree_setup", text_of, "", "str", project="ask", metavar="COMMAND",
    help="run this command in each new worktree, as in --worktree-setup 'npm ci'",
)  # fmt: skip
COPY = Setting(
    "worktree_copy", patterns_of, (), "tuple[str, ...]", project="ask", metavar="PATTERNS",
    help="copy these ignored files into each new worktree, as in --worktree-copy '.env,config/*.local'",
)  # fmt: skip
CHANGES = Setting(
    "worktree_changes", choice("leave", "take"), "leave", "str", metavar="HOW",
    help="leave your uncommitted changes where they are (default), or take them along into a new worktree",
)  # fmt: skip
plugin = Plugin(
    "worktrees",
    "work in git worktrees: --worktree, isolation of agents, and what becomes of the result",
    commands=(
        Command(
            "worktree",
            "list, show, merge or drop the worktrees of this repository",
            f"{__name__}.command:run_worktree",
            elsewhere=("worktrees",),
            group=MORE,
        ),
    ),
    parts=(Part(f"{__name__}.isolation:add", ("always",), "offered"),),
    settings=(SETUP, COPY, CHANGES),
    flags=(Flag("worktree", "work in a git worktree, with a branch of its own; a NAME continues that one", "[NAME]"),),
    runners=(Runner(f"{__name__}.run:run_in_worktree"),),
    extras=(
        Extra("examples", "./examples.txt"),
        Extra("place of a run", f"{__name__}.run:RunPlace"),
    ),
    slash_commands=(SlashCommand("worktree", f"{__name__}.slash:worktree"),),
    needs=("programs",),
)
