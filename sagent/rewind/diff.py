"""The changes that a command made: compare two snapshots of a directory, and keep the contents of what differs."""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from sagent.lib.dataclass import dataclass
from sagent.rewind.birth import born
from sagent.rewind.snapshot import (
    MAX_FILE_BYTES,
    MAX_HELD_BYTES,
    NO_CONTENT,
    OTHER_FORM,
    SETTLED_NS,
    TOO_MUCH,
    FileState,
    Keep,
    Stop,
    TreeSnapshot,
    read_file_state,
    read_state,
)
from sagent.session.touches import ABSENT, DIRECTORY, Omission, Snapshot, Touch, unknown

MAX_NAMED = 20  # of one command
MOVED_HERE = "it existed before in a place that is not covered, and was moved here"
NOT_LOOKED_AT = "it may have existed before in a place that is not covered (ignored by git, for example)"


@dataclass(slots=True)
class Difference:
    """Differences between two snapshots. `states` are the changed files as they are now, None for deleted ones."""

    files: list[Touch] = field(default_factory=list[Touch])
    made: list[str] = field(default_factory=list[str])
    gone: list[str] = field(default_factory=list[str])
    omitted: list[Omission] = field(default_factory=list[Omission])
    states: dict[bytes, FileState | None] = field(default_factory=dict[bytes, FileState | None])


def compare(before: TreeSnapshot, after: TreeSnapshot, skip: frozenset[bytes], keep: Keep, stop: Stop) -> Difference:
    """Compare two snapshots, without the files in `skip`, which another call records. Raises StoppedError, OSError."""
    found = Difference()
    _compare_files(before, after, [path for path in _suspects(before, after) if path not in skip], keep, stop, found)
    _compare_directories(before, after, found)
    if len(found.omitted) > MAX_NAMED:
        more = Omission(os.fsdecode(after.root), f"{len(found.omitted) - MAX_NAMED} more files in it are not covered")
        found.omitted[MAX_NAMED:] = [more]
    return found


def compare_files(before: TreeSnapshot, paths: Sequence[bytes], keep: Keep, stop: Stop) -> Difference:
    """Compare some files with a snapshot. Raises StoppedError and OSError."""
    states = {path: state for path in paths if (state := read_file_state(path)) is not None}
    after = TreeSnapshot(before.root, before.started, files=states)
    found = Difference()
    suspects = [
        path
        for path in paths
        if (old := before.files.get(path)) is None
        or path not in states
        or old.signature != states[path].signature
        or not old.settled
    ]
    _compare_files(before, after, suspects, keep, stop, found)
    return found


def _compare_files(
    before: TreeSnapshot, after: TreeSnapshot, suspects: Sequence[bytes], keep: Keep, stop: Stop, difference: Difference
) -> None:
    contents = _from_git(before, suspects, stop)
    inodes: set[int] = set()  # of the earlier files, computed on demand
    kept = 0
    for path in sorted(suspects):
        stop.check()
        old, new = before.files.get(path), after.files.get(path)
        room = kept + (old.size if old else 0) + (new.size if new else 0) <= MAX_HELD_BYTES
        first = _before(before, path, contents, keep) if room else unknown(TOO_MUCH)
        if first is None:
            continue
        if first == ABSENT and new is not None and _is_older(before, path, new, inodes):
            first = unknown(MOVED_HERE)
        last = _after(path, new, keep) if room else unknown(TOO_MUCH)
        if first == last and first.kind != "unknown":
            continue
        kept += (old.size if old else 0) + (new.size if new else 0)
        difference.states[path] = new
        if why := first.why or last.why:
            difference.omitted.append(Omission(os.fsdecode(path), why))
        difference.files.append(Touch(os.fsdecode(path), first, last))


def _is_older(before: TreeSnapshot, path: bytes, new: FileState, inodes: set[int]) -> bool:
    """Return True if a new file existed before in an unread place, so that deleting it would lose it. A file with
    another name is not lost."""
    made = born(path) if new.links == 1 else None
    if made is None or made >= before.started - SETTLED_NS:
        return False
    if not inodes:
        inodes.update(state.inode for state in before.files.values())
    return new.inode not in inodes


def _suspects(before: TreeSnapshot, after: TreeSnapshot) -> Iterator[bytes]:
    """Files that may have changed."""
    for path, old in before.files.items():
        new = after.files.get(path)
        if new is old:
            continue
        if new is None and path in before.reported and os.path.lexists(path):
            continue  # it is not covered
        if new is None or new.signature != old.signature or not (old.settled or _is_same(old, new)):
            yield path
    for path, new in after.files.items():
        if path not in before.files:
            there = before.was_there(path)
            if there is False or max(new.signature[:2]) >= before.started - SETTLED_NS:
                yield path


