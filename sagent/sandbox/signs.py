"""Recognises the output of programs that a sandbox has stopped, and what to say about it."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from sagent.sandbox.profile import Profile

_HELD_BACK = re.compile(
    r"Read-only file system|Permission denied|Operation not permitted|Device or resource busy|Bad system call|"
    r"EROFS|EACCES|EPERM|EBUSY"
)
_CUT_OFF = re.compile(
    r"[Cc]ould not resolve|name resolution|Name or service not known|EAI_AGAIN|ENOTFOUND|Network is unreachable|"
    r"nodename nor servname|No address associated|X-Sagent-Sandbox|blocked by the sandbox"
)


def was_held_back(shown: str, *, failed: bool) -> bool:
    """Whether what a program has printed may come from its sandbox; `failed`: it says so itself."""
    return _CUT_OFF.search(shown) is not None or (failed and _HELD_BACK.search(shown) is not None)


def within(profile: Profile, roots: Iterable[Path], temporary: str = "/tmp") -> str:  # noqa: S108 -- as it is called
    """What a program in a sandbox could reach, and which of a workspace's roots it could write."""
    reached = f"only {', '.join(profile.domains)} can be reached" if profile.domains else "there is no network"
    own = (str(root) for root in roots if profile.can_write(os.path.realpath(root)))
    written = ", ".join((*own, temporary))
    return f"it ran in a sandbox: {reached}, and only {written} can be written"
