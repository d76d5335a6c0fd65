"""A model that speaks the text protocol: requests without tools go out, calls come back."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Container, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from sagent.context.calls import REPEATED
from sagent.context.repeated_blocks import RepeatedBlocks
from sagent.errors import ModelError
from sagent.lib.json import EMPTY, JsonObject, as_array, as_str, sha256_hex
from sagent.lib.text import one_line
from sagent.messages import CUT, WITHDRAWN, Message, Part, Text, Thinking, ToolCall
from sagent.model import (
    Billed,
    Counting,
    Delta,
    Model,
    ModelLimits,
    Reply,
    Request,
    RequestDigest,
    Structuring,
    TextPart,
    ThinkingPart,
    ToolSpec,
    closing,
    full_name,
)
from sagent.plugins.textcalls.blocks import (
    SHELLS,
    UNDECIDED,
    BlockContext,
    BlockReader,
    doubted,
    own_text,
    read,
    thinks_first,
)
from sagent.plugins.textcalls.marks import THOUGHTS
from sagent.plugins.textcalls.offer import offer
from sagent.plugins.textcalls.quoting import held_back
from sagent.plugins.textcalls.writing import Reminders, WrittenConversation, meant_by

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from sagent.usage import Charge

PROTOCOL, TEXT, ASKED = "protocol", "text", "asked_tools"
"""Request parameters of the text protocol in the log. A request can be built again from them."""
MAX_CONVERSATIONS = 64  # kept; the least recently used are written again when they return
_MAX_SHOWN = 40  # characters of a repeated block
_SUMMARY = ":compactor"  # the end of a name of a conversation that is summed up: no call is read there
_CHOICES = ("tool_choice", "parallel_tool_calls", "tool_config", "toolConfig")  # options about tools


class TextModel:
    """A model that gets its tools described in words and calls them by blocks in its text."""

    protocol = TEXT

    def __init__(self, inner: Model, described: Container[str] = ()) -> None:
        """Advisors, tools for agents and partial edits of a file are described if they are named in `described`."""
        self.inner, self.asked = inner, described
        self.provider, self.id = inner.provider, inner.id
        self.source: object = getattr(inner, "source", inner)
        self._kept: OrderedDict[tuple[str, Reminders | None], WrittenConversation] = OrderedDict()
        self._thinks_first = False  # a reply ended thinking that it had not begun
        self._answers_first = False  # the text of a complete reply was no thinking
        # the last prompt, its tools, and the prompt made from them
        self._offered: tuple[str, tuple[ToolSpec, ...], str] = ("", (), "")

    @property
    def limits(self) -> ModelLimits:
        """The model's sizes."""
        return self.inner.limits

    def max_input_tokens(self, request: Request) -> int:
        """Return an upper bound of the tokens of the request as it goes out."""
        return self.inner.max_input_tokens(self.written(request))

    async def count_tokens(self, request: Request) -> int | None:
        """Return the provider's count for the request as it is sent; None if the provider gives none."""
        return await self.inner.count_tokens(self.written(request)) if isinstance(self.inner, Counting) else None

    def structures(self, request: Request) -> bool:
        """Return True if the provider holds the answer to the schema. An answer that may contain blocks cannot be held
        to it."""
        return not request.tools and isinstance(self.inner, Structuring) and self.inner.structures(request)

    def written(self, request: Request) -> Request:
        """Return the request as it is sent: its tools in words, its calls as blocks, its results as messages."""
        tools = {tool.name: tool for tool in request.tools}
        reminders = Reminders.of(tools) if tools else None
        key = request.conversation, reminders
        conversation = self._kept.get(key)
        if conversation is None or not conversation.follow(request.messages):
            conversation = self._kept[key] = WrittenConversation(reminders)
            conversation.follow(request.messages)
        self._kept.move_to_end(key)
        if len(self._kept) > MAX_CONVERSATIONS:
            self._kept.popitem(last=False)
        request = replace(request, messages=conversation.messages())
        if not tools:
            return request
        if self._offered[:2] != (request.system, request.tools):
            self._offered = request.system, request.tools, offer(request.system, tools, self.asked)
        steadied = getattr(self.inner, "against_repetition", EMPTY) if conversation.again else EMPTY
        kept = {name: value for name, value in request.options.items() if name not in _CHOICES}
        options = JsonObject({**steadied, **kept})
        return replace(request, system=self._offered[2], tools=(), output_schema=None, options=options)

    async def stream(self, request: Request) -> AsyncGenerator[Delta | Reply]:
        """Make the call. The text after a block is shown once another block follows. Raises ModelError."""
        tools = {} if request.conversation.endswith(_SUMMARY) else {tool.name: tool for tool in request.tools}
        meant = meant_by(request.messages, tools)._replace(thinks_first=self._begins_in_thought(request.messages))
        reader = BlockReader(tools, meant)
        charges: tuple[Charge, ...] = ()
        thoughts, said, repeated = list[str](), list[str](), RepeatedBlocks(SHELLS)
        try:
            async with closing(self.inner.stream(self.written(request))) as items:
                async for item in items:
                    if isinstance(item, Billed):
                        charges = item.charges
                    elif isinstance(item, ThinkingPart):
                        thoughts.append(item.text)
                    elif isinstance(item, TextPart) and tools:
                        said.append(item.text)
                        if repeated.repeat(item.text):
                            yield Billed(charges, reader.held_bytes)
                            parts = Thinking("".join(thoughts)), Text("".join(said)[: repeated.kept])
                            yield self._called(self._shortened(request, parts, charges), request, tools, meant)
                            return
                    if isinstance(item, TextPart) and tools:
                        if shown := reader.feed(item.text):
                            yield TextPart(shown)
                    elif isinstance(item, Reply):
                        self._thinks_first |= thinks_first(item.message.content)
                        if shown := reader.finish(cut=item.message.stop in CUT):
                            yield TextPart(shown)
                        yield self._called(item, request, tools, meant)
                    else:
                        yield item
        except (asyncio.CancelledError, ModelError):
            if reader.held_bytes:  # the reply so far includes text that is not yet shown
                yield Billed(charges, reader.held_bytes)
            raise

    def _called(self, reply: Reply, request: Request, tools: Mapping[str, ToolSpec], meant: BlockContext) -> Reply:
        """Return a reply with its calls, and with how the request was written. A reply that was stopped here and
        begins with a block is no thought."""
        said = reply.message
        decided = (not reply.digest.sha256 and said.content[:3] == "```") or self._is_decided(request.messages, said)
        reply = replace(reply, digest=self._marked(reply.digest, request))
        return _with_calls(reply, tools, meant, request.messages, decided=decided) if tools else reply

    def _shortened(self, request: Request, parts: Sequence[Text | Thinking], charges: "tuple[Charge, ...]") -> Reply:
        """Return the reply of a model that was stopped because it repeated blocks."""
        from sagent.usage import Usage

        own = sum((charge.usage for charge in charges if not charge.role), Usage())
        message = Message("assistant", tuple(filter(_text_in, parts)), model=full_name(self), stop="max_tokens")
        note = f"{full_name(self)} wrote {one_line(parts[-1].text[-_MAX_SHOWN:], _MAX_SHOWN)!r} {REPEATED}."
        # calls get their ids from the reply's
        return Reply(message, own, charges, RequestDigest("", 0, self.id), f"cut_{len(request.messages)}", (note,))

    def _begins_in_thought(self, messages: Sequence[Message]) -> bool:
        """Return True if the prompt begins the model's thinking, judged by its replies so far."""
        if not self._thinks_first:
            own = (message for message in messages if message.model == f"{self.provider}/{self.id}")
            self._thinks_first = any(thinks_first(message.content) for message in own)
        return self._thinks_first

    def _is_decided(self, messages: Sequence[Message], reply: Message) -> bool:
        """Return True if the text of a reply is known to be no thinking. Until one reply has ended, a cut reply may be
        thinking that the prompt began."""
        if not self._answers_first:
            own = (message for message in messages if message.model == f"{self.provider}/{self.id}")
            self._answers_first = any(map(_answers_first, (*own, reply)))
        return self._answers_first or reply.stop not in CUT or thinks_first(reply.content)

    def is_like(self, other: "TextModel") -> bool:
        """Return True for a model that writes the same requests to the same model."""
        return self.inner is other.inner and self.asked == other.asked

    def _marked(self, digest: RequestDigest, request: Request) -> RequestDigest:
        """Return a digest that says how the request was written."""
        asked = tuple(tool.name for tool in request.tools if tool.name in self.asked)
        said = {PROTOCOL: TEXT, **({ASKED: asked} if asked else {})}
        return replace(digest, parameters=JsonObject({**digest.parameters, **said}))

    def __getattr__(self, name: str) -> object:
        """Return an attribute of the model beyond the protocol. Methods that prepare requests get the written
        request."""
        found: object = getattr(self.inner, name)
        if name != "prepare":
            return found
        prepare = cast("Callable[[Request], DataclassInstance]", found)

        def prepared(request: Request) -> object:
            call = prepare(self.written(request))
            return replace(call, digest=self._marked(cast("RequestDigest", getattr(call, "digest", None)), request))

        return prepared


