"""Directory of sessions: `<state>/sessions/<working directory>/<session id>/`, each with a lock, logs and blobs."""

import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from datetime import datetime
from itertools import chain, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Self

from sagent.codec import VERSION
from sagent.errors import SessionBusy, SessionCorrupt, SessionNotFound, UsageError
from sagent.lib.regular import read_given, read_regular, special_kind
from sagent.session.blobs import OUTPUTS, BlobDirectory, is_blob, link
from sagent.session.contents import Label, Opened
from sagent.session.entries import Entry
from sagent.session.folds import charges, origin
from sagent.session.lock import in_use
from sagent.session.log import Family, FileLog, begins_log, cut_torn, make_directory, read_log
from sagent.session.names import agent_of, is_agent, is_session_id, new_session_id, sessions_of
from sagent.session.view import first_id
from sagent.usage import Charge
from sagent.version import __version__

if TYPE_CHECKING:
    from sagent.session.lock import Lock

LAST = "last-opened"  # the file next to the sessions of a working directory that names the one opened last
REPAIRED = "repaired-"  # how the name of a directory in a session begins in which its logs are written anew
COPY = ".copy-"  # how the name of a directory begins in which a session is copied
_REPAIRED = re.compile(REPAIRED + r"(draft|\d{8}-\d{6}-\d{6})")
_PART = re.compile(rf"root(\.jsonl.*)?|blobs|{OUTPUTS}|{_REPAIRED.pattern}|signed\.json(\.sig)?(.*\.damaged-.*)?")
_ENTRY = re.compile(rb'^\{"id":"[0-9a-f]{64}","at":"', re.MULTILINE)
MAX_BEGIN_SECONDS = 5  # from when a session is made to when its log is there
_BEGUN_SECONDS = 600  # in which a copy surely has its lock


class Session:
    """A session on disk, locked for writing until it is closed.

    Raises SessionBusy if another process holds it, SessionCorrupt, SessionNotFound, and OSError if the directory cannot
    be written: then use a MemoryLog and tell the person.
    """

    def __init__(self, path: Path, directories: Sequence[Path] = ()) -> None:
        self.path, self.id, self._made = path, path.name, directories
        self._lock = _take_lock(path)
        self._blobs = BlobDirectory(path / "blobs")
        self._logs = Family[FileLog]()
        try:
            _check_repaired(path)
            if is_session(path):
                check_version(path, "continue it")
            self._blobs.sweep()
            self._torn = {"root": self.log().torn} | {
                agent_of(path, file): cut_torn(file) for file in log_files(path)[1:]
            }
        except BaseException:
            self._lock.close()
            raise

    @classmethod
    def create(cls, state: Path, cwd: Path) -> Self:
        """Return a new session of a working directory."""
        home = sessions_of(state, cwd)
        make_directory(home)
        while True:
            path = home / new_session_id()
            try:
                path.mkdir(mode=0o700)
            except FileExistsError:
                continue
            session = cls(path)
            note_last(path)
            return session

    @classmethod
    def create_at(cls, path: Path) -> Self:
        """Return a new session at a path that the caller chooses: a directory that is empty or does not exist yet."""
        path = path.absolute()
        if link := _dangling_link(path):
            raise UsageError(f"{link} links to {link.readlink()}, which does not exist: no session can be saved there")
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UsageError(f"{path} is not empty and is not a session; choose a new directory for the session")
        return cls(path, make_directory(path))

    @classmethod
    def open(cls, path: Path) -> Self:
        """Return an existing session, to continue it."""
        path = path.absolute()
        check_log(path)
        if not is_session(path):
            raise SessionNotFound(f"no session at {path}")
        session = cls(path)
        note_last(path)
        return session

    def log(self, agent: str = "root") -> FileLog:
        """Return an agent's log, opened and verified once; created if missing."""
        return self._logs.get(agent) or FileLog(self.path, agent, blobs=self._blobs, family=self._logs)

    def follow(self, on_entry: Callable[[str, Entry], None], on_blob: Callable[[Path], None]) -> None:
        """Start passing each appended entry of any log to `on_entry`, with its agent, and new blobs to `on_blob` before
        entries that name them: at once, in the appending thread."""
        self._logs.follow, self._blobs.follow = on_entry, on_blob

    def begin(self, cwd: Path, **more: object) -> str:
        """Write the first entry: the directory, the versions, and `more`. Returns its id. Raises OSError; then the
        session is closed and removed."""
        environment = {"sagent": __version__, "python": sys.version.split()[0], "platform": sys.platform, **more}
        try:
            return self.log().append(Opened(self.id, "root", str(cwd), environment)).id
        except BaseException:
            self.close_begun("")
            raise

    def charges(self) -> Iterator[Charge]:
        """Yield the charges of all its agents, read lazily; also from truncated logs."""
        yield from charges(self.log().contents())
        if len(log_files(self.path)) > 1:
            for file in _survey(self.path, whole=False)[0][1:]:  # the first is the root's
                yield from charges(read_log(file))

    def losses(self) -> list[str]:
        """Return a sentence for each loss in its logs."""
        said = [
            f"The last run was killed while it wrote the log of {agent}: {torn} incomplete bytes were removed."
            for agent, torn in self._torn.items()
            if torn
        ]
        if any(self.log().contents().of("spawned", "returned")):
            for agent, problem in _survey(self.path)[1].items():
                said.append(f"The log of {agent} {problem}, so not all that it said and spent is known.")
        return said

    def close_begun(self, first: str) -> None:
        """Close the session. Remove it if nothing has happened since this entry, with which it began or was copied."""
        empty = self.log().head == first
        self.close()
        if empty:
            with suppress(OSError, SessionBusy, SessionNotFound):  # another process may have taken it over
                delete(self.path)
                for each in self._made[1:]:  # the first was that of the session
                    each.rmdir()

    def close(self) -> None:
        for log in tuple(self._logs.values()):
            log.close()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def _check_repaired(path: Path) -> None:
    """Refuse a session that an interrupted repair left with damaged logs. Raises SessionCorrupt."""
    if repaired(path):
        raise SessionCorrupt(f"{path}: its repair was interrupted. `sagent sessions repair {path}` finishes it.")


