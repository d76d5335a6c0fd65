"""A change to a file, worked out from the arguments of the call that made it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from sagent.lib.json import as_array, as_object, as_str

MAX_PLACES = 200  # of one call's replacements that are traced one by one


class Step(NamedTuple):
    """One replacement: the lines from `start` to `old_end` became those from `start` to `new_end`; `lines` are all
    lines after it."""

    start: int
    old_end: int
    new_end: int
    lines: Sequence[bytes]


def steps_of(tool: str, arguments: Mapping[str, object], before: bytes, after: bytes) -> list[Step] | None:
    """Return the steps by which a call of Edit or Write changed a content, if its arguments give exactly the content
    after it; otherwise None. Both contents have LF line ends."""
    match tool:
        case "Write":
            written = _normal(arguments.get("content"))
            old, new = split_lines(before), split_lines(after)
            return [Step(0, len(old), len(new), new)] if written == after else None
        case "Edit":
            steps = list(_edits(arguments, before))
            last = steps[-1].lines if steps else split_lines(before)
            return steps if last == split_lines(after) else None
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


def _edits(arguments: Mapping[str, object], text: bytes) -> Iterator[Step]:
    edits = as_array(arguments.get("edits")) if "edits" in arguments else [arguments]
    count = 0
    for edit in map(as_object, edits):
        old, new = _normal(edit.get("old_string")), _normal(edit.get("new_string"))
        start = text.find(old) if old else (-1 if text else 0)
        while start >= 0 and count < MAX_PLACES:
            count += 1
            changed = text[:start] + new + text[start + len(old) :]
            yield _step(text, changed, start, start + len(old), start + len(new))
            text = changed
            start = text.find(old, start + len(new)) if old and edit.get("replace_all") is True else -1


def _step(old: bytes, new: bytes, start: int, old_stop: int, new_stop: int) -> Step:
    """Return a replacement of bytes as one of whole lines."""
    first = old.count(b"\n", 0, start)
    if not (_begins_line(old, old_stop) and _begins_line(new, new_stop)):
        rest = old.find(b"\n", old_stop)
        size = len(old) - old_stop if rest < 0 else rest + 1 - old_stop
        old_stop, new_stop = old_stop + size, new_stop + size
    before, lines = split_lines(old), split_lines(new)
    below = len(split_lines(old[old_stop:]))
    return Step(first, max(first, len(before) - below), max(first, len(lines) - below), lines)


def _begins_line(text: bytes, place: int) -> bool:
    return place == 0 or text[place - 1 : place] == b"\n"


def _normal(text: object) -> bytes:
    return as_str(text).replace("\r\n", "\n").encode("utf-8", "surrogatepass")
