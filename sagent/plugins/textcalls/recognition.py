"""Find calls in a whole reply of any model, and tell calls from text that only shows one.

The rules are in docs/textcalls.md. Nothing here decides what may be done: the policy judges a recognised call like
every other.
"""

import html
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from urllib.parse import unquote_plus

from sagent.context.calls import WrittenCalls
from sagent.lib.dataclass import dataclass
from sagent.lib.json import (
    JsonObject,
    NotJsonError,
    as_array,
    as_object,
    as_str,
    json_dump,
    json_freeze,
    sha256_hex,
    valid_text,
)
from sagent.messages import CUT, Document, Image, Message, Opaque, Text, ToolCall, ToolResult
from sagent.model import Request
from sagent.plugins.textcalls.forms import (
    ARGUMENTS,
    BEGUN_CALL,
    GEMMA,
    INVOKING,
    NAMES,
    Call,
    broken_call,
    call_of,
    calls_in,
    cast_arguments,
    json_values,
    python_calls,
)
from sagent.plugins.textcalls.pythonic import read_literal
from sagent.plugins.textcalls.quoting import PLACES
from sagent.plugins.textcalls.reader import CALLS, THOUGHTS
from sagent.plugins.textcalls.writing import ADVISOR, is_advice

MAX_AROUND = 300  # characters beside a call of a tool that does not exist
MAX_AFTER = 600  # characters that may follow a call
MAX_CALLS = 50  # of one reply
_MAX_TRIES = 50  # failed attempts to find JSON in one text
_WINDOW = 300  # characters around a name in read text, in which a quoted call has its arguments

