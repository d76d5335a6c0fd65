"""What cells come to beside each other."""

import csv
import io
import json
from decimal import Decimal

import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from sagent.plugins.lab.table import Row, as_csv, as_markdown, decode_row, encode_row, show, tabulate
from sagent.plugins.lab.trials import Outcome, Trial, decode_trial, encode_trial


def trial(cell: str, number: int = 1, outcome: Outcome = "solved", usd: str | None = "0.1", **members: object) -> Trial:
    """A run of task "a"."""
    price = None if usd is None else Decimal(usd)
    given = {"task": "a", "digest": "", "usd": price, "turns": 3, "seconds": 1.0, "read": 10, "written": 2, **members}
    return Trial(arm=cell, number=number, outcome=outcome, **given)


def by_name(*trials: Trial, cells: tuple[str, ...] = ("x", "y"), planned: int = 0) -> dict[str, Row]:
    """The rows, by their cells."""
    return {row.cell: row for row in tabulate(trials, cells, planned)}


def test_budget_end_failed_and_error_missing() -> None:
    rows = by_name(
        trial("x"), trial("x", 2, "budget"), trial("x", 3, "failed", reason="529: overloaded"),
        trial("x", 4, "unsolved"),
        planned=4,
    )  # fmt: skip
    row = rows["x"]
    assert (row.runs, row.passed, row.budget, row.missing, row.apart) == (3, 1, 1, 1, {"failed": 1})
    assert row.rate == pytest.approx(1 / 3)
    assert row.total == Decimal("0.4")  # what came to nothing was paid too
    assert rows["y"].missing == 4
    assert rows["y"].rate is None
    told = "\n".join(drawn(show(tuple(rows.values()))))
    assert "x: 1 failed, 1 ended by the budget" in told
    assert "1 × 529: overloaded" in told


def test_repeated_run_counts_once_costs_twice() -> None:
    row = by_name(trial("x", outcome="failed", usd="0.3"), trial("x", usd="0.1"))["x"]
    assert (row.runs, row.passed, row.missing, row.apart) == (1, 1, 0, {})
    assert row.total == Decimal("0.4")
    assert row.means["usd"] == pytest.approx(0.1)


def test_unknown_price_minimum_never_best() -> None:
    rows = tabulate(
        [trial("x", usd=None, least=Decimal("0.01")), trial("x", 2), trial("y", usd="9"), trial("y", 2, usd="9")],
        ["x", "y"],
    )
    assert [(row.cell, row.is_front, row.unpriced) for row in rows] == [("y", True, 0), ("x", False, 1)]
    assert rows[1].total == Decimal("0.11")
    assert next(line for line in drawn(show(rows)) if line.endswith(" x")).count("≥ ") == 2


def test_sorted_by_pass_rate_then_cost() -> None:
    rows = tabulate(
        [
            *(trial("sure", number, usd="0.5") for number in (1, 2)),
            *(trial("dear", number, usd="0.6") for number in (1, 2)),
            *(trial("half", number, outcome, usd="0.2") for number, outcome in ((1, "solved"), (2, "unsolved"))),  # pyright: ignore[reportArgumentType]
            *(trial("never", number, "unsolved", usd="0.01") for number in (1, 2)),
        ],
        ["never", "half", "dear", "sure", "unborn"],
    )
    assert [(row.cell, row.is_front) for row in rows] == [
        ("sure", True), ("dear", False), ("half", True), ("never", False), ("unborn", False),
    ]  # fmt: skip


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.integers(1, 5), st.sampled_from(("solved", "unsolved", "failed")),
                  st.sampled_from(("0", "0.1", "0.25", "1", None))),
        max_size=20,
    )
)  # fmt: skip
def test_front_has_unbeaten_rows(given: list[tuple[str, int, Outcome, str | None]]) -> None:
    rows = tabulate([trial(*each) for each in given], "abcd")
    assert sorted(row.cell for row in rows) == list("abcd")
    rates = [-1 if row.rate is None else row.rate for row in rows]
    assert rates == sorted(rates, reverse=True)
    priced = [row for row in rows if row.rate and not row.unpriced]
    assert any(row.is_front for row in rows) == bool(priced)
    for row in priced:
        beaten = any(
            (other.rate or 0, -other.means["usd"]) != (row.rate or 0, -row.means["usd"])
            and (other.rate or 0) >= (row.rate or 0)
            and other.means["usd"] <= row.means["usd"]
            for other in priced
        )
        assert row.is_front == (not beaten)


def test_row_round_trips() -> None:
    name = "x | *"
    cut = trial(name, 1, "interrupted", most=Decimal("0.5"))  # whose last bill never came
    runs = [trial(name, 1), trial(name, 2, "unsolved", turns=5), trial(name, 3, "budget")]
    (row,) = tabulate([cut, *runs], [name])
    assert (row.total, row.unsure) == (Decimal("0.4"), Decimal("0.4"))
    again = decode_row(json.loads(json.dumps(encode_row(row))))
    for member in ("cell", "runs", "passed", "total", "unsure", "unpriced", "missing", "budget", "means", "interval"):
        assert getattr(again, member) == getattr(row, member)
    assert again.intervals == {measure: pytest.approx(interval) for measure, interval in row.intervals.items()}
    line = list(as_markdown([row]))[2]
    assert line.endswith("| x \\| \\* |")
    (plain,) = csv.DictReader(io.StringIO(as_csv([row])))
    assert (plain["cell"], plain["runs"], plain["passed"], plain["usd_total"]) == (name, "3", "1", "0.4")


@pytest.mark.parametrize(
    "value",
    [None, {}, {"name": "x", "runs": 1, "passed": 2, "usd_total": 1}, {"name": "x", "runs": 1, "passed": 1}],
)
def test_non_row_refused(value: object) -> None:
    with pytest.raises(ValueError, match="a cell has a name"):
        decode_row(value)


def test_trials_of_named_arms_round_trip() -> None:
    written = trial("model=a/b", least=Decimal("0.1"))
    assert decode_trial(encode_trial(written), ("model=a/b",)) == written
    with pytest.raises(ValueError, match="not the line of a run"):
        decode_trial(encode_trial(written))


def test_notes_without_tokens_readable() -> None:
    line = '{"task":"a","digest":"d","arm":"with","number":1,"outcome":"solved","usd":"0.10","turns":2,"seconds":1.5}'
    old = decode_trial(line)
    assert (old.usd, old.read, old.written) == (Decimal("0.10"), None, None)
    (row,) = tabulate([old], ["with"])
    assert "read" not in row.means
    assert "-" in next(line for line in drawn(show([row])) if line.endswith(" with"))
