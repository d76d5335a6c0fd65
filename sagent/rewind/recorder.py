"""The recorder of changes to files, run around each call that may make some.

A call that names the files it writes is compared in these files. Any other call is compared in the whole working tree
when it has ended. Blobs of the session keep the states before and after.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from sagent.lib.dataclass import dataclass
from sagent.lib.json import sha256_hex
from sagent.messages import ToolCall
from sagent.rewind.diff import Difference, compare, compare_files
from sagent.rewind.snapshot import (
    FileState,
    Keep,
    Listing,
    Stop,
    TreeSnapshot,
    read_file_state,
    read_state,
    take_snapshot,
)
from sagent.rewind.watch import Watch
from sagent.session.contents import Content
from sagent.session.log import Log
from sagent.session.touches import NOT_SEEN, Omission, Snapshot, Touch, Touched, unknown
from sagent.tool import Effect, Workspace

T = TypeVar("T")

MAX_NAMED_BYTES = 8 << 20  # of a file that a call named
LAST_LOOK_SECONDS = 0.5  # for a cancelled call to find its changes
LAST_STEP_SECONDS = 0.3  # that work in a thread has to stop
CUT_OFF = "the call was cancelled before its changes were known"
LET_GO = "the command was detached and continued by itself"


class Journal(Protocol):
    """An agent's log, as far as the recorder needs it."""

    @property
    def log(self) -> Log: ...  # its session keeps the contents

    @property
    def lost(self) -> bool: ...  # whether logging has stopped

    def record(self, content: Content) -> str:
        """Append to the log; return the entry's id, "" if that failed."""
        ...


class Recorder(Protocol):
    """The agent that makes a call: its directories, and the log for its changes."""

    @property
    def workspace(self) -> Workspace: ...

    @property
    def journal(self) -> Journal: ...

    def is_detached(self) -> bool:
        """Return True if the call that this task makes outlives the process."""
        ...


@dataclass(slots=True, eq=False)
class _RunningCall:
    """A running call. `trees`, by directory, is updated when other calls change files."""

    recorder: Recorder
    call: ToolCall
    trees: dict[bytes, TreeSnapshot] = field(default_factory=dict[bytes, TreeSnapshot])
    named: dict[str, Snapshot] = field(default_factory=dict[str, Snapshot])
    missing: tuple[str, ...] = ()  # directories above its files that did not exist
    omitted: tuple[Omission, ...] = ()
    beside: dict[str, None] = field(default_factory=dict[str, None])

    @property
    def keep(self) -> Keep:
        blobs = self.recorder.journal.log.blobs
        return lambda data: blobs.put(data).name


