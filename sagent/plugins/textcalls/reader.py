"""Parser for the output of local models: thinking, text, tool calls. Pure text, in pieces of any size.

It knows the marks of the usual chat templates: <think> and similar ones, and calls as Hermes and Qwen, Qwen3-Coder,
GLM, Llama 3, Mistral, DeepSeek, Phi, Granite and Cohere write them. If a tokenizer describes its model's answers (a
`response_template`), that description is used instead.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from sagent.lib.json import EMPTY, JsonObject, as_array, as_object, as_str, json_dump, json_freeze, valid_text
from sagent.messages import Part, Private, Text, Thinking, ToolCall
from sagent.model import Delta, TextPart, ThinkingPart, ToolSpec
from sagent.plugins.textcalls.forms import broken_call, call_of, calls_in, json_values
from sagent.plugins.textcalls.marks import THOUGHTS, TOKENS
from sagent.plugins.textcalls.offered import Offered

FAMILY = "selfhosted"
"""The label of our private data: thinking goes back to local models only."""

_STRAY = "</tool_call>"  # Qwen3-Coder closes it at times without having opened it


class AnswerReader(ABC):
    """Reads an answer as it is written, and keeps its parts. The ids of calls begin with the stem."""

    def __init__(self, stem: str) -> None:
        self._stem = stem
        self._runs: list[tuple[type[Text | Thinking], list[str]] | ToolCall] = []
        self._calls = 0
        self._said = False  # text was shown
        self._gap = ""  # white space, shown only if text follows it
        self._fresh = False  # a region has just begun or ended: white space is not text yet

    @property
    @abstractmethod
    def thinking(self) -> bool:
        """True if the next text is thinking, judged by the text so far."""

    @abstractmethod
    def feed(self, text: str) -> list[Delta]:
        """Take some text and return what can be shown of it."""

    @abstractmethod
    def finish(self) -> list[Delta]:
        """End the answer, and return the text left to show."""

    def parts(self) -> tuple[Part, ...]:
        """Return the finished answer's parts, in the order they were written."""
        return tuple(map(self._part, self._runs))

    def _part(self, run: tuple[type[Text | Thinking], list[str]] | ToolCall) -> Part:
        if isinstance(run, ToolCall):
            return run
        kind, text = run[0], valid_text("".join(run[1]))
        return Text(text) if kind is Text else Thinking(text, Private(FAMILY, EMPTY))

    def _say(self, kind: type[Text | Thinking], text: str, out: list[Delta]) -> None:
        """Add to the text or the thinking."""
        if not text:
            return
        last = self._runs[-1] if self._runs else None
        if isinstance(last, tuple) and last[0] is kind:
            last[1].append(text)
        else:
            if kind is Text and self._said:
                text = f"\n\n{text}"  # the text continues after a call
            self._said = self._said or kind is Text
            self._runs.append((kind, [text]))
        out.append(TextPart(text) if kind is Text else ThinkingPart(text))

    def _show(self, kind: type[Text | Thinking], text: str, out: list[Delta]) -> None:
        """Show text without the white space that sets a region off."""
        if self._fresh:
            text = text.lstrip()
            self._fresh = not text
        if body := text.rstrip():
            self._say(kind, self._gap + body, out)
            self._gap = ""
        self._gap += text[len(body) :]

    def _call(self, name: str, arguments: JsonObject, malformed: str | None, *, closed: bool = True) -> None:
        """Add a call. An unclosed call is whole if its arguments show their own end."""
        whole = closed or malformed is None
        self._runs.append(ToolCall(f"{self._stem}_{self._calls}", name, arguments, malformed, whole=whole))
        self._calls += 1


