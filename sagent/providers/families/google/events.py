"""Google's generateContent: chunks in. Pure reading of plain JSON: no clock, no network."""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import cast

from sagent.lib.dataclass import dataclass
from sagent.lib.json import (
    EMPTY,
    JsonObject,
    as_array,
    as_object,
    as_str,
    join_pairs,
    json_dump,
    json_freeze,
    valid_text,
)
from sagent.messages import Message, Opaque, Part, StopReason, Text, Thinking, ToolCall
from sagent.model import Delta, TextPart, ThinkingPart
from sagent.providers.families.billing import cache_outside
from sagent.providers.handover import excerpt
from sagent.providers.wire.faults import Origin
from sagent.providers.wire.reply import ReplyReader, count_of, lasting, stop_of
from sagent.usage import Charge, Usage

NAMELESS = "nameless_"  # prefix of ids that we give to calls without one; they are never sent

_FILTERS = (
    *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "ESCALATION"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
)
_STOPS: Mapping[str, StopReason] = {
    "STOP": "end",
    "UNEXPECTED_TOOL_CALL": "end",  # a call of a tool that was not offered: the answer to it says so
    "MAX_TOKENS": "max_tokens",
    "STOP_SEQUENCE": "stop_sequence",  # not the API's: its message may say so
    "CONTINUATION": "max_tokens",  # of one request; continuing would process that request again, with a token
    **dict.fromkeys(_FILTERS, "content_filter"),
}
# The model wrote an unreadable call or reply, or none at all, as Gemini sometimes does after results. Sampling differs
# each time, so asking again helps.
_BROKEN = ("MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE")
_BROKEN_IF_EMPTY = ("UNEXPECTED_TOOL_CALL", "OTHER", "FINISH_REASON_UNSPECIFIED")
_CITED = ("groundingMetadata", "urlContextMetadata", "citationMetadata")
_COUNTS = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "totalTokenCount")


@dataclass(slots=True, eq=False)
class _Piece:
    """A part of the reply while it arrives: text, a thought, a call, or a Google-specific part (`part`)."""

    kind: str
    signature: str = ""
    part: Mapping[str, object] = EMPTY
    texts: list[str] = field(default_factory=list[str])
    id: str = ""
    name: str = ""
    arguments: object = None
    goes_on: bool = False  # the call is incomplete


