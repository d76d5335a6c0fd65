"""Unified diffs as numbered lines in the colours of their language, with the changed words marked. Cards, questions,
commands and pages all show changes by these rows."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from sagent.lib.diff import LEFT_OUT
from sagent.lib.text import spelled
from sagent.repl.view.lines import FILL, TAB, Line, cut_line, line_width, printable, slice_line, wrap
from sagent.repl.view.markdown import colour

MAX_DIFF_LINES = 60
MAX_WORDS, MAX_PAIRS = 100, 60  # of a line, and of lines in a change, to compare by words
_MIN_ALIKE = 0.5  # of two lines: less alike ones are replaced as a whole
_PLACE = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)$")
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_STYLES = {"+": ("class:diff.added", "class:line-added"), "-": ("class:diff.removed", "class:line-removed")}
_CHANGED = {"+": "class:word-added", "-": "class:word-removed"}

Row: TypeAlias = tuple[str, int, Line]
"""A sign ("+", "-", " ", "" for a note between lines), a line's number, 0 for a note, and its text."""


def diff_rows(diff: str, say: Callable[[str], str] = printable, path: str = "") -> Iterator[Row]:
    """Yield the rows of a diff, of a file with this path unless it has names of its own. Lines are compared by words
    and coloured as they are asked for."""
    run: list[tuple[str, int, str]] = []  # removed lines, then added ones
    language = _language(path)
    for sign, number, text in _parsed(diff):
        if run and (sign not in ("+", "-") or (sign == "-" and run[-1][0] == "+")):
            yield from _compared(run, language)
            run = []
        if sign in ("+", "-"):
            run.append((sign, number, say(text.replace("\t", TAB))))
        elif sign == "@":
            language = _language(text)
            yield from [("", 0, (("class:dim", say(text)),))] if number else []
        else:
            shown = say(text.replace("\t", TAB))
            yield sign, number, tuple((f"{style} class:diff.context", part) for style, part in colour(shown, language))
    yield from _compared(run, language)


def render_diff(diff: str, width: int, *, max_lines: int = MAX_DIFF_LINES) -> list[Line]:
    """Return the diff in at most about `max_lines` lines; the others are counted, with a hint on how to see them."""
    rows, shown = diff_rows(diff), list[Line]()
    for row in rows:
        if len(shown) == max_lines:
            left = sum(1 for _ in _parsed(diff)) - max_lines
            return [*shown, (("class:dim", f"     … {left} more lines"), ("class:hint", ", Ctrl-O shows them"))]
        lead, text, fill = _drawn(row)
        shown.append((*cut_line((*lead, *text), width), *fill))
    return shown


def render_whole_diff(diff: str, width: int, path: str = "") -> list[Line]:
    """Return all of a diff, with invisible and confusable characters marked; longer lines go on in the next row."""
    shown = list[Line]()
    for row in diff_rows(diff, spelled, path):
        lead, text, fill = _drawn(row)
        for line in wrap(text, width, lead):
            room = " " * (width - line_width(line))
            shown.append((*line, *((style, room) for style, _ in fill)))
    return shown


class Changes(NamedTuple):
    """The files that a diff names, and the numbers of its lines; only of the first ones if the diff was `cut`."""

    files: frozenset[str]
    added: int
    removed: int
    cut: bool


def changes(diff: str) -> Changes:
    """Count the changes of a diff."""
    rows = list(_parsed(diff))
    signs = [sign for sign, _, _ in rows]
    files = frozenset(text for sign, _, text in rows if sign == "@")
    return Changes(files, signs.count("+"), signs.count("-"), any(text == f"  {LEFT_OUT}" for _, _, text in rows))


def _drawn(row: Row) -> tuple[Line, Line, Line]:
    """Return the number and sign of a row, its text, and the colour up to the edge."""
    sign, number, text = row
    if not sign:
        return (("class:dim", "   "),), text, ()
    edge, line = _STYLES.get(sign, ("class:diff.context", ""))
    return (
        (("class:dim", f"{number:>5} "), (f"{edge} {line}".strip(), f"{sign} ")),
        text,
        ((f"{line} {FILL}", ""),) if line else (),
    )


def _language(path: str) -> str:
    return path.rpartition(".")[2].lower() if "." in path else ""


def _parsed(diff: str) -> Iterator[tuple[str, int, str]]:
    """Yield the sign, number and text of each line; "@" and a file's name where its lines begin, 0 for the first."""
    old = new = old_end = new_end = 0
    named = begun = False
    for line in diff.removesuffix("\n").split("\n"):
        if place := _PLACE.match(line):
            old, new = int(place[1]), int(place[3])
            old_end, new_end = old + int(place[2] or 1), new + int(place[4] or 1)
            if begun and not named:
                yield "", 0, "⋯"
            named, begun = False, True
        elif old >= old_end and new >= new_end and line.startswith(("--- ", "+++ ")):  # the next file
            if line.startswith("+"):
                yield "@", int(begun), line[4:].removeprefix("b/")
                named = True
        elif not begun or named:
            continue
        elif (mark := line[:1] or " ") not in "+- ":  # no newline at the end, or more was left out
            yield "", 0, f"  {line}"
        else:
            yield mark, old if mark == "-" else new, line[1:]
            old += mark != "+"
            new += mark != "-"


def _compared(run: Sequence[tuple[str, int, str]], language: str) -> Iterator[Row]:
    """Yield changed lines; a removed and an added one that are much alike have their different words marked."""
    removed = [text for sign, _, text in run if sign == "-"]
    added = [text for sign, _, text in run if sign == "+"]
    places = _changes(removed, added) if len(removed) * len(added) <= MAX_PAIRS else {}
    for at, (sign, number, text) in enumerate(run):
        yield sign, number, _marked(colour(text, language), places.get(at, ()), sign)


def _changes(removed: Sequence[str], added: Sequence[str]) -> dict[int, list[tuple[int, int]]]:
    """Return the places that differ, by words, in each line of a change that resembles one of the other side. In order,
    each added line is compared with the removed one that it is most like."""
    from difflib import SequenceMatcher

    found = dict[int, list[tuple[int, int]]]()
    old, new = ([_WORD.findall(text)[:MAX_WORDS] for text in texts] for texts in (removed, added))
    first = 0
    for at, after in enumerate(new, len(old)):
        pairs = [SequenceMatcher(None, before, after, autojunk=False) for before in old[first:]]
        best = max(pairs, key=SequenceMatcher[str].quick_ratio, default=None)
        if best is None or best.quick_ratio() < _MIN_ALIKE or best.ratio() < _MIN_ALIKE:
            continue
        place = first + pairs.index(best)
        found[place], found[at], first, before = [], [], place + 1, old[place]
        for tag, i1, i2, j1, j2 in best.get_opcodes():
            if tag != "equal":
                found[place].append((len("".join(before[:i1])), len("".join(before[:i2]))))
                found[at].append((len("".join(after[:j1])), len("".join(after[:j2]))))
    return found


def _marked(text: Line, places: Sequence[tuple[int, int]], sign: str) -> Line:
    spans, at = list[tuple[str, str]](), 0
    for start, end in (*places, (1_000_000_000, 0)):
        spans += [(f"{style} {_STYLES[sign][1]}", part) for style, part in slice_line(text, at, start)]
        changed = slice_line(text, start, end) if end > start else ()
        spans += [(f"{style} {_STYLES[sign][1]} {_CHANGED[sign]}", part) for style, part in changed]
        at = max(at, end)
    return tuple(spans)