class Checkpoints:
    """The checkpoints of all agents of a tree. Without `looks_around` only files that calls name are covered."""

    def __init__(self, *, looks_around: bool) -> None:
        self._looks_around = looks_around
        self._last: dict[bytes, TreeSnapshot] = {}
        self._watches: dict[bytes, Watch] = {}
        self._refused: dict[bytes, str] = {}  # directories that are not read again, with the reason
        self._marks: list[_RunningCall] = []
        self._turn = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def turn(self) -> asyncio.Lock:
        """The lock held while files are read, or changed by a rewind."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # an agent may use several loops in turn
            self._turn, self._loop = asyncio.Lock(), loop
        return self._turn

    def close(self) -> None:
        """Stop watching directories, because a system allows each user few watches. The next look starts anew."""
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()

    async def around(self, recorder: Recorder, call: ToolCall, effect: Effect, work: Callable[[], Awaitable[T]]) -> T:
        """Run a call that may change files, and record its changes. Errors here are logged and do not disturb it."""
        named = effect.kind == "write" and bool(effect.paths)
        if not (named or self._looks_around) or recorder.journal.lost:
            return await work()
        if not named and effect.command and only_looks(effect.command):
            return await work()
        mark = await self._begin(recorder, call, _named(effect) if named else ())
        seconds = None
        try:
            return await work()
        except asyncio.CancelledError:
            seconds = LAST_LOOK_SECONDS
            raise
        finally:
            await self._end(mark, seconds)

    async def _begin(self, recorder: Recorder, call: ToolCall, paths: Sequence[str]) -> _RunningCall:
        mark = _RunningCall(recorder, call)
        async with self.turn:
            try:
                await self._book_named(mark)
                if paths:
                    mark.named, mark.missing = await in_thread(lambda _: _read_named(paths, mark.keep))
                    await self._book_files(mark)
                else:
                    await self._take_snapshots(mark)
                    await self._book_trees(mark)
            except Exception as error:  # a checkpoint may not hinder a call
                mark.omitted += (Omission(str(recorder.workspace.cwd), f"{type(error).__name__}: {error}"),)
            if mark.named or mark.trees:
                recorder.journal.record(_begun(mark))
            for other in self._marks if mark.trees else ():
                if other.trees:
                    mark.beside[other.call.id] = other.beside[call.id] = None
            self._marks.append(mark)
        return mark

    async def _take_snapshots(self, mark: _RunningCall) -> None:
        skip = _own_places(mark.recorder)
        for root in sorted({os.fsencode(os.path.realpath(root)) for root in mark.recorder.workspace.roots}):
            if any(_holds(tree, root) for tree in mark.trees.values()):
                continue
            found: TreeSnapshot | str
            if root in self._refused:
                found = self._refused[root]
            else:
                try:
                    found = await self._look(root, skip, relist=False)
                except OSError as error:
                    found = f"it cannot be read: {error.strerror or error}"
            if not isinstance(found, str) and found.why:  # the next attempt would fail as well
                found = self._refused[root] = found.why
            if isinstance(found, str):
                mark.omitted += (Omission(os.fsdecode(root), found),)
            elif all(tree.root != found.root for tree in mark.trees.values()):
                mark.trees[root] = _copy(found)

    async def _look(self, root: bytes, skip: tuple[bytes, ...], *, relist: bool) -> TreeSnapshot:
        """Return a current snapshot of a directory; only possible changes are read. Raises StoppedError and OSError."""
        if (watch := self._watches.get(root)) is None:
            watch = self._watches[root] = Watch(root)
        last, changed = self._last.get(root), watch.changed()
        look = partial(take_snapshot, root, last, skip, relist=relist, changed=changed, watched=watch.works)
        try:
            found = await in_thread(look)
        except BaseException:
            watch.missed()
            raise
        if found.why:
            watch.missed()
        else:
            self._last[root] = found
            watch.follow(found.listings)
        return found

    async def _book_trees(self, mark: _RunningCall) -> None:
        """Log the changes of running calls before this one begins; otherwise they would count as its own."""
        named = self._paths_named()
        looked = dict(mark.trees)
        for other in [each for each in self._marks if each.trees]:
            for root, before in tuple(other.trees.items()):
                if (now := looked.get(root)) is None:
                    now = looked[root] = await self._look(root, _own_places(other.recorder), relist=False)
                if now.why:
                    continue
                found = await in_thread(partial(compare, before, now, named, other.keep))
                other.trees[root] = _copy(now)
                self._book(other, found)

    async def _book_named(self, mark: _RunningCall) -> None:
        """Log the present state of files that running calls name and are responsible for, so that any state this call
        finds is in the log at its begin and end."""
        for other in [each for each in self._marks if each.named and each is not mark]:
            files, made, states = await in_thread(lambda _, other=other: _read_again(other))
            if files:
                other.recorder.journal.record(replace(_ended(other), files=files, made=made))
                self._pass_on(other, files, made, states)
                other.named |= {touch.path: touch.after for touch in files}
                other.missing = tuple(path for path in other.missing if path not in made)
                other.recorder.journal.record(_begun(other))

    def _pass_on(
        self, mark: _RunningCall, files: Sequence[Touch], new: Sequence[str], states: Mapping[bytes, FileState | None]
    ) -> None:
        """Tell the other calls which changes a call that names files has made."""
        self.report(mark, states, new, ())
        for touch in files:  # no other call that names the file has written this
            for other in self._marks:
                if other is not mark and touch.path in other.named and touch.after.kind != "unknown":
                    other.named[touch.path] = touch.after

    async def _book_files(self, mark: _RunningCall) -> None:
        """Record changes to this call's files for the other running calls."""
        paths = frozenset(map(os.fsencode, mark.named)) - self._paths_named()
        for other in [each for each in self._marks if each.trees]:
            for before in other.trees.values():
                inside = [path for path in filter(_below(before.root), paths) if before.was_there(path) is not None]
                found = await in_thread(partial(compare_files, before, inside, other.keep))
                self._book(other, found, every=True)

    def _book(self, mark: _RunningCall, difference: Difference, *, every: bool = False) -> None:
        """Log a call's changes so far, marked as unfinished."""
        if difference.files or difference.made or difference.gone:
            so_far = _with_difference(replace(_ended(mark), omitted=()), difference)
            mark.recorder.journal.record(so_far)
            mark.recorder.journal.record(_begun(mark))
            self.report(None if every else mark, difference.states, difference.made, difference.gone)

    def _paths_named(self) -> frozenset[bytes]:
        return frozenset(os.fsencode(path) for mark in self._marks for path in mark.named)

    async def _end(self, mark: _RunningCall, seconds: float | None) -> None:
        """Record a call's changes to files; if it was cancelled, within a short time."""
        what = _not_known(mark, CUT_OFF)
        try:
            async with asyncio.timeout(seconds), self.turn:
                await self._book_named(mark)
                what = await (self._named(mark) if mark.named else self._unnamed(mark))
        except TimeoutError:
            pass
        except Exception as error:  # a checkpoint may not hinder a call
            what = _not_known(mark, f"{type(error).__name__}: {error}")
        finally:
            self._marks.remove(mark)
            if what.files or what.omitted or mark.named or mark.trees:
                mark.recorder.journal.record(what)

    async def _named(self, mark: _RunningCall) -> Touched:
        """Return what became of the files that a call named."""
        files, made, states = await in_thread(lambda _: _read_again(mark))
        self._pass_on(mark, files, made, states)
        omitted = tuple(Omission(touch.path, why) for touch in files if (why := touch.before.why or touch.after.why))
        return replace(_ended(mark), files=files, made=made, omitted=(*mark.omitted, *omitted))

    async def _unnamed(self, mark: _RunningCall) -> Touched:
        """Return the differences in the directories of a call."""
        what = _ended(mark)
        skip = _own_places(mark.recorder)
        others = self._paths_named()

        for root, before in mark.trees.items():
            after = await self._look(root, skip, relist=True)
            if after.why:
                self._refused[root] = after.why
                what = replace(what, omitted=(*what.omitted, Omission(os.fsdecode(root), after.why)))
                continue
            found = await in_thread(partial(compare, before, after, others, mark.keep))
            self.report(mark, found.states, found.made, found.gone)
            what = _with_difference(what, found)
        if mark.recorder.is_detached():
            what = replace(what, omitted=(*what.omitted, *(Omission(os.fsdecode(root), LET_GO) for root in mark.trees)))
        return what

    def report(
        self,
        mark: "_RunningCall | None",
        states: Mapping[bytes, FileState | None],
        directories: Iterable[str],
        gone: Iterable[str],
    ) -> None:
        """Tell other running calls of changes that are not theirs."""
        for tree in (tree for other in self._marks if other is not mark for tree in other.trees.values()):
            inside = _below(tree.root)
            for path, state in states.items():
                if not inside(path):
                    continue
                if state is not None:
                    if path not in tree.files:
                        tree.reported.add(path)
                    tree.files[path] = state
                else:
                    tree.files.pop(path, None)
                    _forget(tree, path)
            for path in filter(inside, map(os.fsencode, directories)):
                tree.listings.setdefault(path, Listing((), settled=False, names=frozenset(), below=frozenset()))
            for path in map(os.fsencode, gone):
                tree.listings.pop(path, None)
                _forget(tree, path)


