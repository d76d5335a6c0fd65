"""The files under a directory: hidden ones too, `.git` and what git ignores left out, symlinks not followed.

Ignored files are those in `.gitignore` files, including nested ones, and `.git/info/exclude`; a user's global file does
not count. https://git-scm.com/docs/gitignore. ripgrep reads the same files; where git and ripgrep differ (a repository
inside another) this follows ripgrep, so that a search gives the same results with and without it.
"""

import contextlib
import errno
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from sagent.lib.regular import read_regular
from sagent.lib.text import is_limit
from sagent.tools.globs import ignore_regex

_MAX_PATTERN_CHARS = 4_096  # of a line of an ignore file
_MAX_STEP_BYTES = 1_000 if sys.platform == "darwin" else 4_000  # of a path that is opened at once


def walk(
    root: str, stop: Callable[[], bool], *, ignored: bool = False, closed: list[str] | None = None
) -> Iterator[str]:
    """Paths of regular files relative to `root`, in no order; with `ignored` those too that git ignores. Directories
    that cannot be read are passed over, and added to `closed` as "name/"."""
    root = os.path.realpath(root)
    base = len(root.rstrip("/")) + 1
    rules: tuple[_Rule, ...] = ()
    for place in (*reversed(Path(root).parents), root):
        names = [name for name in (".git", ".gitignore") if os.path.lexists(f"{place}/{name}")]
        rules = _rules_in(str(place), rules, names)
    stack = [(root, rules)]
    while stack and not stop():
        directory, rules = stack.pop()
        try:
            entries = _entries(directory)
        except OSError as error:
            if is_limit(error):
                raise
            if closed is not None and error.errno not in (errno.ENOENT, errno.ENOTDIR):  # else it is gone
                closed.append(f"{directory[base:] or '.'}/")
            continue
        if directory != root:
            rules = _rules_in(directory, rules, {name for name, _, _ in entries})
        for name, is_directory, is_file in entries:
            path = f"{directory.rstrip('/')}/{name}"
            if name == ".git" or (not ignored and _is_ignored(path, rules, is_directory=is_directory)):
                continue
            if is_directory:
                stack.append((path, rules))
            elif is_file:
                yield path[base:]


def _entries(directory: str) -> list[tuple[str, bool, bool]]:
    """Return the names in a directory, each with whether it is a directory, or a file. Raises OSError."""
    first, *steps = re.findall(rb".{1,%d}(?:/|\Z)" % _MAX_STEP_BYTES, os.fsencode(directory), re.DOTALL)
    with contextlib.ExitStack() as stack:
        place: bytes | int = first
        for step in steps:  # the system takes no longer path at once
            above = os.open(place, os.O_RDONLY | os.O_DIRECTORY) if isinstance(place, bytes) else place
            place = os.open(step, os.O_RDONLY | os.O_DIRECTORY, dir_fd=above)
            os.close(above)
        if isinstance(place, int):
            stack.callback(os.close, place)
        found = stack.enter_context(os.scandir(os.fsdecode(place) if isinstance(place, bytes) else place))
        return [(each.name, each.is_dir(follow_symlinks=False), each.is_file(follow_symlinks=False)) for each in found]


class _Rule(NamedTuple):
    """A line of an ignore file, for paths below its directory."""

    prefix: str
    regex: "re.Pattern[str]"
    ignores: bool  # or else makes an exception
    only_directories: bool


def _rules_in(directory: str, above: tuple[_Rule, ...], names: Collection[str]) -> tuple[_Rule, ...]:
    """Return the rules of a directory directly below one with the rules `above`; the last match decides. `names` are
    its entries."""
    prefix = directory.rstrip("/") + "/"
    git = prefix + ".git"
    if ".git" in names and os.path.lexists(git):  # a nested repository: rules from above do not apply
        above = _load(f"{_common_directory(git)}/info/exclude", prefix)
    return above + _load(prefix + ".gitignore", prefix) if ".gitignore" in names else above


def _is_ignored(path: str, rules: tuple[_Rule, ...], *, is_directory: bool) -> bool:
    for prefix, regex, ignores, only_directories in reversed(rules):
        if (is_directory or not only_directories) and regex.fullmatch(path, len(prefix)):
            return ignores
    return False


def _load(path: str, prefix: str) -> tuple[_Rule, ...]:
    try:
        lines = read_regular(path).decode("utf-8-sig", "surrogateescape").split("\n")
    except OSError as error:
        if is_limit(error):  # its rules hide files
            raise
        return ()
    return tuple(rule for line in lines if (rule := _parse(line.removesuffix("\r"), prefix)))


def _common_directory(git: str) -> str:
    """Return the directory with `info`: `.git` itself, or the target of the `.git` file of a worktree or submodule."""
    try:
        leads_to = os.fsdecode(read_regular(git)).removeprefix("gitdir:").strip()
        directory = Path(git).parent / leads_to
        common = os.fsdecode(read_regular(directory / "commondir")).strip()
        return str(directory / common)
    except OSError:
        return git


def _parse(line: str, prefix: str) -> _Rule | None:
    if line.startswith("#"):
        return None
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    negated = line.startswith("!")
    line = line[negated:]
    only_dirs = line.endswith("/")
    line = line.rstrip("/")
    if not line or len(line) > _MAX_PATTERN_CHARS:
        return None
    regex = ("" if "/" in line else "(?:.*/)?") + ignore_regex(line.removeprefix("/"))
    return _Rule(prefix, re.compile(regex, re.DOTALL), not negated, only_dirs)
