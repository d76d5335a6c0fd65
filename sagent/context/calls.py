"""Checks on a reply before it is acted upon: makes its text valid, finds empty replies, numbers its calls and rejects
malformed ones; and bounds the output of a call."""

import operator
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

from sagent.context.repeated_blocks import RepeatedBlocks
from sagent.errors import ModelError, ToolError
from sagent.lib.image import image_type
from sagent.lib.json import EMPTY, LONE, JsonObject, as_array, as_object, valid_text, whole_text
from sagent.lib.raised import reason
from sagent.lib.text import head_and_tail, nearest, one_line
from sagent.messages import WITHDRAWN, Image, Message, Part, StopReason, Text, Thinking, ToolCall, user
from sagent.model import Billed, Delta, Model, Reply, Request, RequestDigest, TextPart, ThinkingPart, closing, full_name
from sagent.plugin import CallForm, of_ours, resolve
from sagent.tool import Blobs, Media, Tool, ToolOutput, traits_of
from sagent.usage import Charge, Usage

AnyPart = TypeVar("AnyPart", bound=Part)
Given = TypeVar("Given")
MAX_OUTPUT_CHARS = 60_000  # of one call in the context; tools have lower limits of their own
MAX_CUT_REPLIES = 3  # in a row without a whole call
_MAX_SHOWN = 500  # characters of arguments that cannot be used
_WHY: Mapping[StopReason | None, str] = {
    "max_tokens": "the reply was cut at its output limit",
    "context_overflow": "the context window was full",
    "stop_sequence": "a stop sequence ended the reply",
    "pause": "the provider paused the reply",
    "refusal": "the provider refused to continue",
    "content_filter": "the provider's content filter stopped the reply",
    "interrupted": "the reply was interrupted",
    "error": "the provider declared the reply broken",
}
WRITTEN = "{model} wrote its call as text; it was carried out."
UNREADABLE = "{model} wrote an unreadable call as text; it was told the right form."
UNKNOWN = "{model} wrote a call of {tool} as text, which is no tool here; it was told the available tools."
LACKING = "{model} seems to have written a call as text, which was not carried out: that needs the plugin textcalls."
REPEATED = "over and over: its reply was cut"
MAX_REPEATED = 8_192
"""Characters of a repeated short unit after which a reply is cut."""
MAX_REPEATED_IN_BLOCK = 32_768
"""The same limit in a block of code, where a file of equal lines may have been requested."""
MAX_UNIT = 200  # characters
_UNIT_START = 64  # characters of a unit, or of several, that are looked for
_CHECKED_EVERY = 1_024  # characters
_CALL = re.compile(
    r"^\s*(?:```\w*\s*)?(?:<\|?(?:tool_call|function|invoke|tools|python_tag)|\[TOOL_CALLS\]"
    r"|[\[{]\s*[\"'](?:name|function|tool)[\"']\s*:\s*[\"'][\w.:-]+[\"']\s*,\s*[\"'](?:arguments|parameters|args)[\"'])",
    re.MULTILINE,
)
"""The openings of calls in text that many models write; used for a hint if no plugin reads them."""
_MAX_LINE_CHARS = 300  # to keep of the shown text
_THOUGHT = re.compile(r"<(think(?:ing)?|thoughts?|reasoning)>.*</\1>|((?!</think>).)*</think>", re.DOTALL)
"""Thinking that a server left in the text; its first mark may be in the prompt already."""
NOTHING = "the model ended its reply without saying or doing anything"
AFTER_RESULT = (
    "Your reply was empty. The result of {names} stands above. If something is left to do, make the next call now; if "
    "not, answer the request in plain words, with what the result says."
)
_LIMITS = ("max_tokens", "context_overflow")
_QUOTED = (
    "it stands word for word in what was read, so it was taken for a quotation. To run it, write its block and nothing"
    " else. To show it, begin each line with >."
)


def says_nothing(reply: Message) -> bool:
    """Return True for a reply that ended normally but has only thoughts and invisible characters. At a stop sequence a
    reply may be empty, but not of thoughts."""
    ended = reply.stop in (None, "end", "tool_use") or (reply.stop == "stop_sequence" and reply.parts)
    return bool(ended) and all(
        isinstance(part, Thinking) or (isinstance(part, Text) and not _is_seen(part.text)) for part in reply.parts
    )


