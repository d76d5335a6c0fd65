"""Anthropic Messages: events in. Pure reading of plain JSON: no clock, no network."""

from collections.abc import Mapping
from dataclasses import field, replace
from decimal import Decimal

from sagent.events import Advice, AdviceStatus
from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, JsonObject, as_array, as_int, as_object, as_str, json_freeze, valid_text
from sagent.lib.schema import parse_arguments
from sagent.messages import Message, Opaque, Part, StopReason, Text, Thinking, ToolCall
from sagent.model import Delta, TextPart, ThinkingPart
from sagent.providers.families.billing import first_count, lived, own_price, tier_named
from sagent.providers.handover import describe_input, excerpt, words_in
from sagent.providers.wire.faults import Origin
from sagent.providers.wire.reply import ReplyReader, count_of, lasting, stop_at, stop_of
from sagent.usage import Charge, Usage

CONTAINER = "container"
"""Type of our own block that names the container in which code still waits; it is sent as a member of the request."""

_ZERO = Decimal(0)
_ENCRYPTED = "(The advice came encrypted: only the executor can read it.)"
_READABLE = ("title", "url", "text", "stdout", "stderr", "error_code", "content", "source", "data")
_STOPS: Mapping[str, StopReason] = {
    "end_turn": "end",
    "max_tokens": "max_tokens",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_use",
    "pause_turn": "pause",
    "compaction": "pause",
    "refusal": "refusal",
    "model_context_window_exceeded": "context_overflow",
    "length": "max_tokens",  # these from gateways that translate
    "stop": "end",
    "tool_calls": "tool_use",
    "content_filter": "content_filter",
}

_OF_DELTA = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "tool_use"}


@dataclass(slots=True, eq=False)
class _Block:
    """A content block while it arrives."""

    type: str
    start: Mapping[str, object]
    pieces: list[str] = field(default_factory=list[str])
    json: list[str] = field(default_factory=list[str])
    signed: list[str] = field(default_factory=list[str])  # pieces of a signature
    citations: list[object] = field(default_factory=list[object])
    extra: dict[str, object] = field(default_factory=dict[str, object])
    whole: bool = False

    def absorb(self, delta: Mapping[str, object]) -> None:
        """Merge a delta of an unknown kind: append strings and lists, replace everything else."""
        for name, value in delta.items():
            before = self.extra.get(name, self.start.get(name))
            if name == "type":
                continue
            if isinstance(value, str) and isinstance(before, str):
                self.extra[name] = before + value
            elif isinstance(before, list) and as_array(value):
                self.extra[name] = [*as_array(self.extra.get(name, self.start.get(name))), *as_array(value)]
            elif value is not None:
                self.extra[name] = value

    def input(self) -> tuple[JsonObject, str | None]:
        """Return the arguments, or the text sent in their place."""
        raw = self.raw()
        return parse_arguments(raw) if raw.strip() else (json_freeze(as_object(self.start.get("input"))), None)

    def raw(self) -> str:
        """Return the arguments as text, blank if they came as an object."""
        return "".join(self.json) or as_str(self.start.get("input"))

    def data(self) -> Mapping[str, object] | None:
        """Return the block as it would have come in one piece, to be sent back unchanged; None if it is incomplete."""
        if not self.whole:
            return None
        data = {**self.start, **self.extra}
        if self.json:
            data["input"] = self.input()[0]
        if self.pieces and isinstance(self.start.get("text"), str):
            data["text"] = "".join(self.pieces)
        return data


