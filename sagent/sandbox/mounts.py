"""The host's files in a box, as the arguments of bubblewrap that mount them."""

import contextlib
import functools
import glob
import hashlib
import os
import stat
import sys
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from sagent.lib.git import without_work_tree
from sagent.lib.regular import identity
from sagent.sandbox.places import listening
from sagent.sandbox.profile import Profile, is_below
from sagent.sandbox.scratch import PREFIX

TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 -- a box has its own there
INSIDE = "/run/sagent"  # the proxy socket's directory in a box
GATE = f"{INSIDE}-gate"  # the program that filters commands' system calls
_MAX_SHOWN = 20  # entries of the host's /tmp that can be read in a box

# A read-only mount does not prevent connections to sockets in /run (Docker, D-Bus, key agents), so it is left out.
_SYSTEM = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run")
_MAX_SHM_BYTES = 1 << 30  # bytes of /dev/shm, which no process limit counts
# Paths that root could write in any namespace, or where it could read kernel memory and keys.
_KERNEL_READ_ONLY = (
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
    "/proc/acpi",
    "/proc/scsi",
)
_KERNEL_HIDDEN = ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/latency_stats", "/proc/sched_debug")
_KEPT_OF_RUN = ("/run/current-system", "/run/wrappers", "/run/opengl-driver")  # NixOS keeps its programs there
_DEVICES = ("/dev/nvidia*", "/dev/dri", "/dev/kfd")


class Mounts:
    """The mounts of a session's boxes. `scratch` holds their /tmp directories."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._seen: set[str] = set()  # of the host's temporary files
        plain = (place for place in TEMPORARY if Path(place).is_dir() and not Path(place).is_symlink())
        self.private = {place: scratch / place.strip("/").replace("/", "-") for place in plain}
        for directory in self.private.values():
            directory.mkdir(mode=0o700, exist_ok=True)
        self._proxy = scratch / "proxy"
        self._proxy.mkdir(mode=0o700, exist_ok=True)
        self._empty = scratch / "empty"  # stands in for hidden files
        self._empty.touch(0o444)

    def look(self, profile: Profile) -> tuple[tuple[str, ...], Hashable]:
        """Return the current mounts of a profile, and a key that changes if they have to be made anew."""
        sockets = sorted(listening(()))
        mounts = tuple(self._mounts(profile, sockets))
        files = tuple(identity(mount) for mount in mounts if mount.startswith("/"))  # replaced, they lose their mounts
        return mounts, (mounts, files, tuple(path for path in sockets if is_below(path, self._seen)))

    def base(self, opened: set[int]) -> Iterator[str]:
        """Yield the arguments that every box has: the readable file system, and its own devices, processes and
        temporary files."""
        yield from _SYSTEM
        for place in filter(_exists, _KERNEL_READ_ONLY):
            yield from ("--ro-bind", place, place)
        for place in filter(_exists, _KERNEL_HIDDEN):
            yield from ("--ro-bind", "/dev/null", place)
        for place in filter(_exists, _KEPT_OF_RUN):
            yield from ("--ro-bind", place, place)
        yield from ("--ro-bind", str(self._proxy), INSIDE)
        if program := gate():
            opened.add(file := os.memfd_create("gate"))
            os.write(file, program)
            os.lseek(file, 0, os.SEEK_SET)
            yield from ("--perms", "0555", "--file", str(file), GATE)
        for device in chain.from_iterable(map(glob.iglob, _DEVICES)):
            yield from ("--dev-bind", device, device)
        for place, directory in self.private.items():
            yield from ("--bind", str(directory), place, "--bind", str(directory), str(directory))
            for entry in _shown(place):
                self._seen.add(entry)
                if _fits(entry, directory / entry.removeprefix(f"{place}/")):
                    yield from ("--ro-bind-try", entry, entry)  # they come and go
        # Memory that no limit counts, and settings that a command must not change for later ones.
        yield from ("--size", str(_MAX_SHM_BYTES), "--perms", "1777", "--tmpfs", "/dev/shm")  # noqa: S108 -- its own
        yield from ("--remount-ro", "/dev", "--remount-ro", "/run")

    def _mounts(self, profile: Profile, sockets: Sequence[str]) -> Iterator[str]:
        """Yield the mounts of the host's files, shallow ones first, because later mounts cover earlier ones."""
        others = [each for place in filter(profile.can_write, TEMPORARY) for each in _holding(place, sockets)]
        if profile.can_write(str(self._scratch)):  # all of /tmp is the workspace, say
            others += map(str, sorted(self._scratch.parent.glob(f"{PREFIX}*/")))
        real = _really(filter(_exists, profile.hidden), profile.writable)
        profile = replace(profile, hidden=(*profile.hidden, *real, *others))
        kept = filter(_exists, profile.protected)
        protected = [os.path.realpath(place) for place in kept if not Path(place).is_symlink()]
        # so that no command renames one with its mounts and makes a new one
        parents = filter(profile.can_write, {str(parent) for place in protected for parent in Path(place).parents})
        candidates = filter(_exists, {*profile.writable, *parents, *protected, *profile.exposed})  # most are not
        mounted = [place for place in candidates if profile.can_read(place)]
        writable = [place for place in mounted if profile.can_write(place)]
        covered = Profile(writable=(*writable, *profile.hidden, *self.private))  # those paths are mounted anew
        shown = [*writable, *filter(covered.can_write, mounted)]
        candidates = (place for place in (*real, *others) if _exists(place) and not is_below(place, ["/run"]))
        hidden = [place for place in candidates if not profile.can_read(place)]
        emptied, sources = list[str](), dict(profile.shown)
        for place in sorted({*shown, *hidden} - {"/"}, key=lambda place: (len(place), place)):
            if not _exists(place):
                continue
            if profile.can_read(place):
                if os.path.realpath(place) != place:
                    continue  # a command's links must not expose files
                source = sources.get(place) or self._source(place)
                yield from ("--bind" if profile.can_write(place) else "--ro-bind", source, place)
            elif Path(place).is_dir():
                emptied.append(place)
                yield from ("--perms", "0555", "--tmpfs", place)
            else:
                yield from ("--ro-bind", str(self._empty), place)
        for place in emptied:
            yield from ("--remount-ro", place)
        needed = _needed(self.private)
        for place in sockets:
            others = not is_below(place, (*profile.writable, *profile.exposed)) and profile.can_read(place)
            if others and is_below(place, needed):
                yield from ("--ro-bind", str(self._empty), place)

    def _source(self, place: str) -> str:
        """Return the path to show at a place: itself, or for a submodule's configuration a copy without the lines that
        git rewrites with each update."""
        if "/modules/" not in place or not place.endswith("/config") or (shown := without_work_tree(place)) is None:
            return place
        copy = self._scratch / f"config-{hashlib.sha256(shown).hexdigest()}"
        if not copy.exists():
            copy.write_bytes(shown)
        return str(copy)


