"""Runs that lead nowhere: the same calls again and again, empty replies after results, claims without work."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent import Agent, tool
from sagent.agent import RunLimits
from sagent.agent.progress import UNPROVEN
from sagent.cli.headless import EXIT_DONE, EXIT_FAILED, EXIT_LIMIT, exit_code
from sagent.context.claims import claims_work
from sagent.errors import ModelError
from sagent.events import Result
from sagent.lib.json import json_freeze_object
from sagent.messages import Message, Thinking, ToolCall
from sagent.testing import ScriptedModel
from sagent.testing.server import Call, FakeProviderServer, Step, Turn
from tests.agent.test_cut_calls import FAMILIES, provider_of, region

__all__ = ["region"]  # a fixture


@tool
def look(path: str) -> str:
    """Look at a file."""
    return f"the contents of {path}"


@tool
def run(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


class Clock:
    """A tool whose result changes."""

    def __init__(self) -> None:
        self.times = 0

    @property
    def tool(self):
        @tool
        def look(path: str) -> str:
            """Look at a file."""
            self.times += 1
            return f"{path} has {self.times} lines"

        return look


def call(number: int, name: str = "look", **arguments: str) -> ToolCall:
    return ToolCall(f"c{number}", name, json_freeze_object(arguments))


async def ended(model: ScriptedModel, tools: Sequence[object]) -> tuple[Result, Sequence[Message]]:
    agent = Agent(model, tools=tools)  # pyright: ignore[reportArgumentType] -- tools of the test
    with suppress(ModelError):
        await agent.run("go")
    result = await agent.wait()
    await agent.aclose()
    return result, agent.messages


def ours(messages: Sequence[Message]) -> list[str]:
    return [message.content for message in messages if message.sender == "sagent"]


# -- the same calls ----------------------------------------------------------------------------------------------------


async def test_same_call_told_after_3_ends_after_5() -> None:
    model = ScriptedModel(*(call(number, path="a") for number in range(9)))
    result, messages = await ended(model, [look])
    assert (result.stop_reason, len(model.requests)) == ("repeated_calls", 5)
    assert result.error is not None and result.error.kind == "repeated_calls"
    assert exit_code(result) == EXIT_LIMIT
    (words,) = ours(messages)
    assert "3 times in a row" in words and '"path":"a"' in words.replace(" ", "")
    assert words in model.requests[3].messages[-1].content


async def test_no_hint_before_the_last_turn() -> None:
    model = ScriptedModel(*(call(number, path="a") for number in range(9)))
    agent = Agent(model, tools=[look], limits=RunLimits(max_turns=3))
    assert (await agent.run("go")).stop_reason == "max_turns"
    assert ours(agent.messages) == []
    assert not agent.state.inbox.holds("next")
    await agent.aclose()


async def test_pairs_that_alternate_end_too() -> None:
    lines = [call(number, path="ab"[number % 2]) for number in range(20)]
    model = ScriptedModel(*lines)
    result, messages = await ended(model, [look])
    assert (result.stop_reason, len(model.requests)) == ("repeated_calls", 10)
    assert len(ours(messages)) == 1


async def test_three_alternating_calls_end_too() -> None:
    model = ScriptedModel(*(call(number, path="abc"[number % 3]) for number in range(30)))
    result, _ = await ended(model, [look])
    assert (result.stop_reason, len(model.requests)) == ("repeated_calls", 15)


@pytest.mark.parametrize("took", ["Ran 4 tests in {}s", "3 failed in {} seconds", "done ({} ms)", "ok\tpkg\t{}s"])
async def test_run_time_makes_no_other_result(took: str) -> None:
    clock = Clock()

    @tool
    def run(command: str) -> str:
        """Run a command."""
        clock.times += 1
        return took.format(f"0.00{clock.times}")

    model = ScriptedModel(*(call(number, "run", command="python3 -m unittest") for number in range(9)))
    result, _ = await ended(model, [run])
    assert (result.stop_reason, len(model.requests)) == ("repeated_calls", 5)


async def test_model_that_takes_hint_continues() -> None:
    model = ScriptedModel(*(call(number, path="a") for number in range(4)), call(5, path="b"), "Done.")
    result, messages = await ended(model, [look])
    assert (result.content, exit_code(result), len(ours(messages))) == ("Done.", EXIT_DONE, 1)


async def test_failing_call_is_stopped_as_well() -> None:
    model = ScriptedModel(*(call(number, "nothing", path="a") for number in range(9)))
    result, _ = await ended(model, [look])
    assert (result.stop_reason, len(model.requests)) == ("repeated_calls", 5)


@pytest.mark.parametrize("command", ["sleep 5 && curl localhost", "wait 3", "timeout 5 gh run watch"])
async def test_waiting_command_is_left_alone(command: str) -> None:
    model = ScriptedModel(*(call(number, "run", command=command) for number in range(8)), "Done.")
    result, messages = await ended(model, [run])
    assert (result.content, ours(messages)) == ("Done.", [])


@pytest.mark.parametrize("status", ["running", '{"status": "pending"}', "Build 7 is still in progress."])
async def test_tool_with_progress_may_be_polled(status: str) -> None:
    @tool
    def build() -> str:
        """Say how far the build is."""
        return status

    model = ScriptedModel(*(call(number, "build") for number in range(8)), "Done.")
    result, messages = await ended(model, [build])
    assert (result.content, ours(messages)) == ("Done.", [])


async def test_running_job_may_be_asked_for() -> None:
    @tool
    async def serve() -> str:
        """Serve until it is stopped."""
        await asyncio.sleep(600)
        return "served"

    begin = ToolCall("c0", "serve", json_freeze_object({"background": True}))
    model = ScriptedModel(begin, *(call(number, path="a") for number in range(1, 9)), "Done.")
    agent = Agent(model, tools=[serve, look], limits=RunLimits(wait_for_jobs=False))
    assert (await agent.run("go")).content == "Done."
    assert ours(agent.messages) == []
    await agent.aclose()


async def test_changing_result_is_left_alone() -> None:
    model = ScriptedModel(*(call(number, path="a") for number in range(8)), "Done.")
    result, messages = await ended(model, [Clock().tool])
    assert (result.content, ours(messages)) == ("Done.", [])


async def test_each_run_counts_anew() -> None:
    model = ScriptedModel(*[*(call(number, path="a") for number in range(2)), "Done."] * 3)
    agent = Agent(model, tools=[look])
    for _ in range(3):
        assert (await agent.run("again")).content == "Done."
    assert ours(agent.messages) == []
    await agent.aclose()


@given(st.lists(st.sampled_from("abc"), max_size=24))
async def test_only_cycles_end_a_run(paths: list[str]) -> None:
    model = ScriptedModel(*(call(number, path=path) for number, path in enumerate(paths)), "Done.")
    result, _ = await ended(model, [look])
    made = "".join(paths[: len(model.requests)])
    cycles = any(made.endswith(made[-size:] * 5) for size in range(1, 5) if made[-size:])
    assert (result.stop_reason == "repeated_calls") == (cycles and bool(made))


# -- empty replies -----------------------------------------------------------------------------------------------------

LOOK = Turn(calls=[Call("look", {"path": "a"})])


async def played(family: str, steps: Sequence[Step]) -> tuple[Result, Agent, FakeProviderServer]:
    async with FakeProviderServer(steps) as server:
        provider, model = provider_of(family, server.url)
        agent = Agent(provider.model(model), tools=[look])
        with suppress(ModelError):
            await agent.run("go")
        result = await agent.wait()
        await agent.aclose()
        await provider.aclose()
    return result, agent, server


@pytest.mark.parametrize("family", FAMILIES)
async def test_empty_reply_after_result_is_told(family: str) -> None:
    result, agent, server = await played(family, [LOOK, Turn(stop="end"), Turn("It says a.")])
    assert (result.content, exit_code(result), len(server.requests)) == ("It says a.", EXIT_DONE, 3)
    (words,) = ours(agent.messages)
    assert "empty" in words and "look" in words
    assert b"Your reply was empty" in server.requests[2].body
    assert b"Your reply was empty" not in server.requests[1].body


async def test_empty_reply_after_message_is_told() -> None:
    model = ScriptedModel(*(call(number, path="a") for number in range(3)), Thinking("Hm."), "It says a.")
    result, messages = await ended(model, [look])
    assert result.content == "It says a."
    assert "empty" in ours(messages)[-1]


@pytest.mark.parametrize("family", FAMILIES)
async def test_empty_twice_after_a_result_fails(family: str) -> None:
    result, agent, server = await played(family, [LOOK, *[Turn(thinking="Hm.", stop="end")] * 3])
    assert result.error is not None
    assert (result.error.kind, exit_code(result), len(server.requests)) == ("empty", EXIT_FAILED, 3)
    assert len(ours(agent.messages)) == 1


async def test_session_continues_after_empty_reply() -> None:
    model = ScriptedModel(call(1, path="a"), Thinking("Hm."), Thinking("Hm."), "It says a.")
    agent = Agent(model, tools=[look])
    with pytest.raises(ModelError):
        await agent.run("go")
    assert (await agent.run("Well?")).content == "It says a."
    await agent.aclose()


# -- claims ------------------------------------------------------------------------------------------------------------

CLAIMS = [
    "I have updated the file.",
    "I've fixed the bug in calc.py.",
    "I fixed the typo in the README.md and saved it.",
    "Done! I created the function in utils.py and added a test.",
    "I have successfully modified `config.json`.",
    "I ran the tests and all pass.",
    "I've run the command and it works.",
    "The file has been updated.",
    "The function `add` has been successfully added.",
    "Your script has now been fixed.",
    "All tests have been executed.",
    "I've now added the `multiply` function to calc.py:\n```python\ndef multiply(a, b):\n    return a * b\n```",
    "I changed line 3.",
    "I've renamed the variable.",
    "I have installed the package.",
    "Sure. I removed the unused import. Anything else?",
    "I\u2019ve replaced the value in settings.toml.",
    "I wrote the changes to src/app.ts.",
]
ORDINARY = [
    "Paris is the capital of France.",
    "I have written a short poem:\n\nRoses are red.",
    "I've created a plan with three steps.",
    "I have summarized the discussion for you.",
    "If I changed the file, the test would fail.",
    "Once I have updated the file, run the tests.",
    "I would have fixed the bug in the parser first.",
    "I have not changed the file.",
    "I haven't run the tests.",
    "I did not modify any file.",
    "Should I say that I have updated the file?",
    "You have changed the file yourself.",
    'The author says: "I have fixed the bug in calc.py."',
    "> I have updated the file.",
    "The bug was fixed in version 2.1.",
    "This function was added in Python 3.9.",
    "The file contains 42 lines.",
    "To fix it, edit calc.py and run the tests.",
    "I can update the file for you. Shall I?",
    "I will now update the file.",
    "I'm going to run the tests.",
    "Let me read the file first.",
    "Run `make test`; it prints `I have run the tests`.",
    "Earlier I fixed the bug in calc.py.",
    "As I said before, I had changed the file.",
    "I cannot say that I have run the tests.",
    "Here is how I would have written the function.",
    "The commit says that the file has moved.",
    "I have read your question, and it is about files.",
    "I have a question about the file.",
    "I've seen this error in other projects.",
    "I have looked at the options: keep the file, or delete it.",
    "For example, I have updated the file is a sentence in the perfect tense.",
    "```\nI have updated the file.\n```",
    "4",
    "",
    "The tests that you added pass.",
    "I've thought about the function and it is fine.",
    "What has been changed in the file is unknown to me.",
    "It ran for three hours.",
]


@pytest.mark.parametrize("text", CLAIMS)
def test_claim_of_work_is_one(text: str) -> None:
    assert claims_work(text)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_reply_claims_nothing(text: str) -> None:
    assert not claims_work(text)


async def test_claim_without_call_is_questioned_once() -> None:
    model = ScriptedModel(CLAIMS[0], CLAIMS[1])
    result, messages = await ended(model, [run])
    assert (result.content, len(model.requests)) == (CLAIMS[1], 2)
    assert ours(messages) == [UNPROVEN]


async def test_proven_claim_stands() -> None:
    model = ScriptedModel(CLAIMS[0], call(1, "run", command="x"), CLAIMS[1])
    result, messages = await ended(model, [run])
    assert (result.content, ours(messages)) == (CLAIMS[1], [UNPROVEN])


async def test_claim_after_a_call_stands() -> None:
    model = ScriptedModel(call(1, "run", command="x"), CLAIMS[0])
    result, messages = await ended(model, [run])
    assert (result.content, ours(messages)) == (CLAIMS[0], [])


async def test_claim_stands_where_nothing_changes() -> None:
    for tools in ([], [_Reader()]):
        result, messages = await ended(ScriptedModel(CLAIMS[0]), tools)
        assert (result.content, ours(messages)) == (CLAIMS[0], [])


class _Reader:
    """A tool that says that it only reads."""

    name, description = "read", "Read."
    parameters = json_freeze_object({"type": "object", "properties": {"path": {"type": "string"}}})

    def effect(self, arguments: object, workspace: object):
        from sagent.tool import Effect

        del arguments, workspace
        return Effect("read")

    async def __call__(self, arguments: object, run: object) -> str:
        del arguments, run
        return "read"


async def test_question_about_past_may_be_answered() -> None:
    model = ScriptedModel(call(1, "run", command="x"), "Done.", CLAIMS[0], "I updated the file.", "No.")
    agent = Agent(model, tools=[run])
    for prompt, said in (("go", "Done."), ("What did you do?", CLAIMS[0]), ("Now fix b.py", "No.")):
        assert (await agent.run(prompt)).content == said
    assert ours(agent.messages) == [UNPROVEN]
    await agent.aclose()
