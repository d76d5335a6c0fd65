"""OpenAI-compatible Chat Completions: encodes requests. Differences between providers are data (providers.toml)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, assert_never

from sagent.cost.prices import CACHES
from sagent.errors import ModelError
from sagent.lib.audio import TYPES
from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, JsonObject, as_array, as_object, as_str, json_dump, wire_bytes
from sagent.messages import Document, Image, Opaque, Text, Thinking, ToolCall
from sagent.model import Request
from sagent.providers.access import loopback
from sagent.providers.families.caching import MARKS, CacheLife, cache_life
from sagent.providers.families.chat.efforts import effort_members
from sagent.providers.families.chat.events import REASONING, ChatReplyReader
from sagent.providers.families.chat.thoughts import marked
from sagent.providers.families.media import IMAGES, base64_text, data_url, error_text, in_words, media_in, media_tokens
from sagent.providers.families.model import Outgoing, WireModel
from sagent.providers.families.openai_endpoint import OpenAIEndpoint
from sagent.providers.families.openai_models import IMAGE_TOKENS, PAGE_TOKENS, cache_key
from sagent.providers.families.schemas import response_format
from sagent.providers.handover import CallResult, ModelTurn, Rules, Shown, UserTurn
from sagent.providers.limits import output_limit, own_output
from sagent.providers.rows import Quirks
from sagent.providers.toolforms import ANTHROPIC, CHAT, GOOGLE, ToolForm
from sagent.providers.wire.encoding import Dialect, body_start, sendable

_STEADIED = JsonObject({"presence_penalty": 0.5})
_OVERHEAD_TOKENS = 500  # what frames messages and tools
_OWN_ID = 64  # characters of an id that goes back to whoever gave it: signatures at OpenRouter refer to it
# Messages of servers whose model accepts no media: OpenAI, OpenRouter, Groq, Mistral, Ollama, llama.cpp, vLLM. A
# message about a size, a number or a format concerns only some of the images.
_BLIND = (
    r"^(?!.*(\bsize|pixel|dimension|\blarge|exceed|too many|at most [1-9]|\bformat|decod|base64|truncat|corrupt))"
    r"(?=.*(image|vision|multi-?modal|file))(?=.*(n't|\bnot?\b|\bonly\b|unsupported))"
    r"(?=.*(support|accept|allow|capab|multi-?modal|mmproj))"
    r"|content\b.*must be a string|content\b.*should be a valid string|invalid content type|unknown variant"
)


# Messages that reject cache marks, or the content blocks that carry them.
_UNMARKED = r"cache[_ ]?control|content\b.{0,80}\b(string|str)\b|(only|expected a) string|cannot unmarshal array"


@dataclass(frozen=True, slots=True)
class ChatDialect(Dialect):
    """Encoding of turns for one provider; `own` is the prefix of the `model` of its own messages.

    `life` is the requested lifetime of caches, "" for none. Cache marks need blocks of content, so then all texts are
    blocks, and earlier bytes stay the same when the mark moves.
    """

    family: str
    own: str
    quirks: Quirks
    life: CacheLife = ""
    hears: bool = False
    form: ToolForm = CHAT

    @property
    def rules(self) -> Rules:
        """Return the handover rules: a provider gets its own ids back."""
        return Rules(self.family, self.quirks.longest_id, self.own, _OWN_ID, self.quirks.id_length)

    @property
    def tool_form(self) -> ToolForm:
        return self.form

    def head(self, request: Request) -> bytes:
        """Tools, and the system prompt as the first message."""
        tools = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in request.tools
        ]
        text = self._text(request.system)
        if self.life:
            tools = [*tools[:-1], *({**tool, "cache_control": MARKS[self.life]} for tool in tools[-1:])]
            text = [{"type": "text", "text": request.system, "cache_control": MARKS[self.life]}]
        system = [{"role": "system", "content": text}] if request.system.strip() else ()
        return body_start({"tools": [*tools, *as_array(request.options.get("tools"))]}, "messages", system)

    def said(self, turn: ModelTurn) -> Sequence[object]:
        return [self._assistant(turn)]

    def shown(self, turn: UserTurn) -> Sequence[object]:
        messages = [self._answer(answer) for answer in turn.answers]
        if user := self._user(turn.answers, turn.parts):
            if turn.answers and self.quirks.bridge:
                messages.append({"role": "assistant", "content": self.quirks.bridge})
            messages.append({"role": "user", "content": user})
        return messages

    def mark(self, data: bytes) -> bytes | None:
        """Add a cache mark to the last block if it is a text; other blocks cannot have one."""
        if not self.life or not data.endswith(b'"}]}'):
            return None
        return data[:-3] + b',"cache_control":' + wire_bytes(MARKS[self.life]) + data[-3:]

    def _text(self, text: str) -> object:
        """Return content that is a single text."""
        return [{"type": "text", "text": text}] if self.life else text

    def _answer(self, answer: CallResult) -> Mapping[str, object]:
        texts = [part.text for part in answer.content if isinstance(part, Text)]
        media = len(answer.content) - len(texts)
        text = "\n".join(texts) or f"({media} of image or document, shown in the next message)"
        text = error_text(text) if answer.is_error else text
        return {"role": "tool", "tool_call_id": answer.call_id, "content": self._text(text)}

    def media_tokens(self, part: Shown) -> int:
        sent = not isinstance(part, Text) and self._block(part)["type"] != "text"
        return media_tokens(part, IMAGE_TOKENS, PAGE_TOKENS) if sent else 0

    def _assistant(self, turn: ModelTurn) -> Mapping[str, object]:
        thoughts = [part for part in turn.parts if isinstance(part, Thinking)]
        text = marked(thoughts) + "".join(part.text for part in turn.parts if isinstance(part, Text | Opaque))
        content: object = text or None
        if self.quirks.reasoning_back == "content" and (blocks := _thought_blocks(thoughts)):
            content = [*blocks, *([{"type": "text", "text": text}] if text else ())]
        message: dict[str, object] = {"role": "assistant", "content": content}
        for part in turn.parts:
            if isinstance(part, Text) and part.private and (extra := as_object(part.private.data).get("extra_content")):
                message["extra_content"] = extra
        calls = [_call(part) for part in turn.parts if isinstance(part, ToolCall)]
        if calls:
            message["tool_calls"] = calls
        return {**message, **self._reasoning(thoughts, with_calls=bool(calls))}

    def _reasoning(self, thoughts: Sequence[Thinking], *, with_calls: bool) -> Mapping[str, object]:
        """Return the reasoning before a call, if the provider wants it back."""
        private = [as_object(part.private.data) for part in thoughts if part.private]
        wanted = self.quirks.reasoning_back
        back: dict[str, object] = {}
        if wanted in ("reasoning_details", "same"):
            details = [detail for data in private for detail in as_array(data.get("details"))]
            back = {"reasoning_details": details} if details else back
        if wanted not in ("", "reasoning_details", "content") and with_calls:
            fields = [as_str(data.get("field")) for data in private]
            if wanted == "same":
                wanted = next((field for field in fields if field in REASONING), "")
            said = "".join(part.text for part, field in zip(thoughts, fields, strict=False) if field == wanted)
            if wanted and (said := said or self.quirks.reasoning_filler):
                back[wanted] = said
            if opaque := next((each for data in private if (each := data.get("opaque"))), None):
                back["reasoning_opaque"] = opaque
        return back

    def _user(self, answers: Sequence[CallResult], parts: Sequence[Shown]) -> object:
        """Return a user message's content: media in results come first (a tool's message takes text only)."""
        blocks: list[Mapping[str, object]] = []
        for answer in answers:
            media = [part for part in answer.content if not isinstance(part, Text)]
            if media:
                blocks.append({"type": "text", "text": f"[from the result of {answer.name}, call {answer.call_id}]"})
                blocks += [self._block(part) for part in media]
        blocks += [self._block(part) for part in parts]
        if all(block["type"] == "text" for block in blocks):
            text = "\n\n".join(as_str(block["text"]) for block in blocks)
            return text and self._text(text)
        return blocks

    def _block(self, part: Shown) -> Mapping[str, object]:
        match part:
            case Text(text, _):
                return {"type": "text", "text": text}
            case Image(media_type, data) if self.quirks.images and data and media_type in IMAGES:
                return {"type": "image_url", "image_url": {"url": data_url(media_type, data)}}
            case Document("application/pdf", data, name) if self.quirks.documents == "file" and data:
                file = {"filename": name or "document.pdf", "file_data": data_url("application/pdf", data)}
                return {"type": "file", "file": file}
            case Document(kind, data, _) if self.hears and kind in TYPES and data:
                return {"type": "input_audio", "input_audio": {"data": base64_text(data), "format": TYPES[kind]}}
            case Image() | Document():
                return {"type": "text", "text": in_words(part)}
            case _:
                assert_never(part)


def _thought_blocks(thoughts: Sequence[Thinking]) -> list[Mapping[str, object]]:
    """Return thinking that came in the content, as blocks of it."""
    blocks: list[Mapping[str, object]] = []
    for part in thoughts:
        data = as_object(part.private.data) if part.private else EMPTY
        if data.get("field") == "content":
            signed = {"signature": data["signature"]} if "signature" in data else {}
            blocks.append({"type": "thinking", "thinking": [{"type": "text", "text": part.text}], **signed})
    return blocks


def _call(part: ToolCall) -> object:
    function = {"name": part.name, "arguments": json_dump(sendable(part.arguments))}
    call = {"id": part.id, "type": "function", "function": function}
    return {**call, **as_object(part.private.data)} if part.private else call


class ChatModel(WireModel["ChatProvider"]):
    """One model of a Chat Completions endpoint."""

    overhead, reader = _OVERHEAD_TOKENS, ChatReplyReader
    unrecorded = ("model", "stream", "stream_options")

    def _prepare(self, request: Request) -> Outgoing:
        quirks = self._provider.row.quirks
        effort, notes = effort_members(self.id, quirks, request.effort, with_tools=bool(request.tools), able=self._able)
        members: dict[str, object] = {"model": self.id, "stream": True}
        if quirks.stream_usage:
            members["stream_options"] = {"include_usage": True}
        limit, clamped = output_limit(self.id, self._limits, request.max_output)
        if limit is None and self._is_own():
            limit = own_output(self._limits)
        if limit:
            members[quirks.max_tokens] = limit
        members |= effort
        held = quirks.structured or ("json_schema" if self._able.structured else "")
        members |= response_format(request, held, with_tools=quirks.structured_tools)
        if quirks.cache_key:
            members["prompt_cache_key"] = cache_key(request.conversation)
        members |= {name: value for name, value in request.options.items() if name not in ("tools", CACHES)}
        return Outgoing(
            f"{self._provider.url}/chat/completions",
            members,
            (*clamped, *notes, *self._left_out(request)),
            members.get(quirks.max_tokens),
            parameters={CACHES: request.options[CACHES]} if self._life(request) == "1h" else EMPTY,
        )

    @property
    def against_repetition(self) -> JsonObject:
        """Return request members that prevent repetitions; none if they may be refused or are unnecessary."""
        return _STEADIED if self._is_own() else EMPTY

    def _is_own(self) -> bool:
        """Return True for a server of the user's own: many of these go on for as long as the model does."""
        row = self._provider.row
        return row.free or (row.name == OpenAICompatible.row_name and loopback(self._provider.url))

    def _marks(self, request: Request) -> bool:
        return bool(self._life(request))

    def _life(self, request: Request) -> CacheLife:
        """Return the cache lifetime to ask for; "" if the provider caches unasked, or not at all."""
        names = (self.id.lower(), self.id.lower().rpartition("/")[2])
        marked = self._provider.row.quirks.cache_marks
        wants = any(name.startswith(start.lower()) for start in marked for name in names)
        return cache_life(request.options) if wants and self.id not in self._provider.unmarked else ""

    def _dialect(self, request: Request) -> ChatDialect:
        name, quirks = self.provider, self._provider.row.quirks
        if self.id in self._provider.blind:
            quirks = replace(quirks, images=False, documents="")
        form = ANTHROPIC if "claude" in self._known.lower() else GOOGLE if "gemini" in self._known.lower() else CHAT
        return ChatDialect(f"chat:{name}", f"{name}/", quirks, self._life(request), bool(self._able.audio), form)

    def _learn(self, error: ModelError, request: Request) -> bool:
        """Media, which may be in the history since another model had the conversation, or marks of caches are left out
        where the model refuses them."""
        provider, words = self._provider, str(error.args[0])
        marked = error.kind in ("invalid_request", "server") and self._life(request)
        if marked and re.search(_UNMARKED, words, re.IGNORECASE):
            provider.unmarked.add(self.id)
            return True
        refused = error.kind in ("invalid_request", "not_found", "server") and re.search(_BLIND, words, re.IGNORECASE)
        if not refused or self.id in provider.blind or not any(media_in(request.messages)):
            return False
        provider.blind.add(self.id)
        return True

    def _left_out(self, request: Request) -> tuple[str, ...]:
        notes: list[str] = []
        if self.id in self._provider.blind and any(media_in(request.messages)):
            notes.append(f"{self.id} does not accept images or documents: each is replaced by a line of text")
        if self.id in self._provider.unmarked:
            notes.append(
                f"{self.provider} refuses cache_control for {self.id}: its input is not cached and costs the full price"
            )
        return tuple(notes)


class ChatProvider(OpenAIEndpoint):
    """A provider of the Chat Completions family, as its row describes it. Its models share its connections."""

    row_name: ClassVar[str] = "openai-compatible"

    def _set_up(self) -> None:
        super()._set_up()
        self.blind: set[str] = set()  # models that refused media
        self.unmarked: set[str] = set()  # models that refused marks

    def model(self, model_id: str) -> ChatModel:
        return ChatModel(self, model_id)


class Moonshot(ChatProvider):
    """Moonshot (Kimi): MOONSHOT_API_KEY, MOONSHOT_BASE_URL."""

    row_name = "moonshot"


class DashScope(ChatProvider):
    """Alibaba's DashScope (Qwen): DASHSCOPE_API_KEY, DASHSCOPE_BASE_URL."""

    row_name = "dashscope"


class MiniMax(ChatProvider):
    """MiniMax: MINIMAX_API_KEY, MINIMAX_BASE_URL."""

    row_name = "minimax"


class OpenAICompatible(ChatProvider):
    """Server without a row of its own: OPENAI_COMPATIBLE_BASE_URL, and OPENAI_COMPATIBLE_API_KEY if it needs one."""

    row_name = "openai-compatible"
