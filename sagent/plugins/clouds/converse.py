"""Bedrock's Converse: requests out, for models of any maker. The transport signs them, and unpacks the event stream."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, TypeAlias, assert_never
from urllib.parse import quote

from sagent.cost.prices import PriceBook
from sagent.errors import ModelError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, JsonObject, as_array, as_object, as_str
from sagent.messages import Document, Image, Opaque, Text, Thinking, ToolCall
from sagent.model import Effort, ModelInfo, Request, ToolSpec
from sagent.plugins.clouds.converse_events import ConverseReplyReader
from sagent.providers.families.endpoint import Endpoint
from sagent.providers.families.media import IMAGES, base64_text, error_text, in_words, media_tokens
from sagent.providers.families.model import Outgoing, WireModel, nearest
from sagent.providers.handover import CallResult, ModelPart, ModelTurn, Rules, Shown, UserTurn, safe_name
from sagent.providers.limits import model_info, output_limit, usual_output
from sagent.providers.toolforms import ToolForm
from sagent.providers.wire.encoding import Dialect, body_start, sendable

_TOOLS = ToolForm(refs=False)  # docs.aws.amazon.com, Nova: type, properties and required alone at the top
_IMAGE_TOKENS = 8_000  # Nova counts at most 2,600, other models up to OpenAI's maximum
_PAGE_TOKENS = 10_000
_OVERHEAD_TOKENS = 1_000  # for frames of messages and tools, and the service's own text about tools
_AREAS = ("us", "us-gov", "eu", "apac", "jp", "au", "ca", "global")
"""Areas that begin the ids of inference profiles."""
_SAMPLING = {
    **{name: name for name in ("temperature", "topP", "stopSequences")},
    "top_p": "topP",
    "stop_sequences": "stopSequences",
}
"""Options that belong into `inferenceConfig`, by their names here and elsewhere."""
_DOCUMENTS = {
    "application/pdf": "pdf",
    "application/msword": "doc",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
}
_CACHE_POINT = {"cachePoint": {"type": "default"}}
_REFUSALS = {
    "stream": r"streaming mode|support (response )?streaming|streaming is not supported",
    "media": r"(image|document|video|multimodal)[^.]*(n't|not) (supported|support)|n't support[^.]*(image|document)",
    "marks": r"cache ?point|prompt caching",
}
"""Patterns of errors about features that can be left out, by feature: tools in a stream (Llama), media, cache marks."""


@dataclass(frozen=True, slots=True)
class ConverseDialect(Dialect):
    """Encoding of turns for Converse. `family` labels private data, which only one maker's models can read. With
    `media`, images and documents are sent. With `marks`, cache points are set."""

    family: str = "converse"
    media: bool = True
    marks: bool = False

    @property
    def rules(self) -> Rules:
        return Rules(self.family)

    @property
    def tool_form(self) -> ToolForm:
        return _TOOLS

    def head(self, request: Request) -> bytes:
        """Tools and system prompt. Tools are not marked: Nova refuses that (docs.aws.amazon.com, prompt caching)."""
        tools: list[object] = [{"toolSpec": _spec(tool)} for tool in request.tools]
        tools += as_array(request.options.get("tools"))
        system: list[object] = [{"text": request.system}] if request.system.strip() else []
        if system and self.marks:
            system.append(_CACHE_POINT)
        return body_start({"toolConfig": {"tools": tools} if tools else None, "system": system}, "messages")

    def said(self, turn: ModelTurn) -> Sequence[object]:
        return [{"role": "assistant", "content": [_said_block(part) for part in turn.parts]}]

    def shown(self, turn: UserTurn) -> Sequence[object]:
        blocks: list[object] = [{"toolResult": self._result(answer)} for answer in turn.answers]
        seed = "\0".join(part.text for part in turn.parts if isinstance(part, Text))
        blocks += [self._block(part, f"{seed}{number}") for number, part in enumerate(turn.parts)]
        documents = any("document" in as_object(block) for block in blocks)
        if documents and not seed:  # a document must not be sent alone
            blocks.append({"text": "(see the document)"})
        return [{"role": "user", "content": blocks}]

    def media_tokens(self, part: Shown) -> int:
        return media_tokens(part, _IMAGE_TOKENS, _PAGE_TOKENS) if self.media else 0

    def mark(self, data: bytes) -> bytes | None:
        return data[:-2] + b',{"cachePoint":{"type":"default"}}]}' if self.marks else None

    def _result(self, answer: CallResult) -> object:
        """Return a result. Only Claude and Nova accept its `status`, so the text also says that it is an error."""
        content = [self._block(part, f"{answer.call_id}{number}") for number, part in enumerate(answer.content)]
        if answer.is_error and isinstance(first := answer.content[0], Text):
            content[0] = {"text": error_text(first.text)}
        return {"toolUseId": answer.call_id, "content": content}

    def _block(self, part: Shown, seed: str) -> object:
        match part:
            case Image(media_type, data) if self.media and media_type in IMAGES and data:
                source = {"bytes": base64_text(data)}
                return {"image": {"format": media_type.removeprefix("image/"), "source": source}}
            case Document(media_type, data, name) if self.media and media_type in _DOCUMENTS and data:
                source = {"bytes": base64_text(data)}
                return {
                    "document": {"format": _DOCUMENTS[media_type], "name": _document_name(name, seed), "source": source}
                }
            case Text() | Image() | Document():
                return {"text": in_words(part)}
            case _:
                assert_never(part)


def _spec(tool: ToolSpec) -> object:
    described = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **described, "inputSchema": {"json": tool.parameters}}


def _document_name(name: str, seed: str) -> str:
    """Return a name in the form that the service accepts, unique in the conversation."""
    stem = re.sub(r"[^A-Za-z0-9()\[\]-]+", " ", name.rpartition(".")[0] or name)[:150].strip() or "document"
    return f"{stem} {hashlib.sha256(seed.encode('utf-8', 'replace')).hexdigest()[:10]}"


def _said_block(part: ModelPart) -> object:
    match part:
        case Text(text):
            return {"text": text}
        case Thinking(text, private):  # unsigned reasoning is refused by the very models that wrote it
            data = as_object(private.data) if private else EMPTY
            return {
                "reasoningContent": data if "redactedContent" in data else {"reasoningText": {"text": text, **data}}
            }
        case ToolCall(call_id, name, arguments):
            return {"toolUse": {"toolUseId": call_id, "name": name, "input": sendable(arguments)}}
        case Opaque(_, private):
            return private.data
        case _:
            assert_never(part)


Thought: TypeAlias = tuple[Mapping[str, object], tuple[str, ...]]
"""`additionalModelRequestFields`, and notes on what could not be met."""
_LEVELS: tuple[Effort, ...] = ("low", "medium", "high")


def plain_id(model_id: str) -> str:
    """Return a model's own id, without the area of an inference profile and the beginning of an ARN."""
    name = model_id.lower().rpartition("/")[2]
    area, _, rest = name.partition(".")
    return rest if area in _AREAS else name


