"""OpenAI Responses: encodes requests. Nothing is stored at the provider, so everything is sent again."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, assert_never
from urllib.parse import urlsplit

from sagent.cost.prices import STANDARD
from sagent.errors import ModelError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, as_array, as_object, as_str, json_dump, json_load
from sagent.messages import Document, Image, Opaque, Text, Thinking, ToolCall
from sagent.model import Effort, Request
from sagent.providers.families.media import IMAGES, data_url, error_text, in_words, media_tokens
from sagent.providers.families.model import Counted, Outgoing, WireModel, nearest
from sagent.providers.families.openai_endpoint import OpenAIEndpoint
from sagent.providers.families.openai_models import (
    IMAGE_TOKENS,
    PAGE_TOKENS,
    cache_key,
    efforts_of,
    image_detail,
    is_openais,
)
from sagent.providers.families.responses.events import CLIENT_CALLS, MAX_ID_CHARS, ResponsesReplyReader
from sagent.providers.families.schemas import OPENAI, Form, openai_form, openai_holds
from sagent.providers.handover import PAUSED, CallResult, ModelPart, ModelTurn, Rules, Shown, UserTurn
from sagent.providers.limits import output_limit
from sagent.providers.toolforms import OPENAI as OPENAI_TOOLS
from sagent.providers.toolforms import ToolForm
from sagent.providers.wire.encoding import Dialect, body_start

_OVERHEAD_TOKENS = 700  # tokens: what frames messages and tools, and the members after the input
_MIN_OUTPUT_TOKENS = 16  # max_output_tokens below it are refused
_ENCRYPTED = "reasoning.encrypted_content"
_UNREAD = "reasoning kept in this conversation was left out: the provider could not decrypt it"


@dataclass(frozen=True, slots=True)
class ResponsesDialect(Dialect):
    """Encoding of turns for the Responses API. `own` is the prefix of the `model` of the provider's own messages.

    `reasoning` is sent only to models that reason.
    """

    family: str
    own: str
    reasoning: bool = True

    @property
    def rules(self) -> Rules:
        """Return the handover rules: a provider gets its own ids back."""
        return Rules(self.family, MAX_ID_CHARS, self.own)

    @property
    def tool_form(self) -> ToolForm:
        return OPENAI_TOOLS

    def head(self, request: Request) -> bytes:
        """Return tools and instructions, in the order in which a cached prefix grows."""
        tools: list[object] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": False,
            }
            | ({"defer_loading": True} if tool.deferred else {})
            for tool in request.tools
        ]
        tools += as_array(request.options.get("tools"))
        return body_start({"tools": tools, "instructions": request.system if request.system.strip() else ""}, "input")

    def said(self, turn: ModelTurn) -> Sequence[object]:
        thought = any(isinstance(part, Thinking) for part in turn.parts)
        return _model_items(turn if self.reasoning or not thought else _unreasoned(turn))

    def shown(self, turn: UserTurn) -> Sequence[object]:
        inputs = [_answer_item(answer) for answer in turn.answers]
        return [*inputs, {"role": "user", "content": _content(turn.parts)}] if turn.parts else inputs

    def media_tokens(self, part: Shown) -> int:
        sent = not isinstance(part, Text) and _block(part)["type"] != "input_text"
        return media_tokens(part, IMAGE_TOKENS, PAGE_TOKENS) if sent else 0


def _unreasoned(turn: ModelTurn) -> ModelTurn:
    """Return a turn without its reasoning, and without ids, because an item may refer to missing reasoning by id."""
    return ModelTurn(
        tuple(
            part if isinstance(part, Opaque) else replace(part, private=None)
            for part in turn.parts
            if not isinstance(part, Thinking)
        )
    )


def _model_items(turn: ModelTurn) -> Sequence[Mapping[str, object]]:
    """Encode a model's turn as its original items. A reasoning item must be followed by its result."""
    answered = {as_str(data.get("call_id")) for part in turn.parts if (data := _output(part))}
    items: list[Mapping[str, object]] = []
    open_message = ""  # the id of the message that the next text may still belong to
    for part in turn.parts:
        message_id = ""
        match part:
            case Text(text, private):
                data = as_object(private.data) if private else EMPTY
                message_id = as_str(data.get("id"))
                if message_id and message_id == open_message:
                    items[-1] = {**items[-1], "content": [*as_array(items[-1].get("content")), _said(text, data)]}
                else:
                    items.append(_message_item(text, data))
            case Thinking():
                items.append(_data(part))
            case ToolCall():
                items.append(_call_item(part))
            case Opaque():
                data = _data(part)
                if data.get("type") not in CLIENT_CALLS or as_str(data.get("call_id")) in answered:
                    items.append(data)
            case _:
                assert_never(part)
        open_message = message_id
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    return items or [{"role": "assistant", "content": PAUSED}]


