"""What a new worktree gets before work begins: submodules, changes, ignored files that are needed, and a setup."""

import asyncio
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from sagent.config import Settings
from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.text import one_line, system_reason
from sagent.plugins.programs.check import run_check
from sagent.plugins.worktrees import CHANGES, COPY, SETUP
from sagent.plugins.worktrees.gitcalls import attempt, git
from sagent.plugins.worktrees.record import Record
from sagent.plugins.worktrees.snapshot import snapshot, submodules, tree_of

SETUP_TIMEOUT_SECONDS = 1_800.0
MAX_SUBMODULE_DEPTH = 5


@dataclass(frozen=True, slots=True)
class Preparation:
    """Settings for new worktrees. `withheld` are variables that a setup does not get."""

    setup: str = ""
    copy: tuple[str, ...] = ()
    takes_changes: bool = False
    withheld: frozenset[str] = frozenset()

    @classmethod
    def of(cls, settings: Settings) -> "Preparation":
        from sagent.app.builder import withheld

        setup, copy = cast("str", settings.of(SETUP)), cast("tuple[str, ...]", settings.of(COPY))
        return cls(setup.strip(), copy, settings.of(CHANGES) == "take", frozenset(withheld(settings)))


def prepare(record: Record, how: Preparation) -> None:
    """Prepare a worktree that was checked out. Raises UsageError."""
    _check_out_submodules(record.root, record.path)
    if how.takes_changes:
        _take_changes(record)
    try:
        for pattern in how.copy:
            for source in _matching(record.root, pattern):
                _copy(source, record.path / source.relative_to(record.root))
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be copied into a worktree: {system_reason(error)}.") from error
    if how.setup:
        _set_up(record, how)


def _check_out_submodules(root: Path, place: Path, depth: int = 1) -> None:
    """Check out the submodules that are checked out in a root, from there, so that nothing is fetched."""
    for path, wanted in submodules(place):
        source, target = root / path, place / path
        if not os.path.lexists(source / ".git"):
            continue
        git(place, "clone", "--quiet", "--no-checkout", str(source), str(target))
        if attempt(target, "checkout", "--quiet", "--detach", wanted).code:
            raise UsageError(f"The submodule {path} is not checked out at {wanted[:12]}: run `git submodule update`.")
        if depth < MAX_SUBMODULE_DEPTH:
            _check_out_submodules(source, target, depth + 1)


def _take_changes(record: Record) -> None:
    """Take along the files of the root as they are, as changes that are not committed."""
    files = snapshot(record.root, record.head)
    if tree_of(record.root, files) != tree_of(record.root, record.head):
        git(record.path, "read-tree", "--reset", "-u", files)
        git(record.path, "read-tree", "--reset", record.head)


def _matching(root: Path, pattern: str) -> Iterator[Path]:
    real = Path(os.path.realpath(root))
    for found in sorted(root.glob(pattern)):
        inside = Path(os.path.realpath(found.parent)).is_relative_to(real)
        if inside and found != root and ".git" not in found.relative_to(root).parts:
            yield found


def _copy(source: Path, target: Path) -> None:
    """Copy a file or a directory that the worktree lacks; links stay links."""
    if os.path.lexists(target):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir() and not source.is_symlink():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def _set_up(record: Record, how: Preparation) -> None:
    hidden: Mapping[str, str] = dict.fromkeys(how.withheld & set(os.environ), "")
    done = asyncio.run(run_check(how.setup, record.path, SETUP_TIMEOUT_SECONDS, hidden))
    if done.code != 0:
        ended = f"ended with exit code {done.code}" if done.code is not None else "did not work"
        why = one_line(done.said, 300)
        raise UsageError(f"worktree_setup, `{one_line(how.setup, 80)}`, {ended}{f': {why}' if why else ''}.")
