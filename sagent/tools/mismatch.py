"""Why quoted text was not found in a file: what it nearly matches."""

import re
from collections.abc import Callable, Sequence

_MOST_LINES = 20_000
_QUOTES = str.maketrans("‘’“”\u00a0–—", "''\"\" --")


def explain(text: str, old: str) -> str:
    """One or two sentences and the nearest lines, with their numbers."""
    lines, wanted = text.split("\n"), old.strip("\n").split("\n")
    if all(re.match(r"\s*\d+\t", line) for line in wanted if line):
        return "old_string was not found: it contains the line numbers that Read shows. Leave them out."
    for differs, view in _VIEWS:
        place = _find([view(line) for line in lines], [view(line) for line in wanted])
        if place is not None:
            return f"old_string was not found: it differs from the file in {differs}. The file says:\n" + _numbered(
                lines, place, len(wanted)
            )
    place = _nearest(lines, wanted)
    if place is None:
        return "old_string was not found, nor anything like it. Read the file again."
    return "old_string was not found. The nearest lines are:\n" + _numbered(lines, place, len(wanted))


def _squeeze(line: str) -> str:
    return " ".join(line.split())


_VIEWS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("white space at line ends", str.rstrip),
    ("indentation or white space", _squeeze),
    ("quotes, dashes or white space", lambda line: _squeeze(line.translate(_QUOTES))),
    ("letter case", lambda line: _squeeze(line).lower()),
    ("escaped characters", lambda line: _squeeze(line.replace("\\", ""))),
)


def _find(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Where the wanted lines stand: as whole lines, or within one."""
    if not any(wanted):
        return None
    if len(wanted) == 1:
        return next((index for index, line in enumerate(lines) if wanted[0] in line), None)
    for index in range(len(lines) - len(wanted) + 1):
        if lines[index + 1] != wanted[1] and len(wanted) > 2:
            continue
        if (
            lines[index].endswith(wanted[0])
            and list(lines[index + 1 : index + len(wanted) - 1]) == list(wanted[1:-1])
            and lines[index + len(wanted) - 1].startswith(wanted[-1])
        ):
            return index
    return None


def _nearest(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Where the longest of the wanted lines has its best likeness."""
    from difflib import get_close_matches

    longest = max(range(len(wanted)), key=lambda index: len(wanted[index]))
    stripped = [line.strip()[:500] for line in lines[:_MOST_LINES]]
    near = get_close_matches(wanted[longest].strip()[:500], list(dict.fromkeys(stripped)), 1, 0.6)
    return max(0, stripped.index(near[0]) - longest) if near else None


def _numbered(lines: Sequence[str], start: int, count: int) -> str:
    shown = lines[start : start + min(count, 12)]
    text = "\n".join(f"{start + offset + 1}\t{line[:300]}" for offset, line in enumerate(shown))
    return f"{text}\n"
