"""An answer as data: told, found among words, checked, repaired once; and what happens where it is none."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, RootModel
from typing_extensions import TypedDict

from sagent.agent import Agent, Resources, RunLimits
from sagent.agent.output import output_of
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import BudgetExceeded, ModelError, UsageError
from sagent.events import Event, Finished, Notice, Result
from sagent.lib.json import JsonObject, as_object, json_freeze_object, json_thaw
from sagent.messages import Message, Text, ToolCall, assistant, user
from sagent.model import Delta, Reply, Request
from sagent.peer import Compact, Switch
from sagent.policy import Turn
from sagent.session.entries import read_body
from sagent.session.log import MemoryLog
from sagent.testing import ScriptedModel
from sagent.tools import tool
from sagent.transcript.event_json import encode_event, encode_result
from sagent.usage import Usage
from tests.depth import deep


class City(BaseModel):
    """A city."""

    name: str
    people: int = Field(ge=0, description="inhabitants")
    founded: date | None = None


@dataclass
class Point:
    x: int
    y: int = 0


class Row(TypedDict):
    id: int
    tags: list[str]


class Node(BaseModel):
    name: str
    below: "list[Node]" = []


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


class Mixed(BaseModel):
    mood: Mood
    where: Point
    nodes: set[str] | list[Node]
    city: City


BERN = City(name="Bern", people=134_794)
BERN_TEXT = '{"name": "Bern", "people": 134794}'


class Native(ScriptedModel):
    """A model whose provider holds answers to schemas, unless there are tools of a name it does not like."""

    def structures(self, request: Request) -> bool:
        return request.output_schema is not None


def said(request: Request) -> list[str]:
    return [message.content for message in request.messages]


async def ask(model: ScriptedModel, output: object, prompt: str = "Tell.") -> Result:
    agent = Agent(model)
    result = await agent.run(prompt, output=output)
    await agent.aclose()
    return result


async def test_model_class() -> None:
    model = ScriptedModel(BERN_TEXT)
    result = await ask(model, City)
    assert result.data == BERN and result.content == BERN_TEXT
    assert not result.is_error and result.turns == 1 and result.stop_reason == "end"


@pytest.mark.parametrize(
    ("form", "text", "data"),
    [
        (Point, '{"x": 1}', Point(1)),
        (Row, '{"id": 1, "tags": ["a"]}', {"id": 1, "tags": ["a"]}),
        (Node, '{"name": "a", "below": [{"name": "b", "below": []}]}', Node(name="a", below=[Node(name="b")])),
        (list[int], '{"value": [1, 2]}', [1, 2]),
        (list[int], "[1, 2]", [1, 2]),
        (list[Point], '[{"x": 1}, {"x": 2}]', [Point(1), Point(2)]),
        (dict[str, int], '{"value": 1}', {"value": 1}),
        (int | None, '{"value": null}', None),
        (Literal["yes", "no"], "yes", "yes"),
        (Literal["yes", "no"], '{"value": "no"}', "no"),
        (Mood, "good", Mood.GOOD),
        (bool, "true", True),
        (Decimal, '{"value": "1.5"}', Decimal("1.5")),
        (City | Point, '{"value": {"x": 3, "y": 4}}', Point(3, 4)),
        (RootModel[list[int]], "[1]", RootModel[list[int]]([1])),
        (str, "just words", "just words"),
        ({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, '{"n": "5"}', {"n": 5}),
        ({"type": "array", "items": {"type": "string"}}, '["a"]', ["a"]),
        (json_freeze_object({"enum": ["a", 1]}), "1", 1),
    ],
)
async def test_any_pydantic_type_or_plain_schema(form: object, text: str, data: object) -> None:
    result = await ask(ScriptedModel(text), form)
    assert (result.data, result.error, result.turns) == (data, None, 1)
    assert type(result.data) is type(data)


@pytest.mark.parametrize(
    "form",
    [BERN, "City", 5, lambda: None, {"type": {1, 2}}, {1: 2}, type("Odd", (), {}), dataclass(type("Told", (), {}))()],
)
async def test_unaskable_output_is_refused(form: object) -> None:
    model = ScriptedModel("never")
    agent = Agent(model)
    with pytest.raises(UsageError, match=r"^output: "):
        await agent.run("Tell.", output=form)
    assert not model.requests and not agent.messages and not agent.running


async def test_typed_dict_says_what_to_do() -> None:
    from typing import TypedDict as Old

    class Plain(Old):
        a: int

    if sys.version_info >= (3, 12):
        assert (await ask(ScriptedModel('{"a": 1}'), Plain)).data == {"a": 1}
    else:
        with pytest.raises(UsageError, match="typing_extensions"):
            await ask(ScriptedModel(), Plain)


# ---------------------------------------------------------------------------------------------------------------------
# Told or held


async def test_schema_follows_prompt_not_system() -> None:
    model = ScriptedModel(BERN_TEXT, "Anything.")
    agent = Agent(model, system="Be brief.")
    await agent.run("Tell.", output=City)
    prompt, told = model.requests[0].messages
    assert prompt.content == "Tell." and told.role == "user" and told.sender == "sagent"
    schema = json.loads(told.content[told.content.index("{") :])
    assert schema["properties"]["people"]["description"] == "inhabitants"
    sent = model.requests[0].output_schema
    assert sent is not None and json_thaw(sent) == schema
    await agent.run("And now in words.")
    assert model.requests[1].system == "Be brief." and model.requests[1].output_schema is None
    assert model.requests[1].messages[:3] == agent.messages[:3], "history only grows"


async def test_enforcing_provider_is_told_nothing() -> None:
    model = Native(BERN_TEXT)
    assert (await ask(model, City)).data == BERN
    assert said(model.requests[0]) == ["Tell."]
    assert as_object(model.requests[0].output_schema).get("type") == "object"


@pytest.mark.parametrize("kind", [ScriptedModel, Native])
async def test_tools_are_used_before_the_answer(kind: type[ScriptedModel]) -> None:
    @tool
    async def look_up(name: str) -> str:
        """Look up a city."""
        return f"{name}: 134794"

    call = ToolCall("a", "look_up", json_freeze_object({"name": "Bern"}))
    model = kind(Message("assistant", (Text("Let me look."), call)), BERN_TEXT)
    agent = Agent(model, tools=[look_up])
    result = await agent.run("Tell.", output=City)
    assert result.data == BERN and result.turns == 2
    assert all(request.output_schema for request in model.requests)


# ---------------------------------------------------------------------------------------------------------------------
# Found among words


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{BERN_TEXT}\n```",
        f"```\n{BERN_TEXT}```",
        f"Here it is:\n\n```json\n{BERN_TEXT}\n```\nAnything else?",
        f"Sure! {BERN_TEXT} That is all.",
        f"First {{x}}, then [1, 2], like {{'name': 'no'}}: {BERN_TEXT}",
        f'A draft is {{"name": "Bern", "people": 1}}.\nThe answer is {BERN_TEXT}',
        f"\ufeff  {BERN_TEXT}\n",
        "<answer>" + BERN_TEXT + "</answer>",
    ],
)
async def test_answer_among_words_is_found(text: str) -> None:
    result = await ask(ScriptedModel(text), City)
    assert (result.data, result.turns) == (BERN, 1)


async def test_raw_line_ends_in_strings_are_read() -> None:
    result = await ask(ScriptedModel('{"name": "Be\nrn", "people": 1}'), City)
    assert result.data == City(name="Be\nrn", people=1)


HOSTILE = [
    "[" * 50_000,
    "{" * 50_000,
    '{"a":' * 5_000,
    '{"people": 1e999, "name": "x"}',
    '{"people": NaN}',
    '"\\ud800"',
]


@pytest.mark.parametrize("text", [*HOSTILE, "1" * 5_000, "", " \n", "```json\n```"], ids=range(10))
@pytest.mark.parametrize("form", [City, {"type": "object", "required": ["name"]}], ids=["type", "schema"])
def test_answer_search_takes_any_text(text: str, form: object) -> None:
    output = output_of(form)
    found: object = None
    with contextlib.suppress(ValueError):
        found = output.find(text)
    assert found is None or (isinstance(found, dict) and "name" in found)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=12,
    ),
    st.sampled_from(["{}", "```json\n{}\n```", "So:\n```\n{}\n```\n", "It is {} ."]),
)
@settings(max_examples=deep(60, 150), deadline=None)
def test_any_value_is_found_in_any_wrapping(value: object, around: str) -> None:
    output = output_of(json_freeze_object({"type": "object", "properties": {"it": {}}, "required": ["it"]}))
    text = around.replace("{}", json.dumps({"it": value}))
    assert output.find(text) == {"it": value}


# ---------------------------------------------------------------------------------------------------------------------
# Repaired once


@pytest.mark.parametrize("kind", [ScriptedModel, Native])
async def test_unfit_answer_is_asked_again_once(kind: type[ScriptedModel]) -> None:
    model = kind('{"name": "Bern", "people": -1}', BERN_TEXT)
    agent = Agent(model)
    events = [event async for event in agent.stream("Tell.", output=City)]
    assert isinstance(events[-1], Finished)
    result = events[-1].result
    assert (result.data, result.error, result.turns) == (BERN, None, 2)
    repair = model.requests[1].messages[-1]
    assert repair.role == "user" and "people: Input should be" in repair.content
    assert "founded" not in repair.content, "the schema was told already, or the provider holds to it"
    first = tuple(model.requests[0].messages)
    assert tuple(model.requests[1].messages)[: len(first)] == first, "in the same conversation"
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert len(notices) == 1 and "people" in notices[0]


async def test_second_unfit_answer_is_told_and_kept() -> None:
    log = MemoryLog()
    model = ScriptedModel("No.", "Never.")
    agent = Agent(model, resources=Resources(log=log))
    result = await agent.run("Tell.", output=City)
    assert result.data is None and result.content == "Never." and result.turns == 2 and result.usage.output > 0
    assert result.error is not None and result.error.kind == "invalid_output" and "no JSON" in result.error.message
    assert [read_body(entry)["kind"] for entry in log.entries() if entry.kind == "failed"] == ["invalid_output"]
    shown = encode_result(result)
    assert shown["is_error"] is True and "data" not in shown
    log.close()


async def test_all_faults_are_told_boundedly() -> None:
    wrong = json.dumps({"items": [{"x": "no"} for _ in range(30)]})
    schema = {
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}}
        },
    }
    for form in (schema, RootModel[list[Point]]):
        model = ScriptedModel(wrong if form is schema else json.dumps(json.loads(wrong)["items"]), "{}")
        await ask(model, form)
        repair = model.requests[1].messages[-1].content
        assert "and 20 more" in repair and len(repair) < 3_000


async def test_own_validator_may_raise_anything() -> None:
    def look(value: str) -> str:
        return {"Bern": "BE"}[value]

    form = RootModel[dict[str, Annotated[str, AfterValidator(look)]]]
    model = ScriptedModel('{"a": "Basel"}', '{"a": "Bern"}')
    result = await ask(model, form)
    assert result.data == RootModel[dict[str, str]]({"a": "BE"}) or getattr(result.data, "root", None) == {"a": "BE"}
    assert "KeyError: 'Basel'" in model.requests[1].messages[-1].content


async def test_fallback_model_is_told_the_schema() -> None:
    down = ModelError("overloaded", "busy", provider="first", model="m", retry_after=0.0)
    first = Native(down, provider="first", model_id="m")
    second = ScriptedModel("It is Bern.", BERN_TEXT, provider="second", model_id="m")
    agent = Agent(first, limits=RunLimits(max_retries=0), resources=Resources(fallbacks=[second]))
    result = await agent.run("Tell.", output=City)
    assert result.data == BERN and said(second.requests[0]) == ["Tell."]
    assert '"inhabitants"' in second.requests[1].messages[-1].content


async def test_turn_limit_holds_for_the_repair() -> None:
    agent = Agent(ScriptedModel("No.", "never said"), limits=RunLimits(max_turns=1))
    result = await agent.run("Tell.", output=City)
    assert result.error is not None and (result.error.kind, result.data, result.content) == ("max_turns", None, "No.")


@pytest.mark.parametrize("stop", ["max_tokens", "refusal", "content_filter"])
async def test_other_stop_reasons_stay(stop: Literal["max_tokens", "refusal", "content_filter"]) -> None:
    for script in ([assistant('{"na', stop=stop)], ["No.", assistant('{"na', stop=stop)]):
        model = ScriptedModel(*script)
        result = await ask(model, City)
        assert result.error is not None and (result.error.kind, result.stop_reason, result.data) == (stop, stop, None)
        assert len(model.requests) == len(script)


async def test_stop_sequence_end_is_an_answer() -> None:
    assert (await ask(ScriptedModel(assistant(BERN_TEXT, stop="stop_sequence")), City)).data == BERN


async def test_errors_raise_and_next_run_is_plain() -> None:
    model = ScriptedModel(ModelError("auth", "bad key", provider="p"), "Fine.")
    agent = Agent(model)
    with pytest.raises(ModelError, match="bad key"):
        await agent.run("Tell.", output=City)
    result = await agent.run("Again.")
    assert result.content == "Fine." and result.data is None and model.requests[-1].output_schema is None


async def test_no_repair_beyond_the_cap() -> None:
    prices = PriceBook({"scripted/scripted": {"input": 1, "output": 1}})
    model = ScriptedModel(("No.", Usage(4_000, 300)), "never said")
    ledger = Ledger(Decimal("0.0045"), prices)
    agent = Agent(model, resources=Resources(ledger=ledger))
    with pytest.raises(BudgetExceeded):
        await agent.run("Tell.", output=City)
    assert len(model.requests) == 1 and ledger.cost().total == Decimal("0.0043")
    assert agent.messages[2].content == "No."


async def test_interrupt_ends_structured_run() -> None:
    model = ScriptedModel("No.", ("half", float("inf")), "Fine.")
    agent = Agent(model)
    running = asyncio.create_task(agent.run("Tell.", output=City))
    while len(model.requests) < 2:
        await asyncio.sleep(0)
    agent.interrupt()
    result = await running
    assert result.error is not None and result.error.kind == "interrupted" and result.data is None
    assert (await agent.run("Go on.")).content == "Fine." and model.requests[-1].output_schema is None


# ---------------------------------------------------------------------------------------------------------------------
# Refused


def refusal(words: str = "output_config.format.schema: too complex") -> ModelError:
    return ModelError("invalid_request", words, provider="p", model="m", status=400)


async def test_refused_schema_is_told_in_words() -> None:
    model = Native(refusal(), "No.", BERN_TEXT)
    agent = Agent(model)
    events: list[Event] = []
    agent.listen(events.append)
    result = await agent.run("Tell.", output=City)
    assert result.data == BERN
    assert [request.output_schema is None for request in model.requests] == [False, True, True]
    assert "inhabitants" in said(model.requests[1])[1] and "inhabitants" not in said(model.requests[2])[-1]
    assert any(isinstance(event, Notice) and "too complex" in event.text for event in events)


@pytest.mark.parametrize("error", [refusal("max_tokens: too large"), ModelError("auth", "schema", provider="p")])
async def test_other_refusals_keep_the_schema(error: ModelError) -> None:
    model = Native(error, "never said")
    with pytest.raises(ModelError) as caught:
        await ask(model, City)
    assert caught.value is error and len(model.requests) == 1


async def test_twice_refused_schema_is_raised() -> None:
    model = Native(refusal(), refusal("tools.0: schema is bad"))
    with pytest.raises(ModelError, match="is bad"):
        await ask(model, City)


# ---------------------------------------------------------------------------------------------------------------------
# Beside the rest


async def test_clearing_keeps_request_and_schema() -> None:
    class Clear:
        async def before_tool(self, *_: object) -> object:
            from sagent.policy import Allow

            return Allow()

        async def after_turn(self, turn: Turn) -> list[Compact]:
            return [Compact(clear=True)] if turn.results else []

    @tool
    async def wait() -> str:
        """Wait."""
        return "done"

    model = ScriptedModel(Message("assistant", (ToolCall("a", "wait", JsonObject()),)), BERN_TEXT)
    agent = Agent(model, tools=[wait], policy=Clear())  # pyright: ignore[reportArgumentType]
    result = await agent.run("Tell.", output=City)
    assert result.data == BERN
    assert said(model.requests[1])[0] == "Tell." and "inhabitants" in said(model.requests[1])[1]


async def test_switch_during_structured_run() -> None:
    second = ScriptedModel("Words.", BERN_TEXT, provider="second", model_id="m")

    @tool
    async def switch() -> str:
        """Switch."""
        agent.apply(Switch(model="second/m"))
        return "done"

    first = Native(Message("assistant", (ToolCall("a", "switch", JsonObject()),)))
    agent = Agent(first, tools=[switch], resources=Resources(resolve=lambda _: second))
    assert (await agent.run("Tell.", output=City)).data == BERN
    assert "inhabitants" in second.requests[1].messages[-1].content


def test_run_sync() -> None:
    assert Agent(ScriptedModel(BERN_TEXT)).run_sync("Tell.", output=City).data == BERN


async def test_data_as_json() -> None:
    @dataclass
    class Odd:
        when: date
        price: Decimal
        rest: Mapping[str, object] = field(default_factory=dict[str, object])

    result = await ask(ScriptedModel('{"when": "2026-11-22", "price": "1.50", "rest": {"a": [1]}}'), Odd)
    shown = encode_result(result)
    assert json.loads(json.dumps(shown["data"])) == {"when": "2026-11-22", "price": "1.50", "rest": {"a": [1]}}
    mixed = await ask(
        ScriptedModel('{"mood": "bad", "where": {"x": 1}, "nodes": [{"name": "a"}], "city": ' + BERN_TEXT + "}"), Mixed
    )
    assert encode_result(mixed)["data"] == {
        "mood": "bad",
        "where": {"x": 1, "y": 0},
        "nodes": [{"name": "a", "below": []}],
        "city": {"name": "Bern", "people": 134_794, "founded": None},
    }
    assert encode_event(Finished("root", result))["data"] == shown["data"]
    assert encode_result(Result("", (), "end", data=object()))["data"].startswith("<object")
    assert encode_result(Result("", (), "end", data=b"\xff"))["data"]
    assert encode_result(Result("", (), "end", data=Decimal("NaN")))["data"] == "NaN"
    assert encode_result(Result("", (), "end", data=Point(float("nan"))))["data"] == {"x": None, "y": 0}  # pyright: ignore[reportArgumentType]
    assert encode_result(Result("", (), "end", data={"a": "\ud800"}))["data"] == {"a": "\ud800"}


async def test_model_without_schema_support_works() -> None:
    class Bare:
        provider, id, limits = "p", "m", ScriptedModel().limits

        def __init__(self) -> None:
            self.inner = ScriptedModel(BERN_TEXT)

        def max_input_tokens(self, request: Request) -> int:
            return self.inner.max_input_tokens(request)

        def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
            return self.inner.stream(request)

    result = await Agent(Bare()).run(user("Tell."), output=City)
    assert result.data == BERN
