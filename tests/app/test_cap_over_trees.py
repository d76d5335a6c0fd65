"""The cap is a session's: over random trees of agents with every fault, kill and resume, the servers' bills stay under
it."""

import asyncio
import contextlib
import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sagent.agent import Agent
from sagent.app import open_agent
from sagent.config import load
from sagent.cost.prices import PriceBook
from sagent.engine import request as retries
from sagent.errors import BudgetExceeded, SagentError
from sagent.peer import Compact
from sagent.testing.server import Call, Cut, ErrorEvent, Fail, FakeProviderServer, Raw, Received, Stall, Step, Turn
from tests.deleted import deleted
from tests.depth import WHOLE, deep

PRICES = PriceBook()
PROVIDERS = {"claude": "anthropic", "gpt": "openai", "gemini": "google"}
MODELS = ("anthropic/claude-sonnet-4-6", "anthropic/claude-haiku-4-5", "openai/gpt-5.5", "google/gemini-2.5-pro")
TOOLS = "AgentSpawn,AgentSend,AgentSelf,BackgroundTask,List"


def bill(server: FakeProviderServer) -> Decimal:
    """What the providers will ask for: every request that they took, whether or not its answer arrived."""
    total = Decimal(0)
    for charge in server.charges:
        price = PRICES.price(PROVIDERS[charge.model.partition("-")[0]], charge.model, charge.usage)
        assert price is not None, charge.model
        total += price
    return total


class Chance:
    """Providers that answer, spawn, fail, break off and fall silent by chance."""

    def __init__(self, chance: Random, *, worst: bool) -> None:
        self.chance = chance
        self.worst = worst
        self.left = 40  # requests, before they only answer

    def answer(self, request: Received) -> Step:
        chance = self.chance
        self.left -= 1
        # within what was asked for, at four bytes a token, and within the slack of a call that is interrupted
        said = "So. " * chance.choice((1, 1, 40, 100))
        turn = Turn(text=said, calls=tuple(self._calls()) if self.left > 0 else (), pieces=chance.choice((1, 4)))
        fate = chance.random()
        if fate < 0.06:
            return Fail(chance.choice((408, 429, 500, 502, 503, 504, 529)), headers={"retry-after": "0"})
        if fate < 0.20:
            how = chance.choice(("close", "clean", "reset"))
            return Cut(turn, after_events=chance.choice((-1, -1, 0, 1, 2, 5)), how=how)
        if fate < 0.24:
            return ErrorEvent(turn, after_events=chance.choice((0, 1, 3)))
        if fate < 0.30:
            return Stall(turn, after_events=chance.choice((0, 1, 3)), seconds=chance.choice((0.05, 60.0)))
        if fate < 0.32:
            return Raw(body=b"<html>busy</html>")
        if fate < 0.34:
            return Raw(headers={"content-type": "text/event-stream"}, body=b": still here\n\n" * 50)
        if fate < 0.36:
            return Raw(headers={"content-type": "application/json"}, body=b'{"error": {"message": "no"}}')
        return turn

    def _calls(self) -> Iterator[Call]:
        chance = self.chance
        for _ in range(chance.choice((0, 1, 1, 2))):
            match chance.randrange(7):
                case 0:
                    yield Call("AgentSend", {"to": chance.choice(("*", "parent", "1")), "content": "hi"})
                case 1:
                    yield Call("AgentSelf", {"context": chance.choice(({"compact": True}, {"clear": True}))})
                case 2:
                    yield Call("List", {"path": "."})
                case 3:
                    yield Call("advisor", {"question": "why?"})
                case _:
                    order: dict[str, object] = {"prompt": "x" * chance.choice((5, 500))}
                    for name, value, share in (
                        ("model", chance.choice(MODELS), 0.5),
                        ("budget_usd", chance.choice((0.02, 0.2)), 0.3),
                        ("persistent", True, 0 if self.worst else 0.3),
                        ("background", True, 0 if self.worst else 0.3),
                        ("share", "full", 0.2),
                    ):
                        if chance.random() < share:
                            order[name] = value
                    yield Call("AgentSpawn", order)


async def live(seed: int, place: Path, patch: pytest.MonkeyPatch) -> None:
    """One session over several processes, each of which ends by itself, is interrupted or is killed.

    Nothing is interrupted where each reply is billed as the longest there can be: a provider stops soon after the line
    is closed, and that much is counted.
    """
    chance = Random(seed)
    worst = chance.random() < 0.5
    cap, lives = Decimal(chance.choice(("0.05", "0.3", "1", "4"))), chance.choice((1, 2, 4))
    providers, bills = Chance(chance, worst=worst), "worst" if worst else "script"
    async with FakeProviderServer(providers.answer, bill=bills, counts=chance.random() < 0.7) as server:
        flags = {
            "cwd": str(place),
            "model": chance.choice(MODELS),
            "max_budget_usd": str(cap),
            "max_retries": "2",
            **({} if worst else {"max_turns": "6"}),
            "stall_seconds": "0.2",
            "reasoning_stall_seconds": "0.2",
            "tools": TOOLS,
            "permission_mode": "full",
            "transport": "sdk" if WHOLE and not deleted("clouds") and chance.random() < 0.2 else "direct",
            **({"advisor": chance.choice(MODELS), "advisor_mode": "client"} if chance.random() < 0.5 else {}),
            **({"fallback": chance.choice(MODELS)} if chance.random() < 0.3 else {}),
        }
        urls = {"ANTHROPIC": server.url, "OPENAI": f"{server.url}/v1", "GEMINI": server.url}
        for name, url in urls.items():
            patch.setenv(f"{name}_BASE_URL", url)
            patch.setenv(f"{name}_API_KEY", "k")
        for number in range(lives):
            own = load({**flags, "session": str(place / f"life{number}")}, {"HOME": str(place)}, place)
            with contextlib.suppress(BudgetExceeded):
                async with open_agent(own, lambda _: None) as agent:
                    stopped = await act(agent, chance, place / f"life{number + 1}", interrupts=not worst)
                    assert agent.ledger.cost().total <= cap
                    if worst and stopped:
                        return
            assert bill(server) <= cap, f"seed {seed}, life {number}"
        assert server.errors == []


async def act(agent: Agent, chance: Random, following: Path, *, interrupts: bool) -> bool:
    """A run, and what `kill -9` at a moment of it, or its end, leaves of the session, as `following`. Whether its end
    was also that of children at work."""

    def copy() -> None:
        shutil.copytree(agent.log.path, following, ignore=shutil.ignore_patterns("*lock*"))

    run = asyncio.create_task(agent.run("x" * chance.choice((10, 10, 30_000))))
    fate = chance.random()
    if fate < 0.6:
        await asyncio.wait([run], timeout=chance.choice((0.005, 0.02, 0.05, 0.2)))
        if fate < 0.4:
            copy()
            run.cancel()
        elif interrupts:
            agent.interrupt("tree")
        else:
            agent.apply(Compact())
    with contextlib.suppress(SagentError, asyncio.CancelledError):
        async with asyncio.timeout(60):
            await run
    if fate < 0.4:
        return False
    stopped = any(other.busy for other in agent.tree.living)
    await agent.aclose()
    copy()
    return stopped


# asyncio drops the socket of a connection that is given up while it is being made (`staggered_race`)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@settings(max_examples=deep(12, 100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_bill_never_exceeds_cap(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("tree")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retries, "MIN_WAIT_SECONDS", 0.002)
        patch.setattr(retries, "MAX_WAIT_SECONDS", 0.002)
        asyncio.run(live(seed, place, patch))
    shutil.rmtree(place)
