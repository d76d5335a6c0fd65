"""Files in any directory that programs other than git obey: found by the names in places.toml."""

import functools
import os
import re
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from sagent.lib.git import path_in, read_config
from sagent.sandbox.places import known_places

MAX_FILES = 1000  # in one directory
# A file that says where a directory's repository is, the obeyed files there, and the programs concerned.
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
    """Return True if a directory entry has the name of an obeyed file or of a directory that contains one."""
    return path.rpartition("/")[2].lower() in _names()  # in any case: a file system may ignore it


def is_protected_name(path: str) -> bool:
    """Return True if a path is one that is protected wherever it lies, or below it."""
    return any(f"/{name}/" in f"{path}/" for name in known_places().protected)


def obeyed_at(sign: str) -> Iterator[Obeyed]:
    """Yield the obeyed files at an entry, below it, and in the repository that it points to."""
    first = sign.rpartition("/")[2].lower()
    for name in _names().get(first, ()):
        yield Obeyed(sign + name[len(first) :], name)
    if first in _POINTERS:
        pointer, file, name = _POINTERS[first]
        if place := path_in(read_config(f"{sign}/{pointer}") or b""):
            for start in (sign, sign.rpartition("/")[0]):  # Mercurial resolves it against its start directory, too
                yield Obeyed(os.path.join(start, place, file), name)  # noqa: PTH118 -- a text path


def obeyed_from(directory: str, signs: Collection[str]) -> Iterator[str]:
    """Yield what programs find from a directory, in it or above, that names a program or is not understood: of what is
    listed below one of the signs the files, of others the sign itself."""
    real = Path(os.path.realpath(directory))
    for sign in (f"{place}/{sign}" for place in (real, *real.parents) for sign in signs):
        if os.path.lexists(sign) and (not is_obeyed(sign) or names_program(sign)):
            yield sign


def names_program(sign: str) -> bool:
    """Return True if what is obeyed at such an entry may name a program."""
    found = (each for each in obeyed_at(sign) if os.path.lexists(each.path))
    return any(harmless_lines(file) is not None for each in found for file in files_of(each))


def files_of(obeyed: Obeyed) -> list[Obeyed]:
    """Return the files of an obeyed path: itself, or all in a directory."""
    if not os.path.isdir(obeyed.path) or os.path.islink(obeyed.path):  # noqa: PTH112, PTH114 -- text paths
        return [obeyed]
    paths = (f"{base}/{name}" for base, inner, names in os.walk(obeyed.path) for name in (*names, *inner))
    files = (path for path in paths if os.path.islink(path) or not os.path.isdir(path))  # noqa: PTH112, PTH114 -- text paths
    return [Obeyed(path, obeyed.name + path[len(obeyed.path) :]) for path in islice(files, MAX_FILES)]


def harmless_lines(obeyed: Obeyed) -> bytes | None:
    """Return the harmless lines of a file that a command wrote; None if all lines are harmless."""
    text = None if os.path.islink(obeyed.path) else read_config(obeyed.path)  # noqa: PTH114 -- a text path
    regex = known_places().harmless.get(obeyed.name)
    if text is None or regex is None:
        return b""
    pattern = re.compile(rf"\s*#.*|\s*|(?:{regex})".encode())
    lines, is_known = list[bytes](), True
    for line in text.splitlines(keepends=True):
        is_harmless = pattern.fullmatch(line.rstrip(b"\r\n")) is not None
        is_known = is_harmless if line.lstrip()[:1] == b"[" else is_known  # a section's heading
        lines += [line] if is_known and is_harmless else []
    return None if (kept := b"".join(lines)) == text else kept
