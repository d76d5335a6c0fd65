"""Quotes: nine of ten tasks cost what was said, and an accepted plan stops at the upper end."""

import random
from collections.abc import Callable, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sagent.agent import Agent, Resources
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import BudgetExceeded
from sagent.lib.json import json_freeze_object
from sagent.messages import ToolCall, user
from sagent.plugins.spending.book import Book
from sagent.plugins.spending.ledger import StandingLedger
from sagent.plugins.spending.limits import Limit, project_at
from sagent.plugins.spending.planning import PlannedAnswers
from sagent.plugins.spending.quote import MIN_TASKS, QuotedPlan, Quoting, quote_of, task_costs
from sagent.session.contents import ChargeEntry, MessageEntry, StoredMessage
from sagent.session.store import Session
from sagent.testing import ScriptedModel
from sagent.tools.ask import Question
from sagent.tools.plan import ExitPlan, PlanDecision
from sagent.usage import Charge, Usage
from tests.depth import deep

PLAN = ToolCall("c", "ExitPlan", json_freeze_object({"plan": "Do it."}))
Draw = Callable[[random.Random], float]


def spent(usd: str) -> Charge:
    return Charge("m", Usage(input=10), usd=Decimal(usd), role="executor", provider="p", agent="root")


@pytest.mark.parametrize(
    "draw",
    [
        lambda of: of.lognormvariate(-2, 1.5),
        lambda of: of.random(),
        lambda of: of.choice((0.01, 0.01, 0.02, 3.0)),
        lambda of: of.paretovariate(1.1) / 100,
    ],
    ids=["lognormal", "even", "two kinds", "heavy tail"],
)
def test_nine_of_ten_are_within(draw: Draw) -> None:
    of, held, asked = random.Random(7), 0, 0
    for _ in range(deep(60, 300)):  # projects
        costs: list[Decimal] = []
        for _ in range(60):  # tasks
            usd = Decimal(str(draw(of)))
            if (quote := quote_of(costs)) is not None:
                asked += 1
                held += quote.low <= usd <= quote.high
            costs.append(usd)
    assert asked and held / asked >= 0.895  # the share that is expected is at least 0.9


def test_few_tasks_give_no_quote() -> None:
    costs = [Decimal(number) for number in range(1, 41)]
    assert quote_of(costs[: MIN_TASKS - 1]) is None
    assert (
        str(quote_of(costs[:MIN_TASKS])) == "Nine of ten tasks in this project have cost up to $9.00 (by the last 9)."
    )
    quote = quote_of(costs[:19])
    assert quote is not None and (quote.low, quote.high) == (1, 19)
    assert quote_of(costs)[:2] == (2, 39)  # pyright: ignore[reportOptionalSubscript] -- there are enough


def session_of(state: Path, cwd: Path, *tasks: Sequence[str]) -> str:
    """Record tasks, each as what its calls have cost."""
    cwd.mkdir(exist_ok=True)
    with Session.create(state, cwd) as session:
        session.begin(cwd)
        for number, costs in enumerate(tasks):
            session.log().append(MessageEntry(StoredMessage.of(user(f"Task {number}."), None)))
            session.log().append(MessageEntry(StoredMessage.of(user("Go on.", sender="sagent"), None)))
            for usd in costs:
                session.log().append(ChargeEntry(spent(usd)))
        return session.path.name


