"""Paths that deny rules are about, on file systems that take several spellings for one name."""

import os
import re
import unicodedata
from collections.abc import Iterable
from functools import cached_property


class Denial:
    """Regular expressions of denied paths, held against a path as it is spelled and as the file system may take it."""

    def __init__(self, regexes: Iterable[str]) -> None:
        self._regex = "|".join(f"(?:{regex})" for regex in regexes) or "(?!)"
        self._exact = re.compile(self._regex, re.DOTALL)

    def covers(self, path: str) -> bool:
        """Return whether an absolute path is denied."""
        if self._exact.fullmatch(path):
            return True
        path = unicodedata.normalize("NFC", path)
        if not self._folded.fullmatch(path):
            return False
        return self._composed.fullmatch(path) is not None or ignores_case(path)

    @cached_property
    def _composed(self) -> re.Pattern[str]:
        return re.compile(unicodedata.normalize("NFC", self._regex), re.DOTALL)

    @cached_property
    def _folded(self) -> re.Pattern[str]:
        return re.compile(unicodedata.normalize("NFC", self._regex), re.DOTALL | re.IGNORECASE)


def fold(path: str) -> str:
    """Return a path so that all spellings that any file system takes for it are equal."""
    return unicodedata.normalize("NFC", path).casefold()


def ignores_case(path: str) -> bool:
    """Return whether the nearest file or directory on an absolute path that exists is there in another case too."""
    while path:
        above, _, name = path.rpartition("/")
        if name.swapcase() != name and os.path.lexists(path):
            try:
                return os.path.samestat(os.lstat(path), os.lstat(f"{above}/{name.swapcase()}"))
            except OSError:
                return False
        path = above
    return False
