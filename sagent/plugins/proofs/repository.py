"""Changes between commits, read from git's objects: no file of the work tree is opened."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from sagent.context.instructions import repository_root
from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import sha256_hex
from sagent.plugins.worktrees.gitcalls import attempt, git
from sagent.sandbox.scratch import temporary

PLAIN = "100644"
"""Mode of git for a file that is no program."""
NO_FILE, SUBMODULE, LINK = "000000", "160000", "120000"
"""Modes of git for a missing path, for another repository's commit, and for a symbolic link."""
MAX_CHANGE_BYTES = 256 << 20
"""Bytes of all changed files, before and after."""


def short(base: str) -> str:
    """Return a commit's short name for people; "" is the beginning of the history."""
    return base[:12] or "the beginning"


class File(NamedTuple):
    """A path in a commit: its mode, as git writes it, and its content; that of a submodule is the commit's id."""

    mode: str
    data: bytes

    @property
    def sha256(self) -> str:
        return sha256_hex(self.data)


class Changed(NamedTuple):
    """A path in two commits; None if it is not there."""

    before: File | None
    after: File | None


@dataclass(frozen=True, slots=True)
class Change:
    """The changed paths between two commits. `base` is "" for the beginning of the history."""

    base: str
    head: str
    tree: str
    files: Mapping[str, Changed]


def root_of(cwd: Path) -> Path:
    """Return the top of a directory's repository. Raises UsageError."""
    if (root := repository_root(cwd)) is None:
        raise UsageError(f"{cwd} is not in a git repository, and a proof is about a change in one.")
    return root