def repaired(path: Path) -> list[Path]:
    """Return the directories in which a repair has finished writing logs that are not yet in their places."""
    return [each for each in sorted(path.glob(f"{REPAIRED}2*")) if _REPAIRED.fullmatch(each.name)]


def is_session(path: Path) -> bool:
    return (path / "root.jsonl").is_file()


def is_damaged(path: Path) -> bool:
    """Return True for a directory with parts of a session but no log that can be opened, and for a file or broken link
    with a session's name."""
    if is_session(path):
        return False
    is_named = is_session_id(path.name)
    if not path.is_dir():
        return is_named and os.path.lexists(path)
    if os.path.lexists(path / "root.jsonl"):
        return True
    if _has_lock(path) and path.stat().st_mtime_ns > (path / "lock").stat().st_mtime_ns:
        return True  # something was removed since the lock was taken
    if not is_named and {entry.name for entry in _entries(path)} - {"lock", *(part.name for part in _parts(path))}:
        return False  # a directory of another name, with other things in it, is a person's own
    empty = is_named and any(part.is_dir() and not any(part.iterdir()) for part in _parts(path))
    return empty or any(own_files(path))


def _has_lock(path: Path) -> bool:
    """Return True for a directory in which a session's lock was taken."""
    with suppress(OSError):
        return read_regular(path / "lock", max_bytes=7, cut=True) == b'{"pid":'
    return False


def is_proven(path: Path) -> bool:
    """Return True for a session's directory by its name, by entries in its log, or by its lock beside those of children
    or no log."""
    if is_session_id(path.name):
        return True
    try:
        data = read_regular(path / "root.jsonl", max_bytes=1 << 16, cut=True)
    except OSError as error:
        return isinstance(error, FileNotFoundError) and _has_lock(path)
    below = not data or any(map(begins_log, log_files(path)[1:]))
    return _ENTRY.search(data) is not None or (below and _has_lock(path))


def _parts(path: Path) -> list[Path]:
    return [entry for entry in _entries(path) if _PART.fullmatch(entry.name)]


def own_files(path: Path) -> Iterator[Path]:
    """Yield the files that a session has made in its directory, and nothing that a person keeps there in directories of
    the same names: blobs go by their names, logs of children by how they begin. Raises OSError."""
    for part in _parts(path):
        if not stat.S_ISDIR(part.lstat().st_mode):
            if ".json" in part.name:
                yield part
        elif part.name in ("blobs", OUTPUTS):
            yield from (each for each in part.iterdir() if is_blob(each.name) and not each.is_dir())
        else:
            yield from (each for each in part.rglob("*.jsonl*") if begins_log(each))


