"""`/usage`: sums of the charges in the sessions of a state directory."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from sagent.plugins.spending.charges import grouped, paid
from sagent.session.contents import ChargeEntry
from sagent.session.store import Session, copy
from sagent.usage import Charge, Usage
from tests.repl.recorded import RecordingContext

CHARGE = Charge("m", Usage(input=1000, output=10), usd=Decimal("0.25"), role="executor", provider="p", agent="root")


def spend(state: Path, cwd: Path, *charges: Charge) -> Path:
    cwd.mkdir(exist_ok=True)
    with Session.create(state, cwd) as session:
        session.begin(cwd)
        for charge in charges:
            session.log().append(ChargeEntry(charge))
        return session.path


def test_charges_are_grouped(tmp_path: Path) -> None:
    dear = replace(CHARGE, model="dear", usd=Decimal(2))
    spend(tmp_path, tmp_path / "one", CHARGE, CHARGE)
    spend(tmp_path, tmp_path / "two", dear, replace(CHARGE, model="free", usd=None))
    found = list(paid(tmp_path))
    assert grouped(found, "day").usd == Decimal("2.50")
    by_project = grouped(found, "project")
    assert [(name, each.usd) for name, each in by_project.sums.items()] == [
        (str(tmp_path / "two"), Decimal(2)),
        (str(tmp_path / "one"), Decimal("0.50")),
    ]
    assert by_project.unpriced == ("p/free",)
    assert list(grouped(found, "model").sums) == ["p/dear", "p/m", "p/free"]
    assert grouped(found, "model").sums["p/m"].usage.total_input == 2000
    (week,) = grouped(found, "week").sums
    assert week <= found[0].day.isoformat()


def test_copied_session_counts_once(tmp_path: Path) -> None:
    path = spend(tmp_path, tmp_path / "one", CHARGE)
    copy(path, tmp_path, tmp_path / "one")
    assert grouped(paid(tmp_path), "day").usd == Decimal("0.25")


def test_damaged_session_is_passed_over(tmp_path: Path) -> None:
    spend(tmp_path, tmp_path / "one", CHARGE)
    (spend(tmp_path, tmp_path / "two") / "root.jsonl").write_bytes(b"\xff{}\n")
    assert grouped(paid(tmp_path), "day").usd == Decimal("0.25")


@pytest.mark.parametrize("by", ["", "day", "week", "project", "model"])
async def test_usage_shows_sums(context: RecordingContext, by: str) -> None:
    assert "nothing" in await context.do(f"/usage {by}")
    settings = context.settings
    spend(settings.state_dir, settings.cwd, CHARGE)
    shown = await context.do(f"/usage {by}")
    assert "$0.2500" in shown and ("this month" in shown) == (not by)


async def test_unsure_bills_are_no_certain_sums(context: RecordingContext) -> None:
    unsure = replace(CHARGE, at_most=Decimal("0.75"), estimated=True)
    spend(context.settings.state_dir, context.settings.cwd, CHARGE, unsure)
    shown = await context.do("/usage")
    assert shown.count("$0.5000 +$0.5000?") == 4  # today, the week, the month and the day
