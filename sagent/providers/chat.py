"""OpenAI-compatible Chat Completions: requests out. What providers differ in is data (providers.toml)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, assert_never

from sagent.lib.json import EMPTY, as_array, as_object, as_str, json_dump, wire_bytes
from sagent.messages import Document, Image, Opaque, Text, Thinking, ToolCall
from sagent.model import Effort, Request, ToolSpec, Witness
from sagent.providers.access import Access
from sagent.providers.chat_events import ChatDraft
from sagent.providers.exchange import Call, Timeouts, frozen
from sagent.providers.handover import Answered, ModelTurn, Rules, Shown, Turn, UserTurn
from sagent.providers.media import IMAGES, data_url, media_weight, stand_in
from sagent.providers.openai_endpoint import OpenAIEndpoint
from sagent.providers.openai_models import (
    IMAGE_TOKENS,
    PAGE_TOKENS,
    cache_key,
    efforts_of,
    gpt_version,
    nearest,
    output_limit,
)
from sagent.providers.rows import Quirks, Row
from sagent.providers.transport import Transport
from sagent.providers.wire import Piece, Scrolls
from sagent.providers.wire_model import WireModel

_OVERHEAD = 500  # what frames messages and tools


# ---------------------------------------------------------------------------------------------------------------------
# Request out


@dataclass(frozen=True, slots=True)
class ChatDialect:
    """How turns are written for one provider; `own` is what the `model` of its messages begins with."""

    family: str
    own: str
    quirks: Quirks

    @property
    def rules(self) -> Rules:
        """A provider gets its own ids back as it gave them."""
        return Rules(self.family, self.quirks.longest_id, self.own)

    def head(self, request: Request) -> bytes:
        """Tools, and the system prompt as the first message; a server tool comes in the option `tools`."""
        return head_bytes(request.system, request.tools, as_array(request.options.get("tools")))

    def encode(self, turn: Turn) -> Piece:
        """One or more JSON messages, joined by commas."""
        match turn:
            case ModelTurn():
                data = wire_bytes(self._assistant(turn))
                return Piece(data, len(data))
            case UserTurn(answers, parts):
                messages = [_tool_message(answer) for answer in answers]
                if user := self._user(answers, parts):
                    messages.append({"role": "user", "content": user})
                data = b",".join(map(wire_bytes, messages))
                shown = (*(part for answer in answers for part in answer.content), *parts)
                return Piece(data, len(data) + sum(self._weight(part) for part in shown))
            case _:
                assert_never(turn)

    def mark(self, data: bytes) -> None:
        """There are no breakpoints: these providers cache prefixes by themselves."""

    def _assistant(self, turn: ModelTurn) -> Mapping[str, object]:
        message: dict[str, object] = {"role": "assistant", "content": None}
        texts: list[str] = []
        thoughts: list[Thinking] = []
        calls: list[object] = []
        for part in turn.parts:
            match part:
                case Text(text, private):
                    texts.append(text)
                    message.update(as_object(private.data) if private else EMPTY)
                case Thinking():
                    thoughts.append(part)
                case ToolCall():
                    calls.append(_call(part))
                case Opaque(text, _):
                    texts.append(text)
                case _:
                    assert_never(part)
        if text := "".join(texts):
            message["content"] = text
        if calls:
            message["tool_calls"] = calls
        message.update(self._reasoning(thoughts, with_calls=bool(calls)))
        return message

    def _reasoning(self, thoughts: Sequence[Thinking], *, with_calls: bool) -> Mapping[str, object]:
        """The reasoning before a call, where the provider wants it back."""
        private = [as_object(part.private.data) for part in thoughts if part.private]
        if self.quirks.reasoning_back == "reasoning_details":
            details = [detail for data in private for detail in as_array(data.get("details"))]
            return {"reasoning_details": details} if details else EMPTY
        if self.quirks.reasoning_back and with_calls:
            said = "".join(
                part.text
                for part, data in zip(thoughts, private, strict=False)
                if as_str(data.get("field")) == self.quirks.reasoning_back
            )
            if said := said or self.quirks.reasoning_filler:
                return {self.quirks.reasoning_back: said}
        return EMPTY

    def _user(self, answers: Sequence[Answered], parts: Sequence[Shown]) -> object:
        """The content of the user's message: media that results hold first (a tool's message takes text only)."""
        blocks: list[Mapping[str, object]] = []
        for answer in answers:
            media = [part for part in answer.content if not isinstance(part, Text)]
            if media:
                blocks.append({"type": "text", "text": f"[from the result of {answer.name}, call {answer.call_id}]"})
                blocks += [self._block(part) for part in media]
        blocks += [self._block(part) for part in parts]
        if all(block["type"] == "text" for block in blocks):
            return "\n\n".join(as_str(block["text"]) for block in blocks)
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
            case Document(media_type, data, name) if media_type.startswith("text/") and data.strip():
                return {"type": "text", "text": f"[{name or 'document'}]\n{data.decode('utf-8', 'replace')}"}
            case Image() | Document():
                return {"type": "text", "text": stand_in(part)}
            case _:
                assert_never(part)

    def _weight(self, part: Shown) -> int:
        sent = self._block(part)["type"] in ("image_url", "file") if not isinstance(part, Text) else False
        return media_weight(part, IMAGE_TOKENS, PAGE_TOKENS) if sent else 0


def _tool_message(answer: Answered) -> Mapping[str, object]:
    texts = [part.text for part in answer.content if isinstance(part, Text)]
    media = len(answer.content) - len(texts)
    text = "\n".join(texts) or f"({media} of image or document, shown in the next message)"
    if answer.is_error and not text.lower().startswith(("error", "[interrupted")):
        text = f"Error: {text}"
    return {"role": "tool", "tool_call_id": answer.call_id, "content": text}


def _call(part: ToolCall) -> object:
    try:
        arguments = json_dump(part.arguments)
    except (ValueError, TypeError, RecursionError):  # JSON cannot say them (an infinite number)
        arguments = "{}"
    function = {"name": part.name, "arguments": arguments}
    call = {"id": part.id, "type": "function", "function": function}
    return {**call, **as_object(part.private.data)} if part.private else call


def head_bytes(system: str, tools: Sequence[ToolSpec], more_tools: Sequence[object] = ()) -> bytes:
    """The beginning of a body: tools, `messages`, and the system prompt as the first of them."""
    listed = [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools
    ]
    head = b'{"messages":['
    if listed or more_tools:
        head = b'{"tools":' + wire_bytes([*listed, *more_tools]) + b',"messages":['
    if system.strip():
        head += wire_bytes({"role": "system", "content": system}) + b","
    return head


# ---------------------------------------------------------------------------------------------------------------------
# How hard a model thinks

_BUDGETS: Mapping[Effort, int] = {
    "minimal": 1_024,
    "low": 4_096,
    "medium": 10_000,
    "high": 20_000,
    "xhigh": 32_000,
    "max": 38_000,
}


def effort_members(
    model: str, style: str, effort: Effort | None, *, with_tools: bool
) -> tuple[Mapping[str, object], tuple[str, ...]]:
    """The body members that tell an effort in a provider's style, and notes on what could not be told."""
    if style == "openai":
        return _openai_effort(model, effort, with_tools=with_tools)
    if effort is None:
        return EMPTY, ()
    thinks = effort != "none"
    match style:
        case "reasoning":
            return {"reasoning": {"effort": "xhigh" if effort == "max" else effort}}, ()
        case "level":
            return _nearest(
                model, effort, ("none", "low", "medium", "high") if not thinks else ("low", "medium", "high")
            )
        case "thinking":
            notes = (f"{model} knows no levels of effort: thinking is {'on' if thinks else 'off'}",)
            return {"thinking": {"type": "enabled" if thinks else "disabled"}}, notes if thinks else ()
        case "enable_thinking":
            return {"enable_thinking": thinks, **({"thinking_budget": _BUDGETS[effort]} if thinks else {})}, ()
        case _:
            return EMPTY, (f"effort {effort} was left out: it is not known how {model} takes it",)


