"""Tools go out in a form that each provider takes, and calls of them come back with their own names."""

import json
import re
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sagent import Agent
from sagent.lib.json import JsonObject, as_array, as_object, as_str, json_freeze_object, json_thaw, wire_bytes
from sagent.messages import Message, Text, ToolCall
from sagent.model import ToolSpec
from sagent.plugins.clouds.converse import ConverseDialect
from sagent.providers import Anthropic, Google, OpenAI, OpenAICompatible
from sagent.providers.fitting import fit_tools
from sagent.providers.toolforms import ANTHROPIC, CHAT, GOOGLE, NAME, OPENAI, ToolForm, are_plain
from sagent.testing.server import Call, FakeProviderServer, Turn
from sagent.tool import RunContext, ToolOutput
from sagent.tools import Bash, Edit, Glob, Grep, Read, Write
from tests.depth import deep

FORMS = {
    "anthropic": ANTHROPIC,
    "openai": OPENAI,
    "chat": CHAT,
    "google": GOOGLE,
    "converse": ConverseDialect().tool_form,
}
NOT_AT_TOP = ("anyOf", "oneOf", "allOf", "enum", "not", "const", "$ref")
TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
MODELS = {
    Anthropic: "claude-sonnet-4-6",
    Google: "gemini-3.1-pro-preview",
    OpenAI: "gpt-5.6-terra",
    OpenAICompatible: "x",
}
UNION = {
    "type": "object",
    "anyOf": [
        {"properties": {"id": {"type": "string"}}, "required": ["id"]},
        {"properties": {"name": {"type": "string"}}, "required": ["name"]},
    ],
}


def spec(schema: object, name: str = "find", description: str = "Find.") -> ToolSpec:
    return ToolSpec(name, description, json_freeze_object(json.loads(json.dumps(schema))))


def fitted(schema: object, form: ToolForm = ANTHROPIC) -> dict[str, object]:
    (tool,) = fit_tools((spec(schema),), form).tools
    return json.loads(wire_bytes(tool.parameters))


def schemas(node: object) -> Iterator[Mapping[str, object]]:
    """Each schema within a schema."""
    if isinstance(node, Mapping):
        fields = as_object(node)
        yield fields
        for name, value in fields.items():
            if name in ("properties", "$defs", "definitions", "patternProperties"):
                for each in as_object(value).values():
                    yield from schemas(each)
            elif name in ("items", "additionalProperties", "not", "if", "then", "else"):
                yield from schemas(value)
            elif name in ("anyOf", "oneOf", "allOf", "prefixItems"):
                for each in as_array(value):
                    yield from schemas(each)


def faults(tools: tuple[ToolSpec, ...], family: str) -> list[str]:
    """What a provider would refuse."""
    found: list[str] = []
    form, names = FORMS[family], [tool.name for tool in tools]
    found += ["two of one name"] if len({*names}) < len(names) else []
    for tool in tools:
        schema = as_object(json.loads(wire_bytes(tool.parameters)))
        found += [] if re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}", tool.name) else [f"name {tool.name}"]
        found += [] if tool.description.strip() else ["no description"]
        found += [] if schema.get("type") == "object" else ["no object"]
        found += [
            f"{name} at the top"
            for name in ("anyOf", "oneOf", "allOf", "enum", "not", "const", "$ref")
            if name in schema
        ]
        if family == "converse":
            found += [f"{name} at the top" for name in {*schema} - {"type", "properties", "required"}]
        if family == "openai" and "properties" not in schema:
            found.append("no properties")
        for each in schemas(schema):
            properties = as_object(each.get("properties"))
            found += [f"key {key}" for key in properties if not re.fullmatch(form.keys, key)]
            found += ["required"] if not isinstance(each.get("required", []), list) else []
            if each.get("type") == "object" and "required" in each:
                found += [f"needs {name}" for name in as_array(each["required"]) if name not in properties]
            if each.get("type") == "array" and "items" not in each:
                found.append("no items")
            kinds = as_array(each.get("type")) or ([each["type"]] if "type" in each else [])
            found += [f"type {kind}" for kind in kinds if kind not in TYPES]
            found += ["draft 4"] if isinstance(each.get("exclusiveMinimum"), bool) else []
            found += ["no values"] if "enum" in each and not as_array(each["enum"]) else []
            if family == "google":
                found += ["types" for _ in as_array(each.get("type"))[:1]]
                found += [name for name in ("const", "oneOf") if name in each and name == "const"]
                found += [f"enum {value}" for value in as_array(each.get("enum")) if not isinstance(value, str)]
            if family == "converse" and "$ref" in each:
                found.append("$ref")
            if "$ref" in each:
                found += [] if re.fullmatch(r"#/(\$defs|definitions)/[^/]+", as_str(each["$ref"])) else ["a far $ref"]
    return found


