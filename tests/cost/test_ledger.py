"""The cap holds under any interleaving, nobody waits for ever, and the sums are those of what was settled."""

import asyncio
import json
import random
import re
from datetime import timedelta
from decimal import Decimal, localcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.cost.ledger import LONE_SHARE, ROOMY_OUTPUT, Ledger
from sagent.cost.prices import PriceBook
from sagent.cost.unfinished import SLACK_PER_SECOND, SLACK_TOKENS, interrupted, lost
from sagent.errors import BudgetExceeded
from sagent.lib.json import canonical_bytes
from sagent.session.contents import ChargeEntry
from sagent.session.entries import decode, encode
from sagent.usage import Charge, Usage
from tests.cost.bounds import bound_of
from tests.depth import deep

FLAT = {"input": 1, "output": 1}
BOOK = PriceBook({"mine/flat": FLAT, "mine/free": {"input": 0, "output": 0}, "deepseek/flat": FLAT, "groq/flat": FLAT})
MICRO = Decimal("0.000001")


def micros(count: int) -> Decimal:
    """So many tokens of mine/flat."""
    return count * MICRO


def billed(output: int = 0, *, fresh: int = 0, model: str = "flat", usd: Decimal | None = None) -> list[Charge]:
    return [Charge(model, Usage(input=fresh, output=output), usd=usd)]


async def test_clock_set_back_shortens_no_slack():
    ledger = Ledger(Decimal(10), BOOK)
    with await ledger.reserve("root", "executor", "deepseek", "flat", 10, 1_000_000) as reservation:
        reservation.at += timedelta(hours=1)  # by the clock it has not begun yet
        reservation._began -= 100
        reservation.settle(interrupted(reservation, (), 0))
    least = SLACK_TOKENS + 100 * SLACK_PER_SECOND
    assert micros(least) <= ledger.cost().unbilled < micros(2 * least)


@pytest.mark.parametrize(("provider", "stops"), [("deepseek", True), ("groq", False), ("mine", False)])
async def test_interrupted_call_may_be_billed_whole(provider: str, stops: bool):
    ledger = Ledger(Decimal(10), BOOK)
    with await ledger.reserve("root", "executor", provider, "flat", 10, 1_000_000) as reservation:
        reservation.settle(interrupted(reservation, (), 400))
    assert (ledger.cost().unbilled < micros(100_000)) is stops
    assert stops or ledger.cost().total + ledger.cost().unbilled == micros(1_000_010)


@pytest.mark.parametrize("cap", [None, Decimal(10)])
async def test_unsure_bill_is_the_same_without_budget(cap: Decimal | None):
    ledger = Ledger(cap, BOOK)
    with await ledger.reserve("root", "executor", "mine", "flat", 1_000, 5_000, likely=100) as reservation:
        reservation.settle(lost(reservation, (), 400))
    assert (ledger.cost().total, ledger.cost().unbilled) == (micros(200), micros(5_800))
    with await ledger.reserve("root", "executor", "mine", "flat", 1_000, 5_000) as reservation:
        reservation.take_note(billed(fresh=50), 70)
        reservation.settle(lost(reservation, tuple(billed(fresh=50)), 0))
    assert ledger.cost().unbilled == micros(5_800 + 70)
    if cap is None:
        ledger.cap = micros(6_200)  # a first budget counts what was not certain
        with pytest.raises(BudgetExceeded):
            await ledger.reserve("root", "executor", "mine", "flat", 100, 1, 1)


