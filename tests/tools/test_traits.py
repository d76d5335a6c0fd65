"""What a tool says of itself: `quick`, `lenient` and `deferrable`."""

from collections.abc import Mapping

import pytest

from sagent.agent import Agent
from sagent.engine.context import specs_of
from sagent.errors import UsageError
from sagent.lib.json import JsonObject, as_object, json_freeze_object
from sagent.messages import ToolCall
from sagent.model import ToolSpec
from sagent.testing import ScriptedModel
from sagent.tool import RunContext, Traits, arguments_schema, traits_of
from sagent.tools import BackgroundTask, Read, tool
from sagent.tools.wrapped import WrappedTool


class Foreign:
    """A tool as somebody writes it who knows the protocol alone."""

    name, description = "foreign", "Does something."
    parameters = arguments_schema("stage", stage={"type": "string"})

    def __init__(self) -> None:
        self.given: list[Mapping[str, object]] = []

    async def __call__(self, arguments: JsonObject, run: RunContext) -> str:
        self.given.append(dict(arguments))
        return "done"


class Quick(Foreign):
    quick = True


class Lenient(Foreign):
    lenient = True


class OfAnySchema(Foreign):
    lenient = "schema"


class Deferrable(Foreign):
    deferrable = True
    description = "Does something. " * 200


class Along(Deferrable):
    name, deferrable = "along", "along"


def spec(*tools: Foreign | BackgroundTask) -> ToolSpec:
    return specs_of(tools)[-1]


def properties(shown: ToolSpec) -> set[str]:
    return {*as_object(shown.parameters.get("properties"))}


def test_default_traits_are_false() -> None:
    assert traits_of(Foreign()) == Traits() == Traits(quick=False, lenient=False, deferrable=False)
    assert traits_of(tool(lambda: "x", name="it", description="An it.")) == Traits()


def test_traits_of_wrapped_tool_are_told() -> None:
    assert traits_of(Read()).quick
    assert traits_of(WrappedTool(Lenient())) == Traits(lenient=True)
    assert traits_of(Along()).deferrable == "along"


def test_only_slow_calls_may_become_jobs() -> None:
    assert properties(spec(BackgroundTask(), Foreign())) == {"stage", "background", "delay"}
    assert properties(spec(BackgroundTask(), Quick())) == {"stage"}
    assert properties(spec(Foreign())) == {"stage"}


BAD = {"stage": 3, "more": True}


@pytest.mark.parametrize(("kind", "given"), [(Foreign, []), (Lenient, [BAD, {}]), (OfAnySchema, [BAD])])
async def test_only_lenient_tool_gets_bad_arguments(kind: type[Foreign], given: list[object]) -> None:
    used = kind()
    used.parameters = json_freeze_object({**used.parameters, "properties": {"stage": {"enum": ["a"]}}})
    calls = (
        ToolCall("1", "foreign", json_freeze_object(BAD)),
        ToolCall("2", "foreign", malformed='{"stage": "/ho'),
    )
    async with Agent(ScriptedModel(calls, "ok"), tools=[used]) as agent:
        await agent.run("go")
    assert used.given == given


@pytest.mark.parametrize(
    ("trait", "value"),
    [("quick", "yes"), ("lenient", 1), ("deferrable", "always"), ("quick", "along")],
)
def test_other_trait_value_refused_by_name(trait: str, value: object) -> None:
    wrong = Foreign()
    setattr(wrong, trait, value)
    with pytest.raises(UsageError, match=rf"foreign\.{trait} is "):
        Agent(ScriptedModel(), tools=[wrong])
