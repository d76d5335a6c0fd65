"""A call that did not arrive whole was never made, for everything that reads a conversation."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from sagent.advisor.rules import Rules
from sagent.agent import Agent, Resources
from sagent.context.compaction import edited, sum_up
from sagent.context.plan import last_plan, plan_in, plan_note
from sagent.context.todo import tasks_in
from sagent.engine.dispatch import close_calls
from sagent.events import TextDelta
from sagent.messages import Message, StopReason, ToolCall, assistant, user
from sagent.session.contents import AdviceOutcome
from sagent.session.log import MemoryLog
from sagent.testing import ScriptedModel, check_pairing
from sagent.testing.server import Call, FakeProviderServer, Stall, Turn
from tests.advisor.cast import OK, Rig, act, ask, oracle, worker
from tests.agent.test_cut_calls import FAMILIES, Wipe, provider_of, region
from tests.messages import call
from tests.waiting import SECONDS, until

__all__ = ["region"]  # a fixture
STOPS: Sequence[StopReason] = ("max_tokens", "context_overflow", "refusal", "content_filter", "error")
PLAN = call("p1", "ExitPlan", plan="# Plan\n1. Wipe /")


def cut(made: ToolCall) -> ToolCall:
    return replace(made, whole=False)


def talk(made: ToolCall, stop: StopReason) -> list[Message]:
    """A conversation in which a reply ended for `stop` after a call."""
    agent = Agent(ScriptedModel(()), resources=Resources(log=MemoryLog()))
    reply = assistant("I see.", made, stop=stop)
    agent.state.context.history += [user("go"), reply]
    close_calls(agent.state, reply, "not run")
    return [*agent.state.context.history]


@pytest.mark.parametrize("stop", STOPS)
def test_plan_of_a_cut_call_is_none(stop: StopReason) -> None:
    messages = talk(PLAN, stop)
    assert last_plan(messages[:2]) == ""
    assert plan_note(messages, messages) == ()
    assert last_plan([user("go"), assistant("", PLAN, stop="tool_use")]) == "# Plan\n1. Wipe /"


@pytest.mark.parametrize("stop", STOPS)
def test_plan_heading_of_cut_reply_is_none(stop: StopReason) -> None:
    text = "# Plan\n1. Wipe /ho"
    assert plan_in(assistant(text, stop=stop)) == ""
    assert plan_in(assistant(text)) == text
    assert plan_in(user(text)) == ""


@pytest.mark.parametrize("stop", STOPS)
def test_cut_call_wrote_no_list(stop: StopReason) -> None:
    todos = [{"content": "wipe", "status": "pending"}]
    messages = talk(call("t1", "TodoWrite", todos=todos), stop)
    assert tasks_in(messages) == tasks_in(messages[:2]) == ()
    assert tasks_in([assistant("", call("t1", "TodoWrite", todos=todos), stop="tool_use")])[0].text == "wipe"


@pytest.mark.parametrize("stop", STOPS)
def test_cut_call_changed_and_ran_nothing(stop: StopReason) -> None:
    changed = talk(call("e1", "Edit", file_path="/a.py"), stop)
    assert edited(changed, 5) == edited(changed[:2], 5) == ()
    assert "rm -rf" not in sum_up(talk(call("b1", "Bash", command="rm -rf /home"), stop))
    assert "rm -rf" in sum_up([assistant("", call("b1", "Bash", command="rm -rf /home"), stop="tool_use")])


async def test_cut_consultation_pauses_no_rules() -> None:
    """The executor's own question was cut, so that nobody was asked: a rule that fires next is not held up."""
    rules = Rules(triggers=("confidence",), cooldown_turns=5)
    doubt = ("[CONFIDENCE:0.1] hm", act("c1"))
    asking = Message("assistant", (cut(ask(question="Which?")),), stop="max_tokens")
    for first, advised in ((asking, ["confidence"]), ((ask(question="Which?"),), ["asked"])):
        rig = Rig(worker(first, doubt, "done"), oracle(OK, OK), rules=rules)
        await rig.run()
        assert [advice.trigger for advice in rig.advice] == advised


async def test_cut_call_is_no_wish_of_an_advisor() -> None:
    """Advice is followed by calls that are made."""
    wanted = "VERDICT: proceed\nNEXT: call `Act` with zebra"
    tries = dict[bool, list[str]]()
    for whole in (True, False):
        second = replace(act("c1", says="zebra"), whole=whole)
        stop: StopReason = "tool_use" if whole else "max_tokens"
        reply = Message("assistant", (second,), stop=stop)
        rig = Rig(worker((ask(question="Which?"),), reply, "done"), oracle(wanted))
        await rig.run()
        entries = rig.agent.state.log.contents().of("advice")
        tries[whole] = [entry.content.outcome for entry in entries if isinstance(entry.content, AdviceOutcome)]
        assert bool(rig.acts.done) == whole
    assert "followed" in tries[True]
    assert "followed" not in tries[False]


@pytest.mark.parametrize("family", FAMILIES)
async def test_interrupt_in_arguments_makes_no_call(family: str) -> None:
    """The text so far stays, the call does not, and the next request is one that the provider takes."""
    begun = Stall(Turn("Now I wipe.", calls=[Call("wipe", {"path": "/home/" + "a" * 400})], pieces=3), after_events=6)
    wipe, heard = Wipe(), asyncio.Event()
    async with FakeProviderServer([begun, Turn("ok")]) as server:
        provider, model = provider_of(family, server.url)
        async with Agent(provider.model(model), tools=[wipe.tool]) as agent:
            agent.listen(lambda event: heard.set() if isinstance(event, TextDelta) else None)
            running = asyncio.ensure_future(agent.run("go"))
            await until(heard.is_set, "the first text", task=running, seconds=4 * SECONDS)  # an SDK is loaded
            agent.interrupt()
            assert (await running).stop_reason == "interrupted"
            assert not agent.messages[-1].calls
            assert (await agent.run("again")).content == "ok"
            check_pairing(agent.messages)
        await provider.aclose()
    assert wipe.paths == []
