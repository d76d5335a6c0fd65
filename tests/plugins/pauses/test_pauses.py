"""Calls that wait for an answer over the end of a process."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sagent import Agent, Resources, Result, UsageError
from sagent.lib.json import JsonObject
from sagent.messages import Message, ToolCall
from sagent.model import Request
from sagent.plugins.pauses import Pauses
from sagent.policy.permissions import PermissionPolicy
from sagent.policy.rules import Rules
from sagent.testing import ScriptedModel
from sagent.tools import tool

CALLS = [ToolCall(host, "deploy", JsonObject({"host": host})) for host in ("staging", "production")]


class Shop:
    """A program with a tool that a policy asks about."""

    def __init__(self, place: Path) -> None:
        self.place, self.pauses = place, Pauses()

    def agent(self, *script: object, rules: Rules | None = None) -> Agent[object]:
        """An agent on the session of this place."""

        @tool(effect="execute")
        def deploy(host: str) -> str:
            """Deploy to a host."""
            with (self.place / "deployed").open("a") as file:
                file.write(f"{host}\n")
            return f"deployed to {host}"

        policy = PermissionPolicy("ask", rules or Rules())
        return Agent(
            ScriptedModel(*script),  # pyright: ignore[reportArgumentType]
            tools=[deploy],
            policy=policy,
            session=self.place / "chat",
            resources=Resources(ask=self.pauses),
        )

    @property
    def deployed(self) -> list[str]:
        file = self.place / "deployed"
        return file.read_text().split() if file.exists() else []


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def last(request: Request) -> Message:
    """Return what the model reads last."""
    return request.messages[-1]


async def test_calls_wait_and_are_answered_later(shop: Shop) -> None:
    async with shop.agent(tuple(CALLS), "I wait.") as agent:
        assert (await agent.run("Deploy.")).content == "I wait."
        assert [each.call for each in shop.pauses.waiting(agent)] == CALLS and shop.deployed == []
    heard: list[str] = []

    def answer(request: Request) -> str:
        heard.append(last(request).content)
        return "Done."

    shop.pauses = Pauses()  # of another process
    async with shop.agent(answer) as agent:
        result = await shop.pauses.resume(agent, {"staging": True, "production": "not on a Friday"})
        assert (result.content, result.error) == ("Done.", None) and shop.deployed == ["staging"]
        assert shop.pauses.waiting(agent) == []
    assert "deployed to staging" in heard[0] and "not on a Friday" in heard[0]


async def test_each_call_is_answered_once(shop: Shop) -> None:
    async with shop.agent(tuple(CALLS), "I wait.", "One done.") as agent:
        await agent.run("Deploy.")
        await shop.pauses.resume(agent, {"production": True})
        assert [each.call.id for each in shop.pauses.waiting(agent)] == ["staging"] and shop.deployed == ["production"]
        for answers in ({"production": True}, {"nothing": True}, {}):
            with pytest.raises(UsageError, match="waits"):
                await shop.pauses.resume(agent, answers)
    assert shop.deployed == ["production"]


async def test_two_answers_at_once_make_one_call(shop: Shop) -> None:
    async with shop.agent((CALLS[0],), "I wait.", "Done.") as agent:
        await agent.run("Deploy.")
        answers = [shop.pauses.resume(agent, {"staging": True}) for _ in range(2)]
        first, second = await asyncio.gather(*answers, return_exceptions=True)
        assert isinstance(first, Result) and isinstance(second, UsageError) and shop.deployed == ["staging"]


async def test_answered_call_is_judged_again(shop: Shop) -> None:
    async with shop.agent((CALLS[1],), "I wait.") as agent:
        await agent.run("Deploy.")
    async with shop.agent("It is forbidden now.", rules=Rules.parse(deny=["deploy"])) as agent:
        await shop.pauses.resume(agent, {"production": True})
        assert shop.deployed == [] and shop.pauses.waiting(agent) == []


async def test_model_cannot_answer_for_the_person(shop: Shop) -> None:
    again = ToolCall("production-answered", "deploy", JsonObject({"host": "production"}))
    async with shop.agent((CALLS[1],), "I wait.", (again,), "I tried.") as agent:
        await agent.run("Deploy.")
        await agent.run("Go on.")
        assert shop.deployed == [] and [each.call.id for each in shop.pauses.waiting(agent)] == [CALLS[1].id, again.id]


async def test_new_prompt_leaves_calls_waiting(shop: Shop) -> None:
    async with shop.agent((CALLS[0],), "I wait.", "It is sunny.", "Done.") as agent:
        await agent.run("Deploy.")
        assert (await agent.run("How is the weather?")).content == "It is sunny."
        assert [each.call.id for each in shop.pauses.waiting(agent)] == ["staging"]
        await shop.pauses.resume(agent, {"staging": True})
        assert shop.deployed == ["staging"]


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from sagent import Agent, Resources
from sagent.plugins.pauses import Pauses
from sagent.policy.permissions import PermissionPolicy
from sagent.testing import ScriptedModel
from sagent.tools import tool

@tool(effect="execute")
def deploy(host: str) -> str:
    "Deploy to a host."
    Path(sys.argv[1], "deployed").write_text(host)
    os.kill(os.getpid(), signal.SIGKILL)
    return host

pauses = Pauses()
policy = PermissionPolicy("ask")
agent = Agent(ScriptedModel("x"), tools=[deploy], policy=policy, session=Path(sys.argv[1], "chat"),
              resources=Resources(ask=pauses))
asyncio.run(pauses.resume(agent, {"staging": True}))
"""


async def test_killed_call_is_not_made_twice(shop: Shop) -> None:
    async with shop.agent((CALLS[0],), "I wait.") as agent:
        await agent.run("Deploy.")
    killed = subprocess.run([sys.executable, "-c", KILLED, shop.place], check=False, env={**os.environ}, timeout=120)
    assert killed.returncode == -signal.SIGKILL and shop.deployed == ["staging"]
    heard: list[str] = []

    def answer(request: Request) -> str:
        heard.append(last(request).content)
        return "I shall look."

    async with shop.agent(answer) as agent:
        assert shop.pauses.waiting(agent) == []
        assert (await shop.pauses.resume(agent, {})).content == "I shall look."
        assert "may have been made" in heard[0] and shop.deployed == ["staging"]
        with pytest.raises(UsageError, match="no answer"):
            await shop.pauses.resume(agent, {})
