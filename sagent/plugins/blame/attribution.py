"""The origins of the lines of a file, as the logs of sessions prove them.

A line is attributed to an agent's call only if every way in which the file can have come about agrees on it. All
other lines are of unknown origin: no line is attributed by guess.
"""

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

from sagent.lib.dataclass import dataclass
from sagent.plugins.blame.arguments import split_lines
from sagent.plugins.blame.evidence import Evidence, FileChange, read_evidence
from sagent.plugins.blame.gitlog import file_history
from sagent.plugins.blame.tracing import Tracer, seconds

MARGIN_SECONDS = 86_400  # of git's history before the first change by an agent
_EMPTY = hashlib.sha256(b"").hexdigest()

Proof: TypeAlias = Literal["arguments", "snapshots"]
"""Evidence for a line: the call's own arguments, or the contents of the file before and after a call."""
Reason: TypeAlias = Literal["no log", "outside", "ambiguous"]
"""Why an origin is unknown: no log has seen the file before that line was there, the line was written outside the known
calls, or several origins are possible."""


@dataclass(frozen=True, slots=True)
class WrittenByAgent:
    """An agent's call that wrote a line. `log` is the file with its `entry`, which recorded the change.

    `at` is UTC, ISO 8601; `head` is the last entry of the log, whose chain of hashes was verified; `model` is
    "provider/id".
    """

    session: str
    agent: str
    log: Path
    entry: str
    call: str
    tool: str
    model: str
    at: str
    head: str
    proof: Proof


@dataclass(frozen=True, slots=True)
class Unknown:
    """An unknown origin."""

    reason: Reason


LineOrigin: TypeAlias = WrittenByAgent | Unknown
"""Origin of one line."""


def attribute(
    path: Path, content: bytes, sessions: Iterable[Path] | Evidence, *, at: str = ""
) -> tuple[LineOrigin, ...]:
    """Return the origin of each line of a file: one for each line of `content`, split at line feeds.

    `content` is that of the file at `path` now, or in the commit `at` of its repository, whose history is used too.
    `sessions` are the directories of the sessions that may have written it, or what `read_evidence` has read of them.
    Raises SessionCorrupt if one of their logs was changed, and OSError.
    """
    evidence = sessions if isinstance(sessions, Evidence) else read_evidence(sessions)
    unseen = Unknown("no log")
    if not evidence.changes or not content:
        return (unseen,) * len(split_lines(content))
    real = os.path.realpath(path)
    since = int(min(seconds(change.begun) for change in evidence.changes)) - MARGIN_SECONDS
    history = file_history(Path(real), at or "HEAD", since)
    names = frozenset((real, *history.names))
    ends = tuple(f"/{each}" for each in history.relative)
    elsewhere = frozenset(change.path for change in evidence.changes if ends and change.path.endswith(ends))
    paths = _related(evidence, names | elsewhere, [content, *(version.content for version in history.versions)])
    tracer = Tracer(evidence, history, names, elsewhere)
    changes = [change for change in evidence.changes if change.path in paths]
    traced = tracer.follow(changes, real, content, committed=bool(at))
    origins = [Unknown("outside" if changes else "no log"), *(_origin(evidence, *each) for each in tracer.written)]
    unsure = Unknown("ambiguous")
    return tuple(origins[next(iter(found))] if len(found) == 1 else unsure for found in traced)


def _related(evidence: Evidence, paths: Iterable[str], contents: Iterable[bytes | None]) -> set[str]:
    """Return some paths, and those with which they have had a content in common."""
    by_blob: dict[str, set[str]] = defaultdict(set)
    blobs: dict[str, set[str]] = defaultdict(set)
    for change in evidence.changes:
        for state in (change.before, change.after):
            if state.blob and state.blob != _EMPTY:
                by_blob[state.blob].add(change.path)
                blobs[change.path].add(state.blob)
    hashes = {hashlib.sha256(content).hexdigest() for content in contents if content}
    waiting = [*paths, *(path for name in hashes for path in by_blob.get(name, ()))]
    found: set[str] = set()
    while waiting:
        if (path := waiting.pop()) not in found:
            found.add(path)
            waiting += (other for blob in blobs[path] for other in by_blob[blob])
    return found


def _origin(evidence: Evidence, change: FileChange, proven: bool) -> WrittenByAgent:  # noqa: FBT001 -- from a pair
    return WrittenByAgent(
        session=change.session.name,
        agent=change.agent,
        log=change.log,
        entry=change.entry,
        call=change.call,
        tool=change.tool,
        model=change.model,
        at=change.at,
        head=evidence.heads[change.log],
        proof="arguments" if proven else "snapshots",
    )
