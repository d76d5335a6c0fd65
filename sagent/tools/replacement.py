"""Exact replacements of quoted text with any line ends; and the nearest match of one that was not found."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher

from sagent.errors import ToolError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import JsonObject, as_array, as_object, as_str, valid_text
from sagent.lib.lookalike import canonical, find_canonical, has_alike, reveal, skeleton
from sagent.messages import ToolCall
from sagent.tools.nearmiss import QUOTES, recover_edits
from sagent.tools.textfile import line_end

_MAX_LINES = 20_000
_MAX_SEARCHED_CHARS = 1_000_000  # to search for letters composed differently


@dataclass(frozen=True, slots=True)
class Replacement:
    """One edit; its texts have LF line ends."""

    old: str
    new: str
    everywhere: bool


def read_replacements(arguments: JsonObject) -> list[Replacement]:
    """Return a call's edits. Raises ToolError if there are none, or in two forms."""
    several = "edits" in arguments
    single = any(arguments.get(name) or (name in arguments and not several) for name in ("old_string", "new_string"))
    if single == several:
        raise ToolError("Give either old_string and new_string, or edits.")
    if single and not {"old_string", "new_string"} <= set(arguments):
        raise ToolError("Give both old_string and new_string; an empty new_string deletes.")
    edits = map(as_object, (arguments,) if single else as_array(arguments["edits"]))
    return [
        Replacement(_lf(edit.get("old_string")), _lf(edit.get("new_string")), edit.get("replace_all") is True)
        for edit in edits
    ]


def proposed(call: ToolCall, before: str | None) -> tuple[str, str]:
    """Return a file's text before and after a call of Edit or Write; if it is unknown, an edit's old and new text.
    Raises ToolError for an impossible edit."""
    if call.name == "Write":
        return before or "", _lf(call.arguments.get("content"))
    edits = read_replacements(call.arguments)
    if before is None and len(edits) == 1 and not edits[0].everywhere:
        return edits[0].old, edits[0].new
    name = as_str(call.arguments.get("file_path")).rpartition("/")[2]
    return before or "", replace_all(before or "", edits, name)[0]


def replace_all(text: str, replacements: Sequence[Replacement], name: str) -> tuple[str, int]:
    """Return the text of a file with replacements made in order, and how many places these are. Raises ToolError."""
    count = 0
    for number, replacement in enumerate(replacements, 1):
        try:
            text, done = replace(text, replacement, name)
        except ToolError as error:
            which = f"Edit {number} of {len(replacements)}: " if len(replacements) > 1 else ""
            raise ToolError(f"{which}{error}") from None
        count += done
    return text, count


def replace(text: str, replacement: Replacement, name: str = "") -> tuple[str, int]:
    """Return text of a file with a replacement made, and how often. LF in `old` matches the text's own line ends, which
    `new` takes. An `old` that nearly matches is repaired if it has a single meaning at a single place.

    Raises ToolError if `old` is not found, or found several times without `all`.
    """
    if replacement.old == replacement.new:
        raise ToolError("old_string and new_string are the same: there is nothing to change.")
    if replacement.old == "":
        if text:
            raise ToolError("old_string is empty: quote the text to replace.")
        return replacement.new, 1
    end = line_end(text)
    spans = list(_spans(text, replacement.old, end))
    alike = list(_composed_otherwise(text, replacement, spans)) if replacement.everywhere else []
    if not spans and not alike:
        pairs = recover_edits(_lf(text), replacement.old, replacement.new, name, everywhere=replacement.everywhere)
        if not pairs:
            raise ToolError(_explain(_lf(text), replacement.old))
        for old, new in pairs:
            text, _ = replace(text, Replacement(old, new, everywhere=False))
        return text, len(pairs)
    if not replacement.everywhere:
        starts = [start for start, _ in _spans(text, replacement.old, end, overlapping=True)]
        if len(starts) > 1:
            raise ToolError(_ambiguous(text, starts))
    pieces: list[str] = []
    position = 0
    exact = [(start, stop, _with_line_ends(replacement, text[start:stop], end)) for start, stop in spans]
    for start, stop, made in sorted([*exact, *alike]):
        pieces += [text[position:start], made]
        position = stop
    return "".join([*pieces, text[position:]]), len(exact) + len(alike)


def _composed_otherwise(
    text: str, replacement: Replacement, spans: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, str]]:
    """Yield the further places of an edit of all, whose letters are composed differently, with their replacements."""
    if text.isascii() or len(text) > _MAX_SEARCHED_CHARS or "\r" in text:
        return
    for place in find_canonical(text, replacement.old, replacement.new):
        if all(place.stop <= start or stop <= place.start for start, stop in spans):
            yield place.start, place.stop, place.made


