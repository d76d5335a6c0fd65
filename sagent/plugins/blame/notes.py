"""Git notes that name the session of a commit: written if the person has chosen it, and read as a hint, never a proof.

A note is a line of `refs/notes/sagent` for each session: its id, and an entry of its log that existed then.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from sagent.errors import SessionCorrupt
from sagent.lib.dataclass import dataclass
from sagent.lib.git import git_call
from sagent.plugins.blame.gitlog import local_commits, resolve, run_git, top_of
from sagent.plugins.blame.tracing import seconds
from sagent.session.contents import Environment
from sagent.session.entries import parse_line
from sagent.session.log import read_contents, read_lines
from sagent.session.store import named_logs
from sagent.session.store import sessions as all_sessions
from sagent.session.touches import Touched
from sagent.session.view import ID

REF = "refs/notes/sagent"
MAX_NOTE_BYTES = 1 << 16
MAX_SESSIONS = 50  # of one note
MAX_NOTED = 200  # commits of one time of writing
_LINE = re.compile(rb"(?m)^Sagent-Session: ([\w][\w.-]{0,99}) ([0-9a-f]{64})$", re.ASCII)
_IDENTITY = {"GIT_AUTHOR_NAME": "sagent", "GIT_COMMITTER_NAME": "sagent"} | {
    f"GIT_{who}_EMAIL": "sagent@localhost" for who in ("AUTHOR", "COMMITTER")
}
LogState: TypeAlias = Literal["missing", "named", "lacking"]
"""State of a noted session: its log is not here; it is here and has the noted entry; it is here and does not."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A note's claim about a line: the commit that it is on, the session, and an entry of the session's log."""

    commit: str
    session: str
    head: str
    log: LogState


def read_claims(
    path: Path, content: bytes, at: str, state: Path, sessions: Sequence[Path]
) -> Mapping[int, tuple[Claim, ...]]:
    """Return the claims of notes about the lines of a file, by number from 1. Logs are looked for in some sessions and
    in all of the state directory."""
    root = top_of(path)
    listed = (run_git(root, "notes", f"--ref={REF}", "list") or b"") if root else b""
    rows = (row.split() for row in listed.decode("ascii", "replace").splitlines())
    blobs = {row[1]: row[0] for row in rows if len(row) == 2}
    if root is None or not blobs:
        return {}
    commits = _blamed(root, path, content, at)
    logs = _Logs({session.name: session for session in (*all_sessions(state), *sessions)}, {})
    claims = {
        commit: tuple(
            Claim(commit, name, head, logs.state(name, head)) for name, head in _read_note(root, blobs[commit]).items()
        )
        for commit in sorted(set(commits.values()) & blobs.keys())
    }
    return {line: claims[commit] for line, commit in commits.items() if claims.get(commit)}


def _blamed(root: Path, path: Path, content: bytes, at: str) -> Mapping[int, str]:
    """Return the commit that git names for each line; lines that are not committed are left out."""
    where = (resolve(root, at),) if at else ("--contents", "-")
    words = ("blame", "--porcelain", "--no-textconv", *where, "--", path.relative_to(root).as_posix())
    out = run_git(root, *words, data=b"" if at else content) or b""
    rows = re.finditer(rb"(?m)^([0-9a-f]{40,64}) \d+ (\d+)(?: \d+)?$", out)
    return {int(row[2]): row[1].decode() for row in rows if row[1].strip(b"0")}


def _read_note(root: Path, blob: str) -> Mapping[str, str]:
    """Return the sessions and entries that a note names."""
    size = run_git(root, "cat-file", "-s", blob) or b""
    if not size.strip().isdigit() or int(size) > MAX_NOTE_BYTES:
        return {}
    note = run_git(root, "cat-file", "blob", blob) or b""
    return {match[1].decode(): match[2].decode() for match in islice(_LINE.finditer(note), MAX_SESSIONS)}


class _Logs(NamedTuple):
    """The logs of sessions that are here, and the ids of the entries in those that were read."""

    here: Mapping[str, Path]
    ids: dict[str, frozenset[str]]

    def state(self, name: str, head: str) -> LogState:
        """Return the state of a session's log for a note that names one of its entries."""
        if name not in self.here:
            return "missing"
        if name not in self.ids:
            self.ids[name] = _ids(self.here[name])
        return "named" if head in self.ids[name] else "lacking"


def _ids(session: Path) -> frozenset[str]:
    """Return the ids of the entries in a session's logs, which are verified; none if they were changed."""
    with suppress(SessionCorrupt, OSError):
        return frozenset(line[ID].decode() for file in named_logs(session) for line in read_lines(file))
    return frozenset()


# -- writing -----------------------------------------------------------------------------------------------------------


def write_notes(directory: Path, session: Path, head: str, known: set[str]) -> str:
    """Note a session on the commits that were made in a work tree since it was opened, if they change a file of its.

    `known` are the commits that were looked at before; new ones are added. Return the reason if that fails, or "".
    """
    if git_call(directory, "notes") is None:
        return "the repository's configuration names programs or includes files, so sagent does not use git there"
    root = top_of(Path(os.path.realpath(directory)) / "file")
    log = session / "root.jsonl"
    if root is None or not log.is_file() or not (first := next(iter(read_lines(log)), b"")):
        return ""
    since = int(seconds(parse_line(first).at))
    commits = [commit for commit in local_commits(root, since) if commit not in known][-MAX_NOTED:]
    known.update(commits)
    paths = _touched(session) if commits else frozenset[str]()
    start = _commit_at_start(log) if commits else ""
    for commit in commits:
        if paths.isdisjoint(_changed(root, commit)):
            continue
        if start and run_git(root, "merge-base", "--is-ancestor", commit, start) is not None:
            continue  # made in the second in which the session was opened, before it
        shown = run_git(root, "notes", f"--ref={REF}", "show", commit) or b""
        if any(match[1].decode() == session.name for match in _LINE.finditer(shown)):
            continue
        line = f"Sagent-Session: {session.name} {head}"
        words = ("notes", f"--ref={REF}", "append", "-m", line, commit)
        if run_git(root, *words, environment=_IDENTITY) is None:
            return f"git could not write the note for commit {commit[:12]}"
    return ""


def _commit_at_start(log: Path) -> str:
    """Return the commit that was checked out when a session was opened, "" if it is not recorded."""
    contents = (entry.content for entry in read_contents(log).of("environment"))
    commits = (content.commit for content in contents if isinstance(content, Environment))
    return next(filter(None, commits), "")


def _touched(session: Path) -> frozenset[str]:
    """Return the paths of the files that a session changed."""
    contents = (entry.content for file in named_logs(session) for entry in read_contents(file).of("touched"))
    touched = (content for content in contents if isinstance(content, Touched) and content.ended)
    return frozenset(os.path.realpath(touch.path) for content in touched for touch in content.files)


def _changed(root: Path, commit: str) -> Iterator[str]:
    """Yield the paths that a commit changes."""
    words = ("diff-tree", "-r", "-z", "-m", "--root", "--no-commit-id", "--no-renames", "--name-only", commit)
    names = os.fsdecode(run_git(root, *words) or b"").split("\0")
    return (os.path.realpath(root / name) for name in names if name)
