"""Files that programs other than git obey where they lie: found by the names of places.toml, in any directory."""

import functools
import os
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from sagent.lib.git import path_in, read_config
from sagent.sandbox.places import known_places

MAX_FILES = 1000  # of one directory
# A file by which such a directory says where its repository is, what is obeyed there, and for what that counts.
_POINTERS = {
    ".hg": ("sharedpath", "hgrc", ".hg/hgrc"),
    ".sl": ("sharedpath", "config", ".sl/config"),
    ".jj": ("repo", "config.toml", ".jj/repo/config.toml"),
}


class Obeyed(NamedTuple):
    """Something that may lie at a path, and its name in the list."""

    path: str
    name: str


@functools.cache
def _names() -> Mapping[str, tuple[str, ...]]:
    """Return the listed names by their first part in lower case; what git obeys is found by its layout."""
    found: dict[str, tuple[str, ...]] = {}
    for name in known_places().protected:
        first = name.partition("/")[0].lower()
        if first != ".git":
            found[first] = (*found.get(first, ()), name)
    return found


def is_obeyed(path: str) -> bool:
    """Return True if an entry of a directory is called like one that is obeyed, or that holds what is."""
    return path.rpartition("/")[2].lower() in _names()  # in any case: a file system may ignore it


def obeyed_at(sign: str) -> Iterator[Obeyed]:
    """Yield what is obeyed at such an entry, below it, and in the repository that it names."""
    first = sign.rpartition("/")[2].lower()
    for name in _names().get(first, ()):
        yield Obeyed(sign + name[len(first) :], name)
    if first in _POINTERS:
        pointer, file, name = _POINTERS[first]
        if place := path_in(read_config(f"{sign}/{pointer}") or b""):
            for start in (sign, sign.rpartition("/")[0]):  # to Mercurial it may be one from where it was started
                yield Obeyed(os.path.join(start, place, file), name)  # noqa: PTH118 -- a text path


def files_of(found: Obeyed) -> list[Obeyed]:
    """Return the files that something obeyed consists of: itself, or all in it where it is a directory."""
    if not os.path.isdir(found.path) or os.path.islink(found.path):  # noqa: PTH112, PTH114 -- text paths
        return [found]
    files = (f"{base}/{name}" for base, inner, names in os.walk(found.path) for name in (*names, *_links(base, inner)))
    return [Obeyed(path, found.name + path[len(found.path) :]) for path in islice(files, MAX_FILES)]


def _links(base: str, names: list[str]) -> list[str]:
    return [name for name in names if os.path.islink(f"{base}/{name}")]  # noqa: PTH114 -- text paths


def harmless_lines(found: Obeyed) -> bytes | None:
    """Return what may stay of a file that a command wrote; None where that is all of it."""
    text = None if os.path.islink(found.path) else read_config(found.path)  # noqa: PTH114 -- a text path
    regex = known_places().harmless.get(found.name)
    if text is None or regex is None:
        return b""
    pattern = re.compile(rf"\s*#.*|\s*|(?:{regex})".encode())
    lines, is_known = list[bytes](), True
    for line in text.splitlines(keepends=True):
        is_harmless = pattern.fullmatch(line.rstrip(b"\r\n")) is not None
        is_known = is_harmless if line.lstrip()[:1] == b"[" else is_known  # a section's heading
        lines += [line] if is_known and is_harmless else []
    return None if (kept := b"".join(lines)) == text else kept
