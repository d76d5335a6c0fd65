"""An agent as a tool of another: below the one that calls, on its ledger, within what it may do."""

import asyncio
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest

from sagent.agent import Agent, Resources, RunLimits
from sagent.agent.agent_tool import AgentTool, Runnable
from sagent.agent.tree import Tree, TreeLimits
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import ModelError, ToolError
from sagent.events import Event, Finished
from sagent.lib.json import JsonObject, json_freeze_object
from sagent.messages import ToolCall
from sagent.model import Request
from sagent.peer import Action
from sagent.policy import Ask, Deny, Verdict
from sagent.session.log import MemoryLog
from sagent.testing import Line, ScriptedModel
from sagent.tool import RunContext, ToolOutput, Workspace
from sagent.usage import Usage

PRICES = PriceBook({"scripted/scripted": {"input": "1", "output": "1"}})


def ask(call_id: str, prompt: str, tool: str = "expert") -> ToolCall:
    return ToolCall(call_id, tool, json_freeze_object({"prompt": prompt}))


def results(request: Request) -> str:
    return "|".join(result.text for result in request.messages[-1].results)


def echo(request: Request) -> str:
    return f"<{request.messages[-1].content}>"


def lead(expert: Runnable, *script: Line, **given: object) -> Agent:
    """An agent with an expert for a tool; by default it asks once and says what it heard."""
    tool = AgentTool(expert, "expert", "Knows.")
    resources = Resources(**{"ledger": Ledger(None, PRICES), **given.pop("resources", {})})  # pyright: ignore[reportGeneralTypeIssues]
    script = script or ((ask("1", "why?"),), results)
    return Agent(ScriptedModel(*script), tools=[tool], resources=resources, **given)  # pyright: ignore[reportArgumentType]


class Touch:
    """Says that it ran."""

    name, description, parameters = "Touch", "", json_freeze_object({"type": "object"})

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput | str:
        return "touched"