def _is_seen(text: str) -> bool:
    """Return True if a text has a visible character after the model's thoughts."""
    text = text.strip()
    if text.endswith(">"):
        return _THOUGHT.fullmatch(text) is None
    if text.isascii():
        return bool(text)
    from sagent.lib.lookalike import is_unseen  # for few runs

    return not all(letter.isspace() or is_unseen(letter) for letter in text)


def what_is_missing(history: Sequence[Message]) -> Message | None:
    """Return the message for a model that has read results and ended without a word; None if it has read none."""
    last = next((at for at in range(len(history) - 1, -1, -1) if history[at].role == "assistant"), -1)
    if last < 0 or not any(message.results for message in history[last:]):
        return None
    names = ", ".join(dict.fromkeys(call.name for call in history[last].calls))
    return user(AFTER_RESULT.format(names=names or "your call"), sender="sagent")


def with_distinct_ids(message: Message) -> Message:
    """Give every call of a reply a unique id: servers send empty and repeated ones, and results are matched by id."""
    seen: set[str] = set()
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            new = part.id if part.id and part.id not in seen else f"{part.id or 'call'}_{len(parts)}"
            seen.add(new)
            parts.append(part if new == part.id else replace(part, id=new))
        else:
            parts.append(part)
    return replace(message, parts=tuple(parts))


def explain_unfit(call: ToolCall, stop: StopReason | None, tools: Mapping[str, Tool]) -> str | None:
    """Return why a call of a reply that ended for `stop` cannot be made, and what to do; None if it can."""
    if not call.whole:
        return explain_cut(call, stop)
    if (tool := tools.get(call.name)) is None:
        named = f"There is no tool named {call.name!r}{nearest(call.name, tools) or '.'}"
        return f"{named} The tools are: {', '.join(tools) or 'none'}."
    if call.malformed is None or traits_of(tool).lenient is True:
        return None
    how = f'{{"name": "{call.name}", "arguments": {{...}}}}'
    wrong = f"{call.name}'s arguments are not a JSON object: {call.malformed[:_MAX_SHOWN]!r}."
    return f"{wrong} Call it again; a call that is written as text is {how} and nothing else."


def fit_arguments(tool: Tool, raw: JsonObject) -> JsonObject:
    """Return a call's arguments in the form of the tool's schema; a lenient tool ignores unknown ones. Raises ToolError
    for arguments that do not fit."""
    from sagent.lib.schema import coerce, violations

    arguments = coerce(tool.parameters, raw)
    if traits_of(tool).lenient:
        return arguments if isinstance(arguments, JsonObject) else EMPTY
    wrong = violations(tool.parameters, arguments)
    if wrong or not isinstance(arguments, JsonObject):
        raise ToolError("; ".join(wrong))
    return arguments


def explain_cut(call: ToolCall, stop: StopReason | None) -> str:
    """Return why a call that is not whole is not made, and what to do."""
    name, why = call.name or "This call", _WHY.get(stop, "the reply ended")
    own = call.private  # the plugin textcalls wrote it
    marks = as_object(own.data) if own is not None and own.family == "textcalls" else EMPTY
    if "quoted" in marks:
        return f"{name} was not run: {_QUOTED}"
    if "undecided" in marks:
        return f"{name} was not run: {why}, so it may have been a thought. Write the block again, and nothing else."
    if stop in WITHDRAWN:
        return f"{name} was not run: {why}, so no call of that reply is made. Call it again if it is still needed."
    came = f" Of its arguments only this arrived: {call.malformed[:_MAX_SHOWN]!r}." if call.malformed else ""
    shorter = ", with shorter arguments: divide long ones among several calls" if stop in _LIMITS else ""
    return f"{name} was not run: {why} before the call was known to be complete.{came} Call it again{shorter}."


def end_of_cut(reply: Message, cut_replies: int) -> str | None:
    """Return the reason to end a turn after a reply with calls; None to continue. `cut_replies` consecutive replies,
    including this one, had no whole call: asking for shorter calls did not help."""
    if reply.stop in WITHDRAWN:
        return reply.stop
    if cut_replies < MAX_CUT_REPLIES:
        return None
    return reply.stop if reply.stop in _LIMITS else "error"


class WrittenCalls(NamedTuple):
    """The calls that the text of a reply has, and the text without them."""

    text: str
    calls: tuple[ToolCall, ...]


