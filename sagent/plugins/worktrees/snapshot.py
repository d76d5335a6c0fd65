"""Snapshots of all files of a work tree, as commits that no branch has, and merges of them."""

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.plugins.worktrees.gitcalls import IDENTITY, attempt, git

MAX_CONFLICTS = 5  # files that are named
_USAGE_CODE = 129  # of a git that does not know an option


@dataclass(frozen=True, slots=True)
class FileChange:
    """A changed file, with its lines; those of a binary file are 0."""

    path: str
    added: int
    removed: int


def snapshot(root: Path, parent: str) -> str:
    """Return a commit of all files of a work tree that git does not ignore, except those in submodules, above a parent;
    the parent itself if they are the same. The index of the work tree stays as it is. Raises UsageError."""
    with tempfile.TemporaryDirectory(prefix="sagent-index-") as place:
        index = Path(place, "index")
        own = root / git(root, "rev-parse", "--git-path", "index")
        if own.is_file():
            shutil.copy2(own, index)  # so that unchanged files need not be read
        environment = {"GIT_INDEX_FILE": str(index)}
        inner = (f":(top,exclude,literal){path}" for path, _ in submodules(root))  # git would start another there
        git(root, "add", "--all", "--", ".", *inner, environment=environment)
        tree = git(root, "write-tree", environment=environment)
    if tree == tree_of(root, parent):
        return parent
    return commit(root, tree, parent)


def commit(root: Path, tree: str, parent: str) -> str:
    """Return a commit of a tree that no branch has. Raises UsageError."""
    return git(root, "commit-tree", "--no-gpg-sign", tree, "-p", parent, "-m", "files", environment=IDENTITY)


def tree_of(root: Path, name: str) -> str:
    """Return the tree of a commit. Raises UsageError."""
    return git(root, "rev-parse", "--verify", f"{name}^{{tree}}")


def changes(root: Path, before: str, after: str) -> Sequence[FileChange]:
    """Return the changed files between two commits. Raises UsageError."""
    found = git(root, "diff", "--no-ext-diff", "--no-textconv", "--no-renames", "--numstat", "-z", before, after)
    rows = (row.split("\t", 2) for row in found.split("\0") if row)
    return [FileChange(path, _number(added), _number(removed)) for added, removed, path in rows]


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def patch(root: Path, before: str, after: str) -> bytes:
    """Return the difference between two commits as a patch, binary files included. Raises UsageError."""
    plain = ("--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/")
    done = attempt(root, "diff", *plain, "--binary", "--full-index", before, after)
    if done.code:
        raise UsageError(f"git diff failed: {done.error}")
    return done.output


class ConflictError(UsageError):
    """Files were changed on both sides in ways that cannot be joined; nothing was changed."""


def merged(root: Path, base: str, ours: str, theirs: str) -> str:
    """Return the tree with the changes of both sides since a base. Raises ConflictError with the files in conflict, and
    UsageError."""
    if tree_of(root, ours) == tree_of(root, base):
        return tree_of(root, theirs)
    one, other = (commit(root, tree_of(root, side), base) for side in (ours, theirs))
    return merged_tree(root, one, other)


def merged_tree(root: Path, commit: str, other: str) -> str:
    """Return the tree of a merge of two commits. Raises ConflictError with the files in conflict, and UsageError."""
    done = attempt(root, "merge-tree", "--write-tree", "--name-only", "--no-messages", commit, other)
    if done.code == 0:
        return done.text.partition("\n")[0]
    if done.code == 1:
        files = [name for name in done.text.split("\n")[1:] if name]
        more = f" and {len(files) - MAX_CONFLICTS} more" if len(files) > MAX_CONFLICTS else ""
        raise ConflictError(f"It conflicts with changes here in {', '.join(files[:MAX_CONFLICTS])}{more}.")
    if done.code == _USAGE_CODE or "merge-tree" in done.error:
        raise ConflictError("Files here were changed meanwhile, and joining them needs git 2.38 or later.")
    raise UsageError(f"git merge-tree failed: {done.error}")


def bring(root: Path, base: str, theirs: str) -> Sequence[FileChange]:
    """Bring the changes from one commit to another into a work tree, as changes that are not committed. All of them or
    none. Raises ConflictError and UsageError."""
    ours = snapshot(root, base)
    tree = merged(root, base, ours, theirs)
    found = changes(root, ours, tree)
    if found:
        done = attempt(root, "apply", "--whitespace=nowarn", "-", given=patch(root, ours, tree))
        if done.code:
            raise ConflictError(f"It cannot be brought into {root}: {done.error.rstrip('.')}.")
    return found


def submodules(root: Path) -> Sequence[tuple[str, str]]:
    """Return the submodules of a work tree, each a path and a commit. Raises UsageError."""
    rows = git(root, "ls-files", "--stage", "-z").split("\0")
    found = (re.fullmatch(r"160000 ([0-9a-f]+) 0\t(.+)", row, re.DOTALL) for row in rows)
    return [(match[2], match[1]) for match in found if match]


def changed_submodules(root: Path) -> Sequence[str]:
    """Return the submodules in which files or commits are not those that the index names. Raises UsageError."""
    found: list[str] = []
    for path, wanted in submodules(root):
        place = root / path
        if not os.path.lexists(place / ".git"):
            continue
        status = git(place, "status", "--porcelain", "--ignore-submodules=none")
        if status or git(place, "rev-parse", "HEAD") != wanted:
            found.append(path)
    return found
