"""A typed function with a docstring is a tool: its signature the schema, its return value the result."""

import asyncio
import dataclasses
import datetime as dt
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from sagent import tools
from sagent.errors import ToolError
from sagent.lib.json import JsonObject, json_dump, json_thaw
from sagent.tool import Effect, RunContext, ToolOutput, foresee
from sagent.tools import FunctionTool, tool
from tests.chosen import entries


def text_of(output):
    return "".join(getattr(part, "text", "") for part in output.content)


class Point(BaseModel):
    x: int
    y: int = 0


@tool
async def weather(city: str, days: int = 1, unit: Literal["C", "F"] = "C", *, run: RunContext) -> str:
    """What the weather will be.

    Asks nobody.

    Args:
        city: where, in any language
            or script
        days (int): how many
    """
    return f"{run.agent}: {city} {days} {unit}"


@tool(name="Add", description="Adds points.", effect="none")
def add_points(
    points: list[Point], scale: Annotated[float, Field(gt=0, description="a factor")] = 1.0
) -> dict[str, float]:
    """Not shown."""
    assert threading.current_thread() is not threading.main_thread()
    return {"x": scale * sum(point.x for point in points), "y": scale * sum(point.y for point in points)}


def test_signature_becomes_the_schema() -> None:
    assert isinstance(weather, FunctionTool)
    assert (weather.name, weather.description) == ("weather", "What the weather will be.\n\nAsks nobody.")
    assert json_thaw(weather.parameters) == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "where, in any language or script"},
            "days": {"type": "integer", "default": 1, "description": "how many"},
            "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    assert (add_points.name, add_points.description) == ("Add", "Adds points.")
    assert '"a factor"' in json_dump(add_points.parameters)
    assert "title" not in json_dump(add_points.parameters)


async def test_tool_gets_typed_values_and_context(call) -> None:
    assert text_of(await call(weather, city="Köln", days="2")) == "root: Köln 2 C"
    assert text_of(await call(add_points, points=[{"x": 1}, {"x": 2, "y": 5}], scale=2)) == '{"x":6.0,"y":10.0}'


async def test_wrong_arguments_told_with_place(call) -> None:
    with pytest.raises(ToolError, match=r"points\.0\.x: .*, not 'a'"):
        await add_points(JsonObject({"points": (JsonObject({"x": "a"}),)}), None)  # pyright: ignore[reportCallIssue,reportArgumentType]
    with pytest.raises(ToolError, match=r"scale: .*greater than 0"):
        await add_points(JsonObject({"points": (), "scale": -1}), None)  # pyright: ignore[reportCallIssue,reportArgumentType]


async def test_any_json_may_be_returned(call) -> None:
    @dataclasses.dataclass
    class Found:
        when: dt.date

    results = [
        None,
        3,
        ["a", {"b": 1}],
        ("t",),
        Point(x=1),
        Found(dt.date(2026, 1, 2)),
        ToolOutput.of("as is"),
        "text",
    ]

    @tool(effect="none")
    async def give(index: int) -> object:
        """Give one."""
        return results[index]

    texts = [text_of(await call(give, index=index)) for index in range(len(results))]
    assert texts == ["null", "3", '["a",{"b":1}]', '["t"]', '{"x":1,"y":0}', '{"when":"2026-01-02"}', "as is", "text"]

    @tool
    async def odd() -> object:
        """Give what JSON has no word for."""
        return object()

    with pytest.raises(ToolError, match="cannot be written as JSON"):
        await call(odd)


async def test_pydantic_reserved_names_work(call) -> None:
    @tool
    async def odd(model_config: int, json: str, _private: bool = False) -> str:
        """Odd names.

        :param json: some text
        """
        return f"{model_config} {json} {_private}"

    assert text_of(await call(odd, model_config=1, json="x", _private=True)) == "1 x True"
    assert json_thaw(odd.parameters)["properties"]["json"]["description"] == "some text"  # pyright: ignore[reportArgumentType, reportCallIssue, reportIndexIssue, reportOptionalSubscript]


def test_effects_are_those_of_the_decorator(workspace) -> None:
    assert foresee(weather, JsonObject(), workspace) == Effect("execute")
    assert foresee(add_points, JsonObject(), workspace) == Effect("none")


def test_unusable_functions_are_refused_with_why() -> None:
    async def no_text(x: int) -> str:
        return ""

    async def no_type(x) -> str:
        """Text."""
        return ""

    async def unknown(x: "Nowhere") -> str:  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
        """Text."""
        return ""

    for function, said in ((no_text, "docstring"), (no_type, "annotation"), (unknown, "Nowhere")):
        with pytest.raises(TypeError, match=said):
            tool(function)


def test_tools_load_lazily_and_stay_small() -> None:
    script = (
        "import sys\nfrom sagent import tools\nprint(tools.Read().name)\n"
        "loaded = {name for name in sys.modules if name.startswith('sagent.tools.')}\n"
        "assert loaded == {'sagent.tools.read'}, loaded\n"
        "assert not {'pydantic', 'difflib', 'pypdfium2', 'pathspec'} & set(sys.modules)\n"
        "tools.coding_tools()\n"
        "assert not {'pydantic', 'difflib', 'pypdfium2', 'pathspec', 'tempfile'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("Read\n", 0), done.stderr
    everything = (*tools.coding_tools(), *tools.agent_tools())
    assert [item.name for item in everything] == [entry.name for entry in entries("default")]
    described = [
        {"name": item.name, "description": item.description, "input_schema": item.parameters} for item in everything
    ]
    assert len(json_dump(described)) < 7000
    with pytest.raises(AttributeError, match="no attribute 'Nope'"):
        _ = tools.Nope


async def test_yielded_values_return_as_list(call) -> None:
    here = threading.get_ident()

    @tool(effect="none")
    def countdown(start: int) -> Iterator[bool]:
        """Count down, elsewhere than where others wait."""
        yield from (threading.get_ident() == here for _ in range(start))

    @tool(effect="none")
    async def count(end: int) -> AsyncIterator[int]:
        """Count."""
        for number in range(end):
            yield number

    assert text_of(await call(countdown, start=2)) == "[false,false]"
    assert text_of(await call(count, end=3)) == "[0,1,2]"


async def test_function_raising_stopiteration_fails(call) -> None:
    @tool(effect="none")
    def first(of: list[int]) -> int:
        """The first."""
        return next(iter(of))

    async with asyncio.timeout(60):
        with pytest.raises(RuntimeError, match="the function raised StopIteration"):
            await call(first, of=[])