async def test_totals_by_role_model_and_agent():
    ledger = Ledger(None, BOOK)
    for agent, role, count in (
        ("root", "executor", 100),
        ("root", "advisor:opus", 20),
        ("root/review", "executor", 3),
        ("root/review/deep", "compactor", 4),
        ("rooted", "executor", 50),
    ):
        with await ledger.reserve(agent, role, "mine", "flat", 10, 10) as reservation:
            reservation.settle(billed(count))
    with await ledger.reserve("root", "executor", "nobody", "knows", 10, None) as reservation:
        assert reservation.max_output is None
        (spent,) = reservation.settle([Charge("knows", Usage(input=7, output=5, reasoning=2), estimated=True)])
    assert spent == Charge(
        "knows",
        Usage(7, output=5, reasoning=2),
        "",
        None,
        estimated=True,
        role="executor",
        provider="nobody",
        agent="root",
    )

    totals = ledger.cost()
    assert (totals.total, totals.executor, totals.advisor, totals.other) == tuple(
        micros(count) for count in (177, 153, 20, 4)
    )
    assert totals.by_model == {"mine/flat": micros(177), "nobody/knows": 0}
    assert totals.by_agent == {
        "root": micros(120),
        "root/review": micros(3),
        "root/review/deep": micros(4),
        "rooted": micros(50),
    }
    assert totals.unpriced == ("nobody/knows",)
    assert ledger.usage()["root", "executor"] == Usage(7, output=105, reasoning=2)
    assert {model: each.usage for model, each in ledger.totals().by_model.items()} == {
        "mine/flat": Usage(output=177),
        "nobody/knows": Usage(7, output=5, reasoning=2),
    }
    assert ledger.spent("root") == micros(120)
    assert ledger.spent_below("root") == micros(127)
    assert ledger.spent_below("root/review") == micros(7)


async def test_restored_entries_count_as_spent():
    first = Ledger(Decimal(1), BOOK)
    with await first.reserve("root", "executor", "mine", "flat", 100, 100) as reservation:
        entries = reservation.settle(billed(60, fresh=100))
    second = Ledger(micros(200), BOOK)
    second.restore(entries)
    assert second.cost() == first.cost()
    assert second.usage() == first.usage()
    with await second.reserve("root", "executor", "mine", "flat", 10, 1000, 1) as reservation:
        assert reservation.max_output == 30


async def test_trees_share_budget_with_own_sums():
    ledger = Ledger(micros(1_000), BOOK)
    before = Charge("flat", Usage(output=100), usd=micros(100), agent="root/x", role="executor", provider="mine")
    ledger.restore([before])
    one, two, seen = ledger.branch("root"), ledger.branch("root"), list[Charge]()
    one.listen(seen.append)
    assert (one.cost().total, two.cost().total) == (micros(100), 0)
    one.allow("root/a", micros(300))
    two.allow("root/a", micros(200))
    two.lend("root/a")
    assert (one.cap_of("root/a"), two.cap_of("root/a"), ledger.room("root")) == (micros(300), micros(200), micros(400))
    assert (one.cost().unbilled, two.cost().unbilled, ledger.cost().unbilled) == (0, micros(200), micros(200))
    with pytest.raises(BudgetExceeded):
        await two.reserve("root", "executor", "mine", "flat", 401, 1, 1)
    for tree, count in ((one, 250), (two, 7)):
        with await tree.reserve("root/a", "executor", "mine", "flat", 10, count) as reservation:
            assert ledger.held == tree.held
            reservation.settle(billed(count))
        tree.take_back("root/a")
    assert [tree.cost().total for tree in (one, two, ledger)] == [micros(350), micros(7), micros(357)]
    assert (sum(charge.usd or 0 for charge in seen), ledger.cost().unbilled) == (micros(250), 0)
    two.cap = micros(400)
    assert [tree.room("root") for tree in (one, two, ledger)] == [micros(43)] * 3
    assert one.shares_budget(two)
    assert not one.shares_budget(Ledger(micros(400), BOOK))


async def test_call_waits_for_one_of_another_tree():
    ledger = Ledger(micros(10_000), BOOK)
    one, two = ledger.branch("root"), ledger.branch("root")
    first = await one.reserve("root", "executor", "mine", "flat", 5_000, 5_000)
    waits = asyncio.create_task(two.reserve("root", "executor", "mine", "flat", 5_000, 5_000))
    await until_blocked(waits)
    first.settle(billed(5, fresh=5))
    second = await waits
    second.settle(billed(8))
    assert (one.cost().total, two.cost().total, ledger.cost().total) == (micros(10), micros(8), micros(18))


