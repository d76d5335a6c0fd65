"""The schema of an answer on the wire of every family, and that the vendors' own types and rules accept it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Literal, TypeAlias, cast

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from sagent.agent import Agent, RunLimits
from sagent.agent.output import output_of
from sagent.errors import ConfigError
from sagent.events import Notice
from sagent.lib.json import JsonObject, as_array, as_object, json_freeze_object, json_thaw
from sagent.lib.schema import violations
from sagent.messages import assistant, user
from sagent.model import Model, Request, Structuring, ToolSpec
from sagent.providers import Anthropic, Google, Moonshot, OpenAI, OpenAICompatible, provider_named
from sagent.providers.families.google.provider import makes_media
from sagent.providers.families.model import WireModel
from sagent.providers.families.schemas import (
    ANTHROPIC,
    CHAT,
    GOOGLE,
    OPENAI,
    Form,
    fit_schema,
    openai_holds,
    response_format,
)
from sagent.providers.rows import built_in, read_rows
from sagent.providers.wire.encoding import schema_tokens
from sagent.testing.server import Call, Fail, FakeProviderServer, Turn
from sagent.tools import tool


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    """Where it is."""

    city: str = Field(min_length=1, description="the city")
    zip: str | None = Field(default=None, pattern=r"^\d{4}$")


class Thing(BaseModel):
    name: str
    count: int = Field(default=1, ge=0, lt=100)
    price: Decimal = Decimal(1)
    when: datetime | date | None = None
    color: Color = Color.RED
    kind: Literal["a", 1] | None = "a"
    only: Literal["x"] = "x"
    place: Place
    other: Place = Field(description="another place", default=Place(city="Bern"))
    tags: list[Annotated[str, Field(max_length=9)]] = Field(default=[], min_length=2, max_length=5)


class Node(BaseModel):
    name: str
    below: "list[Node]" = []


class Open(BaseModel, extra="allow"):
    name: str


@dataclass
class Pair:
    both: tuple[int, str]


def schema_of(form: object) -> JsonObject:
    return json_freeze_object({**TypeAdapter[object](cast("type[object]", form)).json_schema()})


THING, NODE, PLACE = schema_of(Thing), output_of(Node).schema, schema_of(Place)
BAG = schema_of(dict[str, int])
SPEC = ToolSpec("look", "Look.", json_freeze_object({"type": "object", "properties": {}}))
FORMS = {"openai": OPENAI, "chat": CHAT, "anthropic": ANTHROPIC, "google": GOOGLE}


def asked(schema: JsonObject | None = PLACE, *tools: ToolSpec, **options: object) -> Request:
    return Request("c", [user("hi")], tools=tools, output_schema=schema, options=json_freeze_object({**options}))


def body_of(model: Model, request: Request) -> Mapping[str, object]:
    assert isinstance(model, WireModel)
    return as_object(json.loads(model.prepare(request).body.data))


def plain(schema: JsonObject | None) -> object:
    return None if schema is None else json_thaw(schema)


def at(value: object, *path: str) -> object:
    for name in path:
        value = as_object(value).get(name)
    return value


def nodes(schema: object) -> Sequence[Mapping[str, object]]:
    """Every schema inside a schema."""
    found = [node := as_object(schema)]
    for name in ("properties", "$defs"):
        found += [inner for each in as_object(node.get(name)).values() for inner in nodes(each)]
    for name in ("anyOf", "prefixItems"):
        found += [inner for each in as_array(node.get(name)) for inner in nodes(each)]
    return [*found, *(nodes(node["items"]) if "items" in node else ())]


# ---------------------------------------------------------------------------------------------------------------------
# Schemas


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("schema", [THING, PLACE, NODE, schema_of(Open)], ids=["thing", "place", "node", "open"])
def test_schema_keeps_shape_in_every_form(form: Form, schema: JsonObject) -> None:
    said = fit_schema(schema, form)
    if schema == NODE and form is ANTHROPIC:
        assert said is None, "recursive"
        return
    assert said is not None
    assert list(as_object(said["properties"])) == list(as_object(schema["properties"]))
    for node in nodes(said):
        assert "default" not in node and "title" not in node and not isinstance(node.get("type"), list)
        if "$ref" in node:
            assert len(node) == 1, "a reference stands alone"
        if node.get("type") == "object" and form is not GOOGLE:
            assert node["additionalProperties"] is False
            if form.all_required:
                assert list(as_array(node["required"])) == list(as_object(node["properties"]))
        if node.get("type") == "array":
            assert "items" in node
    assert fit_schema(said, form) == said, "what fits is not changed"


def test_unsupported_keywords_become_words() -> None:
    for form in FORMS.values():
        city = at(fit_schema(PLACE, form), "properties", "city")
        assert city == {"type": "string", "description": "the city (minLength: 1)"}
    count = {name: as_object(at(fit_schema(THING, form), "properties", "count")) for name, form in FORMS.items()}
    assert count["openai"] == {"type": "integer", "minimum": 0, "exclusiveMaximum": 100}
    assert (
        count["anthropic"] == {"type": "integer", "description": "(minimum: 0, exclusiveMaximum: 100)"} == count["chat"]
    )
    assert count["google"] == {"type": "integer", "minimum": 0, "description": "(exclusiveMaximum: 100)"}
    tags = as_object(at(fit_schema(THING, ANTHROPIC), "properties", "tags"))
    assert "minItems" not in tags and tags["description"] == "(minItems: 2, maxItems: 5)"


def test_openai_drops_lookaround_patterns() -> None:
    code = json_freeze_object({"type": "string", "pattern": "^(?!0)"})
    around = json_freeze_object({"type": "object", "properties": {"code": code}})
    assert at(fit_schema(around, OPENAI), "properties", "code") == {
        "type": "string",
        "description": '(pattern: "^(?!0)")',
    }
    zips = map(as_object, as_array(at(fit_schema(PLACE, OPENAI), "properties", "zip", "anyOf")))
    assert [each.get("pattern") for each in zips] == [r"^\d{4}$", None]


def test_constants_have_types() -> None:
    for form in FORMS.values():
        properties = as_object(at(fit_schema(THING, form), "properties"))
        assert properties["only"] == {"type": "string", "enum": ("x",)}
        assert [as_object(each)["type"] for each in as_array(at(properties["kind"], "anyOf"))] == [
            "string",
            "integer",
            "null",
        ]


def test_described_reference_is_written_out() -> None:
    for form in FORMS.values():
        other = as_object(at(fit_schema(THING, form), "properties", "other"))
        assert other["description"] == "another place" and other["type"] == "object"
        assert as_object(at(fit_schema(THING, form), "properties", "place")) == {"$ref": "#/$defs/Place"}


Case: TypeAlias = tuple[Mapping[str, object], set[str]]
SAYABLE: Sequence[Case] = [
    (BAG, {"google"}),  # names that nobody knows yet
    ({"type": "object"}, {"google"}),
    ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, set()),  # anything
    ({"type": "object", "properties": {"a": True}}, set()),
    ({"type": "object", "properties": {"a": {"type": "array"}}}, {"google"}),
    (schema_of(Pair), {"google"}),
    ({"type": "object", "properties": {"a": {"$ref": "https://example.org/a"}}}, set()),
    ({"type": "object", "properties": {"a": {"$ref": "#/$defs/gone"}}}, set()),
    ({"type": "object", "properties": {"a": {"$ref": "#"}}}, set()),
    ({"type": "object", "properties": {"a": {"enum": [{"b": 1}]}}}, set()),
    ({"type": "object", "properties": {"a": {"anyOf": []}}}, set()),
    ({"type": "object", "properties": {"a": {"type": "text"}}}, set()),
    ({"type": "object", "properties": {"a": {"allOf": [{"type": "string"}, {"minLength": 1}]}}}, set()),
    ({"type": "object", "properties": {"a": {"allOf": [{"type": "string"}]}}}, set(FORMS)),
    ({"type": "object", "properties": {"a": {"type": ["string", "null"]}}}, set(FORMS)),
    (
        {
            "type": "object",
            "definitions": {"A": {"type": "string"}},
            "properties": {"a": {"$ref": "#/definitions/A"}},
        },
        set(FORMS),
    ),
    ({"type": "array", "items": {"type": "string"}}, set()),
    ({"type": "string"}, set()),
    ({}, set()),
]


@pytest.mark.parametrize(("schema", "forms"), SAYABLE)
def test_inexpressible_schema_left_to_words(schema: Mapping[str, object], forms: set[str]) -> None:
    frozen = json_freeze_object({**schema})
    assert {name for name, form in FORMS.items() if fit_schema(frozen, form) is not None} == forms


def test_bottomless_schemas_left_to_words() -> None:
    deep: dict[str, object] = {"type": "string"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"a": deep}}
    assert all(fit_schema(json_freeze_object({**deep}), form) is None for form in FORMS.values())


def test_fitting_the_form_fits_the_type() -> None:
    """The answer that a provider holds to its form of the schema is one that pydantic takes."""
    answer = {"name": "n", "count": 3, "price": 1.5, "when": None, "color": "blue", "kind": 1, "only": "x"}
    answer |= {"place": {"city": "Bern", "zip": None}, "other": {"city": "Bern", "zip": "3000"}, "tags": ["a", "b"]}
    for form in FORMS.values():
        said = fit_schema(THING, form)
        assert said is not None and violations(said, json_freeze_object({**answer})) == []
    assert Thing.model_validate(answer).color is Color.BLUE


def test_openai_strictness_changes_nothing() -> None:
    strict = pytest.importorskip("openai.lib._pydantic")._ensure_strict_json_schema
    for schema in (THING, NODE, PLACE):
        for form in (OPENAI, CHAT):
            said = plain(fit_schema(schema, form))
            assert strict(json.loads(json.dumps(said)), path=(), root=said) == said


def test_anthropic_transform_changes_nothing() -> None:
    transform = pytest.importorskip("anthropic.lib._parse._transform").transform_schema
    for schema in (THING, PLACE):
        said = plain(fit_schema(schema, ANTHROPIC))
        again = json.loads(json.dumps(transform(said)))
        for node, other in zip(nodes(said), nodes(again), strict=True):
            assert {
                key: value
                for key, value in node.items()
                if key not in ("type", "properties", "$defs", "anyOf", "items")
            } == {
                key: value
                for key, value in other.items()
                if key not in ("type", "properties", "$defs", "anyOf", "items")
            }


# ---------------------------------------------------------------------------------------------------------------------
# Where it stands


def anthropic(model: str = "claude-sonnet-4-6") -> Model:
    return Anthropic.from_key("k" * 8).model(model)


def openai(model: str = "gpt-5.6-terra") -> Model:
    return OpenAI.from_key("k" * 8).model(model)


def google(model: str = "gemini-3.8-flash") -> Model:
    return Google.from_key("k" * 8).model(model)


def chat(row: str, model: str = "m") -> Model:
    return provider_named(row, key="k" * 8).model(model)


def test_anthropic_schema_beside_effort() -> None:
    request = replace(asked(), effort="high")
    config = as_object(body_of(anthropic(), request)["output_config"])
    assert config == {
        "effort": "high",
        "format": {"type": "json_schema", "schema": plain(fit_schema(PLACE, ANTHROPIC))},
    }
    own = asked(PLACE, output_config={"effort": "low"})
    assert at(body_of(anthropic(), own), "output_config", "effort") == "low"
    assert "output_config" not in body_of(anthropic(), asked(None))


def test_responses_schema_beside_verbosity() -> None:
    text = as_object(body_of(openai(), asked(PLACE, text={"verbosity": "low"}))["text"])
    assert text["verbosity"] == "low"
    assert text["format"] == {
        "type": "json_schema",
        "name": "answer",
        "schema": plain(fit_schema(PLACE, OPENAI)),
        "strict": True,
    }
    assert "text" not in body_of(openai(), asked(None))


def test_google_schema_beside_configuration() -> None:
    made = as_object(body_of(google(), asked(PLACE, generationConfig={"topP": 0.5}))["generationConfig"])
    assert (made["responseMimeType"], made["topP"]) == ("application/json", 0.5)
    assert made["responseJsonSchema"] == plain(fit_schema(PLACE, GOOGLE))
    assert not {"responseMimeType", "responseJsonSchema"} & {
        *as_object(body_of(google(), asked(None))["generationConfig"])
    }


def test_chat_schema_as_the_row_says() -> None:
    held = {name for name, row in built_in().items() if row.quirks.structured == "json_schema"}
    assert held >= {"openai", "openrouter", "mistral", "xai", "ollama", "vllm", "lmstudio"}
    for name in held - {"openai"}:
        form = as_object(body_of(chat(name), asked())["response_format"])
        assert form["type"] == "json_schema" and at(form, "json_schema", "strict") is True, name
    for name in ("deepseek", "moonshot", "zai"):
        assert body_of(chat(name), asked())["response_format"] == {"type": "json_object"}
    for name in ("groq", "minimax", "dashscope", "huggingface", "together"):
        assert "response_format" not in body_of(chat(name), asked())
    unknown = OpenAICompatible.from_key("k", base_url="http://127.0.0.1:9/v1").model("m")
    assert "response_format" not in body_of(unknown, asked())
    known = OpenAICompatible.from_key("k", base_url="https://api.openai.com/v1").model("gpt-4.1")
    assert at(body_of(known, asked(PLACE, SPEC)), "response_format", "type") == "json_schema"
    assert not known.structures(asked(PLACE)), "a model of Chat Completions reads it in words too"


def test_schema_beside_tools_if_callable() -> None:
    for name in ("mistral", "xai"):
        assert "response_format" in body_of(chat(name), asked(PLACE, SPEC))
    for name in ("ollama", "vllm", "deepseek", "openrouter"):
        assert "response_format" not in body_of(chat(name), asked(PLACE, SPEC))
        assert "response_format" not in body_of(chat(name), asked(PLACE, tools=[{"type": "web_search"}]))
    assert "responseJsonSchema" in as_object(body_of(google(), asked(PLACE, SPEC))["generationConfig"])
    old = google("gemini-2.5-flash")
    assert isinstance(old, Structuring) and old.structures(asked()) and not old.structures(asked(PLACE, SPEC))
    assert "responseJsonSchema" not in as_object(body_of(old, asked(PLACE, SPEC))["generationConfig"])


@pytest.mark.parametrize(
    ("model", "holds"),
    [
        *[(anthropic(name), True) for name in ("claude-opus-5-5", "claude-haiku-4-5-20251001", "claude-fable-5")],
        *[
            (anthropic(name), False)
            for name in ("claude-opus-4-1", "claude-3-7-sonnet-latest", "MiniMax-M2", "claude-x")
        ],
        *[(google(name), True) for name in ("gemini-3-pro", "gemini-flash-latest", "gemini-2.5-pro")],
        *[
            (google(name), False)
            for name in ("gemini-2.0-flash", "gemma-4-31b-it", "gemini-2.5-flash-preview-tts", "x")
        ],
        *[
            (openai(name), True)
            for name in ("gpt-4o", "gpt-4.1-mini", "gpt-5", "gpt-6-astra", "o1", "o4-mini", "codex-mini")
        ],
        *[
            (openai(name), False)
            for name in ("gpt-4", "gpt-3.5-turbo", "o1-mini", "gpt-4o-audio-preview", "my-deployment")
        ],
        (openai("gpt-4o-2024-05-13"), False),
        (openai("o3-deep-research"), False),
    ],
    ids=lambda value: getattr(value, "id", str(value)),
)
def test_models_holding_to_schema(model: Model, holds: bool) -> None:
    assert isinstance(model, Structuring) and model.structures(asked()) is holds
    assert not model.structures(asked(None)) and not model.structures(asked(schema_of(str)))
    text = json.dumps(body_of(model, asked()))
    assert ("the city" in text) is holds


def test_anthropic_takes_no_recursive_schema() -> None:
    recursive = [
        model
        for model in (anthropic(), openai(), google())
        if isinstance(model, Structuring) and model.structures(asked(NODE))
    ]
    assert [model.provider for model in recursive] == ["openai", "google"]


@pytest.mark.plugin("clouds")
def test_azure_gets_known_members() -> None:
    pytest.importorskip("openai")
    azure = provider_named("azure", key="k" * 8, base_url="https://x.openai.azure.com").model("gpt-5.6-terra")
    assert at(body_of(azure, asked(THING)), "text", "format", "schema") == plain(fit_schema(THING, CHAT))


MODELS: Mapping[str, Callable[[], Model]] = {
    "anthropic": anthropic,
    "openai": openai,
    "google": google,
    "mistral": lambda: chat("mistral"),
    "deepseek": lambda: chat("deepseek"),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_body_prefix_stays_the_same(model: Callable[[], Model]) -> None:
    """With and without a schema a request begins with the same bytes: what is cached of it stays good."""
    one = model()
    assert isinstance(one, WireModel)
    history = [user("hi"), assistant("hello"), user("again")]
    bodies = [
        one.prepare(Request("c", history[:count], system="Be brief.", tools=(SPEC,), output_schema=schema)).body.data
        for count, schema in ((1, None), (3, PLACE), (3, None))
    ]
    end = bodies[2].rindex(b"again")
    assert bodies[1][:end] == bodies[2][:end]
    assert (
        bodies[1].index(
            b"the city"
            if b"the city" in bodies[1]
            else b"response_format"
            if b"response_format" in bodies[1]
            else b"again"
        )
        >= end
    )


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_schema_has_a_weight(model: Callable[[], Model]) -> None:
    one = model()
    assert (
        one.max_input_tokens(asked(THING)) - one.max_input_tokens(asked(None))
        == schema_tokens(asked(THING))
        > len(json.dumps(json_thaw(THING)))
    )


def test_vendor_types_accept_the_schema() -> None:
    pytest.importorskip("anthropic")
    pytest.importorskip("openai")
    types = pytest.importorskip("google.genai").types
    from anthropic.types import OutputConfigParam
    from openai.types.chat import completion_create_params as chat_params
    from openai.types.responses import ResponseTextConfigParam

    def check(kind: object, value: object) -> None:
        TypeAdapter[object](cast("type[object]", kind)).validate_python(value, extra="forbid")

    request = replace(asked(THING), effort="high")
    check(OutputConfigParam, body_of(anthropic(), request)["output_config"])
    check(ResponseTextConfigParam, body_of(openai(), request)["text"])
    for row in ("mistral", "deepseek"):
        check(chat_params.ResponseFormat, body_of(chat(row), asked(THING))["response_format"])
    types.GenerationConfig.model_validate(body_of(google(), request)["generationConfig"])


def test_row_structured_values_are_checked() -> None:
    rows = read_rows({"a": {"structured": "json_schema", "structured_tools": True}}, "x")
    assert rows["a"].quirks.structured == "json_schema" and rows["a"].quirks.structured_tools
    with pytest.raises(ConfigError, match=r"structured: 'xml' is not one of '', json_schema, json_object"):
        read_rows({"a": {"structured": "xml"}}, "x")
    assert response_format(asked(), "", with_tools=True) == {}
    assert openai_holds("openai/gpt-4.1") and makes_media("gemini-2.5-flash-preview-tts", (2, 5))


# ---------------------------------------------------------------------------------------------------------------------
# The whole way


PLACED = '{"city": "Bern", "zip": "3000"}'
SERVED: Mapping[str, Callable[[str], Model]] = {
    "anthropic": lambda url: Anthropic.from_key("k" * 8, base_url=url).model("claude-sonnet-4-6"),
    "openai": lambda url: OpenAI.from_key("k" * 8, base_url=url + "/v1").model("gpt-5.6-terra"),
    "google": lambda url: Google.from_key("k" * 8, base_url=url).model("gemini-3.8-flash"),
    "moonshot": lambda url: Moonshot.from_key("k" * 8, base_url=url + "/v1").model("kimi-k2.6"),
    "compatible": lambda url: OpenAICompatible.from_key("k" * 8, base_url=url + "/v1").model("m"),
}


@tool
async def look_up(name: str) -> str:
    """Look a zip code up."""
    return f"{name}: 3000"


@pytest.mark.parametrize("family", SERVED)
async def test_tools_then_a_repair_over_http(family: str) -> None:
    script = [Turn(calls=(Call("look_up", {"name": "Bern"}),)), Turn('{"city": ""}'), Turn(PLACED)]
    async with FakeProviderServer(script) as server:
        agent = Agent(SERVED[family](server.url), tools=[look_up])
        result = await agent.run("Where?", output=Place)
        await agent.aclose()
        assert result.data == Place(city="Bern", zip="3000") and result.turns == 3
        bodies = [json.dumps(request.json) for request in server.requests]
        assert all("minLength" in body for body in bodies), "held to it, or told in words"
        told = ["fits the schema below" in body for body in bodies]
        assert told == [family in ("moonshot", "compatible")] * 3
        assert "That answer cannot be used" in bodies[2] and "That answer" not in bodies[1]


REFUSALS = {
    "anthropic": "output_config.format.schema: Schema is too complex.",
    "openai": "Invalid schema for response_format 'answer': In context=(), too many properties.",
    "google": "A schema in GenerationConfig in the request exceeds the maximum allowed nesting depth.",
    "moonshot": "response_format is not supported by this model",
}


@pytest.mark.parametrize("family", REFUSALS)
async def test_refused_schema_is_told_in_words(family: str) -> None:
    async with FakeProviderServer([Fail(400, message=REFUSALS[family]), Turn(f"Here: {PLACED}")]) as server:
        agent = Agent(SERVED[family](server.url), limits=RunLimits(max_retries=0))
        notices: list[str] = []
        agent.listen(lambda event: notices.append(event.text) if isinstance(event, Notice) else None)
        result = await agent.run("Where?", output=Place)
        await agent.aclose()
    assert result.data == Place(city="Bern", zip="3000")
    held = ("output_config", "response_format", "responseJsonSchema", "json_schema")
    first, second = (json.dumps(request.json) for request in server.requests)
    assert any(name in first for name in held) and not any(name in second for name in held)
    assert second.count("fits the schema below") == 1 and any(REFUSALS[family] in text for text in notices)
