"""Paths that deny rules cover, on file systems where one name has several spellings."""

import os
import re
import unicodedata
from collections.abc import Iterable
from functools import cached_property


class Denial:
    """Regular expressions of denied paths, compared to a path as spelled and as the file system may read it."""

    def __init__(self, regexes: Iterable[str]) -> None:
        self._regex = "|".join(f"(?:{regex})" for regex in regexes) or "(?!)"
        self._exact = re.compile(self._regex, re.DOTALL)

    def covers(self, path: str) -> bool:
        """Return True if an absolute path is denied."""
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
    """Return a form of a path that is equal for all spellings that any file system treats as one."""
    return unicodedata.normalize("NFC", path).casefold()


def ignores_case(path: str) -> bool:
    """Return True if the nearest existing parent of an absolute path can also be found in another case."""
    while path:
        above, _, name = path.rpartition("/")
        if name.swapcase() != name and os.path.lexists(path):
            try:
                return os.path.samestat(os.lstat(path), os.lstat(f"{above}/{name.swapcase()}"))
            except OSError:
                return False
        path = above
    return False
