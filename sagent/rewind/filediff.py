"""The line by line differences between a file at an entry of a log and now."""

import os
from functools import partial

from sagent.errors import SessionCorrupt, UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.diff import unified
from sagent.lib.encoding import Binary, decode, readable
from sagent.lib.json import sha256_hex
from sagent.rewind.plan import plan, since
from sagent.rewind.recorder import MAX_NAMED_BYTES, in_thread
from sagent.rewind.snapshot import Stop, read_state
from sagent.session.log import Log, read_agent
from sagent.session.touches import Snapshot


@dataclass(frozen=True, slots=True)
class FileDiff:
    """A file as it `was` and as it is `now`. `diff` is a unified diff without file names; "" if no line differs or one
    version is not text. `note` describes anything else."""

    path: str
    was: Snapshot
    now: Snapshot
    diff: str = ""
    note: str = ""


async def diff_file(log: Log, entry: str, path: str) -> FileDiff:
    """Compare a file with its state at an entry. Raises UsageError if it has not changed, or without such an entry."""
    return await in_thread(lambda stop: _compare(log, entry, path, stop))


def _compare(log: Log, entry: str, path: str, stop: Stop) -> FileDiff:
    changes = plan(since(partial(read_agent, log), log.agent, entry))
    was = next((item.target for item in changes.items if item.path == path), None)
    if was is None:
        raise UsageError(f"{path} was not changed in this session.")
    stop.check()
    read: list[bytes] = []

    def keep(data: bytes) -> str:
        read.append(data)
        return sha256_hex(data)

    now = read_state(os.fsencode(path), keep, MAX_NAMED_BYTES)
    try:
        old = log.blobs.get(was.blob) if was.kind == "file" else b""
    except SessionCorrupt as error:
        was, old = Snapshot("unknown", why=str(error)), b""
    new = read[-1] if now.kind == "file" else b""
    notes = [state.why for state in (was, now) if state.kind == "unknown"]
    notes += [f"{word} {_thing(state)}" for word, state in (("was", was), ("is", now)) if _thing(state)]
    if was.kind == now.kind == "file" and was.mode != now.mode:
        notes.append(f"permissions {was.mode:o}, now {now.mode:o}")
    if isinstance(decode(old), Binary) or isinstance(decode(new), Binary):
        notes.append(f"not text: {len(old):,} bytes, now {len(new):,}")
        old = new = b""
    return FileDiff(path, was, now, unified(_lines(old), _lines(new)), "; ".join(notes))


def _thing(state: Snapshot) -> str:
    return {"link": f"a link to {state.target}", "directory": "a directory"}.get(state.kind, "")


def _lines(data: bytes) -> list[str]:
    """Split at line feeds only; a last line without one is marked as in a patch."""
    lines = readable(data).split("\n")
    last = lines.pop()
    return [*lines, f"{last}\n\\ No newline at end of file"] if last else lines
