"""The table of a sweep's results: a row for each cell, best first, with the unbeaten ones marked."""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from decimal import Decimal
from statistics import fmean

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_int, as_number, as_object, as_str
from sagent.lib.money import as_usd
from sagent.lib.text import Table, one_line
from sagent.plugins.lab.stats import LEVEL, Interval, paired_mean, wilson
from sagent.plugins.lab.trials import FINISHED, Arm, Trial, latest_trials

MEANS = {"usd": "usd_mean", "turns": "turns_mean", "seconds": "seconds_mean", "read": "tokens_in_mean",
         "written": "tokens_out_mean"}  # fmt: skip
"""Their names in a result."""
HOW = f"""\
How: pass rates with Wilson's interval at {LEVEL:.0%}, for these tasks and no others; cells whose intervals overlap may
be alike. A run that its budget ended did not pass. USD, turns, tokens (in, out) and seconds are means of a run; the
total is all that a cell has cost, runs that came to nothing included; ≥: a price is not known.
* No cell that passes as often is cheaper, and none as cheap passes more often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The results of a cell. `means` are over its `runs`, which ended by themselves or by a limit: by name, some with
    an interval; unknown means are missing. With `unpriced` runs, USD are minima; runs whose last bill never came may
    have cost up to `unsure` more. `apart` counts, by outcome, tries without information about the tasks; `reasons`
    explains them; `tasks` are (passed, runs)."""

    cell: Arm
    runs: int
    passed: int
    total: Decimal
    unsure: Decimal = Decimal(0)
    unpriced: int = 0
    budget: int = 0  # runs that their budget ended
    missing: int = 0  # runs to make or repeat
    means: Mapping[str, float] = field(default_factory=dict[str, float])
    intervals: Mapping[str, Interval] = field(default_factory=dict[str, Interval])
    apart: Mapping[str, int] = field(default_factory=dict[str, int])
    reasons: Mapping[str, int] = field(default_factory=dict[str, int])
    tasks: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    is_front: bool = False

    @property
    def rate(self) -> float | None:
        """The share of the runs that passed."""
        return self.passed / self.runs if self.runs else None

    @property
    def interval(self) -> Interval:
        return wilson(self.passed, self.runs)


def tabulate(
    trials: Sequence[Trial],
    cells: Sequence[Arm],
    planned: int = 0,
    lost: Sequence[Sequence[Arm]] = (),
    budgets: Mapping[Arm, Decimal | None] | None = None,
) -> tuple[Row, ...]:
    """Return the rows of all cells: by pass rate, then by cost, cells without runs last. `planned` runs are due in
    each; of several tries of a run the last counts, and all of them cost. `lost` runs, each with its possible cells,
    may have cost a run's budget."""
    usd = budgets or {}
    rows = [
        _row(
            cell,
            [trial for trial in trials if trial.arm == cell],
            planned,
            [usd.get(cell)] * sum(cell in each for each in lost),
        )
        for cell in cells
    ]
    rows = [replace(row, is_front=_on_front(row, rows)) for row in rows]
    most = float("inf")  # unknown prices last among equal pass rates

    def order(row: Row) -> tuple[float, float]:
        return -(row.rate if row.rate is not None else -1), most if row.unpriced else row.means.get("usd", most)

    return tuple(sorted(rows, key=order))


def _row(cell: Arm, tries: Sequence[Trial], planned: int, lost: Sequence[Decimal | None]) -> Row:
    last = list(latest_trials(tries).values())
    runs = [trial for trial in last if trial.outcome in FINISHED]
    apart = [trial for trial in last if trial.outcome not in FINISHED]
    by_task = {trial.task: [run for run in runs if run.task == trial.task] for trial in runs}
    measured: dict[str, list[float]] = {
        "usd": [float(_known(trial)) for trial in runs],
        "turns": [float(trial.turns) for trial in runs],
        "seconds": [trial.seconds for trial in runs],
        "read": [float(trial.read) for trial in runs if trial.read is not None],
        "written": [float(trial.written) for trial in runs if trial.written is not None],
    }
    means = {name: fmean(values) for name, values in measured.items() if values and len(values) == len(runs)}
    found = {name: paired_mean(measured[name]).interval for name in ("usd", "turns", "seconds")}
    return Row(
        cell=cell,
        runs=len(runs),
        passed=_passed(runs),
        total=sum(map(_known, tries), Decimal(0)),
        unsure=sum(
            (
                *(max(Decimal(0), (trial.most or Decimal(0)) - _known(trial)) for trial in tries),
                *(usd for usd in lost if usd is not None),
            ),
            Decimal(0),
        ),
        unpriced=sum(trial.usd is None for trial in tries) + lost.count(None),
        budget=sum(trial.outcome == "budget" for trial in runs),
        missing=max(0, planned - len(runs)) if planned else len(apart),
        means=means,
        intervals={name: interval for name, interval in found.items() if interval is not None},
        apart=dict(Counter(trial.outcome for trial in apart).most_common()),
        reasons=dict(
            Counter(trial.reason or trial.stop for trial in last if trial.outcome in ("failed", "budget")).most_common()
        ),
        tasks={name: (_passed(its), len(its)) for name, its in by_task.items()},
    )


def _passed(runs: Iterable[Trial]) -> int:
    return sum(trial.outcome == "solved" for trial in runs)


def _known(trial: Trial) -> Decimal:
    return trial.least if trial.usd is None else trial.usd