async def test_output_limit_lowered_to_affordable():
    cap = Decimal("0.50")
    ledger = Ledger(cap, BOOK)
    with await ledger.reserve("root", "executor", "anthropic", "claude-sonnet-4-5", 20_000, 64_000) as reservation:
        limit = reservation.max_output
        assert limit is not None
        costs = [bound_of(BOOK, "anthropic", "claude-sonnet-4-5", 20_000, output) for output in (limit, limit + 1)]
    assert costs[0] is not None
    assert costs[1] is not None
    assert costs[0] <= cap / LONE_SHARE < costs[1]


async def test_unaffordable_call_refusal_has_figures():
    ledger = Ledger(micros(1000), BOOK)
    with await ledger.reserve("root", "executor", "mine", "flat", 0, 700) as reservation:
        reservation.settle(billed(700))
    with pytest.raises(BudgetExceeded) as caught:
        await ledger.reserve("root", "executor", "mine", "flat", 100, 5000)
    message = str(caught.value)
    for figure in (
        "mine/flat",
        "budget is $0.001,",
        "$0.0007 counts as spent",
        "$0.0003 of it is left",
        "raise it to $0.01",
        "44 tokens (sagent sessions compact)",
        "at 84 % of the price",
        "cost $0.000356;",
        "256",
    ):
        assert figure in message
    assert ledger.cost().total == micros(700)
    with await ledger.reserve("root", "executor", "mine", "flat", 100, 50) as reservation:
        assert reservation.max_output == 50  # a small call still fits
        waiting = asyncio.create_task(ledger.reserve("root", "executor", "mine", "flat", 100, 144, 144))
        await asyncio.sleep(0)
        assert not waiting.done()
        ledger.cap = micros(2000)
        with await waiting as other:
            assert other.max_output == 144


@pytest.mark.parametrize("cap", ["0.10", "0.5213"])  # also one that was lowered below what is spent
async def test_cap_raised_as_told_lets_call_through(cap: str):
    spent = Charge("flat", Usage(output=510_001), usd=micros(510_001), agent="root")

    async def ask(usd: Decimal, fresh: int) -> None:
        ledger = Ledger(usd, BOOK)
        ledger.restore([spent])
        with await ledger.reserve("root", "executor", "mine", "flat", fresh, 5000):
            pass

    with pytest.raises(BudgetExceeded) as caught:
        await ask(Decimal(cap), 20_000)
    found = re.search(r"raise it to \$([\d.]+)", str(caught.value))
    assert found is not None
    await ask(Decimal(found[1]), 22_000)


async def test_impossible_count_is_not_believed():
    async def lie() -> int:
        return 67

    ledger = Ledger(micros(30_000), BOOK)
    with pytest.raises(BudgetExceeded):
        await ledger.reserve("root", "executor", "mine", "flat", 40_000, 5000, likely=13_000, count=lie)


async def test_early_partial_count_is_no_bound():
    """Gemini's streams begin with a third to a half of what they end with: signatures and images are missing."""
    ledger = Ledger(Decimal(1), BOOK)
    with await ledger.reserve("root", "executor", "mine", "flat", 3_000, 1_000, likely=1_000) as reservation:
        reservation.take_note(billed(fresh=350))
        assert ledger.held == micros(1_000 + 1_000)
        reservation.take_note(billed(fresh=1_100))
        assert ledger.held == micros(1_100 + 1_000)


async def test_unpriced_is_refused_local_is_not():
    ledger = Ledger(Decimal(0), BOOK)
    with pytest.raises(BudgetExceeded, match=r"nobody/knows has no known price.*settings"):
        await ledger.reserve("root", "executor", "nobody", "knows", 10, 10)
    for provider, model in (("ollama", "any"), ("mine", "free")):
        with await ledger.reserve("root", "executor", provider, model, 10**9, 10**6) as reservation:
            assert reservation.max_output == 10**6


