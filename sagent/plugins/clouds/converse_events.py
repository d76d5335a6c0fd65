"""Bedrock's Converse: events in. Pure reading of plain JSON: no clock, no network.

Shapes: docs.aws.amazon.com, API_runtime_ConverseStream, and the service's model in botocore.
"""

from binascii import a2b_base64
from collections.abc import Mapping
from dataclasses import field

from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, as_array, as_int, as_object, as_str, json_dump, valid_text
from sagent.messages import Image, Message, Opaque, Part, StopReason, Text, Thinking, ToolCall
from sagent.model import Delta, TextPart, ThinkingPart
from sagent.providers.families.billing import cache_outside, tier_named
from sagent.providers.families.media import made_notes
from sagent.providers.handover import describe_input, excerpt, words_in
from sagent.providers.wire.faults import Origin
from sagent.providers.wire.reply import ReplyReader, count_of, lasting, stop_at, stop_of
from sagent.usage import Charge, Usage

_STOPS: Mapping[str, StopReason] = {
    "end_turn": "end",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "stop_sequence": "stop_sequence",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
    "model_context_window_exceeded": "context_overflow",
}
_BROKEN = ("malformed_model_output", "malformed_tool_use")  # sampled again each time: a retry helps
# Of OpenAI's models the stream counts cached tokens inside the input too (seen in gateways' reports of 2026-09); of all
# others `inputTokens` is what was neither read from a cache nor written to one (docs.aws.amazon.com, prompt caching).
_WHOLE_INPUT = "openai."


@dataclass(slots=True)
class _Block:
    """A content block while it arrives. `start` is its first event: a call, an image, or a result of the provider's own
    tool."""

    start: Mapping[str, object] = EMPTY
    texts: list[str] = field(default_factory=list[str])
    thoughts: list[str] = field(default_factory=list[str])
    arguments: list[str] = field(default_factory=list[str])
    results: list[object] = field(default_factory=list[object])
    sources: list[object] = field(default_factory=list[object])
    images: list[bytes] = field(default_factory=list[bytes])
    signature: str = ""
    redacted: str = ""
    closed: bool = False


