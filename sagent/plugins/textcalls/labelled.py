"""Calls that are written under labels, as in ReAct and YAML: a line with the tool's name, then its arguments."""

import re

from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, JsonObject, json_freeze, valid_text
from sagent.plugins.textcalls.forms import Call, cast_arguments, json_values
from sagent.plugins.textcalls.offered import Offered

_NAME = r"(?:name|(?:tool|function)(?:[_ ]?name)?|action)"
_ARGUMENTS = r"(?:arguments|parameters|args|params|kwargs|(?:(?:tool|action)[_ ])?input)"
LABELLED = (
    rf"(?:-[ \t]+)?(?:{_NAME}|{_NAME.title()}|{_NAME.upper()}):[ \t]*[\"']?[\w.:/-]{{1,100}}[\"']?[ \t]*\n+"
    rf"[ \t]*(?i:{_ARGUMENTS}):"
)
"""The labels, without their arguments."""
_HEAD = re.compile(
    rf"(?P<item>(?:-[ \t]+)?)(?P<label>{_NAME}):[ \t]*[\"']?(?P<name>[\w.:/-]{{1,100}})[\"']?[ \t]*\n+"
    rf"(?P<indent>[ \t]*){_ARGUMENTS}:[ \t]*",
    re.IGNORECASE,
)
_LINE = re.compile(
    r"(?P<indent>[ \t]*)(?:\"(?P<quoted>[^\"\n]+)\"|(?P<key>[\w.-]+))[ \t]*:(?:[ \t]+(?P<value>.*)|[ \t]*)$"
)
_BLOCK = re.compile(r"(?P<style>[|>])[-+]?\d?[ \t]*$")
_STRING = re.compile(r"\"(?:[^\"\\]|\\.)*\"[ \t]*$|'(?:[^']|'')*'[ \t]*$")


@dataclass(frozen=True, slots=True)
class Labelled:
    """A call under labels, and its end. `said`: its labels are of calls and nothing else."""

    call: Call
    end: int
    said: bool


def read_labelled(text: str, start: int, offered: Offered) -> Labelled | None:
    """Return the call whose labels begin at a position; None if there is none."""
    head = _HEAD.match(text, start)
    if head is None:
        return None
    name, at = head["name"], head.end()
    said = head["label"].lower() != "name"
    if text[at : at + 1] == "{":
        values = next(iter(json_values(text[at:])), None)
        if values is None or not isinstance(values[0], JsonObject):
            return Labelled((name, EMPTY, valid_text(text[at:])), len(text), said)
        end = at + len(values[1])
        return None if _line(text, end).strip() else Labelled((name, values[0], None), end, said)
    line = _line(text, at)
    if line.strip():
        return _plain(name, line.strip(), at + len(line), offered, explicit=said)
    pairs, end = _pairs(text, at + len(line) + 1, len(head["indent"]))
    if not pairs:
        return None
    return Labelled((name, cast_arguments(pairs, offered.schema(name)), None), end, said)


def _plain(name: str, value: str, end: int, offered: Offered, *, explicit: bool) -> Labelled | None:
    """Return a call of one text that stands behind the label."""
    key = offered.only_text(name)
    given = json_freeze({key: _unquoted(value)}) if key else EMPTY
    if offered.has(name) and explicit:
        return Labelled((name, given, None if key else valid_text(value)), end, explicit)
    return None


def _pairs(text: str, start: int, outside: int) -> tuple[list[tuple[str, str]], int]:
    """Return the keys and values of indented lines, and where these end."""
    pairs: list[tuple[str, str]] = []
    at, indent = start, -1
    while at < len(text):
        line = _line(text, at)
        match = _LINE.match(line)
        if match is None or (indent >= 0 and len(match["indent"]) != indent) or len(match["indent"]) <= outside:
            break
        indent = len(match["indent"])
        at += len(line) + 1
        value = match["value"] or ""
        if block := _BLOCK.match(value):
            lines, at = _deeper(text, at, indent)
            value = (" " if block["style"] == ">" else "\n").join(lines)
        pairs.append((match["quoted"] or match["key"], _unquoted(value.strip(" \t"))))
    return pairs, min(at, len(text))


def _deeper(text: str, at: int, indent: int) -> tuple[list[str], int]:
    """Return the lines that are indented further, without what they are all indented by, and where they end."""
    lines: list[str] = []
    while at < len(text):
        line = _line(text, at)
        if line.strip() and len(line) - len(line.lstrip(" \t")) <= indent:
            break
        lines.append(line)
        at += len(line) + 1
    while lines and not lines[-1].strip():
        lines.pop()
    margin = min((len(line) - len(line.lstrip(" \t")) for line in lines if line.strip()), default=0)
    return [line[margin:] for line in lines], at


def _line(text: str, at: int) -> str:
    """Return the rest of the line at a position."""
    end = text.find("\n", at)
    return text[at : end if end >= 0 else len(text)]


def _unquoted(value: str) -> str:
    """Return a value without its quotation marks."""
    if not _STRING.match(value):
        return value
    text = value.strip()
    if text[0] == "'":
        return text[1:-1].replace("''", "'")
    found = next(iter(json_values(text)), None)
    return found[0] if found and isinstance(found[0], str) else text[1:-1]