async def test_bill_beyond_bound_is_recorded():
    ledger = Ledger(micros(1000), BOOK)
    with await ledger.reserve("root", "executor", "mine", "flat", 0, 300) as reservation:
        reservation.settle(billed(5000))
        assert ledger.held == 0
    assert ledger.cost().total == micros(5000)
    with pytest.raises(BudgetExceeded):
        await ledger.reserve("root", "executor", "mine", "flat", 0, 300)


async def test_servers_model_name_has_its_price():
    ledger = Ledger(Decimal(1), BOOK)
    with await ledger.reserve("root", "executor", "mine", "flat", 0, 300) as reservation:
        (spent,) = reservation.settle(billed(300, model="flat-by-another-name"))
    assert (spent.model, spent.usd) == ("flat-by-another-name", micros(300))


async def test_unpriced_part_uses_what_was_held():
    ledger = Ledger(micros(1000), BOOK)
    with await ledger.reserve("root", "executor", "mine", "flat", 0, 800) as reservation:
        spent = reservation.settle([*billed(10), Charge("unheard-of", Usage(output=10))])
    assert [record.usd for record in spent] == [micros(10), None]
    assert ledger.cost().total == micros(10)
    assert ledger.cost().unpriced == ("mine/unheard-of",)
    with await ledger.reserve("root", "executor", "mine", "flat", 0, 800, 1) as reservation:
        assert reservation.max_output == 200


async def test_unpriced_fee_is_kept_apart():
    ledger = Ledger(micros(1000), BOOK)
    with await ledger.reserve("root", "executor", "mine", "flat", 0, 800) as reservation:
        spent = reservation.settle([Charge("flat", Usage(output=10, fees={"web_search": 2}))])
    assert [(record.usage, record.usd) for record in spent] == [
        (Usage(output=10), micros(10)),
        (Usage(fees={"web_search": 2}), None),
    ]
    assert ledger.cost().total == micros(10)
    assert ledger.cost().unpriced == ("mine/flat",)  # so the sum is shown as a minimum
    assert ledger.usage()["root", "executor"] == Usage(output=10, fees={"web_search": 2})
    with await ledger.reserve("root", "executor", "mine", "flat", 0, 800, 1) as reservation:
        assert reservation.max_output == 200  # and the reservation counts in full
    again = Ledger(None, BOOK)
    again.restore(spent)
    assert again.cost() == ledger.cost()


async def test_each_round_has_its_price_band():
    """Two rounds of 150k are not one of 300k, which Sonnet 4.5 bills at twice the price."""
    ledger = Ledger(None, PriceBook())
    charge = Charge("claude-sonnet-4-5", Usage(input=150_000))
    with await ledger.reserve("root", "executor", "anthropic", "claude-sonnet-4-5", 0, None) as reservation:
        reservation.settle([charge, charge])
    assert ledger.cost().total == Decimal("0.9")


async def test_failed_call_frees_its_money():
    ledger = Ledger(micros(1000), BOOK)

    async def fail() -> None:
        with await ledger.reserve("root", "executor", "mine", "flat", 0, 1000):
            assert ledger.held == micros(1000)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert ledger.held == 0
    assert ledger.cost().total == 0


async def until_blocked(task: "asyncio.Task[object]") -> None:
    for _ in range(20):
        await asyncio.sleep(0)
    assert not task.done()


async def test_call_waits_in_turn():
    ledger = Ledger(micros(1000), BOOK)
    first = await ledger.reserve("a", "executor", "mine", "flat", 0, 900)
    large = asyncio.create_task(ledger.reserve("b", "executor", "mine", "flat", 0, 800, 800))
    await until_blocked(large)
    small = asyncio.create_task(ledger.reserve("c", "executor", "mine", "flat", 0, 50))
    await until_blocked(small)  # it would fit, but it came later
    first.settle(billed(100))
    assert (await large).max_output == 800
    assert (await small).max_output == 50
    assert ledger.held == micros(850)


