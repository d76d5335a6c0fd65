"""Find the file for a block without a path: a small model shows a new version and forgets to name the file."""

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

MIN_LIKENESS = 0.6
MIN_LENGTH = 0.7  # of the file's: a part of a file must not take the place of the whole
MIN_LINES = 5  # files with fewer are compared letter by letter
MAX_LINES = 1_000  # comparing more takes too long


def find_original(files: Mapping[str, str], lines: Sequence[str]) -> str:
    """Return the path of the one file of which these lines are a new version; "" if there is no such file."""
    block = [line.rstrip() for line in lines if line.strip()]
    like = [path for path, text in files.items() if _is_version(block, text)]
    return like[0] if len(like) == 1 else ""


def _is_version(block: Sequence[str], text: str) -> bool:
    """Return True for lines that are similar to a text from its first line on, but not the same."""
    file = [line.rstrip() for line in text.splitlines() if line.strip()]
    if not block or not file or block == file or len(block) < MIN_LENGTH * len(file):
        return False
    if max(len(block), len(file)) > MAX_LINES:
        return False
    if _letters(block[0], file[0]) < MIN_LIKENESS:
        return False
    if len(file) < MIN_LINES:
        return _letters("\n".join(block), "\n".join(file)) >= MIN_LIKENESS
    matcher = SequenceMatcher(None, block, file, autojunk=False)
    return matcher.quick_ratio() >= MIN_LIKENESS and matcher.ratio() >= MIN_LIKENESS


def _letters(name: str, other: str) -> float:
    matcher = SequenceMatcher(None, name[:1_000], other[:1_000], autojunk=False)
    return matcher.ratio() if matcher.real_quick_ratio() >= MIN_LIKENESS else 0.0