class MessagesReplyReader(ReplyReader):
    """A reply taking shape from the events of the Messages API. Pure: no clock, no network."""

    def __init__(self, origin: Origin, family: str = "anthropic") -> None:
        super().__init__(origin, family)
        self._blocks: list[_Block] = []
        self._by_index: dict[int, _Block] = {}
        self._details: Mapping[str, object] = EMPTY
        self.counts_first = family == "anthropic"
        self._container = ""  # in which the provider's tools run code
        self._first: Mapping[str, object] = EMPTY  # counts reported before the first text

    def feed(self, event: Mapping[str, object], out: list[Delta]) -> None:
        kind = event.get("type")
        if kind == "content_block_delta":
            self._delta(as_int(event.get("index")), as_object(event.get("delta")), out)
        elif kind == "content_block_start":
            self._start(as_int(event.get("index")), as_object(event.get("content_block")), out)
        elif kind == "content_block_stop":
            if block := self._by_index.pop(as_int(event.get("index")), None):
                block.whole = True
                self.reasoning = block.type != "text"
        elif kind == "message_start":
            message = as_object(event.get("message"))
            self.response_id = as_str(message.get("id"))
            self._first = as_object(message.get("usage"))
            self._bill(message.get("usage"), out)
        elif kind == "message_delta":
            self._ended(as_object(event.get("delta")))
            self._bill(event.get("usage"), out)
        elif kind == "message_stop":
            self.complete = self.closed = True

    def whole(self, body: Mapping[str, object], out: list[Delta]) -> None:
        if body.get("type") != "message" and "content" not in body:
            return
        self.feed({"type": "message_start", "message": body}, [])
        content = body.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else as_array(content)
        for index, block in enumerate(blocks):
            self._start(index, as_object(block), out)
            self.feed({"type": "content_block_stop", "index": index}, out)
        self._ended(body)
        self._bill(body.get("usage"), [])
        self.complete = self.closed = True

    def message(self) -> Message:
        parts = [part for block in self._blocks if (part := self._part(block)) is not None]
        stop = stop_of(self._stop, _STOPS)
        if self._container and stop in ("tool_use", "pause"):  # code may wait there, and the next request must name it
            parts.insert(0, Opaque("", self._private({"type": CONTAINER, "id": self._container})))
        return self._assembled(parts, stop)

    def charges(self) -> tuple[Charge, ...]:
        """Return the cost of the answer. If the API ran several rounds or models, it is the sum of the `iterations`."""
        if not self._usage:
            return ()
        whole, rounds = _charge(self._usage, self._origin.model, self._usage), self._rounds()
        if not rounds:
            return (whole,)
        # Each is a separate call: their sum might look large enough for the price of a long context.
        charges = [charge for _, charge in rounds]
        own = [number for number, (entry, _) in enumerate(rounds) if _is_own(entry)]
        payer = own[-1] if own else 0
        paid = charges[payer].usage  # counts that no round reports are taken from the total
        unsaid = whole.usage.reasoning - sum(charge.usage.reasoning for charge in charges)
        thought = min(paid.output, paid.reasoning + max(0, unsaid))
        charges[payer] = replace(charges[payer], usage=replace(paid, reasoning=thought, fees=whole.usage.fees))
        if whole.usd is not None:  # a gateway's price covers all rounds
            charges = [replace(charge, usd=_ZERO if number else whole.usd) for number, charge in enumerate(charges)]
        return tuple(charges)

    def usage(self) -> Usage | None:
        """Return the executor's own share. Each round reads the context again, so the size is that of the last round,
        or the count reported before server tools were used."""
        if not self._usage:
            return None
        whole = _charge(self._usage, self._origin.model, self._usage).usage
        if self._family == "anthropic" and any(block.type == "server_tool_use" for block in self._blocks):
            first = _charge(self._first, self._origin.model, self._usage).usage
            if 0 < first.total_input < whole.total_input:
                whole = replace(first, output=whole.output, reasoning=whole.reasoning, fees=whole.fees)
        own = [charge.usage for entry, charge in self._rounds() if _is_own(entry)]
        if not own:
            return whole
        output, reasoning = sum(each.output for each in own), sum(each.reasoning for each in own)
        return replace(own[-1], output=output, reasoning=max(whole.reasoning, reasoning), fees=whole.fees)

    def _rounds(self) -> list[tuple[Mapping[str, object], Charge]]:
        entries = [as_object(entry) for entry in as_array(self._usage.get("iterations"))]
        model = self._origin.model
        return [(entry, _charge(entry, as_str(entry.get("model")) or model, self._usage)) for entry in entries]

    def advice(self) -> tuple[Advice, ...]:
        """Return the answers of an advisor that the API asked itself (platform.claude.com, advisor tool)."""
        asked = [block for block in self._blocks if block.type == "advisor_tool_result"]
        billed = [
            (as_str(entry.get("model")), charge.usage)
            for entry, charge in self._rounds()
            if entry.get("type") == "advisor_message"
        ]
        found: list[Advice] = []
        for block in asked:
            content = as_object(block.start.get("content"))
            kind, error = as_str(content.get("type")), as_str(content.get("error_code"))
            if kind == "advisor_tool_result_error":
                found.append(Advice("advisor", "", "asked", "failed", reason=error or "unavailable"))
                continue
            model, usage = billed.pop(0) if billed else ("", Usage())
            if kind == "advisor_redacted_result":
                found.append(Advice("advisor", model, "asked", "answered", _ENCRYPTED, usage=usage, usd=None))
            else:
                cut: AdviceStatus = "cut" if content.get("stop_reason") == "max_tokens" else "answered"
                text = as_str(content.get("text"))
                found.append(Advice("advisor", model, "asked", cut, text, usage=usage, usd=None))
        return tuple(found)

    def notes(self) -> tuple[str, ...]:
        """Return the provider's reason for a refusal, if any."""
        if self._stop != "refusal":
            return ()
        said = [as_str(self._details.get("category")), as_str(self._details.get("explanation"))]
        return (": ".join(("the provider refused to continue", *filter(None, said))),)

    def _start(self, index: int, start: Mapping[str, object], out: list[Delta]) -> _Block:
        known = self._by_index.get(index)
        if known is not None and start.get("id") and known.start.get("id") == start["id"]:
            return known  # already open, and announced again
        block = _Block(as_str(start.get("type")), start)
        self._blocks.append(block)
        self._bound(self._blocks)
        self._by_index[index] = block
        self.reasoning = block.type != "text" and block.type != "tool_use"
        if block.type == "text":
            self._show(TextPart(as_str(start.get("text"))), block.pieces, out)
        elif block.type == "thinking":
            self._show(ThinkingPart(as_str(start.get("thinking"))), block.pieces, out)
        return block

    def _delta(self, index: int, delta: Mapping[str, object], out: list[Delta]) -> None:
        kind = delta.get("type")
        block = self._by_index.get(index)
        if block is None:  # without a start, the delta shows its kind
            block = self._start(index, {"type": "thinking" if kind == "thinking_delta" else "text"}, out)
        block.type = block.type or _OF_DELTA.get(as_str(kind), "")
        if kind == "text_delta":
            self._show(TextPart(as_str(delta.get("text"))), block.pieces, out)
        elif kind == "input_json_delta":
            piece = as_str(delta.get("partial_json"))
            block.json.append(piece)
            self._count(piece)
        elif kind == "thinking_delta":
            self._show(ThinkingPart(as_str(delta.get("thinking"))), block.pieces, out)
        elif kind == "signature_delta":
            block.signed.append(as_str(delta.get("signature")))
        elif kind == "citations_delta":
            block.citations.append(delta.get("citation"))
            self._bound(block.citations)
        else:
            block.absorb(delta)

    def _ended(self, delta: Mapping[str, object]) -> None:
        refused = "refusal" if as_object(delta.get("stop_details")).get("type") == "refusal" else ""
        for said in (stop_at(delta.get("stop_sequence"), _STOPS), as_str(delta.get("stop_reason")), refused):
            self._stop = lasting(self._stop, said or self._stop, _STOPS)
        self.complete = bool(self._stop)  # some gateways never send the last event
        self._details = as_object(delta.get("stop_details")) or self._details
        self._container = as_str(as_object(delta.get("container")).get("id")) or self._container

    def _part(self, block: _Block) -> Part | None:
        text = valid_text("".join(block.pieces))
        match block.type:
            case "text":
                cited = [*as_array(block.start.get("citations")), *block.citations]
                private = self._private({"citations": cited}) if cited else None
                return Text(text, private) if text else None
            case "thinking":
                signature = "".join(block.signed) or as_str(block.start.get("signature"))
                if signature:
                    return Thinking(text, self._private({"signature": signature}))
                if block.whole and self._family != "anthropic":  # unsigned services may want it back
                    return Thinking(text, self._private({"type": "thinking"}))
                return Thinking(text) if text else None
            case "redacted_thinking":
                return Thinking("", self._private(block.start))
            case "tool_use":
                return self._call(block)
            case _:
                data = block.data()
                return Opaque(_excerpt(data), self._private(data)) if data is not None and block.type else None

    def _call(self, block: _Block) -> ToolCall:
        name, raw = as_str(block.start.get("name")), block.raw()
        arguments, malformed = self._parsed(name, raw) if raw.strip() else block.input()
        caller = as_object(block.start.get("caller"))
        private = self._private({"caller": caller}) if caller and caller.get("type") != "direct" else None
        call_id = as_str(block.start.get("id"))
        whole = block.whole and (self._stop in _STOPS or bool(raw.strip() and arguments))  # a text of any shows its end
        return ToolCall(call_id, name, arguments, malformed, private, whole=whole)


