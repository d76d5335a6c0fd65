"""Changes of files as models write them, search-and-replace and diffs, as the arguments of Edit and Write."""

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from sagent.lib.json import JsonObject

SEARCH = re.compile(r"<{5,9}[ \t]*SEARCH>?[ \t]*")
DIVIDER = re.compile(r"={5,9}[ \t]*")
REPLACE = re.compile(r">{5,9}[ \t]*REPLACE[ \t]*")
NO_END = "\\ No newline at end of file"
"""The line that diff writes after a last line without an end."""
_NOTHING = "/dev/null"
_NAMED = re.compile(r"diff --git a/(.+) b/\1")


class Change(NamedTuple):
    """A call that changes one file."""

    name: str
    arguments: JsonObject


def begins_search(lines: Sequence[str]) -> bool:
    """Return True for lines that begin with the head of a search-and-replace."""
    return SEARCH.fullmatch(next((line for line in lines if line.strip()), "")) is not None


def read_search(path: str, lines: Sequence[str]) -> Change | None:
    """Return the edits of a file that search-and-replace blocks ask for; None if a block is incomplete."""
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
            edits.append((text_of(old), text_of(new)))
        else:
            new.append(line)
    return None if inside or not edits else _edit(path, edits)


def write_search(edits: Sequence[tuple[str, str]]) -> str:
    """Return edits as search-and-replace blocks; "" if their texts do not fit in such blocks."""
    blocks: list[str] = []
    for old, new in edits:
        before, after = map(lines_of, (old, new))
        if any(each.fullmatch(line) for line in before + after for each in (SEARCH, DIVIDER, REPLACE)):
            return ""
        if "\r" in old + new or (text_of(before), text_of(after)) != (old, new):
            return ""
        lines = ("<<<<<<< SEARCH", *before, "=======", *after, ">>>>>>> REPLACE", "")
        blocks.append("\n".join(lines))
    return "".join(blocks)


def read_diff(path: str, lines: Sequence[str], *, runs: bool = False) -> tuple[Change, ...]:
    """Return the calls that make a diff's changes; none if calls cannot express them. `path` is the file of a diff that
    names none. A command removes or renames a file if `runs` is set."""
    changes: list[Change] = []
    for old, new, hunks, renamed in _files(path, lines):
        edits = [*map(_sides, hunks)]
        gone = new == _NOTHING
        if old == _NOTHING and not gone:
            changes.append(Change("Write", _content(new, "".join(added for _, added in edits))))
        elif (gone or renamed) and not runs:
            return ()
        elif gone and old != _NOTHING:
            changes.append(_command(f"rm -- {shlex.quote(old)}"))
        elif renamed or (old == new and edits):
            changes += [_edit(old, edits)] if edits else []
            changes += [_command(_move(old, new))] if renamed else []
        else:
            return ()  # unchanged, or two names without a rename
    return tuple(changes)


def _command(command: str) -> Change:
    return Change("Bash", JsonObject({"command": command}))


def _move(old: str, new: str) -> str:
    """Return a command that renames a file and overwrites none."""
    folder = new.rpartition("/")[0]
    made = f"mkdir -p -- {shlex.quote(folder)} && " if folder not in ("", old.rpartition("/")[0]) else ""
    return f"test ! -e {shlex.quote(new)} && {made}mv -- {shlex.quote(old)} {shlex.quote(new)}"


class _File(NamedTuple):
    """A file in a diff: its path before and after, the lines of its hunks, and whether the diff renames it."""

    old: str
    new: str
    hunks: list[list[str]]
    renamed: bool = False


def _files(path: str, lines: Sequence[str]) -> Sequence[_File]:
    files = [_File(path, path, [])] if path else []
    inside = False  # a hunk
    named = source = ""
    while lines and not lines[-1]:
        lines = lines[:-1]
    after = iter(range(len(lines)))
    for at in after:
        line = lines[at]
        if line.startswith("--- ") and lines[at + 1 : at + 2] and lines[at + 1].startswith("+++ "):
            files = _with(files, _File(*_names(line, lines[at + 1]), []))
            inside = False
            next(after)
        elif line.startswith("@@") and files:
            files[-1].hunks.append([])
            inside = True
        elif line.startswith("diff --git "):
            inside, found, source = False, _NAMED.fullmatch(line), ""
            named = found[1] if found else ""
        elif not inside and named and line.startswith(("new file ", "deleted file ")):
            pair = (_NOTHING, named) if line.startswith("new") else (named, _NOTHING)
            files = _with(files, _File(*pair, []))
        elif not inside and line.startswith("rename from "):
            source = line.removeprefix("rename from ")
        elif not inside and source and line.startswith("rename to "):
            files = _with(files, _File(source, line.removeprefix("rename to "), [], renamed=True))
        elif files and (inside or line.startswith(("+", "-", " "))):
            if not inside:
                files[-1].hunks.append([])
                inside = True
            files[-1].hunks[-1].append(line)
    return files


def _with(files: Sequence[_File], file: _File) -> list[_File]:
    """Return the files of a diff with another one added. It replaces the path above the diff. Two lines with the file's
    names add nothing if earlier lines have told what happens to it."""
    if files and not files[-1].hunks and files[-1][:2] == file[:2]:
        return [*files]
    return [*(each for each in files if each.hunks or each.old != each.new), file]


def _sides(hunk: Sequence[str]) -> tuple[str, str]:
    """Return the text before and after a hunk."""
    before, after = list[str](), list[str]()
    sides: tuple[list[str], ...] = ()
    for line in hunk:
        mark = line[:1]
        if mark == "\\":  # about the line before it
            for side in sides:
                side[-1] = side[-1].removesuffix("\n")
            continue
        sides = (before,) if mark == "-" else (after,) if mark == "+" else (before, after)
        for side in sides:  # a context line may lack its space
            side.append(f"{line[1:] if mark in (' ', '+', '-') else line}\n")
    return "".join(before), "".join(after)


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


def text_of(lines: Sequence[str]) -> str:
    """Return a file's text that is written as lines."""
    ended = lines[:-1] if lines and lines[-1] == NO_END else lines
    text = "".join(f"{line}\n" for line in ended)
    return text if ended is lines else text.removesuffix("\n")


def lines_of(text: str) -> list[str]:
    """Return a text as lines. `text_of` makes the same text from them, unless its last line reads like NO_END."""
    lines = text.split("\n")
    return [*lines, NO_END] if lines[-1] else lines[:-1]
