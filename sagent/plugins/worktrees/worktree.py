"""Worktrees: made, looked at, merged, kept and dropped, with nothing left behind."""

import os
import re
import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from pathlib import Path

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.text import count
from sagent.plugins.worktrees.gitcalls import IDENTITY, attempt, git
from sagent.plugins.worktrees.preparation import Preparation, prepare
from sagent.plugins.worktrees.record import NAME, Record, Repository, holding, is_held, records
from sagent.plugins.worktrees.snapshot import (
    FileChange,
    bring,
    changed_submodules,
    changes,
    merged_tree,
    patch,
    snapshot,
)

MIN_FREE_BYTES = 1 << 20  # of a disk that is not full


@dataclass(frozen=True, slots=True)
class Outcome:
    """The work in a worktree: files that differ from its beginning, commits, and submodules with changes. `tip` is
    its last commit, and `files` a commit of all its files."""

    tip: str
    files: str
    changes: Sequence[FileChange] = field(default=())
    commits: int = 0
    submodules: Sequence[str] = ()

    @property
    def is_empty(self) -> bool:
        """True if nothing was done."""
        return not (self.changes or self.commits or self.submodules)

    def __str__(self) -> str:
        added, removed = (sum(getattr(change, name) for change in self.changes) for name in ("added", "removed"))
        parts = [f"{count(len(self.changes), 'file')} +{added} -{removed}"] if self.changes else []
        parts += [count(self.commits, "commit")] if self.commits else []
        parts += [f"changes in the submodule {submodule}" for submodule in self.submodules]
        return ", ".join(parts) or "no changes"