def check_log(path: Path) -> None:
    """Refuse the remains of a session without its log. Raises SessionCorrupt, and SessionNotFound for another file in
    the place of a log."""
    if is_session(path) and not is_proven(path):
        raise SessionNotFound(f"no session at {path}: its root.jsonl is not a log of sagent")
    if is_damaged(path):
        raise SessionCorrupt(
            f"{path} is a session without its log: {_what_is_wrong(path / 'root.jsonl')}. Put the log back, or begin "
            "another session." + (f" `sagent sessions delete {path}` deletes what is left." if is_proven(path) else "")
        )


def find(state: Path, name: str, cwd: Path | None = None) -> Path:
    """Return a session by its path, its id, or a prefix of its id (preferring sessions of `cwd`). Raises
    SessionNotFound, and UsageError if several match."""
    path = Path(os.path.expanduser(name))  # noqa: PTH111 -- which leaves the home of nobody as it is
    path = path.parent if path.name == "root.jsonl" else path
    if name and (is_session(path) or is_damaged(path)):
        return path.absolute()
    fitting = [path for path in sessions(state) if name and path.name.startswith(name)]
    exact = [path for path in fitting if path.name == name]
    near = [path for path in fitting if cwd is not None and path.parent == sessions_of(state, cwd)]
    found = exact or near or fitting
    if not found:
        raise SessionNotFound(
            f"no session {name!r}: give a path, or the beginning of an id, as listed by `sagent sessions list`"
        )
    if len(found) > 1:
        newest = ", ".join(sorted((path.name for path in found), reverse=True)[:8])
        more = f" and {len(found) - 8} more" if len(found) > 8 else ""
        raise UsageError(f"{name!r} could be any of {newest}{more}: give more of the id")
    return found[0]


def latest(state: Path, cwd: Path, *, empty: bool = False) -> Path:
    """Return the session of a working directory that was written last and has a conversation, preferably one that no
    process holds; otherwise, if `empty` is acceptable, one without. Raises SessionNotFound. If a file's time is in the
    future, times cannot be trusted: then it is the session opened last."""
    found = [(_written_at(path), path.name, path) for path in sessions(state, cwd)]
    order = [path for _, _, path in sorted(found, reverse=True)]
    if found and max(found)[0] > time.time_ns():
        with suppress(OSError):
            opened = read_given(sessions_of(state, cwd) / LAST).decode(errors="replace")
            order.sort(key=lambda path: path.name != opened)
    talked = (path for path in order if _has_conversation(path))
    if (last := next(talked, None)) is not None:
        with suppress(OSError):
            return next((path for path in chain((last,), talked) if not in_use(path)), last)
        return last
    if order and empty:
        return order[0]
    raise SessionNotFound(f"no session of {cwd} yet; run without --continue to start one")


def mark_left(path: Path) -> None:
    """Make this the session that was written last: a person has just left it, and another may have ended meanwhile."""
    with suppress(OSError):
        os.utime(path / "root.jsonl")


def _has_conversation(path: Path) -> bool:
    """Return True if the session has a message, and no command alone held it, or is damaged: opening it reports the
    damage."""
    file = path / "root.jsonl"
    try:
        entries = read_log(file)
        if (first := next(entries, None)) is None:
            return has_lost_log(path)
        return any(entry.kind in ("message", "received") for entry in takewhile(_is_open, chain((first,), entries)))
    except (SessionCorrupt, OSError):
        return True


def _is_open(entry: Entry) -> bool:
    """Return False for the entry that says that a command alone holds the session."""
    return not (entry.kind == "label" and isinstance(label := entry.content, Label) and label.by)


def has_lost_log(path: Path) -> bool:
    """Return True for a session whose log has no complete entry although it once had. A log that was never written to
    has the session's creation time; an emptied one has a later time."""
    file = (path / "root.jsonl").stat()
    is_later = file.st_mtime_ns > path.stat().st_mtime_ns or file.st_mtime - _made_at(path) > MAX_BEGIN_SECONDS
    return file.st_size > 0 or is_later or (path / "root").is_dir() or any(path.glob("blobs/*"))


