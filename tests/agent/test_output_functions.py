"""Answers that a function of the program makes of the model's arguments, and answers of one of several types."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
from pydantic import BaseModel

from sagent import Agent, ToolError, UsageError
from sagent.agent.output import output_of
from sagent.events import Finished
from sagent.lib.json import JsonObject, as_object
from sagent.messages import ToolCall
from sagent.testing import ScriptedModel


class City(BaseModel):
    name: str


class Refusal(BaseModel):
    """No city was found."""

    reason: str


@dataclass
class Atlas:
    """Where cities are looked up; `asked` has each name that was."""

    asked: list[str]

    def find(self, name: str) -> City:
        """Look up a city."""
        self.asked.append(name)
        if name == "Atlantis":
            raise ToolError("There is no Atlantis: give a city that exists.")
        return City(name=name.upper())

    async def find_later(self, name: str) -> City:
        return self.find(name)


def join(words: list[str], *, mark: str) -> str:
    return mark.join(words)


ATLANTIS, BERN = '{"name": "Atlantis"}', '{"name": "Bern"}'


@pytest.mark.parametrize("name", ["find", "find_later"])
async def test_function_makes_data_and_is_called_once(name: str) -> None:
    atlas = Atlas([])
    async with Agent(ScriptedModel(f"Here it is:\n```json\n{BERN}\n```\n{BERN}")) as agent:
        form: Callable[[str], object] = getattr(atlas, name)
        result = await agent.run("Which city?", output=form)
    assert (result.data, result.error, atlas.asked) == (City(name="BERN"), None, ["Bern"])


async def test_tool_error_asks_model_again_in_same_run() -> None:
    atlas, model = Atlas([]), ScriptedModel(ATLANTIS, BERN)
    async with Agent(model) as agent:
        result = await agent.run("Which city?", output=atlas.find)
    assert result.data is not None and result.data.name == "BERN" and result.turns == 2
    assert atlas.asked == ["Atlantis", "Bern"]
    assert "give a city that exists" in model.requests[-1].messages[-1].content


async def test_second_tool_error_is_invalid_output() -> None:
    async with Agent(ScriptedModel(ATLANTIS, ATLANTIS, "Hello.")) as agent:
        result = await agent.run("Which city?", output=Atlas([]).find)
        assert result.data is None and result.error is not None and result.error.kind == "invalid_output"
        assert "no Atlantis" in result.error.message and result.content == ATLANTIS
        assert (await agent.run("Go on.")).content == "Hello."


async def test_other_errors_are_the_programs_own() -> None:
    def fail(name: str) -> str:
        raise LookupError(name)

    async with Agent(ScriptedModel(BERN, "Hello.")) as agent:
        with pytest.raises(LookupError):
            await agent.run("Which city?", output=fail)
        assert (await agent.run("Go on.")).content == "Hello."  # the agent has not been left in the middle


async def test_wrong_arguments_never_reach_function() -> None:
    atlas = Atlas([])
    async with Agent(ScriptedModel('{"name": 5}', '{"title": "Bern"}')) as agent:
        result = await agent.run("Which city?", output=atlas.find)
    assert result.error is not None and result.error.kind == "invalid_output" and atlas.asked == []


async def test_function_runs_after_tools_and_in_a_stream() -> None:
    def look() -> str:
        """Look around."""
        return "Bern"

    model = ScriptedModel(
        (ToolCall("1", "look"),), lambda request: f'{{"name": "{request.messages[-1].results[0].text}"}}'
    )
    async with Agent(model, tools=[look]) as agent:
        events = [event async for event in agent.stream("Which city?", output=Atlas([]).find)]
    assert isinstance(last := events[-1], Finished) and last.result.data == City(name="BERN")


def test_what_a_partial_binds_is_not_the_models() -> None:
    form = output_of(partial(join, mark="-"))
    assert {*as_object(form.schema["properties"])} == {"words"}
    with pytest.raises(ValueError, match="mark"):
        form.find('{"words": ["a"], "mark": "+"}')


def test_docstring_describes_function() -> None:
    assert output_of(Atlas([]).find).schema["description"] == "Look up a city."
    assert "description" not in output_of(join).schema


@pytest.mark.parametrize("form", [[City, Refusal], (City, Refusal), City | Refusal])
@pytest.mark.parametrize(("text", "data"), [(BERN, City(name="Bern")), ('{"reason": "sea"}', Refusal(reason="sea"))])
async def test_answer_is_one_of_several_types(form: object, text: str, data: object) -> None:
    model = ScriptedModel(text)
    async with Agent(model) as agent:
        result = await agent.run("Which city?", output=form)
    assert result.data == data
    assert "No city was found." in str(model.requests[0].output_schema)


async def test_functions_and_types_mix_in_a_list() -> None:
    atlas = Atlas([])
    async with Agent(ScriptedModel('{"value": {"reason": "sea"}}', '{"value": {"name": "Bern"}}')) as agent:
        form = [atlas.find, Refusal]
        assert (await agent.run("Which city?", output=form)).data == Refusal(reason="sea")
        assert (await agent.run("Which city?", output=form)).data == City(name="BERN")


UNKNOWN: list[object] = [[], [City, 5], lambda: 5, print, "NoSuchType", 5, City(name="a")]


@pytest.mark.parametrize("form", UNKNOWN)
async def test_what_cannot_be_asked_for_is_said(form: object) -> None:
    async with Agent(ScriptedModel()) as agent:
        with pytest.raises(UsageError, match=r"^output: .* a function whose parameters are such types"):
            await agent.run("Which city?", output=form)


async def test_name_of_a_type_is_a_type() -> None:
    async with Agent(ScriptedModel("5")) as agent:
        assert (await agent.run("How many?", output="int")).data == 5


@pytest.mark.parametrize("prompt", ["", " \n", {"prompt": ""}])
async def test_empty_prompt_is_refused(prompt: str | dict[str, object]) -> None:
    async with Agent(ScriptedModel()) as agent:
        with pytest.raises(UsageError, match="the prompt is empty"):
            await agent.run(prompt)
        assert agent.messages == ()


async def test_dependencies_need_no_declared_type() -> None:
    async with Agent(ScriptedModel("Hello.")) as agent:
        assert (await agent.run("Hello.", deps=JsonObject({"name": "Ann"}))).content == "Hello."