class CallReader(Protocol):
    """A reader of one reply for a form of calls in text."""

    def feed(self, text: str) -> str:
        """Read the next piece of text; return all text so far that can be shown."""
        ...

    def rest(self) -> str:
        """Return the text that was held back until the end."""
        ...

    def calls_in(self, text: str, reply: Message) -> WrittenCalls | None:
        """Return the calls in the whole text of a reply; None if it is an answer."""
        ...


@runtime_checkable
class LearnsProtocol(Protocol):
    """A Model that chooses how its calls are written, and learns how it wrote the last one."""

    def wrote_call_as_text(self) -> None:
        """Record a reply that wrote its calls as text although tools were offered."""
        ...


Forms: TypeAlias = Callable[[], Sequence[CallForm]]
"""The forms of calls that a program reads."""


@cache
def own_forms() -> Sequence[CallForm]:
    """Return the forms of calls that sagent's own plugins read, for programs without settings."""
    return [form for _, form in of_ours(CallForm)]


async def valid_stream(model: Model, request: Request, forms: Forms | None = None) -> AsyncGenerator[Delta | Reply]:
    """Make the call. Half of a surrogate pair at the end of a delta waits for the next delta of its kind; lone halves
    are replaced, in deltas and in the reply. With `forms`, calls written as text in one of these become calls of the
    reply, and text that may become one is held back. Closing the iterator closes the model's stream. Raises
    ModelError."""
    halves: dict[type[TextPart | ThinkingPart], str] = {}
    said = {TextPart: RepetitionDetector(), ThinkingPart: RepetitionDetector()}
    charges: tuple[Charge, ...] = ()
    watch = _Watch(model, request, forms) if forms and request.tools else None
    async with closing(model.stream(request)) as items:
        async for item in items:
            if isinstance(item, TextPart | ThinkingPart):
                kind = type(item)
                text, half = whole_text(halves.pop(kind, "") + item.text)
                if half:
                    halves[kind] = half
                if text or not item.text:
                    part = item if text == item.text else kind(text)
                    yield part if watch is None else watch.shown(part)
                if said[kind].repeats(text):
                    reply = _cut(model, said, charges)
                    for rest in watch.unshown(reply) if watch is not None else ():
                        yield rest
                    yield reply
                    return
            elif not hasattr(item, "charges"):
                raise ModelError(
                    "protocol", f"its stream gave {type(item).__name__}", provider=model.provider, final=True
                )
            else:
                charges = item.charges
                for kind in halves if isinstance(item, Reply) else ():
                    yield kind(LONE) if watch is None else watch.shown(kind(LONE))
                reply = _valid(item) if isinstance(item, Reply) else item
                if watch is None:
                    yield reply
                else:
                    for each in watch.passed(reply):
                        yield each


def _cut(
    model: Model, detectors: "Mapping[type[TextPart | ThinkingPart], RepetitionDetector]", charges: tuple[Charge, ...]
) -> Reply:
    """Return the reply of a model that was stopped because it repeated itself, without the repetition."""
    thought, text = detectors[ThinkingPart].without_repetition, detectors[TextPart].without_repetition
    unit = next(detector.unit for detector in detectors.values() if detector.unit)
    parts = (*((Thinking(thought),) if thought else ()), *((Text(text),) if text else ()))
    own = sum((charge.usage for charge in charges if not charge.role), Usage())
    return Reply(
        Message("assistant", valid_parts(parts), model=full_name(model), stop="max_tokens"),
        own,
        charges,
        RequestDigest("", 0, model.id),
        notes=(f"{full_name(model)} wrote {one_line(unit, 40)!r} {REPEATED}.",),
    )


