"""Races of agents of scripted speed and skill: the true bill keeps within the cap, and nothing is left."""

import asyncio
import json
import random
import re
import subprocess
from collections.abc import Callable
from contextlib import ExitStack, suppress
from decimal import Decimal
from pathlib import Path

import pytest

from sagent import tools
from sagent.agent import Agent, Resources
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.plugins.race.command import RaceEnd, settle
from sagent.plugins.race.race import Race, Racer, Rules
from sagent.plugins.worktrees.preparation import Preparation
from sagent.plugins.worktrees.record import Repository, records, repository_at
from sagent.plugins.worktrees.worktree import made, remove
from sagent.policy.permissions import PermissionPolicy
from sagent.providers import Anthropic
from sagent.session.log import MemoryLog
from sagent.testing.server import Call, FakeProviderServer, Received, Stall, Step, Turn
from tests.depth import deep
from tests.repositories import copy_repositories

MODEL = "claude-haiku-4-5"
PRICES = PriceBook()
WORK = "echo {name} > found.txt"
LIMIT_SECONDS = 4.0


class Drawn:
    """What is drawn for one race: each agent's speed and skill, the cap, and after how many requests it is stopped."""

    def __init__(self, seed: int, part: int) -> None:
        self.hang = f"sleep 4177{part}"  # other parts may run beside this one
        draw = random.Random(seed)
        self.names = [f"r{number}" for number in range(draw.randint(2, 4))]
        self.delays = {name: draw.choice([0, 0.01, 0.05, 0.2]) for name in self.names}
        self.skills = {name: draw.choice([0, 0, 1, 2, 9]) for name in self.names}  # checks that fail before one passes
        self.hangs = {name for name in self.names if draw.random() < 0.25}
        self.stalls = {name for name in self.names if draw.random() < 0.2}
        self.cap = Decimal(draw.choice(["0.004", "0.03", "0.2", "1"]))
        self.interrupted = draw.choice([None, None, None, 2, 5])
        self.over, self._requests = asyncio.Event(), 0
        self.check = draw.choice(["test -e found.txt", "test -e found.txt && sleep 0.05", "test -e found.txt"])

    @property
    def is_late(self) -> bool:
        """True if one may be stopped while others go on."""
        return bool(self.hangs or self.stalls)

    def answer(self, request: Received) -> Step:
        """Answer an agent: calls that hang, answers that never end, and after some failed checks the work."""
        self._requests += 1
        if self._requests == self.interrupted:
            self.over.set()
        messages = json.loads(request.body)["messages"]
        found = re.search(r"You are root/(r\d)", json.dumps(messages[0]))
        assert found is not None
        name, spoken = found[1], json.dumps(messages)
        turn = Turn(text="I have done it. " * 20, delay=self.delays[name])
        if name in self.hangs and self.hang not in spoken:
            return Turn(
                calls=(Call("Bash", {"command": f"{self.hang}.{name[1]}", "timeout": 60}),), delay=self.delays[name]
            )
        if name in self.stalls and "exits with" in spoken:
            return Stall(turn, after_events=4, seconds=60.0)
        skilled = spoken.count("exits with") >= self.skills[name]
        if skilled and "echo r" not in spoken:
            return Turn(calls=(Call("Bash", {"command": WORK.format(name=name)}),), delay=self.delays[name])
        return turn


@pytest.fixture
def repository(made_repositories: Path, tmp_path: Path) -> Repository:
    copy_repositories(made_repositories, tmp_path / "repositories")
    return repository_at(tmp_path / "repositories/work", tmp_path / "state")


@pytest.mark.parametrize("part", range(deep(1, 4)))
async def test_bill_processes_and_worktrees(
    repository: Repository, processes: Callable[[str], list[int]], part: int
) -> None:
    each = deep(3, 50)
    wins = 0
    for seed in range(part * each, (part + 1) * each):
        drawn = Drawn(seed, part)
        async with FakeProviderServer(drawn.answer, bill="worst") as server:
            end = await raced(drawn, repository, server)
            bill = sum((PRICES.price("anthropic", MODEL, usage) or Decimal(0) for usage in server.billed), Decimal(0))
        assert bill <= drawn.cap, seed
        assert processes(f"sleep\x004177{part}") == [], seed
        won = end.winner is not None
        wins += won
        assert won is (repository.root / "found.txt").exists(), seed
        assert not (won and drawn.skills[end.winner.name if end.winner else ""] > 2), seed
        for record in records(repository):
            assert not won and record.state == "kept", seed
            remove(record)
        assert not repository.home.exists(), seed
        listed = subprocess.run(["git", "worktree", "list"], cwd=repository.root, capture_output=True, check=True)
        assert listed.stdout.count(b"\n") == 1, seed
        (repository.root / "found.txt").unlink(missing_ok=True)
    assert wins > 0


async def raced(drawn: Drawn, repository: Repository, server: FakeProviderServer) -> RaceEnd:
    """Race as the command does, and settle it."""
    provider = Anthropic.from_key("k", base_url=server.url)
    model, end = provider.model(MODEL), RaceEnd()
    resources = Resources(ledger=Ledger(drawn.cap, PRICES), log=MemoryLog(), resolve=lambda _: model)
    belt = [tools.Bash(), tools.Write(), tools.Read()]
    root = Agent(model, tools=belt, policy=PermissionPolicy("full"), resources=resources)
    with ExitStack() as held:
        for name in drawn.names:
            record = held.enter_context(made(repository, f"{name}-", "race", Preparation()))
            end.records[name] = record
            end.racers.append(Racer(name, f"anthropic/{MODEL}", record.path))
        race = Race(
            root, Rules("Find it.", drawn.check, time_limit=LIMIT_SECONDS if drawn.is_late else None), end.racers
        )
        running, over = asyncio.create_task(race.run()), asyncio.create_task(drawn.over.wait())
        await asyncio.wait([running, over], return_when=asyncio.FIRST_COMPLETED)
        over.cancel()
        running.cancel()  # nothing, once it has ended
        with suppress(asyncio.CancelledError):
            end.winner = await running
        assert all(racer.standing != "running" for racer in end.racers)
        await root.aclose()
        await provider.aclose()
        assert root.ledger.held == 0
        settle(end, keep=False)
    return end
