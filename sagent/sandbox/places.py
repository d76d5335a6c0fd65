"""Special places: where keys are kept, which files run by themselves, where builds write. places.toml lists them."""

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path

from sagent.lib.dataclass import dataclass
from sagent.lib.toml import toml_beside
from sagent.sandbox.profile import is_below

_OCTAL = re.compile(r"\\([0-7]{3})")  # how mountinfo has a space
_BEGINS = re.compile(r"(?<![^\s,;:=/])/")  # of paths in "unix:path=/a/b,guid=0", "unix:///a/b" and "/a/b,1,0"
_ENDS = re.compile(r"[\s,;:=]|$")  # characters that may also be part of a path: both readings are tried
_MAX_ENDS = 32
_MOVED = (  # https://specifications.freedesktop.org/basedir-spec
    *((".config/", "XDG_CONFIG_HOME"), (".local/share/", "XDG_DATA_HOME"), (".local/state/", "XDG_STATE_HOME")),
    (".cache/", "XDG_CACHE_HOME"),
)


@dataclass(frozen=True, slots=True)
class KnownPlaces:
    """The lists of places.toml, which says what each is for. Each entry is a file or a directory with all that is below
    it.

    `secrets`, `run_by_themselves` and `caches` are relative to the home directory; `secret_files` are absolute;
    `protected` and `repositories` are relative to any directory of a workspace. `secret_variables` are environment
    variables that hold further places of keys, or lead to them ("VARIABLE/name"). No place needs to exist. `hooks` are
    names. `harmless` has, for each protected file, regular expressions for lines that name no program.
    """

    secrets: tuple[str, ...]
    secret_files: tuple[str, ...]
    secret_variables: tuple[str, ...]
    run_by_themselves: tuple[str, ...]
    repositories: tuple[str, ...]
    protected: tuple[str, ...]
    caches: tuple[str, ...]
    hooks: tuple[str, ...]
    harmless: Mapping[str, str]


@cache
def known_places() -> KnownPlaces:
    """Return the shipped list, which is read on first use."""
    lists = toml_beside(__file__, "places.toml")
    uid = str(os.getuid())
    harmless = lists.pop("harmless")
    names = {name: tuple(str(place).replace("{uid}", uid) for place in places) for name, places in lists.items()}
    return KnownPlaces(**names, harmless=harmless)


def really_below(home: str, names: Sequence[str]) -> frozenset[str]:
    """Return places below a home directory as absolute paths, as spelled and with links resolved; not all need exist.
    If the first directory of a place does not exist (mostly so), its parts are not resolved."""
    real = os.path.realpath(home)
    found = {f"{start.rstrip('/')}/{name}" for start in (home, real) for name in names}
    for name in names:
        if os.path.lexists(os.path.join(real, name.partition("/")[0])):  # noqa: PTH118 -- many paths, kept cheap
            found.add(os.path.realpath(os.path.join(real, name)))  # noqa: PTH118 -- the same
    return frozenset(found)


def caches(home: str, roots: Iterable[str]) -> Iterator[str]:
    """Yield the build caches below a home directory that has no links of its own. A link of the person's is followed
    (`~/.cache` on a large disk), but none in `roots` and no second one: a command could have made it."""
    writable = tuple(roots)
    for name in known_places().caches:
        place, rest = home, name
        while rest and not os.path.islink(place):  # noqa: PTH114 -- many paths, kept cheap
            first, _, rest = rest.partition("/")
            place = f"{place}/{first}"
        if not os.path.islink(place) or is_below(place, writable):  # noqa: PTH114 -- the same
            yield f"{home}/{name}"
            continue
        led = os.path.join(place.rpartition("/")[0], os.readlink(place), rest)  # noqa: PTH115, PTH118 -- the same
        if os.path.realpath(led) == os.path.normpath(led):
            yield os.path.normpath(led)