@functools.cache
def gate() -> bytes:
    """Return the program that filters commands' system calls; empty on an unsupported machine."""
    from sagent.lib.gate import Gate
    from sagent.sandbox.seccomp import NO_NEW_PRIVS, seccomp

    try:
        steps = Gate()
        steps.call("PR_SET_NO_NEW_PRIVS", "prctl", NO_NEW_PRIVS, 1)
        steps.filter(seccomp(steps.machine, network=True, apart=True))
        return steps.made()
    except ValueError:
        return b""


def pin_mounts(mounts: Sequence[str], opened: set[int]) -> Iterator[str]:
    """Mounts with their sources pinned: a running command may replace a source by a symlink at any time, and bubblewrap
    would follow it out of the workspace. Raises OSError."""
    words = iter(mounts)
    for word in words:
        yield word
        if word not in ("--bind", "--ro-bind"):
            continue
        place = next(words)
        descriptor = os.open(place, os.O_PATH | os.O_NOFOLLOW)
        opened.add(descriptor)
        real = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 -- of our own
        if real != place or stat.S_ISLNK(os.fstat(descriptor).st_mode):
            raise OSError(f"{place} has become a link")
        yield from (f"/proc/self/fd/{descriptor}", next(words))


def remove_made(states: Mapping[str, tuple[int, int] | None]) -> list[str]:
    """Remove and return the empty mount points that bubblewrap created on the host because the mounted path was moved
    away at that moment."""
    removed: list[str] = []
    for place, before in states.items():
        if identity(place) not in (None, before):
            with contextlib.suppress(OSError):
                status = os.lstat(place)
                if stat.S_ISDIR(status.st_mode):
                    os.rmdir(place)  # noqa: PTH106 -- fails where it has entries
                    removed.append(place)
                elif stat.S_ISREG(status.st_mode) and not status.st_size:
                    os.unlink(place)  # noqa: PTH108 -- as the one above
                    removed.append(place)
    return removed


def _fits(entry: str, own: Path) -> bool:
    """Return True if an entry of the host can be mounted over what commands have made at that name."""
    with contextlib.suppress(OSError):
        return stat.S_IFMT(own.lstat().st_mode) in (stat.S_IFREG, stat.S_IFDIR) and own.is_dir() == Path(entry).is_dir()
    return True


def _shown(place: str) -> Iterator[str]:
    """Yield the host's temporary files that can be read in a box: the newest, without sockets and links to them."""
    sockets, entries = set(_holding(place, listening(()))), list[tuple[int, str]]()
    ours = f"{place}/{PREFIX}"  # commands may leave many, with future dates: they must not displace ours
    with contextlib.suppress(OSError):
        for entry in os.scandir(place):
            with contextlib.suppress(OSError):
                shown = entry.path not in sockets and not entry.is_symlink() and not entry.path.startswith(ours)
                if shown and os.access(entry.path, os.R_OK):
                    entries.append((-entry.stat().st_mtime_ns, entry.path))
    newest = [path for _, path in sorted(entries)[:_MAX_SHOWN]]
    yield from (*newest, *(path for path in _needed([place]) if not is_below(path, newest)))


def _needed(places: Collection[str]) -> list[str]:
    """Return the paths in these places that commands need."""
    own = Path(__file__).parents[2]  # our package: a checkout, or a part of `sys.prefix`
    needed = {os.path.realpath(path) for path in (*os.get_exec_path(), Path.home(), sys.prefix, sys.base_prefix, own)}
    return sorted(path for path in needed if is_below(path, places) and path not in places and _exists(path))


def _really(hidden: Iterable[str], writable: Collection[str]) -> set[str]:
    """Return the real paths of hidden places, because nothing can be mounted on or below a link. Links that commands
    may have made are not followed, unless they lead to hidden paths."""
    places = {place: os.path.realpath(place) for place in hidden}
    real_paths = {real for place, real in places.items() if real in places or not is_below(place, writable)}
    return {real for real in real_paths if not os.path.islink(real)}  # noqa: PTH114 -- in a circle


def _holding(place: str, sockets: Iterable[str]) -> Iterator[str]:
    """Yield the entries of a directory that are, or hold, sockets."""
    for path in sockets:
        if is_below(path, [place]):
            yield f"{place}/{path.removeprefix(f'{place}/').partition('/')[0]}"


def _exists(place: str) -> bool:
    return os.path.lexists(place)
