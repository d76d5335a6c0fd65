"""Who comes from another library and writes what is written there is answered with what is written here."""

# What programs get wrong is given here on purpose.
# pyright: reportCallIssue=false, reportArgumentType=false, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

import re
from collections.abc import Callable
from importlib import import_module

import pytest

import sagent
from sagent import Agent, RunContext, ToolOutput, UsageError, tool
from sagent.lib import foreign
from sagent.lib.json import JsonObject
from sagent.messages import Document, Image, Message, Text, ToolCall, user
from sagent.testing import ScriptedModel


def agent() -> Agent:
    return Agent(ScriptedModel("ok"))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Agent(ScriptedModel("ok"), instructions="x"), "Agent() has no argument 'instructions'. Here: system="),
        (lambda: Agent(ScriptedModel("ok"), output_type=int), "Here: output= of run"),
        (lambda: Agent(ScriptedModel("ok"), temperature=0), 'Here: options={"temperature": 0.2}'),
        (lambda: Agent(ScriptedModel("ok"), colour="red"), "Agent() has no argument 'colour'"),
        (
            lambda: agent().run_sync("x", message_history=[]),
            "Agent.run_sync() has no argument 'message_history'. Here: ",
        ),
        (lambda: sagent.run_sync(agent().run("x", usage_limits=1)), "Here: limits=RunLimits("),
        (lambda: sagent.run_sync(agent(), "x", message_history=[]), "has no argument 'message_history'. Here: "),
        (lambda: agent().stream("x", deps_type=int), "Agent.stream() has no argument 'deps_type'"),
        (lambda: agent().as_tool(tool_name="a", tool_description="b"), 'Here: as_tool("name", "what it is asked for")'),
        (lambda: tool("add", "Add.", {"a": int}), "tool takes only the function: write @tool above it"),
        (lambda: tool("add"), "tool takes only the function"),
    ],
)
def test_arguments(call: Callable[[], object], words: str) -> None:
    with pytest.raises(TypeError, match=re.escape(words)):
        call()


def test_attributes() -> None:
    result = agent().run_sync("x")
    for thing, name, words in (
        (agent(), "tool", "'Agent' object has no attribute 'tool'. Here: Agent(..., tools=[...]"),
        (agent(), "fork", "Here: shutil.copytree"),
        (agent(), "run_stream", "Here: async for event in agent.stream("),
        (result, "final_output", "'Result' object has no attribute 'final_output'. Here: result.content"),
        (result, "all_messages", "Here: agent.messages"),
        (result, "output_text", "Here: result.content"),
        (result, "colour", "'Result' object has no attribute 'colour'"),
    ):
        with pytest.raises(AttributeError, match=re.escape(words)) as caught:
            getattr(thing, name)
        assert (caught.value.name, caught.value.obj) == (name, thing)
        assert not hasattr(thing, name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Message", "cannot import name 'Message' from 'sagent'. Here: from sagent.messages import Message"),
        ("Runner", "Here: Agent(...).run("),
        ("ModelRetry", "Here: ToolError"),
        ("function_tool", "Here: the decorator tool"),
        ("query", "Here: Agent(...).run("),
        ("guarded", "Here: from sagent.plugins.guardrails import guarded"),
        ("PriceBook", "Here: from sagent.cost.prices import PriceBook"),
        ("TestModel", "Here: ScriptedModel of sagent.testing"),
        ("Colour", "cannot import name 'Colour'"),
    ],
)
def test_imports(name: str, words: str) -> None:
    with pytest.raises(ImportError, match=re.escape(words)):
        exec(f"from sagent import {name}")


def test_row_provider_has_no_class() -> None:
    with pytest.raises(ImportError, match=re.escape('Here: provider_named("groq"), or Agent("groq/MODEL")')):
        exec("from sagent.providers import Groq")
    with pytest.raises(ImportError, match="cannot import name 'Colour'"):
        exec("from sagent.providers import Colour")


