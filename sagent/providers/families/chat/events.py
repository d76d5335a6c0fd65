"""Chat Completions: chunks in. Pure reading of plain JSON, of the many dialects that call themselves compatible."""

import sys
from binascii import a2b_base64
from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from sagent.errors import ModelError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, as_array, as_object, as_str, json_dump, json_freeze, valid_text
from sagent.lib.schema import parse_arguments
from sagent.messages import WITHDRAWN, Image, Message, Part, Private, StopReason, Text, Thinking, ToolCall
from sagent.model import Delta, TextPart, ThinkingPart
from sagent.providers.families.billing import own_price, tier_named, tokens_of
from sagent.providers.families.chat.thoughts import IN_TEXT, LeadingThoughts
from sagent.providers.families.media import image_at, made_notes
from sagent.providers.wire.faults import Origin, error_in, from_event
from sagent.providers.wire.reply import ReplyReader, count_of, lasting, stop_at, stop_of
from sagent.usage import Charge

_STOPS: Mapping[str, StopReason] = {  # any other value ("stop", "eos", "end_turn") is a normal end
    "stop_sequence": "stop_sequence",
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens"), "max_tokens"),
    **dict.fromkeys(("model_length", "model_context_window_exceeded"), "context_overflow"),
    **dict.fromkeys(("tool_calls", "tool_use", "function_call"), "tool_use"),
    **dict.fromkeys(("content_filter", "safety", "recitation", "sensitive"), "content_filter"),
    "refusal": "refusal",
    "malformed_function_call": "error",
}
_ENDS = ("stop", "eos", "eos_token", "end", "end_turn", "complete", "completed", "done")  # of a reply that is whole
# Reasons that say the reply broke off: DeepSeek, z.ai, vLLM, OpenRouter.
_BROKEN = {"insufficient_system_resource": "overloaded_error", "network_error": "server_error", "abort": "server_error"}
_CITED = ("annotations", "executed_tools")  # members of a message: sources of OpenAI and OpenRouter, Groq's own tools
_MAX_CITATIONS = 1_000  # of a kind; each is compared with all of them
_SOURCES = ("citations", "search_results")  # next to it: Perplexity's
REASONING = ("reasoning_content", "reasoning", "reasoning_text", "thinking")


