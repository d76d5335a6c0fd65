"""A program of a few instructions that confines itself by seccomp and becomes the one that its arguments name.

Commands enter a box one by one, and none of the system's programs by which they do can load a filter; an interpreter
would take as long to start as all of these.
"""

import os
import struct

from sagent.sandbox.confine import seccomp

_BASE = 0x400000  # where the file lies in memory
_FILTER = 0x78  # where the filter's description (sock_fprog) lies in the file: the headers come before
_NUMBERS = {"x86_64": 62, "aarch64": 183}  # of machines, in ELF
# prctl(PR_SET_NO_NEW_PRIVS, 1), prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, _BASE + _FILTER), execve(argv[1], argv + 1,
# environ); where one of the last two fails exit(126). At the start argc, argv and environ are on the stack, and the
# registers are 0.
_CODE = {
    "x86_64": (
        "bf26000000 be01000000 b89d000000 0f05"  # edi = 38, esi = 1, eax = 157; syscall
        "bf16000000 be02000000 ba78004000 b89d000000 0f05"  # edi = 22, esi = 2, edx = 0x400078, eax = 157; syscall
        "85c0 7518"  # if eax: exit
        "488d742410 488b3e 488b0424 488d54c410"  # rsi = rsp + 16, rdi = [rsi], rax = [rsp], rdx = rsp + 8 rax + 16
        "b83b000000 0f05"  # eax = 59; syscall
        "bf7e000000 b83c000000 0f05"  # exit: edi = 126, eax = 60; syscall
    ),
    "aarch64": (
        "c00480d2 210080d2 e81480d2 010000d4"  # x0 = 38, x1 = 1, x8 = 167; svc
        "c00280d2 410080d2 020f80d2 0208a0f2 e81480d2 010000d4"  # x0 = 22, x1 = 2, x2 = 0x400078, x8 = 167; svc
        "e00000b5"  # if x0: exit
        "e30340f9 e1430091 200040f9 220c038b"  # x3 = [sp], x1 = sp + 16, x0 = [x1], x2 = x1 + 8 x3
        "a81b80d2 010000d4"  # x8 = 221; svc
        "c00f80d2 a80b80d2 010000d4"  # exit: x0 = 126, x8 = 93; svc
    ),
}


def make_gate(machine: str = "") -> bytes:
    """The program, as an ELF file. Raises ValueError for a machine whose instructions are not known."""
    machine = machine or os.uname().machine
    program = seccomp(machine, network=True, apart=True)
    instructions = bytes.fromhex(_CODE[machine])
    start = _FILTER + 16 + len(program)
    size = start + len(instructions)
    described = struct.pack("<HxxxxxxQ", len(program) // 8, _BASE + _FILTER + 16)
    ident = b"\x7fELF\2\1\1".ljust(16, b"\0")  # 64 bits, little-endian, version 1
    header = struct.pack("<HHIQQQIHHHHHH", 2, _NUMBERS[machine], 1, _BASE + start, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x10000)  # loaded, to read and to run
    return ident + header + segment + described + program + instructions