class RepetitionDetector:
    """Watches a growing text for one short unit, or blocks, repeated over and over."""

    def __init__(self) -> None:
        self.unit = ""
        self._pieces: list[str] = []
        self._checked = 0  # of the pieces
        self._fresh = 0  # characters that came after these
        self._end = ""
        self._fences = 0
        self._blocks = RepeatedBlocks()

    def repeats(self, text: str) -> bool:
        """Add a piece of text; return True if the text now ends in a long repetition, or in a repeated block."""
        self._pieces.append(text)
        if self._blocks.repeat(text):
            self.unit = self._blocks.block
            return True
        self._fresh += len(text)
        if self._fresh < _CHECKED_EVERY:
            return False
        new = "".join(self._pieces[self._checked :])
        self._checked, self._fresh = len(self._pieces), 0
        self._fences += (self._end[-2:] + new).count("```")
        self._end = (self._end + new)[-MAX_REPEATED_IN_BLOCK:]
        most = MAX_REPEATED_IN_BLOCK if self._fences % 2 else MAX_REPEATED
        if len(self._end) >= most:
            self.unit = _repeated(self._end[-most:])
        return bool(self.unit)

    @property
    def without_repetition(self) -> str:
        """The whole text, with two of the units that it ends in, or once with its blocks."""
        text, size = "".join(self._pieces), len(self.unit)
        if self._blocks.kept:
            return text[: self._blocks.kept]
        start = len(text) - size
        while size and start >= size and text.startswith(text[start : start + size], start - size):
            start -= size
        return text[: start + 2 * size] if size else text


def _repeated(text: str) -> str:
    """Return the short unit that a text repeats, "" if there is none."""
    at = text.find(text[:_UNIT_START], 1, MAX_UNIT + _UNIT_START)
    while at > 0:
        if text.startswith(text[: len(text) - at], at):
            return text[:at]
        at = text.find(text[:_UNIT_START], at + 1, MAX_UNIT + _UNIT_START)
    return ""


class _Watch:
    """Looks for calls in the text of a reply. Their readers are imported at the first sign of one."""

    def __init__(self, model: Model, request: Request, forms: Forms) -> None:
        self._model = model
        self._request = request
        self._forms = forms
        self._readers: dict[str, CallReader] = {}
        self._failed: dict[str, str] = {}  # forms left out, with the reason
        self._end = ""  # of the shown text
        self._shown: list[str] = []
        self._charges: tuple[Charge, ...] = ()

    def shown(self, part: TextPart | ThinkingPart) -> Delta:
        """Return the part of a text that can be shown, and hold back the rest."""
        text = out = part.text
        if isinstance(part, ThinkingPart):
            return part
        for form in self._forms():
            if form.name in self._readers or any(sign in out for sign in form.begins):
                fed = self._asked(form, lambda reader, given=out: reader.feed(given))
                out = out if fed is None else fed
        self._shown.append(out)
        self._end = (self._end + out)[-_MAX_LINE_CHARS:]
        if out == text:
            return part
        return TextPart(out) if out else Billed(self._charges, len(text.encode("utf-8", "replace")))

    def passed(self, item: Billed | Reply) -> Iterator[Delta | Reply]:
        """Pass on deltas that are not text, after any held-back text. A reply gets its calls."""
        if isinstance(item, Billed):
            self._charges = item.charges
            yield item
            return
        reply, rest = self._with_calls(item), ""
        for form in self._forms() if self._readers and reply is item else ():
            if form.name in self._readers:
                rest = self._asked(form, lambda one, given=rest: (one.feed(given) if given else "") + one.rest()) or ""
        if reply is not item or self._failed:
            yield from self.unshown(reply)
        elif rest:
            yield TextPart(rest)
        yield reply

    def unshown(self, reply: Reply) -> Iterator[TextPart]:
        """Yield the text of a reply after what was shown of it."""
        shown, content = "".join(self._shown), reply.message.content
        if content.startswith(shown) and content != shown:
            yield TextPart(content[len(shown) :])

    def _asked(self, form: CallForm, ask: Callable[[CallReader], Given]) -> Given | None:
        """Return the answer of a form's reader. One that fails is left out, with a note in the reply."""
        if form.name in self._failed:
            return None
        try:
            if form.name not in self._readers:
                make = cast("Callable[[Request, str], CallReader]", resolve(form.read))
                self._readers[form.name] = make(self._request, self._end)
            if isinstance(said := ask(self._readers[form.name]), str | WrittenCalls | None):
                return said
            raise TypeError(f"its reader returned {type(said).__name__}")
        except Exception as error:  # third-party code
            self._readers.pop(form.name, None)
            self._failed[form.name] = f"Calls in the form {form.name} are not read: {reason(error)}."
            return None

    def _with_calls(self, reply: Reply) -> Reply:
        message, found = reply.message, None
        texts = [at for at, part in enumerate(message.parts) if isinstance(part, Text)]
        forms = self._forms() if texts and not message.calls else None
        for form in forms or ():
            if re.search(form.likely, message.content):
                found = found or self._asked(form, lambda reader: reader.calls_in(message.content, message))
        notes = [*reply.notes, *self._failed.values()]
        if forms is not None and not forms and self._request.output_schema is None and _CALL.search(message.content):
            notes.append(LACKING.format(model=full_name(self._model)))
        if found is None:
            return replace(reply, notes=tuple(notes)) if len(notes) > len(reply.notes) else reply
        if isinstance(self._model, LearnsProtocol):
            self._model.wrote_call_as_text()
        left = (Text(found.text),) if found.text.strip() else ()
        kept = tuple(part for at, part in enumerate(message.parts) if at not in texts)
        before = kept[: texts[0]]
        cut = message.stop in _LIMITS  # its calls may be part of unfinished thinking
        calls = (replace(call, whole=False) for call in found.calls) if cut else found.calls
        parts = (*before, *left, *kept[len(before) :], *calls)
        read = all(call.malformed is None for call in found.calls)
        ended = message.stop in (None, "end") or (read and message.stop == "stop_sequence")
        stop = "tool_use" if ended else message.stop
        known = {tool.name for tool in self._request.tools}
        unknown = next((call.name for call in found.calls if call.name and call.name not in known), "")
        form = UNREADABLE if not read else UNKNOWN if unknown else WRITTEN
        note = form.format(model=full_name(self._model), tool=one_line(unknown, 60))
        return replace(reply, message=replace(message, parts=parts, stop=stop), notes=(*notes, note))


