"""Anthropic Messages: encodes requests, decodes events, maps errors. Also for compatible services.

The wire is that of `anthropic-version: 2023-06-01`, which compatible services follow too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import ClassVar, assert_never
from urllib.parse import quote

from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, JsonObject, as_array, as_object, as_str, wire_bytes
from sagent.messages import Document, Image, Message, Opaque, Text, Thinking, ToolCall
from sagent.model import EFFORTS, Effort, ModelInfo, Request
from sagent.providers.families.anthropic.events import CONTAINER, MessagesReplyReader
from sagent.providers.families.caching import MARKS, CacheLife, cache_life
from sagent.providers.families.endpoint import Endpoint
from sagent.providers.families.media import IMAGES, base64_text, media_tokens, stand_in
from sagent.providers.families.model import Counted, Outgoing, WireModel, nearest
from sagent.providers.handover import CallResult, ModelPart, ModelTurn, Rules, Shown, UserTurn
from sagent.providers.limits import model_info, output_limit, usual_output
from sagent.providers.toolforms import ANTHROPIC, ToolForm
from sagent.providers.wire.encoding import Dialect, EncodedConversation, body_start, sendable

VERSION = "2023-06-01"
_UNKNOWN_OUTPUT = 8_192  # max_tokens of an unknown model, by default
_IMAGE_TOKENS = 5_000  # a largest possible image, 2576 px on the long edge, counts 4,784 (vision guide)
_PAGE_TOKENS = 5_000  # a PDF page counts as its text, up to 3,000, and as an image (PDF guide)
_OVERHEAD_TOKENS = 1_000  # the system prompt that the API adds for tools, and the framing of messages
_NO_MEMBERS = ("tools", "betas", "cache_control")  # options that go elsewhere
_THOUGHT = b'{"role":"assistant","content":[{"type":"thinking"'
_REDACTED = b'{"role":"assistant","content":[{"type":"redacted_thinking"'


@dataclass(frozen=True, slots=True)
class MessagesDialect(Dialect):
    """Encoding of turns for the Messages API; `family` labels private data."""

    family: str = "anthropic"
    life: CacheLife = "5m"

    @property
    def rules(self) -> Rules:
        """Ids match ^[a-zA-Z0-9_-]+$, 64 characters at most."""
        return Rules(self.family)

    @property
    def tool_form(self) -> ToolForm:
        return ANTHROPIC

    def head(self, request: Request) -> bytes:
        """Tools and system prompt, each with a cache breakpoint at its end."""
        tools: list[object] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            | ({"defer_loading": True} if tool.deferred else {})
            for tool in request.tools
        ]
        tools += as_array(request.options.get("tools"))
        system = [{"type": "text", "text": request.system}] if request.system.strip() else []
        return body_start({"tools": self._marked(tools), "system": self._marked(system)}, "messages")

    def said(self, turn: ModelTurn) -> Sequence[object]:
        said = [_said_block(part) for part in turn.parts]
        return [{"role": "assistant", "content": [block for block in said if block.get("type") != CONTAINER]}]

    def shown(self, turn: UserTurn) -> Sequence[object]:
        return [{"role": "user", "content": [*map(_answer_block, turn.answers), *map(_shown_block, turn.parts)]}]

    def media_tokens(self, part: Shown) -> int:
        return media_tokens(part, _IMAGE_TOKENS, _PAGE_TOKENS)

    def mark(self, data: bytes) -> bytes:
        """Add a cache breakpoint to the last block."""
        return data[:-3] + b',"cache_control":' + wire_bytes(MARKS[self.life]) + data[-3:]

    def _marked(self, blocks: Sequence[object]) -> Sequence[object]:
        last = ({**as_object(block), "cache_control": MARKS[self.life]} for block in blocks[-1:])
        return [*blocks[:-1], *last]


def _said_block(part: ModelPart) -> Mapping[str, object]:
    match part:
        case Text(text, private):
            return {"type": "text", "text": text, **(as_object(private.data) if private else {})}
        case Thinking(text, private):
            data = as_object(private.data) if private else EMPTY
            return data if data.get("type") == "redacted_thinking" else {"type": "thinking", "thinking": text, **data}
        case ToolCall(call_id, name, arguments, _, private):
            block = {"type": "tool_use", "id": call_id, "name": name, "input": sendable(arguments)}
            return {**block, **as_object(private.data)} if private else block
        case Opaque(_, private):
            return as_object(private.data)
        case _:
            assert_never(part)


def _answer_block(answer: CallResult) -> object:
    block: dict[str, object] = {"type": "tool_result", "tool_use_id": answer.call_id}
    match answer.content:
        case [Text(text)]:
            block["content"] = text
        case content:
            block["content"] = [_shown_block(part) for part in content]
    if answer.is_error:
        block["is_error"] = True
    return block


def _shown_block(part: Shown) -> object:
    match part:
        case Text(text, _):
            return {"type": "text", "text": text}
        case Image(media_type, data) if media_type in IMAGES and data:
            return {"type": "image", "source": _source(media_type, data)}
        case Document("application/pdf", data, name) if data:
            return {"type": "document", "source": _source("application/pdf", data), **({"title": name} if name else {})}
        case Document(media_type, data, name) if media_type.startswith("text/") and data.strip():
            source = {"type": "text", "media_type": "text/plain", "data": data.decode("utf-8", "replace")}
            return {"type": "document", "source": source, **({"title": name} if name else {})}
        case Image() | Document():
            return {"type": "text", "text": stand_in(part)}
        case _:
            assert_never(part)


def _source(media_type: str, data: bytes) -> object:
    return {"type": "base64", "media_type": media_type, "data": base64_text(data)}


@dataclass(frozen=True, slots=True)
class ThinkingParameters:
    """Body members and beta features for an effort, and notes about unsupported ones."""

    members: Mapping[str, object] = field(default_factory=dict[str, object])
    betas: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


_BUDGETS = dict(zip(EFFORTS[1:], (1_024, 4_096, 10_000, 20_000, 32_000, 48_000), strict=True))
# Since 5.1 a thinking block is bound to the conversation before it, and a request that edits that conversation (by
# compaction, say) is refused unless it asks for such blocks to be dropped (platform.claude.com, preserved thinking).
_BINDING_BETA = "thinking-binding-controls-2026-08-01"
_BINDING = {"prefix_mismatch_behavior": "drop_block"}


def generation(model: str) -> tuple[str, tuple[int, int]]:
    """Family and version of a Claude model's id, by its numbers; ("", (0, 0)) for any other model.

    "claude-sonnet-4-5-20250929" is ("sonnet", (4, 5)), "claude-3-7-sonnet-latest" is ("sonnet", (3, 7)).
    """
    words = model.lower().rpartition("/")[2].replace(".", "-").replace("@", "-").split("-")
    if "claude" not in words:
        return "", (0, 0)
    words = words[words.index("claude") + 1 :]
    numbers = [int(word) for word in words if word.isdecimal() and len(word) < 3]
    family = next((word for word in words if word in ("opus", "sonnet", "haiku", "fable", "mythos")), "claude")
    if not numbers:
        return family, (5, 0) if family in ("fable", "mythos") else (0, 0)
    return family, (numbers[0], numbers[1] if len(numbers) > 1 else 0)


def thinking_parameters(model: str, effort: Effort | None, max_tokens: int) -> ThinkingParameters:
    """Translate an effort into the thinking parameters of a model; no other function does this.

    By platform.claude.com's guides (thinking, effort, migration, as of 2026-11): before 3.7 no thinking; before 4.6 a
    budget; from 4.6 adaptive thinking and `output_config.effort`; Fable, Mythos and Opus 5.5 cannot stop thinking,
    Sonnet 5.5 only between tools, and Opus 5, Sonnet 5 and Haiku 5.5 can.
    """
    family, version = generation(model)
    binding = version >= (5, 1)
    if effort is None and not binding:
        return ThinkingParameters()
    if family and version >= (4, 6):
        return _adaptive(model, family, version, effort, binding=binding)
    if family and version < (3, 7):
        wanted = effort not in (None, "none")
        return ThinkingParameters(notes=(f"{model} cannot think: effort {effort} was left out",) if wanted else ())
    if effort in (None, "none"):
        return ThinkingParameters({"thinking": {"type": "disabled"}} if not family else {})
    budget = min(_BUDGETS[effort], max_tokens * 3 // 4)
    if budget < 1_024:
        return ThinkingParameters(notes=(f"no thinking: {max_tokens} tokens of output leave no room for it",))
    clamped = f"thinking is limited to {budget} tokens by the output limit of {max_tokens}"
    return ThinkingParameters(
        {"thinking": {"type": "enabled", "budget_tokens": budget}},
        notes=(clamped,) if budget < _BUDGETS[effort] else (),
    )


def _adaptive(
    model: str, family: str, version: tuple[int, int], effort: Effort | None, *, binding: bool
) -> ThinkingParameters:
    always = family in ("fable", "mythos") or (family == "opus" and version >= (5, 5))
    if effort == "none" and not always:
        if version < (5, 0):
            return ThinkingParameters()  # off by default
        off = "between_tools" if family == "sonnet" and version >= (5, 5) else "disabled"
        return ThinkingParameters({"thinking": {"type": off}})
    bound = {"block_binding": _BINDING} if binding else {}
    members: dict[str, object] = {"thinking": {"type": "adaptive", "display": "summarized", **bound}}
    notes: tuple[str, ...] = ()
    if effort is not None:
        level, notes = nearest(model, effort, levels(version))
        members["output_config"] = {"effort": level}
    return ThinkingParameters(members, (_BINDING_BETA,) if binding else (), notes)


def levels(version: tuple[int, int]) -> Sequence[Effort]:
    """Return the levels that models with adaptive thinking take."""
    return ("low", "medium", "high", "xhigh", "max") if version >= (4, 7) else ("low", "medium", "high", "max")


@dataclass(frozen=True, slots=True)
class CloudRoute:
    """A cloud's way to take a message: its path, and the `anthropic_version` that replaces the model in the body.

    "{project}" and "{region}" in the path are the transport's to fill in. (docs.aws.amazon.com, InvokeModel;
    cloud.google.com, Claude on Vertex AI)
    """

    path: str = ""
    version: str = ""
    betas: bool = False  # beta features are named in the body
    streams: bool = True  # the body requests a stream

    def members(self, model: str, betas: Sequence[str]) -> Mapping[str, object]:
        """Return the first members after the messages."""
        held: dict[str, object] = {"anthropic_version": self.version} if self.version else {"model": model}
        if self.streams:
            held["stream"] = True
        if self.betas and betas:
            held["anthropic_beta"] = betas
        return held

    def url(self, base_url: str, model: str) -> str:
        """Return the URL to post to; without a base URL, a path below the transport's own."""
        if not self.path:
            return messages_url(base_url)
        return base_url + self.path.replace("{model}", quote(model, safe=":@"))


