"""The filter of system calls for commands, as a kernel program (seccomp)."""

import errno
import functools
import struct
import sys
from typing import TYPE_CHECKING

from sagent.lib.locklimit import LOCKS

if TYPE_CHECKING:
    from collections.abc import Iterator

# Refused system calls: numbers on x86_64 and on aarch64, and those with the same number everywhere.
CALLS = """add_key 248 217, request_key 249 218, keyctl 250 219, bpf 321 280, userfaultfd 323 282,
perf_event_open 298 241, io_uring_setup 425 425, mount 165 40, umount2 166 39, pivot_root 155 41, chroot 161 51,
open_tree 428 428, move_mount 429 429, fsopen 430 430, fsmount 432 432, fspick 433 433, mount_setattr 442 442,
open_tree_attr 467 467, setns 308 268, kexec_load 246 104, kexec_file_load 320 294, init_module 175 105,
finit_module 313 273, delete_module 176 106, open_by_handle_at 304 265, fanotify_init 300 262"""
# Also refused if processes and System V IPC are shared; debuggers need them within their own namespaces.
SHARED = """ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, kcmp 312 272, pidfd_getfd 438 438,
shmget 29 194, shmat 30 196, shmctl 31 195, semget 64 190, semop 65 193, semctl 66 191, semtimedop 220 192,
msgget 68 186, msgsnd 69 189, msgrcv 70 188, msgctl 71 187, mq_open 240 180, mq_unlink 241 181"""
MACHINES = {  # audit number, and numbers of calls whose arguments are checked
    "x86_64": (
        0xC000003E,
        {"ioctl": 16, "socket": 41, "pair": 53, "clone": 56, "unshare": 272, "prlimit": 302, "setrlimit": 160},
    ),
    "aarch64": (
        0xC00000B7,
        {"ioctl": 29, "socket": 198, "pair": 199, "clone": 220, "unshare": 97, "prlimit": 261, "setrlimit": 164},
    ),
}
# Calls that set a file's mode: the number on x86_64 and on aarch64, the mode's argument, and the argument that says
# whether a file is created. mkdir(2) is not included: the kernel ignores these bits there.
MODES = """chmod 90 - 1 -, fchmod 91 52 1 -, fchmodat 268 53 2 -, fchmodat2 452 452 2 -, mknod 133 - 1 -,
mknodat 259 33 2 -, creat 85 - 1 -, open 2 - 2 1, openat 257 56 3 2"""
SET_ID = 0o6000  # set-user-ID and set-group-ID
MAKING = 0o100 | 0o20000000  # O_CREAT and O_TMPFILE
NO_NEW_PRIVS = 38  # of prctl(2)
CLONE3, X32 = 435, 0x40000000
OPENAT2 = 437
NAMESPACES = 0x7E020080  # every CLONE_NEW flag
TYPING = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX type into a terminal
UNIX, DATAGRAMS, NETWORK = 1, (2, 3), (2, 10, 16)  # families: IPv4, IPv6, and netlink for address look-ups
LOAD, AND, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, REFUSE, MISSING = 0x7FFF0000, 0x80000000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS


@functools.cache
def seccomp(machine: str, *, network: bool, apart: bool = False) -> bytes:
    """Return the program that judges system calls; `apart` if the process has its own namespaces."""
    if machine not in MACHINES or sys.maxsize < 1 << 32:
        raise ValueError(f"the numbers of system calls are not known for {machine} and this Python")
    audit, looked_at = MACHINES[machine]
    numbers = [
        int(call.split()[1 if machine == "x86_64" else 2])
        for call in (CALLS if apart else f"{CALLS}, {SHARED}").split(",")
    ]
    code = [(LOAD, 4, 0, 0), (EQUAL, audit, 1, 0), (RETURN, KILL, 0, 0), (LOAD, 0, 0, 0)]
    if machine == "x86_64":
        code += [(AT_LEAST, X32, 0, 1), (RETURN, MISSING, 0, 0)]
    for number in (CLONE3, OPENAT2):  # their arguments cannot be seen; programs fall back to clone and openat
        code += [(EQUAL, number, 0, 1), (RETURN, MISSING, 0, 0)]
    for number in numbers:
        code += [(EQUAL, number, 0, 1), (RETURN, REFUSE, 0, 0)]
    blocks = {
        "ioctl": _refused(1, EQUAL, *TYPING),
        "clone": _refused(0, ANY_BIT, NAMESPACES),
        "unshare": _refused(0, ANY_BIT, NAMESPACES),
        "socket": _allowed(0, *(NETWORK if network else ()), *((UNIX,) if apart else ())),
    }
    if not apart:
        # Datagram pairs could be connected to other sockets; a raw socket is a datagram socket under another name.
        kinds = [(LOAD, 24, 0, 0), (AND, 15, 0, 0), *_refused(1, EQUAL, *DATAGRAMS)[1:]]
        blocks |= {"pair": [*_allowed(0, UNIX)[:-1], *kinds], "setrlimit": _refused(0, EQUAL, LOCKS)}
        blocks["prlimit"] = [*_allowed(0, 0)[:-1], *_refused(1, EQUAL, LOCKS)]
    judged = [(looked_at[name], block) for name, block in blocks.items()]
    for number, block in (*judged, *_modes(machine)):
        code += [(EQUAL, number, 0, len(block)), *block]
    code.append((RETURN, ALLOW, 0, 0))
    return b"".join(struct.pack("HBBI", operation, yes, no, value) for operation, value, yes, no in code)


def _modes(machine: str) -> "Iterator[tuple[int, list[tuple[int, int, int, int]]]]":
    """Yield the calls that can set set-ID bits, by number, with the test that refuses these bits."""
    for call in MODES.split(","):
        _, *numbers, mode, flags = call.split()
        number = numbers[machine != "x86_64"]
        if number != "-":
            makes = _allowed_without(int(flags), MAKING) if flags != "-" else []
            yield int(number), [*makes, *_refused(int(mode), ANY_BIT, SET_ID)]


def _allowed_without(argument: int, bits: int) -> "list[tuple[int, int, int, int]]":
    return [(LOAD, 16 + 8 * argument, 0, 0), (ANY_BIT, bits, 1, 0), (RETURN, ALLOW, 0, 0)]


def _refused(argument: int, test: int, *values: int) -> "list[tuple[int, int, int, int]]":
    tests = [(test, value, len(values) - 1 - place, 0) for place, value in enumerate(values)]
    tests[-1] = (test, values[-1], 0, 1)
    return [(LOAD, 16 + 8 * argument, 0, 0), *tests, (RETURN, REFUSE, 0, 0), (RETURN, ALLOW, 0, 0)]


def _allowed(argument: int, *values: int) -> "list[tuple[int, int, int, int]]":
    tests = [(EQUAL, value, len(values) - place, 0) for place, value in enumerate(values)]
    return [(LOAD, 16 + 8 * argument, 0, 0), *tests, (RETURN, REFUSE, 0, 0), (RETURN, ALLOW, 0, 0)]
