"""Judge the new text of a file: what it leaves out of the old one, and whether it can still be read."""

import ast
import json
import re
import tomllib
import warnings
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import takewhile

from sagent.lib.json import JsonObject, as_array, as_object, json_freeze
from sagent.lib.text import one_line
from sagent.plugins.textcalls.paths import suffix_of

MAX_PARSED_CHARS = 200_000  # of a file that is parsed
MAX_SHOWN_CHARS = 80  # of the line at fault

_TAKES_AWAY = re.compile(r"\b(?:delet|remov|renam|replac|drop|mov|split|merg|inlin|rewrit)", re.IGNORECASE)
_CHANGES_KEYS = re.compile(r"\b(?:chang|correct|fix|convert|turn|spell)", re.IGNORECASE)
_NOTHING_ELSE = re.compile(
    r"\b(?:nothing\s+(?:else|more)|only|(?:leave|keep)\s+(?:everything|all|anything|the)\s+(?:else|others?|rest)"
    r"|anything\s+else|(?:no|without)\s+other\s+changes?)\b",
    re.IGNORECASE,
)
_CODE = re.compile(r"^(?:async +)?(?:export +)?(?:def|class|function|func|fn|pub fn) +(\w+)", re.MULTILINE)
_KEYS: Mapping[str, re.Pattern[str]] = {
    ".json": re.compile(r"\"([^\"\n\\]{1,80})\"\s*:"),
    **dict.fromkeys(
        (".ini", ".cfg", ".conf", ".toml", ".env", ".properties"),
        re.compile(r"^[ \t]*(?:\[+([^\[\]\n]{1,80})\]+|([\w.-]{1,80})[ \t]*[=:])", re.MULTILINE),
    ),
    **dict.fromkeys((".yaml", ".yml"), re.compile(r"^[ \t]*(?:-[ \t]+)?([\w.-]{1,80}):(?=\s)", re.MULTILINE)),
}
"""Names of what a file of data holds, by its ending."""


def names_in(path: str, text: str) -> Sequence[str]:
    """Return the functions and classes that a file defines, or the keys and sections of a file of data, each once."""
    found = _KEYS.get(suffix_of(path), _CODE).finditer(text)
    return [*dict.fromkeys(next(filter(None, each.groups())) for each in found)]


def left_out(path: str, before: str, after: str, asked: str) -> tuple[Sequence[str], Sequence[str]]:
    """Return what a new text leaves out without being asked to, and what it must have: that, and what is new."""
    old, new = names_in(path, before), names_in(path, after)
    may = _TAKES_AWAY.search(asked) or (suffix_of(path) in _KEYS and _CHANGES_KEYS.search(asked))
    meant = asked if may else ""
    lost = [name for name in old if not _has_word(name, after, meant)]
    return lost, [*lost, *(name for name in new if name not in old)]


def changed_aside(path: str, before: str, after: str, asked: str) -> Sequence[str]:
    """Return what a new text changes beside what the request names: other functions, or a key of the same name
    elsewhere in a file of data. Returns nothing unless it changes something that the request names too."""
    return _changed(path, before, after, asked)[1]


def _changed(path: str, before: str, after: str, asked: str) -> tuple[Sequence[str], Sequence[str]]:
    """Return what a new text changes: as the request may want it, and beside that."""
    if suffix_of(path) in (".json", ".toml"):
        return _changed_values(_PARSERS[suffix_of(path)], before, after, asked)
    old, new = _blocks(before), _blocks(after)
    changed = [name for name, block in old.items() if name in new and new[name] != block]
    named = [name for name in changed if _has_word(name, asked)]
    users = [name for name in changed if any(_has_word(one, old[name], new[name]) for one in named)]
    return users, [name for name in changed if name not in users] if named else []


def forbids_more(asked: str) -> bool:
    """Return True for a request that says to change nothing else."""
    return _NOTHING_ELSE.search(asked) is not None


