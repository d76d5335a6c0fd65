"""Values for the paths and hosts that a command may use, and for the grants that it may request."""

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
        """Parse "network:HOST[:PORT]", "write:PATH", "read:PATH" or "all". Raises ValueError that lists these forms."""
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
    """The permissions of commands. Paths are absolute and free of symlinks; a directory includes everything below it.

    Everything can be read except `hidden`, and nothing written except `writable` paths without the `protected` ones in
    them, which need not exist. `exposed` paths can be read although they are below a hidden one, but not written. If a
    path is below several of these, the deepest applies; of two equal ones, `protected` and `exposed` win. `domains` are
    the reachable hosts: "example.org", "*.example.org", each with an optional ":PORT"; without one 80 and 443.
    `partly_known` are directories too large to find everything in them that should be hidden or protected. `origin`
    identifies the profile's sources, such as mode and rules, apart from the files present; () if unknown. `shown` are
    pairs of an exposed directory and another one: of the first, only files that the second has too are exposed.
    `allowed` are the paths that rules of the person allow to be written: what programs obey there is not taken out.
    """

    writable: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    exposed: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    partly_known: tuple[str, ...] = ()
    origin: tuple[str, ...] = ()
    shown: tuple[tuple[str, str], ...] = ()
    allowed: tuple[str, ...] = ()

    @property
    def permissions(self) -> Hashable:
        """A key that two profiles share if they differ only because the files present have changed."""
        return frozenset(self.writable), frozenset(self.exposed), self.origin or (self.hidden, self.protected)

    def can_write(self, path: str) -> bool:
        return _depth(path, self.writable) > max(_depth(path, self.protected), _depth(path, self.hidden))

    def can_read(self, path: str) -> bool:
        return _depth(path, self.hidden) <= _depth(path, self.exposed)

    def files_shown(self) -> "Profile":
        """Return the profile with the files of `shown` exposed in place of their directories."""
        if not self.shown:
            return self
        places = dict(self.shown)
        files = (f"{place}/{name}" for place, source in self.shown for name in _names(source))
        return replace(self, exposed=(*(path for path in self.exposed if path not in places), *files), shown=())

    def widened(self, needs: "Iterable[Need]") -> "Profile":
        """Return the profile with the grants added; "all" is handled elsewhere. A grant of a directory does not cover
        protected or hidden paths in it: these must be granted by name."""
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
        # A separately mounted file cannot be replaced, as git and editors do when they write one.
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
            tuple(path for path in self.allowed if path in other.allowed),
        )


def _both(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208 -- before every command
    except OSError:
        return []


def _common(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """Return the hosts that both lists allow: of two overlapping entries the narrower one."""
    if not first or not second:
        return ()
    from sagent.sandbox.hosts import is_within

    pairs = ((first, second), (second, first))
    found = (entry for ours, theirs in pairs for entry in ours if any(is_within(entry, each) for each in theirs))
    return tuple(dict.fromkeys(found))


def _depth(path: str, directories: tuple[str, ...]) -> int:
    """Return the length of the longest directory that contains a path or equals it; -1 for none."""
    places = _places(directories)
    while path not in places:
        above = path.rpartition("/")[0] or "/"
        if above == path:
            return -1
        path = above
    return len(path)


@functools.lru_cache(maxsize=64)  # hundreds of paths are checked before every command
def _places(directories: tuple[str, ...]) -> frozenset[str]:
    return frozenset(directories)


def is_below(path: str, directories: Iterable[str]) -> bool:
    """Return True if an absolute path is one of the directories, or lies below one."""
    return any(path == directory or path.startswith(directory.rstrip("/") + "/") for directory in directories)
