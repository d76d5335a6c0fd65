"""The differences between the files of two folders."""

from collections.abc import Iterator
from pathlib import Path


def folder_diff(before: Path, after: Path) -> Iterator[str]:
    """Yield the lines of a unified diff of the files that lie in both folders."""
    import difflib

    for old in sorted(before.iterdir()):
        new = after / old.name
        if old.is_file() and new.is_file():
            lines = (old.read_text("utf-8").splitlines(), new.read_text("utf-8").splitlines())
            yield from difflib.unified_diff(*lines, f"a/{old.name}", f"b/{old.name}", lineterm="")
