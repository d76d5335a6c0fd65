"""Calls on a line of their own, without marks: `@Read("a.py")`, `Calling tool: Read with arguments: {…}`."""

import re

from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, JsonObject, as_object, json_freeze, valid_text
from sagent.plugins.textcalls.forms import Call, json_values
from sagent.plugins.textcalls.offered import Offered
from sagent.plugins.textcalls.pythonic import read_call

_GAP, _SPACE, _ANY = r"[ \t]{0,9}", r"[ \t]{1,9}", r"\s{0,9}"
_VERB = r"(?:call(?:ing|ed)?|invok(?:e|ing)|execut(?:e|ing)|us(?:e|ing))"
_KIND = rf"(?:(?:(?:tool|function)[ \t_-]?)?call|tool|function|action):(?:\*\*)?{_GAP}"
_VERBAL = rf"{_VERB}(?:{_SPACE}the)?(?:{_SPACE}(?:tool|function))?(?:{_GAP}:(?:\*\*)?)?{_SPACE}"
_SAID = rf"@|\[?(?:\*\*)?(?i:(?:assistant:{_GAP})?(?:{_VERBAL}|{_KIND}))"
_WITH = rf"(?:{_SPACE}with(?:{_SPACE}(?:the|following|json|arguments?|parameters?|args|params|input))*)?"
_LABEL = rf"(?:{_GAP},?{_ANY}(?:\*\*)?(?:arguments?|parameters?|input))?"
_AFTER = rf"(?i:(?:{_SPACE}(?:tool|function))?{_WITH}{_LABEL}){_GAP}:?(?:\*\*)?"
ANNOUNCED = (
    r"(?:(?P<bare>[A-Za-z_][\w.:-]{0,99})(?=\()"
    rf"|(?P<said>{_SAID})[`\"']?(?P<called>[A-Za-z_][\w.:-]{{0,99}}?)[`\"']?{_AFTER}"
    rf"(?P<opened>{_ANY}```(?:json)?{_GAP}\n)?{_ANY})(?P<bracket>[({{])"
)
"""The words, the name, and the bracket that begins the arguments."""
_KNOWS = re.compile(r"tool|function", re.IGNORECASE)
_ENDS = re.compile(rf"\s*(?:\Z|{ANNOUNCED})")
_END_OF_FENCE = re.compile(r"\s*```[ \t]*(?=\n|\Z)")


@dataclass(frozen=True, slots=True)
class Announced:
    """A call, and its end."""

    call: Call
    end: int


def read_announced(text: str, match: re.Match[str], offered: Offered) -> Announced | None:
    """Return the call that a match of ANNOUNCED in the text begins; None if it is not meant as one. One
    that neither words nor a sign announce can only end a reply."""
    name, said = match["bare"] or match["called"], match["said"] or ""
    known, knows = offered.has(name), bool(_KNOWS.search(said))
    if not (known or knows):
        return None
    at = match.start("bracket")
    read = _object_at(text, at) if match["bracket"] == "{" else _between_brackets(text, at, offered.schema(name))
    if read is None:
        meant = known and (knows or said == "@")
        return Announced((name, EMPTY, valid_text(text[at:])), len(text)) if meant else None
    given, end = read
    if known and not offered.fits(name, given):
        return None
    if match["opened"] and (closed := _END_OF_FENCE.match(text, end)):
        end = closed.end()
    line, _, after = text[end:].partition("\n")
    if line.strip(" \t\r;.]}`*") or not (said or _ENDS.match(after)):
        return None
    return Announced((name, given, None), end)


def _object_at(text: str, at: int) -> tuple[JsonObject, int] | None:
    """Return the object that begins at a position, and its end."""
    value, source = next(json_values(text[at:]), (None, ""))
    return (value, at + len(source)) if isinstance(value, JsonObject) else None


def _between_brackets(text: str, at: int, schema: JsonObject) -> tuple[JsonObject, int] | None:
    """Return the arguments between brackets, in Python's syntax or as one object, and the end of the brackets.
    Arguments without a name follow the order of the schema."""
    try:
        call = read_call(f"_{text[at:]}", 0)
    except (ValueError, TypeError, RecursionError):
        return None
    keys = [*as_object(schema.get("properties"))]
    if len(call.unnamed) == 1 and not call.named and isinstance(only := json_freeze(call.unnamed[0]), JsonObject):
        return only, at + call.end - 1
    if len(call.unnamed) > len(keys):
        return None
    given = json_freeze({**dict(zip(keys, call.unnamed, strict=False)), **call.named})
    return given, at + call.end - 1