class ConverseReplyReader(ReplyReader):
    """Builds a reply from the events of ConverseStream, or from Converse's one answer."""

    def __init__(self, origin: Origin, family: str) -> None:
        super().__init__(origin, family)
        self._blocks: dict[int, _Block] = {}
        self._spoken: _Block | None = None  # the last block with text

    def feed(self, event: Mapping[str, object], out: list[Delta]) -> None:
        for kind, value in event.items():
            fields = as_object(value)
            match kind:
                case "contentBlockStart":
                    self._block(fields).start = as_object(fields.get("start"))
                    self.reasoning = False
                case "contentBlockDelta":
                    self._delta(self._block(fields), as_object(fields.get("delta")), out)
                case "contentBlockStop":
                    self._block(fields).closed = True
                case "messageStop":
                    more = as_object(fields.get("additionalModelResponseFields"))
                    self._ended(as_str(fields.get("stopReason")), stop_at(more.get("stop_sequence"), _STOPS))
                case "metadata":
                    self._tier = as_str(as_object(fields.get("serviceTier")).get("type"))
                    self._bill(fields.get("usage"), out)
                    self.closed = self.complete
                case _:
                    pass  # begin or end of a message or a block, which the other events show too

    def whole(self, body: Mapping[str, object], out: list[Delta]) -> None:
        if not body.get("stopReason"):
            return
        for index, item in enumerate(as_array(as_object(as_object(body.get("output")).get("message")).get("content"))):
            block, at = as_object(item), {"contentBlockIndex": index}
            call, thought = as_object(block.get("toolUse")), as_object(block.get("reasoningContent"))
            self.feed({"contentBlockStart": {**at, "start": block}}, out)
            delta = {**as_object(thought.get("reasoningText")), **thought}
            given: dict[str, object] = {"reasoningContent": delta}
            if call:
                given = {"toolUse": {"input": json_dump(call.get("input"))}}
            given["toolResult"] = as_object(block.get("toolResult")).get("content")
            cited = as_object(block.get("citationsContent"))
            deltas = [
                {**given, "text": block.get("text"), "image": block.get("image")},
                *as_array(cited.get("content")),
            ]
            deltas += [{"citation": source} for source in as_array(cited.get("citations"))]
            for each in deltas:
                self.feed({"contentBlockDelta": {**at, "delta": each}}, out)
            self.feed({"contentBlockStop": at}, out)
        self.feed({"messageStop": body, "metadata": body}, out)

    def failed(self, event: Mapping[str, object], out: list[Delta]) -> None:
        super().failed(as_object(event.get("metadata")) or event, out)

    def message(self) -> Message:
        parts = [part for _, block in sorted(self._blocks.items()) if (part := self._part(block)) is not None]
        return self._assembled(parts, stop_of(self._stop, _STOPS))

    def notes(self) -> tuple[str, ...]:
        return made_notes(self.message().parts)

    def charges(self) -> tuple[Charge, ...]:
        """Return the cost of the answer, in disjoint counts as our `Usage` has them."""
        if not self._usage:
            return ()
        names = "inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens", "outputTokens"
        taken, read, written, output = (count_of(self._usage.get(name)) for name in names)
        lives = {"5m": 0, "1h": 0}
        for each in map(as_object, as_array(self._usage.get("cacheDetails"))):
            life = as_str(each.get("ttl"))
            lives[life] = lives.get(life, 0) + count_of(each.get("inputTokens"))
        written = max(written, sum(lives.values()))
        apart = count_of(self._usage.get("totalTokens")) - taken - output
        inside = apart == 0 or _WHOLE_INPUT in self._origin.model  # the service's own total includes cached tokens
        if inside and taken >= read + written and not cache_outside(taken, apart, read, written, 0):
            taken -= read + written
        usage = Usage(taken, read, written - lives["1h"], lives["1h"], output)
        return (Charge(self._origin.model, usage, tier_named(self._tier)),)

    def _block(self, fields: Mapping[str, object]) -> _Block:
        block = self._blocks.setdefault(as_int(fields.get("contentBlockIndex")), _Block())
        self._bound(self._blocks)
        return block

    def _delta(self, block: _Block, delta: Mapping[str, object], out: list[Delta]) -> None:
        thought = as_object(delta.get("reasoningContent"))
        self.reasoning = bool(thought)
        if text := as_str(delta.get("text")):
            self._show(TextPart(text), block.texts, out)
            self._spoken = block
        if source := as_object(delta.get("citation")):  # Nova's are about the text before them, in whatever block
            (self._spoken or block).sources.append(source)
            self._bound((self._spoken or block).sources)
        if data := as_str(as_object(as_object(delta.get("image")).get("source")).get("bytes")):
            block.images.append(self._image(data))
            self.received += 1  # the event shows that the service is not silent
        self._show(ThinkingPart(as_str(thought.get("text"))), block.thoughts, out)
        block.signature += as_str(thought.get("signature"))
        block.redacted += as_str(thought.get("redactedContent"))
        piece = as_str(as_object(delta.get("toolUse")).get("input"))
        block.arguments.append(piece)
        self._count(piece)
        block.results += as_array(delta.get("toolResult"))
        self._bound(block.results)

    def _image(self, data: str) -> bytes:
        try:
            return a2b_base64(data)
        except ValueError as error:
            raise self._origin.error("protocol", f"an image of its answer is no base64: {error}") from error

    def _ended(self, reason: str, sequence: str) -> None:
        if reason in _BROKEN:
            raise self._origin.error("protocol", f"the model's reply cannot be read: {reason}")
        self._stop, self.complete = lasting(lasting(self._stop, sequence, _STOPS), reason, _STOPS), True

    def _part(self, block: _Block) -> Part | None:
        call, result = as_object(block.start.get("toolUse")), as_object(block.start.get("toolResult"))
        if result:  # of a tool that the provider runs
            words = excerpt(" ".join(words_in(block.results, ("text",))))
            return Opaque(words, self._private({"toolResult": {**result, "content": block.results}}))
        if call:
            raw, name = "".join(block.arguments), as_str(call.get("name"))
            arguments, malformed = self._parsed(name, raw or "{}")
            whole = block.closed and (self._stop in _STOPS or (bool(arguments) and "input" not in call))
            if call.get("type"):
                use = self._private({"toolUse": {**call, "input": arguments}})
                return Opaque(describe_input(name, arguments), use) if malformed is None else None
            return ToolCall(as_str(call.get("toolUseId")), name, arguments, malformed, whole=whole)
        thought = valid_text("".join(block.thoughts))
        if block.redacted:
            return Thinking(thought, self._private({"redactedContent": block.redacted}))
        if thought or block.signature:
            return Thinking(thought, self._private({"signature": block.signature}) if block.signature else None)
        if block.images:
            kind = as_str(as_object(block.start.get("image")).get("format"), "png")
            return Image(f"image/{kind}", b"".join(block.images))
        text = valid_text("".join(block.texts))
        return Text(text, self._private({"citations": block.sources}) if block.sources else None) if text else None