async def test_hopeless_waiting_call_is_refused():
    ledger = Ledger(micros(1000), BOOK)
    first = await ledger.reserve("a", "executor", "mine", "flat", 0, 900)
    waiting = asyncio.create_task(ledger.reserve("b", "executor", "mine", "flat", 0, 800))
    behind = asyncio.create_task(ledger.reserve("c", "executor", "mine", "flat", 0, 90))
    await until_blocked(waiting)
    first.settle(billed(900))
    with pytest.raises(BudgetExceeded):
        await waiting
    assert (await behind).max_output == 90


async def test_cancelling_the_first_lets_others_in():
    ledger = Ledger(micros(1000), BOOK)
    first = await ledger.reserve("a", "executor", "mine", "flat", 0, 900)
    large = asyncio.create_task(ledger.reserve("b", "executor", "mine", "flat", 0, 800, 800))
    small = asyncio.create_task(ledger.reserve("c", "executor", "mine", "flat", 0, 50))
    await until_blocked(small)
    large.cancel()
    assert (await small).max_output == 50
    assert ledger.held == micros(950)
    first.release()
    assert ledger.held == micros(50)


async def test_granted_money_of_cancelled_call_returns():
    ledger = Ledger(micros(1000), BOOK)
    first = await ledger.reserve("a", "executor", "mine", "flat", 0, 900)
    waiting = asyncio.create_task(ledger.reserve("b", "executor", "mine", "flat", 0, 800))
    await until_blocked(waiting)
    first.release()  # grants it; its task has not run yet
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ledger.held == 0


async def test_no_short_reply_is_forced_by_others():
    ledger = Ledger(micros(10_000), BOOK)
    first = await ledger.reserve("a", "executor", "mine", "flat", 0, 9000)
    waiting = asyncio.create_task(ledger.reserve("b", "executor", "mine", "flat", 0, 9000))
    await until_blocked(waiting)  # a thousand tokens are left, enough for a cut reply only
    first.settle(billed(500))
    assert (await waiting).max_output == ROOMY_OUTPUT


async def test_sums_are_exact_in_any_context():
    ledger = Ledger(Decimal(1000), BOOK)
    with localcontext() as context:
        context.prec = 2
        for usd in (Decimal("123.456"), Decimal("0.000000000000000001")):
            with await ledger.reserve("root", "executor", "mine", "flat", 10, 10) as reservation:
                reservation.settle(billed(1, usd=usd))
        total = ledger.cost().total
    assert total == Decimal("123.456000000000000001")


async def test_fifty_calls_at_worst_case_keep_cap():
    cap = Decimal("0.05")
    ledger = Ledger(cap, BOOK)

    async def call(number: int) -> bool:
        provider, model = ("anthropic", "claude-sonnet-4-5"), ("openai", "gpt-5.5")
        name = (provider, model)[number % 2]
        try:
            reservation = await ledger.reserve(f"root/{number}", "executor", *name, 1000, 300)
        except BudgetExceeded:
            return False
        with reservation:
            await asyncio.sleep(0)
            worst = bound_of(BOOK, *name, 1000, reservation.max_output or 0)
            reservation.settle([Charge(name[1], Usage(input=1000, output=reservation.max_output or 0), usd=worst)])
        return True

    made = await asyncio.gather(*(call(number) for number in range(50)))
    total = ledger.cost().total
    assert total <= cap
    assert 0 < sum(made) < 50
    assert total > cap / 2  # and what it allows can be spent


async def test_fifty_cheap_calls_all_pass():
    ledger = Ledger(micros(10_000), BOOK)

    async def call(number: int) -> None:
        with await ledger.reserve(f"root/{number}", "executor", "mine", "flat", 100, 4000) as reservation:
            await asyncio.sleep(0)
            reservation.settle(billed(5, fresh=10))

    await asyncio.gather(*(call(number) for number in range(50)))
    assert ledger.cost().total == micros(750)


