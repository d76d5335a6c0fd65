"""A change to a file, worked out from the arguments of the call that made it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from sagent.lib.json import as_array, as_object, as_str

MAX_PLACES = 200  # of one call's replacements that are traced one by one


class Step(NamedTuple):
    """Replacement of lines: those from `start` to `old_end` became those from `start` to `new_end`; `lines` are all
    lines after it."""

    start: int
    old_end: int
    new_end: int
    lines: Sequence[bytes]


def steps_of(
    tool: str, arguments: Mapping[str, object], before: bytes, lines: Sequence[bytes], after: bytes
) -> list[Step] | None:
    """Return the steps by which a call of Edit or Write changed a content with these lines, if its arguments give
    exactly the content after it; otherwise None. Both contents have LF line ends."""
    match tool:
        case "Write":
            if _normal(arguments.get("content")) != after:
                return None
            new = split_lines(after)
            return [Step(0, len(lines), len(new), new)]
        case "Edit":
            return _edits(arguments, before, lines, after)
        case _:
            return None


def split_lines(content: bytes) -> list[bytes]:
    """Split a content at line feeds, without them; a last line may have none."""
    lines = content.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def written_lines(arguments: Mapping[str, object]) -> frozenset[bytes]:
    """Return the lines in all texts of a call's arguments."""
    return frozenset(line for text in _texts(arguments) for line in split_lines(_normal(text)))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for each in (*as_object(value).values(), *as_array(value)):
        yield from _texts(each)


def _edits(arguments: Mapping[str, object], text: bytes, lines: Sequence[bytes], after: bytes) -> list[Step] | None:
    edits = as_array(arguments.get("edits")) if "edits" in arguments else [arguments]
    found: list[Step] = []
    for edit in map(as_object, edits):
        old, new = _normal(edit.get("old_string")), _normal(edit.get("new_string"))
        start = text.find(old) if old else (-1 if text else 0)
        while start >= 0 and len(found) < MAX_PLACES:
            step, text = _replace(text, lines, slice(start, start + len(old)), new)
            found.append(step)
            lines = step.lines
            start = text.find(old, start + len(new)) if old and edit.get("replace_all") is True else -1
    return found if text == after else None


def _replace(text: bytes, lines: Sequence[bytes], place: slice, new: bytes) -> tuple[Step, bytes]:
    """Return a replacement of bytes as one of whole lines, and the text after it."""
    start, stop = place.start, place.stop
    first = text.rfind(b"\n", 0, start) + 1
    ends = new or text[first:start]  # before what follows
    end = stop
    if not (_begins_line(text, stop) and (not ends or ends.endswith(b"\n"))):
        end = text.find(b"\n", stop) + 1 or len(text)
    above = text.count(b"\n", 0, first)
    old_end = above + len(split_lines(text[first:end]))
    made = split_lines(text[first:start] + new + text[stop:end])
    after = text[:start] + new + text[stop:]
    return Step(above, old_end, above + len(made), [*lines[:above], *made, *lines[old_end:]]), after


def _begins_line(text: bytes, place: int) -> bool:
    return place == 0 or text[place - 1 : place] == b"\n"


def _normal(text: object) -> bytes:
    return as_str(text).replace("\r\n", "\n").encode("utf-8", "surrogatepass")
