"""What a run is given by whoever runs it: who gets it, who does not, and what is said where it is missing."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from sagent import run_sync
from sagent.agent import Agent, Resources, RunLimits
from sagent.engine.state import Journal
from sagent.errors import UsageError
from sagent.lib import pace
from sagent.messages import ToolCall
from sagent.model import ToolSpec
from sagent.peer import SpawnRequest
from sagent.policy import Allow, Deny, Policy, Verdict
from sagent.session.log import MemoryLog
from sagent.testing import ScriptedModel
from sagent.tool import Effect, RunContext, Workspace
from sagent.tools import AgentSpawn, BackgroundTask, tool
from tests.agent.cast import Cast
from tests.depth import slow
from tests.messages import call, in_turn


@dataclass
class Shop:
    """What a program's tools need; it can neither be copied nor written down."""

    name: str
    asked: list[str] = field(default_factory=list[str])
    lock: threading.Lock = field(default_factory=threading.Lock)
    closed: bool = False


@dataclass
class Bank:
    """What other tools need."""

    shop: Shop


@tool(effect="none")
async def stock(run: RunContext[Shop], item: str) -> str:
    """How many there are."""
    with run.deps.lock:
        run.deps.asked.append(f"{run.agent} {item}")
    return f"{run.deps.name} has {item}"


SPAWN = (call("1", "AgentSpawn", prompt="look", name="a"),)


def ask(item: str) -> tuple[ToolCall, ...]:
    return (call("1", "stock", item=item),)


def answers(agent: Agent[Shop]) -> list[str]:
    return [result.text for message in agent.messages for result in message.results]


# -- who gets them -----------------------------------------------------------------------------------------------------


async def test_tool_gets_deps_of_its_run() -> None:
    one, two = Shop("one"), Shop("two")
    async with Agent(ScriptedModel(ask("pears"), "1", ask("plums"), "2"), deps_type=Shop, tools=[stock]) as agent:
        await agent.run("go", deps=one)
        await agent.run("go", deps=two)
        assert answers(agent) == ["one has pears", "two has plums"]
    assert (one.asked, two.asked) == (["root pears"], ["root plums"])


def test_run_sync_and_stream_take_them() -> None:
    async def stream(agent: Agent[Shop]) -> list[str]:
        return [type(event).__name__ async for event in agent.stream("go", deps=Shop("streamed"))]

    model = ScriptedModel(ask("pears"), "1")
    agent = Agent(model, deps_type=Shop, tools=[stock])
    assert agent.run_sync("go", deps=Shop("at once")).content == "1"
    other = Agent(ScriptedModel(ask("pears"), "1"), deps_type=Shop, tools=[stock])
    assert asyncio.run(stream(other))[-1] == "Finished"
    assert (answers(agent), answers(other)) == (["at once has pears"], ["streamed has pears"])
    third = Agent(ScriptedModel(ask("pears"), "3"), deps_type=Shop)
    assert run_sync(third, "go", deps=Shop("third"), tools=[stock], output=int).data == 3
    assert answers(third) == ["third has pears"]


