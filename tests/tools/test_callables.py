"""Whatever Python can call is a tool, by `tools=[...]` and by `tool`, or the error says what to write."""

import asyncio
import dataclasses
import datetime as dt
import enum
import functools
import math
import operator
import types
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import lazily_annotated
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict, Unpack

from sagent import Agent, UsageError
from sagent.agent.resources import tools_of
from sagent.lib.json import EMPTY, JsonObject, as_object, json_dump
from sagent.messages import Image, Text, ToolCall
from sagent.session.blobs import BlobDirectory
from sagent.testing.scripted import ScriptedModel
from sagent.tool import RunContext, ToolOutput
from sagent.tools import FunctionTool, tool


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


async def add_later(a: int, b: int = 2) -> int:
    """Add two numbers."""
    await asyncio.sleep(0)
    return a + b


def decorated(function: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(function)
    def called(*args: object, **kwargs: object) -> object:
        return function(*args, **kwargs)

    return called


class Adder:
    """An adder."""

    def __call__(self, a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b


@functools.singledispatch
def dispatched(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


class LateAdder:
    async def __call__(self, a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b


class Kit:
    start = 10

    def method(self, a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @classmethod
    def of_class(cls, a: int, b: int = 2) -> int:
        """Add two numbers."""
        assert cls.start == 10
        return a + b

    @staticmethod
    def static(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @tool
    @classmethod
    def tool_above_class(cls, a: int, b: int = 2) -> int:
        """Add two numbers."""
        assert cls.start == 10
        return a + b

    @classmethod
    @tool
    def tool_below_class(cls, a: int, b: int = 2) -> int:
        """Add two numbers."""
        assert cls.start == 10
        return a + b

    @tool
    @staticmethod
    def tool_above_static(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @staticmethod
    @tool
    def tool_below_static(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b


def by_place(a: int, b: int = 2, /) -> int:
    """Add two numbers."""
    return a + b


def keywords(*, b: int = 2, a: int) -> int:
    """Add two numbers."""
    return a + b


def generated(a: int, b: int = 2) -> Iterator[int]:
    """Add two numbers."""
    yield a + b


async def generated_later(a: int, b: int = 2) -> AsyncIterator[int]:
    """Add two numbers."""
    yield a + b


def sum_of_three(first: int, a: int, b: int = 2) -> int:
    """Add two numbers."""
    return first + a + b


class StaticAdder:
    @staticmethod
    def __call__(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b


class ClassAdder:
    @classmethod
    def __call__(cls, a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b


SUMS: dict[str, Any] = {
    "object with a static call": StaticAdder(),
    "object with a call of its class": ClassAdder(),
    "partial of an object with a static call": functools.partial(StaticAdder(), b=2),
    "function": add,
    "async": add_later,
    "wrapped": decorated(add),
    "wrapped async": decorated(add_later),
    "cached": functools.cache(add),
    "partial": functools.partial(add),
    "partial by place": functools.partial(sum_of_three, 0),
    "partial async": functools.partial(add_later, b=2),
    "object": Adder(),
    "async object": LateAdder(),
    "bound method": Kit().method,
    "class method": Kit.of_class,
    "class method of an object": Kit().of_class,
    "static method": Kit.static,
    "@tool @classmethod": Kit.tool_above_class,
    "@classmethod @tool": Kit.tool_below_class,
    "@tool @staticmethod": Kit.tool_above_static,
    "@staticmethod @tool": Kit.tool_below_static,
    "by place alone": by_place,
    "singledispatch": dispatched,
    "by name alone": keywords,
    "annotations as text": lazily_annotated.add,
    "annotations as text, locally": lazily_annotated.make(),
    "annotations as text, of an object": lazily_annotated.Adder(),
}


@pytest.mark.parametrize("given", SUMS.values(), ids=SUMS)
async def test_callables_are_tools(given: Any, call: Any) -> None:
    for made in (tools_of([given])[0], tool(given) if not hasattr(given, "parameters") else tools_of([given])[0]):
        assert made.description.startswith("Add two numbers.")
        assert (await call(made, a=3)).content == (Text("5"),)


@pytest.mark.parametrize("given", [generated, generated_later])
async def test_generators_give_lists(given: Any, call: Any) -> None:
    assert (await call(tools_of([given])[0], a=3)).content == (Text("[5]"),)


async def test_agent_calls_callables() -> None:
    asked = (ToolCall("1", "Adder", {"a": 1}), ToolCall("2", "of_class", {"a": 2}), ToolCall("3", "add", {"a": 3}))
    async with Agent(ScriptedModel(asked, "done"), tools=[Adder(), Kit.of_class, functools.partial(add, b=4)]) as agent:
        await agent.run("go")
        assert [result.text for message in agent.messages for result in message.results] == ["3", "4", "7"]


async def test_partial_arguments_are_not_shown(call: Any) -> None:
    def send(text: str, key: str, to: str = "ann") -> str:
        """Send a text."""
        return f"{text} {key} {to}"

    made = tool(functools.partial(send, key="secret"))
    assert "secret" not in json_dump(made.parameters)
    assert [*as_object(made.parameters["properties"])] == ["text", "to"]
    assert (await call(made, text="hi")).content == (Text("hi secret ann"),)


class Options(TypedDict, total=False):
    depth: int


async def test_rest_arguments(call: Any) -> None:
    def join(first: str, *rest: str, sep: str = "-", **more: int) -> str:
        """Join texts."""
        return sep.join([first, *rest, *(f"{name}={value}" for name, value in more.items())])

    def search(word: str, **options: Unpack[Options]) -> str:
        """Search."""
        return f"{word} {options}"

    made = tool(join)
    assert (await call(made, first="a")).content == (Text("a"),)
    assert (await call(made, first="a", rest=["b", "c"], sep="+", more={"n": 1})).content == (Text("a+b+c+n=1"),)
    assert (await call(tool(search), word="x", options={"depth": 2})).content == (Text("x {'depth': 2}"),)


async def test_context_may_be_any_parameter(call: Any) -> None:
    def place(run: RunContext, a: int, /) -> str:
        """Tell the place."""
        return f"{run.agent} {a}"

    def late(a: int, *rest: int, run: RunContext) -> str:
        """Tell the place."""
        return f"{run.agent} {a} {rest}"

    assert (await call(tool(place), a=1)).content == (Text("root 1"),)
    assert (await call(tool(late), a=1, rest=[2])).content == (Text("root 1 (2,)"),)
    assert (await call(tool(functools.partial(late, 7)))).content == (Text("root 7 ()"),)


MISSING: Any = object()


async def test_odd_defaults(call: Any) -> None:
    def odd(
        mark: int = MISSING,
        far: float = math.inf,
        kinds: set[int] = {1},  # noqa: B006 -- an odd one
        raw: bytes = b"\xff",
        late: str = None,  # type: ignore[assignment]  # noqa: RUF013
        days=3,
    ) -> str:
        """Use odd defaults."""
        return f"{mark is MISSING} {far} {kinds} {raw!r} {late} {days}"

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = tool(odd)
    assert "required" not in made.parameters
    json_dump(made.parameters)
    assert (await call(made)).content == (Text(r"True inf {1} b'\xff' None 3"),)
    assert (await call(made, late=None, days="4", mark=1)).content == (Text(r"False inf {1} b'\xff' None 4"),)


class Mood(enum.Enum):
    GOOD = "good"


class Place(TypedDict):
    city: str


class Point(BaseModel):
    x: int


@dataclasses.dataclass
class Size:
    """Make a size."""

    w: int
    h: int = 1


class Pair(NamedTuple):
    """Make a pair."""

    a: int
    b: str = "b"


async def test_types_of_parameters(call: Any) -> None:
    def all_of(
        mood: Mood,
        place: Place,
        point: Point,
        size: Size,
        day: dt.date,
        at: dt.datetime,
        path: Path,
        raw: bytes,
        unit: Literal["C", "F"],
        maybe: int | None,
        scale: Annotated[float, Field(gt=0)],
        pair: tuple[int, str],
    ) -> str:
        """Take all of them."""
        return f"{mood} {place} {point.x} {size} {day:%d} {at:%H} {path.name} {raw!r} {unit} {maybe} {scale} {pair}"

    said = await call(
        tool(all_of),
        mood="good",
        place={"city": "X"},
        point={"x": 1},
        size={"w": 2},
        day="2026-01-02",
        at="2026-01-02T03:04:05Z",
        path="/a/b",
        raw="r",
        unit="C",
        maybe=None,
        scale=1,
        pair=[1, "p"],
    )
    text = "Mood.GOOD {'city': 'X'} 1 Size(w=2, h=1) 02 03 b b'r' C None 1.0 (1, 'p')"
    assert said.content == (Text(text),)


async def test_records_are_made_by_a_call(call: Any) -> None:
    assert (await call(tools_of([Size])[0], w=3)).content == (Text('{"w":3,"h":1}'),)
    assert (await call(tools_of([Pair])[0], a=3)).content == (Text('[3,"b"]'),)
    assert (await call(tool(Point, description="Make a point."), x=3)).content == (Text('{"x":3}'),)


async def test_tool_is_called_with_plain_json(workspace: Any) -> None:
    context = RunContext("root", "1", workspace, BlobDirectory(workspace.cwd / "blobs"), lambda _: None)
    made = tool(add)
    assert (await made({"a": 1, "b": 3}, context)).content == (Text("4"),)
    assert (await made(JsonObject({"a": 1}), context)).content == (Text("3"),)

    @tool
    def keep(record: dict[str, int], run: RunContext) -> str:
        """Keep a record."""
        return f"{run.agent} {record}"

    assert keep({"n": 1}, context) == "root {'n': 1}"
    assert (await keep(JsonObject({"record": {"n": 1}}), context)).content == (Text("root {'n': 1}"),)


class Silent:
    def __call__(self, a: int) -> int:
        return a


def no_text(a: int) -> int:
    return a


def no_type(a) -> None:
    """Do."""


def bare(*args, **kwargs) -> None:
    """Do."""


def wrong(callback: Callable[[], int], n: int = 1) -> None:
    """Do."""


class Bare:
    def __init__(self, n: int) -> None:
        self.n = n


def name_that_is_so_long_that_no_provider_takes_it_and_every_request_fails(a: int) -> int:
    """Do."""
    return a


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda a: a, "a lambda has no name, annotations or docstring: .*write a function"),
        (len, "len: parameter obj needs a type annotation, .*write a function"),
        (math.sqrt, "sqrt: parameter x needs a type annotation, .*write a function"),
        (max, "max does not tell which arguments it takes: write a function"),
        (operator.itemgetter(1), "itemgetter"),
        (str.upper, "upper is an unbound method"),
        (Kit.method, "method is an unbound method"),
        (Bare, "Bare is a class: give an instance"),
        (dict, "dict"),
        (Silent(), "Silent needs a docstring, or a description"),
        (no_text, "no_text needs a docstring, or a description"),
        (no_type, "no_type: parameter a needs a type annotation"),
        (bare, "bare: parameter args needs a type annotation, .*functools.wraps"),
        (wrong, "wrong: parameter callback: JSON cannot hold .*Callable"),
        (types.FunctionType(no_text.__code__, {}, "größe"), "'größe' is not a valid tool name: .*name="),
        (name_that_is_so_long_that_no_provider_takes_it_and_every_request_fails, "not a valid tool name"),
        (property(no_text), "property is not a tool"),
        (vars(Kit)["of_class"], "classmethod"),
        (lazily_annotated.unknown, "Nowhere"),
    ],
)
def test_error_says_what_to_write(given: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Agent(ScriptedModel(), tools=[given])


def test_names_and_texts_may_be_given() -> None:
    made = tool(lambda: 3, name="three", description="Give three.")
    assert (made.name, made.description, made()) == ("three", "Give three.", 3)
    again = tool(made, name="drei")
    assert isinstance(again, FunctionTool)
    assert again.name == "drei"
    with pytest.raises(TypeError, match="'not so' is not a valid tool name"):
        tool(add, name="not so")
    with pytest.raises(TypeError, match="3 cannot be called"):
        tool(3)  # type: ignore[call-overload]


def test_two_tools_of_one_name() -> None:
    with pytest.raises(UsageError, match=r"two tools are called 'add': give one another name, tool\(function, name="):
        Agent(ScriptedModel(), tools=[add, functools.partial(add, b=1)])


class Written:
    """A tool that was written by hand, with plain JSON."""

    name = "Written"
    description = "Tell."
    parameters: dict[str, object] = {"type": "object", "properties": {"n": {"type": "integer", "enum": [1, 2]}}}  # noqa: RUF012

    async def __call__(self, arguments: JsonObject, run: RunContext) -> dict[str, object]:
        return {"n": arguments.get("n"), "deep": [{"a": (1,)}]}


async def test_written_tool_has_plain_json() -> None:
    calls = (ToolCall("1", "Written", {"n": "2"}), ToolCall("2", "Written", {"n": 3}))
    model = ScriptedModel(calls, "done")
    async with Agent(model, tools=[Written()]) as agent:
        await agent.run("go")
        first, second = (result for message in agent.messages for result in message.results)
    assert first.text == '{"n":2,"deep":[{"a":[1]}]}'
    assert second.is_error
    assert isinstance(model.requests[0].tools[0].parameters, JsonObject)


async def test_non_json_in_written_tool_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Written, "parameters", {"type": "object", "properties": {"n": {"enum": [1, {2}]}}})
    with pytest.raises(UsageError, match=r"Written\.parameters\.properties\.n\.enum\[1\]: not a JSON value: set"):
        Agent(ScriptedModel(), tools=[Written()])


def test_images_stay_images() -> None:
    image = Image("image/png", b"x")
    assert ToolOutput.of(ToolOutput((image,))).content == (image,)


def sleepy(seconds: int) -> object:
    """Sleep in the event loop that there is."""
    return asyncio.get_running_loop().call_later(seconds, int)


@pytest.mark.parametrize("given", [sleepy, tool(sleepy)])
async def test_loop_function_told_to_be_async(given: Callable[[int], object]) -> None:
    async with Agent(ScriptedModel((ToolCall("1", "sleepy", {"seconds": 0}),), "done"), tools=[given]) as agent:
        await agent.run("go")
        [result] = (result for message in agent.messages for result in message.results)
    assert result.is_error and "async def" in result.text


@pytest.mark.parametrize("called", ["image/png", "image/jpeg", "image/bmp", "picture", ""])
async def test_image_type_follows_its_bytes(called: str) -> None:
    def shoot() -> Image:
        """Take a picture."""
        return Image(called, b"GIF89a\x01\x00\x01\x00;")

    async with Agent(ScriptedModel((ToolCall("1", "shoot", EMPTY),), "Seen."), tools=[shoot]) as agent:
        await agent.run("go")
        (result,) = (result for message in agent.messages for result in message.results)
    assert [part.media_type for part in result.content if isinstance(part, Image)] == ["image/gif"]