class GenerateReplyReader(ReplyReader):
    """Builds a reply from generateContent's chunks. `family` labels data that only Google may read back.

    Signatures stay on the part they came with. A signature without text becomes a separate Opaque, because the API
    wants it back in its place; parts are never merged across one (ai.google.dev, thought signatures).
    """

    def __init__(self, origin: Origin, family: str = "google") -> None:
        super().__init__(origin, family)
        self._pieces: list[_Piece] = []
        self._unfinished: _Piece | None = None  # a call whose arguments come in pieces
        self._why = ""
        self._cited: dict[str, object] = {}
        self._version = ""

    def feed(self, event: Mapping[str, object], out: list[Delta]) -> None:
        self.response_id = self.response_id or as_str(event.get("responseId"))
        self._version = as_str(event.get("modelVersion")) or self._version
        self._bill(event.get("usageMetadata"), out)
        for item in as_array(event.get("candidates")):
            candidate = as_object(item)
            if not candidate.get("index"):
                self._candidate(candidate, out)
            else:  # only one candidate was requested
                for part in as_array(as_object(candidate.get("content")).get("parts")):
                    self._count(as_str(as_object(part).get("text")))
        if event.get("usageMetadata"):
            self._told_at = self.received  # counts include their own chunk
        feedback = as_object(event.get("promptFeedback"))
        if reason := as_str(feedback.get("blockReason")):
            self._why = f"the provider blocked the prompt: {_reason(reason, feedback.get('blockReasonMessage'))}"
            self._stop, self.complete = "SAFETY", True

    def whole(self, body: Mapping[str, object], out: list[Delta]) -> None:
        self.feed(body, out)
        if as_array(body.get("candidates")):
            self.complete = True
        self.closed = self.complete

    def message(self) -> Message:
        stop, pieces = _STOPS.get(self._stop or "STOP", "error"), self._pieces
        if stop == "end" and not any(map(_says, pieces)):  # requested again: lone signatures would count as content
            pieces = [piece for piece in pieces if piece.kind != "own"]
        parts = [part for number, piece in enumerate(pieces) if (part := self._part(piece, number)) is not None]
        self._cite(parts)
        return self._assembled(parts, stop)

    def charges(self) -> tuple[Charge, ...]:
        """Return the cost of the answer. Each chunk repeats the counts so far, so the last ones apply."""
        if not any(name in self._usage for name in _COUNTS):
            return ()
        usage = replace(_usage(self._usage), fees={**self._fees(), **_media(self._usage)})
        model = self._origin.model
        if model.endswith("-latest"):  # an alias has the price of its model
            model = self._version or model
        return (Charge(model, usage, _tier(self._usage)),)

    def _fees(self) -> Mapping[str, int]:
        """Searches: each query is billed, before Gemini 3 the request that searched (ai.google.dev, pricing)."""
        grounded = as_object(self._cited.get("groundingMetadata"))
        queries = sum(bool(as_str(query).strip()) for query in as_array(grounded.get("webSearchQueries")))
        older = as_str(self._version or self._origin.model).rpartition("/")[2].startswith(("gemini-1", "gemini-2"))
        fees = {"web_search": min(queries, 1) if older else queries}
        if any("maps" in as_object(chunk) for chunk in as_array(grounded.get("groundingChunks"))):
            fees["map_search"] = 1
        return {kind: count for kind, count in fees.items() if count}

    def notes(self) -> tuple[str, ...]:
        """Return the provider's reason for stopping the model, if it did."""
        return (self._why,) if self._why else ()

    def _candidate(self, candidate: Mapping[str, object], out: list[Delta]) -> None:
        for part in as_array(as_object(candidate.get("content")).get("parts")):
            self._take(as_object(part), out)
            self._bound(self._pieces)
        for name in _CITED:
            if found := as_object(candidate.get(name)):
                self._cited[name] = found
        if reason := as_str(candidate.get("finishReason")):
            self._finish(reason, candidate)

    def _finish(self, reason: str, candidate: Mapping[str, object]) -> None:
        why = _reason(reason, candidate.get("finishMessage"))
        if reason in _BROKEN or (reason in _BROKEN_IF_EMPTY and not self._pieces):
            raise self._origin.error("protocol", f"the model's reply ended early: {why}")
        told = stop_of(as_str(candidate.get("finishMessage")), {}) if reason == "STOP" else "end"
        reason = reason if told == "end" else told.upper()  # it is not the end that the reason says
        self._stop, self.complete = lasting(self._stop, reason, _STOPS), True
        if _STOPS.get(reason, "error") in ("content_filter", "error"):
            self._why = f"the provider stopped the answer: {why}"

    def _take(self, part: Mapping[str, object], out: list[Delta]) -> None:
        signature = as_str(part.get("thoughtSignature"))
        text, call = part.get("text"), part.get("functionCall")
        if isinstance(call, Mapping):
            self._call(as_object(cast("object", call)), signature)
            self.reasoning = False
        elif not isinstance(text, str):
            if part:
                self._pieces.append(_Piece("own", part=part))
                self.reasoning = True  # a server tool is at work
        else:
            self._say(text, "thought" if part.get("thought") is True else "text", signature, out)
            if signature and not text.strip():
                self._pieces.append(_Piece("own", part={**part, "text": ""}))

    def _say(self, text: str, kind: str, signature: str, out: list[Delta]) -> None:
        if not text:
            return
        signature = signature if text.strip() else ""  # blank text is dropped: its signature stays alone
        last = self._pieces[-1] if self._pieces else None
        if last is None or last.kind != kind or last.signature or signature:
            last = _Piece(kind, signature)
            self._pieces.append(last)
        self.reasoning = kind == "thought"
        self._show(ThinkingPart(text) if self.reasoning else TextPart(text), last.texts, out)

    def _call(self, call: Mapping[str, object], signature: str) -> None:
        """Take a call or a piece of one. After `willContinue`, arguments follow by path until a piece without it."""
        name, piece = as_str(call.get("name")), self._unfinished
        if name or piece is None:
            if not call:
                return  # the end of a call that had no pieces
            piece = _Piece("call", name=name)
            self._pieces.append(piece)
        piece.id = as_str(call.get("id")) or piece.id
        piece.signature = signature or piece.signature
        if (arguments := call.get("args")) is not None:
            piece.arguments = arguments
            self._count(str(arguments))
        last = call
        for last in map(as_object, as_array(call.get("partialArgs"))):
            piece.arguments = _placed(piece.arguments, last)
            self._count(as_str(last.get("stringValue")))
        piece.goes_on = True in (call.get("willContinue"), last.get("willContinue"))
        self._unfinished = piece if piece.goes_on else None

    def _part(self, piece: _Piece, number: int) -> Part | None:
        signed = {"thoughtSignature": piece.signature} if piece.signature else None
        private = self._private(signed) if signed else None
        match piece.kind:
            case "text":
                return Text(valid_text("".join(piece.texts)), private)
            case "thought":
                return Thinking(valid_text("".join(piece.texts)), private)
            case "call":
                arguments, malformed = self._given(piece)
                call_id = piece.id or f"{NAMELESS}{self.response_id[:40]}_{number}"
                whole = not piece.goes_on and bool(self._stop or piece.arguments)
                return ToolCall(call_id, piece.name, arguments, malformed, private, whole=whole)
            case _:
                return Opaque(_excerpt(piece.part), self._private(piece.part))

    def _given(self, piece: _Piece) -> tuple[JsonObject, str | None]:
        """Return a call's arguments; a string instead, which no Gemini sends, is parsed as JSON."""
        given = piece.arguments
        if isinstance(given, str) and given.strip():
            return self._parsed(piece.name, given)
        if as_array(given):
            return EMPTY, _json(given)
        return json_freeze(as_object(given)), None

    def _cite(self, parts: list[Part]) -> None:
        """Attach sources and citations, which concern the whole reply, to its last text."""
        for place in range(len(parts) - 1, -1, -1):
            part = parts[place]
            if isinstance(part, Text) and self._cited:
                before = as_object(part.private.data) if part.private else EMPTY
                parts[place] = Text(part.text, self._private({**before, **self._cited}))
                return


