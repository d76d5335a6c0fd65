"""A program of its own: confines itself by Landlock and seccomp, and becomes the program that it is given.

    confine.py [write=PATH | hide=PATH | show=PATH | network | processes=N | data=BYTES | mark=N] ... -- PROGRAM ...

Everything may be read but what is hidden and devices; nothing may be written but what is said. What is hidden is left
out by allowing what lies next to it when the command starts, so a directory with a hidden one below cannot be listed,
and within such a wall no second one can stand.
Without `network` there are no sockets but pairs of streams; with it there are those of IP and netlink. Unix sockets
with a name are refused always: Landlock has no right for them, and Docker and agents with keys listen there. No ptrace,
no namespaces, no System V IPC, no pseudo-terminals, for the person's own are among them. Root keeps two capabilities.
A `mark` stays with a process and all that it starts: the limit of locks, which the kernel minds no more, and which they
cannot change. Who ends them finds them by it.

Not held, for Landlock has no rights for it: modes, set-user-ID bits among them, owners, times and extended attributes
of files outside; the arguments of other processes; what an inherited descriptor leads to.

Exits with 126 and a sentence where the wall cannot be raised or the program not be run, with 127 where there is no such
program. Only what is quick to import is imported here, so not even typing.
"""
# ruff: noqa: PTH110, PTH118, PTH123, PTH208 -- pathlib takes as long to import as all the rest

import ctypes
import errno
import os
import resource
import stat
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import NoReturn, TypeAlias

    Tree: TypeAlias = "dict[str, Tree | None]"  # directories on the way to what is hidden, which is None

MOST_RULES = 50_000  # what lies next to something hidden beyond that many cannot be read
KEPT = (1, 3)  # CAP_DAC_OVERRIDE and CAP_FOWNER: root works in directories of others
DEVICES = ("null", "zero", "full", "random", "urandom", "dri", "kfd")

# <linux/landlock.h>
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE, IOCTL_DEV = 1, 2, 4, 8, 1 << 14, 1 << 15
READ, MAKE_DEVICES = EXECUTE | READ_FILE | READ_DIR, 1 << 6 | 1 << 11
OF_FILES = EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV
RIGHTS = (13, 14, 15, 15, 16)  # how many there are, by ABI

# Refused system calls: their numbers on x86_64 and on aarch64, and those that have one number everywhere.
CALLS = """add_key 248 217, request_key 249 218, keyctl 250 219, bpf 321 280, userfaultfd 323 282,
perf_event_open 298 241, io_uring_setup 425 425, mount 165 40, umount2 166 39, pivot_root 155 41, chroot 161 51,
open_tree 428 428, move_mount 429 429, fsopen 430 430, fsmount 432 432, fspick 433 433, mount_setattr 442 442,
open_tree_attr 467 467, setns 308 268, kexec_load 246 104, kexec_file_load 320 294, init_module 175 105,
finit_module 313 273, delete_module 176 106, open_by_handle_at 304 265, fanotify_init 300 262"""
# Refused too where processes and System V IPC are those of all: within namespaces of their own debuggers need them.
SHARED = """ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, kcmp 312 272, pidfd_getfd 438 438,
shmget 29 194, shmat 30 196, shmctl 31 195, semget 64 190, semop 65 193, semctl 66 191, semtimedop 220 192,
msgget 68 186, msgsnd 69 189, msgrcv 70 188, msgctl 71 187, mq_open 240 180, mq_unlink 241 181"""
MACHINES = {  # the number for audit, and those of calls whose arguments are looked at
    "x86_64": (
        0xC000003E,
        {"ioctl": 16, "socket": 41, "pair": 53, "clone": 56, "unshare": 272, "prlimit": 302, "setrlimit": 160},
    ),
    "aarch64": (
        0xC00000B7,
        {"ioctl": 29, "socket": 198, "pair": 199, "clone": 220, "unshare": 97, "prlimit": 261, "setrlimit": 164},
    ),
}
RLIMIT_LOCKS = 10
CLONE3, X32 = 435, 0x40000000
NAMESPACES = 0x7E020080  # every CLONE_NEW flag
TYPING = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX type into a terminal
UNIX, DATAGRAMS, NETWORK = 1, (2, 3), (2, 10, 16)  # families: IPv4, IPv6, netlink, by which addresses are looked up
LOAD, AND, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, REFUSE, MISSING = 0x7FFF0000, 0x80000000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS


