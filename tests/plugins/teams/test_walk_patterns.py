"""One promise for every pattern: a step's error is the pattern's, and a pattern is used wherever an agent is."""

import asyncio
from collections.abc import Callable

import pytest

from sagent.agent import Agent, RunLimits
from sagent.errors import ModelError
from sagent.events import Failure, Finished, Result
from sagent.messages import ToolCall
from sagent.model import Request
from sagent.plugins.teams import Gathered, Pattern, Runnable, handoff, loop_until, parallel, sequential, triage
from sagent.testing import ScriptedModel
from tests.messages import call

Make = Callable[[Runnable], Runnable]


def says(*lines: object) -> Agent:
    return Agent(ScriptedModel(*lines))  # pyright: ignore[reportArgumentType]


def hand(to: str) -> tuple[ToolCall, ...]:
    return (call("1", "handoff", to=to, message="over to you"),)


WHERE: dict[str, Make] = {
    "first of a sequence": lambda step: sequential(step, says("b")),
    "last of a sequence": lambda step: sequential(says("a"), step),
    "all of parallel": lambda step: parallel(step),
    "aggregate": lambda step: parallel(says("a"), says("b"), aggregate=step),
    "chooser": lambda step: triage(step, {"one": says("x")}),
    "chosen": lambda step: triage(says("one"), {"one": step}),
    "default": lambda step: triage(says("?", "?"), {"one": says("x"), "two": step}, default="two"),
    "looped": lambda step: loop_until(step, lambda result: True),
    "judge": lambda step: loop_until(says("a"), step),
    "nested": lambda step: sequential(parallel(sequential(says("a"), step)), says("b")),
}


class Stopped:
    async def run(self, prompt: object) -> Result:
        return Result("so far", (), "max_turns", Failure("max_turns", "enough"))


def failing(fault: Exception) -> Agent:
    return Agent(ScriptedModel(fault), limits=RunLimits(max_retries=0))


AFTER_AN_ANSWER = {"last of a sequence", "nested"}  # which is kept, so that there is a result


@pytest.mark.parametrize("where", sorted(set(WHERE) - AFTER_AN_ANSWER))
async def test_step_error_raised(where: str) -> None:
    fault = ModelError("auth", "no key", provider="p", model="m")
    with pytest.raises(ModelError) as caught:
        await WHERE[where](failing(fault)).run("go")
    assert caught.value is fault


@pytest.mark.parametrize("end", [0, 1])
async def test_handoff_agent_error_raised(end: int) -> None:
    fault = ModelError("auth", "no key", provider="p", model="m")
    agents = {"a": failing(fault) if end == 0 else says(hand("b")), "b": failing(fault)}
    with pytest.raises(ModelError) as caught:
        await handoff(agents).run("go")
    assert caught.value is fault


@pytest.mark.parametrize("where", sorted(AFTER_AN_ANSWER))
async def test_later_error_kept_in_result(where: str) -> None:
    result = await WHERE[where](failing(ModelError("auth", "no key", provider="p", model="m"))).run("go")
    assert result.error is not None
    assert "no key" in result.error.message
    assert "Step 1 of 2:\na" in result.content


@pytest.mark.parametrize("where", sorted(set(WHERE) - {"all of parallel", "nested", "last of a sequence"}))
async def test_limited_step_is_result(where: str) -> None:
    result = await WHERE[where](Stopped()).run("go")
    assert (result.content, result.stop_reason, result.error) == ("so far", "max_turns", Failure("max_turns", "enough"))


@pytest.mark.parametrize("where", ["all of parallel", "nested"])
async def test_limited_members_named(where: str) -> None:
    result = await WHERE[where](Stopped()).run("go")
    assert result.error is not None
    assert result.error.kind == "max_turns"
    assert "enough" in result.error.message
    assert "so far" in result.content


def whole() -> dict[str, Pattern]:
    return {
        "sequential": sequential(says("x"), says("answer")),
        "parallel": parallel(says("answer"), says("another answer"), quorum=1),
        "triage": triage(says("one"), {"one": says("answer")}),
        "handoff": handoff({"a": says(hand("b")), "b": says("answer")}),
        "loop_until": loop_until(says("bad", "answer"), lambda result: result.content == "answer"),
    }


@pytest.mark.parametrize("name", whole())
async def test_pattern_used_like_agent(name: str) -> None:
    pattern = whole()[name]
    heard = [event async for event in pattern.stream("go")]
    assert isinstance(heard[-1], Finished)
    assert (heard[-1].agent, heard[-1].result.error) == (name, None)
    assert "answer" in heard[-1].result.content
    inside = await sequential(whole()[name], says("after")).run("go")
    assert inside.content == "after"
    model = ScriptedModel((call("1", "ask", prompt="go"),), lambda request: request.messages[-1].results[0].text)
    above = Agent(model, tools=[whole()[name].as_tool("ask", "Asks.")])
    assert "answer" in (await above.run("go")).content
    assert [each.path for each in above.tree.living] == ["root"]


def test_pattern_runs_without_loop() -> None:
    for name, pattern in whole().items():
        result = pattern.run_sync({"prompt": "go"})
        assert result.error is None, name
        assert result.turns >= 1


async def test_failed_quorum_keeps_answers() -> None:
    fault = ModelError("server", "down", provider="p", model="m")
    answered = asyncio.Event()

    async def fail(request: Request) -> Exception:
        await answered.wait()
        return fault

    good = says("one")
    good.listen(lambda event: answered.set() if isinstance(event, Finished) else None)
    late = [Agent(ScriptedModel(fail), limits=RunLimits(max_retries=0)) for _ in range(2)]
    result = await parallel(good, *late, quorum=2).run("go")
    assert isinstance(result, Gathered)
    assert result.error is not None
    assert result.error.kind == "server"
    assert result.error.message.startswith("1 of 2 needed answers: ")
    assert [member.content for member in result.members.values() if member.error is None] == ["one"]
