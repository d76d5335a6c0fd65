"""The files under a directory: hidden ones too, `.git` and what git ignores left out, symlinks not followed.

What git ignores is what `.gitignore` files say, nested ones too, and `.git/info/exclude`; a user's global file does not
count. https://git-scm.com/docs/gitignore. ripgrep reads the same files; where the two differ (a repository inside
another) this follows ripgrep, so that a search says the same with and without it.
"""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from sagent.tools.globs import glob_regex


def walk(root: str, stop: Callable[[], bool]) -> Iterator[str]:
    """Paths of regular files relative to `root`, in no order. What cannot be read is passed over."""
    root = os.path.realpath(root)
    base = len(root.rstrip("/")) + 1
    stack = [(root, _Ignored.at(root))]
    while stack and not stop():
        directory, ignored = stack.pop()
        try:
            entries = list(os.scandir(directory))
        except OSError:
            continue
        for entry in entries:
            if entry.name == ".git" or entry in ignored:
                continue
            if entry.is_dir(follow_symlinks=False):
                stack.append((entry.path, ignored.enter(entry.path)))
            elif entry.is_file(follow_symlinks=False):
                yield entry.path[base:]


class _Rule(NamedTuple):
    """A line of an ignore file, for paths below its directory."""

    prefix: str
    regex: "re.Pattern[str]"
    ignores: bool  # or else makes an exception
    only_directories: bool


class _Ignored:
    """What is ignored in one directory, by its own rules and those of the directories above it in the repository.

    The last rule that fits decides.
    """

    def __init__(self, rules: tuple[_Rule, ...] = ()) -> None:
        self._rules = rules

    @classmethod
    def at(cls, directory: str) -> "_Ignored":
        """The rules that hold in a directory, from the root of its repository, or of the file system, downwards."""
        found = cls()
        for place in (*reversed(Path(directory).parents), directory):
            found = found.enter(str(place))
        return found

    def enter(self, directory: str) -> "_Ignored":
        """The rules that hold in a directory right below."""
        prefix = directory.rstrip("/") + "/"
        git, rules = prefix + ".git", self._rules
        if os.path.lexists(git):  # a repository of its own: nothing from above counts
            rules = _load(f"{_common_directory(git)}/info/exclude", prefix)
        return _Ignored(rules + _load(prefix + ".gitignore", prefix))

    def __contains__(self, entry: "os.DirEntry[str]") -> bool:
        """Whether a directory entry is ignored; its path must be absolute."""
        is_dir = entry.is_dir(follow_symlinks=False)
        for prefix, regex, ignores, only_directories in reversed(self._rules):
            if (is_dir or not only_directories) and regex.fullmatch(entry.path, len(prefix)):
                return ignores
        return False


def _load(path: str, prefix: str) -> tuple[_Rule, ...]:
    try:
        lines = Path(path).read_text("utf-8-sig", "surrogateescape").split("\n")
    except OSError:
        return ()
    return tuple(rule for line in lines if (rule := _parse(line.removesuffix("\r"), prefix)))


def _common_directory(git: str) -> str:
    """The directory that holds `info`: `.git` itself, or where the `.git` file of a worktree or submodule leads."""
    try:
        leads_to = Path(git).read_text("utf-8", "surrogateescape").removeprefix("gitdir:").strip()
        directory = Path(git).parent / leads_to
        common = (directory / "commondir").read_text("utf-8", "surrogateescape").strip()
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
    if not line:
        return None
    regex = ("" if "/" in line else "(?:.*/)?") + glob_regex(line.removeprefix("/"), braces=False)
    return _Rule(prefix, re.compile(regex, re.DOTALL), not negated, only_dirs)