def _message_item(text: str, data: Mapping[str, object]) -> Mapping[str, object]:
    """Return the provider's own message unchanged; any other as plain text."""
    if not data:
        return {"role": "assistant", "content": text}
    item: dict[str, object] = {"type": "message", "role": "assistant", "content": [_said(text, data)]}
    item |= {name: data[name] for name in ("id", "phase") if name in data}
    item["status"] = data.get("status", "completed")
    return item


def _said(text: str, data: Mapping[str, object]) -> Mapping[str, object]:
    if data.get("refusal"):
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": data.get("annotations", ())}


def _call_item(part: ToolCall) -> Mapping[str, object]:
    data = _data(part)
    item: dict[str, object] = {"type": "function_call", "call_id": part.id, "name": part.name}
    item["arguments"] = _arguments(part, as_str(data.get("arguments")))
    item |= {name: value for name, value in data.items() if name != "arguments"}
    return item


def _arguments(part: ToolCall, raw: str) -> str:
    """Return the arguments as the model wrote them, unless the call was changed since."""
    try:
        return raw if raw and json_load(raw) == part.arguments else json_dump(part.arguments)
    except (ValueError, TypeError, RecursionError):  # JSON cannot say them (an infinite number)
        return "{}"


def _answer_item(answer: CallResult) -> Mapping[str, object]:
    """Return a result: text alone as a string, else as a list of parts. Errors are part of the text."""
    texts = [part.text for part in answer.content if isinstance(part, Text)]
    first = answer.content[0].text if isinstance(answer.content[0], Text) else ""
    is_readable = answer.is_error and error_text(first) != first
    if len(texts) == len(answer.content):
        output: object = error_text("\n".join(texts)) if is_readable else "\n".join(texts)
    else:
        output = [*([{"type": "input_text", "text": "Error:"}] if is_readable else ()), *map(_block, answer.content)]
    return {"type": "function_call_output", "call_id": answer.call_id, "output": output}


def _content(parts: Sequence[Shown]) -> object:
    """Return a message's content: a single text as a string, anything else as a list of parts."""
    blocks = [_block(part) for part in parts]
    return blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "input_text" else blocks


def _block(part: Shown) -> Mapping[str, object]:
    match part:
        case Text(text, _):
            return {"type": "input_text", "text": text}
        case Image(media_type, data) as image if data and media_type in IMAGES:
            return {"type": "input_image", "detail": image_detail(image), "image_url": data_url(media_type, data)}
        case Document("application/pdf", data, name) if data:
            file = {"filename": name or "document.pdf", "file_data": data_url("application/pdf", data)}
            return {"type": "input_file", **file}
        case Image() | Document():
            return {"type": "input_text", "text": in_words(part)}
        case _:
            assert_never(part)


def _data(part: Thinking | ToolCall | Opaque) -> Mapping[str, object]:
    return as_object(part.private.data) if part.private else EMPTY


def _output(part: ModelPart) -> Mapping[str, object]:
    """Return a server tool's output; an empty object for any other part."""
    data = _data(part) if isinstance(part, Opaque) else EMPTY
    return data if as_str(data.get("type")).endswith("_output") else EMPTY


