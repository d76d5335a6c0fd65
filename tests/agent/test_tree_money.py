"""The cap and every allowance hold in any tree, whatever its agents spend, however they fail and whoever stops them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sagent.agent import Agent, Resources, RunLimits, Tree, TreeLimits
from sagent.cost.ledger import Ledger, Reservation
from sagent.cost.prices import PriceBook
from sagent.errors import ModelError
from sagent.lib.json import json_freeze_object
from sagent.messages import Message, Text, ToolCall
from sagent.model import Billed, Delta, ModelLimits, Reply, Request, RequestDigest, TextPart
from sagent.session.contents import ChargeEntry
from sagent.session.entries import read_body
from sagent.session.folds import contents
from sagent.testing import ScriptedModel
from sagent.tools.agents import AgentSelf, AgentSend, AgentSpawn
from sagent.tools.background import BackgroundTask
from sagent.usage import Charge, Usage
from tests.depth import deep

BOOK = PriceBook({"mine/flat": {"input": 1, "output": 1}})
MICRO = Decimal("0.000001")


class Watched(Ledger):
    """A ledger that looks after every change whether a cap is passed."""

    def __init__(self, cap: Decimal) -> None:
        super().__init__(cap, BOOK)
        self.passed: list[str] = []

    def look(self) -> None:
        assert self.cap is not None
        spent = self._books[-1].cost("").total
        if spent + self.held > self.cap:
            self.passed.append(f"the cap: {spent} spent, {self.held} held")
        for path, budget in self._budgets.items():
            used = budget.counted + budget.held + budget.allotted
            if budget.cap is not None and used > budget.cap:
                self.passed.append(f"{path}: {used} of {budget.cap}")

    def allow(self, agent: str, usd: Decimal) -> None:
        super().allow(agent, usd)
        self.look()

    def take_back(self, agent: str) -> None:
        super().take_back(agent)
        self.look()

    async def reserve(self, *args: object, **options: object) -> Reservation:
        try:
            return await super().reserve(*args, **options)  # pyright: ignore[reportArgumentType]
        finally:
            self.look()

    def settle(self, reservation: Reservation, charges: object) -> tuple[Charge, ...]:
        spent = super().settle(reservation, charges)  # pyright: ignore[reportArgumentType]
        self.look()
        return spent

    def release(self, reservation: Reservation) -> None:
        super().release(reservation)
        self.look()


@dataclass
class Chance:
    """A model that spawns, talks, fails, bills and dawdles by chance; never more than it was allowed to bill."""

    random: Random
    density: int = 1  # bytes for a token
    calls_left: int = 60
    provider: str = "mine"
    id: str = "flat"
    limits: ModelLimits = field(default_factory=lambda: ModelLimits(1_000_000, 400))

    def max_input_tokens(self, request: Request) -> int:
        return 100 + sum(len(message.content) for message in request.messages)

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        chance = self.random
        self.calls_left -= 1
        if chance.random() < 0.7:
            await asyncio.sleep(chance.choice((0, 0, 0.001, 0.003)))
        fate = chance.random()
        if fate < 0.06:
            raise ModelError("overloaded", "busy", provider="mine", retry_after=0.0)
        if fate < 0.09:
            raise ModelError("auth", "who are you?", provider="mine")
        if fate < 0.11:
            raise RuntimeError("a defect")
        most_output = request.max_output or 0
        usage = Usage(input=self._count(request), output=chance.choice((most_output, most_output // 2, 1)))
        yield TextPart("w")
        if fate < 0.16:  # billed in part, and cut
            yield Billed((Charge("flat", Usage(input=usage.input, output=min(1, most_output))),))
            raise ModelError("cut", "the stream ended", provider="mine", retry_after=0.0)
        calls = tuple(self._calls(request)) if self.calls_left > 0 else ()
        message = Message("assistant", (Text("w"), *calls), model="mine/flat", stop="tool_use" if calls else "end")
        yield Reply(message, usage, (Charge("flat", usage),), RequestDigest("0" * 64, 1, "flat"))

    def _count(self, request: Request) -> int:
        """Tokens, at most one for a byte; those of a message are as many whenever it is sent."""
        return 100 // self.density + sum(len(message.content) // self.density for message in request.messages)

    def _calls(self, request: Request) -> list[ToolCall]:
        chance = self.random
        number = chance.choice((0, 0, 1, 1, 2, 3))
        return [
            ToolCall(f"c{len(request.messages)}_{n}", name, json_freeze_object({**arguments}))
            for n in range(number)
            for name, arguments in [self._call()]
        ]

    def _call(self) -> tuple[str, Mapping[str, object]]:
        chance = self.random
        match chance.randrange(8):
            case 0:
                return "AgentSend", {"to": chance.choice(("*", "parent", "1", "nobody")), "content": "hi"}
            case 1:
                return "AgentSelf", {"context": {"clear": True}}
            case 2:
                return "BackgroundTask", {"operation": chance.choice(("list", "cancel")), "id": "job:1"}
            case _:
                spawn: dict[str, object] = {"prompt": "x" * chance.randrange(1, 100)}
                if chance.random() < 0.5:
                    spawn["budget_usd"] = chance.randrange(1, 4000) / 1_000_000
                if chance.random() < 0.3:
                    spawn["persistent"] = True
                if chance.random() < 0.3:
                    spawn["background"] = True
                if chance.random() < 0.2:
                    spawn["max_turns"] = 2
                return "AgentSpawn", spawn


async def grow(seed: int) -> None:
    """A tree or two that share a ledger, from their prompts to their ends."""
    chance = Random(seed)
    cap = chance.choice((500, 3_000, 10_000, 100_000)) * MICRO
    ledger = Watched(cap)
    model = Chance(chance, chance.choice((1, 1, 3, 10_000)))
    agents = [
        Agent(
            model,
            tools=[AgentSpawn(), AgentSend(), AgentSelf(), BackgroundTask()],
            limits=RunLimits(max_turns=6, max_retries=1, longest_wait=1.0),
            resources=Resources(ledger=ledger, tree=Tree(TreeLimits(max_depth=4, max_live=12, max_spawns=40))),
        )
        for _ in range(chance.choice((1, 2)))
    ]
    await asyncio.gather(*(live(agent, chance, seed) for agent in agents))
    assert ledger.passed == []
    for agent in agents:
        logs = [agent.log, *(agent.log.child(path) for path in paths(agent))]
        spent = [entry.charge.usd or Decimal(0) for log in logs for entry in contents(log.entries(), ChargeEntry)]
        own, cost = agent.ledger, agent.cost()
        assert sum(cost.by_agent.values()) == cost.total == sum(spent)
        assert {path: own.spent(path) for path in cost.by_agent} == cost.by_agent
        assert own.spent_below("root") == cost.total
        assert own._budgets == {}
        assert [each.path for each in agent.tree.living] == ["root"]
    assert sum(agent.cost().total for agent in agents) == ledger.cost().total <= cap
    assert ledger.held == 0
    assert [(path, each.allotted, list(each.queue)) for path, each in ledger._budgets.items()] == [("", 0, [])]
    assert len(asyncio.all_tasks()) == 1


async def live(agent: Agent, chance: Random, seed: int) -> None:
    """A run or two of a tree, which somebody may disturb."""

    async def disturb() -> None:
        while True:
            await asyncio.sleep(chance.choice((0.001, 0.005, 0.02)))
            one = chance.choice(agent.tree.living)
            match chance.randrange(4):
                case 0:
                    one.interrupt(chance.choice(("tree", "self")))
                case 1 if one is not agent:
                    one.end()
                case 2 if one.hears:
                    one.send("psst")
                case _:
                    pass

    disturber = asyncio.create_task(disturb()) if chance.random() < 0.6 else None
    try:
        for _ in range(chance.choice((1, 2))):
            run = asyncio.create_task(agent.run("go"))
            if chance.random() < 0.3:
                await asyncio.sleep(chance.choice((0, 0.002, 0.01)))
                run.cancel()
            try:
                async with asyncio.timeout(60):
                    await asyncio.gather(run, return_exceptions=True)
            except TimeoutError:
                raise AssertionError(f"seed {seed} hangs: {[(a.path, a.busy) for a in agent.tree.living]}") from None
    finally:
        if disturber:
            disturber.cancel()
            await asyncio.wait([disturber])
        async with asyncio.timeout(60):
            await agent.aclose()


def paths(agent: Agent) -> list[str]:
    """Every agent that ever lived."""
    found: list[str] = []
    level = [agent.log]
    while level:
        names = [str(read_body(e)["agent"]) for log in level for e in log.entries() if e.kind == "spawned"]
        found += names
        level = [agent.log.child(name) for name in names]
    return found


@settings(max_examples=deep(60, 200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_no_cap_or_allowance_is_passed(seed: int) -> None:
    """Trees grown at random, with failures, interruptions and cancellations thrown in."""
    asyncio.run(grow(seed))


async def test_shared_ledger_keeps_costs_apart() -> None:
    ledger = Ledger(Decimal(1), BOOK)
    model = ScriptedModel(*["yes"] * 3, provider="mine", model_id="flat")
    agents = [Agent(model, resources=Resources(ledger=ledger)) for _ in range(3)]
    results = await asyncio.gather(*(agent.run("go") for agent in agents))
    (each,) = {result.run_usd for result in results}
    assert [result.cost.total for result in results] == [each] * 3
    assert ledger.cost().total == 3 * each > 0
