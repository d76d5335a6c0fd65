"""Search for transcripts on this machine: where each program keeps them, by path or by id."""

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

from sagent.errors import UsageError
from sagent.lib.json import as_object, as_str, valid_text
from sagent.plugins.transfer.claude import read_claude
from sagent.plugins.transfer.codex import parent_of, read_codex
from sagent.plugins.transfer.gemini import read_gemini
from sagent.plugins.transfer.lines import first_object, first_objects
from sagent.plugins.transfer.opencode import connect, read_opencode
from sagent.plugins.transfer.pi import read_pi
from sagent.plugins.transfer.steps import PROGRAMS, Program, Transcript, word

MIN_ID_CHARS = 4
"""Characters of an id that are enough to name a transcript."""
MAX_LISTED = 50
_DATABASE = "opencode.db"


class Place(NamedTuple):
    """A transcript on disk: its file, and for a database the id of the session in it; `written` is when it changed
    last, in seconds."""

    program: Program
    id: str
    file: Path
    written: float
    own: bool = True


Homes: TypeAlias = Mapping[str, str]


def roots(program: Program, home: Path, environ: Homes) -> Path:
    """Return the directory in which a program keeps its transcripts."""

    def named(variable: str, usual: Path) -> Path:
        return Path(environ[variable]).expanduser() if environ.get(variable) else usual

    match program:
        case "claude":
            return named("CLAUDE_CONFIG_DIR", home / ".claude") / "projects"
        case "codex":
            return named("CODEX_HOME", home / ".codex") / "sessions"
        case "gemini":
            return named("GEMINI_CLI_HOME", home) / ".gemini" / "tmp"
        case "opencode":
            return named("XDG_DATA_HOME", home / ".local" / "share") / "opencode"
        case "pi":
            return named("PI_CODING_AGENT_DIR", home / ".pi" / "agent") / "sessions"


_PATTERNS: Mapping[Program, Sequence[str]] = {
    "claude": ("*/*.jsonl",),
    "codex": ("*/*/*/rollout-*.jsonl", "../archived_sessions/rollout-*.jsonl"),
    "gemini": ("*/chats/session-*.jsonl", "*/chats/session-*.json"),
    "opencode": (),
    "pi": ("*/*.jsonl",),
}
"""Files of transcripts below a program's directory."""


def transcripts(program: Program, home: Path, environ: Homes) -> list[Place]:
    """Return a program's transcripts on this machine, newest first."""
    root = roots(program, home, environ)
    found = [*_in_database(root / _DATABASE)] if program == "opencode" else []
    for pattern in _PATTERNS[program]:
        with suppress(OSError):
            for file in root.glob(pattern):
                with suppress(OSError):
                    status = file.stat()
                    if stat.S_ISREG(status.st_mode):
                        found.append(Place(program, _id_of(program, file), file, status.st_mtime))
    return sorted(found, key=lambda place: place.written, reverse=True)


def _in_database(database: Path) -> Iterator[Place]:
    if not database.is_file():
        return
    with suppress(UsageError, sqlite3.Error), closing(connect(database)) as connection:
        query = "select id, time_updated from session where parent_id is null"
        for name, updated in connection.execute(query).fetchall():
            yield Place("opencode", as_str(name), database, updated / 1000 if isinstance(updated, int) else 0.0)


def _id_of(program: Program, file: Path) -> str:
    """Return the id in a file's name."""
    match program:
        case "codex":
            return "-".join(file.stem.split("-")[-5:])
        case "pi":
            return file.stem.rpartition("_")[2]
        case "gemini":
            return file.stem.removeprefix("session-")
        case _:
            return file.stem


def find_transcript(which: str, program: Program | None, home: Path, environ: Homes, cwd: Path) -> Place:
    """Return the transcript at a path, or with an id or a part of one. Raises UsageError for none and for several."""
    path = cwd / Path(os.path.expanduser(which))  # noqa: PTH111 -- which leaves the home of nobody as it is
    with suppress(OSError, ValueError):
        if path.is_file():
            return _named(path, program, home, environ)
    if len(which) < MIN_ID_CHARS:
        raise UsageError(f"{which!r} is neither a file nor an id of {MIN_ID_CHARS} characters or more.")
    programs = (program,) if program else tuple(PROGRAMS)
    places = [place for one in programs for place in transcripts(one, home, environ) if which in place.id]
    exact = [place for place in places if place.id == which]
    places = exact or places
    if not places:
        looked = ", ".join(str(roots(one, home, environ)) for one in programs)
        raise UsageError(f"There is no transcript {which!r}: neither a file, nor an id in {looked}.")
    if len({(place.program, place.id) for place in places}) > 1:
        names = ", ".join(valid_text(f"{place.id} ({place.program})") for place in places[:8])
        raise UsageError(f"{which!r} could be any of {names}: give more of the id, or --from.")
    if len({place.file.with_suffix("") for place in places}) > 1:  # such as in two projects
        names = ", ".join(valid_text(str(place.file)) for place in places[:8])
        raise UsageError(f"{which!r} could be any of {names}: give the file.")
    return places[0]._replace(own=_is_kept(places[0].file, places[0].program, home, environ))


