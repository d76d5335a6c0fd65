"""What a person says that models can do, where their names do not tell."""

# Parts of JSON are read as what they must be; a wrong one fails the test.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportIndexIssue=false

import json
from collections.abc import Callable, Mapping

import pytest

from sagent import Agent
from sagent.errors import ConfigError
from sagent.events import Event, Notice
from sagent.lib.json import json_freeze_object
from sagent.messages import Image, Message, Text, ToolCall, ToolResult, user
from sagent.model import Effort, Request, Structuring, ToolSpec
from sagent.providers import provider_named, read_rows
from sagent.providers.abilities import accepts_images, can_reason
from sagent.providers.families.openai_models import efforts_of
from sagent.providers.families.schemas import openai_holds
from sagent.providers.registry import infer, row_named
from sagent.providers.rows import Abilities, Row, built_in
from sagent.testing.script import Turn
from sagent.testing.server import FakeProviderServer

TOOLS = (ToolSpec("A", "a", json_freeze_object({"type": "object"})),)
SCHEMA = json_freeze_object({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
URL = "http://127.0.0.1:9/v1"
PIXEL = Image("image/png", b"PNG")


def rows_of(*abilities: Mapping[str, object], family: str = "chat", **more: object) -> Mapping[str, Row]:
    return read_rows({"acme": {"base_url": URL, "family": family, "abilities": [*abilities], **more}}, "config.toml")


def sent_by(rows: Mapping[str, Row], model: str, *messages: Message, **more: object) -> tuple[dict, tuple[str, ...]]:
    asked = provider_named("acme", key="k" * 8, rows=rows).model(model)
    call = asked.prepare(Request("c", messages or (user("hi"),), **more))
    return json.loads(call.body.data), call.notes


@pytest.mark.plugin("clouds")
def test_deployment_has_its_models_abilities() -> None:
    rows = {"azure": row_named("azure")}
    given = read_rows({"azure": {"abilities": [{"of": "prod", "like": "gpt-5.6-terra"}]}}, "config.toml")["azure"]
    told = {
        "azure": Row(**{**{name: getattr(rows["azure"], name) for name in Row.__slots__}, "abilities": given.abilities})
    }
    bodies: list[dict] = []
    for known in (rows, told):
        model = provider_named("azure", key="k" * 8, base_url="http://127.0.0.1:9", rows=known).model("prod")
        call = model.prepare(Request("c", (user("hi"),), effort="xhigh", output_schema=SCHEMA))
        bodies.append(json.loads(call.body.data))
        assert bool(call.notes) == (known is rows)
        assert isinstance(model, Structuring)
        assert model.structures(Request("c", (user("hi"),), output_schema=SCHEMA)) == (known is told)
    assert "reasoning" not in bodies[0]
    assert bodies[1]["reasoning"]["effort"] == "xhigh"
    assert bodies[1]["include"] == ["reasoning.encrypted_content"]
    assert bodies[1]["max_output_tokens"] > 0
    assert bodies[1]["model"] == "prod"


def test_unknown_ability_says_how_to_tell() -> None:
    _, notes = sent_by(rows_of(family="responses"), "prod", effort="high")
    assert "not known whether prod reasons" in notes[0]
    assert "[providers.acme] abilities" in notes[0]
    _, notes = sent_by(rows_of(family="responses"), "gpt-4.1", effort="high")
    assert len(notes) == 1 and all(part in notes[0] for part in ("gpt-4.1 does not reason", "effort high"))


@pytest.mark.parametrize(
    ("family", "member"),
    [
        ("chat", lambda body: body["reasoning_effort"]),
        ("responses", lambda body: body["reasoning"]["effort"]),
    ],
)
def test_told_levels_sent_others_clamped(family: str, member: Callable[[dict], str]) -> None:
    rows = rows_of({"of": "grok-4.3", "efforts": ["low", "high"]}, family=family)
    for wish, level in (("low", "low"), ("xhigh", "high"), ("none", "low")):
        body, notes = sent_by(rows, "grok-4.3-fast", effort=wish)
        assert member(body) == level
        assert bool(notes) == (wish != level)
    assert "reasoning" not in json.dumps(sent_by(rows, "grok-2", effort="high")[0])


@pytest.mark.parametrize("family", ["chat", "responses", "anthropic", "google"])
def test_missing_ability_left_out_and_said(family: str) -> None:
    rows = rows_of({"efforts": [], "images": False, "tools": False, "structured": False}, family=family)
    call = ToolCall("call_1", "A", json_freeze_object({}))
    found = ToolResult("call_1", (Text("see"), PIXEL))
    history = (user("look", PIXEL), Message("assistant", (call,)), Message("user", (found,)))
    for model in ("gpt-5.6-terra", "claude-opus-4-6", "gemini-3.8-flash"):
        body, notes = sent_by(rows, model, *history, effort="high", tools=TOOLS, output_schema=SCHEMA)
        text = json.dumps(body)
        assert not {"tools", "response_format", "output_config", "reasoning_effort"} & {*body}
        assert "UE5H" not in text
        assert text.count("image/png, 3 bytes") == 2
        assert "responseJsonSchema" not in text
        assert [word for word in ("reason", "tools", "images") if not any(word in note for note in notes)] == []
    assert not can_reason(rows["acme"], "gpt-5.6-terra")
    assert accepts_images(rows["acme"], "gpt-5.6-terra") is False


def test_dropped_images_keep_bytes() -> None:
    model = provider_named("acme", key="k" * 8, rows=rows_of({"images": False})).model("m")
    history = [user("look", PIXEL)]
    first = model.prepare(Request("c", history)).body.data
    history += [Message("assistant", (Text("I read."),)), user("go on")]
    begun = first[: first.index(b"]")]
    assert model.prepare(Request("c", history)).body.data.startswith(begun)


async def test_missing_ability_is_said_once() -> None:
    seen: list[Event] = []
    async with FakeProviderServer([Turn(text="Hello")] * 3) as server:
        rows = rows_of({"efforts": []}, base_url=f"{server.url}/v1")
        model = provider_named("acme", key="k" * 8, rows=rows).model("m")
        async with Agent(model, effort="high") as agent:
            agent.listen(seen.append)
            for _ in range(3):
                await agent.run("hi")
    assert [event.text for event in seen if isinstance(event, Notice)] == [
        "m does not reason: effort high was left out"
    ]


def test_longest_prefix_decides_abilities() -> None:
    row = rows_of({"images": False}, {"of": "vis", "images": True}, {"of": "vision-mini", "tools": False})["acme"]
    assert [accepts_images(row, model) for model in ("plain", "Vis-2", "vision-mini-2")] == [False, True, None]


@pytest.mark.parametrize(
    ("model", "base"),
    [("ft:gpt-5.1-2025-11-13:acme::b7", "gpt-5.1"), ("openai/ft:gpt-4.1-mini:acme", "gpt-4.1-mini"), ("FT:o3:x", "o3")],
)
def test_fine_tuned_model_has_base_abilities(model: str, base: str) -> None:
    assert (efforts_of(model), openai_holds(model)) == (efforts_of(base), openai_holds(base))
    assert infer(model.rpartition("/")[2]) == "openai"


def test_future_openai_models_reason() -> None:
    efforts: tuple[Effort, ...] = ("low", "medium", "high")
    assert efforts_of("o5") == efforts_of("o5-pro-2027-01-01".replace("-pro", "-mini")) == efforts
    assert openai_holds("o5-mini")
    assert infer("o5") == "openai"
    assert not efforts_of("olmo-3")


@pytest.mark.parametrize(
    "table",
    [{}, "prod", {"of": "x", "eyes": True}, {"of": 1}, {"efforts": ["hard"]}, {"efforts": "low"}, {"images": "no"}],
)
def test_empty_ability_is_refused(table: object) -> None:
    with pytest.raises(ConfigError, match="abilities: each is"):
        read_rows({"acme": {"base_url": URL, "abilities": [table]}}, "config.toml")


def test_rows_limit_single_model_claims() -> None:
    said = [able for row in built_in().values() for able in row.abilities]
    assert all(able == Abilities(able.of, audio=able.audio, tool_search=able.tool_search) for able in said)