def levels_of(model: str) -> tuple[Effort, ...]:
    """Return the efforts that a model is known to accept."""
    return _LEVELS if plain_id(model).startswith(("amazon.nova-2", "openai.gpt-oss")) else ()


def thinking_fields(model: str, effort: Effort | None, *, limited: bool = False) -> Thought:
    """Translate an effort into the parameters of a model. No other function does this.

    Nova 2 has levels, and refuses an output limit with the highest one (docs.aws.amazon.com, extended thinking in Nova
    2). gpt-oss has OpenAI's levels. Other models have no known levels.
    """
    name = plain_id(model)
    if effort is None:
        return EMPTY, ()
    if name.startswith("amazon.nova-2"):
        if effort == "none":
            return {"reasoningConfig": {"type": "disabled"}}, ()
        level, notes = nearest(model, effort, _LEVELS)
        if level == "high" and limited:
            level, notes = "medium", (f"{model} takes effort high only without an output limit: medium is used",)
        return {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": level}}, notes
    if name.startswith("openai.gpt-oss"):
        level, notes = nearest(model, effort, _LEVELS)
        return {"reasoning_effort": level}, notes
    if effort == "none":
        return EMPTY, ()
    return EMPTY, (f"effort {effort} was left out: how to set it for {model} is not known",)


class ConverseModel(WireModel["Converse"]):
    """One model of Converse."""

    overhead, reader = _OVERHEAD_TOKENS, ConverseReplyReader

    def __init__(self, provider: "Converse", model_id: str) -> None:
        super().__init__(provider, model_id, known_as=plain_id(model_id))
        if self._limits.window is None:  # the list of prices has the models of all makers
            self._limits = replace(self._limits, window=PriceBook().window(provider.row_name, self._known))

    def _fit(self, request: Request) -> tuple[Request, tuple[str, ...]]:
        """Add the tools that were called to a request that offers no tools: the service refuses calls of tools that the
        request does not offer."""
        request, notes = super()._fit(request)
        if not request.tools and not request.options.get("tools"):
            calls = (call for message in request.messages for call in message.calls)
            called = dict.fromkeys(safe_name(call.name, 64) or "unknown" for call in calls)
            gone = "It is no longer available: do not call it."
            tools = tuple(ToolSpec(name, gone, JsonObject({"type": "object"})) for name in called)
            request = replace(request, tools=tools) if tools else request
        return request, notes

    def _prepare(self, request: Request) -> Outgoing:
        limited = request.max_output is not None
        limit, clamped = output_limit(self.id, self._limits, request.max_output, usual_output(request.effort))
        thought, notes = thinking_fields(self._known, request.effort, limited=limited)
        if "high" in as_object(thought.get("reasoningConfig")).values():
            limit = None
        options = {name: value for name, value in request.options.items() if name not in ("tools", "inferenceConfig")}
        inference: dict[str, object] = {"maxTokens": limit} if limit else {}
        inference |= {wire: options.pop(name) for name, wire in _SAMPLING.items() if name in options}
        inference |= as_object(request.options.get("inferenceConfig"))
        members: dict[str, object] = {"inferenceConfig": inference, **options}
        if thought:
            own = as_object(options.get("additionalModelRequestFields"))
            members["additionalModelRequestFields"] = {**thought, **own}
        whole = "stream" in self._refused
        return Outgoing(
            f"{self._provider.access.base_url}/model/{quote(self.id, safe=':@')}/converse{'' if whole else '-stream'}",
            members,
            (*clamped, *notes),
            inference.get("maxTokens"),
            {"accept": "application/json" if whole else "application/vnd.amazon.eventstream"},
        )

    @property
    def _refused(self) -> set[str]:
        """The features that the model has refused, by the names of _REFUSALS."""
        return self._provider.refused[self.id]

    def _dialect(self, request: Request) -> ConverseDialect:
        name, refused = plain_id(self.id), self._refused
        marks = name.startswith(self._provider.row.quirks.cache_marks) and "marks" not in refused
        return ConverseDialect(f"converse:{name.partition('.')[0]}", "media" not in refused, marks)

    def _learn(self, error: ModelError, request: Request) -> bool:
        """Return whether the error names a feature that can be left out. The service only says so in its message."""
        words, refused = str(error.args[0]), self._refused
        for feature, said in _REFUSALS.items():
            fitting = error.kind in ("invalid_request", "permission") and re.search(said, words, re.IGNORECASE)
            if fitting and feature not in refused:
                refused.add(feature)
                return True
        return False


class Converse(Endpoint):
    """Amazon Bedrock, for models of any maker. Its models share its connections."""

    row_name: ClassVar[str] = "bedrock"

    def _set_up(self) -> None:
        self.refused = defaultdict[str, set[str]](set)  # by model

    def model(self, model_id: str) -> ConverseModel:
        return ConverseModel(self, model_id)

    async def models(self) -> Sequence[ModelInfo]:
        """List the models that write text, including Claude: models that are called by their ids, and inference
        profiles for all others. Raises ModelError."""
        found = [
            model_info(self.name, as_str(entry.get("modelId")), entry, ("modelName", "", ""))
            for entry in await self._list("foundation-models", "modelSummaries", {"byOutputModality": "TEXT"})
            if "ON_DEMAND" in as_array(entry.get("inferenceTypesSupported"))
        ]
        found += [
            model_info(self.name, as_str(entry.get("inferenceProfileId")), entry, ("inferenceProfileName", "", ""))
            for entry in await self._list("inference-profiles", "inferenceProfileSummaries", {"maxResults": "1000"})
        ]
        return tuple(found)

    async def _list(self, path: str, member: str, query: Mapping[str, str]) -> list[Mapping[str, object]]:
        pages = await self.fetch_pages(f"{{control}}/{path}", query, "nextToken", "nextToken")
        return [as_object(entry) for page in pages for entry in as_array(page.get(member))]