class Says:
    """A policy with one verdict, but for calls of experts."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict

    async def before_tool(self, call: ToolCall, effect: object, workspace: object) -> Verdict:
        from sagent.policy import Allow

        return Allow() if call.name == "expert" else self.verdict

    async def after_turn(self, turn: object) -> Sequence[Action]:
        return ()


async def test_agent_answers_another_below_it() -> None:
    expert = Agent(ScriptedModel(echo), system="You know.")
    tool = expert.as_tool("expert", "Knows.")
    model = ScriptedModel((ask("1", "why?"),), results)
    agent = Agent(model, tools=[tool])
    events: list[Event] = []
    agent.listen(events.append)
    result = await agent.run("go")
    assert result.content == "<why?>"
    assert [spec.description for spec in model.requests[0].tools] == ["Knows."]
    assert [event.agent for event in events if isinstance(event, Finished)] == ["root/expert", "root"]
    assert expert.model.requests[0].system == "You know."  # pyright: ignore[reportAttributeAccessIssue]
    assert not expert.messages
    assert [each.path for each in agent.tree.living] == ["root"]


async def test_expert_calls_are_separate_and_parallel() -> None:
    together = asyncio.Barrier(2)

    async def meet(request: Request) -> str:
        await asyncio.wait_for(together.wait(), 60)
        return f"{len(request.messages)} {request.messages[-1].content}"

    expert = Agent(ScriptedModel(meet, meet))
    result = await lead(expert, (ask("1", "a"), ask("2", "b")), results).run("go")
    assert result.content == "1 a|1 b"


async def test_expert_call_copies_conversation() -> None:
    expert = Agent(ScriptedModel("noted", lambda r: " ".join(m.content for m in r.messages)))
    await expert.run("the word is x")
    assert (await lead(expert).run("go")).content == "the word is x noted why?"
    assert len(expert.messages) == 2


async def test_callers_ledger_pays_for_expert() -> None:
    ledger = Ledger(Decimal("0.01"), PRICES)
    bill = Usage(input=100, output=50)
    expert = Agent(ScriptedModel(("yes", bill)))
    agent = lead(expert, ((ask("1", "why?")), bill), (results, bill), resources={"ledger": ledger})
    result = await agent.run("go")
    assert result.cost.by_agent == {"root": Decimal("0.0003"), "root/expert": Decimal("0.00015")}
    assert expert.ledger.cost().total == 0

    dear = Agent(ScriptedModel("never", limits=ScriptedModel().limits), system="x" * 20_000)
    result = await lead(dear, resources={"ledger": Ledger(Decimal("0.01"), PRICES)}).run("go")
    assert "expert failed (budget)" in result.content


async def test_expert_cap_on_other_ledger_is_refused() -> None:
    ledger = Ledger(Decimal(1), PRICES)
    expert = Agent(ScriptedModel("yes", "yes"), resources=Resources(ledger=ledger))
    assert "has its own budget" in (await lead(expert).run("go")).content
    assert (await lead(expert, resources={"ledger": ledger}).run("go")).content == "yes"


async def test_failing_expert_tells_partial_output() -> None:
    error = ModelError("auth", "no key", provider="p", model="m")
    expert = Agent(ScriptedModel(("half", ToolCall("t", "Touch")), error), tools=[Touch()])
    agent = lead(expert)
    result = await agent.run("go")
    assert result.error is None
    assert "expert failed (auth): p/m: no key" in result.content
    assert "Its output so far:\nhalf" in result.content
    assert agent.messages[2].results[0].is_error


@pytest.mark.parametrize(
    ("own", "above", "words"),
    [
        (None, Deny("not below me"), "Permission denied: not below me"),
        (Deny("not me"), None, "Permission denied: not me"),
        (Ask("may I?"), Deny("no"), "Permission denied: no"),
        (Ask("may I?"), None, "There is nobody to ask"),
        (None, None, "touched"),
    ],
)
async def test_call_needs_both_policies(own: Verdict | None, above: Verdict | None, words: str) -> None:
    policy = Says(own) if own else None
    expert = Agent(ScriptedModel((ToolCall("t", "Touch"),), results), tools=[Touch()], policy=policy)
    agent = lead(expert, policy=Says(above) if above else None)
    assert words in (await agent.run("go")).content


async def test_tool_hidden_by_either_is_hidden(tmp_path: Path) -> None:
    seen: list[tuple[bool, ...]] = []

    class Peek(Touch):
        async def __call__(self, arguments: JsonObject, run: RunContext) -> str:
            hidden = run.workspace.hidden
            assert hidden is not None
            seen.append(tuple(hidden("Grep", tmp_path)(name) for name in ("a", "b", "c")))
            return "seen"

    own = Workspace(tmp_path, hidden=lambda tool, place: lambda name: name == "a")
    above = Workspace(tmp_path, hidden=lambda tool, place: lambda name: name == "b")
    expert = Agent(ScriptedModel((ToolCall("t", "Touch"),), "end"), tools=[Peek()], resources=Resources(workspace=own))
    await lead(expert, resources={"workspace": above}).run("go")
    assert seen == [(True, True, False)]


async def test_bounds_of_caller_hold_for_expert() -> None:
    for own, above, most in ((5, 2, 2), (1, 5, 1), (None, 2, 2), (2, None, 2)):
        expert = Agent(
            ScriptedModel(*[(ToolCall("t", "Touch"),)] * 5), tools=[Touch()], limits=RunLimits(max_turns=own)
        )
        result = await lead(expert, limits=RunLimits(max_turns=above)).run("go")
        assert f"the limit of {most} turn{'s' * (most > 1)} is" in result.content


async def test_limits_of_tree_hold() -> None:
    expert = Agent(ScriptedModel("never"))
    result = await lead(expert, resources={"tree": Tree(TreeLimits(max_depth=0))}).run("go")
    assert "at most 0 deep" in result.content


@pytest.mark.parametrize("cancel", [False, True])
async def test_stopping_caller_stops_expert(cancel: bool) -> None:
    begun = asyncio.Event()

    async def forever(request: Request) -> str:
        begun.set()
        await asyncio.sleep(60)
        return "never"

    expert = Agent(ScriptedModel(forever))
    agent = lead(expert, (ask("1", "why?"),), "after")
    task = asyncio.create_task(agent.run("go"))
    await asyncio.wait_for(begun.wait(), 30)
    if cancel:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 30)
    else:
        agent.interrupt()
        assert (await asyncio.wait_for(task, 30)).stop_reason == "interrupted"
    assert [each.path for each in agent.tree.living] == ["root"]
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert (await agent.run("again")).content == "after"


async def test_expert_runs_one_call_at_a_time() -> None:
    expert = Agent(ScriptedModel("one", ModelError("auth", "no key", provider="p")))
    tool = expert.as_tool("expert", "Knows.")
    run = RunContext("", "1", Workspace(Path.cwd()), MemoryLog().blobs, lambda text: None)
    first, second = await asyncio.gather(
        tool(json_freeze_object({"prompt": "a"}), run),
        tool(json_freeze_object({"prompt": "b"}), run),
        return_exceptions=True,
    )
    assert isinstance(first, ToolOutput)
    assert first.content[0].text == "one"  # pyright: ignore[reportAttributeAccessIssue]
    assert isinstance(second, ToolError)
    assert "expert failed (auth)" in str(second)
    assert len(expert.messages) == 3
