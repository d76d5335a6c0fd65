"""A tiny program that makes a fixed list of system calls in order and then executes the program named by its arguments.

With it a process gives up rights just before it becomes a command. An interpreter would take as long to start as
everything else, no system program can do it, and a process of ours would lose the rights itself. Its instructions are
in gate_x86_64.s and gate_aarch64.s, which describe the steps.
"""

import errno
import functools
import os
import struct
import sys

_BASE = 0x400000  # address of the file in memory
_HEADERS = 0x78  # bytes before the data
_MACHINES = {"x86_64": 62, "aarch64": 183}  # in ELF
_NUMBERS = {
    "x86_64": {"prctl": 157, "prlimit": 302, "capset": 126},
    "aarch64": {"prctl": 167, "prlimit": 261, "capset": 91},
}
_RULE, _END = 0xFFFFFFFE, 0xFFFFFFFF  # in place of a call's number
LAST = -2  # as the first argument: the previous call's result
# by scripts/make_gate.py, from gate_*.s
CODE = {
    "x86_64": (
        "488d1ddc0000008b0383f8fe7463772a488b7b084883fffe490f44fc488b7310488b53184c8b53200f054885c0782249"
        "89c48b43044801c3ebcd488b0424488d742410488b3e488d14c6b83b0000000f05bf02000000488b7328488b5330b801"
        "0000000f05bf7e000000b83c0000000f05bf9cffffff488d7310488d154a00000041ba18000000b8b50100000f0583f8"
        "da750cba00002a00b8010100000f054885c0788e50ff73084c89e7be010000004889e24531d2b8bd0100000f055f5fb8"
        "030000000f05e967ffffff000028000000000000000000000000000400000000000000"
    ),
    "aarch64": (
        "93070010680240b91f0900312003005468010054608640a9628e41a91f0800b18002809a010000d46001f8b7f40300aa"
        "690640b97302098bf3ffff17e90340f9e1430091200040f9220c098ba81b80d2010000d4400080d2618a42a9080880d2"
        "010000d4c00f80d2a80b80d2010000d4600c80926142009102030010030380d2a83680d2010000d41f9800b1c1000054"
        "600c80920205a0d2020090f2080780d2010000d460fcffb7690640f9e903bfa9e00314aa210080d2e2030091030080d2"
        "a83780d2010000d4e903c1a8280780d2010000d4d7ffff17000028000000000000000000000000000400000000000000"
    ),
}


class Gate:
    """The steps of such a program, in order. Raises ValueError for an unknown processor."""

    def __init__(self, machine: str = "") -> None:
        self.machine = machine or os.uname().machine
        if self.machine not in CODE:
            raise ValueError(f"the instructions of {self.machine} are not known")
        self._data, self._steps = bytearray(), list[bytes]()

    def put(self, data: bytes) -> int:
        """Return the future address of these bytes."""
        address = _BASE + _HEADERS + len(self._data)
        self._data += data + bytes(-len(data) % 8)
        return address

    def call(self, label: str, name: str | int, *arguments: int) -> None:
        """Add a system call; if the kernel refuses it, the program names `label` was refused and ends with 126."""
        number = _NUMBERS[self.machine][name] if isinstance(name, str) else name
        said = f"The sandbox cannot be raised: the kernel refused {label}.\n".encode()
        self._add(number, arguments, said)

    def allow(self, rights: int, path: bytes) -> None:
        """Grant rights on a path in the Landlock ruleset of the previous call. None are granted if the path is missing,
        or leads through a symlink."""
        path += bytes(8 - len(path) % 8)
        self._steps.append(struct.pack("<IIQ", _RULE, 16 + len(path), rights) + path)

    def filter(self, code: bytes) -> None:
        """Add a filter: from then on, only the system calls that a kernel program allows."""
        described = struct.pack("<HxxxxxxQ", len(code) // 8, self.put(code))
        self.call("a seccomp filter", "prctl", 22, 2, self.put(described))

    def made(self) -> bytes:
        """Return the program, as an ELF file."""
        self._add(_END, (), b"The command cannot be run: it is not a program, or may not be run in the sandbox.\n")
        code = bytes.fromhex(CODE[self.machine])
        body = b"".join((self._data, code, *self._steps))
        size, start = _HEADERS + len(body), _BASE + _HEADERS + len(self._data)
        ident = b"\x7fELF\2\1\1".ljust(16, b"\0")  # 64 bits, little-endian, version 1
        machine = _MACHINES[self.machine]
        header = struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, start, 64, 0, 0, 64, 56, 1, 64, 0, 0)
        segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x10000)  # loaded, to read and to run
        return ident + header + segment + body

    def _add(self, number: int, arguments: "tuple[int, ...]", data: bytes) -> None:
        four = (*arguments, 0, 0, 0, 0)[:4]
        self._steps.append(struct.pack("<IIqQQQQQ", number, 56, *four, self.put(data), len(data)))