def only_looks(command: str) -> bool:
    """Return True if a command line certainly changes no file."""
    from sagent.policy import harmless
    from sagent.policy.shell import split, unwrap

    script = split(command)
    if script.doubt or not script.parts:
        return False
    for part in script.parts:
        words = unwrap(part.words)
        writes = any(redirect.writes and redirect.target.text != "/dev/null" for redirect in part.redirects)
        assigns = any(word.is_assignment for word in part.words[: len(part.words) - len(words)])
        if writes or assigns or not words:
            return False
        if not part.is_read and words[0].raw != "cd" and not harmless.only_looks(words):
            return False
    return True


async def in_thread(work: Callable[[Stop], T]) -> T:
    """Run a function in a thread; stop it when its caller is cancelled."""
    stop = Stop()
    task = asyncio.ensure_future(asyncio.to_thread(work, stop))
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([task], timeout=LAST_STEP_SECONDS)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # no one is left to receive its error
        raise
    return task.result()


def _own_places(recorder: Recorder) -> tuple[bytes, ...]:
    """Return the directories of the session itself."""
    return (os.fsencode(os.path.realpath(recorder.journal.log.path or recorder.journal.log.blobs.scratch().parent)),)


def _below(root: bytes) -> Callable[[bytes], bool]:
    inside = root.rstrip(b"/") + b"/"
    return lambda path: path.startswith(inside)


