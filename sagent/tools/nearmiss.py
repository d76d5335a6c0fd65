"""Repair of edits that quote a file inexactly: only if they have a single meaning, and a single place.

Each reading gives pairs of old and new text; the old ones are the file's own and replaced as usual. Lines that the edit
leaves alone stay as in the file.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from operator import methodcaller

from sagent.lib.lookalike import find_canonical
from sagent.lib.text import same_ends
from sagent.tools.patches import locate_edits, parse_patch

QUOTES = str.maketrans("‘’“”\u00a0–—", "''\"\" --")
_NUMBER = re.compile(r"[ ]*\d+\t")
_MAX_LINES = 20_000  # that are looked through
_MAX_TEXT_CHARS = 1_000_000  # a longer text could not be shown for approval

Pair = tuple[str, str]
Lines = Sequence[str]


def recover_edits(text: str, old: str, new: str, name: str = "", *, everywhere: bool = False) -> list[Pair]:
    """Return the replacements that an edit means, [] if that is not certain. `text` has LF line ends; `name` is the
    file's. "All places" is certain if there is only one in every reading."""
    lines = text.split("\n")
    if len(lines) > _MAX_LINES or len(text) > _MAX_TEXT_CHARS:
        return []
    if (
        everywhere
        and len(_places(lines, old.removesuffix("\n").split("\n"), lambda line: _unquoted(line).strip())) != 1
    ):
        return []
    if len(places := find_canonical(text, old, new)) == 1:
        made, found = places[0].made, text[places[0].start : places[0].stop]
        return [] if text.count(found) > 1 or found == made else [(found, made)]  # or a part of a letter elsewhere
    if not new and (pairs := parse_patch(old, name)):
        return locate_edits(text, pairs)
    if (bare := _without_numbers(old)) is not None:
        stripped = _without_numbers(new)
        if stripped is None and any(map(_NUMBER.match, new.split("\n"))):
            return []
        found = _numbered(lines, old, bare, new if stripped is None else stripped)
        return [found] if found else []
    if old.endswith("\n") != new.endswith("\n") and new:
        return []
    for view, rewrite in ((str.rstrip, _plain), (_unquoted, _requoted), (methodcaller("strip", " \t"), _reindented)):
        if found := _read(lines, old, new, view, rewrite):
            return [found]
    return []


Rewrite = Callable[[Lines, Lines, Lines], list[str] | None]
"""Returns the new lines, from the file's, the quoted and the given ones; None if that is not certain."""


def _read(lines: Lines, old: str, new: str, view: Callable[[str], str], rewrite: Rewrite) -> Pair | None:
    """Return an edit whose quoted lines match lines of the file in some reading, at one place."""
    ends = old.endswith("\n")
    quoted = old.removesuffix("\n").split("\n")
    given = new.removesuffix("\n").split("\n") if new else []
    places = _places(lines, quoted, view)
    if len(places) != 1 or not any(map(view, quoted)):
        return None
    own = lines[places[0] : places[0] + len(quoted)]
    if any(len({mine for mine, line in zip(own, quoted, strict=True) if line == one}) > 1 for one in given):
        return None  # a quoted line matches two lines of the file, ambiguously
    made = rewrite(own, quoted, given)
    if made is None or made == list(own):
        return None
    if ends and places[0] + len(quoted) == len(lines):
        if not quoted[-1]:
            return None  # an empty last line does not exist
        first = "\n" if places[0] else ""  # a missing last line end was not shown, so none is added
        return first + "\n".join(own), first + "\n".join(made) if new else ""
    last = "\n" if ends else ""
    return "\n".join(own) + last, "\n".join(made) + (last if new else "")


def _places(lines: Lines, quoted: Lines, view: Callable[[str], str]) -> list[int]:
    """Find the places of lines that are equal by `view`."""
    seen, wanted = [view(line) for line in lines], [view(line) for line in quoted]
    return [at for at in range(len(seen) - len(wanted) + 1) if seen[at : at + len(wanted)] == wanted]


def _plain(original: Lines, quoted: Lines, edited: Lines) -> list[str] | None:
    """Take lines that the edit leaves alone from the file, others as given."""
    known = dict(zip(quoted, original, strict=True))
    made: list[str] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, quoted, edited, autojunk=False).get_opcodes():
        made += original[i1:i2] if tag == "equal" else [known.get(line, line) for line in edited[j1:j2]]
    return made


