"""A program that becomes another, which then can start none itself.

Git runs what the configuration and the attributes of a repository name. Who looks at these before git does sees what
they said a moment ago, and a command that works in the repository may have written something else by then.
"""

import errno
import functools
import os
import struct
import sys
from contextlib import suppress

from sagent.lib.gate import Gate, Wall

_SUPPORTED = "/proc/sys/kernel/seccomp/actions_avail"
_NOEXEC = "/proc/sys/vm/memfd_noexec"  # 2 where a file in memory cannot be run
_MACHINES = {"x86_64": (0xC000003E, 56, (57, 58)), "aarch64": (0xC00000B7, 220, ())}  # for audit; clone; fork, vfork
_CLONE3, _X32, _THREAD = 435, 0x40000000, 0x10000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _REFUSE, _MISSING = 0x7FFF0000, 0x80000000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS


@functools.cache
def childless(process: int) -> Wall | None:
    """The program, held open by this process, whose id is given; None where the system has no way for it."""
    machine = os.uname().machine
    known = machine in _MACHINES and sys.maxsize > 1 << 32 and process == os.getpid()
    if not (known and os.path.exists(_SUPPORTED)):  # noqa: PTH110 -- at every start
        return None
    with suppress(OSError), open(_NOEXEC) as file:  # noqa: PTH123 -- as above
        if file.read(1) == "2":
            return None
    gate = Gate()
    gate.call("PR_SET_NO_NEW_PRIVS", "prctl", 38, 1)
    gate.filter(_filter(*_MACHINES[machine]))
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