def homes(home: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return `home` and all other home directories that may hold this person's keys: those of the accounts that run
    this process, by the user database, and of whoever switched to this account (sudo, doas, pkexec)."""
    import pwd

    users = (environment.get(name, "") for name in ("SUDO_USER", "DOAS_USER"))
    numbers = (environment.get(name, "") for name in ("SUDO_UID", "PKEXEC_UID"))
    found = [home, *(environment.get(name, "") for name in ("HOME", "SUDO_HOME", "SNAP_REAL_HOME"))]
    for user in (*users, *map(str, sorted({os.getuid(), os.geteuid()})), *numbers):
        with contextlib.suppress(KeyError, ValueError, OverflowError):
            found.append((pwd.getpwuid(int(user)) if user.isdecimal() else pwd.getpwnam(user)).pw_dir)
    there = (path for path in found[1:] if path.startswith("/") and os.path.isdir(path))  # noqa: PTH112 -- text
    return tuple(dict.fromkeys((home, *map(os.path.normpath, there))))


def other_names(paths: Iterable[str]) -> Iterator[str]:
    """Yield further paths that lead to these places or into them, because parts of their file system are mounted
    several times. See proc_pid_mountinfo(5)."""
    mounts: dict[str, list[tuple[str, str]]] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
            _, _, device, *named = line.split(maxsplit=5)[:5]
            root, point = (_OCTAL.sub(lambda match: chr(int(match[1], 8)), each).rstrip("/") for each in named)
            mounts.setdefault(device, []).append((root, point))
    if not any(len(mount) > 1 for mount in mounts.values()):
        return
    for path in filter(os.path.lexists, paths):
        number = os.lstat(path).st_dev
        here = mounts.get(f"{os.major(number)}:{os.minor(number)}", [])
        for root, point in here if len(here) > 1 else ():
            if path == point or path.startswith(f"{point}/"):
                inner = root + path.removeprefix(point)
                for shown, place in here:
                    if inner == shown or inner.startswith(f"{shown}/"):
                        yield place + inner.removeprefix(shown)
                    elif shown.startswith(f"{inner}/"):
                        yield place


def paths_in_variables(variables: Iterable[str], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the absolute paths that variables name, several with colons between them, some after "FILE:"."""
    for variable in variables:
        name, _, below = variable.partition("/")
        for place in environment.get(name, "").split(":"):
            if place.strip("/") and place.startswith("/"):
                yield os.path.normpath(f"{place}/{below}")


def in_variables(names: Sequence[str]) -> list[str]:
    """Return places below a home directory as `paths_in_variables` takes them, for people who have moved these
    elsewhere."""
    pairs = ((name, place, variable) for place, variable in _MOVED for name in names)
    return [f"{variable}/{name.removeprefix(place)}" for name, place, variable in pairs if name.startswith(place)]


def listening(roots: Sequence[str]) -> frozenset[str]:
    """Return socket files that programs on this machine listen at: a read-only mount does not prevent connections.

    A relative name is looked for in `roots` and in the listener's working and start directories. Sockets of commands,
    which have their own network, are not included. A socket of another network is only found if an environment variable
    names it (SSH_AUTH_SOCK, DOCKER_HOST). See proc_net(5).
    """
    found = {path for value in os.environ.values() for path in _paths(value) if _is_socket(path)}
    relative: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/unix").read_text(errors="surrogateescape").split("\n")[1:]:
            words = line.split(maxsplit=7)
            path = words[7] if len(words) == 8 else "@"
            if path.startswith("/"):
                found.add(path)
            elif not path.startswith("@"):
                relative[words[6]] = path
    starts = (*roots, *_places_of(frozenset(relative))) if relative else ()
    found.update(f"{start}/{path}" for path in {*relative.values()} for start in starts)
    return frozenset(os.path.realpath(path) for path in found if os.path.lexists(path))


def _paths(value: str) -> Iterator[str]:
    """Yield possible absolute paths in a variable's value: up to each character that may end one, and all of it."""
    for begin in _BEGINS.finditer(value):
        at = begin.start()
        ends = [end.start() for end in islice(_ENDS.finditer(value, at), _MAX_ENDS)]
        yield from (value[at:end] for end in {*ends, len(value)})


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)  # noqa: PTH116 -- of all that the environment names
    except OSError:
        return False


@lru_cache(maxsize=4)  # called before each command; listing all descriptors takes about 10 ms
def _places_of(sockets: frozenset[str]) -> frozenset[str]:
    """Return the working and start directories of processes that have one of these sockets, given by inode number."""
    found = set[str]()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # another user's process, or gone
            if any(_number(each) in sockets for each in (process / "fd").iterdir()):
                found.add(str((process / "cwd").readlink()))
                started = (process / "environ").read_bytes().split(b"\0")
                found.update(os.fsdecode(each[4:]) for each in started if each.startswith(b"PWD="))
    return frozenset(found)


def _number(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink()).removeprefix("socket:[").removesuffix("]")
    except OSError:
        return ""