def _with_line_ends(replacement: Replacement, old: str, end: str) -> str:
    """Return the new text with the line ends of the found text; if these are mixed, kept lines keep theirs."""
    ends = re.findall("\r?\n", old)
    most = line_end(old) if "\n" in old else end
    if len(set(ends)) < 2:
        return replacement.new.replace("\n", most)
    before, after = replacement.old.split("\n"), replacement.new.split("\n")
    made = [most] * (len(after) - 1)
    for one in SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks():
        size = min(one.size, len(ends) - one.a, len(made) - one.b)
        made[one.b : one.b + size] = ends[one.a : one.a + size]
    return "".join(line + found_end for line, found_end in zip(after, [*made, ""], strict=True))


def _spans(text: str, old: str, end: str, *, overlapping: bool = False) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each `old` in the text."""
    cut: Sequence[int] = ()  # positions of CRs left out for the search
    if "\n" in old:
        cut = [found.start() - count for count, found in enumerate(re.finditer("\r\n", text))]
        text, old = text.replace("\r\n", "\n"), old.replace("\n", "\r" if end == "\r" else "\n")
    position = 0
    while (start := text.find(old, position)) >= 0:
        stop = start + len(old)
        yield start + bisect_left(cut, start), stop + bisect_left(cut, stop)
        position = start + 1 if overlapping else stop


def _ambiguous(text: str, starts: Sequence[int]) -> str:
    numbers = [str(text.count("\n", 0, start) + 1) for start in starts[:12]]
    places = ", ".join(numbers) + (", ..." if len(starts) > 12 else "")
    return (
        f"old_string occurs {len(starts)} times (at lines {places}). "
        "Quote more around the one you mean, or set replace_all."
    )


def _lf(text: object) -> str:
    return valid_text(as_str(text)).replace("\r\n", "\n")


def _explain(text: str, old: str) -> str:
    """One or two sentences and the nearest lines, with their numbers."""
    lines, wanted = text.split("\n"), old.strip("\n").split("\n")
    if any(re.fullmatch(r"\W*(\.\.\.|…)( .*\.\.\.)?\W*", line) for line in wanted if line):
        return "old_string was not found: it leaves out lines with an ellipsis. Quote all of them, or make two edits."
    if all(re.match(r"\s*\d+\t", line) for line in wanted if line):
        return "old_string was not found: it contains the line numbers that Read shows. Leave them out."
    for differs, view in _VIEWS:
        place = _find([view(line) for line in lines], [view(line) for line in wanted])
        if place is not None:
            said = f"old_string was not found: it differs from the file in {differs}. The file says:"
            break
    else:
        if (place := _nearest(lines, wanted)) is None:
            return "old_string was not found, nor anything like it. Read the file again."
        said = "old_string was not found. The nearest lines are:"
    shown = lines[place : place + min(len(wanted), 12)]
    alike = [_revealed(line, quoted) for line, quoted in zip(shown, wanted, strict=False)]
    found = [f"{place + 1 + at}\t{line[:600]}" for at, (line, _) in enumerate(alike)]
    if all(quoted is None for _, quoted in alike):
        return "\n".join([said, *found, ""])
    given = [quoted if quoted is not None else line for (_, quoted), line in zip(alike, wanted, strict=False)]
    return "\n".join([said, *found, "Where they look the same, what differs is escaped. old_string says:", *given, ""])


def _revealed(line: str, quoted: str) -> tuple[str, str | None]:
    """Return a line of the file and the quoted one, with indistinguishable characters escaped; None for the second if
    the difference is visible."""
    if len(line) > 600 or line == quoted:
        return line[:300], None
    mine, theirs = skeleton(line), skeleton(quoted)
    if mine == theirs or (quoted not in line and theirs and (theirs in mine or has_alike(mine, theirs))):
        return reveal(line, quoted)
    return line, None


def _squeeze(line: str) -> str:
    return " ".join(line.split())


_VIEWS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("white space at line ends", str.rstrip),
    ("indentation or white space", _squeeze),
    ("quotes, dashes or white space", lambda line: _squeeze(line.translate(QUOTES))),
    ("how its letters are composed, in several places", canonical),
    ("characters that look alike or cannot be seen", skeleton),
    ("letter case", lambda line: _squeeze(line).lower()),
    ("escaped characters", lambda line: _squeeze(line.replace("\\", ""))),
)


def _find(lines: list[str], sought: list[str]) -> int | None:
    """Find the wanted lines: as whole lines, or within one."""
    if not any(sought):
        return None
    if len(sought) == 1:
        return next((index for index, line in enumerate(lines) if sought[0] in line), None)
    for index in range(len(lines) - len(sought) + 1):
        end = index + len(sought) - 1
        is_around = lines[index].endswith(sought[0]) and lines[end].startswith(sought[-1])
        if is_around and lines[index + 1 : end] == sought[1:-1]:
            return index
    return None


def _nearest(lines: Sequence[str], sought: Sequence[str]) -> int | None:
    """Find the place most similar to the longest wanted line."""
    from difflib import get_close_matches

    longest = max(range(len(sought)), key=lambda index: len(sought[index]))
    stripped = [line.strip()[:500] for line in lines[:_MAX_LINES]]
    near = get_close_matches(sought[longest].strip()[:500], list(dict.fromkeys(stripped)), 1, 0.6)
    return max(0, stripped.index(near[0]) - longest) if near else None