def _holds(tree: TreeSnapshot, root: bytes) -> bool:
    """Return True if the snapshot of another directory covers one; git decides in a work tree without files."""
    return root == tree.root or any(map(_below(root), tree.files)) or (not tree.git and root in tree.listings)


def _begun(mark: _RunningCall) -> Touched:
    """Return a running call, with the present state as its beginning."""
    files = tuple(Touch(path, before, unknown(NOT_SEEN)) for path, before in mark.named.items())
    return Touched(mark.call.id, mark.call.name, ended=False, files=files, trees=tuple(map(os.fsdecode, mark.trees)))


def _ended(mark: _RunningCall) -> Touched:
    trees = tuple(map(os.fsdecode, mark.trees))
    what = Touched(mark.call.id, mark.call.name, ended=True, omitted=mark.omitted, trees=trees)
    return replace(what, beside=tuple(mark.beside))


def _with_difference(touched: Touched, difference: Difference) -> Touched:
    return replace(
        touched,
        files=(*touched.files, *difference.files),
        made=(*touched.made, *difference.made),
        gone=(*touched.gone, *difference.gone),
        omitted=(*touched.omitted, *difference.omitted),
    )


def _copy(tree: TreeSnapshot) -> TreeSnapshot:
    """Copy a snapshot for one call to update."""
    return replace(tree, files=dict(tree.files), listings=dict(tree.listings), reported=set())


def _not_known(mark: _RunningCall, reason: str) -> Touched:
    """Return a call with unknown changes."""
    files = tuple(Touch(path, before, unknown(reason)) for path, before in mark.named.items())
    trees = (Omission(os.fsdecode(root), reason) for root in mark.trees)
    return replace(_ended(mark), files=files, omitted=(*mark.omitted, *trees))


def _named(effect: Effect) -> Sequence[str]:
    """Return the paths that a call changes, through links too; the exact path that was judged, if known."""
    if effect.real is not None:
        return (str(effect.real),)
    return tuple(dict.fromkeys(each for path in effect.paths for each in (_real(path), os.path.realpath(path))))


def _read_named(paths: Iterable[str], keep: Keep) -> tuple[dict[str, Snapshot], tuple[str, ...]]:
    """Read the state of a call's named paths; also return the directories that do not exist yet."""
    found: dict[str, Snapshot] = {}
    missing: dict[str, None] = {}
    for path in paths:
        found[path] = read_state(os.fsencode(path), keep, MAX_NAMED_BYTES)
        above = os.path.dirname(path)  # noqa: PTH120 -- paths are texts here
        while above and not os.path.lexists(above):
            missing[above] = None
            above = os.path.dirname(above)  # noqa: PTH120
    return found, tuple(sorted(missing))


def _real(path: Path) -> str:
    """Return a path with links resolved in all but its last part."""
    return os.path.join(os.path.realpath(path.parent), path.name)  # noqa: PTH118


def _read_again(mark: _RunningCall) -> tuple[tuple[Touch, ...], tuple[str, ...], dict[bytes, FileState | None]]:
    files: list[Touch] = []
    states: dict[bytes, FileState | None] = {}
    for path, before in mark.named.items():
        name = os.fsencode(path)
        after = read_state(name, mark.keep, MAX_NAMED_BYTES)
        if after != before or after.kind == "unknown":
            files.append(Touch(path, before, after))
            states[name] = read_file_state(name)
    made = tuple(path for path in mark.missing if os.path.isdir(path))  # noqa: PTH112
    return tuple(files), made, states


def _forget(tree: TreeSnapshot, path: bytes) -> None:
    """Remove a path from a snapshot, as if it had never existed."""
    above, _, name = path.rpartition(b"/")
    if (listing := tree.listings.get(above)) is not None:
        tree.listings[above] = listing._replace(names=listing.names - {name}, below=listing.below - {name})


def read_snapshot(path: str) -> Snapshot:
    """Return the state of a path as touches record it, without keeping its content."""
    return read_state(os.fsencode(path), sha256_hex, MAX_NAMED_BYTES)