def commit_of(root: Path, name: str) -> str:
    """Return the id of a commit. Raises UsageError."""
    done = attempt(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if done.code:
        raise UsageError(f"There is no commit {name!r} here. In CI, fetch the history (fetch-depth: 0).")
    return done.text


def parse_range(root: Path, named: str) -> tuple[str, str]:
    """Return the commits of a range: `A..B` and `A...B` begin where the two parted; one name is `NAME..HEAD`.

    If A is FIRST^, and FIRST has no parent, the range begins with FIRST, and its base is "". Raises UsageError.
    """
    first, _, last = re.fullmatch(r"(.*?)(\.{2,3}|\Z)(.*)", named, re.DOTALL).groups()  # pyright: ignore[reportOptionalMemberAccess] -- anything fits
    head = commit_of(root, last or "HEAD")
    if is_before_all(root, first):
        return parted(root, commit_of(root, first.removesuffix("^")), head) and "", head
    return parted(root, commit_of(root, first or "HEAD"), head), head


def is_before_all(root: Path, name: str) -> bool:
    """Return True if a name is FIRST^ for a commit that has no parent, in a clone without its history too."""
    if not name.endswith("^") or not attempt(root, "rev-parse", "--verify", "--quiet", "--end-of-options", name).code:
        return False
    header = attempt(root, "cat-file", "commit", commit_of(root, name.removesuffix("^"))).output.partition(b"\n\n")[0]
    return b"\nparent " not in header  # a shallow clone leaves the line there


def parted(root: Path, base: str, head: str) -> str:
    """Return the commit where a head left a base; "" if that is before the first one. Raises UsageError."""
    if not base:
        return ""
    done = attempt(root, "merge-base", base, head)
    if done.code:
        raise UsageError(
            f"{base[:12]} and {head[:12]} have no common commit here. In CI, fetch the history (fetch-depth: 0)."
        )
    return done.text


def is_ancestor(root: Path, commit: str, head: str) -> bool:
    """Return True if a commit is in the history of another, here; the beginning, "", is in that of nothing else."""
    if not (commit and head):
        return commit == head
    return not attempt(root, "merge-base", "--is-ancestor", commit, head).code


def read_change(root: Path, base: str, head: str) -> Change:
    """Return the changes between two commits. Raises UsageError."""
    tree = git(root, "rev-parse", "--verify", f"{head}^{{tree}}")
    options = ("-r", "-z", "--raw", "--no-renames", "--full-index", "--ignore-submodules=none")
    before = base or git(root, "hash-object", "-t", "tree", "--stdin")  # the empty tree
    done = attempt(root, "diff-tree", *options, before, head, "--")
    if done.code:
        raise UsageError(f"git diff-tree failed: {done.error}")
    words = done.output.split(b"\0")
    rows = [
        (facts[1:].decode().split(" "), os.fsdecode(path))
        for facts, path in zip(words[:-1:2], words[1::2], strict=True)
    ]
    wanted = {oid for (*modes, old_id, new_id, _), _ in rows for oid in _blobs((*modes, old_id, new_id))}
    contents = _read_blobs(root, sorted(wanted))
    files = {
        path: Changed(_file(old, old_id, contents), _file(new, new_id, contents))
        for (old, new, old_id, new_id, _), path in rows
    }
    return Change(base, head, tree, dict(sorted(files.items())))


def _blobs(facts: Sequence[str]) -> Iterable[str]:
    old, new, old_id, new_id = facts
    return (oid for mode, oid in ((old, old_id), (new, new_id)) if _is_blob(mode))


def _is_blob(mode: str) -> bool:
    return mode not in (NO_FILE, SUBMODULE)


def _file(mode: str, oid: str, contents: Mapping[str, bytes]) -> File | None:
    if mode == NO_FILE:
        return None
    return File(mode, contents[oid] if _is_blob(mode) else oid.encode())


def _read_blobs(root: Path, oids: Sequence[str]) -> dict[str, bytes]:
    """Return blobs by their ids. Raises UsageError if they are too large to be compared."""
    given = "".join(f"{oid}\n" for oid in oids).encode()
    sizes = attempt(root, "cat-file", "--batch-check=%(objectsize)", given=given)
    total = sum(int(line) for line in sizes.text.split("\n") if line.isdecimal())
    if total > MAX_CHANGE_BYTES:
        raise UsageError(f"The changed files have {total:,} bytes; at most {MAX_CHANGE_BYTES:,} can be compared.")
    data, place, found = attempt(root, "cat-file", "--batch", given=given).output, 0, dict[str, bytes]()
    for oid in oids:
        end = data.find(b"\n", place)
        words = data[place:end].split()
        if end < 0 or len(words) != 3:
            raise UsageError(
                f"The object {oid} is missing here: fetch the whole history (no shallow or partial clone)."
            )
        size = int(words[2])
        found[oid] = data[end + 1 : end + 1 + size]
        place = end + size + 2
    return found


def read_file(root: Path, commit: str, path: str) -> File | None:
    """Return a path in a commit; None if it is not there, or a directory."""
    listed = attempt(root, "ls-tree", "-z", "--full-tree", commit, "--", path).output.partition(b"\0")[0]
    words = listed.partition(b"\t")[0].decode("ascii", "replace").split()
    if len(words) != 3 or words[1] == "tree":
        return None
    mode, kind, oid = words
    return File(mode, attempt(root, "cat-file", "blob", oid).output if kind == "blob" else oid.encode())


def merge_contents(root: Path, ours: bytes, base: bytes, theirs: bytes) -> bytes | None:
    """Return what git makes of two changes of one text; None if they conflict."""
    with temporary() as place:
        for name, data in (("ours", ours), ("base", base), ("theirs", theirs)):
            (place / name).write_bytes(data)
        names = (str(place / name) for name in ("ours", "base", "theirs"))
        done = attempt(root, "merge-file", "-p", "--quiet", *names)
    return done.output if done.code == 0 else None


def commits_between(root: Path, base: str, head: str) -> Sequence[str]:
    """Return the messages of the commits of a range, newest first."""
    return attempt(root, "log", "-z", "--format=%B", _range(base, head)).text.split("\0")


def _range(base: str, head: str) -> str:
    return f"{base}..{head}" if base else head


def authors_of(root: Path, base: str, head: str, path: str) -> Mapping[int, str]:
    """Return who committed each line of a file since a base, as "NAME <EMAIL>", by its number from 1; number 0 is the
    last author of the path."""
    done = attempt(root, "log", "-1", "--format=%an <%ae>", _range(base, head), "--", path)
    found = {0: done.text or git(root, "log", "-1", "--format=%an <%ae>", head)}
    # no names from blame, which the change itself could alter by its .mailmap
    words = ("blame", "--ignore-revs-file=", "--line-porcelain", f"{base}..{head}")
    blamed = attempt(root, *words, "--", path)
    number, commit, is_older, commits = 0, "", False, dict[int, str]()
    for line in os.fsdecode(blamed.output).split("\n") if blamed.code == 0 else ():
        if line.startswith("\t"):
            commits |= {} if is_older else {number: commit}
            is_older = False
        elif numbers := re.fullmatch(r"([0-9a-f]{40,64}) \d+ (\d+)(?: \d+)?", line):
            commit, number = numbers[1], int(numbers[2])
        elif line == "boundary":
            is_older = True
    names = _authors(root, commits.values())
    return found | {number: names[commit] for number, commit in commits.items() if commit in names}


def _authors(root: Path, commits: Iterable[str]) -> Mapping[str, str]:
    """Return the authors of commits, as "NAME <EMAIL>"."""
    if not (given := "".join(f"{commit}\n" for commit in dict.fromkeys(commits)).encode()):
        return {}
    words = ("log", "--no-walk", "--no-show-signature", "--format=%H %an <%ae>", "--stdin")
    rows = (line.split(" ", 1) for line in attempt(root, *words, given=given).text.split("\n"))
    return {row[0]: row[1] for row in rows if len(row) == 2}


def work_trees(root: Path) -> Iterable[Path]:
    """Return the work trees of a repository, its own first."""
    listed = attempt(root, "worktree", "list", "--porcelain").text.split("\n")
    found = (Path(line.removeprefix("worktree ")) for line in listed if line.startswith("worktree "))
    return dict.fromkeys((root, *found))
