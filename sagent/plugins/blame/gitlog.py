"""The versions of one file in the history of a git repository, and the movements of its work tree."""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import NamedTuple

from sagent.lib.dataclass import dataclass
from sagent.lib.git import git_call, work_tree_directories
from sagent.lib.regular import read_regular
from sagent.plugins.blame.arguments import split_lines
from sagent.plugins.blame.likeness import is_renamed

GIT_TIMEOUT_SECONDS = 30.0
MAX_COMMITS = 20_000
MAX_RENAMES = 8  # of one file that are followed
MAX_GONE = 20  # files that a commit removes, with which one that it adds is compared
MAX_FILE_BYTES = 8 << 20
_LOCAL = ("commit", "commit (initial)", "commit (amend)")
_REFLOG = re.compile(rb"([0-9a-f]{40,64}) ([0-9a-f]{40,64}) .*?> (\d+) [+-]\d{4}(?:\t([^:\n]*))?")


class Version(NamedTuple):
    """The content of a file in a commit, None if it has none. `parents` are keys of the versions before it; `time` is
    the commit's, in seconds. Commits with one `authorship` are the same change, made again elsewhere."""

    key: str
    commit: str
    parents: tuple[str, ...]
    time: int
    authorship: str
    content: bytes | None


class Movement(NamedTuple):
    """A change of the commit that is checked out, between the times `earliest` and `time`. One that is `local` recorded
    the work tree's own content."""

    time: float
    commit: str
    local: bool
    earliest: float


@dataclass(frozen=True, slots=True)
class FileHistory:
    """Versions of a file, each after its parents, and the movements of its work tree; None if git has no record of
    them. `tip` is the key of the version asked for; `names` are the file's paths in it, absolute."""

    versions: tuple[Version, ...] = ()
    movements: tuple[Movement, ...] | None = None
    tip: str = ""
    names: tuple[str, ...] = ()
    relative: tuple[str, ...] = ()  # the same, as git names them
    by_commit: Mapping[str, str] = field(default_factory=dict[str, str])  # keys of versions


def file_history(path: Path, at: str, since: int) -> FileHistory:
    """Return the history of a file up to a commit, from a time in seconds on. It is empty outside git."""
    root = top_of(path)
    if root is None:
        return FileHistory()
    movements = _movements(root)
    commits = _commits(root, at, movements or (), since)
    if not commits:
        return FileHistory(movements=movements)
    return _Reader(root, commits).read(path, at, movements)


class _Commit(NamedTuple):
    id: str
    parents: tuple[str, ...]
    time: int
    authorship: str