class Wall:
    """Such a program that sets up a sandbox. It is in memory until it is closed; processes started by then continue."""

    def __init__(self, program: bytes) -> None:
        """Raises OSError."""
        self._file = -1
        try:
            self._file = os.memfd_create("sagent-wall", os.MFD_CLOEXEC | 0x10)  # MFD_EXEC, where a system wants it
        except OSError:  # before Linux 6.3
            self._file = os.memfd_create("sagent-wall")
        with open(self._file, "wb", closefd=False) as file:
            file.write(program)
        self.path = f"{os.path.realpath('/proc/self')}/fd/{self._file}"

    _close = staticmethod(os.close)  # the module may be empty already when the last one goes, with the interpreter

    def close(self) -> None:
        if self._file >= 0:
            self._close(self._file)
            self._file = -1

    def __del__(self) -> None:
        self.close()


# -- a command that starts no others

_CALLS = {"x86_64": (0xC000003E, 56, (57, 58)), "aarch64": (0xC00000B7, 220, ())}  # for audit; clone; fork, vfork
_CLONE3, _X32, _THREAD = 435, 0x40000000, 0x10000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _REFUSE, _MISSING = 0x7FFF0000, 0x80000000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS


@functools.cache
def childless(process: int) -> Wall | None:
    """Return a program that becomes another, which can start threads but no processes. Process `process`, this one,
    holds it open. Return None if the system has no such means; only use shows whether it may run."""
    machine = os.uname().machine
    if process != os.getpid() or machine not in _CALLS or sys.maxsize < 1 << 32 or not hasattr(os, "memfd_create"):
        return None
    gate = Gate()
    gate.call("PR_SET_NO_NEW_PRIVS", "prctl", 38, 1)
    gate.filter(_filter(*_CALLS[machine]))
    try:
        return Wall(gate.made())
    except OSError:
        return None


def _filter(audit: int, clone: int, others: tuple[int, ...]) -> bytes:
    code = [(_LOAD, 4, 0, 0), (_EQUAL, audit, 1, 0), (_RETURN, _KILL, 0, 0), (_LOAD, 0, 0, 0)]
    code += [(_EQUAL, _CLONE3, 0, 1), (_RETURN, _MISSING, 0, 0)]  # its flags cannot be seen: then clone is used
    for number in others:
        code += [(_EQUAL, number, 0, 1), (_RETURN, _REFUSE, 0, 0), (_AT_LEAST, _X32, 0, 1), (_RETURN, _MISSING, 0, 0)]
    code += [(_EQUAL, clone, 0, 3), (_LOAD, 16, 0, 0), (_ANY_BIT, _THREAD, 1, 0), (_RETURN, _REFUSE, 0, 0)]
    code.append((_RETURN, _ALLOW, 0, 0))
    return b"".join(struct.pack("HBBI", operation, yes, no, value) for operation, value, yes, no in code)
