"""What an edit meant that quotes a file nearly: only where there is one thing that it can mean, and one place for it.

Each reading gives pairs of old and new text; the old ones are the file's own and replaced as any quoted text is. Lines
that the edit leaves alone stay as the file has them.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher

_QUOTES = str.maketrans("‘’“”\u00a0–—", "''\"\" --")
_NUMBER = re.compile(r"[ ]*\d+\t")
_HUNK = re.compile(r"@@ .*|@@")
_SEARCH = re.compile(r"<{5,9} ?SEARCH\n(.*?)\n?={5,9}\n(.*?)\n?>{5,9} ?REPLACE\n?", re.DOTALL)
_MOST = 20_000  # lines that are looked through
_MOST_TEXT = 1_000_000  # characters; what would be made of a longer text is not shown to who is to allow it

Pair = tuple[str, str]
Lines = Sequence[str]


def meant(text: str, old: str, new: str, name: str = "") -> list[Pair]:
    """The replacements that an edit means, [] where that is not sure. `text` has LF line ends; `name` is the file's."""
    lines = text.split("\n")
    if len(lines) > _MOST or len(text) > _MOST_TEXT:
        return []
    if not new and (pairs := _unpacked(old, name)):
        around = f"\n{text}\n"
        return pairs if all(around.count(f"\n{before}\n") == text.count(before) == 1 for before, _ in pairs) else []
    if (bare := _without_numbers(old)) is not None:
        stripped = _without_numbers(new)
        if stripped is None and any(map(_NUMBER.match, new.split("\n"))):
            return []
        found = _numbered(lines, old, bare, new if stripped is None else stripped)
        return [found] if found else []
    if old.endswith("\n") != new.endswith("\n") and new:
        return []
    for view, rewrite in ((str.rstrip, _plain), (_unquoted, _requoted), (str.strip, _reindented)):
        if found := _read(lines, old, new, view, rewrite):
            return [found]
    return []


Rewrite = Callable[[Lines, Lines, Lines], list[str] | None]
"""The new lines for the file's, of those quoted and those given; None where that is not sure."""


def _read(lines: Lines, old: str, new: str, view: Callable[[str], str], rewrite: Rewrite) -> Pair | None:
    """An edit whose quoted lines are lines of the file, looked at in some way, at one place."""
    ends = old.endswith("\n")
    quoted = old.removesuffix("\n").split("\n")
    given = new.removesuffix("\n").split("\n") if new else []
    wanted = [view(line) for line in quoted]
    if not any(wanted):
        return None
    seen = [view(line) for line in lines]
    places = [at for at in range(len(seen) - len(wanted) + 1) if seen[at : at + len(wanted)] == wanted]
    if len(places) != 1:
        return None
    own = lines[places[0] : places[0] + len(wanted)]
    if any(len({mine for mine, line in zip(own, quoted, strict=True) if line == one}) > 1 for one in given):
        return None  # a quoted line is two lines of the file, and nobody knows which is given
    made = rewrite(own, quoted, given)
    if made is None or made == list(own):
        return None
    if ends and places[0] + len(wanted) == len(lines):
        return None  # the file does not end with the line end that is quoted
    last = "\n" if ends else ""
    return "\n".join(own) + last, "\n".join(made) + (last if new else "")


def _plain(own: Lines, quoted: Lines, given: Lines) -> list[str] | None:
    """Lines that the edit leaves alone as the file has them, others as they are given."""
    known = dict(zip(quoted, own, strict=True))
    made: list[str] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, quoted, given, autojunk=False).get_opcodes():
        made += own[i1:i2] if tag == "equal" else [known.get(line, line) for line in given[j1:j2]]
    return made


def _unquoted(line: str) -> str:
    return line.translate(_QUOTES)


def _requoted(own: Lines, quoted: Lines, given: Lines) -> list[str] | None:
    """The same with typographic marks: of a changed line, what is the same at both ends is the file's; what is new may
    hold no mark that the file has otherwise, for nobody knows which was meant."""
    pairs = zip("".join(own), "".join(quoted), strict=True)
    unclear = {mine.translate(_QUOTES) for mine, theirs in pairs if mine != theirs}
    if not unclear.isdisjoint("'\""):
        unclear |= {"'", '"'}
    known, made = dict(zip(quoted, own, strict=True)), list[str]()
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, quoted, given, autojunk=False).get_opcodes():
        if tag == "equal":
            made += own[i1:i2]
        elif all(line in known for line in given[j1:j2]):
            made += [known[line] for line in given[j1:j2]]
        elif tag == "replace" and i2 - i1 == j2 - j1:
            for mine, before, after in zip(own[i1:i2], quoted[i1:i2], given[j1:j2], strict=True):
                head, tail = _same_ends(before, after)
                between = after[head : len(after) - tail]
                if not unclear.isdisjoint(_unquoted(between)):
                    return None
                made.append(mine[:head] + between + mine[len(mine) - tail :])
        elif not unclear.isdisjoint(_unquoted("".join(given[j1:j2]))):
            return None
        else:
            made += given[j1:j2]
    return made


