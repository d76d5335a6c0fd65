"""Changes of files as models write them, search-and-replace and diffs, as the arguments of Edit and Write."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from sagent.lib.json import JsonObject

SEARCH = re.compile(r"<{5,9}[ \t]*SEARCH>?[ \t]*")
DIVIDER = re.compile(r"={5,9}[ \t]*")
REPLACE = re.compile(r">{5,9}[ \t]*REPLACE[ \t]*")
_NOTHING = "/dev/null"
_HEADERS = ("diff --git ", "index ", "new file mode ", "deleted file mode ", "old mode ", "new mode ")


class Change(NamedTuple):
    """A call that changes one file."""

    name: str
    arguments: JsonObject


def begins_search(lines: Sequence[str]) -> bool:
    """Return True for lines that begin with the head of a search-and-replace."""
    return SEARCH.fullmatch(next((line for line in lines if line.strip()), "")) is not None


def read_search(path: str, lines: Sequence[str]) -> Change | None:
    """Return the edits of a file that search-and-replace blocks ask for; None if one of them is not complete."""
    edits: list[tuple[str, str]] = []
    old: list[str] = []
    new: list[str] | None = None
    inside = False
    for line in lines:
        if not inside:
            if SEARCH.fullmatch(line):
                inside, old, new = True, [], None
            elif line.strip():
                return None
        elif new is None:
            if DIVIDER.fullmatch(line):
                new = []
            else:
                old.append(line)
        elif REPLACE.fullmatch(line):
            inside = False
            edits.append((_text(old), _text(new)))
        else:
            new.append(line)
    return None if inside or not edits else _edit(path, edits)


def write_search(edits: Sequence[tuple[str, str]]) -> str:
    """Return edits as search-and-replace blocks; "" where their texts cannot stand in such blocks."""
    blocks: list[str] = []
    for old, new in edits:
        lines = (old + new).split("\n")
        if any(each.fullmatch(line) for line in lines for each in (SEARCH, DIVIDER, REPLACE)):
            return ""
        if "\r" in old + new or any(text and not text.endswith("\n") for text in (old, new)):
            return ""
        blocks.append(f"<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n")
    return "".join(blocks)


def read_diff(path: str, lines: Sequence[str]) -> tuple[Change, ...]:
    """Return the calls that make a diff's changes; none where Edit and Write cannot express it. `path` is the file of a
    diff that names none."""
    changes: list[Change] = []
    for old, new, hunks in _files(path, lines):
        edits = [(_text(before), _text(after)) for before, after in hunks]
        if old == _NOTHING and new != _NOTHING:
            changes.append(Change("Write", _content(new, "".join(added for _, added in edits))))
        elif old != new or not edits:
            return ()  # removed, renamed or unchanged
        else:
            changes.append(_edit(new, edits))
    return tuple(changes)


class _File(NamedTuple):
    """A file in a diff: its path before and after, and the lines before and after of its hunks."""

    old: str
    new: str
    hunks: list[tuple[list[str], list[str]]]


def _files(path: str, lines: Sequence[str]) -> Sequence[_File]:
    files = [_File(path, path, [])] if path else []
    inside = False  # a hunk
    while lines and not lines[-1]:
        lines = lines[:-1]
    after = iter(range(len(lines)))
    for at in after:
        line = lines[at]
        if line.startswith("--- ") and lines[at + 1 : at + 2] and lines[at + 1].startswith("+++ "):
            files = [file for file in files if file.hunks]
            files.append(_File(*_names(line, lines[at + 1]), []))
            inside = False
            next(after)
        elif line.startswith("@@") and files:
            files[-1].hunks.append(([], []))
            inside = True
        elif line.startswith(_HEADERS):
            inside = False
        elif files and (inside or line.startswith(("+", "-"))):
            if not inside:
                files[-1].hunks.append(([], []))
                inside = True
            _add(files[-1].hunks[-1], line)
    return files


def _add(hunk: tuple[list[str], list[str]], line: str) -> None:
    mark = line[:1]
    said = line[1:] if mark in (" ", "+", "-") else line  # a context line may lack its space
    if mark not in ("+", "\\"):
        hunk[0].append(said)
    if mark not in ("-", "\\"):
        hunk[1].append(said)


def _names(old: str, new: str) -> tuple[str, str]:
    before, after = (line[4:].partition("\t")[0].strip() for line in (old, new))
    if before.startswith("a/") or before == _NOTHING:
        after = after.removeprefix("b/")
    if after != new[4:].partition("\t")[0].strip() or after == _NOTHING:
        before = before.removeprefix("a/")
    return before, after


def _edit(path: str, edits: Sequence[tuple[str, str]]) -> Change:
    if len(edits) == 1:
        old, new = edits[0]
        return Change("Edit", JsonObject({"file_path": path, "old_string": old, "new_string": new}))
    listed = tuple(JsonObject({"old_string": old, "new_string": new}) for old, new in edits)
    return Change("Edit", JsonObject({"file_path": path, "edits": listed}))


def _content(path: str, content: str) -> JsonObject:
    return JsonObject({"file_path": path, "content": content})


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
