"""Tell whether a model has read a call that it writes: in a result, a file, a message, instructions or an answer of
its own. Then the call is only shown."""

import html
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from urllib.parse import unquote_plus

from sagent.lib.json import JsonObject, as_array, as_str, json_dump
from sagent.messages import Document, Image, Message, Opaque, Text, ToolCall, ToolResult
from sagent.model import Request
from sagent.plugins.textcalls.forms import Call
from sagent.plugins.textcalls.quoting import PLACES
from sagent.plugins.textcalls.writing import ADVISOR, is_advice

_WINDOW = 300  # characters around a name in read text, in which a quoted call has its arguments
_NOISE = re.compile(r"[\s\"'\\`\u00ad\u200b-\u200f\u2060\ufeff]+")
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_LABEL = re.compile(r"^[ \t]*(?:-[ \t]+)?[\w ]{1,40}:[ \t]", re.MULTILINE)
_CALL_WORDS = re.compile(r"argument|parameter|tool|function|invoke|args|input|<\|", re.IGNORECASE)


def was_read(sources: Sequence[str], calls: Sequence[Call], request: Request, reply: Message) -> bool:
    """Return True if one of the calls, which are written in `sources`, appears in read text. The model may repeat a
    call that was made before."""
    names = [_squeezed(name) for name, _, _ in calls]
    cores = [core for core in map(_core, sources) if any(name and name in core for name in names)]
    written = {*filter(None, map(_squeezed, sources)), *cores}
    made = [(call.name, call.arguments) for message in request.messages for call in message.calls]
    others = [call for call in calls if call[:2] not in made or call[2] is not None]
    needed = {tool.name: frozenset(map(as_str, as_array(tool.parameters.get("required")))) for tool in request.tools}
    for shown, foreign in _sources(request, reply):
        for source in _readings(shown):
            squeezed = _squeezed(source)
            if any(one in squeezed for one in written):
                return True
            if foreign and any(_shows(squeezed, call, needed.get(call[0], frozenset())) for call in others):
                return True
    return False


def _readings(text: str) -> Iterable[str]:
    """Return a text, and the same text with HTML marks, JSON escapes, URL escapes and line numbers decoded or
    removed, and with marks at the ends of lines, where values without quotation marks end."""
    found = {text, html.unescape(text), PLACES.sub("", text)}
    if _LABEL.search(text):
        found.add(text.replace("\n", ";\n"))
    if "\\u" in text:
        found.add(_ESCAPE.sub(lambda one: chr(int(one[1], 16)), text))
    if "%" in text:
        found.add(unquote_plus(text))
    return found


def _sources(request: Request, reply: Message) -> Iterator[tuple[str, bool]]:
    """Yield the texts that a model has read or said, and whether others than the person and the model wrote them. Notes
    about a call that was not made quote the call, and advice gives calls to be made: both are left out."""
    yield "\n".join((request.system, *(tool.description for tool in request.tools))), False
    tools, refused = {tool.name for tool in request.tools}, set[str]()
    for message in (*request.messages, reply):
        if is_advice(message):
            continue
        refused |= {
            call.id
            for call in message.calls
            if call.malformed is not None or not call.whole or call.name not in tools or call.name == ADVISOR
        }
        for part in message.parts:
            match part:
                case ToolResult() if part.call_id not in refused:
                    yield part.text, True
                case Opaque():
                    yield part.text, True
                case ToolCall():
                    yield json_dump(part.arguments), False
                case Text() if message is not reply:
                    yield part.text, message.role == "user" and bool(message.sender)
                case _:
                    pass


def has_unread_media(request: Request) -> bool:
    """Return True if a model has seen documents or pictures, whose words are unknown here."""
    kept = (part.content if isinstance(part, ToolResult) else (part,) for one in request.messages for part in one.parts)
    return any(isinstance(part, Document | Image) for parts in kept for part in parts)


def _shows(source: str, call: Call, needed: Collection[str]) -> bool:
    """Return True if a squeezed text has the call's `needed` arguments near its name, or all arguments if none is
    needed. The text must also call the name, or have a word for calls near it."""
    name, arguments, malformed = _squeezed(call[0]), call[1], call[2]
    if not name or not (arguments or malformed):
        return False
    said = {key: value for key, value in arguments.items() if any(map(_squeezed, _leaves(value)))}
    said = {key: value for key, value in said.items() if key in needed} or said
    leaves = [one for value in said.values() for leaf in _leaves(value) if (one := _squeezed(leaf))]
    pairs = [_pair(name, key, value) for key, value in said.items()]
    keys = "|".join(re.escape(_squeezed(key)) for key in said)
    called = re.compile(rf"{re.escape(name)}(?:\(|\W{{1,8}}(?:{keys})\W)" if keys else rf"{re.escape(name)}\(")
    if malformed:
        leaves.append(_squeezed(malformed))
    reach, at = _WINDOW + 2 * sum(map(len, leaves)), 0
    while (at := source.find(name, at)) >= 0:
        near = source[max(0, at - reach) : at + reach]
        if (
            all(leaf in near for leaf in leaves)
            and (called.search(near) or _CALL_WORDS.search(near.replace(name, " ")))
            and all(pair.search(near) for pair in pairs)
        ):
            return True
        at += max(len(name), reach // 2)
    return False


def _pair(name: str, key: str, value: object) -> re.Pattern[str]:
    """Return an expression for a key and the beginning of its value in a squeezed text, in any form of a call of the
    name. A call in Python's syntax may have no key."""
    first = next((one for leaf in _leaves(value) if (one := _squeezed(leaf))), "")
    between = r"\W{0,20}(?:(?:arg_key\W{0,20}arg_value|string=\w{1,9}|escape)\W{0,20})?"
    called = rf"{re.escape(name)}(?:\((?:[^()]{{0,300}},)?|/?>|(?:action|tool)?_?input:)"
    before = rf"(?:{re.escape(_squeezed(key))}{between}|{called})"
    return re.compile(rf"{before}{re.escape(first)}(?!\w)")


def _leaves(value: object) -> Iterator[str]:
    """Yield the texts and numbers in arguments."""
    match value:
        case str():
            yield value
        case JsonObject():
            for each in value.values():
                yield from _leaves(each)
        case tuple():
            for each in as_array(value):  # pyright: ignore[reportUnknownArgumentType] -- of anything
                yield from _leaves(each)
        case bool() | None:
            return
        case _:
            yield str(value)


def _squeezed(text: str) -> str:
    """Return a text without white space, quotation marks and escapes, in lower case."""
    return _NOISE.sub("", text.replace("\\n", "").replace("\\t", "")).casefold()


def _core(text: str) -> str:
    """Return the text between the outer braces of a call, squeezed. Other marks around the call do not change it."""
    start, end = text.find("{"), text.rfind("}")
    return _squeezed(text[start : end + 1]) if 0 <= start < end else ""
