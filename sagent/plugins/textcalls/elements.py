"""Calls that are written as elements: the tool's name and its arguments are attributes, children or the content."""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import field

from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, JsonObject, json_freeze, valid_text
from sagent.plugins.textcalls.forms import Call, cast_arguments, json_values
from sagent.plugins.textcalls.marks import ARGUMENTS, NAMES
from sagent.plugins.textcalls.offered import Offered

CALLS = ("tool_call", "tool_use", "function_call", "tool", "function", "functions", "invoke", "call")
"""Elements whose content may be a call."""
_PARAMETERS = ("parameter", "param", "arg", "argument", "property", "input")
_KEYS = ("name", "key")
_ATTRIBUTE = re.compile(
    r"\s+([A-Za-z_][\w.:-]*)\s*=\s*(?:\"([^\"]{0,20000})\"|'([^']{0,20000})'|([^\s\"'<>=/]{1,200}))"
)
_START = re.compile(r"<(?:[A-Za-z][\w-]{0,20}:)?([A-Za-z_][\w.-]{0,99})(?:=([\w.-]{1,99}))?(?=[\s/>])")
_TAG_END = re.compile(r"\s*(/?)>")
_BLANK = re.compile(r"\s*")


@dataclass(frozen=True, slots=True)
class Element:
    """An element: its attributes, its content, and where it ends. `whole`: its end was written."""

    name: str
    attributes: Mapping[str, str]
    content: str
    end: int
    whole: bool = True
    children: Sequence["Element"] = field(default=())


def read_element(text: str, start: int, depth: int = 2) -> Element | None:
    """Return the element that begins at a position; None if there is none. One without an end extends to the end of
    the text."""
    tag = _START.match(text, start)
    if tag is None:
        return None
    attributes = {"name": tag[2]} if tag[2] else {}
    at = tag.end()
    while match := _ATTRIBUTE.match(text, at):
        value = next((value for value in match.groups()[1:] if value is not None), "")
        attributes[match[1]] = html.unescape(value)
        at = match.end()
    closed = _TAG_END.match(text, at)
    if closed is None:
        return None
    if closed[1]:
        return Element(tag[1], attributes, "", closed.end())
    begun = closed.end()
    children, at = _children(text, begun, depth) if depth else ((), begun)
    if not children:
        at = _end_of_json(text, begun)
    opened = text[start + 1 : tag.end()].partition("=")[0]
    end = text.find(f"</{opened}>", at)
    if end < 0:
        return Element(tag[1], attributes, text[begun:], len(text), whole=False)
    kept = children if not text[at:end].strip() else ()
    return Element(tag[1], attributes, text[begun:end], end + len(opened) + 3, children=kept)


def _children(text: str, start: int, depth: int) -> tuple[Sequence[Element], int]:
    """Return the elements that stand one after the other at a position, and the end of the last one."""
    found: list[Element] = []
    at = start
    while child := read_element(text, _skip(text, at), depth - 1):
        if not child.whole:
            return (), start
        found.append(child)
        at = child.end
    return found, at


def _end_of_json(text: str, position: int) -> int:
    """Return the end of a JSON value at a position, in whose strings the end of an element may stand."""
    start = _skip(text, position)
    if text[start : start + 1] not in ("{", "["):
        return position
    found = next(iter(json_values(text[start:])), None)
    return start + len(found[1]) if found else position


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def call_of_element(element: Element, offered: Offered) -> Call | None:
    """Return the call that an element describes; None if it is something else."""
    children = element.children
    name = next((value for key in NAMES if (value := element.attributes.get(key))), "")
    named = None if name else next((child for child in children if child.name in NAMES), None)
    name = name or (named.content.strip() if named else "")
    if not re.fullmatch(r"[\w.:/-]{1,100}", name):
        return None
    if not element.whole and not _has_arguments(element):
        return name, EMPTY, valid_text(element.content)
    given = _arguments(element, [child for child in children if child is not named], name, offered)
    return (name, EMPTY, valid_text(element.content)) if given is None else (name, given, None)


def calls_of_content(content: str, offered: Offered) -> Sequence[Call]:
    """Return the calls in elements that stand for themselves: a name and arguments, or elements of calls."""
    children, at = _children(content, 0, 3)
    if not children or content[at:].strip():
        return ()
    whole = Element("call", {}, content, len(content), children=children)
    apart = children if all(child.name in CALLS for child in children) else (whole,)
    found = [call_of_element(each, offered) for each in apart]
    return [call for call in found if call] if all(found) else ()


def tool_element(element: Element, offered: Offered) -> Call | None:
    """Return the call in an element that has a tool's name itself."""
    if not element.whole or not offered.has(element.name):
        return None
    given = _arguments(element, element.children, element.name, offered, plain=False)
    return (element.name, given, None) if given and offered.fits(element.name, given) else None


def has_parameters(element: Element) -> bool:
    """Return True for an element that has named parameters or a JSON object, as nothing but a call has."""
    named = [child for child in element.children if child.name in _PARAMETERS and child.attributes.get("name")]
    return (bool(named) and len(named) == len(element.children)) or element.content.lstrip().startswith("{")


def _has_arguments(element: Element) -> bool:
    """Return True for an opening tag that has all: one without an end needs none."""
    return len(element.attributes) > 1 and not element.content.strip()


def _arguments(
    element: Element, children: Sequence[Element], name: str, offered: Offered, *, plain: bool = True
) -> JsonObject | None:
    """Return the arguments of an element; None if they cannot be read. `plain`: its text may be the only one."""
    schema, content = offered.schema(name), element.content.strip()
    if (inner := next((child for child in children if child.name in ARGUMENTS), None)) and len(children) == 1:
        return _arguments(inner, inner.children, name, offered, plain=plain)
    if children:
        return cast_arguments([_pair(child) for child in children], schema)
    if element.children or not content:  # a name and nothing else, or attributes
        raw = next((value for key in ARGUMENTS if (value := element.attributes.get(key))), "")
        if raw:
            return _object(raw)
        rest = [(key, value) for key, value in element.attributes.items() if key not in (*NAMES, "id", "type")]
        return cast_arguments(rest, schema)
    if (found := _object(content)) is not None:
        return found
    if plain and content[:1] not in ("{", "<") and (key := offered.only_text(name)):
        return json_freeze({key: valid_text(element.content.removeprefix("\n").removesuffix("\n"))})
    return None


def _pair(child: Element) -> tuple[str, str]:
    """Return the name of an argument and its text."""
    key = next((value for key in _KEYS if (value := child.attributes.get(key))), "")
    return (key if key and child.name in _PARAMETERS else child.name), child.content


def _object(text: str) -> JsonObject | None:
    """Return the JSON object that a text is."""
    found = next(iter(json_values(text)), None)
    if found is None or not isinstance(found[0], JsonObject):
        return None
    return found[0] if not text[text.index(found[1]) + len(found[1]) :].strip(" \t\r\n;,}]") else None