@dataclass(slots=True, eq=False)
class _Pending:
    """A tool call while it arrives."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])
    extra: Mapping[str, object] = EMPTY
    at_once: bool = False  # all arguments came with the name: an empty object may be only their beginning

    def followed_by(self, call_id: str, name: str, *, more: bool) -> bool:
        """Return True if a delta that seems to continue this call begins another one."""
        if call_id and self.id:
            return call_id != self.id and bool(name)
        if not name or not self.arguments:
            return False
        return (bool(self.name) and name != self.name) or (more and self.is_whole())

    def is_whole(self) -> bool:
        """Return True if the arguments are a complete JSON object, so that any more belong to another call."""
        end = next((piece for piece in reversed(self.arguments) if not piece.isspace()), "")
        return end.rstrip().endswith(("}", "null")) and parse_arguments("".join(self.arguments))[1] is None

    def add(self, piece: str) -> None:
        """Take more of the arguments: some servers begin with an empty object, or end by repeating the whole."""
        if self.arguments and piece.lstrip()[:1] == "{" and (sofar := "".join(self.arguments)) in ("{}", piece):
            self.arguments = [piece] if sofar == "{}" else self.arguments
        else:
            self.arguments.append(piece)


class ChatReplyReader(ReplyReader):
    """A reply taking shape from chat completion chunks. `family` labels what only this provider may read back."""

    def __init__(self, origin: Origin, family: str) -> None:
        super().__init__(origin, family)
        self.closes_calls = True
        if "compound" in origin.model:  # Groq's, whose thoughts repeat the results of its own tools
            self._summary = sys.maxsize
        self._text: list[str] = []
        self._leading: LeadingThoughts | None = LeadingThoughts()
        self._thoughts: list[str] = []
        self._field = ""  # member that the reasoning came in
        self._details: list[dict[str, object]] = []
        self._opaque = ""  # signed or encrypted reasoning: Copilot's
        self._signatures = set[str]()  # signatures of reasoning: Mistral's
        self._sound: list[bytes] = []
        self._images: dict[Image, None] = {}  # in their order, each once
        self._calls: list[_Pending] = []
        self._by_index: dict[int, _Pending] = {}
        self._extra: Mapping[str, object] = EMPTY
        self._cited: dict[str, list[object]] = {}
        self._refused = False

    def feed(self, event: Mapping[str, object], out: list[Delta]) -> None:
        try:
            self._choices(event, out)
        except ModelError:  # an error in the stream may also report the bill
            self.failed(event, out)
            raise
        self._price(event, out)
        if not self.response_id:
            self.response_id = as_str(event.get("id"))
        for name in _SOURCES:
            self._cite(name, event.get(name))
        tier = event.get("service_tier") or _usage_of(event).get("service_tier")  # Mistral's is in its usage
        self._tier = as_str(tier) or self._tier

    def failed(self, event: Mapping[str, object], out: list[Delta]) -> None:
        usage = self._untold(_usage_of(event))
        if any(map(count_of, usage.values())):
            known = self._cost
            self._price({**event, "usage": usage}, out)
            self._cost = self._cost if known is None else known

    def _choices(self, event: Mapping[str, object], out: list[Delta]) -> None:
        if stopped := as_object(event.get("x_groq")).get("error"):  # console.groq.com, API reference
            raise from_event(self._origin, {"error": stopped})
        for choice in map(as_object, as_array(event.get("choices"))):
            delta = as_object(choice.get("delta"))
            if choice.get("index"):  # only one choice was requested
                self._count(as_str(delta.get("content")))
            else:
                if not (delta or self._text or self._thoughts or self._calls):
                    delta = as_object(choice.get("message"))  # some servers repeat the whole message there
                self._choice(choice, delta, out)

    def whole(self, body: Mapping[str, object], out: list[Delta]) -> None:
        choices = as_array(body.get("choices"))
        if not choices:
            return
        choice = as_object(choices[0])
        message = as_object(choice.get("message")) or as_object(choice.get("delta"))
        if choice.get("finish_reason") == "tool_calls" and not message.get("tool_calls"):  # Copilot splits a reply up
            others = (as_object(as_object(other).get("message")).get("tool_calls") for other in choices[1:])
            message = {**message, "tool_calls": [call for other in others for call in as_array(other)]}
        if calls := as_array(message.get("tool_calls")):  # each is a separate call, whatever its id
            message = {**message, "tool_calls": [{**as_object(call), "index": at} for at, call in enumerate(calls)]}
        self.feed({**body, "choices": [{**choice, "index": 0, "delta": message}]}, out)
        self.complete = self.closed = True

    def done(self) -> None:
        """Handle `[DONE]`: a normal end if there was any output, with or without a finish reason."""
        said = self._text or self._thoughts or self._sound or self._images or self._calls
        if self._stop or said or self._usage:
            self.complete = self.closed = True

    def message(self) -> Message:
        """Return the finished message: thinking first, then text, then calls."""
        self._settle([])
        parts: list[Part] = []
        thoughts = valid_text("".join(self._thoughts))
        if thoughts or self._details or self._opaque:
            kept = {"field": thoughts and self._field, "details": self._details, "opaque": self._opaque}
            if len(self._signatures) == 1:  # several signatures belong to several blocks, which are merged here
                kept["signature"] = next(iter(self._signatures))
            parts.append(Thinking(thoughts, self._private(kept)))
        if text := valid_text("".join(self._text)):
            kept = {"extra_content": self._extra, **self._cited}
            parts.append(Text(text, self._private(kept) if any(kept.values()) else None))
        if self._sound:
            from sagent.providers.families.sound import spoken

            parts.append(spoken(b"".join(self._sound)))
        parts += self._images
        calls = [self._call(pending) for pending in self._calls if pending.id or pending.name or pending.arguments]
        stop = stop_of(self._stop, _STOPS)
        if self._refused and stop not in WITHDRAWN:
            stop = "refusal"
        elif stop == "tool_use" and not calls:
            stop = "end"
        return self._assembled((*parts, *calls), stop)

    def charges(self) -> tuple[Charge, ...]:
        if not self._usage:
            return ()
        usage = tokens_of(self._usage)
        if self.hourly and not usage.cache_write_1h:
            usage = replace(usage, cache_write=0, cache_write_1h=usage.cache_write)
        return (Charge(self._origin.model, usage, tier_named(self._tier), self._cost),)

    def _choice(self, choice: Mapping[str, object], delta: Mapping[str, object], out: list[Delta]) -> None:
        if delta:
            more = len(delta) > 1 or "content" not in delta
            if more:
                self._reason(delta, out)
            content = delta.get("content")
            if isinstance(content, str):
                if content:
                    self._write(content, out)
            elif content is not None:
                self._content(content, out)
            if more:
                self._take_rest(delta, out)
        if "usage" in choice:  # Moonshot
            self._price({"usage": choice["usage"]}, out)
        if reason := choice.get("finish_reason"):
            self._settle(out)
            self._finish(as_str(reason), choice)

    def _take_rest(self, delta: Mapping[str, object], out: list[Delta]) -> None:
        """Handle everything in a chunk but thinking and text."""
        if refusal := as_str(delta.get("refusal")):
            self._refused = True
            self._say(refusal, out)
        calls = delta.get("tool_calls")
        for call in as_array(calls) or ([calls] if as_object(calls) else ()):
            self._call_delta(as_object(call))
        if function := as_object(delta.get("function_call")):
            self._call_delta({"index": 0, "function": function})
        if sound := as_object(delta.get("audio")):
            self._hear(sound, out)
        for image in as_array(delta.get("images")):  # OpenRouter, and gateways that imitate it
            self._draw(as_object(image), out)
        if extra := as_object(delta.get("extra_content")):  # Google's thought signatures
            self._extra = {**self._extra, **extra}
        for name in _CITED:
            self._cite(name, delta.get(name))

    def _cite(self, name: str, cited: object) -> None:
        """Keep citations with the text. Some servers repeat all they have so far in each chunk."""
        before = self._cited.get(name, [])
        if news := [item for item in as_array(cited)[:_MAX_CITATIONS] if item not in before]:
            self._cited[name] = [*before, *news][:_MAX_CITATIONS]

    def _hear(self, sound: Mapping[str, object], out: list[Delta]) -> None:
        """Take a piece of speech: its transcript becomes text, and its audio follows at the end."""
        self._say(as_str(sound.get("transcript")), out)
        if data := as_str(sound.get("data")):
            try:
                self._sound.append(a2b_base64(data))
            except ValueError as error:
                raise self._origin.error("protocol", f"the sound of its answer is not base64: {error}") from error
            self.received += 1  # not silent

    def _draw(self, part: Mapping[str, object], out: list[Delta]) -> None:
        """Take an image that the model made; if it is stored elsewhere, show its address."""
        place = part.get("image_url")
        url = as_str(place) or as_str(as_object(place).get("url"))
        if image := image_at(url):
            self._images[image] = None
            self._bound(self._images)
            self.received += 1  # not silent
        elif url.startswith("data:"):
            self._cite("parts", [part])
        else:
            self._say(url, out)

    def notes(self) -> tuple[str, ...]:
        return made_notes(self.message().parts) if self._sound or self._images else ()

    def _write(self, text: str, out: list[Delta]) -> None:
        """Take text that may begin with thinking, unless thinking comes separately."""
        if self._leading is not None and self._field not in ("", IN_TEXT):
            self._settle(out)
        if self._leading is None:
            self._say(text, out)
            return
        self._tell_apart(self._leading.split(text), out)
        if self._leading.over:
            self._leading = None

    def _settle(self, out: list[Delta]) -> None:
        """Emit the held-back text."""
        if self._leading is not None:
            self._tell_apart(self._leading.end(), out)
            self._leading = None

    def _tell_apart(self, pieces: Iterable[tuple[bool, str]], out: list[Delta]) -> None:
        for is_thought, piece in pieces:
            if is_thought:
                self._think(piece, IN_TEXT, out)
            else:
                self._say(piece, out)

    def _say(self, text: str, out: list[Delta]) -> None:
        self.reasoning = False
        self._show(TextPart(text), self._text, out)

    def _think(self, text: str, source: str, out: list[Delta]) -> None:
        self.reasoning = True
        self._field = self._field or source
        self._show(ThinkingPart(text), self._thoughts, out)

    def _content(self, content: object, out: list[Delta]) -> None:
        """Content that is not a string: a list of parts (Mistral), or an object (Cloudflare's JSON mode)."""
        if fields := as_object(content):
            self._say(json_dump(fields), out)
        for item in as_array(content):
            part = as_object(item)
            kind = as_str(part.get("type"))
            if kind in ("thinking", "reasoning"):
                said = (part.get(name) for name in ("thinking", "reasoning", "summary", "text"))  # Databricks' summary
                for text in _texts(next(filter(None, said), None)):
                    self._think(text, "content", out)
                if signature := as_str(part.get("signature")):
                    self._signatures.add(signature)
            elif kind == "image_url":
                self._draw(part, out)
            elif kind in ("text", "output_text", "") or "text" in part:
                for text in _texts(part.get("text") if part else item):
                    self._say(text, out)
            else:  # Mistral's references, and future kinds
                self._cite("parts", [part])

    def _reason(self, delta: Mapping[str, object], out: list[Delta]) -> None:
        """Take reasoning under one of its names, once if a gateway sends it twice, as text and as details."""
        shown = False
        for name in REASONING:
            for text in _texts(delta.get(name)):
                self._think(text, name, out)
                shown = True
            if shown:
                break
        self._opaque = as_str(delta.get("reasoning_opaque")) or self._opaque
        for item in as_array(delta.get("reasoning_details")):
            detail = as_object(item)
            text = as_str(detail.get("text")) or as_str(detail.get("summary"))
            if text and not shown:
                text = self._news(text)
                detail = {**detail, "text": text} if detail.get("text") else detail
                if text:
                    self._think(text, "reasoning_details", out)
            self._detail(detail)

    def _news(self, text: str) -> str:
        """Return the new part of a reasoning text that may repeat all earlier reasoning (MiniMax)."""
        before = self._thought
        again = 16 <= before <= len(text) and text.startswith("".join(self._thoughts))
        return text[before:] if again else text

    def _detail(self, detail: Mapping[str, object]) -> None:
        """Merge a detail into the last one if it continues it (OpenRouter's rule: same type and index)."""
        last = self._details[-1] if self._details else None
        same = last is not None and all(last.get(name) == detail.get(name) for name in ("type", "index", "format"))
        if last is None or not same or detail.get("type") == "reasoning.encrypted":
            self._details.append(dict(detail))
            self._bound(self._details)
            return
        for name, value in detail.items():
            before = last.get(name)
            if name in ("text", "summary", "signature") and isinstance(before, str) and isinstance(value, str):
                last[name] = before + value
            elif value is not None:
                last[name] = value

    def _call_delta(self, delta: Mapping[str, object]) -> None:
        function = as_object(delta.get("function")) or as_object(delta.get("custom"))
        name, call_id = as_str(function.get("name")), as_str(delta.get("id"))
        arguments = function.get("arguments", function.get("input"))
        pending = self._pending(delta.get("index"), call_id, name, more=bool(arguments))
        pending.at_once = not (pending.id or pending.name) or (pending.at_once and not arguments)
        pending.id = pending.id or call_id
        if name and name != pending.name and not (pending.name and pending.arguments):
            pending.name += name
        if isinstance(arguments, str):
            if arguments:
                pending.add(arguments)
                self._count(arguments)
        elif arguments is not None:  # an object instead of the protocol's string
            pending.arguments = [json_dump(arguments)]
        if extra := as_object(delta.get("extra_content")):
            pending.extra = extra

    def _pending(self, index: object, call_id: str, name: str, *, more: bool) -> _Pending:
        """Return the call a delta belongs to: by index if that is reliable, else by id, else the last one.

        Some servers number every call 0, some omit the index, some repeat id and name in each delta, and some give
        continuations a new number. `more` says that the delta has arguments.
        """
        same = next((call for call in reversed(self._calls) if call_id and call.id == call_id), None)
        if same is not None and name and more and same.is_whole():
            same = None
        if isinstance(index, int) and not isinstance(index, bool):
            known = self._by_index.get(index)
            if known is None:
                last = self._calls[-1] if self._calls else None
                lost = last is not None and more and not (call_id or name or last.is_whole())
                known = self._by_index[index] = last if last is not None and lost else self._new_call()
            elif same is not None and known.id not in ("", call_id):
                return same
            elif known.followed_by(call_id, name, more=more):
                known = self._by_index[index] = self._new_call()
            return known
        if same is not None:
            return same
        if not call_id and self._calls and not self._calls[-1].followed_by(call_id, name, more=more):
            return self._calls[-1]
        return self._new_call()

    def _new_call(self) -> _Pending:
        pending = _Pending()
        self._calls.append(pending)
        self._bound(self._calls)
        self.reasoning = False
        return pending

    def _call(self, pending: _Pending) -> ToolCall:
        raw = "".join(pending.arguments)
        arguments, malformed = self._parsed(pending.name, raw) if raw.strip() else (EMPTY, None)
        private = self._private({"extra_content": pending.extra}) if pending.extra else None
        whole = self._ended() or (pending.is_whole() and bool(arguments or not pending.at_once))
        return ToolCall(pending.id, pending.name, arguments, malformed, private, whole=whole)

    def _ended(self) -> bool:
        """Return True if the reply is known to have ended normally. Otherwise only arguments that are complete in
        themselves count as whole; empty ones are uncertain."""
        reason = self._stop.lower()
        return reason in _ENDS or _STOPS.get(reason) == "tool_use"

    def _finish(self, reason: str, choice: Mapping[str, object]) -> None:
        if reason.lower() == "error" or error_in(choice):  # Cohere's is in capitals
            raise from_event(self._origin, {"error": choice.get("error") or "the provider ended the reply early"})
        native = as_str(choice.get("native_finish_reason"))  # OpenRouter's: of a reply that was cut as well
        word = choice.get("stop_reason") or choice.get("matched_stop")  # vLLM's and SGLang's
        reason = lasting(native, lasting(stop_at(word, (*_ENDS, *_STOPS)), reason, _STOPS), _STOPS)
        if kind := _BROKEN.get(reason):
            raise from_event(self._origin, {"error": {"type": kind, "message": f"the reply ended early: {reason}"}})
        self._stop = lasting(self._stop, reason, _STOPS)
        self.complete = True

    def _price(self, event: Mapping[str, object], out: list[Delta]) -> None:
        """Record the usage and the price that an event reports, if any."""
        usage = _usage_of(event)
        if usage or "cost" in event:
            usd = own_price(usage, event)
            self._cost = self._cost if usd is None and self._told_at == self.received else usd
            self._bill(usage or self._usage, out)

    def _private(self, data: Mapping[str, object]) -> Private:
        return Private(self._family, json_freeze({name: value for name, value in data.items() if value}))


def _usage_of(event: Mapping[str, object]) -> Mapping[str, object]:
    return as_object(event.get("usage") or as_object(event.get("x_groq")).get("usage"))


def _texts(value: object) -> list[str]:
    """Return the strings of a text given as a string, an object with one, or a list of these."""
    if isinstance(value, str):
        return [value] if value else []
    if items := as_array(value):
        return [text for item in items for text in _texts(item)]
    fields = as_object(value)
    return _texts(fields.get("text") or fields.get("content")) if fields else []