async def test_background_call_keeps_its_deps(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sync(journal: Journal) -> None:
        journal.log.sync()

    monkeypatch.setattr(
        Journal, "make_durable", sync
    )  # as where that is done at once: nothing waits before the next run
    monkeypatch.setattr(pace, "ROUND_SECONDS", 60)
    go_on = asyncio.Event()

    @tool(effect="none")
    async def slow(run: RunContext[Shop]) -> str:
        """Take long."""
        await go_on.wait()
        return run.deps.name

    limits = RunLimits(wait_for_jobs=False)
    model = ScriptedModel((call("1", "slow", background=True),), "later", ask("plums"), "done")
    async with Agent(model, deps_type=Shop, tools=[slow, stock, BackgroundTask()], limits=limits) as agent:
        await agent.run("go", deps=Shop("first"))
        job = agent.jobs()[0]
        await agent.run("go", deps=Shop("second"))
        go_on.set()
        await agent.wait_for_job(job.name)
        assert agent.job_output(job.name) == "first"


async def test_agents_of_one_definition_share_no_deps() -> None:
    def make(shop: Shop) -> Agent[Shop]:
        return Agent(ScriptedModel(ask("pears"), "done"), deps_type=Shop, tools=[stock])

    shops = [Shop(str(number)) for number in range(20)]
    agents = [make(shop) for shop in shops]
    await asyncio.gather(*(agent.run("go", deps=shop) for agent, shop in zip(agents, shops, strict=True)))
    assert [answers(agent) for agent in agents] == [[f"{shop.name} has pears"] for shop in shops]


async def test_spawned_agent_has_deps_of_the_run() -> None:
    model = Cast(root=in_turn(SPAWN, "done"), root__a=in_turn(ask("x"), "a"))
    shop = Shop("s")
    async with Agent(model, deps_type=Shop, tools=[stock, AgentSpawn()]) as agent:
        await agent.run("go", deps=shop)
    assert shop.asked == ["root/a x"]


async def test_lasting_child_has_deps_of_each_run() -> None:
    model = Cast(root=in_turn("1", "2"), root__a=in_turn(ask("x"), "a", ask("y"), "b"))
    one, two = Shop("one"), Shop("two")
    async with Agent(model, deps_type=Shop, tools=[stock]) as agent:
        await agent.run("go", deps=one)
        child = await agent.spawn(SpawnRequest("look", "a", persistent=True))
        await child.wait()
        await agent.run("go", deps=two)
        child.send("look again")
        await child.wait()
    assert (one.asked, two.asked) == (["root/a x"], ["root/a y"])


async def test_agent_tool_has_only_handed_deps() -> None:
    expert = Agent(ScriptedModel(ask("x"), "known"), deps_type=Shop, tools=[stock])
    shop = Shop("s")

    def shop_of(run: RunContext[Bank]) -> Shop:
        return run.deps.shop

    handed = expert.as_tool("expert", "Knows.", deps=shop_of)
    lead = Agent(ScriptedModel((call("1", "expert", prompt="?"),), "done"), deps_type=Bank, tools=[handed])
    await lead.run("go", deps=Bank(shop))
    assert shop.asked == ["root/expert x"]

    bare = Agent(ScriptedModel((call("1", "expert", prompt="?"),), "done"), tools=[expert.as_tool("expert", "Knows.")])
    await bare.run("go", deps=shop)
    (said,) = [result.text for message in bare.messages for result in message.results]
    assert (
        "stock takes RunContext[Shop], and root/expert has no deps: pass them with the run of the agent above" in said
    )
    assert shop.asked == ["root/expert x"]


# -- who does not ------------------------------------------------------------------------------------------------------


async def test_deps_are_in_no_log_or_request() -> None:
    model = ScriptedModel(ask("pears"), "done")
    log = MemoryLog()
    async with Agent(model, deps_type=Shop, tools=[stock], resources=Resources(log=log)) as agent:
        await agent.run("go", deps=Shop("secret", ["sesame"]))
        assert "sesame" not in "".join(entry.line.decode() for entry in log.entries())
        assert "sesame" not in repr(model.requests)


def test_context_repr_hides_deps(tmp_path: Path) -> None:
    run = RunContext("root", "1", Workspace(tmp_path), MemoryLog().blobs, lambda _: None, deps=Shop("sesame"))
    assert "sesame" not in repr(run)


# -- where they are missing --------------------------------------------------------------------------------------------


async def test_run_without_deps_is_refused_first() -> None:
    model = ScriptedModel("never")
    async with Agent(model, deps_type=Shop, tools=[stock]) as agent:
        said = r"stock takes RunContext\[Shop\], and root has no deps: pass them with agent.run\(prompt, deps=...\)"
        with pytest.raises(UsageError, match=said):
            await agent.run("go")
        assert not model.requests and not agent.messages
        assert (await agent.run("go", deps=Shop("s"))).content == "never"  # it can be run after that


@pytest.mark.parametrize("wanted", [RunContext, RunContext[None], RunContext[Shop | None], RunContext[object]])
async def test_optional_deps_need_not_be_given(wanted: type) -> None:
    def look(run: object) -> str:
        """Look."""
        return str(run.deps)  # pyright: ignore[reportAttributeAccessIssue]

    look.__annotations__["run"] = wanted
    async with Agent(ScriptedModel((call("1", "look"),), "done"), tools=[look]) as agent:
        await agent.run("go")
        assert answers(agent) == ["None"]


# -- prompts, policies and tools of a run ------------------------------------------------------------------------------


async def test_prompt_is_written_once_per_session() -> None:
    model, written = ScriptedModel("1", "2", "3"), list[str]()

    async def write(run: RunContext[Shop]) -> str:
        written.append(run.deps.name)
        return f"You work for {run.deps.name}."

    log = MemoryLog()
    async with Agent(model, system=write, resources=Resources(log=log)) as agent:
        await agent.run("go", deps=Shop("one"))
        await agent.run("go", deps=Shop("two"))
        messages = agent.messages
    async with Agent(model, system=write, resources=Resources(log=log)) as again:
        again.restore(messages)
        await again.run("go", deps=Shop("three"))
    assert written == ["one"]
    assert {request.system for request in model.requests} == {"You work for one."}


async def test_failing_prompt_raises_then_retries() -> None:
    model = ScriptedModel("1")

    def write(run: RunContext[Shop | None]) -> str:
        assert run.deps is not None
        return run.deps.name

    async with Agent(model, system=write) as agent:
        with pytest.raises(AssertionError):
            await agent.run("go")
        await agent.run("go", deps=Shop("s"))
    assert model.requests[0].system == "s"


class Closed:
    """A policy of one shop."""

    def __init__(self, run: RunContext[Shop]) -> None:
        self.shop = run.deps

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        del call, effect, workspace
        return Deny(f"{self.shop.name} is closed") if self.shop.closed else Allow()

    async def after_turn(self, turn: object) -> Sequence[object]:
        return ()


def open_or_closed(run: RunContext[Shop]) -> Policy:
    return Closed(run)  # pyright: ignore[reportReturnType]


async def test_policy_is_made_for_each_run() -> None:
    model = ScriptedModel(ask("x"), "1", ask("y"), "2")
    async with Agent(model, policy=open_or_closed, tools=[stock]) as agent:
        first = await agent.run("go", deps=Shop("one", closed=True))
        second = await agent.run("go", deps=Shop("two"))
        assert [denial.reason for denial in first.denials] == ["one is closed"] and not second.denials


async def test_policy_uses_deps_in_children_and_copies() -> None:
    closed = Shop("s", closed=True)
    model = Cast(root=in_turn(SPAWN, "done"), root__a=in_turn(ask("x"), "a"))
    async with Agent(model, policy=open_or_closed, tools=[stock, AgentSpawn()]) as agent:
        result = await agent.run("go", deps=Shop("open"))
        assert not result.denials
    expert = Agent(ScriptedModel(ask("x"), "known"), policy=open_or_closed, tools=[stock])
    handed = expert.as_tool("expert", "Knows.", deps=lambda run: closed)
    async with Agent(ScriptedModel((call("1", "expert", prompt="?"),), "done"), tools=[handed]) as lead:
        result = await lead.run("go")
        assert [denial.reason for denial in result.denials] == ["s is closed"]


@tool
def sell(item: str) -> str:
    """Sell something."""
    return item


def choose(run: RunContext[Shop], tools: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
    """A closed shop sells nothing."""
    kept = [spec for spec in tools if not (run.deps.closed and spec.name == "sell")]
    return [replace(spec, description=f"{spec.description} ({run.deps.name})") for spec in kept]


async def test_tools_are_chosen_for_each_run() -> None:
    model = ScriptedModel("1", (call("1", "sell", item="x"),), "2", "3")
    async with Agent(model, prepare_tools=choose, tools=[stock, sell]) as agent:
        await agent.run("go", deps=Shop("a"))
        await agent.run("go", deps=Shop("b", closed=True))
        await agent.run("go", deps=Shop("a"))
        assert answers(agent)[0].startswith("There is no tool named 'sell'")
    shown = [[spec.description for spec in request.tools] for request in model.requests]
    first = ["How many there are. (a)", "Sell something. (a)"]
    assert shown == [first, ["How many there are. (b)"], ["How many there are. (b)"], first]
    assert model.requests[0].tools is model.requests[3].tools


async def test_run_tools_are_gone_in_next_run() -> None:
    closed: list[str] = []

    class Kit:
        name, description, parameters = "kit", "Kit.", stock.parameters

        async def __call__(self, arguments: object, run: RunContext) -> str:
            return "used"

        async def aclose(self) -> None:
            closed.append("kit")

    model = ScriptedModel((call("1", "kit", item="x"),), "1", (call("2", "kit", item="x"),), "2")
    async with Agent(model, tools=[sell]) as agent:
        await agent.run("go", tools=[Kit()])
        await agent.run("go")
        assert answers(agent)[0] == "used" and answers(agent)[1].startswith("There is no tool named 'kit'")
        with pytest.raises(UsageError, match="two tools are called 'sell'"):
            await agent.run("go", tools=[sell])
    assert [len(request.tools) for request in model.requests] == [2, 2, 1, 1]
    assert not closed  # who gave it closes it


async def test_chosen_tools_must_exist() -> None:
    def invent(run: RunContext, tools: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
        return [ToolSpec("other", "", tools[0].parameters)]

    async with Agent(ScriptedModel("never"), prepare_tools=invent, tools=[sell]) as agent:
        with pytest.raises(UsageError, match="prepare_tools returned 'other', but the tools are sell"):
            await agent.run("go")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"system": lambda run: None}, "system: the function returned NoneType; it must return a string"),
        ({"policy": lambda run: None}, "policy: the function returned NoneType; it must return a policy"),
        (
            {"prepare_tools": lambda run, tools: None},
            "prepare_tools: the function returned NoneType; it must return a list of tools",
        ),
    ],
)
async def test_function_of_wrong_type_is_named(given: dict, said: str) -> None:
    async with Agent(ScriptedModel("never"), tools=[sell], **given) as agent:
        with pytest.raises(UsageError, match=said):
            await agent.run("go")