MODELS = [
    ("anthropic", "claude-sonnet-4-5"),  # dearer above 200k
    ("openai", "gpt-5.5"),  # dearer above 272k
    ("deepseek", "deepseek-v4-flash"),  # dearer at some hours
    ("mine", "flat"),
    ("mine", "free"),
]


@settings(max_examples=deep(12, 40), deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 6_000_000))
def test_cap_holds_in_any_interleaving(seed, cap_micros):
    """Fifty tasks reserve, settle for at most the worst case, release, fail and are cancelled at random."""
    chance = random.Random(seed)
    cap = cap_micros * MICRO
    ledger = Ledger(cap, BOOK)
    settled: list[Charge] = []

    async def call(number: int) -> None:
        provider, model = chance.choice(MODELS)
        bound = chance.choice([0, 1000, 150_000, 200_000, 250_000, 400_000])
        asked = chance.choice([1, 256, 5000, 64_000])
        try:
            reservation = await ledger.reserve(f"root/{number % 7}", "executor", provider, model, bound, asked)
        except BudgetExceeded:
            return
        with reservation:
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            limit = reservation.max_output
            assert limit is not None
            assert min(256, asked) <= limit <= asked
            if chance.random() < 0.8:
                if chance.random() < 0.5:
                    usage = Usage(input=bound, output=limit)
                else:
                    cuts = sorted(chance.randint(0, bound) for _ in range(3))
                    usage = Usage(cuts[0], cuts[1] - cuts[0], cuts[2] - cuts[1], output=chance.randint(0, limit))
                settled.extend(reservation.settle([Charge(model, usage)]))
                assert ledger.cost().total <= cap

    async def run() -> None:
        tasks = [asyncio.create_task(call(number)) for number in range(50)]
        for _ in range(30):
            await asyncio.sleep(0)
            assert ledger.held + ledger.cost().total <= cap
            if chance.random() < 0.3:
                chance.choice(tasks).cancel()
        outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)
        for outcome in outcomes:
            assert outcome is None or isinstance(outcome, asyncio.CancelledError), outcome

    asyncio.run(run())
    assert ledger.held == 0
    totals = ledger.cost()
    assert totals.total == sum((record.usd or Decimal(0) for record in settled), Decimal(0)) <= cap
    assert sum(totals.by_agent.values()) == sum(totals.by_model.values()) == totals.total
    assert not totals.unpriced


@pytest.mark.parametrize("known", [True, False])
async def test_unpriced_counts_the_same_after_resume(known: bool):
    """A call that was cut off is billed by the provider for more than was seen of it."""
    ledger = Ledger(micros(100), BOOK)
    reservation = await ledger.reserve("root", "executor", "mine", "flat", 10, 70)
    usage = Usage(input=10, output=1) if known else Usage(fees={"unheard_of": 1})
    settled = reservation.settle([Charge("flat", Usage(input=5)), Charge("flat", usage, estimated=known)])
    assert sum(charge.at_most or charge.usd or 0 for charge in settled) == micros(80)
    written = [(kind, json.loads(canonical_bytes(body))) for kind, body in map(encode, map(ChargeEntry, settled))]
    read = [entry.charge for entry in (decode(*each) for each in written) if isinstance(entry, ChargeEntry)]
    assert read == list(settled)

    again = Ledger(micros(100), BOOK)
    again.restore(read)
    assert again.cost() == ledger.cost(), "what it cost stays what is known"
    for each in (ledger, again):
        with pytest.raises(BudgetExceeded, match="counts as spent"):
            await each.reserve("root", "executor", "mine", "flat", 11, 10, 10)
        (await each.reserve("root", "executor", "mine", "flat", 10, 10, 10)).release()


async def test_cap_may_exceed_any_quotient():
    ledger = Ledger(Decimal("1e400"), BOOK)
    assert (await ledger.reserve("root", "executor", "mine", "flat", 10, 70)).max_output == 70