class AnthropicModel(WireModel["Anthropic"]):
    """One model of the Messages API."""

    overhead, reader = _OVERHEAD_TOKENS, MessagesReplyReader
    search: ClassVar[Mapping[str, str]] = {  # platform.claude.com, tool search tool
        "type": "tool_search_tool_bm25_20251119",
        "name": "tool_search_tool_bm25",
    }

    def __init__(self, provider: "Anthropic", model_id: str) -> None:
        plain = model_id[max(0, model_id.find("claude")) :].replace("@", "-")  # without what clouds put around it
        super().__init__(provider, model_id, listed_as="anthropic", known_as=plain)

    def _prepare(self, request: Request) -> Outgoing:
        provider = self._provider
        max_tokens, notes = self._max_tokens(request)
        thought, betas = self._thought(request, max_tokens)
        members: dict[str, object] = {
            **provider.site.members(self.id, betas),
            "max_tokens": max_tokens,
            **thought.members,
            **{name: value for name, value in request.options.items() if name not in _NO_MEMBERS},
        }
        if "tools" in request.options and (container := _container(request.messages, provider.label)):
            given = members.setdefault("container", container)
            if asked := as_object(given):  # skills
                members["container"] = {**asked, "id": container}
        if schema := self._format(request):
            form = {"type": "json_schema", "schema": schema}
            members["output_config"] = {**as_object(members.get("output_config")), "format": form}
        return Outgoing(
            provider.site.url(provider.access.base_url, self.id),
            members,
            (*notes, *thought.notes),
            members["max_tokens"],
            {"anthropic-beta": ",".join(betas)} if betas else {},
            {"cache_control": request.options["cache_control"]} if cache_life(request.options) == "1h" else EMPTY,
        )

    def _marks(self, request: Request) -> bool:
        return True

    def _dialect(self, request: Request) -> MessagesDialect:
        return MessagesDialect(self._provider.label, cache_life(request.options))

    def _thought(self, request: Request, max_tokens: int) -> tuple[ThinkingParameters, Sequence[str]]:
        """Return the thinking parameters of a request and its beta features."""
        thought = thinking_parameters(self._known, request.effort, max_tokens)
        budget = "budget_tokens" in as_object(thought.members.get("thinking"))
        if budget and not _may_think(self._conversation(request)):
            thought = ThinkingParameters(notes=("no thinking in this step: another model began it",))
        betas = dict.fromkeys([*thought.betas, *map(str, as_array(request.options.get("betas")))])
        return thought, list(betas)

    def _counting(self, request: Request) -> Counted | None:
        """Count by platform.claude.com, token counting: thinking counts; it has no member for output limits."""
        if self._provider.site.path:
            return None
        thought, betas = self._thought(request, self._max_tokens(request)[0])
        body = self._conversation(request).write({"model": self.id, **thought.members}, 0)
        headers = {"anthropic-beta": ",".join(betas)} if betas else {}
        return f"{messages_url(self._provider.access.base_url)}/count_tokens", headers, body.parts, "input_tokens"

    def _format(self, request: Request) -> JsonObject | None:
        """Return the schema as it goes out (platform.claude.com, structured outputs: all models from 4.5 on)."""
        if request.output_schema is None or generation(self._known)[1] < (4, 5):
            return None
        from sagent.providers.families.schemas import ANTHROPIC, fit_schema

        return fit_schema(request.output_schema, ANTHROPIC)

    def _max_tokens(self, request: Request) -> tuple[int, tuple[str, ...]]:
        limit, notes = output_limit(self.id, self._limits, request.max_output, usual_output(request.effort))
        return limit or _UNKNOWN_OUTPUT, notes