def _is_kept(file: Path, program: Program, home: Path, environ: Homes) -> bool:
    """Return True if a file really lies where the program keeps its transcripts."""
    root = roots(program, home, environ)
    root = root.parent if program == "codex" else root  # archived sessions lie beside the others
    return Path(os.path.realpath(file)).is_relative_to(os.path.realpath(root))


def _keeper_of(file: Path, home: Path, environ: Homes) -> Program | None:
    """Return the program in whose directory of transcripts a file lies; None for no such directory."""
    files: Sequence[Program] = ("claude", "codex", "gemini", "pi")
    return next((program for program in files if _is_kept(file, program, home, environ)), None)


def _named(path: Path, program: Program | None, home: Path, environ: Homes) -> Place:
    """Return the place of a file that somebody named. Its prompts are the person's own only where the program keeps its
    transcripts."""
    chosen = program or program_of(path) or _keeper_of(path, home, environ)
    if chosen is None:
        raise UsageError(f"{path} is no transcript of {', '.join(PROGRAMS.values())}; or say which with --from.")
    own = _is_kept(path, chosen, home, environ)
    if chosen == "opencode":
        connect(path).close()
        known = [*_in_database(path)]
        if len(known) != 1:
            newest = ", ".join(word(place.id) for place in known[:8])
            raise UsageError(
                f"{path} holds several sessions: give the id of one, with --from opencode: {newest}."
                if known
                else f"{path} has no session of opencode."
            )
        return known[0]._replace(own=own)
    return Place(chosen, _id_of(chosen, path), path, path.stat().st_mtime, own)


def program_of(file: Path) -> Program | None:
    """Return the program that wrote a file, by its content; None if unknown."""
    try:
        with file.open("rb") as stream:
            start = stream.read(16)
    except OSError:
        return None
    if start.startswith(b"SQLite format 3"):
        return "opencode"
    if file.suffix == ".json" and start.lstrip().startswith(b"{"):
        return "gemini"
    for first in first_objects(file):
        if (program := _program_of_line(first)) is not None:
            return program
    return None


def _program_of_line(first: Mapping[str, object]) -> Program | None:
    """Return the program that writes such a line; None if several could, or none does."""
    payload = as_object(first.get("payload"))
    if first.get("type") == "session_meta" or payload.get("type") or (payload and "timestamp" in first):
        return "codex"
    if first.get("type") == "session" and "id" in first:
        return "pi"
    if "projectHash" in first or "$set" in first:
        return "gemini"
    claude = ("uuid", "sessionId", "leafUuid", "parentUuid", "isSidechain")
    return "claude" if any(name in first for name in claude) else None


def read_transcript(place: Place) -> Transcript:
    """Return the whole transcript at a place. Raises UsageError."""
    readers: Mapping[Program, Callable[[], Transcript]] = {
        "claude": lambda: read_claude(place.file, own=place.own),
        "codex": lambda: read_codex(place.file, own=place.own),
        "gemini": lambda: read_gemini(place.file, own=place.own),
        "opencode": lambda: read_opencode(place.file, place.id, own=place.own),
        "pi": lambda: read_pi(place.file, own=place.own),
    }
    return readers[place.program]()


def newest(program: Program | None, home: Path, environ: Homes, most: int = MAX_LISTED) -> list[Place]:
    """Return the newest transcripts of a program, or of all, without those of sub-agents, which are taken over with
    their parents'."""
    programs = (program,) if program else tuple(PROGRAMS)
    found = [place for one in programs for place in transcripts(one, home, environ)]
    shown: list[Place] = []
    for place in sorted(found, key=lambda place: place.written, reverse=True):
        if len(shown) == most:
            break
        shown += [] if _is_child(place) else [place]
    return shown


def _is_child(place: Place) -> bool:
    if place.program == "claude":  # earlier versions wrote them beside their parents
        return place.id.startswith("agent-")
    return place.program == "codex" and bool(parent_of(as_object(first_object(place.file).get("payload"))))