class Kernel:
    """What is asked of the kernel. Raises OSError that names what was refused."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.syscall.argtypes = (ctypes.c_long, *[ctypes.c_void_p] * 4)
        self._libc.prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)

    def abi(self) -> int:
        """The version of Landlock."""
        return self._call("Landlock", 444, None, 0, 1)

    def make_ruleset(self, rights: int, network: int, scopes: int) -> int:
        """The descriptor of a Landlock ruleset that refuses these rights."""
        return self._call("a Landlock ruleset", 444, struct.pack("QQQ", rights, network, scopes), 24)

    def add_rule(self, ruleset: int, rights: int, place: int) -> None:
        """Allow rights on a file, or on all below a directory."""
        self._call("a Landlock rule", 445, ruleset, 1, struct.pack("=Qi", rights, place))

    def enforce(self, ruleset: int) -> None:
        """Confine this process by a ruleset."""
        self._call("the Landlock rules", 446, ruleset)

    def filter(self, program: bytes) -> None:
        """Confine this process by a seccomp program."""
        code = ctypes.create_string_buffer(program, len(program))
        described = ctypes.create_string_buffer(struct.pack("HP", len(program) // 8, ctypes.addressof(code)))
        self.prctl("a seccomp filter", 22, 2, ctypes.addressof(described))

    def open(self, path: str) -> int:
        """A descriptor that stands for a path, which may lead through no symlink."""
        how = struct.pack("QQQ", os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW, 0, 4)
        return self._call("openat2", 437, -100, os.fsencode(path) + b"\0", how, 24)

    def lose_privileges(self) -> None:
        """Get none by running a program from now on, and as root lose what root can do beyond its own files."""
        self.prctl("PR_SET_NO_NEW_PRIVS", 38, 1)
        self.prctl("PR_CAP_AMBIENT", 47, 4)
        if 0 not in os.getresuid():
            return
        for capability in range(64):
            if capability not in KEPT and self._libc.prctl(23, capability, 0, 0, 0) == 1:
                self.prctl("PR_CAPBSET_DROP", 24, capability)
        mask = sum(1 << capability for capability in KEPT)
        header, held = struct.pack("Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
        self._check("capget", self._libc.capget(header, held))
        effective, permitted = struct.unpack_from("II", held.raw)
        left = struct.pack("6I", effective & mask, permitted & mask, 0, 0, 0, 0)
        self._check("capset", self._libc.capset(header, left))

    def prctl(self, what: str, option: int, *arguments: int) -> int:
        """prctl(2)."""
        return self._check(what, self._libc.prctl(option, *arguments, *[0] * (4 - len(arguments))))

    def _call(self, what: str, number: int, *arguments: int | bytes | None) -> int:
        return self._check(what, self._libc.syscall(number, *arguments, *[0] * (4 - len(arguments))))

    def _check(self, what: str, result: int) -> int:
        if result < 0:
            raise OSError(number := ctypes.get_errno(), f"the kernel refused {what}: {os.strerror(number)}")
        return result


class Rules:
    """What may be read and written, as a Landlock ruleset."""

    def __init__(self, kernel: Kernel, *, network: bool) -> None:
        abi = kernel.abi()
        self._kernel = kernel
        self._left = MOST_RULES
        self._all = (1 << RIGHTS[min(abi, len(RIGHTS)) - 1]) - 1
        self.descriptor = kernel.make_ruleset(self._all, 3 if abi >= 4 and not network else 0, 3 if abi >= 6 else 0)

    def allow(self, path: str, rights: int) -> None:
        """Allow rights on a path and all below, if it is there."""
        try:
            place = self._kernel.open(path)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES):
                return
            raise
        self._add(place, rights, is_directory=stat.S_ISDIR(os.fstat(place).st_mode))

    def show(self, path: str, hidden: "list[str]") -> None:
        """Allow reading all below a path but what is hidden there. What lies in nothing hidden may be read already."""
        inner = [each for each in hidden if each.startswith(f"{path.rstrip('/')}/") and each != path]
        if not inner:
            self.allow(path, READ)
        elif any(f"{path}/".startswith(f"{each}/") for each in hidden):
            try:
                place = self._kernel.open(path)
            except FileNotFoundError:
                return
            self.allow_around(tree(each[len(path) :] for each in inner), ".", place)
            os.close(place)

    def allow_around(self, hidden: "Tree", name: str = "/", parent: int | None = None) -> bool:
        """Allow reading all below a directory but what is hidden. Whether it may be listed, for no directory is."""
        way = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            directory = os.open(name, os.O_RDONLY | way, dir_fd=parent)
            entries = list(os.scandir(directory))
        except PermissionError:  # what cannot be listed may still be passed through
            directory, entries = os.open(name, os.O_PATH | way, dir_fd=parent), []
        except (FileNotFoundError, NotADirectoryError):
            return True
        for entry in entries:
            is_dev = parent is None and entry.name == "dev"  # of which only some is allowed, by name
            if entry.name not in hidden and not is_dev and not entry.is_symlink():
                self._allow_entry(entry, directory)
        listable = True
        for each, below in hidden.items():
            listable &= self._is_listable(each, below, directory)
        self._add(directory, READ_DIR if listable else 0)
        return listable

    def _is_listable(self, name: str, below: "Tree | None", parent: int) -> bool:
        if below is not None:
            return self.allow_around(below, name, parent)
        try:
            return not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return True

    def _allow_entry(self, entry: "os.DirEntry[str]", parent: int) -> None:
        try:
            place = os.open(entry.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
            self._add(place, READ, is_directory=entry.is_dir(follow_symlinks=False))
        except OSError:
            return  # it went away, or cannot be reached anyway

    def _add(self, place: int, rights: int, *, is_directory: bool = True) -> None:
        self._left -= 1
        try:
            if self._left >= 0 and (rights := self._all & (rights if is_directory else rights & OF_FILES)):
                self._kernel.add_rule(self.descriptor, rights, place)
        finally:
            os.close(place)


def tree(paths: "Iterable[str]") -> "Tree":
    """Paths as directories within directories, without those that lie below another."""
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


def seccomp(machine: str, *, network: bool, apart: bool = False) -> bytes:
    """The program that judges system calls; `apart`: of a process in namespaces of its own."""
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
    code += [(EQUAL, CLONE3, 0, 1), (RETURN, MISSING, 0, 0)]  # its flags cannot be seen; with none, clone is used
    for number in numbers:
        code += [(EQUAL, number, 0, 1), (RETURN, REFUSE, 0, 0)]
    blocks = {
        "ioctl": _refused(1, EQUAL, *TYPING),
        "clone": _refused(0, ANY_BIT, NAMESPACES),
        "unshare": _refused(0, ANY_BIT, NAMESPACES),
        "socket": _allowed(0, *(NETWORK if network else ()), *((UNIX,) if apart else ())),
    }
    if not apart:
        # A pair of datagram sockets could be connected to others; a raw one is one of datagrams under another name.
        kinds = [(LOAD, 24, 0, 0), (AND, 15, 0, 0), *_refused(1, EQUAL, *DATAGRAMS)[1:]]
        blocks |= {"pair": [*_allowed(0, UNIX)[:-1], *kinds], "setrlimit": _refused(0, EQUAL, RLIMIT_LOCKS)}
        blocks["prlimit"] = [*_allowed(0, 0)[:-1], *_refused(1, EQUAL, RLIMIT_LOCKS)]
    for name, block in blocks.items():
        code += [(EQUAL, looked_at[name], 0, len(block)), *block]
    code.append((RETURN, ALLOW, 0, 0))
    return b"".join(struct.pack("HBBI", operation, yes, no, value) for operation, value, yes, no in code)


def _refused(argument: int, test: int, *values: int) -> "list[tuple[int, int, int, int]]":
    tests = [(test, value, len(values) - 1 - place, 0) for place, value in enumerate(values)]
    tests[-1] = (test, values[-1], 0, 1)
    return [(LOAD, 16 + 8 * argument, 0, 0), *tests, (RETURN, REFUSE, 0, 0), (RETURN, ALLOW, 0, 0)]


def _allowed(argument: int, *values: int) -> "list[tuple[int, int, int, int]]":
    tests = [(EQUAL, value, len(values) - place, 0) for place, value in enumerate(values)]
    return [(LOAD, 16 + 8 * argument, 0, 0), *tests, (RETURN, REFUSE, 0, 0), (RETURN, ALLOW, 0, 0)]


def confine(words: "list[str]") -> None:
    """Raise the wall around this process. Raises OSError or ValueError."""
    said: dict[str, list[str]] = {
        name: [] for name in ("write", "hide", "show", "network", "processes", "data", "mark")
    }
    for word in words:
        name, _, value = word.partition("=")
        if name not in said:
            raise ValueError(f"{word} says nothing")
        said[name].append(value)
    kernel, network = Kernel(), bool(said["network"])
    program = seccomp(os.uname().machine, network=network)
    rules = Rules(kernel, network=network)
    rules.allow_around(tree(said["hide"]))
    for path in said["show"]:
        rules.show(path, said["hide"])
    for path in (*said["write"], "/dev/shm"):  # noqa: S108 -- semaphores of Python and others lie there
        rules.allow(path, ~MAKE_DEVICES)
    rules.allow("/dev", READ_DIR)
    for name in os.listdir("/dev"):
        if name in DEVICES or name.startswith("nvidia"):
            rules.allow(f"/dev/{name}", OF_FILES | READ_DIR)
    for limit, value in (
        (resource.RLIMIT_CORE, ["0"]),
        (resource.RLIMIT_NPROC, said["processes"]),
        (resource.RLIMIT_DATA, said["data"]),
        (RLIMIT_LOCKS, said["mark"]),
    ):
        for each in value:
            most = resource.getrlimit(limit)[1]
            least = int(each) if most == resource.RLIM_INFINITY else min(int(each), most)
            resource.setrlimit(limit, (least, least))
    kernel.lose_privileges()
    kernel.enforce(rules.descriptor)
    kernel.filter(program)


def run(argv: "list[bytes]", environ: "dict[bytes, bytes]") -> "NoReturn":
    """Become a program, which is looked for as execvp(3) does."""
    program, trouble = argv[0], int(errno.ENOENT)
    places = [b""] if b"/" in program else environ.get(b"PATH", b"/bin:/usr/bin").split(b":")
    for place in places if program else ():
        path = os.path.join(place, program)
        try:
            os.execve(path, argv, environ)  # noqa: S606 -- it is what this is for
        except OSError as error:
            if error.errno and os.path.exists(path):
                trouble = error.errno
    _fail(f"{os.fsdecode(program)} cannot be run: {os.strerror(trouble)}.", 127 if trouble == errno.ENOENT else 126)


def main() -> "NoReturn":
    """The program."""
    words = sys.argv[1:]
    try:
        end = words.index("--")
        argv = [os.fsencode(word) for word in words[end + 1 :]]
        environ = _environment()
        libc = ctypes.CDLL(None)
        confine(words[:end])
    except Exception as error:
        why = (isinstance(error, OSError) and error.strerror) or error
        _fail(f"The sandbox cannot be raised: {why}.", 126)
    for number in (13, 25):  # SIGPIPE and SIGXFSZ, which Python ignores
        libc.signal(number, None)
    run(argv, environ)


def _environment() -> "dict[bytes, bytes]":
    # As it was: Python itself may have set LC_CTYPE. What has no "=" is none.
    with open("/proc/self/environ", "rb") as file:
        entries = [entry.partition(b"=") for entry in file.read().split(b"\0")]
    return {name: value for name, is_set, value in entries if is_set and name}


def _fail(sentence: str, code: int) -> "NoReturn":
    sys.stderr.write(f"{sentence}\n")
    sys.exit(code)


if __name__ == "__main__":
    main()
