"""A session that an agent keeps in a directory: begun, gone on with, held against others, with what a run is given."""

import asyncio
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from sagent.agent import Agent, Resources
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import SessionBusy, SessionNotFound, UsageError
from sagent.peer import SpawnRequest
from sagent.session.log import MemoryLog
from sagent.testing import ScriptedModel
from sagent.testing.server import FakeProviderServer, Turn
from sagent.tool import RunContext
from sagent.tools import tool
from tests.agent.cast import PRICES, Cast
from tests.forks import CHECKOUT, Forks
from tests.intact import faults
from tests.messages import call, in_turn


@tool(effect="none")
def who(run: RunContext[str]) -> str:
    """Say for whom."""
    return run.deps


def prompt(run: RunContext[str]) -> str:
    return f"You work for {run.deps}."


async def test_session_is_begun_and_continued(tmp_path: Path) -> None:
    model = ScriptedModel("one", (call("1", "who"),), "two")
    for name, prompts in (("Ann", 1), ("Bob", 2)):
        async with Agent(model, system=prompt, tools=[who], session=tmp_path / "chats" / "a") as agent:
            result = await agent.run("go", deps=name)
            assert Path(result.session_path) == tmp_path / "chats" / "a"
            assert len([message for message in agent.messages if message.content == "go"]) == prompts
    assert [result.text for message in agent.messages for result in message.results] == ["Bob"]
    assert {request.system for request in model.requests} == {"You work for Ann."}
    assert faults(tmp_path / "chats" / "a") == []


async def test_resumed_session_needs_deps_again(tmp_path: Path) -> None:
    async with Agent(ScriptedModel("one"), tools=[who], session=tmp_path / "a") as agent:
        await agent.run("go", deps="Ann")
    model = ScriptedModel("two")
    async with Agent(model, tools=[who], session=tmp_path / "a") as agent:
        with pytest.raises(UsageError, match="root has no deps"):
            await agent.run("go")
        assert not model.requests and len(agent.messages) == 2


async def test_cap_is_of_the_session(tmp_path: Path) -> None:
    def ledger() -> Ledger:
        return Ledger(Decimal(1), PriceBook(PRICES))

    spent = Decimal(0)
    for _ in range(2):
        resources = Resources(ledger=ledger())
        async with Agent(ScriptedModel("one"), session=tmp_path / "a", resources=resources) as agent:
            assert agent.cost().total == spent
            spent = (await agent.run("go")).cost.total
            assert spent > 0


async def test_one_process_per_session(tmp_path: Path) -> None:
    async with Agent(ScriptedModel("one"), session=tmp_path / "a") as agent:
        await agent.run("go")
        with pytest.raises(SessionBusy):
            Agent(ScriptedModel(), session=tmp_path / "a")
    with pytest.raises(UsageError):
        Agent(ScriptedModel(), session=tmp_path / "a", options={"model": "x"})
    with pytest.raises(UsageError, match="two places"):
        Agent(ScriptedModel(), session=tmp_path / "a", resources=Resources(log=MemoryLog()))
    await Agent(ScriptedModel(), session=tmp_path / "a").aclose()


async def test_other_directory_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("x")
    with pytest.raises(UsageError, match="not empty"):
        Agent(ScriptedModel(), session=tmp_path / "notes")
    await Agent(ScriptedModel(), session=tmp_path / "b").aclose()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.txt", "notes"]


async def test_lasting_child_resumes_with_deps(tmp_path: Path) -> None:
    model = Cast(root=in_turn("1", "2"), root__a=in_turn("a", (call("1", "who"),), "b"))
    async with Agent(model, tools=[who], session=tmp_path / "a") as agent:
        await agent.run("go", deps="Ann")
        child = await agent.spawn(SpawnRequest("look", "a", persistent=True))
        await child.wait()
    async with Agent(model, tools=[who], session=tmp_path / "a") as agent:
        await agent.run("go", deps="Bob")
        (child,) = [peer for peer in agent.tree.living if peer.path == "root/a"]
        child.send("look again")
        await asyncio.wait_for(child.wait(), 60)
        assert [result.text for message in child.messages for result in message.results] == ["Bob"]