def _container(messages: Sequence[Message], label: str) -> str:
    """Return the container in which code of the provider's tools waits in the current turn; "" if there is none."""
    for message in (each for each in reversed(messages) if each.role == "assistant"):
        if message.stop not in ("tool_use", "pause"):
            break
        own = (part.private.data for part in message.parts if isinstance(part, Opaque) and part.private.family == label)
        for data in map(as_object, own):
            if data.get("type") == CONTAINER:
                return as_str(data.get("id"))
    return ""


def _may_think(conversation: EncodedConversation) -> bool:
    """Return True if a thinking budget is allowed: a step after tool results must have begun with thinking."""
    before, turn = conversation.ends()
    return not (isinstance(turn, UserTurn) and turn.answers) or before.startswith((_THOUGHT, _REDACTED))


class Anthropic(Endpoint):
    """Anthropic, or a service or cloud that offers its Messages API. Its models share its connections."""

    row_name: ClassVar[str] = "anthropic"
    _key_header = "x-api-key"
    site: ClassVar[CloudRoute] = CloudRoute()

    def _set_up(self) -> None:
        self.label = "anthropic" if self.name == "anthropic" else f"anthropic:{self.name}"

    def model(self, model_id: str) -> AnthropicModel:
        return AnthropicModel(self, model_id)

    async def models(self) -> Sequence[ModelInfo]:
        """Return the API's own list of models. Raises ModelError."""
        listing = messages_url(self.access.base_url).removesuffix("/messages") + "/models?limit=1000"
        names = ("display_name", "max_input_tokens", "max_tokens")
        listed = map(as_object, as_array(as_object(await self.fetch(listing)).get("data")))
        return tuple(model_info("anthropic", as_str(entry.get("id")), entry, names) for entry in listed)

    def headers(self) -> dict[str, str]:
        return {"anthropic-version": VERSION, **super().headers()}


def messages_url(base_url: str) -> str:
    """Return the URL to post to, from a base URL with or without /v1."""
    base = base_url.rstrip("/").removesuffix("/messages").removesuffix("/v1")
    return f"{base}/v1/messages"