ODD: list[object] = [
    UNION,
    {
        "type": "object",
        "properties": {"$.xgafv": {"type": "string"}, "a b": {"type": "object", "properties": {"ü": {}}}},
    },
    {"type": "object", "oneOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"properties": {"x": {"type": "string"}}}}},
    {
        "$ref": "#/definitions/a",
        "definitions": {"a": {"type": "object", "properties": {"x": {"$ref": "#/definitions/a"}}}},
    },
    {"type": "object", "allOf": [{"properties": {"x": True}, "required": ["x"]}, {"required": ["y"]}]},
    {"type": "object", "enum": [{}], "not": {"required": ["x"]}},
    {"properties": {"x": {}}},
    {"type": "object"},
    {"type": "object", "properties": None, "required": None},
    {"type": "object", "properties": {"x": True, "y": False}, "required": ["x"]},
    {"type": "object", "properties": {"x": {"type": "array"}, "y": {"type": "array", "items": [{"type": "string"}]}}},
    {"type": "object", "properties": {"x": {"type": ["string", "null"], "enum": ["a", None]}}},
    {"type": "object", "properties": {"x": {"const": 5}, "y": {"enum": [True, 1, "a"]}, "z": {"enum": []}}},
    {"type": "object", "properties": {"x": {"type": "any"}, "y": {"type": "file"}, "z": {"type": ["string"]}}},
    {"type": "object", "properties": {"x": {"type": "number", "minimum": 0, "exclusiveMinimum": True}}},
    {"type": "object", "properties": {"x": {"type": "integer", "maximum": 18446744073709551615, "minLength": "3"}}},
    {"type": "object", "properties": {"x": {"type": "string", "required": True}}},
    {"type": "object", "properties": {"x": {"type": "string", "pattern": "(?<=a)b["}}, "required": ["gone"]},
    {
        "type": "object",
        "properties": {"x": {"$ref": "x:y"}, "y": {"$ref": "#/properties/z"}, "z": {}},
    },
    {"type": "object", "properties": {"x": {"$ref": "#"}}},
    {"type": "object", "properties": {"x": {"type": "string", "description": 5, "format": "odd"}}},
]


@pytest.mark.parametrize("family", FORMS)
@pytest.mark.parametrize("schema", ODD, ids=lambda schema: json.dumps(schema)[:60])
def test_odd_schema_is_fitted(schema: object, family: str) -> None:
    tools = fit_tools((spec(schema), spec({"type": "object", "properties": {}}, "plain")), FORMS[family]).tools
    assert faults(tools, family) == []
    assert tools == fit_tools((spec(schema), spec({"type": "object", "properties": {}}, "plain")), FORMS[family]).tools


SIMPLE: list[object] = [
    True,
    False,
    None,
    {},
    {"type": "string"},
    {"type": "array"},
    {"const": 1},
    {"$ref": "#/$defs/a"},
    5,
]
KEYS = ["a", "$b", "c d", "é", "", "x" * 70, "properties"]
NAMES = ["a.b", "a_b", "größe", "", "3d", "x" * 80, "x" * 64, "a b", "_3d"]
SCHEMAS: st.SearchStrategy[object] = st.recursive(
    st.sampled_from(
        [True, False, None, {}, {"type": "string"}, {"type": "array"}, {"const": 1}, {"$ref": "#/$defs/a"}, 5]
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "string", "any", ["string", "null"], ["array", "object"], 5]),
            "properties": st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
            "required": st.sampled_from([["a"], ["$b", "zz"], True, "a", [1]]),
            "items": inner | st.lists(inner, max_size=2),
            "anyOf": st.lists(inner, max_size=2),
            "allOf": st.lists(inner, max_size=2),
            "oneOf": st.lists(inner, max_size=2),
            "enum": st.sampled_from([["a"], [1, "a"], [], None, [True]]),
            "$ref": st.sampled_from(["#/$defs/a", "#/$defs/gone", "#", "x:y", 5]),
            "$defs": st.fixed_dictionaries({"a": inner}),
            "minimum": st.sampled_from([1, 2**70, True, "1"]),
            "pattern": st.sampled_from(["a", "^a$", "(", 5]),
        },
    ),
    max_leaves=8,
)


@given(SCHEMAS, st.sampled_from([*FORMS]))
@settings(max_examples=deep(40, 300))
@example({"properties": {"a": {"type": ["string", "null"], "anyOf": []}}}, "google")
@example({"properties": {"a": {"type": ["string", "null"], "oneOf": [False]}}}, "google")
@example({"properties": {"a": {"type": ["string", "null"], "anyOf": 5, "oneOf": [{"type": "string"}]}}}, "google")
def test_no_schema_is_refused(schema: object, family: str) -> None:
    tools = fit_tools((spec(schema if isinstance(schema, dict) else {}),), FORMS[family]).tools
    assert faults(tools, family) == []


