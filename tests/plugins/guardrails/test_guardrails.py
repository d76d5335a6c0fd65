"""Checks of prompts and answers: what they reject costs nothing or is asked again, and is never a result."""

from collections.abc import Awaitable, Callable
from decimal import Decimal

import pytest

from sagent import Agent, Resources, RunLimits, UsageError
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.events import Event, Failure, Finished, Retrying, TextDelta
from sagent.messages import Message, ToolCall
from sagent.plugins.guardrails import Check, guarded
from sagent.testing import ScriptedModel

PRICES = PriceBook({"scripted/scripted": {"input": 1, "output": 1}})


def no_homework(prompt: Message) -> str | None:
    return "no homework here" if "homework" in prompt.content else None


async def no_keys(answer: Message) -> str | None:
    return "it shows a key" if "sk-" in answer.content else None


async def test_rejected_prompt_calls_no_model_and_costs_nothing() -> None:
    model = ScriptedModel("Hello.")
    async with Agent(model, resources=guarded(prompts=[no_homework])) as agent:
        result = await agent.run("Do my homework.")
        assert result.error == Failure("guardrail", "The prompt was rejected: no homework here")
        assert (result.content, result.turns, result.run_usd, model.requests) == ("", 0, 0, [])
        assert agent.messages == ()
        assert (await agent.run("Say hello.")).content == "Hello."


async def test_rejected_answer_is_asked_again_in_the_same_run() -> None:
    model = ScriptedModel("It is sk-123.", "It is secret.")
    ledger = Ledger(Decimal(1), PRICES)
    async with Agent(model, resources=guarded(Resources(ledger=ledger), answers=[no_keys])) as agent:
        result = await agent.run("What is the key?")
    assert (result.content, result.error, result.turns) == ("It is secret.", None, 2)
    assert "it shows a key" in model.requests[1].messages[-1].content
    assert result.run_usd == ledger.cost().total > 0  # both answers are paid for


@pytest.mark.parametrize("max_retries", [0, 2])
async def test_answer_rejected_to_the_end_is_no_content(max_retries: int) -> None:
    answers = ["It is sk-123."] * (max_retries + 1)
    resources = guarded(answers=[no_keys], max_retries=max_retries)
    async with Agent(ScriptedModel(*answers, "Hello."), resources=resources) as agent:
        result = await agent.run("What is the key?")
        assert result.error == Failure("guardrail", "The answer was rejected: it shows a key")
        assert (result.content, result.parts, result.stop_reason) == ("", (), "guardrail")
        assert result.turns == max_retries + 1
        assert (await agent.run("Say hello.")).content == "Hello."  # the next run has its own tries


async def test_stream_tells_what_no_longer_counts() -> None:
    events: list[Event] = []
    async with Agent(ScriptedModel("It is sk-123.", "It is secret."), resources=guarded(answers=[no_keys])) as agent:
        shown = ""
        async for event in agent.stream("What is the key?"):
            events.append(event)
            match event:
                case TextDelta(text=text):
                    shown += text
                case Retrying(discarded=discarded):
                    shown = shown.removesuffix(discarded)
                case _:
                    pass
    assert shown == "It is secret."
    assert isinstance(last := events[-1], Finished) and last.result.content == shown
    assert [event.kind for event in events if isinstance(event, Retrying)] == ["guardrail"]


async def test_tool_calls_are_not_answers_and_data_is_checked() -> None:
    def look() -> str:
        """Look."""
        return "sk-123"

    model = ScriptedModel((ToolCall("1", "look"),), '["sk-123"]', '["none"]')
    async with Agent(model, tools=[look], resources=guarded(answers=[no_keys])) as agent:
        result = await agent.run("Which keys?", output=list[str])
    assert (result.data, result.error) == (["none"], None)


async def test_limit_of_turns_never_leaks_a_rejected_answer() -> None:
    model = ScriptedModel("It is sk-123.")
    async with Agent(model, limits=RunLimits(max_turns=1), resources=guarded(answers=[no_keys])) as agent:
        result = await agent.run("What is the key?")
    assert result.content == "" and result.error is not None and result.error.kind == "max_turns"


async def test_checks_keep_their_order_and_the_given_admit() -> None:
    async def admit(_: object, prompt: Message | None) -> list[Message]:
        return [] if prompt is None else [Message("user", prompt.parts), Message("user", prompt.parts)]

    asked: list[str] = []

    def noted(name: str, reason: str | None) -> Check:
        def check(_: Message) -> str | None:
            asked.append(name)
            return reason

        return check

    model = ScriptedModel("Hello.")
    checks = [noted("one", None), noted("two", "")]
    resources = guarded(Resources(admit=admit), prompts=checks, answers=[noted("a", None)])
    async with Agent(model, resources=resources) as agent:
        assert (await agent.run("Hello.")).error is None
    assert asked == ["one", "two", "a"] and len(model.requests[0].messages) == 2


async def test_a_model_that_checks_is_paid_from_the_same_budget() -> None:
    ledger = Ledger(Decimal(1), PRICES)
    judge = Agent(ScriptedModel("no", "yes"), resources=Resources(ledger=ledger, path="judge"))

    async def fits(answer: Message) -> str | None:
        said = (await judge.run(f"Is this polite? {answer.content}")).content
        return None if said == "yes" else "it is not polite"

    resources = guarded(Resources(ledger=ledger), answers=[fits])
    async with judge, Agent(ScriptedModel("Go away.", "Please go."), resources=resources) as agent:
        result = await agent.run("What now?")
    assert result.content == "Please go."
    assert {*result.cost.by_agent} >= {"root", "judge"} or ledger.cost().total > result.run_usd > 0


@pytest.mark.parametrize("raised", [LookupError, UsageError])
@pytest.mark.parametrize("place", ["prompts", "answers"])
async def test_what_a_check_raises_ends_the_run(raised: type[Exception], place: str) -> None:
    def check(_: Message) -> str | None:
        raise raised("no list of words")

    resources = guarded(prompts=[check]) if place == "prompts" else guarded(answers=[check])
    async with Agent(ScriptedModel("Hello.", "Hello."), resources=resources) as agent:
        with pytest.raises(raised, match="no list of words"):
            await agent.run("Hello.")


async def test_a_check_that_returns_something_else_rejects() -> None:
    odd: Callable[[Message], Awaitable[str | None]] = eval("lambda message: True")
    async with Agent(ScriptedModel(), resources=guarded(prompts=[odd])) as agent:
        with pytest.raises(UsageError, match="returned True"):
            await agent.run("Hello.")


@pytest.mark.parametrize("max_retries", [-1, True, "2"])
def test_wrong_arguments_are_told(max_retries: int) -> None:
    with pytest.raises(UsageError, match="max_retries"):
        guarded(max_retries=max_retries)
    with pytest.raises(UsageError, match="is not a check"):
        guarded(prompts=[5])  # pyright: ignore[reportArgumentType] -- on purpose