def _valid(reply: Reply) -> Reply:
    parts = valid_parts(reply.message.parts)
    return reply if parts is reply.message.parts else replace(reply, message=replace(reply.message, parts=parts))


def valid_parts(parts: tuple[AnyPart, ...]) -> tuple[AnyPart, ...]:
    """Return parts with surrogate pairs in their texts joined, lone halves replaced, and images named by their real
    type. Returns the same object if nothing changes, as nearly always."""
    found = tuple(map(_valid_part, parts))
    return parts if all(map(operator.is_, found, parts)) else found


def _valid_part(part: AnyPart) -> AnyPart:
    if isinstance(part, Text | Thinking) and (text := valid_text(part.text)) != part.text:
        return replace(part, text=text)
    if isinstance(part, ToolCall) and not f"{part.id}{part.name}".isascii():
        return replace(part, id=valid_text(part.id), name=valid_text(part.name))
    if isinstance(part, Image) and (kind := image_type(part.data)) not in ("", part.media_type):
        return replace(part, media_type=kind)  # a provider refuses an image under another's name
    return part


def bound_output(output: ToolOutput, blobs: Blobs) -> ToolOutput:
    """Return the output as valid Unicode with its text limited to MAX_OUTPUT_CHARS; media pass. Raises ToolError for an
    invalid output: not every tool is type-checked."""
    if not _is_output(output):
        given = f"ToolOutput({output.content!r:.60})" if hasattr(output, "content") else f"{output!r:.60}"
        raise ToolError(
            f'the tool gave {given}: it may return a string, ToolOutput.of("text"), or a ToolOutput with a tuple of '
            "Text, Image and Document, whose data are bytes"
        )
    output = _valid_output(output)
    whole = "".join(part.text for part in output.content if isinstance(part, Text))
    if len(whole) <= MAX_OUTPUT_CHARS:
        return output
    path = blobs.show(blobs.put(whole.encode()))
    media = tuple(part for part in output.content if not isinstance(part, Text))
    short: tuple[Media, ...] = (Text(head_and_tail(whole, MAX_OUTPUT_CHARS, f"the full text is in {path}")), *media)
    return replace(output, content=short)


def _valid_output(output: ToolOutput) -> ToolOutput:
    content = valid_parts(output.content)
    summary, diff = map(valid_text, (output.summary, output.diff))
    same = content is output.content and (summary, diff) == (output.summary, output.diff)
    return output if same else replace(output, content=content, summary=summary, diff=diff)


def _is_output(output: object) -> bool:
    parts: object = output.content if isinstance(output, ToolOutput) else None
    return isinstance(parts, tuple | list) and all(
        isinstance(getattr(part, "text", None), str)
        if isinstance(part, Text)
        else isinstance(getattr(part, "data", None), bytes)
        for part in as_array(parts)
    )