@given(st.lists(st.sampled_from(NAMES), unique=True, max_size=9))
def test_names_are_made_distinct_and_mapped_back(names: list[str]) -> None:
    tools = tuple(spec({"type": "object", "properties": {}}, name) for name in names)
    found = fit_tools(tools, ANTHROPIC)
    assert faults(found.tools, "anthropic") == []
    assert [new.name for new in found.tools if NAME.fullmatch(new.name)] == [new.name for new in found.tools]
    assert [
        new.name
        for new, old in zip(found.tools, tools, strict=True)
        if NAME.fullmatch(old.name) and new.name != old.name
    ] == []
    if found.naming is not None:
        sent = [found.naming.sent(ToolCall("1", name)) for name in names]
        assert [call.name for call in sent] == [tool.name for tool in found.tools]
        assert [call.name for call in found.naming.original(Message("assistant", tuple(sent))).calls] == names


def test_branches_are_merged_and_said() -> None:
    (tool,) = fit_tools((spec(UNION),), ANTHROPIC).tools
    assert {*as_object(tool.parameters["properties"])} == {"id", "name"}
    assert "required" not in tool.parameters
    assert "(id), or (name)" in tool.description


def test_property_of_two_branches_allows_both() -> None:
    one, other = (
        {"properties": {"x": {"type": "string"}}},
        {"properties": {"x": {"type": "integer"}}, "required": ["x"]},
    )
    found = fitted({"type": "object", "oneOf": [one, other]})
    assert as_object(found["properties"])["x"] == {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    assert fitted({"type": "object", "allOf": [one, other]})["required"] == ["x"]


def test_unsent_limits_become_words() -> None:
    found = fitted({"type": "object", "properties": {"x": {"type": "string", "format": "odd", "const": 5}}}, GOOGLE)
    assert "format: odd" in str(found) and "one of [5]" in str(found)


def test_deep_and_wide_schemas_end() -> None:
    deep: dict[str, object] = {"type": "object", "properties": {"$x": {}}}
    for level in range(90):
        unions = {"anyOf": [deep, deep]} if level < 7 else {}
        deep = {"type": "object", "properties": {"$x": deep}, **unions}
    assert len(wire_bytes(fitted_frozen(deep))) < 1_000_000


def fitted_frozen(schema: dict[str, object]) -> JsonObject:
    return fit_tools((ToolSpec("find", "Find.", json_freeze_object(schema)),), ANTHROPIC).tools[0].parameters


AB: dict[str, object] = {"type": "object", "properties": {"a b": {}}}


class Odd:
    """A tool whose names providers refuse."""

    name = "3maps"
    description = "Finds."
    parameters = json_freeze_object(
        {
            "type": "object",
            "properties": {
                "$.xgafv": {"type": "string"},
                "in": {"type": "array", "items": {"type": "object", "properties": {"a b": {}}}},
            },
        }
    )
    lenient = False

    def __init__(self) -> None:
        self.given: list[JsonObject] = []

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        self.given.append(arguments)
        return ToolOutput((Text("found"),))


@pytest.mark.parametrize("made", [Anthropic, OpenAI, OpenAICompatible, Google])
async def test_tool_is_called_with_its_own_names(made: type[Anthropic | OpenAI | OpenAICompatible | Google]) -> None:
    steps = [Turn(calls=[Call("_3maps", {"_.xgafv": "1", "in": [{"a_b": 2}]})]), Turn(text="done")]
    tool = Odd()
    async with FakeProviderServer(steps, strict=False) as server:
        provider = made.from_key("k" * 9, base_url=server.url)
        async with Agent(provider.model(MODELS[made]), tools=[tool]) as agent:
            assert (await agent.run("go")).content == "done"
            calls = [call for message in agent.messages for call in message.calls]
        await provider.aclose()
    assert [json_thaw(each) for each in tool.given] == [{"$.xgafv": "1", "in": [{"a b": 2}]}]
    assert [call.name for call in calls] == ["3maps"]
    assert b'"_3maps"' in server.requests[1].body and b'"3maps"' not in server.requests[1].body
    again = server.requests[1].body.decode().replace("\\", "")
    assert '"_.xgafv":"1"' in again and '"a_b":2' in again


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_own_tools_go_out_unchanged(form: ToolForm) -> None:
    tools = (Read(), Write(), Edit(), Bash(), Glob(), Grep())
    specs = tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in tools)
    assert are_plain(specs, form)
    assert fit_tools(specs, form).tools is specs
