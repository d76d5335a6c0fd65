"""Exact replacements of quoted text, whatever the line ends."""

import re
from collections.abc import Iterator, Sequence

from sagent.errors import ToolError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import JsonObject, as_array, as_object, as_str, valid_text
from sagent.tools.textfile import line_end


@dataclass(frozen=True, slots=True)
class Replacement:
    """One edit; its texts have LF line ends."""

    old: str
    new: str
    everywhere: bool


def read_replacements(arguments: JsonObject) -> list[Replacement]:
    """The edits that a call asks for. Raises ToolError when it asks for none, or in two ways."""
    single = "old_string" in arguments or "new_string" in arguments
    if single == ("edits" in arguments):
        raise ToolError("Give either old_string and new_string, or edits.")
    if single and not {"old_string", "new_string"} <= set(arguments):
        raise ToolError("Give both old_string and new_string; an empty new_string deletes.")
    items = (arguments,) if single else as_array(arguments["edits"])
    return [
        Replacement(
            _lf(as_str(as_object(item).get("old_string"))),
            _lf(as_str(as_object(item).get("new_string"))),
            as_object(item).get("replace_all") is True,
        )
        for item in items
    ]


def replace(text: str, replacement: Replacement) -> tuple[str, int]:
    """The text with a replacement made, and how often. LF in `old` matches the text's own line ends, which `new` takes.

    Raises ToolError when `old` is not there, or is there several times and not all are meant.
    """
    if replacement.old == replacement.new:
        raise ToolError("old_string and new_string are the same: there is nothing to change.")
    if replacement.old == "":
        if text:
            raise ToolError("old_string is empty: quote the text to replace.")
        return replacement.new, 1
    end = line_end(text)
    spans = list(_spans(text, replacement.old, end))
    if not spans:
        from sagent.tools.mismatch import explain

        raise ToolError(explain(_lf(text), replacement.old))
    if not replacement.everywhere:
        starts = [start for start, _ in _spans(text, replacement.old, end, overlapping=True)]
        if len(starts) > 1:
            raise ToolError(_ambiguous(text, starts))
    pieces: list[str] = []
    position = 0
    for start, stop in spans:
        found = text[start:stop]
        pieces += [text[position:start], replacement.new.replace("\n", line_end(found) if "\n" in found else end)]
        position = stop
    return "".join([*pieces, text[position:]]), len(spans)


def _spans(text: str, old: str, end: str, *, overlapping: bool = False) -> Iterator[tuple[int, int]]:
    """Where `old` stands in the text."""
    position = 0
    if "\r" not in text or "\n" not in old:
        while (start := text.find(old, position)) >= 0:
            yield start, start + len(old)
            position = start + (1 if overlapping else len(old))
        return
    pattern = re.compile(("\r" if end == "\r" else "\r?\n").join(re.escape(line) for line in old.split("\n")))
    while match := pattern.search(text, position):
        yield match.span()
        position = match.start() + 1 if overlapping else match.end()


def _ambiguous(text: str, starts: Sequence[int]) -> str:
    numbers = [str(text.count("\n", 0, start) + 1) for start in starts[:12]]
    places = ", ".join(numbers) + (", ..." if len(starts) > 12 else "")
    return (
        f"old_string occurs {len(starts)} times (at lines {places}). "
        "Quote more around the one you mean, or set replace_all."
    )


def _lf(text: str) -> str:
    return valid_text(text).replace("\r\n", "\n") if "\n" in text else valid_text(text)
