"""Places that are not like others: where keys lie, what runs by itself, what builds write. The list is places.toml."""

import contextlib
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from sagent.lib.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class KnownPlaces:
    """What places.toml lists, which says what each is for. Each is a file or a directory with all that is below it.

    `secrets`, `run_by_themselves` and `caches` are relative to the home directory; `secret_files` are absolute;
    `protected` and `repositories` are relative to any directory of a workspace. None needs to exist.
    """

    secrets: tuple[str, ...]
    secret_files: tuple[str, ...]
    run_by_themselves: tuple[str, ...]
    repositories: tuple[str, ...]
    protected: tuple[str, ...]
    caches: tuple[str, ...]


@cache
def known_places() -> KnownPlaces:
    """The list as it was shipped; it is read when it is first asked for."""
    import tomllib

    with Path(__file__).with_name("places.toml").open("rb") as file:
        lists = tomllib.load(file)
    uid = str(os.getuid())
    names = {name: tuple(str(place).replace("{uid}", uid) for place in places) for name, places in lists.items()}
    return KnownPlaces(**names)


def really_below(home: str, names: Sequence[str]) -> frozenset[str]:
    """The absolute paths of places below a home directory, as spelled and as they really lie; not all need exist.

    A place of which not even the first directory exists is not looked for any deeper: most do not.
    """
    real = os.path.realpath(home)
    found = {f"{start.rstrip('/')}/{name}" for start in (home, real) for name in names}
    for name in names:
        if os.path.lexists(os.path.join(real, name.partition("/")[0])):  # noqa: PTH118 -- many paths, kept cheap
            found.add(os.path.realpath(os.path.join(real, name)))  # noqa: PTH118 -- the same
    return frozenset(found)


def listening(roots: Sequence[str]) -> frozenset[str]:
    """Sockets in the file system that programs of this machine listen at: a read-only mount does not keep from them.

    One that was opened by a relative name is looked for in `roots`. Those of commands, in a network of their own, are
    not among them. See proc_net(5).
    """
    found = set[str]()
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()[1:]:
            path = line.split(maxsplit=7)[7:]
            if path and path[0][0] != "@":
                found.update(os.path.join(root, path[0]) for root in roots)  # noqa: PTH118 -- an absolute one stays
    return frozenset(os.path.realpath(path) for path in found if os.path.lexists(path))