def _openai_effort(
    model: str, effort: Effort | None, *, with_tools: bool
) -> tuple[Mapping[str, object], tuple[str, ...]]:
    """OpenAI's `reasoning_effort`. From GPT-5.5 on this endpoint takes tools only with the effort none, said aloud."""
    version = gpt_version(model.rpartition("/")[2])
    if with_tools and version >= (5, 4):
        if version >= (5, 5) or effort is not None:
            note = f"{model} does not reason here: Chat Completions takes tools only without reasoning"
            return {"reasoning_effort": "none"}, (note,) if effort not in (None, "none") else ()
        return EMPTY, ()
    if effort is None:
        return EMPTY, ()
    if accepted := efforts_of(model):
        return _nearest(model, effort, accepted)
    return EMPTY, (f"{model} does not reason: effort {effort} was left out",) if effort != "none" else ()


def _nearest(model: str, effort: Effort, accepted: Sequence[Effort]) -> tuple[Mapping[str, object], tuple[str, ...]]:
    best, notes = nearest(model, effort, accepted)
    return {"reasoning_effort": best}, notes


# ---------------------------------------------------------------------------------------------------------------------
# Model and provider


class ChatModel(WireModel):
    """One model behind a Chat Completions endpoint."""

    def __init__(self, provider: "ChatProvider", model_id: str) -> None:
        super().__init__(provider, model_id, listed_as=provider.name)
        self._provider = provider

    def weigh(self, request: Request) -> int:
        """An upper bound of the input's tokens: its bytes, with an image as 8,000 and a page of a PDF as 10,000."""
        scroll = self._provider.scrolls.unroll(request)
        return _OVERHEAD + scroll.weight()

    def prepare(self, request: Request) -> Call:
        """The request as it goes out, and what will read its answer. No network."""
        quirks = self._provider.row.quirks
        origin = self._provider.origin(self._id)
        scroll = self._provider.scrolls.unroll(request)
        effort, notes = effort_members(self._id, quirks.effort, request.effort, with_tools=bool(request.tools))
        members: dict[str, object] = {"model": self._id, "stream": True}
        if quirks.stream_usage:
            members["stream_options"] = {"include_usage": True}
        limit, clamped = output_limit(self._id, self._limits, request.max_output)
        if limit:
            members[quirks.max_tokens] = limit
        members |= {**effort, **quirks.body}
        if quirks.cache_key:
            members["prompt_cache_key"] = cache_key(request.conversation)
        members |= {name: value for name, value in request.options.items() if name != "tools"}
        body = scroll.write(b"]," + wire_bytes(members)[1:], _OVERHEAD)
        parameters = {
            name: value for name, value in members.items() if name not in ("model", "stream", "stream_options")
        }
        headers = {**self._provider.headers(), "content-type": "application/json", "accept": "text/event-stream"}
        return Call(
            f"{self._provider.url}/chat/completions",
            headers,
            body,
            Witness(body.sha256, body.size, self._id, frozen(parameters)),
            ChatDraft(origin, self._provider.scrolls.family),
            origin,
            self._provider.timeouts,
            (*clamped, *notes),
        )


class ChatProvider(OpenAIEndpoint):
    """A provider of the Chat Completions family, as its row describes it. Its models share its connections."""

    row_name: ClassVar[str] = "openai-compatible"

    def __init__(
        self,
        row: Row,
        access: Access,
        *,
        transport: Transport | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        super().__init__(row, access, transport=transport, timeouts=timeouts)
        self.scrolls = Scrolls(ChatDialect(f"chat:{row.name}", f"{row.name}/", row.quirks))

    def model(self, model_id: str) -> ChatModel:
        """A model by id; any id is accepted."""
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
    """Any other compatible server: OPENAI_COMPATIBLE_BASE_URL, and OPENAI_COMPATIBLE_API_KEY where it wants a key."""

    row_name = "openai-compatible"