@contextmanager
def made(repository: Repository, name: str, purpose: str, preparation: Preparation) -> Generator[Record]:
    """Make a worktree with a branch at the present commit, prepare it, and hold it. `name` is "" for a free one, or
    ends in "-" for a number after it. Raises UsageError; then nothing is left."""
    root = repository.root
    head = attempt(root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if head.code:
        raise UsageError(f"{root} has no commit yet, so there is nothing to work on: commit something first.")
    name = name if name and not name.endswith("-") else _free_name(repository, name or "work-")
    check_name(name)
    record = Record(name, root, repository.home / name, head.text, purpose=purpose)
    with holding(record):
        if os.path.lexists(record.path) or record.file.exists():
            raise UsageError(f"There is a worktree {name} already: {record.path}.")
        try:
            yield _make(record, preparation)
        finally:
            if not record.file.exists():
                _forget(record)


def _make(record: Record, preparation: Preparation) -> Record:
    root = record.root
    if attempt(root, "rev-parse", "--verify", "--quiet", f"refs/heads/{record.branch}").code == 0:
        raise UsageError(
            f"The branch {record.branch} exists already: choose another name, or delete it (git branch -D "
            f"{record.branch})."
        )
    record = record.write()
    try:
        place = ("-b", record.branch, str(record.path), record.head)
        git(root, "worktree", "add", "--quiet", "--no-track", "--no-checkout", *place)
        git(record.path, "read-tree", "--reset", "-u", "HEAD")  # which starts no filters, not even the person's
        prepare(record, preparation)
        base = snapshot(record.path, record.head)
        git(root, "update-ref", record.ref, base)
        return replace(record, base=base).write("working")
    except BaseException as error:
        is_full = isinstance(error, UsageError) and shutil.disk_usage(record.path.parent).free < MIN_FREE_BYTES
        remove(record)
        if is_full:
            raise UsageError(f"There is no space left in {record.path.parent}: {error}") from error
        raise


def check_name(name: str) -> None:
    """Raise UsageError for a name that a directory and a branch cannot both have."""
    if not NAME.fullmatch(name) or ".." in name or name.endswith((".", ".lock", ".json")):
        raise UsageError(f"{name!r} cannot be a worktree's name: give letters, digits, - and _, at most 64.")


def clean_name(text: str) -> str:
    """Return the beginning of a name for a worktree; "" if nothing of the text can be used."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-_")[:40]


def _free_name(repository: Repository, stem: str) -> str:
    taken = git(repository.root, "for-each-ref", "--format=%(refname)", f"refs/heads/sagent/{stem}*").splitlines()
    used = {each.rpartition("/")[2].lower() for each in taken} | {record.name.lower() for record in records(repository)}
    return next(name for number in range(1, len(used) + 2) if (name := f"{stem}{number}").lower() not in used)


def outcome(record: Record) -> Outcome:
    """Look at what was done in a worktree. Raises UsageError."""
    place = record.path
    if record.state == "making":
        raise UsageError(f"The worktree {record.name} is being made.")
    if not os.path.lexists(place / ".git"):
        raise UsageError(f"The worktree {record.name} has lost its directory or its .git: {place}.")
    tip = git(place, "rev-parse", "--verify", "HEAD")
    files = snapshot(place, tip)
    commits = git(place, "rev-list", "--count", f"{record.head}..{tip}")
    found = changes(place, record.base, files)
    return Outcome(tip, files, found, int(commits), changed_submodules(place))


def diff(record: Record) -> bytes:
    """Return what was changed in a worktree as a patch. Raises UsageError."""
    return patch(record.path, record.base, outcome(record).files)


def merge(record: Record) -> Outcome:
    """Merge what was done in a worktree into the work tree that it was made from: commits as commits, if it began
    without changes and that tree is on a branch, and the rest as changes that are not committed. Raises UsageError;
    then nothing was changed."""
    root, done = record.root, outcome(record)
    if done.submodules:
        first = done.submodules[0]
        raise UsageError(
            f"It has changes in the submodule {first}, which are not merged. Fetch them: git -C {root / first} fetch "
            f"{record.path / first} HEAD."
        )
    on_branch = attempt(root, "symbolic-ref", "--quiet", "HEAD").code == 0
    if not (done.commits and record.base == record.head and on_branch):
        bring(root, record.base, done.files)
        return done
    before = git(root, "rev-parse", "HEAD")
    _merge_commits(root, record, done.tip)
    try:
        bring(root, done.tip, done.files)
    except UsageError:
        attempt(root, "reset", "--quiet", "--keep", before)
        raise
    return done


def _merge_commits(root: Path, record: Record, tip: str) -> None:
    """Merge commits into the branch of a work tree. Changes there that are not committed stay. Raises UsageError."""
    here = git(root, "rev-parse", "HEAD")
    target = tip
    if attempt(root, "merge-base", "--is-ancestor", here, tip).code:
        known = attempt(root, "var", "GIT_COMMITTER_IDENT").code == 0
        words = ("-p", here, "-p", tip, "-m", f"Merge {record.branch}")
        tree = merged_tree(root, here, tip)
        target = git(root, "commit-tree", "--no-gpg-sign", tree, *words, environment=None if known else IDENTITY)
    found = attempt(root, "merge", "--ff-only", "--quiet", target)
    if found.code:
        raise UsageError(f"Its commits cannot be merged into {root}: {found.error.rstrip('.')}.")


def advance(record: Record) -> Record:
    """Begin anew in a worktree whose work was merged. Raises UsageError."""
    done = outcome(record)
    git(record.root, "update-ref", record.ref, done.files)
    return replace(record, base=done.files, head=done.tip).write()


def remove(record: Record) -> None:
    """Remove a worktree with its branch, its directory and all that git knows of it. Raises UsageError."""
    _remove_directory(record.path)
    attempt(record.root, "worktree", "remove", "--force", "--force", str(record.path))
    if os.path.lexists(record.path):
        raise UsageError(f"{record.path} could not be removed: remove it, and then `git worktree prune`.")
    attempt(record.root, "branch", "--quiet", "-D", record.branch)
    attempt(record.root, "update-ref", "-d", record.ref)
    record.file.unlink(missing_ok=True)
    _forget(record)


def _forget(record: Record) -> None:
    """Remove the lock of a worktree, and the directories that had nothing else."""
    record.lock.unlink(missing_ok=True)
    with suppress(OSError):  # there are others
        record.path.parent.rmdir()
        record.path.parent.parent.rmdir()


def _remove_directory(place: Path) -> None:
    """Remove a directory, even if permissions in it were taken away."""
    shutil.rmtree(place, ignore_errors=True)
    if not place.is_dir() or place.is_symlink():
        place.unlink(missing_ok=True)
        return
    for directory, names, _ in os.walk(place):
        for each in (Path(directory, name) for name in names):
            if not each.is_symlink():
                each.chmod(0o700)
    shutil.rmtree(place, ignore_errors=True)


def repair(repository: Repository) -> list[str]:
    """Clean up after processes that were killed, and return a sentence for each of their worktrees: one that was not
    finished, or has no changes, is removed; another is kept."""
    said: list[str] = []
    for lock in repository.home.glob("*.lock"):
        record = Record(lock.stem, repository.root, lock.with_suffix(""))
        if not record.file.exists() and not is_held(record):
            lock.unlink(missing_ok=True)
    for record in records(repository):
        if record.state == "kept" or is_held(record):
            continue
        try:
            done = outcome(record) if record.state == "working" else None
            if done is None or done.is_empty:
                remove(record)
                said.append(f"The worktree {record.name} was left by a process that was killed, and is removed.")
            else:
                record.write("kept")
                said.append(f"The worktree {record.name} was left by a process that was killed: {done}. {ways(record)}")
        except (UsageError, OSError) as error:
            said.append(f"The worktree {record.name} was left by a process that was killed, and stays: {error}")
    return said


def ways(record: Record) -> str:
    """Return what may be done with a worktree that is kept."""
    name = record.name
    return f"See `sagent worktree diff {name}`, then `merge {name}` or `drop {name}`."


def outcome_or_reason(record: Record) -> str:
    """Return what was done in a worktree, or why that is unknown."""
    try:
        return str(outcome(record))
    except UsageError as error:
        return str(error)


def described_or_reason(record: Record) -> dict[str, object]:
    """Return a worktree and what was done in it as JSON, or why that is unknown as its `error`."""
    try:
        return described(record, outcome(record))
    except UsageError as error:
        return {**described(record, Outcome("", "")), "error": str(error)}


def described(record: Record, done: Outcome) -> dict[str, object]:
    """Return a worktree and what was done in it as JSON."""
    return {
        "name": record.name,
        "path": str(record.path),
        "branch": record.branch,
        "state": "in use" if record.state == "working" else record.state,
        "purpose": record.purpose,
        "commits": done.commits,
        "files": [{"path": change.path, "added": change.added, "removed": change.removed} for change in done.changes],
        "submodules": [*done.submodules],
    }