async def test_tools_may_be_given_one_by_one() -> None:
    model = ScriptedModel("done")
    async with Agent(model, prepare_tools=lambda run, tools: iter(tools), tools=[sell]) as agent:  # pyright: ignore[reportArgumentType]
        await agent.run("go")
    assert [spec.name for spec in model.requests[0].tools] == ["sell"]


async def test_deps_are_never_copied_or_shown() -> None:
    class Odd(Shop):
        def __bool__(self) -> bool:
            raise AssertionError

        def __eq__(self, other: object) -> bool:
            raise AssertionError

        def __deepcopy__(self, memo: object) -> Shop:
            raise AssertionError

        __hash__ = None
        __copy__ = __reduce__ = __repr__ = __str__ = __bool__  # pyright: ignore[reportAssignmentType]

    model = Cast(root=in_turn(SPAWN, "done"), root__a=in_turn(ask("x"), "a"))
    async with Agent(model, policy=open_or_closed, prepare_tools=choose, tools=[stock, AgentSpawn()]) as agent:
        result = await agent.run("go", deps=Odd("s"))
    assert result.error is None


# -- types -------------------------------------------------------------------------------------------------------------

TYPES = '''
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_type

from sagent import Agent, Result, RunContext, run_sync
from sagent.model import ToolSpec
from sagent.policy import AllowAll, Policy
from sagent.tools import Read, tool


@dataclass
class Db:
    name: str


class BigDb(Db): ...


@dataclass
class Shop:
    till: int


@tool
async def lookup(run: RunContext[Db], key: str) -> str:
    """Look up."""
    return run.deps.name + key


@tool(effect="read")
def find(run: RunContext[Db], key: str) -> str:
    """Find."""
    return run.deps.name + key


@tool
def free(run: RunContext, city: str) -> str:
    """Free."""
    return city


def plain(city: str) -> str:
    """Plain."""
    return city


class Desk:
    @tool
    def look(self, run: RunContext[Db], shelf: int) -> str:
        """Look."""
        return run.deps.name


async def prompt(run: RunContext[Db]) -> str:
    return run.deps.name


def policy(run: RunContext[Db]) -> Policy:
    return AllowAll()


def choose(run: RunContext[Db], tools: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
    return [replace(spec, description=run.deps.name) for spec in tools]


def db_of(run: RunContext[Shop]) -> Db:
    return Db(str(run.deps.till))


agent = Agent(
    "anthropic/claude-sonnet-4-6",
    deps_type=Db,
    system=prompt,
    policy=policy,
    prepare_tools=choose,
    tools=[lookup, find, free, plain, Read(), Desk().look],
)
assert_type(agent, Agent[Db])
assert_type(Agent("anthropic/claude-sonnet-4-6", tools=[lookup]), Agent[Db])
assert_type(Agent("anthropic/claude-sonnet-4-6"), Agent[object])
Agent[BigDb]("anthropic/claude-sonnet-4-6", tools=[lookup, plain])
Agent("anthropic/claude-sonnet-4-6", deps_type=Shop, tools=[agent.as_tool("db", "Knows.", deps=db_of), free])


async def main() -> None:
    await agent.run("go", deps=BigDb("x"), tools=[lookup, plain])
    assert_type((await agent.run("go", deps=Db("x"), output=Shop)).data, Shop | None)
    assert_type(run_sync(agent, "go", deps=Db("x"), output=Shop).data, Shop | None)
    assert_type(run_sync(agent, {"prompt": "go"}, deps=Db("x"), tools=[plain]), Result)
    agent.stream("go", deps=Db("x"))
    await Agent("anthropic/claude-sonnet-4-6").run("go")
'''
WRONG = """
Agent("m", deps_type=Shop, tools=[lookup])
Agent[Shop]("m", tools=[free, find])
Agent("m", deps_type=Shop, tools=[Desk().look])
Agent("m", deps_type=Shop, system=prompt)
Agent("m", deps_type=Shop, policy=policy)
Agent("m", deps_type=Shop, prepare_tools=choose)
Agent("m", deps_type=Db, tools=[agent.as_tool("db", "Knows.", deps=db_of)])
agent.run_sync("go", deps=Shop(1))
agent.run_sync("go", output=Shop, deps=Shop(1))
agent.stream("go", deps=Shop(1))
run_sync(agent, "go", deps=Shop(1))
""".strip().splitlines()


@slow
@pytest.mark.parametrize("checker", ["pyright", "mypy"])
def test_other_deps_fail_type_checks(checker: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(TYPES + "\n" + "\n".join(WRONG) + "\n")
    if checker == "mypy":
        pytest.importorskip("mypy")
        command = [sys.executable, "-m", "mypy", "--strict", "program.py"]
    else:
        (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict", "include": ["program.py"]}')
        command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    lines = [line.partition("program.py:")[2] for line in done.stdout.splitlines() if "program.py:" in line]
    wrong = {int(line.partition(":")[0]) for line in lines if " error" in line}
    first = (TYPES + "\n").count("\n") + 1
    assert wrong == set(range(first, first + len(WRONG))), done.stdout + done.stderr