def test_hinted_imports_exist() -> None:
    for name, home in foreign.foreign_names("homes").items():
        assert hasattr(import_module(home), name), (home, name)
        assert foreign.import_hint(name) == f"from {home} import {name}"


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        (["What is it?", Image("image/png", b"x")], 'not list: of text and images user("What is it?", Image('),
        (Message("user", "hi"), "'hi' is not a part of a message: user("),
        (Message("user", ({"type": "text", "text": "hi"},)), "is not a part of a message"),
        (user("x", "y"), "'y' is not a part of a message"),
        (user("x", Image("image/png", "eA==")), "Image: its data is str; give bytes"),
    ],
)
def test_prompts(prompt: object, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        agent().run_sync(prompt)
    with pytest.raises(UsageError, match=re.escape(words)):
        agent().send(prompt)


@pytest.mark.parametrize("history", ["x", [{"role": "user", "content": "hi"}], [Message("user", "hi")]])
def test_histories(history: object) -> None:
    with pytest.raises(UsageError, match=r"is not a Message: make|is not a part of a message"):
        agent().restore(history)


def test_script_takes_arguments_as_written() -> None:
    """Frozen or not, they are those of a call."""

    def total(numbers: list[int]) -> int:
        """The sum."""
        return sum(numbers)

    written = Agent(ScriptedModel(ToolCall("1", "total", {"numbers": [1, 2]}), "ok"), tools=[total])
    written.run_sync("x")
    assert written.messages[2].results[0].text == "3"


@pytest.mark.parametrize(
    ("given", "content"),
    [
        (Image("image/png", b"x"), (Image("image/png", b"x"),)),
        (["see", Image("image/png", b"x")], (Text("see"), Image("image/png", b"x"))),
        ((Text("a"), Document("application/pdf", b"x")), (Text("a"), Document("application/pdf", b"x"))),
        (["a", "b"], (Text('["a","b"]'),)),
        ([], (Text("[]"),)),
        (ToolOutput([Text("a")]), (Text("a"),)),
    ],
)
def test_function_return_types(given: object, content: tuple[object, ...]) -> None:
    def show() -> object:
        """Show something."""
        return given

    asked = Agent(ScriptedModel(ToolCall("1", "show"), "ok"), tools=[show])
    asked.run_sync("x")
    assert tuple(asked.messages[2].results[0].content) == content


_WHAT_TO_RETURN = 'it may return a string, ToolOutput.of("text")'


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"x"}, "not a JSON value: set"),
        (b"x", "not a JSON value: bytes"),
        (ToolOutput("x"), _WHAT_TO_RETURN),
        (ToolOutput(("x",)), _WHAT_TO_RETURN),
        (ToolOutput((Image("image/png", "x"),)), _WHAT_TO_RETURN),
        (ToolOutput(None), _WHAT_TO_RETURN),
    ],
)
def test_tool_with_wrong_output_has_failed(given: object, words: str) -> None:
    """Which ends no run: the model reads it."""

    class Odd:
        name, description, parameters = "odd", "Odd.", JsonObject({"type": "object"})

        async def __call__(self, arguments: JsonObject, run: RunContext) -> object:
            return given

    asked = Agent(ScriptedModel(ToolCall("1", "odd"), "ok"), tools=[Odd()])
    assert asked.run_sync("x").content == "ok"
    (result,) = asked.messages[2].results
    assert result.is_error
    assert words in result.text


def test_own_model_lacking_something() -> None:
    class Own:
        id = provider = "own"

        async def stream(self, request: object) -> object: ...

    with pytest.raises(UsageError, match="Own has no limits, max_input_tokens: a model must implement the protocol"):
        Agent(Own())


def test_tool_name_is_no_tool() -> None:
    with pytest.raises(UsageError, match=re.escape("'Read' is not a tool: give one of sagent.tools")):
        Agent(ScriptedModel("ok"), tools=["Read"])