def _same_ends(before: str, after: str) -> tuple[int, int]:
    """How many characters two lines share at their beginning, and at their end beyond that."""
    room = min(len(before), len(after))
    head = next((at for at in range(room) if before[at] != after[at]), room)
    tail = next((at for at in range(room - head) if before[-1 - at] != after[-1 - at]), room - head)
    return head, tail


def _reindented(own: Lines, quoted: Lines, given: Lines) -> list[str] | None:
    """The same with other indents: each quoted one stands for one of the file's, and new lines have no others."""
    indents: dict[str, str] = {"": ""} if any(not line for line in own) and not any(quoted) else {}
    for mine, line in zip(own, quoted, strict=True):
        if line.strip() and indents.setdefault(_indent(line), _indent(mine)) != _indent(mine):
            return None
    known, made = dict(zip(quoted, own, strict=True)), list[str]()
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, quoted, given, autojunk=False).get_opcodes():
        if tag == "equal":
            made += own[i1:i2]
            continue
        for line in given[j1:j2]:
            if line in known:
                made.append(known[line])
            elif not line.strip():
                made.append("")
            elif (indent := indents.get(_indent(line))) is None:
                return None
            else:
                made.append(indent + line.lstrip(" \t"))
    return made


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _without_numbers(text: str) -> str | None:
    """A text without the line numbers that Read shows; None where a line has none."""
    lines = text.split("\n")
    numbered = lines[:-1] if lines[-1] == "" else lines
    if not numbered or not all(map(_NUMBER.match, numbered)):
        return None
    return "\n".join(_NUMBER.sub("", line, count=1) for line in lines)


def _numbered(lines: Lines, old: str, bare: str, new: str) -> Pair | None:
    """An edit with line numbers: at the one place where its lines are, which must be where the first number says."""
    wanted = bare.removesuffix("\n").split("\n")
    places = [at for at in range(len(lines) - len(wanted) + 1) if list(lines[at : at + len(wanted)]) == wanted]
    return (bare, new) if len(places) == 1 and places[0] + 1 == int(old.split("\t", 1)[0]) and bare != new else None


# ----------------------------------------------------------------------------------------------------------------------
# Edits in another form, where a text was to be quoted


def _unpacked(old: str, name: str) -> list[Pair]:
    """The replacements that a diff, a patch or search/replace blocks ask for; [] where it is none, or not of this
    file."""
    if blocks := _SEARCH.findall(old):
        rest = _SEARCH.sub("", old).strip()
        return [] if rest and rest.rpartition("/")[2] != name else [pair for pair in blocks if pair[0]]
    lines = old.removesuffix("\n").split("\n")
    if lines[0] == "*** Begin Patch":
        if lines[-1] != "*** End Patch" or sum(line.startswith("*** ") for line in lines) != 3:
            return []
        named = lines[1].partition("*** Update File: ")[2]
        return list(_hunks(lines[2:-1])) if named.rpartition("/")[2] == name else []
    while lines and lines[0].startswith(("diff --git ", "index ")):
        lines = lines[1:]
    if lines[:1] and lines[0].startswith("--- "):
        named = lines[1].removeprefix("+++ ").split("\t")[0] if lines[1:] else ""
        if named.rpartition("/")[2] != name or any(line.startswith(("--- a/", "+++ b/")) for line in lines[2:]):
            return []
        lines = lines[2:]
    return list(_hunks(lines)) if lines and _HUNK.fullmatch(lines[0]) else []


def _hunks(lines: Lines) -> Iterator[Pair]:
    """The old and the new text of each hunk; nothing at all where a line is none of a hunk."""
    hunks: list[list[str]] = []
    for line in lines:
        if _HUNK.fullmatch(line):
            hunks.append([])
        elif not hunks or line[:1] not in ("", " ", "+", "-"):
            return
        else:
            hunks[-1].append(line)
    for hunk in hunks:
        before = "\n".join(line[1:] for line in hunk if not line.startswith("+"))
        after = "\n".join(line[1:] for line in hunk if not line.startswith("-"))
        if not before.strip() or before == after:
            continue
        yield before, after