class MarkReader(AnswerReader):
    """Reads an answer by its marks. Marks of calls count only if tools were offered.

    `closing` is the mark that ends thinking which the prompt has begun. With `bare`, an answer is a call if it is only
    a JSON object with a tool's name, as Llama 3 writes them.
    """

    def __init__(self, tools: Iterable[ToolSpec], stem: str, *, closing: str = "", bare: bool = False) -> None:
        super().__init__(stem)
        self._tools = {tool.name: tool.parameters for tool in tools}
        self._offered = Offered(self._tools)
        self._buffer: str = ""
        self._thoughts = closing  # the mark that ends the thinking we are in
        self._mark = ""  # the mark that began the current call
        self._called = False  # a call has begun
        self._passed = 0  # of the buffer: no closing mark before it ends the call
        self._fresh = bool(closing)
        self._bare = bare and bool(self._tools)

    @property
    def thinking(self) -> bool:
        return bool(self._thoughts)

    @property
    def _begun(self) -> bool:
        """True if the answer has more than thinking."""
        return self._said or self._called

    def feed(self, text: str) -> list[Delta]:
        self._buffer += text
        return self._read(final=False)

    def finish(self) -> list[Delta]:
        out = self._read(final=True)
        if self._mark:
            self._take_call(self._buffer, out, whole=False)
        elif not self._thoughts and not self._fresh:
            self._say(Text, self._gap, out)
        self._buffer = self._gap = ""
        return out

    def _read(self, *, final: bool) -> list[Delta]:
        out: list[Delta] = []
        while self._step(out, final=final):
            pass
        return out

    def _step(self, out: list[Delta], *, final: bool) -> bool:
        """Read one item from the buffer. Returns False when nothing more can be read from it."""
        if self._mark:
            return self._in_call(out, final=final)
        if self._thoughts:
            if not self._until(Thinking, (self._thoughts,), out, final=final):
                return False
            self._thoughts, self._fresh, self._gap = "", True, ""
            return True
        if self._bare and not self._begun and (held := self._hold_bare(out, final=final)) is not None:
            return held
        stray = (_STRAY,) if self._calls else ()
        opening = (*(() if self._begun else THOUGHTS), *(TOKENS if self._tools else ()), *stray)
        mark = self._until(Text, opening, out, final=final)
        if mark in THOUGHTS and self._begun:  # the text before it was part of the answer: so is the mark
            self._show(Text, mark, out)
            return True
        if mark in THOUGHTS:
            self._thoughts = THOUGHTS[mark]
        elif mark in TOKENS:
            self._mark, self._called, self._gap = mark, True, ""
        self._fresh = self._fresh or bool(mark)
        return bool(mark)

    def _until(self, kind: type[Text | Thinking], marks: Sequence[str], out: list[Delta], *, final: bool) -> str:
        """Show the text before the first of some marks and take the mark; "" if there is none yet."""
        at, mark = _first(self._buffer, marks)
        size = at if mark else len(self._buffer) - (0 if final else _tail(self._buffer, marks))
        self._show(kind, self._buffer[:size], out)
        self._buffer = self._buffer[size + len(mark) :]
        return mark

    def _in_call(self, out: list[Delta], *, final: bool) -> bool:
        closing = TOKENS[self._mark]
        end = self._end_of_call(closing, final=final) if closing else -1
        if end < 0:
            return False
        body, self._buffer = self._buffer[:end], self._buffer[end + len(closing) :]
        self._take_call(body, out, whole=True)
        return True

    def _end_of_call(self, closing: str, *, final: bool) -> int:
        """Find the end of the call, -1 if it is not known yet.

        A closing mark inside a JSON string is part of the string. But if the answer ends or another call begins there,
        the JSON is broken.
        """
        at = self._buffer.find(closing, self._passed)
        while at >= 0 and _inside_string(self._buffer[:at]):
            after = self._buffer[at + len(closing) :].lstrip()
            if after.startswith(self._mark) or (final and not after):
                return at
            if not final and self._mark.startswith(after):
                return -1  # what follows is still to come
            self._passed = at + 1
            at = self._buffer.find(closing, self._passed)
        return at

    def _take_call(self, body: str, out: list[Delta], *, whole: bool) -> None:
        mark, self._mark, self._fresh, self._passed = self._mark, "", True, 0
        found = list(calls_in(mark, body, self._tools, whole=whole))
        for name, arguments, malformed in found:
            self._call(self._offered.meant(name), arguments, malformed, closed=whole)
        if not found:
            self._show(Text, body, out)

    def _hold_bare(self, out: list[Delta], *, final: bool) -> bool | None:
        """Hold back a possible bare call until the answer ends. None if it is something else."""
        dense = "".join(self._buffer[:200].split())
        if not final:
            return False if any(start.startswith(dense) or dense.startswith(start) for start in _BARE) else None
        found = list(json_values(self._buffer)) if dense.startswith("{") else []
        calls = [call_of(value, source) for value, source in found if {"parameters", "arguments"} & {*as_object(value)}]
        if not calls or len(calls) < len(found) or any(name not in self._tools for name, _, _ in calls):
            return None
        for call in calls:
            self._call(*call)
        end = 0
        for _, source in found:
            end = self._buffer.index(source, end) + len(source)
        self._buffer, self._fresh, self._called = self._buffer[end:], True, True
        return True