class ResponsesModel(WireModel["ResponsesProvider"]):
    """One model of a Responses endpoint."""

    overhead, reader = _OVERHEAD_TOKENS, ResponsesReplyReader
    search: ClassVar[Mapping[str, str]] = {"type": "tool_search"}  # platform.openai.com, tool search

    def __init__(self, provider: "ResponsesProvider", model_id: str) -> None:
        super().__init__(provider, model_id)
        self._limits = replace(self._limits, least_output=_MIN_OUTPUT_TOKENS)

    def _prepare(self, request: Request) -> Outgoing:
        provider = self._provider
        limit, clamped = self._limit(request)
        thinking, notes = self._reasoning(request)
        members: dict[str, object] = {"model": self.id, "stream": True, "store": False}
        if limit:
            members["max_output_tokens"] = limit
        if request.capped and provider.name in STANDARD:  # else a project's settings choose, and "priority" is dearer
            members["service_tier"] = "default"
        members |= {**thinking, "prompt_cache_key": cache_key(request.conversation)}
        members |= {name: value for name, value in request.options.items() if name != "tools"}
        if form := self._format(request):
            members["text"] = {**as_object(members.get("text")), "format": form}
        included = [*as_array(thinking.get("include")), *as_array(request.options.get("include"))]
        if included:
            members["include"] = list(dict.fromkeys(included))
        return Outgoing(
            f"{provider.url}/responses",
            members,
            (*clamped, *notes, *([_UNREAD] if request.conversation in provider.strangers else ())),
            members.get("max_output_tokens"),
        )

    def _counting(self, request: Request) -> Counted | None:
        """Count by platform.openai.com, input token counts."""
        text = {"text": {"format": form}} if (form := self._format(request)) else {}
        body = self._conversation(request).write({"model": self.id, **text}, 0)
        return f"{self._provider.url}/responses/input_tokens", {}, body.parts, "input_tokens"

    def _dialect(self, request: Request) -> ResponsesDialect:
        name = self.provider
        if request.conversation in self._provider.strangers:
            return ResponsesDialect("nobody's", f"{name}/")  # without private data
        return ResponsesDialect(f"responses:{name}", f"{name}/", reasoning=bool(self._efforts))

    def _heard(self) -> None:
        self._provider.proven = True

    def _learn(self, error: ModelError, request: Request) -> bool:
        """Learn from an error that reasoning encrypted for another organisation is unreadable, or that summaries need a
        verified organisation."""
        provider, words = self._provider, str(error).lower()
        if error.kind in ("invalid_request", "permission", "auth"):
            if "encrypted content" in words and "not supported" not in words:
                known = request.conversation in provider.strangers
                provider.strangers.add(request.conversation)
                return not known
            if "summar" in words and "verified" in words and provider.summaries:
                provider.summaries = False
                return True
        if hint := provider.hint(error):
            raise provider.origin(self.id).error(error.kind, hint, status=error.status) from error
        return False

    def _format(self, request: Request) -> Mapping[str, object] | None:
        """Return the value of `text.format`: for models from GPT-4o on, if strict mode can express the schema."""
        if request.output_schema is None or not (self._able.structured or openai_holds(self._known)):
            return None
        form = openai_form(request.output_schema, self._provider.schemas)
        return {"type": "json_schema", **form} if form else None

    def _limit(self, request: Request) -> tuple[int | None, tuple[str, ...]]:
        limit, notes = output_limit(self.id, self._limits, request.max_output)
        if limit and limit < _MIN_OUTPUT_TOKENS:
            return _MIN_OUTPUT_TOKENS, (
                f"the least output that can be asked for is {_MIN_OUTPUT_TOKENS} tokens, not {limit}",
            )
        return limit, notes

    @property
    def _efforts(self) -> Sequence[Effort]:
        """Return the accepted efforts; none if it does not reason."""
        return efforts_of(self._known) if self._able.efforts is None else self._able.efforts

    def _reasoning(self, request: Request) -> tuple[Mapping[str, object], tuple[str, ...]]:
        """Return the members about reasoning, which only reasoning models accept."""
        accepted, effort = self._efforts, request.effort
        if not accepted:
            if effort in (None, "none"):
                return EMPTY, ()
            if is_openais(self._known):
                return EMPTY, (f"{self.id} does not reason: effort {effort} was left out",)
            remedy = f"if it does, say so in [providers.{self.provider}] abilities"
            return EMPTY, (f"effort {effort} was left out: it is not known whether {self.id} reasons; {remedy}",)
        members: dict[str, object] = {}
        notes: tuple[str, ...] = ()
        if effort is not None:
            members["effort"], notes = nearest(self.id, effort, accepted)
        if self._provider.summaries and members.get("effort") != "none":
            members["summary"] = "auto"
        return {**({"reasoning": members} if members else {}), "include": [_ENCRYPTED]}, notes


class ResponsesProvider(OpenAIEndpoint):
    """A provider of the Responses family, as its row describes it."""

    row_name: ClassVar[str] = "openai"
    schemas: ClassVar[Form] = OPENAI
    """The form of JSON Schema for structured answers."""

    def _set_up(self) -> None:
        super()._set_up()
        self.summaries = True  # until this account is refused them
        self.proven = False  # the endpoint has answered
        self.strangers: set[str] = set()  # conversations whose reasoning this account cannot read

    def model(self, model_id: str) -> ResponsesModel:
        return ResponsesModel(self, model_id)

    def hint(self, error: ModelError) -> str:
        """Return the likely cause of an error if an address of the user's own lacks the path; "" otherwise."""
        words = str(error.args[0])
        foreign = urlsplit(self.access.base_url).hostname not in (None, "api.openai.com")
        if self.proven or not foreign or error.status not in (404, 405) or "model" in words.lower():
            return ""
        return (
            f"{words.rstrip('.')}. {self.url}/responses does not exist. Perhaps this "
            "server only supports Chat Completions: use --provider openai-compatible."
        )


class OpenAI(ResponsesProvider):
    """OpenAI: OPENAI_API_KEY, OPENAI_BASE_URL."""

    row_name = "openai"