def text_model(inner: Model, parameters: Mapping[str, object]) -> TextModel | None:
    """Return a model as it was spoken to in a request with these parameters; None if that was not in text."""
    if parameters.get(PROTOCOL) != TEXT:
        return None
    return TextModel(inner, tuple(map(as_str, as_array(parameters.get(ASKED)))))


def _answers_first(message: Message) -> bool:
    """Return True for a reply whose text is its answer: it ended without a mark for the end of a thought, or it began
    its thinking itself."""
    text = message.content.lstrip()
    apart = text.startswith(tuple(THOUGHTS)) or any(isinstance(part, Thinking) for part in message.parts)
    ended = message.stop not in CUT and message.stop not in WITHDRAWN and bool(message.parts)
    return apart or (ended and not thinks_first(text))


def _with_calls(
    reply: Reply, tools: Mapping[str, ToolSpec], context: BlockContext, messages: Sequence[Message], *, decided: bool
) -> Reply:
    """Return a reply to these messages with the calls in its text. Unless it is `decided` that the text is no thought,
    no call is made."""
    message = reply.message
    stem = f"text_{sha256_hex(f'{reply.digest.sha256}:{reply.response_id}:{message.content}'.encode())[:12]}"
    parts: list[Part] = []
    run: list[Text] = []
    made = 0

    def end_run() -> None:
        nonlocal made
        found = read(
            "".join(part.text for part in run), tools, message.stop, f"{stem}_{made}" if made else stem, context
        )
        if any(isinstance(part, ToolCall) for part in found):
            made += 1
            parts.extend(found)
        else:
            parts.extend(run)
        run.clear()

    for part in message.parts:
        if isinstance(part, Text):
            run.append(part)
        else:
            end_run()
            parts.append(part)
    end_run()
    if not made:
        return reply
    if len("".join(map(_text_of, parts)).strip()) < len(message.content.strip()):
        parts = [*held_back(parts, messages)]
    if not decided:
        parts = [doubted(part, UNDECIDED) if isinstance(part, ToolCall) and part.whole else part for part in parts]
    return replace(reply, message=_ended(replace(message, stop=None, parts=tuple(parts)), message))


def _text_in(part: Text | Thinking) -> str:
    return part.text


def _text_of(part: Part) -> str:
    """Return the text of a call, as it was written."""
    return (own_text(part) or "") if isinstance(part, ToolCall) else ""


def _ended(converted: Message, message: Message) -> Message:
    """Return a message with calls, with why it ended: at the end of a block that is whole, it waits for results."""
    last = converted.parts[-1]
    whole = not isinstance(last, ToolCall) or last.whole
    waits = message.stop in (None, "end", "tool_use") or (message.stop in CUT and whole)
    return replace(converted, stop="tool_use" if waits else message.stop)