class _Reader:
    """Reads the versions of one file, under all names that it had."""

    def __init__(self, root: Path, commits: Mapping[str, _Commit]) -> None:
        self._root, self._commits = root, commits
        self._blobs: dict[str, dict[str, str]] = {}  # by name and commit
        self._renamed: dict[tuple[str, str], str] = {}  # the name before, by commit and name

    def read(self, path: Path, at: str, movements: tuple[Movement, ...] | None) -> FileHistory:
        names = [path.relative_to(self._root).as_posix()]
        tip = resolve(self._root, at)
        for name in names:
            self._blobs[name] = self._find(name)
            if name == names[0] and tip not in self._blobs[name] and (old := self._moved_now(path)):
                names.append(old)  # not committed yet
            for commit in self._commits.values():
                if len(names) <= MAX_RENAMES and (old := self._old_name(commit, name)):
                    self._renamed[commit.id, name] = old
                    names += [] if old in names else [old]
        contents = self._contents()
        versions = tuple(
            Version(
                f"{commit.id}:{name}",
                commit.id,
                tuple(f"{parent}:{self._name_in(commit.id, parent, name)}" for parent in commit.parents),
                commit.time,
                commit.authorship,
                contents.get(self._blobs[name].get(commit.id, "")),
            )
            for commit in self._with_parents()
            for name in reversed(names)
            if commit.id in self._blobs[name]
        )
        own = {version.commit: version.key for version in versions}  # the newest name comes last
        places = tuple(str(self._root / name) for name in names)
        return FileHistory(versions, movements, own.get(tip, ""), places, tuple(names), own)

    def _with_parents(self) -> Iterator[_Commit]:
        """Yield the commits, after those before the first ones."""
        before = {parent for commit in self._commits.values() for parent in commit.parents} - self._commits.keys()
        yield from (_Commit(name, (), 0, "") for name in sorted(before))
        yield from self._commits.values()

    def _find(self, name: str) -> dict[str, str]:
        """Return the blobs of a name, by commit."""
        commits = [commit.id for commit in self._with_parents()]
        end, flags = ("\0", ("-z",)) if "\n" in name else ("\n", ())
        asked = os.fsencode("".join(f"{commit}:{name}{end}" for commit in commits))
        out = run_git(self._root, "cat-file", *flags, "--batch-check", data=asked) or b""
        rows = (line.split(b" ") for line in out.replace(os.fsencode(f":{name} missing"), b" missing").split(b"\n"))
        return {
            commit: row[0].decode()
            for commit, row in zip(commits, rows, strict=False)
            if len(row) == 3 and row[1] == b"blob" and int(row[2]) <= MAX_FILE_BYTES
        }

    def _old_name(self, commit: _Commit, name: str) -> str:
        """Return the name that a file had before a commit, if that is where it got this one; "" otherwise."""
        blobs = self._blobs[name]
        if commit.id not in blobs or not commit.parents or any(parent in blobs for parent in commit.parents):
            return ""
        words = ("diff-tree", "-r", "-z", "-M", "--no-commit-id", "--name-status", "--diff-filter=RD", commit.id)
        fields = os.fsdecode(run_git(self._root, *words) or b"").split("\0")
        gone: list[str] = []
        while len(fields) > 1:
            status, old = fields[0], fields[1]
            if status.startswith("R") and fields[2] == name:
                return old
            gone += [old] if status == "D" else []
            del fields[: 3 if status.startswith("R") else 2]
        new = run_git(self._root, "cat-file", "blob", blobs[commit.id]) if gone else None
        return self._most_like(new or b"", commit.parents[0], gone)

    def _moved_now(self, path: Path) -> str:
        """Return the committed file, now missing, that a file in the work tree was; "" if there is none."""
        words = ("diff", "-z", "--no-renames", "--name-only", "--diff-filter=D", "HEAD")
        gone = os.fsdecode(run_git(self._root, *words) or b"").split("\0")[:-1]
        try:
            return self._most_like(read_regular(path, max_bytes=MAX_FILE_BYTES), "HEAD", gone) if gone else ""
        except OSError:
            return ""

    def _most_like(self, content: bytes, commit: str, names: Sequence[str]) -> str:
        """Return the one of some files in a commit of which a content has half of the long lines; "" for several."""
        lines = split_lines(content.replace(b"\r\n", b"\n"))
        found: list[str] = []
        for name in names[:MAX_GONE]:
            old = run_git(self._root, "cat-file", "blob", f"{commit}:{name}") or b""
            if is_renamed(split_lines(old.replace(b"\r\n", b"\n")), lines):
                found.append(name)
        return found[0] if len(found) == 1 else ""

    def _name_in(self, commit: str, parent: str, name: str) -> str:
        return name if parent in self._blobs[name] else self._renamed.get((commit, name), name)

    def _contents(self) -> dict[str, bytes]:
        blobs = dict.fromkeys(blob for found in self._blobs.values() for blob in found.values())
        out = run_git(self._root, "cat-file", "--batch", data="".join(f"{blob}\n" for blob in blobs).encode()) or b""
        found: dict[str, bytes] = {}
        place = 0
        while (end := out.find(b"\n", place)) >= 0:
            words = out[place:end].split(b" ")
            size = int(words[2]) if len(words) == 3 else -1
            found[words[0].decode()] = out[end + 1 : end + 1 + size]
            place = end + 2 + size
        return found