def _is_own(entry: Mapping[str, object]) -> bool:
    """Return True if a round is the executor's, not an advisor's or a compaction's."""
    return as_str(entry.get("type"), "message") in ("message", "fallback_message")


def _charge(counts: Mapping[str, object], model: str, whole: Mapping[str, object]) -> Charge:
    """One round's tokens. The API's input leaves cache reads and writes out, as our `Usage` does."""
    lives = lived(counts.get("cache_creation"))
    written, hour = max(count_of(counts.get("cache_creation_input_tokens")), sum(lives)), lives[1]
    read, given = count_of(counts.get("cache_read_input_tokens")), count_of(counts.get("input_tokens"))
    details, output = as_object(counts.get("output_tokens_details")), count_of(counts.get("output_tokens"))
    thought = first_count(details.get("thinking_tokens"), details.get("reasoning_tokens"))
    output += thought if thought > output else 0  # then it is outside
    searches = count_of(as_object(counts.get("server_tool_use")).get("web_search_requests"))
    inside = given and count_of(counts.get("total_tokens")) == given + output  # gateways count this way
    usage = Usage(
        input=max(0, given - read - written) if inside else given,
        cache_read=read,
        cache_write=written - hour,
        cache_write_1h=hour,
        output=output,
        reasoning=thought,
        fees={"web_search": searches} if searches > 0 else {},
    )
    tier = tier_named(as_str(counts.get("service_tier")) or as_str(whole.get("service_tier")))
    if as_str(counts.get("speed") or whole.get("speed")) == "fast":
        tier = "fast"
    if as_str(counts.get("inference_geo") or whole.get("inference_geo")) == "us":
        tier = f"{tier}+us".lstrip("+")
    role = "advisor" if counts.get("type") == "advisor_message" else ""
    return Charge(model, usage, tier, own_price(counts, EMPTY) if counts is whole else None, role=role)


def _excerpt(block: Mapping[str, object]) -> str:
    """Summarize a server tool's call or result for a person and for other providers."""
    if as_str(block.get("type")).endswith("tool_use"):
        return describe_input(as_str(block.get("name")), as_object(block.get("input")))
    return excerpt(" ".join(words_in(block.get("content"), _READABLE)))
