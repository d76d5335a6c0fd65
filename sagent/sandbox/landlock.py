"""The wall of Linux where bubblewrap does not work: Landlock and seccomp, set up by a small program for each command.

Everything can be read except hidden paths and devices; only the profile's writable paths can be written. Landlock only
allows, so a hidden path is left out by allowing its siblings when the command starts. So a directory with a hidden path
below it cannot be listed, and no second wall can stand inside the first. Without `network` the only sockets are pairs
of streams; with it IP and netlink work too. Named Unix sockets are always refused: Landlock has no right for them, and
Docker and key agents listen there. There is no ptrace, no namespace, no System V IPC and no pseudo-terminal (the
person's own could be opened). Root keeps no capability.

Landlock has no rights for these, so they are not confined: modes (except set-ID bits), times and extended attributes of
the person's files; the arguments of other processes; inherited descriptors. The parts of a profile that cannot be
enforced are reported, so that a person is asked instead.
"""

import functools
import os
import resource
import struct
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from sagent.lib.gate import LAST, Gate, Wall
from sagent.lib.locklimit import LOCKS
from sagent.sandbox.profile import Profile, is_below
from sagent.sandbox.seccomp import NO_NEW_PRIVS, seccomp

Tree: TypeAlias = "dict[str, Tree | None]"  # directories that lead to hidden paths (None)
Rules: TypeAlias = Iterator[tuple[int, str]]  # rights, on a path and all below

MAX_RULES = 50_000  # siblings of hidden paths beyond that many cannot be read
DEVICES = ("null", "zero", "full", "random", "urandom", "dri", "kfd")

# <linux/landlock.h>
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE, IOCTL_DEV = 1, 2, 4, 8, 1 << 14, 1 << 15
READ, MAKE_DEVICES = EXECUTE | READ_FILE | READ_DIR, 1 << 6 | 1 << 11
OF_FILES = EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV
RIGHTS = (13, 14, 15, 15, 16)  # number of rights in each version of the ABI
_PROBE_TIMEOUT_SECONDS = 20.0  # for a command that does nothing


def make_wall(
    profile: Profile,
    *,
    network: bool,
    scratch: str | os.PathLike[str] | None = None,
    memory: int | None = None,
    processes: int | None = None,
    mark: int | None = None,
) -> bytes:
    """Return the program that sets up the wall for a profile. With `network` any host can be reached, else none.

    `scratch` is writable too. `memory` bounds the data of each process, in bytes; `processes` bounds the user's
    processes, including those outside. The program and its children are found by the `mark`. It exits with 126 and a
    sentence on standard error, without running anything, if the wall fails. Inherited descriptors, directory,
    environment and signals stay as they are. Raises OSError or ValueError without Landlock.
    """
    gate, version, profile = Gate(), abi(), profile.files_shown()
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_NPROC: processes, resource.RLIMIT_DATA: memory, LOCKS: mark}
    for limit, wanted in limits.items():
        if wanted is not None:
            most = resource.getrlimit(limit)[1]
            value = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
            gate.call("a limit", "prlimit", 0, limit, gate.put(struct.pack("QQ", value, value)))
    gate.call("PR_SET_NO_NEW_PRIVS", "prctl", NO_NEW_PRIVS, 1)
    handled = (1 << RIGHTS[min(version, len(RIGHTS)) - 1]) - 1
    scopes = struct.pack("QQQ", handled, 3 if version >= 4 and not network else 0, 3 if version >= 6 else 0)
    gate.call("a Landlock ruleset", 444, gate.put(scopes), 24)
    writable = (*profile.writable, *([os.fspath(scratch)] if scratch else ()))
    for rights, path in islice(_rules(profile, writable), MAX_RULES):
        gate.allow(rights & handled, os.fsencode(path))
    gate.call("the Landlock rules", 446, LAST)
    _lose_capabilities(gate)
    gate.filter(seccomp(gate.machine, network=network))
    return gate.made()


def _lose_capabilities(gate: Gate) -> None:
    """Drop root's power beyond its own files: with CAP_DAC_OVERRIDE it would read and write everybody's."""
    gate.call("PR_CAP_AMBIENT", "prctl", 47, 4)
    if 0 not in os.getresuid():
        return
    lines = Path("/proc/self/status").read_text(errors="replace").splitlines()
    has = {name: int(value, 16) for name, _, value in (line.partition(":") for line in lines) if name[:3] == "Cap"}
    for capability in range(64):
        if has["CapBnd"] & 1 << capability:
            gate.call("PR_CAPBSET_DROP", "prctl", 24, capability)
    gate.call("capset", "capset", gate.put(struct.pack("Ii", 0x20080522, 0)), gate.put(bytes(24)))