MARKS: Mapping[str, str] = {
    **CALLS,
    **INVOKING,
    **GEMMA,
    BEGUN_CALL: "",
    "<|tool_calls|>": "",
    "<tool_calls>": "</tool_calls>",
    "<tool_use>": "</tool_use>",
    "<longcat_tool_call>": "</longcat_tool_call>",
    "<|tools_prefix|>": "<|tools_suffix|>",
    "<|python_start|>": "<|python_end|>",
    "[TOOL_REQUEST]": "[END_TOOL_REQUEST]",
    "<tools>": "</tools>",
    "<function_call>": "</function_call>",
    "<functioncall>": "",
    "<TOOLCALL>": "</TOOLCALL>",
    "<seed:tool_call>": "</seed:tool_call>",
    "<|tool_call_start|>": "<|tool_call_end|>",
    "<|tool_calls_section_begin|>": "<|tool_calls_section_end|>",
    "<|action_start|>": "<|action_end|>",
}
"""Marks that begin a call in a reply of any model, and marks that end it; "" is the end of the reply."""
CALL_FENCES = ("tool_call", "tool_calls", "tool_code", "tool_use", "function_call")
_FENCES = ("", "json", "json5", "jsonc", "tool", "tools", "function", "xml", "text", "txt", "plaintext", *CALL_FENCES)
_PYTHON = ("python", "py", "tool_code")
_CHANNEL = re.compile(
    r"(?:<\|start\|>assistant)?\s*(?:<\|channel\|>\s*\w+)?\s+to=(?:functions\.)?([\w.:-]+)(?:<\|channel\|>\s*\w+)?"
    r"[^<]{0,40}(?:<\|constrain\|>\s*\w+\s*)?<\|message\|>(.*?)(?:<\|call\|>|<\|end\|>|\Z)",
    re.DOTALL,
)
_ANALYSIS = re.compile(r"(?:<\|start\|>assistant)?<\|channel\|>analysis<\|message\|>.*?(?:<\|end\|>|\Z)", re.DOTALL)
_OPENING = "|".join(map(re.escape, sorted(MARKS, key=len, reverse=True)))
_HEAD = (  # of arguments: ReAct, Qwen-Agent, gpt-oss without its marks, Functionary, GLM-4
    r"(?P<head>^Action:[ \t]*[\w.:-]+[ \t]*\n+Action Input:|^✿FUNCTION✿:[ \t]*[\w.:-]+[ \t]*\n✿ARGS✿:"
    r"|\bto=functions\.[\w.:-]+(?:[ \t]+(?:json|code))?\s*|^(?:>>>[ \t]*)?[A-Za-z_][\w.-]{0,99}[ \t]*\n)"
)
_NAME_IN_HEAD = re.compile(r"(?:Action:|✿FUNCTION✿:|to=functions\.|>>>|^)[ \t]*([\w.:-]+)")
_TOKEN = re.compile(
    rf"{_HEAD}[ \t]*(?=\{{)"
    r"|^(?P<quote>[ \t]*>[^\n]*)"
    r"|^[ \t]*(?P<fence>`{3,}|~{3,})(?P<info>[^\n`]*)$"
    r"|(?<!`)(?P<code>`{1,2})(?!`)[^\n]*?(?<!`)(?P=code)(?!`)"
    rf"|(?P<mark>{_OPENING})"
    r"|(?P<channel><\|start\|>assistant|<\|channel\|>)"
    r"|^[ \t]*functools(?P<functools>(?=\[\s*\{))"
    r"|^[ \t]*<(?P<element>[A-Za-z_]\w*)>(?=\s*<\w+>)"
    r"|^[ \t]*(?P<json>[{\[])",
    re.MULTILINE,
)
_KEYS = "|".join((*NAMES, *ARGUMENTS, "type", "id", "tool_calls"))
_SHAPE = re.compile(rf"[\[\s]*\{{\s*\{{?\s*[\"'](?:{_KEYS})[\"']\s*:")
_BROKEN = re.compile(
    rf"[\[\s]*\{{\s*\{{?\s*[\"'](?:{'|'.join(NAMES)})[\"']\s*:\s*[\"'][\w.:-]+[\"']\s*,\s*[\"'](?:{'|'.join(ARGUMENTS)})[\"']\s*:"
)
_PYTHON_LIST = re.compile(r"\[\s*([A-Za-z_][\w.:-]*)\s*\(")
_ANSWERED = re.compile(
    r"\s*(?:<tool_response|<function_results?>|<\|im_|<\|eot|<\|start|<\|tool_response|Observation:|✿RESULT✿)"
)
_CHILD = re.compile(r"\s*<(\w+)>")
_PREFIX = re.compile(r"(?:functions?|default_api|tools?|api)[.:]")
_NOISE = re.compile(r"[\s\"'\\`\u00ad\u200b-\u200f\u2060\ufeff]+")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_CALL_WORDS = re.compile(r"argument|parameter|tool|function|invoke|args|input|<\|", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Span:
    """Calls and their place in a text. If `marked`, no other text looks like them. If `shown`, they stay in the text,
    because they begin with words that are shown before it is known that a call follows."""

    start: int
    end: int
    calls: tuple[Call, ...]
    marked: bool
    shown: bool = False


def recognise(text: str, request: Request, reply: Message) -> WrittenCalls | None:
    """Return the calls in the text of a reply, None if it is an answer.

    If JSON was asked for, only marks make a call."""
    tools = {tool.name: tool.parameters for tool in request.tools}
    spans = _Reader(text, tools).spans()[:MAX_CALLS]
    if request.output_schema is not None:
        spans = [span for span in spans if span.marked]
    if (
        not any(span.calls for span in spans)
        or not _stands_as_call(text, spans, tools)
        or _was_read(text, spans, request, reply)
    ):
        return None
    if (around := _around(text, spans)).strip() and _has_unread_media(request):
        return None
    stem = f"text{sha256_hex(f'{len(request.messages)} {text}'.encode())[:12]}"  # not twice in a history that shrinks
    calls = [call for span in spans for call in span.calls][:MAX_CALLS]
    made = [ToolCall(f"{stem}_{at}", *call) for at, call in enumerate(calls)]
    if reply.stop in CUT and not _is_closed(text[spans[-1].start :]):  # here a missing brace is a cut and not a slip
        made[-1] = replace(made[-1], whole=False)
    return WrittenCalls(around, tuple(made))


def _is_closed(text: str) -> bool:
    """Return True if a text closes all its strings, braces and brackets."""
    bare = _STRING.sub("", text)
    return '"' not in bare and all(bare.count(opens) <= bare.count(closes) for opens, closes in ("{}", "[]"))


class _Reader:
    """Finds the calls anywhere in a text. It skips quoted text."""

    def __init__(self, text: str, tools: Mapping[str, JsonObject]) -> None:
        self._text = text
        self._tools = tools
        self._names = {plain_name(name): name for name in tools}
        self._tries = 0

    def spans(self) -> list[Span]:
        """Return the calls in order."""
        text, found = self._text, list[Span]()
        at = max((end + len(closing) for closing in THOUGHTS.values() if (end := text.rfind(closing)) >= 0), default=0)
        if at == 0 and text.lstrip().startswith(tuple(THOUGHTS)):
            return []  # thinking without an end
        if whole := self._whole_reply(at):
            return [whole]
        while token := _TOKEN.search(text, at):
            at = token.end()
            span: Span | None = None
            if token["mark"] is not None:
                span = self._marked(token.start(), token["mark"])
            elif token["channel"] is not None:
                span = self._channel(token.start())
            elif token["head"] is not None:
                span = self._headed(token)
            elif token["functools"] is not None:
                span = self._json(token.end(), token.start())
                span = replace(span, shown=True) if span else None
            elif token["element"] is not None:
                span = self._element(token)
            elif token["json"] is not None:
                start = token.start("json")
                span, at = self._json(start, token.start()), max(at, self._end_of_json)
            elif token["fence"] is not None:
                span, at = self._fenced(token)
            if span is not None:
                found.append(span)
                at = max(at, span.end)
        return found

    def _call(self, call: Call) -> Call:
        """Return a call with the name of the tool that it means."""
        return (self._meant(call[0]), *call[1:])

    def _meant(self, name: str) -> str:
        if name in self._tools:
            return name
        bare = _PREFIX.sub("", name)
        return bare if bare in self._tools else self._names.get(plain_name(bare), name)

    def _span(self, start: int, end: int, calls: Iterable[Call], *, marked: bool) -> Span | None:
        found = tuple(map(self._call, calls))
        return Span(start, end, found, marked) if found else None

    def _marked(self, start: int, mark: str) -> Span | None:
        text, closing = self._text, MARKS[mark]
        begun = start + len(mark)
        end = self._end_of_call(begun, closing) if closing else -1
        body = text[begun:] if end < 0 else text[begun:end]
        if mark == "<tool_calls>" and body.lstrip().startswith("<tool_call>"):
            inner = _Reader(body, self._tools).spans()
            calls = [call for span in inner for call in span.calls]
            return self._span(start, len(text) if end < 0 else end + len(closing), calls, marked=True)
        if mark in ("<tools>", "<tool_use>") and body.lstrip()[:1] not in ("{", "["):
            return None  # an element of some document
        if mark == "<|python_tag|>" and body.lstrip()[:1] not in ("{", "["):
            calls = python_calls(re.sub(r"\.call\(", "(", body), self._tools)
        else:
            body = f"{mark}{body}" if mark == "<invoke name=" else _single_braces(body)
            calls = list(calls_in(mark, body, self._tools, whole=end >= 0))
            if any(call[2] is not None for call in calls):
                calls = self._short_forms(body) or calls
            if any(call[2] is not None for call in calls) and (literal := self._literal(body)):
                calls = [literal]
        return self._span(start, len(text) if end < 0 else end + len(closing), calls, marked=True)

    def _short_forms(self, body: str) -> list[Call]:
        """Read a body of `{"NAME": {...}}`."""
        items = [item for value, _ in json_values(body) for item in _listed(value)]
        found = [self._short(as_object(item)) for item in items]
        return [call for call in found if call] if all(found) else []

    def _whole_reply(self, start: int) -> Span | None:
        """Read a reply that is one call in Python's syntax."""
        body = self._text[start:].strip()
        if not re.match(r"[A-Za-z_][\w.:-]*\(", body) or not body.endswith(")") or not self._calls_tools(body):
            return None
        calls = self._python(body)
        fits = len(calls) == 1 and calls[0][2] is None and self._fits(*calls[0][:2])
        return Span(start, len(self._text), (self._call(calls[0]),), marked=False, shown=True) if fits else None

    def _headed(self, token: re.Match[str]) -> Span | None:
        """Read arguments under or after a tool's name. Without further words it must be a tool that takes them."""
        text, start = self._text, token.end()
        found = _NAME_IN_HEAD.match(token["head"])
        values = list(itertools.islice(json_values(text[start:]), 1))
        if found is None or (values and not isinstance(values[0][0], JsonObject)):
            return None
        said = token["head"].startswith(("Action", "✿", "to="))
        if not values:
            call: Call = (found[1], JsonObject(), valid_text(text[start:]))
            return self._shown_span(token.start(), len(text), call) if said else None
        given, end = as_object(values[0][0]), start + len(values[0][1])
        if text[end:].partition("\n")[0].strip(" \t\r;,}]") or not (said or self._fits(found[1], given)):
            return None
        return self._shown_span(token.start(), end, (found[1], json_freeze(given), None))

    def _shown_span(self, start: int, end: int, call: Call) -> Span:
        return Span(start, end, (self._call(call),), marked=False, shown=True)

    def _element(self, token: re.Match[str]) -> Span | None:
        """Read an element with a tool's name and its arguments as children."""
        text, name = self._text, token["element"]
        end = text.find(f"</{name}>", token.end())
        if end < 0 or (schema := self._tools.get(self._meant(name))) is None:
            return None
        pairs = _children(text[token.end() : end])
        given = cast_arguments(pairs, schema)
        if not self._fits(name, given):
            return None
        return self._shown_span(token.start(), end + len(name) + 3, (name, given, None))

    def _fits(self, name: str, given: Mapping[str, object]) -> bool:
        """Return True for arguments that a tool of the name takes, with all that it needs."""
        schema = self._tools.get(self._meant(name))
        if schema is None:
            return False
        needed = {as_str(each) for each in as_array(schema.get("required"))}
        return bool(given) and needed <= {*given} <= {*as_object(schema.get("properties"))}

    def _literal(self, body: str) -> Call | None:
        """Read a body that is one object in Python's syntax."""
        try:
            value, end = read_literal(body, 0)
            frozen = json_freeze(value)
        except (ValueError, TypeError, NotJsonError):
            return None
        return self._call_in(frozen) if not body[end:].strip() and self._has_shape(frozen) else None

    def _end_of_call(self, begun: int, closing: str) -> int:
        """Return the position of the closing mark outside the strings of the call's JSON, -1 if there is none."""
        text = self._text
        inner = text[begun : begun + 1_000].lstrip()
        if inner[:1] in ("{", "["):
            start = text.index(inner[:1], begun)
            for _, source in json_values(text[start:]):
                start = text.index(source, start) + len(source)
            return text.find(closing, start)
        return text.find(closing, begun)

    def _channel(self, start: int) -> Span | None:
        if thinking := _ANALYSIS.match(self._text, start):
            return Span(start, thinking.end(), (), marked=True)
        found = _CHANNEL.match(self._text, start)
        if found is None:
            return None
        value = next(json_values(found[2].strip()), None)
        if value and isinstance(value[0], JsonObject) and value[1] == found[2].strip():
            call: Call = (found[1], value[0], None)
        else:
            call = (found[1], JsonObject(), valid_text(found[2]))
        return self._span(start, found.end(), (call,), marked=True)

    _end_of_json = 0  # end of the last JSON value that was read

    def _json(self, start: int, line: int, *, fenced: bool = False) -> Span | None:
        """Read JSON that consists of calls and fills its lines."""
        text = self._text
        self._end_of_json = start
        if python := _PYTHON_LIST.match(text, start):
            return self._python_list(python, line)
        if self._tries > _MAX_TRIES or not (_SHAPE.match(text, start) or self._is_short_form(start)):
            return None
        values, end = self._values(start, fenced=fenced)
        if not values:
            self._tries += 1
            if _BROKEN.match(text, start):
                end = len(text) if not fenced else start + len(text[start:])
                return self._span(line, end, (broken_call(text[start:end]),), marked=False)
            return None
        self._end_of_json = end
        line_end = text.find("\n", end)
        if text[end : line_end if line_end >= 0 else len(text)].strip(" \t\r;,}]"):
            return None
        items = [item for value, _ in values for item in _listed(value)]
        if not items or not all(map(self._has_shape, items)):
            return None
        return self._span(line, end, map(self._call_in, items), marked=False)

    def _values(self, start: int, *, fenced: bool) -> tuple[list[tuple[object, str]], int]:
        """Parse JSON values in sequence, a value with doubled braces, or a value in Python's syntax."""
        text = self._text
        doubled = re.compile(r"\{\s*(?=\{)").match(text, start)
        values: list[tuple[object, str]] = []
        end = start
        for value, source in json_values(text[start:]):
            if not _listed(value):
                break
            values.append((value, source))
            end = text.index(source, end) + len(source)
        if values:
            return values, end
        stop = text.find("\n```", start) if fenced else text.find("\n\n", start)
        block = text[start : stop if stop >= 0 else len(text)]
        if doubled:
            for single in (block[doubled.end() - start :], block.replace("{{", "{").replace("}}", "}")):
                for value, source in json_values(single):
                    if isinstance(value, JsonObject):
                        return [(value, source)], start + len(block)
                    break
        try:
            literal, end = read_literal(text, start)
            return [(json_freeze(literal), text[start:end])], end
        except (ValueError, TypeError, NotJsonError, RecursionError):
            return [], start

    def _is_short_form(self, start: int) -> bool:
        """Return True for `{"NAME": {` if a tool has the name."""
        found = re.compile(r"\{\s*\"([\w.:-]+)\"\s*:\s*\{").match(self._text, start)
        return found is not None and self._meant(found[1]) in self._tools

    def _has_shape(self, value: object) -> bool:
        fields = as_object(value)
        inner = as_object(fields.get("function"))
        if inner:
            return self._has_shape(inner)
        name = next((name for key in NAMES if (name := as_str(fields.get(key)))), "")
        if name and re.fullmatch(r"[\w.:/-]+", name):
            if any(isinstance(fields.get(key), JsonObject) or key in fields for key in ARGUMENTS):
                return True
            return self._flat(fields) is not None
        return self._short(fields) is not None

    def _call_in(self, value: object) -> Call:
        fields = as_object(value)
        if call := self._short(fields) or (None if {*ARGUMENTS} & {*fields} else self._flat(fields)):
            return call
        return call_of(fields, json_dump(fields))

    def _short(self, fields: Mapping[str, object]) -> Call | None:
        """Return the call in `{"NAME": {...}}` if a tool has the name."""
        if len(fields) == 1:
            ((name, given),) = fields.items()
            if isinstance(given, JsonObject) and self._meant(name) in self._tools:
                return name, given, None
        return None

    def _flat(self, fields: Mapping[str, object]) -> Call | None:
        """Return the call in an object that has the arguments beside the name, if they fit a tool's schema."""
        for key in NAMES:
            if self._meant(as_str(fields.get(key))) in self._tools:
                given = {name: value for name, value in fields.items() if name != key}
                if self._fits(as_str(fields[key]), given):
                    return as_str(fields[key]), json_freeze(given), None
        return None

    def _python_list(self, found: re.Match[str], line: int) -> Span | None:
        """Read `[read(path="a")]`, the call of Llama 3.2 and LFM, if a tool has the name."""
        text = self._text
        if self._meant(found[1]) not in self._tools:
            return None
        end = text.find("\n\n", found.start())
        body = text[found.start() : end if end >= 0 else len(text)].rstrip()
        return self._span(line, found.start() + len(body), self._python(body), marked=False)

    def _python(self, body: str) -> list[Call]:
        tools = {**self._tools, **{name: self._tools[self._meant(name)] for name in self._written(body)}}
        return list(python_calls(body, tools))

    def _written(self, body: str) -> Iterator[str]:
        """Yield the names of tools that a text calls in Python's syntax."""
        return (name for name in re.findall(r"([A-Za-z_][\w.:-]*)\s*\(", body) if self._meant(name) in self._tools)

    def _fenced(self, token: re.Match[str]) -> tuple[Span | None, int]:
        """Read a fenced block. Returns its calls, and its end."""
        text, fence, info = self._text, token["fence"], token["info"].strip().lower()
        content = token.end() + 1
        closed = re.compile(rf"^[ \t]*{re.escape(fence[0])}{{{len(fence)},}}[ \t]*$", re.MULTILINE)
        closing = closed.search(text, min(content, len(text)))
        end = closing.end() if closing else len(text)
        if fence != "```" or (info not in _FENCES and info not in _PYTHON):
            return None, end
        start = content + len(text[content:]) - len(text[content:].lstrip())
        body = text[start : closing.start() if closing else len(text)].rstrip()
        span: Span | None = None
        if body[:1] in ("{", "[") and info not in ("python", "py"):
            span = self._json(start, start, fenced=True)
            if span is not None and (closing := closed.search(text, min(span.end, len(text)))):
                end = closing.end()
                if text[span.end : closing.start()].strip(" \t\r\n;,}]"):
                    span = None
            elif span is not None:
                span = None if text[span.end :].strip(" \t\r\n;,}]") else span
                end = len(text) if span else end
        elif mark := next((mark for mark in MARKS if body.startswith(mark)), ""):
            inner = _Reader(body, self._tools).spans() if mark else []
            gaps = _gaps(body, inner)
            if inner and not any(gap.strip() for gap in gaps):
                span = Span(start, end, tuple(call for each in inner for call in each.calls), marked=True)
        elif info in _PYTHON and body and self._calls_tools(body):
            span = self._span(start, end, self._python(body), marked=info == "tool_code")
        elif info in CALL_FENCES and body:
            span = self._span(start, end, (broken_call(body),), marked=True)
        if span is None:
            return None, end
        return Span(token.start(), end, span.calls, span.marked or info in CALL_FENCES), end

    def _calls_tools(self, body: str) -> bool:
        """Return True if a text in Python's syntax begins with a call of a tool and calls nothing else."""
        first = re.match(r"\[?\s*(?:[A-Za-z_]\w*\s*=\s*)?(?:print\s*\(\s*)?([A-Za-z_][\w.:-]*)\s*\(", body)
        return first is not None and self._meant(first[1]) in self._tools


def _children(body: str) -> Sequence[tuple[str, str]]:
    """Return the names and texts of the elements that a text consists of; none if there is anything else in it."""
    found: list[tuple[str, str]] = []
    at = 0
    while child := _CHILD.match(body, at):
        end = body.find(f"</{child[1]}>", child.end())
        if end < 0:
            return ()
        found.append((child[1], body[child.end() : end]))
        at = end + len(child[1]) + 3
    return () if body[at:].strip() else found


def _listed(value: object) -> Sequence[object]:
    """Return the objects of a value: an object, a list of objects, or those under `tool_calls`."""
    if isinstance(value, JsonObject):
        calls = as_array(value.get("tool_calls"))
        return calls if calls and len(value) <= 3 else (value,)
    items = as_array(value)
    return items if items and all(isinstance(item, JsonObject) for item in items) else ()


def _single_braces(body: str) -> str:
    """Return a body with single braces if its braces are doubled, as in a template."""
    text = body.strip()
    if not re.match(r"\{\s*\{", text):
        return body
    singles = (text[1:], text.replace("{{", "{").replace("}}", "}"))
    return next((single for single in singles if next(json_values(single), None)), body)


def plain_name(name: str) -> str:
    """Return a tool's name without case and separators, which models change."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def is_tool(name: str, names: Collection[str]) -> bool:
    """Return True if a name that a model wrote means a tool. `names` are plain names."""
    return plain_name(name) in names or plain_name(_PREFIX.sub("", name)) in names


def _gaps(text: str, spans: Sequence[Span]) -> list[str]:
    """Return the text before, between and after calls."""
    ends = [0, *(span.end for span in spans)]
    starts = [*(span.start for span in spans), len(text)]
    return [text[end:start] for end, start in zip(ends, starts, strict=True)]


def _stands_as_call(text: str, spans: Sequence[Span], tools: Mapping[str, JsonObject]) -> bool:
    """Return True if a reply ends with its calls, or nearly. Unmarked calls of unknown tools must be nearly all of the
    reply."""
    lead, *later = _gaps(text, spans)
    later = ["" if _ANSWERED.match(gap) else gap.strip() for gap in later]
    if any(len(gap) > MAX_AFTER for gap in later):
        return False
    known = all(name in tools for span in spans for name, _, _ in span.calls)
    return known or all(span.marked for span in spans) or len(lead.strip()) + sum(map(len, later)) <= MAX_AROUND


def _around(text: str, spans: Sequence[Span]) -> str:
    """Return a text without its calls, and without the results that a model made up for them."""
    if any(span.shown for span in spans):
        return text
    lead, *later = _gaps(text, spans)
    after = [gap.strip() for gap in later if gap.strip() and not _ANSWERED.match(gap)]
    lead = lead if lead.strip() else ""
    if lead and after and not lead.endswith("\n\n"):
        lead = f"{lead}\n" if lead.endswith("\n") else f"{lead}\n\n"
    return lead + "\n\n".join(after)


def _was_read(text: str, spans: Sequence[Span], request: Request, reply: Message) -> bool:
    """Return True if one of the calls appears in read text: a result, a file, a message, instructions, an earlier
    answer. The model may repeat a call that was made before."""
    sources = [text[span.start : span.end] for span in spans]
    names = [_squeezed(name) for span in spans for name, _, _ in span.calls]
    cores = [core for core in map(_core, sources) if any(name and name in core for name in names)]
    written = {*filter(None, map(_squeezed, sources)), *cores}
    made = [(call.name, call.arguments) for message in request.messages for call in message.calls]
    others = [call for span in spans for call in span.calls if call[:2] not in made or call[2] is not None]
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
    removed."""
    found = {text, html.unescape(text), PLACES.sub("", text)}
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


def _has_unread_media(request: Request) -> bool:
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
    before = rf"(?:{re.escape(_squeezed(key))}{between}|{re.escape(name)}\((?:[^()]{{0,300}},)?)"
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