_BARE = ('{"name":', '{"type":"function"')


def _first(text: str, marks: Iterable[str]) -> tuple[int, str]:
    """Return the first mark in a text and its position; "" if there is none."""
    found = ((at, mark) for mark in marks if (at := text.find(mark)) >= 0)
    return min(found, default=(-1, ""))


def _tail(text: str, marks: Iterable[str]) -> int:
    """Count the characters at the end that may begin a mark."""
    longest = 0
    for mark in marks:
        for size in range(min(len(mark) - 1, len(text)), longest, -1):
            if text.endswith(mark[:size]):
                longest = size
                break
    return longest


def _inside_string(text: str) -> bool:
    """Return whether JSON text ends inside a string; False for other text."""
    return text.lstrip()[:1] in ("{", "[") and bool(re.sub(r"\\.", "", text, flags=re.DOTALL).count('"') % 2)


class Regions(Protocol):
    """The part of transformers' answer reader that is used here (`tokenizer.get_response_parser`)."""

    initial_events: list[dict[str, object]]

    def feed(self, text: str) -> list[dict[str, object]]:
        """Return the events of some text."""
        ...

    def finalize(self) -> tuple[dict[str, object], list[dict[str, object]]]:
        """Return the message, and the last events."""
        ...


class DescribedReader(AnswerReader):
    """Reads an answer by its tokenizer's own description. Parts of a call that it cannot read are kept as they came."""

    def __init__(self, regions: Regions, stem: str) -> None:
        super().__init__(stem)
        self._regions: Regions | None = regions
        self._field = self._body = ""
        self._fresh = True
        self._take(regions.initial_events, [])

    @property
    def thinking(self) -> bool:
        return self._field in _THINKING

    def feed(self, text: str) -> list[Delta]:
        out: list[Delta] = []
        for char in text:  # one by one: an error would lose the other characters
            self._try(lambda regions, char=char: regions.feed(char), char, out)
        return out

    def finish(self) -> list[Delta]:
        out: list[Delta] = []
        self._try(lambda regions: regions.finalize()[1], "", out)
        return out

    def _try(self, step: Callable[[Regions], Iterable[Mapping[str, object]]], text: str, out: list[Delta]) -> None:
        """Take a step. Show the text as it is once some text has not fitted the description."""
        if self._regions is None:
            self._say(Text, text, out)
            return
        try:
            self._take(step(self._regions), out)
        except (ValueError, KeyError, TypeError):
            self._regions = None
            if body := self._body.strip():
                self._call(*broken_call(body), closed=False)
            self._field = self._body = ""

    def _take(self, events: Iterable[Mapping[str, object]], out: list[Delta]) -> None:
        for event in events:
            match event.get("type"):
                case "region_open":
                    self._field, self._body, self._gap, self._fresh = as_str(event.get("field")), "", "", True
                case "region_chunk":
                    text, thinks = as_str(event.get("text")), self.thinking
                    if thinks or self._field == "content":
                        self._show(Thinking if thinks else Text, text, out)
                    else:
                        self._body += text
                case "region_close":
                    if self._field == "tool_calls":
                        value = json_freeze(event.get("value"))
                        for item in as_array(value) or (value,):
                            self._call(*call_of(item, json_dump(item)))
                    self._field = self._body = ""
                case _:
                    pass


_THINKING = ("reasoning_content", "thinking", "reasoning")