def _says(piece: _Piece) -> bool:
    """Return True if a piece is more than a thought, blank text, or the signature at the end of a text."""
    match piece.kind:
        case "call":
            return True
        case "text":
            return bool("".join(piece.texts).strip())
        case "own":
            return "text" not in piece.part
        case _:
            return False


def _reason(reason: str, message: object) -> str:
    return f"{reason}: {text}" if (text := as_str(message)) else reason


def _json(value: object) -> str:
    try:
        return json_dump(value)
    except (ValueError, RecursionError):  # an infinite number
        return str(value)


def _placed(arguments: object, piece: Mapping[str, object]) -> object:
    """Return the arguments with one more piece inserted; strings continue if the previous piece says so."""
    value: object = None
    for name in ("stringValue", "numberValue", "boolValue"):
        if name in piece:
            value = piece[name]
    steps = as_str(piece.get("jsonPath")).removeprefix("$").replace("[", ".[").split(".")
    return _with([step for step in steps if step], arguments, value)


def _with(steps: list[str], before: object, value: object) -> object:
    """Return a JSON value with `value` put at a path of member names and [numbers]."""
    if not steps:
        return join_pairs(before + value) if isinstance(before, str) and isinstance(value, str) else value
    step, *rest = steps
    index = step[1:-1]
    if step[:1] == "[" and index.isdecimal():
        items = list(as_array(before))
        place = min(int(index[:9]), len(items))  # they come in order
        return [*items[:place], _with(rest, items[place] if place < len(items) else None, value), *items[place + 1 :]]
    name = index.strip("'\"") if step[:1] == "[" else step
    members = dict(as_object(before))
    members[name] = _with(rest, members.get(name), value)
    return members


def _usage(counts: Mapping[str, object]) -> Usage:
    """Return the tokens. Cached ones count as part of the prompt unless the total proves otherwise; a server tool's
    input is in no other count, and neither are thoughts, unless the total proves it."""
    prompt, read = (count_of(counts.get(name)) for name in ("promptTokenCount", "cachedContentTokenCount"))
    tools, said = count_of(counts.get("toolUsePromptTokenCount")), count_of(counts.get("candidatesTokenCount"))
    thoughts = count_of(counts.get("thoughtsTokenCount"))
    total = count_of(counts.get("totalTokenCount"))
    inside = thoughts <= said and 0 < prompt == total - tools - said  # gateways count this way, by the total
    output = said if inside else said + thoughts
    if prompt:
        prompt += cache_outside(prompt, total - prompt - tools - output, read, 0, 0)
    read = min(prompt, read)
    if prompt:  # some answers omit a part that the total includes
        output = max(output, total - prompt - tools)
    return Usage(input=prompt - read + tools, cache_read=read, output=output, reasoning=thoughts)


def _media(counts: Mapping[str, object]) -> Mapping[str, int]:
    """Count the tokens of sound, and of images that were made; cached prompt tokens are counted apart."""
    heard, kept, said, drawn = (
        sum(
            count_of(detail.get("tokenCount"))
            for detail in map(as_object, as_array(counts.get(f"{name}TokensDetails")))
            if detail.get("modality") == kind
        )
        for name, kind in (("prompt", "AUDIO"), ("cache", "AUDIO"), ("candidates", "AUDIO"), ("candidates", "IMAGE"))
    )
    found = {"audio_input": max(0, heard - kept), "audio_cache_read": kept, "audio_output": said, "image_output": drawn}
    return {kind: count for kind, count in found.items() if count}


def _tier(counts: Mapping[str, object]) -> str:
    """Return the service tier: `serviceTier` ("flex") at the Gemini API, `trafficType` ("ON_DEMAND_FLEX") at Vertex."""
    tier = as_str(counts.get("serviceTier")) or as_str(counts.get("trafficType")).removeprefix("ON_DEMAND").strip("_")
    return "" if tier.lower() in ("standard", "traffic_type_unspecified") else tier.lower()


def _excerpt(part: Mapping[str, object]) -> str:
    """Summarize a part of Google's own kinds for a person and for other providers."""
    code, result = as_object(part.get("executableCode")), as_object(part.get("codeExecutionResult"))
    media = as_object(part.get("inlineData")) or as_object(part.get("fileData"))
    if code:
        words = f"```{as_str(code.get('language')).lower()}\n{as_str(code.get('code')).strip()}\n```"
    elif result:
        outcome = as_str(result.get("outcome")).removeprefix("OUTCOME_").lower()
        words = f"[code execution: {outcome}]\n{as_str(result.get('output'))}".strip()
    elif media:
        words = f"[{as_str(media.get('mimeType'), 'file')} {as_str(media.get('fileUri'))}".strip() + "]"
    elif response := as_object(part.get("toolResponse")):
        words = _json(response.get("response"))
    else:
        words = ""
    return excerpt(words)
