"""Runner in several ways: whose turn it is, what is held of the budget, and what an earlier version has noted."""

from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.config import Settings, load
from sagent.errors import UsageError
from sagent.plugins.lab.notebook import Notebook, Notes
from sagent.plugins.lab.runner import Experiment, Plan, RunnableArm, check_arms
from sagent.plugins.lab.trials import Task, Trial
from sagent.testing.server import FakeProviderServer, Turn, Usage

TASKS = tuple(Task(name, "Do.", "true") for name in "abc")
OLD = (
    '{"task":"a","digest":"DIGEST","arm":"ARM","number":1,"outcome":"solved","stop":"end","reason":"","check":0,'
    '"usd":"0.004500","most":"0.004500","advisor_usd":"0","turns":1,"seconds":0.12,"answered":0,"declined":0,"undone":0,'
    '"withheld":0,"session":"","at":"2026-11-01T00:00:00Z"}\n'
)  # as version 0.1 wrote it


def never(work: Path) -> Settings:
    """The settings of a way that is not gone."""
    raise AssertionError(work)


def plan(arms: str, repeats: int = 1, **members: object) -> Plan:
    """What is to be measured, in ways by the names of single letters."""
    runnable = tuple(RunnableArm(arm, never) for arm in arms)
    return Plan(tasks=TASKS, arms=runnable, task_dir=Path(), repeats=repeats, **members)  # pyright: ignore[reportArgumentType]


@given(st.integers(1, 5), st.integers(1, 4), st.data())
def test_runs_scheduled_once_and_balanced(ways: int, repeats: int, data: st.DataObject) -> None:
    arms = "vwxyz"[:ways]
    notes = Notes()
    try:
        every = [(task.name, arm, number) for task in TASKS for arm in arms for number in range(1, repeats + 1)]
        done = data.draw(st.sets(st.sampled_from(every)))
        for task, arm, number in done:
            notes.keep(Trial(task=task, digest="", arm=arm, number=number, outcome="budget"))
        experiment = Experiment(plan(arms, repeats), dict.fromkeys(arms), notes, lambda trial: None)
        order = [(task.name, arm.name, number) for task, arm, number in experiment._order()]
        assert Counter(order) == Counter(set(every) - done)
        assert experiment.missing == len(order)
        firsts = [] if done else order[::ways]
        for task in TASKS:
            led = Counter(arm for name, arm, _ in firsts if name == task.name)  # over its repeats
            assert not led or max(led.values()) - min(led[arm] for arm in arms) <= 1
    finally:
        notes.close()


def test_lost_run_counts_largest_budget() -> None:
    notes = Notes()
    try:
        notes.lost = (("x", "y"), ("x",))
        notes.keep(Trial(task="a", digest="", arm="x", number=1, outcome="interrupted", most=None))
        budgets = {"x": Decimal("0.1"), "y": Decimal("0.4")}
        assert Experiment(plan("xy"), budgets, notes, lambda trial: None).spent == Decimal("0.9")
    finally:
        notes.close()


async def test_same_name_other_address_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")

    async def setup(base_url: str | None) -> Mapping[str, object]:
        arm = RunnableArm("only", lambda work: load({"cwd": str(work), "model": "anthropic/m", "base_url": base_url}))
        return (await check_arms(Plan(tasks=TASKS, arms=(arm,), task_dir=tmp_path), tmp_path))["only"].setup

    own, here, there = [await setup(url) for url in (None, "http://u:hidden@a.example", "http://b.example")]
    assert "address" not in own and "hidden" not in str(here)
    Notebook(tmp_path / "out", here, TASKS).close()
    Notebook(tmp_path / "out", here, TASKS).close()
    for other in (own, there):
        with pytest.raises(UsageError, match="address"):
            Notebook(tmp_path / "out", other, TASKS)


async def test_run_cost_capped_over_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeProviderServer(
        [Turn(text="Done.", usage=Usage(input=1_000, output=100))], repeat_last=True
    ) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)

        def load_here(work: Path) -> Settings:
            usd = "0.000001" if work == tmp_path else "5"
            return load({"cwd": str(work), "model": "anthropic/claude-sonnet-4-6", "max_budget_usd": usd})

        made = Plan(tasks=TASKS, arms=(RunnableArm("only", load_here),), task_dir=tmp_path, total=Decimal("0.00001"))
        fields = await check_arms(made, tmp_path)
        assert fields["only"].budget == Decimal("0.000001")
        notes = Notes()
        try:
            experiment = Experiment(made, {"only": fields["only"].budget}, notes, lambda trial: None)
            await experiment.run()
            assert {trial.outcome for trial in notes.trials} == {"budget"}
            assert (experiment.missing, server.charges) == (0, [])
        finally:
            notes.close()


def test_earlier_notes_resumed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "setup.json").write_text('{"executor":"a/b","advisors":["advisor=a/c"],"max_budget_usd":null}\n')
    lines = [OLD.replace("DIGEST", TASKS[0].digest).replace("ARM", arm) for arm in ("without", "with")]
    (out / "runs.jsonl").write_text("".join(lines))
    book = Notebook(out, {"executor": "a/b", "advisors": ["advisor=a/c"], "max_budget_usd": None}, TASKS)
    try:
        assert [(trial.arm, trial.usd, trial.read) for trial in book.trials] == [
            ("without", Decimal("0.004500"), None),
            ("with", Decimal("0.004500"), None),
        ]
        ways = tuple(RunnableArm(arm, never) for arm in ("without", "with"))
        made = Plan(tasks=TASKS[:1], arms=ways, task_dir=tmp_path)
        assert Experiment(made, {"without": None, "with": None}, book, lambda trial: None).missing == 0
    finally:
        book.close()