def _rules(profile: Profile, writable: Iterable[str]) -> Rules:
    for path in (*writable, "/dev/shm"):  # noqa: S108 -- semaphores of Python and others lie there
        yield from _allowed(path, ~MAKE_DEVICES)
    yield READ_DIR, "/dev"
    for name in os.listdir("/dev"):  # noqa: PTH208 -- this and what follows come before every command
        if name in DEVICES or name.startswith("nvidia"):
            yield from _allowed(f"/dev/{name}", OF_FILES | READ_DIR)
    open_anyway = Profile(tuple(writable)).can_write
    hidden = [path for path in profile.hidden if not open_anyway(path)]
    for path in profile.exposed:
        inner = [each for each in hidden if each.startswith(f"{path.rstrip('/')}/") and each != path]
        if not inner:
            yield from _allowed(path, READ)
        elif is_below(path, hidden):  # below no hidden path: readable already
            yield from _around(tree(each[len(path) :] for each in inner), path)
    yield from _around(tree(hidden), "/")


def _allowed(path: str, rights: int) -> Rules:
    if os.path.lexists(path):
        yield rights & ((1 << 64) - 1 if os.path.isdir(path) else OF_FILES), path  # noqa: PTH112


def _around(hidden: Tree, directory: str) -> Generator[tuple[int, str], None, bool]:
    """Yield rules to read a directory except hidden paths; return False if it has any, so that it cannot be listed."""
    try:
        entries = list(os.scandir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # one that cannot be listed can still be passed through
        entries = []
    for entry in entries:
        is_dev = entry.path == "/dev"  # only some devices are allowed, by name
        if entry.name not in hidden and not is_dev and not entry.is_symlink():
            yield READ if entry.is_dir(follow_symlinks=False) else READ & OF_FILES, entry.path
    listable = True
    for name, below in hidden.items():
        path = f"{directory.rstrip('/')}/{name}"
        leaf = not os.path.isdir(path) or os.path.islink(path)  # noqa: PTH112, PTH114
        listable &= (yield from _around(below, path)) if below is not None else leaf
    if listable:
        yield READ_DIR, directory
    return listable


def tree(paths: Iterable[str]) -> Tree:
    """Return paths as nested directories; paths below another are left out."""
    root: Tree = {}
    for path in sorted(paths):
        node: Tree | None = root
        *above, last = path.strip("/").split("/")
        for name in above:
            if node is not None:
                node = node.setdefault(name, {})
        if node is not None:
            node[last] = None
    return root


def available() -> str:
    """Return why Landlock does not work here, or "". A trial takes about 5 ms."""
    if sys.platform != "linux":
        return f"there is no Landlock for {sys.platform}"
    null = subprocess.DEVNULL
    try:
        wall = Wall(make_wall(Profile(), network=False))
        try:
            argv = [wall.path, "/usr/bin/env", "true"]
            tried = subprocess.run(
                argv, stdin=null, stdout=null, stderr=subprocess.PIPE, timeout=_PROBE_TIMEOUT_SECONDS, check=False
            )
        finally:
            wall.close()
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return f"Landlock could not be tried: {error.strerror if isinstance(error, OSError) else error}"
    if not tried.returncode:
        return ""
    return tried.stderr.decode(errors="replace").strip() or f"a command within Landlock ended with {tried.returncode}"


@functools.cache
def abi() -> int:
    """Return the version of Landlock's ABI. Raises OSError if there is none."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if (version := libc.syscall(444, None, 0, 1)) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the kernel has no Landlock ({os.strerror(number)})")
    return version


def gaps(profile: Profile) -> tuple[str, ...]:
    """Return phrases for the parts of a profile that are not enforced."""
    return tuple(_gaps(profile))


def _gaps(profile: Profile) -> Iterator[str]:
    can_write = Profile(profile.writable).can_write
    for path in profile.hidden:
        if can_write(path) and os.path.lexists(path):
            yield f"{path} can be read"
    for path in profile.protected:
        if can_write(path):
            yield f"{path} can be written"
    for path in (os.path.realpath(place) for place in (sys.executable, os.__file__, str(Path(__file__).parent))):
        if can_write(path):
            yield f"{path}, which is run outside the sandbox, can be written"
    if profile.domains:
        yield f"every host can be reached, not only {', '.join(profile.domains)}"
    if abi() < 3:
        yield "files outside the sandbox can be emptied: that is refused from Linux 6.2 on"
    if abi() < 6:
        yield "your other processes can be sent signals: that is refused from Linux 6.12 on"