def _on_front(row: Row, rows: Iterable[Row]) -> bool:
    """Return True if no row passes as often for less, or more often for no more. Only rows that passed at a known price
    count."""
    if not row.rate or row.unpriced:
        return False
    cost = row.means["usd"]
    return not any(
        other.rate >= row.rate and other.means["usd"] <= cost and (other.rate > row.rate or other.means["usd"] < cost)
        for other in rows
        if other.rate is not None and not other.unpriced
    )


# -- for people --------------------------------------------------------------------------------------------------------

_COLUMNS: Sequence[str] = (
    "cell", "runs", "passed", "pass_rate", "pass_rate_low", "pass_rate_high", "usd_mean", "usd_total", "unpriced",
    "turns_mean", "tokens_in_mean", "tokens_out_mean", "seconds_mean", "budget", "missing", "front",
)  # fmt: skip
_TITLES = ("", "passed", "rate (interval)", "cost, $", "total, $", "turns", "tokens", "seconds", "cell")


def show(rows: Sequence[Row]) -> Iterator[str | Table]:
    """Yield the table, and the reasons of failed runs. These contain external names and texts: make them safe to
    print."""
    yield Table(tuple(map(_cells, rows)), _TITLES, right=(1, 3, 4, 5, 7))
    for row in rows:
        if row.apart or row.budget:
            counts = [f"{count} {name}" for name, count in row.apart.items()]
            counts += [f"{row.budget} ended by the budget"] if row.budget else []
            yield f"  {row.cell}: {', '.join(counts)}"
        for reason, times in list(row.reasons.items())[:3]:
            yield f"    {times} × {one_line(reason, 160)}"
    yield from HOW.splitlines()


def as_markdown(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table in Markdown, by lines."""
    for cells in (_TITLES, ("---", *["---:"] * 7, "---"), *map(_cells, rows)):
        escaped = (cell.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*") for cell in cells)
        yield f"| {' | '.join(escaped)} |"
    yield ""
    yield from (line.replace("*", "\\*") for line in HOW.splitlines())


def as_csv(rows: Sequence[Row]) -> str:
    """Return the table as CSV (RFC 4180) with plain figures; unknown ones are empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _COLUMNS, extrasaction="ignore", lineterminator="\r\n")
    writer.writeheader()
    for row in rows:
        low, high = row.interval
        exact = {"cell": row.cell, "usd_total": row.total, "front": int(row.is_front)}
        writer.writerow({**encode_row(row), **exact, "pass_rate_low": low, "pass_rate_high": high})
    return out.getvalue()


def _cells(row: Row) -> tuple[str, ...]:
    least = "≥ " if row.unpriced else ""
    low, high = row.interval
    usd, turns, seconds, read, written = (row.means.get(name) for name in MEANS)
    return (
        "*" if row.is_front else "",
        f"{row.passed}/{row.runs}",
        "-" if row.rate is None else f"{row.rate:.0%} ({low:.0%} to {high:.0%})",
        "-" if usd is None else f"{least}{usd:.6f}",
        f"{least}{row.total:.6f}",
        "-" if turns is None else f"{turns:.1f}",
        "-" if read is None or written is None else f"{read:.0f}, {written:.0f}",
        "-" if seconds is None else f"{seconds:.1f}",
        row.cell,
    )


# -- for programs ------------------------------------------------------------------------------------------------------


def encode_row(row: Row) -> dict[str, object]:
    """Encode the row as an object of result.json; unknown values are null."""
    usd, turns, seconds, read, written = (row.means.get(name) for name in MEANS)
    return {
        "name": row.cell,
        "runs": row.runs,
        "passed": row.passed,
        "missing": row.missing,
        "pass_rate": row.rate,
        "pass_rate_interval": row.interval,
        "usd_mean": usd,
        "usd_total": float(row.total),
        "usd_at_most": float(row.total + row.unsure),
        "unpriced": row.unpriced,
        "turns_mean": turns,
        "tokens_in_mean": read,
        "tokens_out_mean": written,
        "seconds_mean": seconds,
        "intervals": row.intervals,
        "budget": row.budget,
        "apart": row.apart,
        "reasons": row.reasons,
        "tasks": {name: {"passed": passed, "runs": runs} for name, (passed, runs) in row.tasks.items()},
        "front": row.is_front,
    }


def decode_row(value: object) -> Row:
    """Decode a row with all figures that its readers need. Raises ValueError for anything else."""
    body = as_object(value)
    name, runs, passed = as_str(body.get("name")), as_int(body.get("runs"), -1), as_int(body.get("passed"), -1)
    total = as_usd(body.get("usd_total"))
    if not name or not 0 <= passed <= runs or total is None:
        raise ValueError("a cell has a name, runs, passed and usd_total")
    at_most = as_usd(body.get("usd_at_most")) or total
    figures = {mean: body.get(key) for mean, key in MEANS.items()}
    found = {key: as_array(each) for key, each in as_object(body.get("intervals")).items()}
    return Row(
        cell=name,
        runs=runs,
        passed=passed,
        total=total,
        unsure=max(Decimal(0), at_most - total),
        unpriced=as_int(body.get("unpriced")),
        budget=as_int(body.get("budget")),
        missing=as_int(body.get("missing")),
        means={mean: as_number(figure) for mean, figure in figures.items() if figure is not None},
        intervals={
            key: Interval(as_number(each[0]), as_number(each[1])) for key, each in found.items() if len(each) == 2
        },
        is_front=body.get("front") is True,
    )