def without_aside(path: str, before: str, after: str, asked: str) -> str:
    """Return a new text with what it changes aside as it was. A new text of which that cannot be told apart is returned
    as it is."""
    wanted, left = _changed(path, before, after, asked)
    if not left:
        return after
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    changes = [*_changes(old, new)]
    undone = set[int]()
    for at in range(len(changes)):
        text = _text_with(old, new, changes, {*undone, at})
        kept, found = _changed(path, before, text, asked)
        if kept == wanted and len(found) < len(left):
            left = found
            undone.add(at)
    return after if left else _text_with(old, new, changes, undone)


def _changes(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield where lines differ; as many lines that took the place of as many come one by one."""
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "replace" and i2 - i1 == j2 - j1:
            yield from ((i1 + at, i1 + at + 1, j1 + at, j1 + at + 1) for at in range(i2 - i1))
        elif tag != "equal":
            yield i1, i2, j1, j2


def _text_with(
    old: Sequence[str], new: Sequence[str], changes: Sequence[tuple[int, int, int, int]], undone: Container[int]
) -> str:
    """Return the new text without some of its changes."""
    lines: list[str] = []
    done = 0
    for at, (i1, i2, j1, j2) in enumerate(changes):
        lines += new[done:j1]
        lines += old[i1:i2] if at in undone else new[j1:j2]
        done = j2
    return "".join((*lines, *new[done:]))


def _blocks(text: str) -> Mapping[str, str]:
    """Return the functions and classes at the left margin, by name, without blank lines."""
    found = [*_CODE.finditer(text)]
    ends = [each.start() for each in found[1:]] + [len(text)] * bool(found)
    return {
        each[1]: "\n".join(line.rstrip() for line in _block(text[each.start() : end]) if line.strip())
        for each, end in zip(found, ends, strict=True)
    }


def _block(text: str) -> Sequence[str]:
    """Return the first line and those after it that are indented, blank, or a closing bracket."""
    first, *lines = text.splitlines()
    return [first, *takewhile(lambda line: not line.strip() or line[0] in " \t)}]", lines)]


def _changed_values(
    parse: Callable[[str], object], before: str, after: str, asked: str
) -> tuple[Sequence[str], Sequence[str]]:
    try:
        old, new = (dict(_leaves(json_freeze(parse(text)))) for text in (before, after))
    except (ValueError, RecursionError):
        return [], []
    changed = [key for key in old if key in new and old[key] != new[key]]
    named = {key: sum(_has_word(part, asked) for part in key) for key in changed}
    aside = {key for key in changed if any(key[-1:] == other[-1:] and named[key] < named[other] for other in changed)}
    return [".".join(key) for key in changed if key not in aside], [".".join(key) for key in changed if key in aside]


def _leaves(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield the values within objects and lists, with the keys to them."""
    items = as_object(value).items() if isinstance(value, JsonObject) else enumerate(as_array(value))
    inner = [leave for key, item in items for leave in _leaves(item, (*path, str(key)))]
    yield from inner or ((path, value),)


def _has_word(word: str, *texts: str) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) for text in texts)


def fault_in(path: str, before: str, after: str) -> str:
    """Return why a file cannot be read with its new text, if it could be with its old one; "" if it can."""
    parse = _PARSERS.get(suffix_of(path))
    if parse is None or len(after) > MAX_PARSED_CHARS or not after.strip():
        return ""
    if before.strip() and (len(before) > MAX_PARSED_CHARS or _fault(parse, before)):
        return ""
    return _fault(parse, after)


def _fault(parse: Callable[[str], object], text: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parse(text)
    except json.JSONDecodeError as error:
        return f"{error.msg} in line {error.lineno}{_shown(text, error.lineno)}"
    except SyntaxError as error:
        return f"{error.msg} in line {error.lineno}{_shown(text, error.lineno or 0)}"
    except tomllib.TOMLDecodeError as error:
        return str(error)
    except (ValueError, RecursionError, MemoryError):
        return ""
    return ""


def _shown(text: str, number: int) -> str:
    lines = text.splitlines()
    line = one_line(lines[number - 1].strip(), MAX_SHOWN_CHARS) if 0 < number <= len(lines) else ""
    return f": {line}" if line else ""


_PARSERS: Mapping[str, Callable[[str], object]] = {
    ".json": json.loads,
    ".toml": tomllib.loads,
    ".py": ast.parse,
}
