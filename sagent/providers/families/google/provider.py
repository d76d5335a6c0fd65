"""Google's generateContent: encodes requests. It uses `v1beta`, because only there models have aliases."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, assert_never
from urllib.parse import quote

from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, JsonObject, as_array, as_object, as_str
from sagent.messages import Image, Opaque, Text, Thinking, ToolCall
from sagent.model import EFFORTS, Effort, ModelInfo, Request
from sagent.providers.families.endpoint import Endpoint
from sagent.providers.families.google.events import NAMELESS, GenerateReplyReader
from sagent.providers.families.media import AUDIO, base64_text, in_words, media_tokens
from sagent.providers.families.model import Counted, Outgoing, WireModel, nearest
from sagent.providers.handover import CallResult, ModelPart, ModelTurn, Rules, Shown, UserTurn
from sagent.providers.limits import model_info, output_limit, usual_output
from sagent.providers.toolforms import GOOGLE, ToolForm
from sagent.providers.wire.encoding import Dialect, body_start, sendable

# Substitute for the signature of another model's call: Gemini 3 refuses a first call without one (ai.google.dev,
# thought signatures, "migrating from other models").
FOREIGN = "skip_thought_signature_validator"

_IMAGE_TOKENS = 5_000  # before Gemini 3 each tile of 768 pixels counts 258; later an image counts 2,240 at most
_PAGE_TOKENS = 4_000  # a PDF page counts as an image
_OVERHEAD_TOKENS = 500  # what frames contents and tools
_IMAGES = ("image/png", "image/jpeg", "image/webp")
_VERSIONS = ("v1", "v1alpha", "v1beta", "v1beta1")
_SAMPLING = {
    **{name: name for name in ("temperature", "topP", "topK", "seed", "stopSequences")},
    "top_p": "topP",
    "top_k": "topK",
    "stop_sequences": "stopSequences",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
"""Options that belong into `generationConfig`, by their names here and elsewhere."""


@dataclass(frozen=True, slots=True)
class GenerateDialect(Dialect):
    """Encoding of turns for generateContent; `family` labels private data, `own` is the prefix of its models.

    `recent`: models of Gemini 3 or later, whose calls are signed, and whose results may have media.
    """

    family: str = "google"
    own: str = "google/"
    recent: bool = True

    @property
    def rules(self) -> Rules:
        """Return the handover rules: Google gets its own ids back."""
        return Rules(self.family, own_ids=self.own)

    @property
    def tool_form(self) -> ToolForm:
        return GOOGLE

    def head(self, request: Request) -> bytes:
        """Tools and system prompt.

        A tool's schema goes into `parametersJsonSchema`: the older `parameters` takes a subset of OpenAPI's schema, and
        answers 400 to common parts of JSON Schema ($ref, additionalProperties, lists of types).
        """
        declared = [
            {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters}
            for tool in request.tools
        ]
        tools = [*([{"functionDeclarations": declared}] if declared else ()), *as_array(request.options.get("tools"))]
        system = {"parts": [{"text": request.system}]} if request.system.strip() else None
        return body_start({"tools": tools, "systemInstruction": system}, "contents")

    def said(self, turn: ModelTurn) -> Sequence[object]:
        blocks = [_said_block(part) for part in turn.parts]
        first = next((place for place, block in enumerate(blocks) if "functionCall" in block), None)
        if self.recent and first is not None:
            blocks[first] = {"thoughtSignature": FOREIGN, **blocks[first]}
        return [{"role": "model", "parts": blocks}]

    def shown(self, turn: UserTurn) -> Sequence[object]:
        blocks = [self._answer(answer) for answer in turn.answers]
        for answer in () if self.recent else turn.answers:  # their results take text only: media follow all of them
            if media := _media(answer):
                blocks += [{"text": f"[from the result of {answer.name}]"}, *media]
        return [{"role": "user", "parts": [*blocks, *map(_shown_block, turn.parts)]}]

    def media_tokens(self, part: Shown) -> int:
        return media_tokens(part, _IMAGE_TOKENS, _PAGE_TOKENS) if _is_media(part) else 0

    def _answer(self, answer: CallResult) -> Mapping[str, object]:
        """Return a result, paired by id if Google gave the call one, otherwise by name and order."""
        texts = [in_words(part) for part in answer.content if not _is_media(part)]
        response: dict[str, object] = {} if answer.call_id.startswith(NAMELESS) else {"id": answer.call_id}
        response |= {"name": answer.name, "response": {"error" if answer.is_error else "output": "\n".join(texts)}}
        if self.recent and (media := _media(answer)):
            response["parts"] = media
        return {"functionResponse": response}


def _said_block(part: ModelPart) -> Mapping[str, object]:
    match part:
        case Text(text):
            return {"text": text, **_signature(part)}
        case Thinking(text):
            return {"text": text, "thought": True, **_signature(part)}
        case ToolCall(call_id, name, arguments):
            call: dict[str, object] = {} if call_id.startswith(NAMELESS) else {"id": call_id}
            return {"functionCall": {**call, "name": name, "args": sendable(arguments)}, **_signature(part)}
        case Opaque(_, private):
            return as_object(private.data)
        case _:
            assert_never(part)


def _signature(part: Text | Thinking | ToolCall) -> Mapping[str, object]:
    signature = as_object(part.private.data).get("thoughtSignature") if part.private else None
    return {"thoughtSignature": signature} if signature else {}


def _media(answer: CallResult) -> list[Mapping[str, object]]:
    """Return the parts of a result that are not text."""
    return [_shown_block(part) for part in answer.content if _is_media(part)]


def _shown_block(part: Shown) -> Mapping[str, object]:
    if isinstance(part, Text) or not _is_media(part):
        return {"text": in_words(part)}
    kind = "audio/mp3" if part.media_type == "audio/mpeg" else part.media_type  # as its documentation calls it
    return {"inlineData": {"mimeType": kind, "data": base64_text(part.data)}}


def _is_media(part: Shown) -> bool:
    """Return True if a part is sent as bytes."""
    kinds = _IMAGES if isinstance(part, Image) else ("application/pdf", *AUDIO)
    return not isinstance(part, Text) and part.media_type in kinds and bool(part.data)


_BUDGETS = dict(zip(EFFORTS, (0, 512, 2_048, 8_192, 16_384, 24_576, 32_768), strict=True))
_NEWEST = (99, 0)


def generation(model: str) -> tuple[str, tuple[int, int]]:
    """Kind ("pro", "flash", "flash-lite", "gemma" or "") and version of a model; an alias ("-latest") is the newest.

    "gemini-3.1-pro-preview" is ("pro", (3, 1)), "gemma-4-31b-it" ("gemma", (4, 0)); ("", (0, 0)) is no Gemini at all.
    """
    words = model.lower().rpartition("/")[2].split("-")
    if words[0] not in ("gemini", "gemma"):
        return "", (0, 0)
    major, _, minor = next((word for word in words[1:] if word[:1].isdecimal()), "").partition(".")
    version = (0, 0)
    if major.isdecimal() and len(major) < 3:  # longer ones are dates
        version = (int(major), int(minor) if minor.isdecimal() else 0)
    if words[0] == "gemma":
        return "gemma", version
    kind = "flash-lite" if "lite" in words else "flash" if "flash" in words else "pro"
    return kind, _NEWEST if "latest" in words and not version[0] else version


def recent(model: str) -> bool:
    """Return True if a model is of Gemini 3 or later, or unknown."""
    kind, version = generation(model)
    return not kind or (kind != "gemma" and version >= (3, 0))


def makes_media(model: str, version: tuple[int, int]) -> bool:
    """Return True if a model makes speech or images, and neither thinks nor writes JSON."""
    words = model.lower().split("-")
    return "tts" in words or ("image" in words and version < (3, 0))


def thinking_config(model: str, effort: Effort | None) -> tuple[Mapping[str, object], tuple[str, ...]]:
    """Return the `thinkingConfig` for an effort, and notes on unsupported parts; no other function does this.

    By ai.google.dev's thinking guide (as of 2026-11): before 2.5 no thinking; 2.5 takes a budget (Pro 128 to 32,768,
    Flash 24,576 at most, Flash-Lite 512 at least; only Pro cannot stop); from 3 on levels, and thinking never ends.
    """
    kind, version = generation(model)
    if not kind or version < ((4, 0) if kind == "gemma" else (2, 5)) or makes_media(model, version):
        wanted = effort not in (None, "none")
        return EMPTY, (f"it is not known whether {model} can think: effort {effort} was left out",) if wanted else ()
    if version < (3, 0):
        return _budget(model, kind, effort)
    if effort is None:
        return {"includeThoughts": True}, ()
    level, notes = nearest(model, effort, _levels(kind, version))
    return {"includeThoughts": True, "thinkingLevel": level.upper()}, notes


def _levels(kind: str, version: tuple[int, int]) -> Sequence[Effort]:
    if kind == "gemma":
        return ("minimal", "high")
    if kind == "pro" and version < (3, 1):
        return ("low", "high")
    if kind == "flash-lite" or (kind == "flash" and version < (3, 7)):
        return ("minimal", "low", "medium", "high")
    return ("low", "medium", "high")


def _budget(model: str, kind: str, effort: Effort | None) -> tuple[Mapping[str, object], tuple[str, ...]]:
    if effort is None:
        return {"includeThoughts": True}, ()
    least, most = {"pro": (128, 32_768), "flash": (0, 24_576)}.get(kind, (512, 24_576))
    wanted = _BUDGETS[effort]
    if wanted == 0 and kind != "pro":
        return {"includeThoughts": False, "thinkingBudget": 0}, ()
    budget = max(least, min(most, wanted))
    notes = (f"{model} always thinks: it may use {budget} tokens for that",) if wanted == 0 else ()
    if budget < wanted:
        notes = (f"{model} can think for at most {most} tokens: effort {effort} asks for {wanted}",)
    return {"includeThoughts": True, "thinkingBudget": budget}, notes


class GoogleModel(WireModel["Google"]):
    """One model of generateContent."""

    overhead, reader = _OVERHEAD_TOKENS, GenerateReplyReader

    def __init__(self, provider: "Google", model_id: str) -> None:
        super().__init__(provider, model_id, listed_as="google")

    def _prepare(self, request: Request) -> Outgoing:
        limit, clamped = output_limit(self.id, self._limits, request.max_output, usual_output(request.effort))
        thinking, notes = thinking_config(self._known, request.effort)
        generated: dict[str, object] = {"maxOutputTokens": limit} if limit else {}
        if thinking:
            generated["thinkingConfig"] = thinking
        if schema := self._format(request):
            generated |= {"responseMimeType": "application/json", "responseJsonSchema": schema}
        options = {name: value for name, value in request.options.items() if name != "tools"}
        generated |= {wire: options.pop(name) for name, wire in _SAMPLING.items() if name in options}
        generated |= as_object(options.pop("generationConfig", None))
        members: dict[str, object] = {**options, "generationConfig": generated}
        return Outgoing(
            f"{self._provider.url_of(self.id)}:streamGenerateContent?alt=sse",
            members,
            (*clamped, *notes),
            generated.get("maxOutputTokens"),
        )

    def _counting(self, request: Request) -> Counted | None:
        """Count by ai.google.dev, countTokens."""
        body = self._conversation(request).write({"model": f"models/{self.id}"}, 0)
        parts = (b'{"generateContentRequest":', *body.parts, b"}")
        return f"{self._provider.url_of(self.id)}:countTokens", {}, parts, "totalTokens"

    def _dialect(self, request: Request) -> GenerateDialect:
        return GenerateDialect(self._provider.label, f"{self.provider}/", recent(self._known))

    def _format(self, request: Request) -> JsonObject | None:
        """Return the schema to send (ai.google.dev, structured outputs: from 2.5 on, with tools from 3 on)."""
        if request.output_schema is None:
            return None
        from sagent.providers.families.schemas import GOOGLE, fit_schema

        kind, version = generation(self._known)
        tools = bool(request.tools or request.options.get("tools"))
        held = kind in ("pro", "flash", "flash-lite") and version >= ((3, 0) if tools else (2, 5))
        return fit_schema(request.output_schema, GOOGLE) if held and not makes_media(self.id, version) else None


class Google(Endpoint):
    """Google's Gemini API, or a service or cloud that offers it. Its models share its connections."""

    row_name: ClassVar[str] = "google"
    _key_header = "x-goog-api-key"

    def _set_up(self) -> None:
        self.label = "google" if self.name == "google" else f"google:{self.name}"

    def model(self, model_id: str) -> GoogleModel:
        return GoogleModel(self, model_id)

    @property
    def root(self) -> str:
        """The URL below which models are listed."""
        return api_root(self.access.base_url)

    def url_of(self, model_id: str) -> str:
        """Return a model's URL path."""
        return model_url(self.access.base_url, model_id)

    async def models(self) -> Sequence[ModelInfo]:
        """Return the API's own list, without models that generate no content. Raises ModelError."""
        pages = await self.fetch_pages(f"{self.root}/models", {"pageSize": "1000"}, "pageToken", "nextPageToken")
        listed = [as_array(page.get("models")) or as_array(page.get("publisherModels")) for page in pages]
        return tuple(_model_info(entry) for rows in listed for entry in map(as_object, rows) if _generates(entry))


def api_root(base_url: str) -> str:
    """Return the API's root, from a base URL with or without its version; v1beta unless the URL says otherwise."""
    base = base_url.rstrip("/").removesuffix("/models")
    return base if base.rpartition("/")[2] in _VERSIONS else f"{base}/v1beta"


def model_url(base_url: str, model: str) -> str:
    """Return the URL of a model; an id with a "/" ("tunedModels/x") is a path of its own."""
    path = quote(model if "/" in model else f"models/{model}", safe="/")
    return f"{api_root(base_url)}/{path}"


def _generates(entry: Mapping[str, object]) -> bool:
    methods = as_array(entry.get("supportedGenerationMethods"))
    return not methods or "generateContent" in methods


def _model_info(entry: Mapping[str, object]) -> ModelInfo:
    model_id = as_str(entry.get("name")).removeprefix("publishers/google/").removeprefix("models/")
    return model_info("google", model_id, entry, ("displayName", "inputTokenLimit", "outputTokenLimit"))
