"""Agents put together: what each pattern promises, and what becomes of errors, costs, cancellation."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.agent import Agent, Resources, RunLimits
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import ModelError, UsageError
from sagent.events import Event, Finished, Result, TextDelta
from sagent.messages import Image, Message, Text, user
from sagent.model import Request
from sagent.plugins.hosting.choosing import named
from sagent.plugins.teams import Gathered, handoff, loop_until, parallel, sequential, triage
from sagent.testing import Line, ScriptedModel
from sagent.usage import Cost, Usage
from tests.depth import deep
from tests.messages import call, echo, forever
from tests.waiting import until

PRICES = PriceBook({"scripted/scripted": {"input": "1", "output": "1"}})


def bare(*script: Line, path: str = "root", ledger: Ledger | None = None, limits: RunLimits | None = None) -> Agent:
    limits = limits or RunLimits(max_retries=0)
    resources = Resources(path=path, ledger=ledger or Ledger(None, PRICES))  # one table of prices, loaded once
    return Agent(ScriptedModel(*script), limits=limits, resources=resources)


def asked(agent: Agent, number: int = -1) -> str:
    model = agent.model
    assert isinstance(model, ScriptedModel)
    return model.requests[number].messages[-1].content


def broken(kind: str = "auth") -> ModelError:
    return ModelError(kind, "no key", provider="p", model="m")  # pyright: ignore[reportArgumentType]


def behind(member: str, answer: str) -> Callable[[Request], Awaitable[str]]:
    """A reply that comes when another member has ended: tasks are named for their members."""

    async def say(request: Request) -> str:
        await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == member))
        return answer

    return say


class Own:
    """A runnable that is no agent."""

    def __init__(self, answer: Callable[[str], str]) -> None:
        self.answer = answer

    async def run(self, prompt: str | Message, /) -> Result:
        said = self.answer(prompt if isinstance(prompt, str) else prompt.content)
        return Result(said, (Text(said),), "end", usage=Usage(input=5), cost=Cost(total=Decimal(1)), turns=1)


# One after the other


async def test_each_step_gets_previous_answer() -> None:
    steps = [bare(echo), Own(str.upper), bare(lambda r: f"last {r.messages[-1].content}")]
    result = await sequential(*steps).run("go")
    assert (result.content, result.turns, result.stop_reason) == ("last <GO>", 3, "end")


async def test_first_step_error_raised() -> None:
    error, after = broken(), bare("never")
    with pytest.raises(ModelError) as caught:
        await sequential(bare(error), after).run("go")
    assert caught.value is error
    assert not after.messages


async def test_limited_step_ends_sequence() -> None:
    limited, after = bare(limits=RunLimits(max_turns=0)), bare("never")
    result = await sequential(bare("fine"), limited, after).run("go")
    assert result.error is not None
    assert result.error.kind == "max_turns"
    assert not after.messages


async def test_empty_step_answer_is_error() -> None:
    result = await sequential(Own(lambda _: ""), bare("never")).run("go")
    assert result.error is not None
    assert result.error.kind == "empty"


async def test_whole_message_reaches_first_step() -> None:
    first = bare("seen")
    await sequential(first, bare("done")).run(user("look", Image("image/png", b"1")))
    assert first.messages[0].parts[1] == Image("image/png", b"1")


# What it costs


async def test_usage_summed_and_ledger_counted_once() -> None:
    bill = Usage(input=10, output=3)
    shared = Ledger(None, PRICES)
    agents = [bare(("x", bill), ("z", bill), path=name, ledger=shared) for name in "abc"]
    apart = bare(("y", bill), ledger=Ledger(None, PRICES))
    result = await sequential(parallel(*agents), apart, Own(str)).run("go")
    assert result.usage == Usage(input=45, output=12)
    assert result.cost.total == shared.cost().total + apart.ledger.cost().total + 1
    assert shared.cost().total == Decimal("0.000039")
    assert set(result.cost.by_agent) == {"a", "b", "c", "root"}
    assert result.run_usd == shared.cost().total + apart.ledger.cost().total
    again = await parallel(*agents).run("and now?")
    assert again.run_usd == again.cost.total - Decimal("0.000039") > 0


async def test_budget_stops_step() -> None:
    ledger = Ledger(Decimal("0.0005"), PRICES)
    first = bare(("x" * 400, Usage(input=300, output=199)), path="a", ledger=ledger)
    result = await sequential(first, bare("never", path="b", ledger=ledger)).run("go")
    assert result.error is not None
    assert result.error.kind == "budget"
    assert "x" * 400 in result.content
    assert ledger.cost().total <= Decimal("0.0005")


async def test_failed_member_keeps_partial_answer() -> None:
    bill = Usage(input=10, output=3)
    failing = bare(("half", call("t", "none"), bill), broken(), path="failing")
    result = await parallel(bare(("whole", bill), path="fine"), failing).run("go")
    assert result.members["failing"].content == "half"
    assert "Failed (auth): p/m: no key\n\nhalf" in result.content
    assert result.usage == bill + bill


async def test_failed_step_keeps_earlier_answers() -> None:
    result = await sequential(bare("facts"), bare("a draft"), bare(broken()), bare("never")).run("go")
    assert result.error is not None
    assert result.error.kind == "auth"
    assert result.content == "Step 1 of 4:\nfacts\n\nStep 2 of 4:\na draft"
    half = bare(("half", call("t", "none")), broken(), path="half")
    assert (await sequential(bare("facts"), half).run("go")).content == "Step 1 of 2:\nfacts\n\nStep 2 of 2:\nhalf"


# Side by side


async def test_members_run_in_parallel_below() -> None:
    together = asyncio.Barrier(2)

    async def meet(request: Request) -> str:
        await asyncio.wait_for(together.wait(), 60)
        return request.messages[-1].content

    result = await parallel(bare(meet, path="left"), bare(meet, path="right")).run("hello")
    assert result.content == "## left\n\nhello\n\n## right\n\nhello"
    assert list(result.members) == ["left", "right"]
    assert result.turns == 2


async def test_function_aggregates_successes() -> None:
    def join(results: Sequence[Result]) -> str:
        return "+".join(result.content for result in results)

    async def later(results: Sequence[Result]) -> str:
        return join(results)

    for aggregate in (join, later):
        members = [bare(behind("root-2", "1")), bare(broken()), bare("3")]
        result = await parallel(*members, aggregate=aggregate, quorum=2).run("go")
        assert (result.content, result.error) == ("1+3", None)
        assert list(result.members) == ["root-1", "root-2", "root-3"]


async def test_agent_aggregates_and_hears_failures() -> None:
    editor = bare("one answer")
    bad = bare(broken(), path="bad")
    late = bare(behind("bad", "C"), path="late")
    result = await parallel(bare("A", path="good"), bad, late, aggregate=editor, quorum=2).run("q?")
    told = asked(editor)
    assert isinstance(result, Gathered)
    assert result.content == "one answer"
    assert "q?" in told
    assert "## good\n\nA" in told
    assert "## bad\n\nFailed (auth): " in told
    assert result.turns == 3


async def test_without_quorum_all_must_succeed() -> None:
    members = [bare("A", path="a"), bare(broken(), path="b"), bare("C", path="c")]
    after = bare("never")
    result = await sequential(parallel(*members), after).run("go")
    assert isinstance(result, Gathered)
    assert result.error is not None
    assert result.error.kind == "auth"
    assert "2 of 3 needed" in result.error.message and "b failed (auth)" in result.error.message
    assert "## a\n\nA" in result.content
    assert "## c\n\nC" in result.content
    assert [name for name, each in result.members.items() if each.is_error] == ["b"]
    assert not after.messages


async def test_no_answer_raises_first_error() -> None:
    first = broken()
    with pytest.raises(ModelError) as caught:
        await parallel(bare(first), bare(broken("network"))).run("go")
    assert caught.value is first


async def test_member_defect_fails_only_itself() -> None:
    def crash(prompt: str) -> str:
        raise RuntimeError("a defect")

    result = await parallel(Own(crash), bare("fine"), quorum=1).run("go")
    assert result.error is None
    result = await parallel(Own(crash), bare("fine")).run("go")
    assert result.error is not None
    assert result.error.kind == "crashed"


async def test_enough_answers_stop_rest() -> None:
    stuck = bare(forever, path="stuck")
    result = await asyncio.wait_for(parallel(bare("first"), stuck, quorum=1).run("go"), 60)
    assert (result.content, list(result.members)) == ("first", ["root"])
    assert not stuck.running


async def test_unreachable_quorum_stops_rest() -> None:
    stuck = bare(forever)
    with pytest.raises(ModelError):
        await asyncio.wait_for(parallel(bare(broken()), stuck, bare(broken()), quorum=2).run("go"), 60)
    assert not stuck.running


async def test_cancelled_run_cancels_members() -> None:
    agents = [bare(forever), bare(forever), bare(forever)]
    task = asyncio.create_task(
        parallel(agents[0], sequential(agents[1]), loop_until(agents[2], lambda _: True)).run("x")
    )
    await until(lambda: all(agent.running for agent in agents), task=task, pause=0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(agent.running for agent in agents)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_stuck_member_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.plugins.teams.pattern.END_SECONDS", 0.01)
    let_go = asyncio.Event()

    class Stubborn(Own):
        async def run(self, prompt: str | Message, /) -> Result:
            while not let_go.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await let_go.wait()
            return await super().run(prompt)

    result = await asyncio.wait_for(parallel(bare("enough"), Stubborn(str), quorum=1).run("go"), 60)
    assert result.content == "enough"
    let_go.set()
    await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})


@settings(max_examples=deep(15, 60), deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=5), st.data())
def test_quorum_met_exactly(good: list[bool], data: st.DataObject) -> None:
    quorum = data.draw(st.none() | st.integers(1, len(good)))

    async def once() -> None:
        members = [bare("yes" if each else broken(), path=f"m{n}") for n, each in enumerate(good)]
        enough = sum(good) >= (quorum or len(good))
        try:
            result = await parallel(*members, quorum=quorum).run("go")
        except ModelError:
            assert not enough
            return
        succeeded = [name for name, each in result.members.items() if not each.is_error]
        assert enough == (result.error is None)
        assert all(good[int(name[1:])] for name in succeeded)
        assert len(succeeded) >= (quorum or len(good)) or not enough
        assert not any(member.running for member in members)

    asyncio.run(once())


def test_invalid_pattern_refused() -> None:
    agent = bare("x")
    for refused in (
        lambda: sequential(),
        lambda: parallel(agent, quorum=2),
        lambda: parallel(agent, quorum=0),
        lambda: parallel(agent, sequential(bare("y"), agent)),
        lambda: triage(agent, {}),
        lambda: triage(agent, {"a": bare("x")}, default="b"),
        lambda: handoff({"a": agent}),
        lambda: handoff({"a": agent, "b": agent}),
        lambda: handoff({"a": agent, "b": bare("x")}, start="c"),
        lambda: loop_until(agent, lambda _: True, rounds=0),
    ):
        with pytest.raises(UsageError):
            refused()


# By choice


async def test_chosen_agent_gets_whole_request() -> None:
    chooser, tech, billing = bare("It is **billing**."), bare("never"), bare(echo)
    result = await triage(chooser, {"tech": tech, "billing": billing}).run("I paid twice")
    assert result.content == "<I paid twice>"
    assert "tech, billing" in asked(chooser)
    assert not tech.messages


async def test_unclear_choice_retried_then_default() -> None:
    agents = {"tech": bare("tech here"), "billing": bare("billing here")}
    assert (await triage(bare("neither", "tech"), agents).run("?")).content == "tech here"
    vague = bare("tech or billing", "hm")
    assert (await triage(vague, agents, default="billing").run("?")).content == "billing here"
    with pytest.raises(UsageError, match="named none of tech, billing"):
        await triage(bare("hm", "hm"), agents).run("?")


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ("bill", "bill"),
        ("Bill-Pay.", "bill-pay"),
        ('"bill"', "bill"),
        ("not bill but bill-pay", None),
        ("billing", None),
        ("", None),
        ("I would say: bill-pay", "bill-pay"),
        ("bill pay later, I think", "bill pay later"),
    ],
)
def test_name_found_in_any_answer(answer: str, name: str | None) -> None:
    assert named(answer, ("bill", "bill-pay", "bill pay later")) == name


async def test_chooser_failure_raised() -> None:
    error, other = broken(), bare("never")
    with pytest.raises(ModelError) as caught:
        await triage(bare(error), {"a": other}, default="a").run("?")
    assert caught.value is error
    stopped = await triage(bare(limits=RunLimits(max_turns=0)), {"a": other}, default="a").run("?")
    assert stopped.stop_reason == "max_turns"
    assert not other.messages


# By handing on


def hand_on(to: str, message: str = "yours") -> tuple[Line, ...]:
    return ("one moment", call("h", "handoff", to=to, message=message))


async def test_handoff_passes_conversation() -> None:
    front, billing = bare(hand_on("billing", "paid twice")), bare(hand_on("refunds"))
    refunds = bare("done", hand_on("front"))
    team = handoff({"front": front, "billing": billing, "refunds": refunds})
    result = await team.run(user("help", Image("image/png", b"1")))
    assert (result.content, result.error, result.turns) == ("done", None, 3)
    told = asked(refunds)
    assert all(words in told for words in ("help", "one moment", "front to billing:\npaid twice", "yours"))
    assert refunds.messages[0].parts[1] == Image("image/png", b"1")
    assert front.messages[-1].results[0].text == "billing continues from here."


async def test_handoffs_limited() -> None:
    a, b = bare(hand_on("b"), hand_on("b")), bare(hand_on("a"))
    result = await handoff({"a": a, "b": b}, start="a", max_handoffs=2).run("go")
    assert (result.stop_reason, result.turns) == ("max_handoffs", 3)
    assert result.error is not None
    with pytest.warns(DeprecationWarning, match="max_handoffs"), pytest.raises(UsageError, match="max_handoffs='2'"):
        handoff({"c": bare(), "d": bare()}, most=cast("int", "2"))


async def test_unknown_handoff_is_error_result() -> None:
    a = bare(hand_on("nobody"), lambda r: r.messages[-1].results[0].text)
    result = await handoff({"a": a, "b": bare("never")}).run("go")
    assert "Invalid arguments for handoff" in result.content


async def test_agent_has_one_handoff_pattern() -> None:
    a = bare("x")
    handoff({"a": a, "b": bare("y")})
    with pytest.raises(UsageError, match="already has a tool 'handoff'"):
        handoff({"a": a, "c": bare("z")})


# Again and again


async def test_answer_revised_until_approved() -> None:
    writer = bare("1", "2", "3")
    result = await loop_until(writer, lambda result: result.content == "3" or f"{result.content} is too small").run(
        "go"
    )
    assert (result.content, result.turns, result.error) == ("3", 3, None)
    assert "2 is too small" in asked(writer)


async def test_async_approval_and_round_limit() -> None:
    async def never(result: Result) -> bool:
        return False

    result = await loop_until(bare("1", "2"), never, rounds=2).run("go")
    assert result.content == "2"
    assert result.error is not None
    assert result.error.kind == "max_rounds"
    assert "2 rounds" in result.error.message


async def test_judge_requests_changes() -> None:
    writer, judge = bare("dull", "fine"), bare("Not approved: make it shine", "**APPROVED**")
    result = await loop_until(writer, judge).run("write")
    assert (result.content, result.turns) == ("fine", 4)
    assert "make it shine" in asked(writer)
    assert "write" in asked(judge)
    assert "fine" in asked(judge)


async def test_judge_failure_raised() -> None:
    error = broken()
    with pytest.raises(ModelError) as caught:
        await loop_until(bare("1"), bare(error)).run("go")
    assert caught.value is error


async def test_memoryless_runnable_gets_task_again() -> None:
    seen: list[str] = []

    def note(prompt: str) -> str:
        seen.append(prompt)
        return f"answer {len(seen)}"

    await loop_until(Own(note), lambda result: result.content == "answer 2").run("the task")
    assert seen[0] == "the task"
    assert "the task" in seen[1]
    assert "answer 1" in seen[1]


# Each is itself usable as an agent


async def test_patterns_are_members_of_patterns() -> None:
    votes = parallel(bare("a"), bare("a"), bare("b"), aggregate=lambda rs: max(r.content for r in rs))
    inner = sequential(votes, bare(echo))
    chosen = triage(bare("loop"), {"loop": loop_until(inner, lambda _: True)})
    result = await chosen.run("go")
    assert (result.content, result.turns) == ("<b>", 5)


async def test_interrupt_keeps_last_answer() -> None:
    pattern = sequential(bare("first words"), parallel(bare(forever), bare(forever)))

    async def run() -> Result:
        result = await pattern.run("go")
        await asyncio.sleep(0)  # whoever waits for it is not cancelled
        return result

    task = asyncio.create_task(run())
    agents = pattern.agents
    await until(lambda: all(agent.running for agent in agents[1:]), task=task, pause=0)
    pattern.interrupt()
    result = await asyncio.wait_for(task, 60)
    assert result.error is not None
    assert (result.content, result.stop_reason, result.error.kind) == ("first words", "interrupted", "interrupted")
    assert not task.cancelling()
    assert not any(agent.running for agent in agents)
    pattern.interrupt()
    assert task.done()


async def test_stream_has_member_events_then_result() -> None:
    events: list[Event] = []
    async for event in sequential(bare("one", path="a"), bare("two", path="b")).stream("go"):
        events.append(event)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["one", "two"]
    assert [event.agent for event in events if isinstance(event, Finished)] == ["a", "b", "sequential"]
    last = events[-1]
    assert isinstance(last, Finished)
    assert last.result.content == "two"
    failing = [event async for event in sequential(bare(broken())).stream("go")][-1]
    assert isinstance(failing, Finished)
    assert failing.result.error is not None
    assert failing.result.error.kind == "auth"


async def test_leaving_stream_ends_run() -> None:
    agent = bare(("word", 60.0, "more"))
    stream = sequential(agent).stream("go")
    async for event in stream:
        if isinstance(event, TextDelta):
            break
    await stream.aclose()
    assert not agent.running


async def test_one_run_at_once() -> None:
    pattern = sequential(bare(forever))
    task = asyncio.create_task(pattern.run("go"))
    await asyncio.sleep(0)
    with pytest.raises(UsageError, match="is running"):
        await pattern.run("again")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