def _unquoted(line: str) -> str:
    return line.translate(QUOTES)


def _requoted(original: Lines, quoted: Lines, edited: Lines) -> list[str] | None:
    """Return the new lines with the file's own quotation marks: in a changed line, equal beginnings and ends are the
    file's; the new part may not contain a mark that the file writes differently, because the intention is unknown."""
    pairs = zip("".join(original), "".join(quoted), strict=True)
    unclear = {mine.translate(QUOTES) for mine, theirs in pairs if mine != theirs}
    if not unclear.isdisjoint("'\""):
        unclear |= {"'", '"'}
    known, made = dict(zip(quoted, original, strict=True)), list[str]()
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, quoted, edited, autojunk=False).get_opcodes():
        if tag == "equal":
            made += original[i1:i2]
        elif all(line in known for line in edited[j1:j2]):
            made += [known[line] for line in edited[j1:j2]]
        elif tag == "replace" and i2 - i1 == j2 - j1:
            for mine, before, after in zip(original[i1:i2], quoted[i1:i2], edited[j1:j2], strict=True):
                head, tail = same_ends(before, after)
                between = after[head : len(after) - tail]
                if not unclear.isdisjoint(_unquoted(between)):
                    return None
                made.append(mine[:head] + between + mine[len(mine) - tail :])
        elif not unclear.isdisjoint(_unquoted("".join(edited[j1:j2]))):
            return None
        else:
            made += edited[j1:j2]
    return made


def _reindented(original: Lines, quoted: Lines, edited: Lines) -> list[str] | None:
    """Return the new lines with the file's own indents: each quoted indent maps to one of the file's; new lines have no
    others, unless all quoted lines have moved equally."""
    indents: dict[str, str] = {"": ""} if any(not line for line in original) and not any(quoted) else {}
    for mine, line in zip(original, quoted, strict=True):
        if line.strip() and indents.setdefault(_indent(line), _indent(mine)) != _indent(mine):
            return None
    known, made = dict(zip(quoted, original, strict=True)), list[str]()
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, quoted, edited, autojunk=False).get_opcodes():
        if tag == "equal":
            made += original[i1:i2]
            continue
        for line in edited[j1:j2]:
            if line in known:
                made.append(known[line])
            elif not line.strip():
                made.append("")
            elif (indent := indents.get(_indent(line), _moved(line, indents))) is None:
                return None
            else:
                made.append(indent + line.lstrip(" \t"))
    return made


def _moved(line: str, indents: Mapping[str, str]) -> str | None:
    """Return the indent for a new line if all quoted indents (two or more) differ from the file's by the same prefix;
    None if that would mix tabs and spaces, or leave the quoted block."""
    indent, pairs = _indent(line), indents.items()
    if len(indents) < 2:
        return None
    if (more := _before(pairs)) is not None and indent.startswith(more):
        indent = indent.removeprefix(more)
    elif (less := _before((own, quoted) for quoted, own in pairs)) is not None:
        indent = less + indent
    else:
        return None
    own = indents.values()
    return indent if indent.startswith(min(own, key=len)) and len(set(indent).union(*own)) == 1 else None


def _before(pairs: Iterable[tuple[str, str]]) -> str | None:
    """Return the prefix that makes every second text the first one; None if they differ."""
    found = {whole.removesuffix(part) if whole.endswith(part) else None for whole, part in pairs}
    return found.pop() if len(found) == 1 else None


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _without_numbers(text: str) -> str | None:
    """Return a text without the line numbers that Read shows; None if a line has none."""
    lines = text.split("\n")
    numbered = lines[:-1] if lines[-1] == "" else lines
    if not numbered or not all(map(_NUMBER.match, numbered)):
        return None
    return "\n".join(_NUMBER.sub("", line, count=1) for line in lines)


def _numbered(lines: Lines, old: str, bare: str, new: str) -> Pair | None:
    """Return an edit with line numbers, at the only place of its lines, which must match the numbers."""
    quoted = [line.split("\t", 1) for line in old.removesuffix("\n").split("\n")]
    wanted = [line for _, line in quoted]
    places = _places(lines, wanted, str)
    said = [list(range(place + 1, place + 1 + len(wanted))) for place in places]
    return (bare, new) if said == [[int(number) for number, _ in quoted]] and bare != new else None