def top_of(path: Path) -> Path | None:
    """Return the work tree that a file is in, None outside one. The file need not be there."""
    directory = next((each for each in path.parents if each.is_dir()), path.parent)
    top = run_git(directory, "rev-parse", "--show-toplevel")
    root = Path(os.fsdecode(top.removesuffix(b"\n"))) if top else None
    return root if root is not None and path.is_relative_to(root) else None


def local_commits(root: Path, since: float) -> list[str]:
    """Return the commits that were made in a work tree since a time in seconds, in order."""
    moves = _movements(root) or ()
    return [*dict.fromkeys(move.commit for move in moves if move.local and move.time >= since)]


def _commits(root: Path, at: str, movements: Sequence[Movement], since: int) -> dict[str, _Commit]:
    """Return commits, each after its parents, those too that only a movement still names."""
    moved = dict.fromkeys(move.commit for move in movements if move.time >= since)
    known = run_git(root, "cat-file", "--batch-check", data="".join(f"{name}\n" for name in moved).encode()) or b""
    tips = [line.split()[0].decode() for line in known.splitlines() if line.split()[1:2] == [b"commit"]]
    form = "--format=%H%x00%P%x00%ct%x00%at %ae %s"
    words = ("log", "--topo-order", f"--since=@{since}", f"-n{MAX_COMMITS}", form)
    out = run_git(root, *words, "--end-of-options", at, *tips[-500:]) or b""
    rows = (os.fsdecode(line).split("\0") for line in out.splitlines())
    whole = (row for row in rows if len(row) == 4 and row[2].isdigit())
    found = [_Commit(row[0], tuple(row[1].split()), int(row[2]), row[3]) for row in whole]
    return {commit.id: commit for commit in reversed(found)}


def _movements(root: Path) -> tuple[Movement, ...] | None:
    """Return the movements of a work tree in order; None if git does not record them, or not in the order of time.

    Git drops old entries of the record, and some commands write none: a commit that does not follow from the one before
    stands for movements at unknown times between the two.
    """
    own, _ = work_tree_directories(root)
    try:
        data = read_regular(own / "logs" / "HEAD", max_bytes=64 << 20)
    except OSError:
        return None
    found: list[Movement] = []
    last, time = "", 0.0
    for match in filter(None, map(_REFLOG.match, data.split(b"\n"))):
        old, new, at = match[1].decode(), match[2].decode(), float(match[3])
        if at < time:  # the clock was set back, or the date of a commit was chosen
            return None
        is_first = not last and not old.strip("0")
        found += [] if is_first or old == last else [Movement(at, old, local=False, earliest=time)]
        found.append(Movement(at, new, (match[4] or b"").decode("utf-8", "replace") in _LOCAL, at))
        last, time = new, at
    if last != (head := resolve(root, "HEAD")):
        found.append(Movement(float("inf"), head, local=False, earliest=time))
    return tuple(found)


def run_git(
    directory: Path, *words: str, data: bytes = b"", environment: Mapping[str, str] | None = None
) -> bytes | None:
    """Run git and return its output; None if it fails or may not be used."""
    if (call := git_call(directory, *words)) is None:
        return None
    own = {**call.environment, **(environment or {})}
    try:
        done = subprocess.run(
            call.argv, env=own, input=data, capture_output=True, timeout=GIT_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def committed(path: Path, at: str) -> bytes | None:
    """Return the content of a file in a commit; None if it is not in it."""
    root = top_of(path)
    if root is None or not (commit := resolve(root, at)):
        return None
    return run_git(root, "cat-file", "blob", f"{commit}:{path.relative_to(root).as_posix()}")


def resolve(root: Path, name: str) -> str:
    """Return the id of a commit; "" if there is none of this name."""
    out = run_git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}") or b""
    return out.decode().strip().rpartition("\n")[2]