def test_tasks_of_a_project_are_summed(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    own = session_of(tmp_path, here, ["0.10", "0.20"], [], ["0.05"])
    session_of(tmp_path, there, ["7"])
    assert sorted(task_costs(tmp_path, project_at(str(here)))) == [Decimal("0.05"), Decimal("0.30")]
    assert not task_costs(tmp_path, project_at(str(here)), skip=own)


def planner(*said: Any, ledger: Ledger, accepts: bool = True) -> tuple[Agent, Quoting, list[str]]:
    """Return an agent in plan mode whose plans are quoted at up to a cent, and what is shown."""
    policy = SimpleNamespace(mode="plan")

    async def answer(question: Question) -> str:
        policy.mode = "edit" if accepts else "plan"
        return "The person accepts the plan." if accepts else "The person rejected the plan."

    quoting = Quoting([Decimal("0.01")] * 20)

    async def given() -> Quoting:
        return quoting

    plan = QuotedPlan(ExitPlan(answer), given, cast("Any", SimpleNamespace(policy=policy)))
    agent = Agent(ScriptedModel(*said), tools=(plan,), resources=Resources(ledger=ledger))
    shown: list[str] = []
    agent.listen(lambda event: shown.append(str(getattr(event, "text", ""))))
    quoting.attend(agent)
    return agent, quoting, shown


PRICES = PriceBook({"scripted/scripted": {"input": 1, "output": 1}})


async def test_accepted_plan_stops_at_the_upper_end() -> None:
    ledger = Ledger(None, PRICES)
    longer = [ToolCall("c", "ExitPlan", json_freeze_object({"plan": "x" * number * 40})) for number in range(1, 60)]
    agent, _, shown = planner(PLAN, *longer, ledger=ledger)
    with pytest.raises(BudgetExceeded, match=r"the budget is \$0\.01"):
        await agent.run("go")
    assert Decimal(0) < ledger.cost().total <= Decimal("0.01")
    assert any("Nine of ten tasks in this project have cost $0.0100 to $0.0100" in each for each in shown)
    assert ledger.cap is None  # the next task has its own


async def test_refused_plan_sets_no_cap() -> None:
    ledger = Ledger(None, PRICES)
    agent, _, shown = planner(PLAN, "Done.", ledger=ledger, accepts=False)
    assert (await agent.run("go")).content == "Done."
    assert ledger.cap is None and any("Nine of ten" in each for each in shown)


async def test_lower_cap_of_the_session_stays() -> None:
    ledger = Ledger(Decimal("0.009"), PRICES)
    agent, _, _ = planner(PLAN, "Done.", ledger=ledger)
    await agent.run("go")
    assert ledger.cap == Decimal("0.009")


async def test_quote_is_set_aside_in_standing_budgets(tmp_path: Path) -> None:
    limit = Limit("budget_day", Decimal("0.015"), "day")
    with closing(Book(tmp_path)) as book, closing(Book(tmp_path)) as other:
        ledger = StandingLedger(None, PRICES, book, (limit,), "", "")
        seen: list[tuple[Decimal, Decimal]] = []

        def look(_: object) -> str:
            seen.append(other.left(limit))
            return "Done."

        agent, _, _ = planner(PLAN, look, ledger=ledger)
        await agent.run("go")
        spent, held = seen[0]
        assert spent + held == Decimal("0.01")  # the upper end, while the plan is carried out
        now, rest = other.left(limit)
        assert now == ledger.cost().total and not rest


def test_killed_task_frees_what_was_set_aside(tmp_path: Path) -> None:
    limit = Limit("budget_day", Decimal(1), "day")
    with closing(Book(tmp_path)) as other:
        book = Book(tmp_path)
        assert not StandingLedger(None, PRICES, book, (limit,), "", "").set_aside(Decimal("0.5"))
        assert other.left(limit) == (0, Decimal("0.5"))
        book.close()  # its holds are left as after a kill
        assert other.left(limit) == (0, 0)


TASK = "Fix the next bug."


async def planned(tmp_path: Path, then: str, mode: str, *, tasks: int = 20) -> tuple[Agent, list[str], list[str]]:
    """Have an agent answer with a plan under a heading, in a mode that began with /plan, then go on in another.

    Return the agent, what was shown, and the caps of its calls.
    """
    here, caps = tmp_path / "here", list[str]()
    session_of(tmp_path, here, *[["0.01"]] * tasks)

    def look(_: object) -> str:
        caps.append(str(agent.ledger.cap))
        return "## Plan\n\n1. Do it." if len(caps) == 1 else "Done."

    policy = SimpleNamespace(mode="plan")
    settings = SimpleNamespace(state_dir=tmp_path, cwd=here)
    builder = SimpleNamespace(policy=policy, settings=settings, log=SimpleNamespace(session_id=""))
    answers = PlannedAnswers(cast("Any", builder))
    agent = Agent(ScriptedModel(look, look), resources=Resources(ledger=Ledger(None, PRICES)))
    shown: list[str] = []
    agent.listen(lambda event: shown.append(str(getattr(event, "text", ""))))
    answers.attend(agent)
    await agent.run(TASK)
    await answers.quoting()
    policy.mode = mode
    await agent.run(then)
    await answers.aclose()
    return agent, shown, caps


async def test_plan_under_a_heading_is_quoted(tmp_path: Path) -> None:
    agent, shown, (first, second) = await planned(tmp_path, PlanDecision("edit").order(), "edit")
    assert any("Nine of ten tasks in this project have cost $0.0100" in each for each in shown)
    assert first == "None" and Decimal(second) <= Decimal("0.01") + agent.cost().total
    assert agent.ledger.cap is None


@pytest.mark.parametrize(("then", "mode"), [("Plan it again.", "plan"), ("Something else.", "edit")])
async def test_plan_that_is_not_accepted_sets_no_cap(tmp_path: Path, then: str, mode: str) -> None:
    _, shown, caps = await planned(tmp_path, then, mode)
    assert any("Nine of ten" in each for each in shown) and caps == ["None", "None"]


async def test_few_tasks_do_not_quote_a_heading(tmp_path: Path) -> None:
    _, shown, caps = await planned(tmp_path, PlanDecision("edit").order(), "edit", tasks=3)
    assert not any("Nine of ten" in each for each in shown) and caps == ["None", "None"]