def _made_at(path: Path) -> float:
    """Return when a session was made, by its name; infinity if the name has no time."""
    with suppress(ValueError):
        return datetime.strptime(f"{path.name[:15]}Z", "%Y%m%d-%H%M%S%z").timestamp()
    return float("inf")


def _written_at(path: Path) -> int:
    file = path / "root.jsonl"
    return (file if os.path.lexists(file) else path).lstat().st_mtime_ns


def _what_is_wrong(file: Path) -> str:
    try:
        mode = os.stat(file).st_mode  # noqa: PTH116 -- beside lstat
    except FileNotFoundError:
        return f"{file.name} is missing"
    except OSError as error:
        return f"{file.name} cannot be opened: {error.strerror}"
    return f"{file.name} is {special_kind(mode)}"


def note_last(path: Path) -> None:
    """Record the session that was opened last in a working directory, in a file beside its sessions."""
    if path.parent.parent.name != "sessions":
        return  # at a place that somebody chose
    with suppress(OSError):  # no session fails for that
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path.parent / LAST, flags, 0o600), "wb") as file:
            file.write(path.name.encode())


def sessions(state: Path, cwd: Path | None = None) -> Iterator[Path]:
    """Return all sessions, damaged ones too, or those of a working directory, unordered. Raises OSError."""
    try:
        homes = filter(Path.is_dir, _entries(state / "sessions")) if cwd is None else (sessions_of(state, cwd),)
        found = [*chain.from_iterable(map(_entries, homes))]
    except OSError as error:
        raise unusable(error, state) from error
    return (each for each in found if not each.name.startswith(".") and (is_session(each) or is_damaged(each)))


def _entries(directory: Path) -> list[Path]:
    """Return the entries of a directory, none if it does not exist. Raises OSError if it cannot be listed."""
    try:
        return [*directory.iterdir()]
    except FileNotFoundError:
        if _dangling_link(directory):
            raise
    return []


def unusable(error: OSError, place: Path) -> OSError:
    """Return an error that says why sessions cannot be kept at a place, and what to do."""
    at = next(each for each in (place, *place.parents) if os.path.lexists(each) or not each.name)
    why, where = error.strerror or str(error), error.filename or place
    if not at.is_dir():
        link = f"a link to {at.readlink()}, which is no directory" if at.is_symlink() else ""
        why, where = f"it is {link or special_kind(at.stat().st_mode)}", at
    text = f"{why}. Free some space or fix the directory, or name another with SAGENT_STATE_DIR or --session"
    return OSError(error.errno, text, os.fspath(where))


def _dangling_link(path: Path) -> Path | None:
    """Return the link on the way to a path that leads nowhere."""
    return next((each for each in (path, *path.parents) if each.is_symlink() and not each.exists()), None)


def log_files(session: Path) -> list[Path]:
    """Return the logs of a session, the root's first, then its descendants'."""
    found = session.joinpath("root").rglob("*.jsonl")
    below = (file for file in found if is_agent(agent_of(session, file)) and file.is_file())
    return [session / "root.jsonl", *sorted(below)]


def named_logs(session: Path) -> list[Path]:
    """Return the logs of this session's agents: those that the root's log, or a named log itself, names as a child's,
    and that have all named entries and the signed one. Other files do not belong to it. Raises OSError."""
    files = log_files(session)
    return files if len(files) == 1 else _survey(session)[0]


def _survey(session: Path, *, whole: bool = True) -> tuple[list[Path], Mapping[str, str]]:
    """Return the named logs by agent, and the problems of those that lack named entries. If `whole` is False, truncated
    logs are among the first. Raises OSError."""
    from sagent.session.place import find_children, has_entries
    from sagent.session.statement import STATEMENT, read_statement

    files = {agent_of(session, file): file for file in log_files(session)}
    signed: Mapping[str, str] = {}
    with suppress(OSError, ValueError):  # `sagent verify` reports damaged ones
        signed = read_statement(read_given(session / STATEMENT)).heads
    found, waiting = {"root"}, ["root"]
    lost: dict[str, str] = {}
    while waiting:
        for child, entries in find_children(files[waiting.pop()]).items():
            named = entries | {signed[child]} if child in signed else entries
            if child in found:
                continue
            if child not in files:
                lost[child] = "is missing"
                continue
            if not has_entries(files[child], named):
                begun = first_id(files[child]) in named
                lost[child] = "lacks its end" if begun else "is not the one that was begun"
                if whole or not begun:
                    continue
            found.add(child)
            waiting.append(child)
    return [file for agent, file in files.items() if agent in found], lost


