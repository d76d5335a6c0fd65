"""Which files git ignores: `.gitignore` files, nested ones too, and `.git/info/exclude`. https://git-scm.com/docs/gitignore

ripgrep reads the same files; where the two differ (a repository inside another) this follows ripgrep, so that a search
says the same with and without it. A user's global ignore file does not count.
"""

import os
import re
from pathlib import Path

from sagent.tools.globs import glob_regex


class Rules:
    """The patterns of one ignore file, for paths relative to its directory."""

    def __init__(self, text: str, prefix: str) -> None:
        self.prefix = prefix
        self._patterns = [pattern for line in text.split("\n") if (pattern := _parse(line.removesuffix("\r")))]

    def verdict(self, path: str, *, is_dir: bool) -> bool | None:
        """True: ignored; False: an exception; None: these patterns do not say. The last pattern that fits decides."""
        relative = path[len(self.prefix) :]
        for regex, negated, only_dirs in reversed(self._patterns):
            if (is_dir or not only_dirs) and regex.fullmatch(relative):
                return not negated
        return None


class Ignored:
    """What is ignored in one directory: its own rules, then those of the directories above it in the repository."""

    def __init__(self, rules: tuple[Rules, ...]) -> None:
        self._rules = rules

    @classmethod
    def at(cls, directory: str) -> "Ignored":
        """The rules that hold in a directory, from the root of its repository, or of the file system, downwards."""
        found = cls(())
        for place in (*reversed(Path(directory).parents), directory):
            found = found.enter(str(place))
        return found

    def enter(self, directory: str) -> "Ignored":
        """The rules that hold in a directory right below."""
        own: tuple[Rules, ...] = ()
        rules = self._rules
        prefix = directory.rstrip("/") + "/"
        git = prefix + ".git"
        if os.path.lexists(git):  # a repository of its own: nothing from above counts
            rules = ()
            own = _load(f"{_common_directory(git)}/info/exclude", prefix)
        own += _load(prefix + ".gitignore", prefix)
        return Ignored(rules + own) if own or rules is not self._rules else self

    def __contains__(self, entry: "os.DirEntry[str]") -> bool:
        """Whether a directory entry is ignored; its path must be absolute."""
        is_dir = entry.is_dir(follow_symlinks=False)
        for rules in reversed(self._rules):
            verdict = rules.verdict(entry.path, is_dir=is_dir)
            if verdict is not None:
                return verdict
        return False


def _load(path: str, prefix: str) -> tuple[Rules, ...]:
    try:
        return (Rules(Path(path).read_text("utf-8-sig", "surrogateescape"), prefix),)
    except OSError:
        return ()


def _common_directory(git: str) -> str:
    """The directory that holds `info`: `.git` itself, or where the `.git` file of a worktree or submodule leads."""
    try:
        leads_to = Path(git).read_text("utf-8", "surrogateescape").removeprefix("gitdir:").strip()
        directory = Path(git).parent / leads_to
        common = (directory / "commondir").read_text("utf-8", "surrogateescape").strip()
        return str(directory / common)
    except OSError:
        return git


def _parse(line: str) -> "tuple[re.Pattern[str], bool, bool] | None":
    """A line's regular expression, whether it makes an exception, whether it is for directories only."""
    if line.startswith("#"):
        return None
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    negated = line.startswith("!")
    line = line[negated:]
    only_dirs = line.endswith("/")
    line = line.rstrip("/") if only_dirs else line
    if not line:
        return None
    anchored = "/" in line
    regex = glob_regex(line.removeprefix("/"), braces=False)
    return re.compile(regex if anchored else f"(?:.*/)?{regex}", re.DOTALL), negated, only_dirs
