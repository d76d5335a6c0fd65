"""Calls that are JSON objects: whether a value has the shape of one, and what it calls."""

import re
from collections.abc import Mapping, Sequence

from sagent.lib.json import JsonObject, as_array, as_object, as_str, json_dump, json_freeze
from sagent.plugins.textcalls.forms import Call, call_of, json_values
from sagent.plugins.textcalls.marks import ARGUMENTS, NAMES
from sagent.plugins.textcalls.offered import Offered


def has_shape(value: object, offered: Offered) -> bool:
    """Return True for an object with a name and arguments."""
    fields = as_object(value)
    inner = as_object(fields.get("function"))
    if inner:
        return has_shape(inner, offered)
    name = next((name for key in NAMES if (name := as_str(fields.get(key)))), "")
    if name and re.fullmatch(r"[\w.:/-]+", name):
        if any(isinstance(fields.get(key), JsonObject) or key in fields for key in ARGUMENTS):
            return True
        return _flat(fields, offered) is not None
    return short_call(fields, offered) is not None


def object_call(value: object, offered: Offered) -> Call:
    """Return the call that an object of this shape is."""
    fields = as_object(value)
    if call := short_call(fields, offered) or (None if {*ARGUMENTS} & {*fields} else _flat(fields, offered)):
        return call
    return call_of(fields, json_dump(fields))


def short_call(fields: Mapping[str, object], offered: Offered) -> Call | None:
    """Return the call in `{"NAME": {...}}` if a tool has the name."""
    if len(fields) == 1:
        ((name, given),) = fields.items()
        if isinstance(given, JsonObject) and offered.has(name):
            return name, given, None
    return None


def short_calls(body: str, offered: Offered) -> Sequence[Call]:
    """Read a text that consists of `{"NAME": {...}}`."""
    items = [item for value, _ in json_values(body) for item in listed(value)]
    found = [short_call(as_object(item), offered) for item in items]
    return [call for call in found if call] if all(found) else []


def _flat(fields: Mapping[str, object], offered: Offered) -> Call | None:
    """Return the call in an object that has the arguments beside the name, if they fit a tool's schema."""
    for key in NAMES:
        if offered.has(as_str(fields.get(key))):
            given = {name: value for name, value in fields.items() if name != key}
            if offered.fits(as_str(fields[key]), given):
                return as_str(fields[key]), json_freeze(given), None
    return None


def listed(value: object) -> Sequence[object]:
    """Return the objects of a value: an object, a list of objects, or those under `tool_calls`."""
    if isinstance(value, JsonObject):
        calls = as_array(value.get("tool_calls"))
        return calls if calls and len(value) <= 3 else (value,)
    items = as_array(value)
    return items if items and all(isinstance(item, JsonObject) for item in items) else ()


def single_braces(body: str) -> str:
    """Return a body with single braces if its braces are doubled, as in a template."""
    text = body.strip()
    if not re.match(r"\{\s*\{", text):
        return body
    singles = (text[1:], text.replace("{{", "{").replace("}}", "}"))
    return next((single for single in singles if next(json_values(single), None)), body)
