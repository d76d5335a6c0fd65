"""Find calls in a whole reply of any model, and tell calls from text that only shows one.

The rules are in docs/textcalls.md. Nothing here decides what may be done: the policy judges a recognised call like
every other.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sagent.context.calls import WrittenCalls
from sagent.lib.dataclass import dataclass
from sagent.lib.json import (
    JsonObject,
    NotJsonError,
    as_object,
    json_freeze,
    sha256_hex,
    valid_text,
)
from sagent.messages import CUT, Message, ToolCall
from sagent.model import Request
from sagent.plugins.textcalls.announced import ANNOUNCED, read_announced
from sagent.plugins.textcalls.elements import CALLS as ELEMENTS
from sagent.plugins.textcalls.elements import (
    call_of_element,
    calls_of_content,
    has_parameters,
    read_element,
    tool_element,
)
from sagent.plugins.textcalls.forms import Call, broken_call, calls_in, json_values, python_calls
from sagent.plugins.textcalls.labelled import LABELLED, read_labelled
from sagent.plugins.textcalls.marks import ARGUMENTS, ATTRIBUTED, CALL_FENCES, MARKS, NAMES, THOUGHTS
from sagent.plugins.textcalls.objects import has_shape, listed, object_call, short_calls, single_braces
from sagent.plugins.textcalls.offered import Offered
from sagent.plugins.textcalls.pythonic import read_literal
from sagent.plugins.textcalls.readings import has_unread_media, was_read

MAX_AROUND = 300  # characters beside a call of a tool that does not exist
MAX_AFTER = 600  # characters that may follow a call
MAX_CALLS = 50  # of one reply
_MAX_TRIES = 50  # failed attempts to find JSON or elements in one text

_TEXTS = ("text", "txt", "plaintext")
_DATA = ("", "json", "json5", "jsonc", "xml", "yaml", "yml")
_FENCES = (*_DATA, *_TEXTS, "tool", "tools", "function", *CALL_FENCES)
_PYTHON = ("python", "py", "tool_code")
_CHANNEL = re.compile(
    r"(?:<\|start\|>assistant)?\s*(?:<\|channel\|>\s*\w+)?\s+to=(?:functions\.)?([\w.:-]+)(?:<\|channel\|>\s*\w+)?"
    r"[^<]{0,40}(?:<\|constrain\|>\s*\w+\s*)?<\|message\|>(.*?)(?:<\|call\|>|<\|end\|>|\Z)",
    re.DOTALL,
)
_ANALYSIS = re.compile(r"(?:<\|start\|>assistant)?<\|channel\|>analysis<\|message\|>.*?(?:<\|end\|>|\Z)", re.DOTALL)
_OPENING = "|".join(map(re.escape, sorted(MARKS, key=len, reverse=True)))
_HEAD = (  # of arguments: Qwen-Agent, gpt-oss without its marks, Functionary, GLM-4
    r"(?P<head>^✿FUNCTION✿:[ \t]*[\w.:-]+[ \t]*\n✿ARGS✿:"
    r"|\bto=functions\.[\w.:-]+(?:[ \t]+(?:json|code))?\s*|^(?:>>>[ \t]*)?[A-Za-z_][\w.-]{0,99}[ \t]*\n)"
)
_NAME_IN_HEAD = re.compile(r"(?:✿FUNCTION✿:|to=functions\.|>>>|^)[ \t]*([\w.:-]+)")
_TOKEN = re.compile(
    rf"{_HEAD}[ \t]*(?=\{{)"
    r"|^(?P<quote>[ \t]*>[^\n]*)"
    r"|^[ \t]*(?P<fence>`{3,}|~{3,})(?P<info>[^\n`]*)$"
    r"|(?<!`)(?P<code>`{1,2})(?!`)[^\n]*?(?<!`)(?P=code)(?!`)"
    rf"|(?P<mark>{_OPENING})"
    r"|(?P<channel><\|start\|>assistant|<\|channel\|>)"
    r"|^[ \t]*functools(?P<functools>(?=\[\s*\{))"
    r"|^[ \t]*<(?P<element>[A-Za-z_]\w*)(?=[\s/>])"
    rf"|^[ \t]*(?P<labelled>{LABELLED})"
    r"|^[ \t]*(?P<gemma>call:[\w.-]+(?=\{))"
    rf"|^[ \t]*(?P<announced>{ANNOUNCED})"
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
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


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
    calls = [call for span in spans for call in span.calls]
    if (
        not calls
        or not _stands_as_call(text, spans, tools)
        or was_read([text[span.start : span.end] for span in spans], calls, request, reply)
    ):
        return None
    if (around := _around(text, spans)).strip() and has_unread_media(request):
        return None
    stem = f"text{sha256_hex(f'{len(request.messages)} {text}'.encode())[:12]}"  # not twice in a history that shrinks
    made = [ToolCall(f"{stem}_{at}", *call) for at, call in enumerate(calls[:MAX_CALLS])]
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
        self._offered = Offered(tools)
        self._tries = 0

    def spans(self) -> list[Span]:
        """Return the calls in order."""
        text, found = self._text, list[Span]()
        at = max((end + len(closing) for closing in THOUGHTS.values() if (end := text.rfind(closing)) >= 0), default=0)
        if at == 0 and text.lstrip().startswith(tuple(THOUGHTS)):
            return []  # thinking without an end
        while token := _TOKEN.search(text, at):
            at = token.end() if token["announced"] is None else token.start() + len(token[0].partition("\n")[0])
            span: Span | None = None
            if token["mark"] is not None:
                span = self._marked(token.start(), token["mark"])
            elif token["channel"] is not None:
                span = self._channel(token.start())
            elif token["json"] is not None:
                start = token.start("json")
                span, at = self._json(start, token.start()), max(at, self._end_of_json)
            elif token["fence"] is not None:
                span, at = self._fenced(token)
            else:
                span = self._begun_by_words(token)
            if span is not None:
                found.append(span)
                at = max(at, span.end)
        return found

    def _begun_by_words(self, token: re.Match[str]) -> Span | None:
        """Read a call whose beginning was shown."""
        span: Span | None = None
        if token["head"] is not None:
            span = self._headed(token)
        elif token["functools"] is not None:
            span = self._json(token.end(), token.start())
        elif token["labelled"] is not None:
            span = self._labelled(token.start("labelled"))
        elif token["gemma"] is not None:
            span = self._unmarked_gemma(token.start("gemma"))
        elif token["announced"] is not None:
            span = self._announced(token)
        elif token["element"] is not None:
            span = self._element(token)
        return replace(span, shown=True) if span else None

    def _call(self, call: Call) -> Call:
        """Return a call with the name of the tool that it means."""
        return (self._offered.meant(call[0]), *call[1:])

    def _span(self, start: int, end: int, calls: Iterable[Call], *, marked: bool) -> Span | None:
        found = tuple(map(self._call, calls))
        return Span(start, end, found, marked) if found else None

    def _marked(self, start: int, mark: str) -> Span | None:
        if mark in ATTRIBUTED:
            return self._attributed(start)
        text, closing = self._text, MARKS[mark]
        begun = start + len(mark)
        end = self._end_of_call(begun, closing) if closing else -1
        body = text[begun:] if end < 0 else text[begun:end]
        if mark == "<tool_calls>" and body.lstrip().startswith("<tool_call>"):
            inner = _Reader(body, self._tools).spans()
            calls = [call for span in inner for call in span.calls]
            return self._span(start, len(text) if end < 0 else end + len(closing), calls, marked=True)
        if mark == "<tools>" and body.lstrip()[:1] not in ("{", "["):
            return None  # an element of some document
        if mark == "<|python_tag|>" and body.lstrip()[:1] not in ("{", "["):
            calls = python_calls(re.sub(r"\.call\(", "(", body), self._tools)
        else:
            body = f"{mark}{body}" if mark.endswith("invoke name=") else single_braces(body)
            calls = list(calls_in(mark, body, self._tools, whole=end >= 0))
            if any(call[2] is not None for call in calls):
                calls = self._reread(body, whole=end >= 0) or calls
            if mark == "<tool_use>" and body.lstrip()[:1] not in ("{", "[") and any(not call[0] for call in calls):
                return None  # an element of some document
        return self._span(start, len(text) if end < 0 else end + len(closing), calls, marked=True)

    def _attributed(self, start: int) -> Span | None:
        """Read an element with the tool's name among its attributes."""
        element = read_element(self._text, start)
        call = call_of_element(element, self._offered) if element else None
        return self._span(start, element.end, (call,), marked=True) if element and call else None

    def _reread(self, body: str, *, whole: bool) -> Sequence[Call]:
        """Read the text between two marks in the forms of other marks. What shows no end of its own must be whole."""
        if calls := short_calls(body, self._offered):
            return calls
        if call := self._literal(body):
            return (call,)
        if not whole:
            return ()
        labelled = read_labelled(body.strip(), 0, self._offered)
        if labelled and labelled.end >= len(body.strip()):
            return (labelled.call,)
        if calls := calls_of_content(body, self._offered):
            return calls
        return self._python(body.strip()) if self._calls_tools(body.strip()) else ()

    def _headed(self, token: re.Match[str]) -> Span | None:
        """Read arguments under or after a tool's name. Without further words it must be a tool that takes them."""
        text, start = self._text, token.end()
        match = _NAME_IN_HEAD.match(token["head"])
        values = list(itertools.islice(json_values(text[start:]), 1))
        if match is None or (values and not isinstance(values[0][0], JsonObject)):
            return None
        said = token["head"].startswith(("✿", "to="))
        if not values:
            call: Call = (match[1], JsonObject(), valid_text(text[start:]))
            return self._span(token.start(), len(text), (call,), marked=False) if said else None
        given, end = as_object(values[0][0]), start + len(values[0][1])
        if text[end:].partition("\n")[0].strip(" \t\r;,}]") or not (said or self._offered.fits(match[1], given)):
            return None
        return self._span(token.start(), end, ((match[1], json_freeze(given), None),), marked=False)

    def _element(self, token: re.Match[str]) -> Span | None:
        """Read an element with a tool's name, one whose content is a call, or one of code that is calls."""
        name, start = token["element"], token.start("element") - 1
        if name != "code" and name not in ELEMENTS and not self._offered.has(name):
            return None
        if self._tries > _MAX_TRIES or (element := read_element(self._text, start)) is None:
            return None
        calls: Sequence[Call] = ()
        content = element.content.strip()
        if name == "code":
            calls = self._python(content) if self._calls_tools(content) else ()
        elif call := tool_element(element, self._offered) or call_of_element(element, self._offered):
            if self._offered.has(call[0]) or has_parameters(element):
                calls = (call,)
        elif element.whole and content[:1] in ("{", "["):
            inner = self._inside(content)
            calls = [call for span in inner for call in span.calls]
        self._tries += not calls
        return self._span(start, element.end, calls, marked=False)

    def _inside(self, body: str) -> Sequence[Span]:
        """Return the calls that a text consists of; none if there is anything else in it."""
        inner = _Reader(body, self._tools).spans()
        return () if any(gap.strip() for gap in _gaps(body, inner)) else inner

    def _labelled(self, start: int) -> Span | None:
        """Read a call under labels. Labels that stand elsewhere too make a call only of a tool that takes the
        arguments."""
        found = read_labelled(self._text, start, self._offered)
        if found is None or not (found.said or self._offered.fits(*found.call[:2])):
            return None
        return self._span(start, found.end, (found.call,), marked=False)

    def _announced(self, token: re.Match[str]) -> Span | None:
        """Read a call on a line of its own."""
        if self._tries > _MAX_TRIES or (found := read_announced(self._text, token, self._offered)) is None:
            return None
        return self._span(token.start(), found.end, (found.call,), marked=False)

    def _unmarked_gemma(self, start: int) -> Span | None:
        """Read a call of Gemma 4 whose marks were not written."""
        end = self._text.rfind("}", start) + 1
        calls = calls_in("<|tool_call>", self._text[start:end], self._tools, whole=True)
        return self._span(start, end, calls, marked=False) if end else None

    def _literal(self, body: str) -> Call | None:
        """Read a body that is one object in Python's syntax."""
        try:
            value, end = read_literal(body, 0)
            frozen = json_freeze(value)
        except (ValueError, TypeError, NotJsonError):
            return None
        fits = not body[end:].strip() and has_shape(frozen, self._offered)
        return object_call(frozen, self._offered) if fits else None

    def _end_of_call(self, position: int, closing: str) -> int:
        """Return the position of the closing mark outside the strings of the call's JSON, -1 if there is none."""
        text = self._text
        inner = text[position : position + 1_000].lstrip()
        if inner[:1] in ("{", "["):
            start = text.index(inner[:1], position)
            for _, source in json_values(text[start:]):
                start = text.index(source, start) + len(source)
            return text.find(closing, start)
        return text.find(closing, position)

    def _channel(self, start: int) -> Span | None:
        if thinking := _ANALYSIS.match(self._text, start):
            return Span(start, thinking.end(), (), marked=True)
        match = _CHANNEL.match(self._text, start)
        if match is None:
            return None
        value = next(json_values(match[2].strip()), None)
        if value and isinstance(value[0], JsonObject) and value[1] == match[2].strip():
            call: Call = (match[1], value[0], None)
        else:
            call = (match[1], JsonObject(), valid_text(match[2]))
        return self._span(start, match.end(), (call,), marked=True)

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
        items = [item for value, _ in values for item in listed(value)]
        if not items or not all(has_shape(item, self._offered) for item in items):
            return None
        return self._span(line, end, (object_call(item, self._offered) for item in items), marked=False)

    def _values(self, start: int, *, fenced: bool) -> tuple[list[tuple[object, str]], int]:
        """Parse JSON values in sequence, a value with doubled braces, or a value in Python's syntax."""
        text = self._text
        doubled = re.compile(r"\{\s*(?=\{)").match(text, start)
        values: list[tuple[object, str]] = []
        end = start
        for value, source in json_values(text[start:]):
            if not listed(value):
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
        match = re.compile(r"\{\s*\"([\w.:-]+)\"\s*:\s*\{").match(self._text, start)
        return match is not None and self._offered.has(match[1])

    def _python_list(self, match: re.Match[str], line: int) -> Span | None:
        """Read `[read(path="a")]`, the call of Llama 3.2 and LFM, if a tool has the name."""
        text = self._text
        if not self._offered.has(match[1]):
            return None
        end = text.find("\n\n", match.start())
        body = text[match.start() : end if end >= 0 else len(text)].rstrip()
        return self._span(line, match.start() + len(body), self._python(body), marked=False)

    def _python(self, body: str) -> list[Call]:
        tools = {**self._tools, **{name: self._offered.schema(name) for name in self._written(body)}}
        return list(python_calls(body, tools))

    def _written(self, body: str) -> Iterator[str]:
        """Yield the names of tools that a text calls in Python's syntax."""
        return (name for name in re.findall(r"([A-Za-z_][\w.:-]*)\s*\(", body) if self._offered.has(name))

    def _fenced(self, token: re.Match[str]) -> tuple[Span | None, int]:
        """Read a fenced block. Returns its calls, and its end."""
        text, fence, info = self._text, token["fence"], token["info"].strip().lower()
        content = token.end() + 1
        closed = re.compile(rf"^[ \t]*{re.escape(fence[0])}{{{len(fence)},}}[ \t]*(?:<end_code>[ \t]*)?$", re.MULTILINE)
        closing = closed.search(text, min(content, len(text)))
        end = closing.end() if closing else len(text)
        named = self._offered.has(info)
        if fence != "```" or (info not in _FENCES and info not in _PYTHON and not named):
            return None, end
        start = content + len(text[content:]) - len(text[content:].lstrip())
        body = text[start : closing.start() if closing else len(text)].rstrip()
        span: Span | None = None
        if named:
            span = self._named_block(info, body, token.start())
        elif body[:1] in ("{", "[") and info not in ("python", "py"):
            span = self._json(start, start, fenced=True)
            if span is not None and (closing := closed.search(text, min(span.end, len(text)))):
                end = closing.end()
                if text[span.end : closing.start()].strip(" \t\r\n;,}]"):
                    span = None
            elif span is not None:
                span = None if text[span.end :].strip(" \t\r\n;,}]") else span
                end = len(text) if span else end
        elif info in _PYTHON and body and self._calls_tools(body):
            span = self._span(start, end, self._python(body), marked=info == "tool_code")
        elif (inner := self._inside(body)) and not (info in _TEXTS and any(each.shown for each in inner)):
            calls = [call for each in inner for call in each.calls]
            span = Span(start, end, tuple(calls), all(each.marked for each in inner), any(each.shown for each in inner))
        elif info in CALL_FENCES and body:
            span = self._span(start, end, (broken_call(body),), marked=True)
        if span is None:
            return None, end
        return replace(span, start=token.start(), end=end, marked=span.marked or info in CALL_FENCES), end

    def _named_block(self, name: str, body: str, start: int) -> Span | None:
        """Read a block that has a tool's name and its arguments as JSON."""
        found = next(json_values(body), None)
        given = found[0] if found and found[1] == body else None
        if not isinstance(given, JsonObject) or not self._offered.fits(name, given):
            return None
        return Span(start, start, (self._call((name, given, None)),), marked=False, shown=True)

    def _calls_tools(self, body: str) -> bool:
        """Return True if a text in Python's syntax begins with a call of a tool and calls nothing else."""
        first = re.match(r"\[?\s*(?:[A-Za-z_]\w*\s*=\s*)?(?:print\s*\(\s*)?([A-Za-z_][\w.:-]*)\s*\(", body)
        return first is not None and self._offered.has(first[1])


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
