"""Whether a session is as it was written, as far as the core itself tells: all that can be proved of one is for the
plugin audit."""

import re
from pathlib import Path

from sagent.errors import SessionCorrupt
from sagent.lib.json import sha256_hex
from sagent.session.entries import Entry
from sagent.session.log import read_log
from sagent.session.names import agent_of
from sagent.session.store import log_files, named_logs

_NAME = re.compile(rb'"([0-9a-f]{64})"')


def faults(session: Path, head: str = "") -> list[str]:
    """Return what is wrong: entries that were changed or do not follow, logs that lack what others name, torn ends, a
    root without this `head`, blobs that were changed or are missing."""
    found: list[str] = []
    logs: dict[str, list[Entry]] = {}
    for file in log_files(session):
        try:
            logs[agent_of(session, file)] = [*read_log(file)]
        except SessionCorrupt as error:
            found.append(str(error))
        if file.read_bytes()[-1:] not in (b"", b"\n"):
            found.append(f"{file} has an unfinished entry at the end")
    named = {agent_of(session, file) for file in named_logs(session)}
    strangers = [agent for agent, entries in logs.items() if agent not in named and len(entries) > 1]
    found += [f"nobody names the log of {agent}, or it lacks what is named" for agent in strangers]
    if head and head not in {entry.id for entry in logs.get("root", ())}:
        found.append(f"the root has no entry {head}")
    blobs = {file.name: file for file in session.glob("blobs/*") if not file.name.startswith("scratch-")}
    found += [f"{name} was changed" for name, file in blobs.items() if sha256_hex(file.read_bytes()) != name]
    wanted = {name for entries in logs.values() for entry in entries for name in blobs_of(entry)}
    return [*found, *(f"{name} is missing" for name in wanted - blobs.keys())]


def blobs_of(entry: Entry) -> tuple[str, ...]:
    """Return the names of the blobs that an entry needs."""
    content = entry.content
    holder = getattr(content, "message", None) or getattr(content, "result", None) or content
    return tuple(getattr(holder, "blobs", ()))


def unnamed_blobs(session: Path) -> set[str]:
    """Return the names of the blobs that no entry names."""
    named = {name for file in log_files(session) for name in _NAME.findall(file.read_bytes())}
    return {file.name for file in session.glob("blobs/*")} - {name.decode() for name in named}
