"""The ledger equals what the servers billed, role by role, to the last digit, whatever happens on the way."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sagent.advisor.advisor import Advisor
from sagent.advisor.advisory import Setup
from sagent.advisor.extension import advise
from sagent.advisor.rules import TRIGGERS, Rules
from sagent.agent import Agent, Resources, RunLimits, Tree
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import ModelError, ModelErrorKind, SagentError
from sagent.messages import Message, Text, Thinking
from sagent.model import Billed, Delta, Model, ModelLimits, Reply, Request, RequestDigest, TextPart
from sagent.peer import Cancel, Compact, Consult, Switch
from sagent.providers import Anthropic, OpenAI
from sagent.session.entries import read_body
from sagent.testing.scripted import check_pairing
from sagent.testing.server import Call, Fail, FakeProviderServer, Received, Step, Turn
from sagent.usage import Charge, Usage
from tests.advisor.cast import Act, act, ask
from tests.depth import deep, later

ROW = {"input": "1.1", "output": "5.3", "cache_read": "0.11", "cache_write": "1.37"}
MODELS = ("anthropic/small", "anthropic/large", "openai/small", "openai/large")
BOOK = PriceBook(
    {name: {key: str(Decimal(value) * (n + 1)) for key, value in ROW.items()} for n, name in enumerate(MODELS)}
)
KINDS: tuple[ModelErrorKind, ...] = ("rate_limit", "overloaded", "server", "network", "auth", "context_overflow")
OFTEN = settings(max_examples=deep(80, 250), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass
class Books:
    """What the servers billed, by role."""

    usage: dict[str, Usage] = field(default_factory=dict)
    usd: dict[str, Decimal] = field(default_factory=dict)

    def bill(self, role: str, provider: str, model: str, usage: Usage) -> None:
        self.usage[role] = self.usage.get(role, Usage()) + usage
        price = BOOK.price(provider, model, usage)
        assert price is not None
        self.usd[role] = self.usd.get(role, Decimal(0)) + price


@dataclass
class Chance:
    """A model that answers, asks, fails, dawdles and is cut by chance, and keeps books of what it bills.

    What it bills it says before it can be broken off, as Anthropic does in `message_start`: what was not told is
    estimated, and an estimate cannot be exact.
    """

    random: Random
    books: Books
    provider: str
    id: str
    limits: ModelLimits = field(default_factory=lambda: ModelLimits(200_000, 8_000))

    def max_input_tokens(self, request: Request) -> int:
        return 200 + sum(len(message.content) for message in request.messages)

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        check_pairing(request.messages)
        chance, role = self.random, self._role(request)
        if chance.random() < 0.12:
            raise ModelError(chance.choice(KINDS), "no", provider=self.provider, retry_after=0.0)
        usage = Usage(
            input=chance.randrange(1, 3_000),
            cache_read=chance.choice((0, chance.randrange(9_000))),
            cache_write=chance.choice((0, chance.randrange(500))),
            output=chance.randrange(20, 900),
        )
        yield Billed((Charge(self.id, usage),))
        self.books.bill(role, self.provider, self.id, usage)
        yield TextPart("So")
        if chance.random() < 0.5:
            await asyncio.sleep(chance.choice((0, 0.001, 0.005)))
        if chance.random() < 0.08:
            raise ModelError(chance.choice(("cut", "stalled")), "gone", provider=self.provider, retry_after=0.0)
        message = self._advice() if role != "executor" else self._work(request)
        yield Reply(message, usage, (Charge(self.id, usage),), RequestDigest("0" * 64, 1, self.id))

    def _role(self, request: Request) -> str:
        path = request.conversation.split(":", 1)[1]
        if ":advisor:" in path:
            return "advisor:" + path.split(":")[2]
        return "advisor:looker" if "advisor-looker" in path else "executor"

    def _advice(self) -> Message:
        said = self.random.choice(
            ("VERDICT: proceed", "VERDICT: adjust\nGAP: x", "VERDICT: stop", "", "It is fine as it is.")
        )
        stop = self.random.choice(("end", "end", "end", "max_tokens", "refusal"))
        return Message("assistant", (Text(said),) if said else (Thinking("hm"),), stop=stop)

    def _work(self, request: Request) -> Message:
        chance, n = self.random, len(request.messages)
        said = chance.choice(("So", "[NEED_ADVICE]", "[CONFIDENCE:0.1]", "[REJECTED: no]", "[CONTRADICTED: it passes]"))
        calls = [act(f"c{n}", n=n, error=chance.random() < 0.4)] if chance.random() < 0.7 else []
        if chance.random() < 0.5:
            who = chance.choice(({}, {"name": "second"}, {"name": "looker"}, {"name": "nobody"}, {"question": "why?"}))
            calls.append(ask(f"a{n}", **who))
        if n > 24:
            calls = []
        return Message("assistant", (Text(said), *calls), stop="tool_use" if calls else "end")


async def live(seed: int) -> None:
    """One session, from its first prompt to its end."""
    chance, books = Random(seed), Books()
    models: dict[str, Model] = {name: Chance(chance, books, *name.split("/")) for name in MODELS}  # pyright: ignore[reportArgumentType]
    cap = chance.choice((None, None, Decimal("0.2"), Decimal(5)))
    ledger = Ledger(cap, BOOK)
    rules = Rules(
        triggers=tuple(chance.sample(TRIGGERS, chance.randrange(len(TRIGGERS) + 1))),
        cooldown_turns=chance.choice((0, 2)),
        max_advisor_calls=chance.choice((None, 3)),
        max_usd=chance.choice((None, Decimal("0.1"))),
    )
    roster = [
        Advisor("advisor", "openai/large", effort=chance.choice(("", "high"))),
        Advisor("second", "anthropic/large", max_calls=chance.choice((None, 2))),
        Advisor("looker", "openai/small", tools=("Act",)),
    ]
    setup = Setup(rules=rules, panel=chance.choice(("first", "all")), on_stop=chance.choice(("pass", "end")))
    agent = Agent(
        models["anthropic/small"],
        tools=[Act()],
        limits=RunLimits(max_turns=10, max_retries=2, longest_wait=1.0),
        resources=Resources(
            ledger=ledger, resolve=lambda name: models[name], tree=Tree(), advisory=advise(roster, setup)
        ),
    )

    async def disturb() -> None:
        while True:
            await asyncio.sleep(chance.choice((0, 0.001, 0.004)))
            match chance.randrange(7):
                case 0:
                    agent.apply(Switch(model=chance.choice(MODELS)))
                case 1:
                    agent.apply(Switch(advisor=chance.choice(("off", "on", "second=off", "advisor=anthropic/large"))))
                case 2 | 3:
                    agent.apply(Cancel())
                case 4:
                    agent.apply(Consult("Is it safe?", chance.choice(("", "second"))))
                case 5:
                    agent.apply(Compact(drop=("*",)) if chance.random() < 0.5 else Compact(clear=True))
                case _:
                    if chance.random() < 0.3:
                        agent.interrupt()

    disturber = asyncio.create_task(disturb()) if chance.random() < 0.7 else None
    try:
        for _ in range(chance.choice((1, 2, 3))):
            try:
                async with asyncio.timeout(60):
                    await agent.run("go")
            except TimeoutError:
                raise AssertionError(f"seed {seed} hangs") from None
            except SagentError:
                pass
    finally:
        if disturber:
            disturber.cancel()
            ended, _ = await asyncio.wait([disturber])
            assert all(task.cancelled() for task in ended), [task.exception() for task in ended if not task.cancelled()]
        await agent.aclose()
        while agent.advisory._for_person:  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
            await asyncio.sleep(0)
    usage: dict[str, Usage] = {}
    for (_, role), used in ledger.usage().items():
        usage[role] = usage.get(role, Usage()) + used
    cost = ledger.cost()
    assert usage == books.usage
    assert {role: usd for role, usd in cost.by_role.items() if usd} == books.usd
    assert cost.executor == books.usd.get("executor", 0)
    assert (
        cost.advisor
        == cost.total - cost.executor
        == sum((usd for role, usd in books.usd.items() if role != "executor"), Decimal(0))
    )
    assert agent.advisory is not None
    for name, tally in agent.advisory.report().tallies.items():
        assert (tally.usage, tally.usd) == (
            books.usage.get(f"advisor:{name}", Usage()),
            books.usd.get(f"advisor:{name}", 0),
        )
        assert tally.calls == tally.answered + tally.declined + tally.failed
    logs = [
        agent.log,
        *(agent.log.child(str(read_body(e)["agent"])) for e in agent.log.entries() if e.kind == "spawned"),
    ]
    spent = [entry.content.charge for log in logs for entry in log.entries() if entry.kind == "spent"]  # pyright: ignore[reportAttributeAccessIssue]
    assert sum((record.usd or Decimal(0) for record in spent), Decimal(0)) == cost.total
    assert ledger.held == 0
    await asyncio.sleep(0)  # for what was cancelled last
    assert len(asyncio.all_tasks()) == 1


@OFTEN
@given(st.integers(0, 2**32))
def test_ledger_equals_bills_of_any_session(seed: int) -> None:
    """With failures, retries, cancellations, interruptions, switches, panels, and advisors that are agents."""
    asyncio.run(live(seed))


@later
@settings(max_examples=deep(8, 40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_ledger_equals_bills_over_http(seed: int) -> None:
    """What these servers fail with bills nothing, so that every usage is one that they told."""
    asyncio.run(serve(seed))


async def serve(seed: int) -> None:
    chance = Random(seed)

    def counted() -> Usage:
        return Usage(
            input=chance.randrange(1, 3_000),
            cache_read=chance.choice((0, 512)),
            output=chance.randrange(40, 900),  # fewer are not believed
        )

    def script(request: Received) -> Step:
        if chance.random() < 0.2:
            return Fail(chance.choice((429, 500, 503)), headers={"retry-after": "0"})
        if request.json.get("model") == "large":
            return Turn(text=chance.choice(("VERDICT: proceed", "VERDICT: adjust", "")), usage=counted())
        n = len(request.body)
        calls = (Call("Act", {"n": n}), Call("advisor", {})) if chance.random() < 0.8 and n < 14_000 else ()
        return Turn(text=chance.choice(("So", "[NEED_ADVICE]")), calls=calls, usage=counted())

    async with FakeProviderServer(script) as one, FakeProviderServer(script) as two:
        anthropic, openai = Anthropic.from_key("k", base_url=one.url), OpenAI.from_key("k", base_url=f"{two.url}/v1")
        providers = {"anthropic": anthropic, "openai": openai}

        def resolve(name: str) -> Model:
            return providers[name.partition("/")[0]].model(name.partition("/")[2])

        ledger = Ledger(None, BOOK)
        rules = Rules(triggers=("need_advice",), max_advisor_calls=None)
        agent = Agent(
            resolve("anthropic/small"),
            tools=[Act()],
            limits=RunLimits(max_turns=8, max_retries=3),
            resources=Resources(ledger=ledger, resolve=resolve, advisory=advise(["openai/large"], Setup(rules=rules))),
        )
        changes = [
            Switch(model="openai/small"),
            Switch(advisor="anthropic/large"),
            Switch(advisor="off"),
            Switch(advisor="on"),
        ]
        for _ in range(3):
            with contextlib.suppress(SagentError):
                await agent.run("go")
            agent.apply(chance.choice(changes))
        await agent.aclose()
        books = Books()
        for provider, server in (("anthropic", one), ("openai", two)):
            for charge in server.charges:
                role = "advisor:advisor" if charge.model == "large" else "executor"
                books.bill(role, provider, charge.model, charge.usage)
        found = {role: used for (_, role), used in ledger.usage().items()}
        assert {role: (u.total_input, u.output) for role, u in found.items()} == {
            role: (u.total_input, u.output) for role, u in books.usage.items()
        }
        assert {role: usd for role, usd in ledger.cost().by_role.items() if usd} == {
            r: u for r, u in books.usd.items() if u
        }
        await anthropic.aclose()
        await openai.aclose()