async def test_session_opens_with_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeProviderServer([Turn("Hello Ann."), Turn("Ann.")]).in_thread() as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        async with Agent("anthropic/claude-sonnet-4-6", session=tmp_path / "a") as agent:
            await agent.run("I am Ann.")
        async with Agent.open(tmp_path / "a", tools=[who]) as agent:
            assert (await agent.run("Who am I?", deps="Ann")).content == "Ann."
        assert server.requests[1].json["model"] == "claude-sonnet-4-6"
    other = ScriptedModel("other")
    async with Agent.open(tmp_path / "a", other) as agent:
        assert len(agent.messages) == 4
        await agent.run("go")
    with pytest.raises(SessionNotFound):
        Agent.open(tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_closed_agent_keeps_later_runs(tmp_path: Path) -> None:
    agent = Agent(ScriptedModel("one", "two"), session=tmp_path / "a")
    assert [agent.run_sync(text).content for text in ("x", "y")] == ["one", "two"]  # each closes it
    other = Agent(ScriptedModel("three"), session=tmp_path / "a")
    assert [message.content for message in other.messages] == ["x", "one", "y", "two"]
    with pytest.raises(SessionBusy, match="That is this process: close the agent that has it"):
        agent.run_sync("while another has it")
    assert other.run_sync("z").content == "three"
    with pytest.raises(UsageError, match="was continued elsewhere: make a new agent"):
        agent.run_sync("after another")
    assert faults(tmp_path / "a") == []


def test_unused_closed_agent_begins_anew(tmp_path: Path) -> None:
    agent = Agent(ScriptedModel("one"), session=tmp_path / "a")
    asyncio.run(agent.aclose())
    assert not (tmp_path / "a").exists()
    agent.run_sync("x")
    assert len(Agent(ScriptedModel(), session=tmp_path / "a").messages) == 2


FORKED = """
import os, sys
from sagent import Agent
from sagent.testing import ScriptedModel

agent = Agent(ScriptedModel("one", "two", "three"), session=sys.argv[1])
import asyncio
asyncio.run(agent.run("x"))
if not (child := os.fork()):
    agent.listen(lambda event: print(getattr(event, "text", ""), file=sys.stderr))
    asyncio.run(agent.run("in the child"))
    os._exit(0)
os.waitpid(child, 0)
asyncio.run(agent.run("y"))
asyncio.run(agent.aclose())
"""


def test_forked_process_writes_no_session(tmp_path: Path) -> None:
    argv = [sys.executable, "-W", "error", "-c", FORKED, str(tmp_path / "a")]
    done = subprocess.run(argv, stderr=subprocess.PIPE, text=True, check=True)
    assert "this process was forked" in done.stderr
    assert [message.content for message in Agent(ScriptedModel(), session=tmp_path / "a").messages] == [
        "x", "one", "y", "two",
    ]  # fmt: skip
    assert faults(tmp_path / "a") == []


KILLED = """
import os, sys
from sagent import Agent, tool
from sagent.lib.json import JsonObject
from sagent.messages import ToolCall
from sagent.testing import ScriptedModel

@tool(effect="none")
def swift() -> str:
    'Done at once.'
    return "done"

@tool
def deadly() -> str:
    'The end.'
    os._exit(9)

names = sys.argv[2:]
calls = tuple(ToolCall(name, name, JsonObject()) for name in names)
Agent(ScriptedModel(calls), tools=[swift, deadly], session=sys.argv[1]).run_sync("x")
"""


@pytest.mark.costly
@pytest.mark.parametrize("names", [["deadly"], ["swift", "deadly"]])
def test_killed_open_calls_get_results(names: list[str], tmp_path: Path, forks: Forks) -> None:
    (tmp_path / "killed.py").write_text(KILLED)
    environment = {"HOME": str(tmp_path), "PYTHONPATH": str(CHECKOUT)}
    done = forks.run("a", *names, cwd=tmp_path, environment=environment, file=tmp_path / "killed.py")
    assert done.returncode == 9
    agent = Agent(ScriptedModel("I go on."), session=tmp_path / "a")  # which takes no call without a result
    assert agent.run_sync("y").content == "I go on."
    assert [result.call_id for result in agent.messages[2].results] == names
    assert agent.messages[2].results[-1].text.startswith("The process ended")
    assert Agent(ScriptedModel(), session=tmp_path / "a").messages == agent.messages
    assert faults(tmp_path / "a") == []
