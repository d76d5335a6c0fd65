"""Edits in another form in place of quoted text: a diff, an `apply_patch`, search/replace blocks."""

import re
from collections.abc import Sequence

_HUNK = re.compile(r"@@ .*|@@")
_MARKS = tuple(re.compile(mark) for mark in ("<{5,9} ?SEARCH", "={5,9}", ">{5,9} ?REPLACE"))

Asked = tuple[str, str | None]
"""Lines and their replacements, both without the last line end; None for deletion."""


def parse_patch(old: str, name: str) -> list[Asked]:
    """Parse the edits in such a text; [] if it is none, about another file, or uncertain in any part."""
    lines = old.removesuffix("\n").split("\n")
    if any(map(_MARKS[0].fullmatch, lines)):
        return _blocks(lines, name)
    if lines[0] == "*** Begin Patch":
        if lines[-1] != "*** End Patch" or sum(line.startswith("*** ") for line in lines) != 3:
            return []
        named = lines[1].partition("*** Update File: ")[2]
        return _hunks(lines[2:-1]) if named.rpartition("/")[2] == name else []
    while lines and lines[0].startswith(("diff --git ", "index ")):
        lines = lines[1:]
    if lines[:1] and lines[0].startswith("--- "):
        named = lines[1].removeprefix("+++ ").split("\t")[0] if lines[1:] else ""
        if named.rpartition("/")[2] != name or any(line.startswith(("--- a/", "+++ b/")) for line in lines[2:]):
            return []
        lines = lines[2:]
    return _hunks(lines) if lines and _HUNK.fullmatch(lines[0]) else []


def _blocks(lines: Sequence[str], name: str) -> list[Asked]:
    """Parse search/replace blocks; [] if one is incomplete, or the text around them does not name the file."""
    parts: list[list[str]] = [[]]  # around, before, after, around, ...
    for line in lines:
        which = next((at for at, mark in enumerate(_MARKS) if mark.fullmatch(line)), None)
        if which is None or (which == 1 and len(parts) % 3 == 1):
            parts[-1].append(line)
        elif which == (len(parts) - 1) % 3:
            parts.append([])
        else:
            return []
    around = "\n".join(line for part in parts[::3] for line in part).strip()
    blocks = list(zip(parts[1::3], parts[2::3], strict=False))
    if len(parts) % 3 != 1 or (around and around.rpartition("/")[2] != name):
        return []
    if not all(any(map(str.strip, before)) for before, _ in blocks):
        return []
    return [("\n".join(before), "\n".join(after) if after else None) for before, after in blocks]


def _hunks(lines: Sequence[str]) -> list[Asked]:
    """Parse hunks; [] if a line is invalid, or a hunk has no place."""
    hunks: list[list[str]] = []
    for line in lines:
        if _HUNK.fullmatch(line):
            hunks.append([])
        elif not hunks or line[:1] not in ("", " ", "+", "-"):
            return []
        else:
            hunks[-1].append(line)
    pairs: list[Asked] = []
    for hunk in hunks:
        before = [line[1:] for line in hunk if not line.startswith("+")]
        after = [line[1:] for line in hunk if not line.startswith("-")]
        if not any(map(str.strip, before)):
            return []
        if before != after:
            pairs.append(("\n".join(before), "\n".join(after) if after else None))
    return pairs


def locate_edits(text: str, pairs: Sequence[Asked]) -> list[tuple[str, str]]:
    """Return the replacements in a text, [] unless all quoted lines match at a single place. Deleted lines take a line
    end along."""
    around = f"\n{text}\n"
    if any(not around.count(f"\n{before}\n") == text.count(before) == 1 for before, _ in pairs):
        return []
    return [(before, after) if after is not None else (_whole(text, before), "") for before, after in pairs]


def _whole(text: str, lines: str) -> str:
    return next((old for old in (f"{lines}\n", f"\n{lines}") if old in text), lines)
