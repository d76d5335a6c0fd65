"""One cap over sessions on many nodes, whatever becomes of nodes, messages and the ways between them: what the provider
bills for all of them together is never more.

Real: the ledger, allowances, the tool that lends them, logs and their copies on the bus. Simulated: the bus, which
loses answers and lags, the nodes, which die, or are cut off and go on until they notice, and the provider.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.engine.request import settle
from sagent.engine.state import Journal
from sagent.errors import BudgetExceeded, ToolError
from sagent.events import Result
from sagent.lib.money import ZERO
from sagent.plugins.mesh import mirror as mirrors
from sagent.plugins.mesh.child import NodeAgent
from sagent.plugins.mesh.errors import Unavailable
from sagent.plugins.mesh.mirror import Mirror, take_over
from sagent.plugins.mesh.rebuild import rebuild
from sagent.plugins.mesh.spending import cost_of, counted_usd
from sagent.session.contents import Label, Reserved
from sagent.session.log import Log
from sagent.session.store import Session
from sagent.usage import Charge, Cost, Usage
from tests.depth import deep
from tests.plugins.mesh.simulated import SimulatedStream

CAP = Decimal("1.00")
MODEL = ("anthropic", "claude-sonnet-4-6")
PRICES = PriceBook()
Plan = list[Any]
"""What a session does: "call" asks the model, a list is a session on another node with that plan."""


@dataclass
class Record:
    """A session as the bus knows it."""

    cap: Decimal | None
    plan: Plan
    stream: SimulatedStream
    holder: str = ""
    result: Result | None = None
    revision: int = 0


@dataclass
class World:
    chance: random.Random
    directory: Path
    sessions: dict[str, Record] = field(default_factory=dict[str, Record])
    billed: Decimal = ZERO
    lives: dict["asyncio.Task[None]", str] = field(default_factory=dict["asyncio.Task[None]", str])
    numbers: Any = field(default_factory=count)

    async def rounds(self, most: int = 4) -> None:
        for _ in range(self.chance.randrange(most)):
            await asyncio.sleep(0)

    async def journey(self) -> None:
        """A message on its way: late, or lost."""
        await self.rounds()
        if self.chance.random() < 0.1:
            raise Unavailable("lost on the way")

    def add(self, session: str, cap: Decimal | None, plan: Plan) -> None:
        """Known once, however often it is asked for."""
        if session not in self.sessions:
            self.sessions[session] = Record(cap, plan, SimulatedStream(self.chance))
        for _ in range(self.chance.choice((1, 1, 1, 2))):  # the work may be given out twice
            self.claim(session)

    def claim(self, session: str) -> None:
        if self.sessions[session].result is None:
            life = asyncio.create_task(Life(self, session, f"n{next(self.numbers)}").live())
            self.lives[life] = session
            life.add_done_callback(self.lives.pop)

    def bill(self, usd: Decimal) -> None:
        self.billed += usd
        assert self.billed <= CAP, f"{self.billed} was billed"

    def write(self) -> None:
        """A person has a session go on that had ended."""
        ended = [name for name, record in self.sessions.items() if name != "root" and record.result is not None]
        if ended:
            session = self.chance.choice(ended)
            self.sessions[session].result = None
            self.sessions[session].revision += 1
            self.claim(session)

    async def strike(self) -> None:
        """Kill a node, or cut it off: then it goes on, and another one begins."""
        life, session = self.chance.choice(list(self.lives.items()))
        if self.chance.random() < 0.7:
            life.cancel()
        await self.rounds()
        self.claim(session)


class Life:
    """A node at work on a session, for as long as it has it."""

    def __init__(self, world: World, session: str, name: str) -> None:
        self._world, self._session, self._name = world, session, name
        self._record = world.sessions[session]

    async def live(self) -> None:
        with suppress(Unavailable):
            await self._world.rounds()
            after = await self._again(lambda: take_over(self._record.stream, self._name))
            self._record.holder = self._name
            self._record.revision += 1
            if self._record.result is not None:  # its record changed on the way: who had it has ended
                return
            directory = self._world.directory / self._name / "s"
            await rebuild(self._record.stream, directory, after)
            mirror = Mirror(self._record.stream, after)
            with Session(directory) as session:
                mirror.follow(session)
                tasks = [asyncio.create_task(each) for each in (mirror.run(), self._work(session, mirror))]
                try:
                    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)  # done, or fenced
                finally:
                    mirror.fence()
                    for task in tasks:
                        task.cancel()
                    found = await asyncio.gather(*tasks, return_exceptions=True)
            for error in found:
                if isinstance(error, Exception):
                    raise error

    async def _again(self, call: Callable[[], Awaitable[int]]) -> int:
        while True:
            try:
                return await call()
            except Unavailable:
                await asyncio.sleep(0)

    async def _work(self, session: Session, mirror: Mirror) -> None:
        ledger, log = Ledger(self._record.cap, PRICES), session.log()
        ledger.restore(session.charges())
        run = SimpleNamespace(interrupted=False, usage=Usage())
        state: Any = SimpleNamespace(journal=Journal("root", log), log=log, ledger=ledger, role="executor", run=run)
        agent: Any = SimpleNamespace(state=state, ledger=ledger, tree={})
        tool = NodeAgent(self._session, self._begin, lambda: agent, mirror.settled)
        begun, done = _labels(log)
        lending: list[asyncio.Task[None]] = []
        try:
            for number, step in enumerate(self._record.plan):
                if step == "call":
                    await self._call(state, mirror)
                elif number not in done and (number not in begun or self._world.chance.random() < 0.5):
                    log.append(Label(f"begun {number}"))
                    lending.append(asyncio.create_task(self._lend(tool, log, number)))
                    await self._world.rounds()
            while await self._call(state, mirror):  # until nothing is left
                pass
            await asyncio.gather(*lending)
            while await self._call(state, mirror):
                pass
        finally:
            for task in lending:
                task.cancel()
            await asyncio.gather(*lending, return_exceptions=True)
        await mirror.settled()
        if self._record.holder == self._name:
            self._record.result = Result("", (), "end", cost=ledger.cost())

    async def _lend(self, tool: NodeAgent, log: Log, number: int) -> None:
        """A call of the tool. One that was open when a node died may be made again, or not."""
        called: Any = SimpleNamespace(agent="root", call_id=f"call{number}")
        budget = self._world.chance.choice((None, None, 0.2, 0.5))
        given: Any = {"prompt": str(number)} | ({} if budget is None else {"budget_usd": budget})
        with suppress(ToolError, BudgetExceeded):
            await tool(given, called)
        log.append(Label(f"done {number}"))

    async def _call(self, state: Any, mirror: Mirror) -> bool:
        """A call of the model, as the engine makes it: it is in the log first. What it is billed may never be heard.
        False where there is no money for it."""
        chance = self._world.chance
        wanted = chance.choice((4_000, 20_000))
        try:
            reservation = await state.ledger.reserve("root", "executor", *MODEL, chance.choice((1_000, 40_000)), wanted)
        except BudgetExceeded:
            return False
        with reservation:
            reservation.enter(state.journal.record(Reserved(reservation.worst)))
            await mirror.settled()
            await self._world.rounds()
            part = chance.choice((0.5, 1, 1, 1))
            usage = Usage(int(reservation.ask.input_bound.tokens * part), output=int(reservation.max_output * part))
            self._world.bill(PRICES.price(*MODEL, usage) or ZERO)
            await self._world.rounds()
            settle(state, reservation, (Charge(MODEL[1], usage),))
        return True

    @asynccontextmanager
    async def _begin(self, session: str, prompt: str, _: str, usd: Decimal | None) -> AsyncGenerator[Any]:
        await self._world.journey()
        self._world.add(session, usd, self._record.plan[int(prompt)])
        await self._world.journey()
        yield SimpleNamespace(wait=lambda: self._result(session), close_budget=lambda: self._end(session))

    async def _result(self, session: str) -> Result:
        while (result := self._world.sessions[session].result) is None:
            await asyncio.sleep(0)
        await self._world.journey()
        return self._world.chance.choice((result, Result("", (), "error")))  # an answer may not know what it cost

    async def _end(self, session: str) -> Cost | None:
        """As `RemotePeer.end` does it on a bus: with compare-and-set."""
        record = self._world.sessions[session]
        while True:
            await self._world.journey()
            revision = record.revision
            if record.result is not None and (cost := await cost_of(record.stream)) is not None:
                await self._world.journey()
                if record.revision == revision:
                    record.revision, record.cap = revision + 1, counted_usd(cost)
                    return cost
            await asyncio.sleep(0)


def _labels(log: Log) -> tuple[set[int], set[int]]:
    """Which sessions on other nodes were begun, and which have ended, by a log."""
    texts = [entry.content.text for entry in log.contents() if isinstance(entry.content, Label)]
    begun, done = ({int(text.split()[1]) for text in texts if text.startswith(what)} for what in ("begun", "done"))
    return begun, done


plans = st.recursive(st.just("call"), lambda inner: st.lists(inner, min_size=1, max_size=4), max_leaves=12)


@settings(max_examples=deep(25, 150))
@given(st.integers(0, 1 << 32), st.lists(plans, min_size=1, max_size=5), st.integers(0, 12))
def test_bill_of_all_nodes_below_cap(
    tmp_path_factory: pytest.TempPathFactory, seed: int, plan: Plan, blows: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(mirrors, "_RETRY_DELAY_SECONDS", 0.0)
        asyncio.run(play(World(random.Random(seed), tmp_path_factory.mktemp("cap")), plan, blows))


async def play(world: World, plan: Plan, blows: int) -> None:
    failed: list[BaseException] = []
    async with AsyncExitStack() as stack, asyncio.timeout(60):
        asyncio.get_running_loop().set_exception_handler(lambda _, said: failed.append(said["exception"]))
        world.add("root", CAP, plan)
        stack.callback(lambda: [life.cancel() for life in world.lives])
        while world.sessions["root"].result is None and not failed:
            for _ in range(world.chance.randrange(1, 60)):
                await asyncio.sleep(0)
            if blows and world.chance.random() < 0.3:
                blows -= 1
                world.write()
            elif world.lives and blows:
                blows -= 1
                await world.strike()
            elif not any(session == "root" for session in world.lives.values()):
                world.claim("root")
            for session, record in list(world.sessions.items()):
                if record.result is None and session not in world.lives.values():
                    world.claim(session)
    assert not failed