def copy(source: Path, state: Path, cwd: Path, entry: str = "") -> Path:
    """Return a new session with everything that another holds, which may be in use; with `entry`, or the beginning of
    its id, it continues from there. Later entries are in the copy too, as a branch. Raises SessionNotFound,
    SessionCorrupt, UsageError for an entry that does not exist or a newer format, and OSError."""
    import shutil

    check_log(source)
    if not is_session(source):
        raise SessionNotFound(f"no session at {source}")
    _check_repaired(source)
    check_version(source, "fork it")
    for _ in read_log(source / "root.jsonl"):
        pass  # a copy of a damaged session cannot be continued
    home = sessions_of(state, cwd)
    make_directory(home)
    sweep_copies(home)
    draft = home / f"{COPY}{new_session_id()}"
    made = draft / new_session_id()
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, draft, ignore_errors=True)
        made.mkdir(mode=0o700, parents=True)
        undo.enter_context(closing(_take_lock(draft)))
        for file in log_files(source):  # before the blobs, so that all named ones exist
            target = made / file.relative_to(source)
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copyfile(file, target)
            target.chmod(0o600)
        unfinished = shutil.ignore_patterns("scratch-*")
        for name in ("blobs", OUTPUTS):
            if (source / name).is_dir():
                shutil.copytree(source / name, made / name, ignore=unfinished, copy_function=link)
        if entry:
            with Session.open(made) as session:
                log = session.log()
                fitting = {found.id for found in log.entries() if found.id.startswith(entry)}
                if len(fitting) != 1:
                    many = "several entries begin" if fitting else "no entry begins"
                    raise UsageError(f"{many} with {entry!r} in {source.name}")
                log.fork(fitting.pop())
        path = made.rename(home / made.name)  # from here on it is a session, and whole
    note_last(path)
    return path


def sweep_copies(home: Path) -> None:
    """Remove what processes left that were killed while copying."""
    import shutil

    for left in home.glob(f"{COPY}*"):
        if not is_session_id(left.name.removeprefix(COPY)):
            continue
        with suppress(SessionBusy, SessionNotFound, OSError):
            if not (left / "lock").exists() and left.stat().st_mtime > time.time() - _BEGUN_SECONDS:
                continue  # another process may be about to take its lock
            with closing(_take_lock(left)):
                shutil.rmtree(left)


def delete(path: Path) -> Sequence[Path]:
    """Delete a session, or what is left of one: its logs, blobs and lock, its signatures, and its directory if nothing
    else is in it. Returns what else is, and stays. Raises SessionBusy if it is in use, SessionNotFound if it is not a
    session, and OSError."""
    if not ((is_session(path) or is_damaged(path)) and is_proven(path)):
        raise SessionNotFound(f"no session at {path}")
    if not path.is_dir():
        path.unlink()
        return ()
    with closing(_take_lock(path)):
        for file in tuple(own_files(path)):
            file.unlink()
        for above, _, _ in chain.from_iterable(os.walk(part, topdown=False) for part in _parts(path)):
            with suppress(OSError):
                Path(above).rmdir()  # of those that are empty
        path.joinpath("lock").unlink()
    if not (left := sorted(path.iterdir())):
        path.rmdir()
    return left


def check_version(path: Path, purpose: str) -> None:
    """Refuse a session that only a newer sagent can read. Raises UsageError."""
    first = next(iter(read_log(path / "root.jsonl")), None)
    if first is None and has_lost_log(path):
        raise SessionCorrupt(
            f"{path}: its log has no whole entry, so its conversation cannot be read. Put the log back, or start "
            "another session."
        )
    version = origin([first] if first else ()).version
    if version > VERSION:
        raise UsageError(
            f"session {path.name} was written by a newer sagent (format {version}, this one reads up to {VERSION}): "
            f"update sagent to {purpose}"
        )


def _take_lock(path: Path) -> "Lock":
    """Lock a session's directory for this process, as `Lock` says."""
    from sagent.session.lock import Lock  # an unsaved session needs none

    return Lock(path)
