"""Recognises the output of programs that a sandbox has stopped, and what to say about it."""

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from sagent.lib.git import work_tree_directories
from sagent.sandbox.profile import Profile, is_below

HOW_TO_ASK = ". If that is why it failed, call again with `needs` and `reason`: the person will be asked"
_HELD_BACK = re.compile(
    r"Read-only file system|Permission denied|Operation not permitted|Device or resource busy|Bad system call|"
    r"EROFS|EACCES|EPERM|EBUSY|writable by group|[Cc]ould not remove "  # the last two are git's
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


_NAME = re.compile(r"""'([^']+)'|‘([^’]+)’|"([^"]+)"|([^\s'"‘’]+)""")
_MAX_NAMED, _MAX_LINES = 8, 50


def was_held_back(shown: str, *, failed: bool) -> bool:
    """Return True if a program's output suggests that its sandbox refused something; `failed` is by its exit code."""
    signs = (_CUT_OFF, _HELD_BACK) if failed else (_CUT_OFF, _PASSED_OVER)
    return any(sign.search(shown) for sign in signs)


def within(
    profile: Profile,
    roots: Iterable[Path],
    temporary: str = "/tmp",  # noqa: S108 -- as it is called
    message: str = "",
    starts: Iterable[Path] = (),
) -> str:
    """Describe what a program in a sandbox could reach and which of a workspace's roots it could write, and other
    possible reasons for what it `message` in the directories `starts`."""
    reached = f"only {', '.join(profile.domains)} can be reached" if profile.domains else "there is no network"
    own = (str(root) for root in roots if profile.can_write(os.path.realpath(root)))
    written = ", ".join((*own, temporary))
    aside = "without what programs run or obey by themselves there (`.git/config`, `.git/hooks`, `.envrc`, ...)"
    if found := _in_the_way(profile, message, starts):
        more = ", ..." if len(found) > _MAX_NAMED else ""
        asked = ", ".join(f'"write:{path}"' for path in found[:_MAX_NAMED])
        aside += f". To change, move or remove what it names there, `needs` are {asked}{more}"
    limits = f"it ran in a sandbox: {reached}, and only {written} can be written, {aside}"
    return limits + (_SET_ID if _REFUSED.search(message) else "")


def advice_on(
    output: str, profile: Profile | None, roots: Iterable[Path], temporary: str, starts: Iterable[Path], *, failed: bool
) -> list[str]:
    """Return what to do about a command that its sandbox may have kept from something."""
    if profile is None or not was_held_back(output, failed=failed):
        return []
    return [f"{within(profile, roots, temporary, output, starts)}{HOW_TO_ASK}"]


def stopped_halfway(remover: Callable[[str], str], profile: Profile | None) -> str:
    """Return why a command is not run that would remove a person's work tree, as `remover` tells for each: git and rm
    delete its files before they fail at those that are protected; "" for any other command."""
    there = [path for path in profile.protected if os.path.lexists(path)] if profile else []
    trees = [path.removesuffix("/.git") for path in there if path.endswith("/.git") and not os.path.isdir(path)]  # noqa: PTH112 -- texts; git refuses to remove a repository
    for tree in trees:
        if by := remover(tree):
            places = (tree, str(work_tree_directories(Path(tree))[0])) if by == "git" else (tree,)
            asked = ", ".join(f'"write:{path}"' for path in there if is_below(path, places))
            why = f"it would delete files of {tree} and then fail, as the sandbox protects others there"
            return f"{why}. Call again with `needs` {asked} and a `reason`: the person will be asked"
    return ""


def _in_the_way(profile: Profile, output: str, starts: Iterable[Path]) -> list[str]:
    """Return what is there of the protected paths that a program has named with a failure, that hold what it named, or
    lie below it: nothing can be renamed or removed that has a read-only file in it."""
    lines = [line for line in output.splitlines()[-_MAX_LINES:] if _HELD_BACK.search(line) or _PASSED_OVER.search(line)]
    names = {name.rstrip(":,.") for line in lines for found in _NAME.finditer(line) for name in found.groups() if name}
    there = [path for path in profile.protected if os.path.lexists(path)] if names else []
    for start in dict.fromkeys(starts):
        above = (str(start), *map(str, start.parents))
        places = {os.path.normpath(start / name) for name in names}.difference(above)
        found = [path for path in there if is_below(path, places) or any(is_below(place, [path]) for place in places)]
        own = {str(work_tree_directories(Path(path).parent)[0]) for path in found if path.endswith("/.git")}
        if found:
            return [*dict.fromkeys((*found, *(path for path in there if path.removesuffix("/gitdir") in own)))]
    return [path for path in there if any("/" in name and path.endswith(f"/{name}") for name in names)]
