"""Lines that are long enough to tell one file from another."""

from collections.abc import Sequence

MIN_LETTERS = 12
"""Letters and digits in a line that counts when two whole files are compared."""
MIN_COPIED_LETTERS = 32
"""Letters and digits in lines that nobody types twice by chance."""


def letters(line: bytes) -> int:
    """Return the number of letters and digits in a line."""
    return len(line) if line.isalnum() else sum(map(str.isalnum, line.decode("utf-8", "replace")))


def is_renamed(old: Sequence[bytes], new: Sequence[bytes]) -> bool:
    """Return True if half of the long lines of a file are in another one."""
    texts = frozenset(new)
    long = [line for line in old if letters(line) >= MIN_LETTERS]
    return bool(long) and 2 * sum(line in texts for line in long) >= len(long)
