"""Recognises the output of programs that a sandbox has stopped, and what to say about it."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from sagent.sandbox.profile import Profile

HOW_TO_ASK = ". If that is why it failed, call again with `needs` and `reason`: the person will be asked"
_HELD_BACK = re.compile(
    r"Read-only file system|Permission denied|Operation not permitted|Device or resource busy|Bad system call|"
    r"EROFS|EACCES|EPERM|EBUSY|writable by group"  # the last is git's message for a repository shared by a group
)
# Messages of programs that ignore the error and still succeed: the end of a line about a file that a box has mounted
# read-only, or git's about a submodule with a read-only `.git` and configuration.
_PASSED_OVER = re.compile(
    r": (?:Device or resource busy|Read-only file system)\r?$|"
    r"^(?:warning: )?Could not (?:unset core\.worktree setting in submodule|remove submodule work tree) ",
    re.MULTILINE,
)
_REFUSED = re.compile("Operation not permitted|EPERM|writable by group")
_SET_ID = (
    ". No file or directory gets a set-user-ID or set-group-ID bit, not even one that it has already: where directories"
    " have it, `chmod g-s` them first, or copy with `cp -r`"
)
_CUT_OFF = re.compile(
    r"[Cc]ould not resolve|name resolution|Name or service not known|EAI_AGAIN|ENOTFOUND|Network is unreachable|"
    r"nodename nor servname|No address associated|X-Sagent-Sandbox|blocked by the sandbox"
)


def was_held_back(shown: str, *, failed: bool) -> bool:
    """Return True if a program's output suggests that its sandbox refused something; `failed` is its exit code's
    verdict."""
    signs = (_CUT_OFF, _HELD_BACK) if failed else (_CUT_OFF, _PASSED_OVER)
    return any(sign.search(shown) for sign in signs)


def within(
    profile: Profile,
    roots: Iterable[Path],
    temporary: str = "/tmp",  # noqa: S108 -- as it is called
    said: str = "",
) -> str:
    """Describe what a program in a sandbox could reach and which of a workspace's roots it could write, and other
    possible reasons for its output."""
    reached = f"only {', '.join(profile.domains)} can be reached" if profile.domains else "there is no network"
    own = (str(root) for root in roots if profile.can_write(os.path.realpath(root)))
    written = ", ".join((*own, temporary))
    aside = "without what programs run or obey by themselves there (`.git/config`, `.git/hooks`, `.envrc`, ...)"
    limits = f"it ran in a sandbox: {reached}, and only {written} can be written, {aside}"
    return limits + (_SET_ID if _REFUSED.search(said) else "")