def _is_same(old: FileState, new: FileState) -> bool:
    """Return True if two files have the same content although their times differ."""
    return (old.data is not None and old.data == new.data) or (old.oid != "" and old.oid == new.oid)


def _before(before: TreeSnapshot, path: bytes, contents: Mapping[bytes, bytes | str], keep: Keep) -> Snapshot | None:
    """Return the state of a path in a snapshot; None if this command is not concerned with it."""
    state = before.files.get(path)
    if state is None:
        if before.was_there(path) is False:
            return ABSENT
        above, _, name = path.rpartition(b"/")
        listing = before.listings.get(above)
        return DIRECTORY if listing is not None and name in listing.below else unknown(NOT_LOOKED_AT)
    if state.why:
        return unknown(state.why)
    data = state.data if state.data is not None else contents.get(path, NO_CONTENT)
    return unknown(data) if isinstance(data, str) else _snapshot(state.mode, data, keep)


def _after(path: bytes, state: FileState | None, keep: Keep) -> Snapshot:
    if state is None or state.data is None:
        return unknown(state.why) if state is not None and state.why else read_state(path, keep, MAX_FILE_BYTES)
    return _snapshot(state.mode, state.data, keep)


def _snapshot(mode: int, data: bytes, keep: Keep) -> Snapshot:
    if stat.S_ISLNK(mode):
        return Snapshot("link", target=os.fsdecode(data))
    return Snapshot("file", keep(data), stat.S_IMODE(mode))


def _compare_directories(before: TreeSnapshot, after: TreeSnapshot, difference: Difference) -> None:
    holding = {path for touch in difference.files for path in _above(os.fsencode(touch.path), after.root)}
    # a directory with uncovered files is left to its maker
    for path, listing in after.listings.items():
        counts = path in holding or listing.names == listing.below
        if counts and path not in before.listings and before.was_there(path) is False:
            difference.made.append(os.fsdecode(path))
    for path in before.listings.keys() - after.listings.keys():
        listing = before.listings[path]
        counts = path in holding or listing.names == listing.below
        if counts and read_state(path, lambda _: "", -1).kind != "directory":
            difference.gone.append(os.fsdecode(path))
    difference.made.sort()
    difference.gone.sort()


def _above(path: bytes, root: bytes) -> Iterator[bytes]:
    while len(path := path.rpartition(b"/")[0]) > len(root):
        yield path


# -- contents that git has ---------------------------------------------------------------------------------------------


def _from_git(before: TreeSnapshot, suspects: Sequence[bytes], stop: Stop) -> Mapping[bytes, bytes | str]:
    """Return the contents of files from git, or why git does not have them."""
    wanted: dict[bytes, FileState] = {}
    size = 0
    for path in suspects:
        state = before.files.get(path)
        if state is not None and state.oid and state.data is None and size + state.size <= MAX_HELD_BYTES:
            wanted[path] = state
            size += state.size
    if not wanted:
        return {}
    names = dict.fromkeys(state.oid for state in wanted.values())
    out = stop.git(before.root, "cat-file", "--batch", data="".join(f"{name}\n" for name in names).encode())
    objects = _objects(out or b"")
    filtered = _filtered(before.root, wanted, stop)
    found: dict[bytes, bytes | str] = {}
    for path, state in wanted.items():
        data = objects.get(state.oid)
        if data is None:
            found[path] = NO_CONTENT
        elif filtered is None or path in filtered:
            found[path] = OTHER_FORM
        elif len(data) == state.size:
            found[path] = data
        else:  # line ends are the only thing that git changes itself
            ended = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
            found[path] = ended if len(ended) == state.size else OTHER_FORM
    return found


def _objects(out: bytes) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    place = 0
    while (end := out.find(b"\n", place)) >= 0:
        words = out[place:end].split(b" ")
        place = end + 1
        if len(words) == 3 and words[1] == b"blob":
            size = int(words[2])
            found[words[0].decode()] = out[place : place + size]
            place += size + 1
        elif len(words) == 3:
            place += int(words[2]) + 1
    return found


def _filtered(root: bytes, paths: Mapping[bytes, FileState], stop: Stop) -> set[bytes] | None:
    """Return the files that git does not keep as they lie on the disk, line ends aside; None if git does not say."""
    base = len(root.rstrip(b"/")) + 1
    names = b"".join(path[base:] + b"\0" for path in paths)
    attributes = ("filter", "working-tree-encoding", "ident")
    out = stop.git(root, "check-attr", "-z", "--stdin", *attributes, data=names)
    if out is None:
        return None
    fields = out.split(b"\0")
    rows = zip(fields[0::3], fields[1::3], fields[2::3], strict=False)
    return {root.rstrip(b"/") + b"/" + name for name, _, value in rows if value not in (b"unspecified", b"unset")}
