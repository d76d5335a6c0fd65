"""Whether a session is what was written, and what to keep of one that is not.

A hash chain shows damage and careless edits. Whoever may write the directory can also rewrite all of it with new
hashes; against that, compare the head with one that was kept elsewhere (every result carries it).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sagent.codec import decode_message, decode_result_part
from sagent.errors import SessionCorrupt, SessionNotFound
from sagent.lib.json import as_object, as_str
from sagent.session.blobs import BlobDirectory, sync_path
from sagent.session.entries import Entry, recompute_id
from sagent.session.lock import Lock
from sagent.session.log import FileLog, read_log, session_of
from sagent.session.names import agent_of
from sagent.session.store import is_session, log_files


@dataclass(frozen=True, slots=True)
class Proof:
    """What was checked and what was found. Every file of the session is either checked or among the problems.

    `heads` are the last ids by agent. Without problems every entry and every blob is as it was written; entries cut off
    whole from the end show only against a head kept elsewhere.
    """

    heads: Mapping[str, str]
    entries: int
    blobs: int
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Repair:
    """A log of which a good prefix was kept; `aside` is the damaged file, whole."""

    file: Path
    kept: int  # entries
    dropped: int  # bytes
    aside: Path


def verify(session: Path, head: str = "") -> Proof:
    """Check every byte of a session: ids, chains, blobs, and what a parent's log says about its children's.

    With `head`, that this entry is in the root's log too. Needs no lock; a session at work may show an unfinished last
    line. Raises SessionNotFound and OSError.
    """
    if not is_session(session):
        raise SessionNotFound(f"no session at {session}")
    problems: list[str] = []
    logs = {agent_of(session, file): _entries(file, problems) for file in log_files(session)}
    ids = {agent: {entry.id for entry in entries} for agent, entries in logs.items()}
    if head and head not in ids["root"]:
        problems.append(f"{session}: no entry {head} in the root's log: its end is missing, or it is another session")
    blobs = BlobDirectory(session / "blobs")
    for agent, entries in logs.items():
        for entry in entries:
            problems.extend(f"{agent}, entry {entry.id}: {problem}" for problem in _doubts(entry, blobs, ids))
    names, strangers = _other_files(session)
    for name in names:
        try:
            blobs.get(name)
        except SessionCorrupt as error:
            problems.append(str(error))
    problems.extend(f"{path}: no part of a session; not checked" for path in strangers)
    return Proof(
        heads={agent: entries[-1].id if entries else "" for agent, entries in logs.items()},
        entries=sum(map(len, logs.values())),
        blobs=len(names),
        problems=tuple(dict.fromkeys(problems)),
    )


def repair(path: Path) -> tuple[Repair, ...]:
    """Keep the good prefix of every damaged log of a session and move the damaged file aside; say so in the log.

    `path` is the session or one of its files. Raises SessionBusy, SessionNotFound and OSError; at no moment is there
    less on the disk than before.
    """
    session = path if path.is_dir() else session_of(path)
    if not is_session(session):
        raise SessionNotFound(f"no session at {session}")
    lock = Lock(session)
    try:
        return tuple(done for file in log_files(session) if (done := _repair_log(session, file)))
    finally:
        lock.close()


def _repair_log(session: Path, file: Path) -> Repair | None:
    kept = size = 0
    try:
        for entry in read_log(file):
            kept, size = kept + 1, size + len(entry.line)
    except SessionCorrupt as error:
        reason = str(error)
    else:
        return None
    import shutil

    aside = file.with_name(f"{file.name}.damaged-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}")
    shutil.copy2(file, aside)
    sync_path(aside)
    dropped = aside.stat().st_size - size
    whole = file.with_name(f"{file.name}.repaired")
    shutil.copy2(file, whole)
    with whole.open("r+b") as stream:
        stream.truncate(size)
    sync_path(whole)
    whole.replace(file)
    log = FileLog(session, agent_of(session, file), blobs=BlobDirectory(session / "blobs"))
    try:
        log.append("repaired", {"kept": kept, "dropped_bytes": dropped, "aside": aside.name, "reason": reason})
        log.sync()
    finally:
        log.close()
    return Repair(file, kept, dropped, aside)


def _entries(file: Path, problems: list[str]) -> list[Entry]:
    """What can be read of a log."""
    entries: list[Entry] = []
    size = 0
    try:
        for entry in read_log(file):
            size += len(entry.line)
            entries.append(entry)
        if torn := file.stat().st_size - size:
            problems.append(f"{file}: {torn} bytes of an unfinished entry at the end; opening the session cuts it off")
    except SessionCorrupt as error:
        problems.append(str(error))
    return entries


def _doubts(entry: Entry, blobs: BlobDirectory, ids: Mapping[str, set[str]]) -> Iterator[str]:
    """What is wrong with one entry, apart from its place in the chain."""
    try:
        if recompute_id(entry) != entry.id:
            yield "the id is not that of the canonical form"
        if entry.kind == "message":
            decode_message(entry.body, blobs.get)
        elif entry.kind == "received" or (entry.kind == "sent" and "message" in entry.body):
            decode_message(as_object(entry.body.get("message")), blobs.get)
        elif entry.kind == "result":
            decode_result_part(entry.body.get("result"), blobs.get)
        elif entry.kind in {"spawned", "returned"}:
            agent, named = as_str(entry.body.get("agent")), as_str(entry.body.get("entry"))
            if named and named not in ids.get(agent, ()):
                yield f"the log of {agent} has no entry {named}"
    except (SessionCorrupt, ValueError) as error:
        yield str(error)


def _other_files(session: Path) -> tuple[list[str], list[Path]]:
    """The names of the blobs, and the files that are neither logs, blobs nor the lock."""
    known = {session / "lock", *log_files(session)}
    names: list[str] = []
    strangers: list[Path] = []
    for path in sorted(session.rglob("*")):
        if path.is_dir() or path in known:
            continue
        if path.parent == session / "blobs" and not path.name.startswith("scratch-"):
            names.append(path.name)
        else:
            strangers.append(path)
    return names, strangers
