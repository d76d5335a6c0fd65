"""Values for what a command may touch, and for what else it may request."""

import functools
import os
import re
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Literal, TypeAlias

from sagent.lib.dataclass import dataclass

Kind: TypeAlias = Literal["network", "write", "read", "all"]

_HOST = r"((\*\.)?[\w-]+(\.[\w-]+)*|\[[0-9a-fA-F:.]+\])(:\d{1,5})?"


@dataclass(frozen=True, slots=True)
class Need:
    """A need of a command beyond its profile: a host to reach, a path to write or to read, or no sandbox ("all").
    `target` is the host or the absolute path; "" for "all"."""

    kind: Kind
    target: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.target}" if self.target else self.kind

    @classmethod
    def parse(cls, text: str) -> "Need":
        """Read "network:HOST[:PORT]", "write:PATH", "read:PATH" or "all". Raises ValueError that says what is read."""
        kind, _, target = text.strip().partition(":")
        if kind == "all" and not target:
            return cls("all")
        if kind == "network" and re.fullmatch(_HOST, target):
            return cls("network", target.lower())
        if kind in ("write", "read") and target.strip("/") and "\0" not in target:
            return cls(kind, target)
        raise ValueError(f'{text!r} is not a need: write "network:HOST", "write:PATH", "read:PATH" or "all"')


@dataclass(frozen=True, slots=True)
class Profile:
    """The permissions of commands. Paths are absolute and free of symlinks; a directory stands for all that is below
    it.

    Everything may be read but `hidden`, and nothing may be written but `writable`. In there not what is `protected`,
    which need not exist; `exposed` paths may be read although they lie below a hidden one, where nothing is written.
    Where a path lies below several of these the deepest holds, and of two that are the same `protected` and
    `exposed`. `domains` are the hosts that may be reached: "example.org", "*.example.org", each with an optional
    ":PORT"; without one 80 and 443. `partly_known` are directories in which not everything was found that is to be
    hidden or protected. `origin` is from what it follows but for what lies there at the moment: mode and rules, say;
    () where that is not known. `shown` are pairs of an exposed directory and another one: of the first only the
    files are exposed that the second has too.
    """

    writable: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    exposed: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    partly_known: tuple[str, ...] = ()
    origin: tuple[str, ...] = ()
    shown: tuple[tuple[str, str], ...] = ()

    @property
    def permissions(self) -> Hashable:
        """A key that is equal for two profiles if one allows more than the other only because what lies there has
        changed since."""
        return frozenset(self.writable), frozenset(self.exposed), self.origin or (self.hidden, self.protected)

    def can_write(self, path: str) -> bool:
        return _depth(path, self.writable) > max(_depth(path, self.protected), _depth(path, self.hidden))

    def can_read(self, path: str) -> bool:
        return _depth(path, self.hidden) <= _depth(path, self.exposed)

    def files_shown(self) -> "Profile":
        """Return the profile with the files of `shown` among those that are exposed, in place of their directories."""
        if not self.shown:
            return self
        places = dict(self.shown)
        files = (f"{place}/{name}" for place, source in self.shown for name in _names(source))
        return replace(self, exposed=(*(path for path in self.exposed if path not in places), *files), shown=())

    def widened(self, needs: "Iterable[Need]") -> "Profile":
        """Return the profile with the grants added; "all" is not a matter of profiles. A grant of a directory covers
        nothing protected or hidden in it: that must be granted by name."""
        needs = [need for need in needs if not self._has(need)]  # what need not be mounted cannot be swapped before
        given = {
            kind: tuple(need.target for need in needs if need.kind == kind) for kind in ("network", "write", "read")
        }
        paths = (*given["write"], *given["read"])
        freed = replace(
            self,
            protected=tuple(path for path in self.protected if path not in given["write"]),
            hidden=tuple(path for path in self.hidden if path not in paths),
            domains=(*self.domains, *given["network"]),
        )
        # What is mounted by itself cannot be replaced: git and editors do that to a file that they write.
        mounted = tuple(path for path in given["write"] if not (freed.can_read(path) and freed.can_write(path)))
        seen = tuple(path for path in given["read"] if not freed.can_read(path))
        return replace(freed, writable=(*freed.writable, *mounted), exposed=(*freed.exposed, *mounted, *seen))

    def _has(self, need: Need) -> bool:
        if need.kind not in ("write", "read") or not self.can_read(need.target):
            return False
        return need.kind == "read" or self.can_write(need.target)

    def within(self, other: "Profile") -> "Profile":
        """Return the profile of what both profiles allow."""
        pairs = ((self, other), (other, self))
        writable = {path: None for one, two in pairs for path in one.writable if two.can_write(path)}
        exposed = {path: None for one, two in pairs for path in one.exposed if two.can_read(path)}
        return Profile(
            tuple(writable),
            _both(self.protected, other.protected),
            _both(self.hidden, other.hidden),
            tuple(exposed),
            _common(self.domains, other.domains),
            _both(self.partly_known, other.partly_known),
            _both(self.origin, other.origin) if self.origin and other.origin else (),
            tuple(dict.fromkeys((*self.shown, *other.shown))),
        )


def _both(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*one, *other)))


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208 -- before every command
    except OSError:
        return []


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """Return the hosts that both lists allow: of two entries the one that lies within the other."""
    if not one or not other:
        return ()
    from sagent.sandbox.hosts import is_within

    pairs = ((one, other), (other, one))
    found = (entry for ours, theirs in pairs for entry in ours if any(is_within(entry, each) for each in theirs))
    return tuple(dict.fromkeys(found))


def _depth(path: str, directories: tuple[str, ...]) -> int:
    """Return the length of the longest of the directories that a path is, or lies below; -1 for none."""
    places = _places(directories)
    while path not in places:
        above = path.rpartition("/")[0] or "/"
        if above == path:
            return -1
        path = above
    return len(path)


@functools.lru_cache(maxsize=64)  # hundreds of paths are held against each, before every command
def _places(directories: tuple[str, ...]) -> frozenset[str]:
    return frozenset(directories)


def is_below(path: str, directories: Iterable[str]) -> bool:
    """Return True if an absolute path is one of the directories, or lies below one."""
    return any(path == each or path.startswith(each.rstrip("/") + "/") for each in directories)
