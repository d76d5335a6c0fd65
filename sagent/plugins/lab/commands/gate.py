"""`sagent gate`: checks for CI whether a result is good enough. Each condition is shown with its figure."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal
from itertools import groupby
from math import sqrt
from pathlib import Path
from typing import TypeAlias

from sagent.cli.flags import Parser
from sagent.cli.tables import show
from sagent.config.values import decimal
from sagent.errors import SessionCorrupt, SessionNotFound, UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_int, as_number, as_object, as_str
from sagent.lib.money import as_usd
from sagent.lib.names import path_of
from sagent.lib.regular import read_given
from sagent.lib.text import nearest, why_unread
from sagent.plugin import RefusedError
from sagent.plugins.lab.table import Row, decode_row, tabulate
from sagent.plugins.teams.flag import read_flag
from sagent.session.store import is_session

OK, FAILED = 0, 1
EPILOG = """RESULT is the directory or the result.json of a sweep, the directory of a bench-advisor, the JSON that a run
has printed (--output-format json, or one such object a line), or a session: its path, its id or the beginning of one.

exit codes:
  0 every condition holds   1 one does not   2 wrong usage, or there is nothing to judge"""


@dataclass(frozen=True, slots=True)
class Finding:
    """A condition and its figure: the requirement, whether it holds, and the reason if the figure cannot tell."""

    cell: str
    condition: str
    figure: float | None
    wanted: str
    ok: bool
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """A result, by its cells. A `single` run must have no error, whatever the conditions."""

    rows: tuple[Row, ...]
    single: bool = False


def run_gate(argv: Sequence[str]) -> int:
    """Judge a result. Raises UsageError if it cannot be judged."""
    given = _parser().parse_args(argv)
    limits = _limits(given)
    measured = _read(given.result)
    if measured.single:
        limits = {"pass": 1.0, **limits}
    if not limits:
        raise UsageError("No condition to check: give --min-pass 0.8, --max-usd 1, ... See sagent gate --help.")
    rows = measured.rows if given.cell is None else _chosen(measured.rows, given.cell, given.result)
    before = None if given.baseline is None else _read(given.baseline).rows
    found: list[Finding] = []
    for row in rows:
        # compared with the cell of the same name; a single cell with the only one
        earlier = before[0] if before and len(before) == len(rows) == 1 else None
        if before and earlier is None:
            (earlier,) = _chosen(before, [row.cell], str(given.baseline), " to compare with")
        if row.missing and not given.partial:
            count = row.runs + row.missing
            why = f"{row.runs} of {count} runs are made; --partial judges those"
            found.append(Finding(row.cell, "complete", float(row.runs), f"= {count}", ok=False, why=why))
        found += _judge(limits, row, earlier, confident=given.confident)
    ok = all(each.ok for each in found)
    value = {"ok": ok, "conditions": [asdict(each) for each in found]}
    show(value, _lines(found, named=len(measured.rows) > 1), as_json=given.output_format == "json")
    return OK if ok else FAILED


def _parser() -> Parser:
    description = "Check whether a result is good enough: every condition must hold for every cell."
    parser = Parser("gate", description, epilog=EPILOG)
    parser.add_argument("result", metavar="RESULT", help="the result to judge")
    parser.add_argument("--min-pass", metavar="SHARE", help="at least this share of the runs passed: 0.8, or 80%%")
    parser.add_argument("--max-usd", metavar="N", help="at most N USD in all for each cell")
    parser.add_argument("--max-usd-per-pass", metavar="N", help="at most N USD for each run that passed")
    parser.add_argument("--max-turns", metavar="N", help="at most N model calls per run, on average")
    parser.add_argument("--max-seconds", metavar="N", help="at most N seconds per run, on average")
    parser.add_argument("--cell", metavar="NAME", action="append", help="judge only this cell (repeatable)")
    parser.add_argument("--baseline", metavar="RESULT", help="an earlier result, whose pass rate is the least allowed")
    parser.add_argument("--max-drop", metavar="SHARE", help="with --baseline: let the pass rate drop by this much (0)")
    parser.add_argument(
        "--confident", action="store_true",
        help="judge shares and means by the worse end of their 95%% confidence interval",
    )  # fmt: skip
    parser.add_argument("--partial", action="store_true", help="do not fail because runs are still to be made")
    parser.add_argument("--output-format", choices=("text", "json"), default="text", help="%(choices)s")
    return parser


# -- conditions --------------------------------------------------------------------------------------------------------


_FLAGS = {"pass": "--min-pass", "usd": "--max-usd", "usd_per_pass": "--max-usd-per-pass", "turns": "--max-turns",
          "seconds": "--max-seconds", "drop": "--max-drop"}  # fmt: skip


def _limits(args: argparse.Namespace) -> dict[str, float]:
    """Return the limits of the command line, by condition. Raises UsageError."""
    if args.baseline is not None:
        args.max_drop = args.max_drop or "0"
    elif args.max_drop is not None:
        raise UsageError("--max-drop needs --baseline RESULT, the result that the pass rate is compared with.")
    found = {
        name: read_flag(flag, vars(args)[flag[2:].replace("-", "_")], _share if name in ("pass", "drop") else _figure)
        for name, flag in _FLAGS.items()
    }
    return {name: limit for name, limit in found.items() if limit is not None}


def _judge(limits: Mapping[str, float], row: Row, before: Row | None, *, confident: bool) -> Iterator[Finding]:
    """Yield every condition on a cell. A cell without runs meets none."""
    for name, limit in limits.items():
        match name:
            case "pass":
                figure, ok, why = _passed(row, limit, confident=confident)
            case "usd" | "usd_per_pass":
                figure, ok, why = _cost(row, 1 if name == "usd" else row.passed, limit)
            case "drop":
                if before is None:
                    continue
                figure, ok, why = _dropped(row, before, limit, confident=confident)
            case _:
                figure, ok, why = _mean(row, name, limit, confident=confident)
        wanted = f"{'>=' if name == 'pass' else '<='} {limit:g}"
        yield Finding(row.cell, name, figure, wanted, ok=ok, why=why)


_Judged: TypeAlias = tuple[float | None, bool, str | None]
"""A figure, whether it is within the limit, and a reason or its components."""


def _passed(row: Row, minimum: float, *, confident: bool) -> _Judged:
    if row.rate is None:
        return None, False, "no run has ended"
    low, high = row.interval
    figure = low if confident else row.rate
    return figure, figure >= minimum, f"{row.passed} of {row.runs} passed, {low:.3f} to {high:.3f}"


def _cost(row: Row, shares: int, maximum: float) -> _Judged:
    """Judge the cost, divided by a number."""
    figure = float(row.total / shares) if shares else None
    if row.unpriced:
        runs = "run" if row.unpriced == 1 else "runs"
        return figure, False, f"of {row.unpriced} {runs} a price is not known: it is at least this"
    if not row.runs or figure is None:
        return figure, False, "no run has ended" if not row.runs else "none has passed"
    if figure <= maximum < (worst := float((row.total + row.unsure) / shares)):
        return figure, False, f"runs that were killed or interrupted may have cost more: up to {worst:g}"
    return figure, figure <= maximum, None


def _mean(row: Row, name: str, maximum: float, *, confident: bool) -> _Judged:
    figure, interval = row.means.get(name), row.intervals.get(name)
    if figure is None:
        return None, False, "it is not known"
    if not confident:
        return figure, figure <= maximum, None
    if interval is None:
        return figure, False, "one run has no interval: make more"
    return interval.high, interval.high <= maximum, f"mean {figure:g}, {interval.low:g} to {interval.high:g}"


def _dropped(row: Row, before: Row, maximum: float, *, confident: bool) -> _Judged:
    if row.rate is None or before.rate is None:
        return None, False, f"no run of {'the baseline' if before.rate is None else 'it'} has ended"
    drop = before.rate - row.rate
    why = f"{before.passed} of {before.runs} before, {row.passed} of {row.runs} now"
    if confident:
        drop += sqrt((before.interval.high - before.rate) ** 2 + (row.rate - row.interval.low) ** 2)
        why += "; the upper end of Newcombe's interval"
    return drop, drop <= maximum + 1e-12, why


def _figure(text: object) -> float:
    return float(decimal(text, "give a number, at least 0"))


def _share(text: object) -> float:
    """Parse a share, from 0 to 1 or in percent."""
    accepted = "give a share from 0 to 1, or from 0% to 100%"
    percent = isinstance(text, str) and text.endswith("%")
    share = decimal(str(text)[:-1], accepted) / 100 if percent else decimal(text, accepted)
    if share > 1:
        raise RefusedError(accepted)
    return float(share)


# -- results -----------------------------------------------------------------------------------------------------------


def _chosen(rows: Sequence[Row], names: Sequence[str], result: str, suffix: str = "") -> list[Row]:
    """Return the cells of these names. Raises UsageError for an unknown one."""
    known = {row.cell: row for row in rows}
    for name in names:
        if name not in known:
            hint = nearest(name, known) or f"; it has {', '.join(known)}."
            raise UsageError(f"{result} has no cell {name!r}{suffix}{hint}")
    return [known[name] for name in names]


def _read(name: str) -> Measured:
    """Read the measurements at a path. Raises UsageError if there are none or they cannot be read."""
    path = path_of(name)
    try:
        if path.is_dir() and not is_session(path):
            if (path / "result.json").is_file():
                found = _read_file(path / "result.json")
            elif (path / "runs.jsonl").is_file():
                found = _read_notes(path)
            else:
                raise ValueError("it has neither a result.json nor a runs.jsonl, and it is not a session")
        elif path.is_file() and path.name != "root.jsonl":
            found = _read_file(path)
        else:
            found = _read_session(str(path) if path.is_dir() else name)
    except (OSError, ValueError) as error:
        raise UsageError(f"{name}: it cannot be read as a result: {why_unread(error)}.") from error
    if not any(row.runs or row.missing for row in found.rows):
        raise UsageError(f"{name}: it is empty: no run of it has ended, so there is nothing to judge.")
    if not any(row.runs for row in found.rows):
        raise UsageError(f"{name}: no run of it has ended yet, so there is nothing to judge.")
    return found


def _read_notes(path: Path) -> Measured:
    """Return the notes of a bench-advisor, or of a sweep."""
    from sagent.plugins.lab.notebook import lost_runs
    from sagent.plugins.lab.trials import ARMS, decode_trial, latest_trials

    setup = as_object(json.loads(read_given(path / "setup.json")))
    arms = tuple(as_object(setup.get("cells"))) or ARMS
    lines = read_given(path / "runs.jsonl").split(b"\n")[:-1]  # without a line that is incomplete
    trials = [decode_trial(line, arms) for line in lines]
    last = latest_trials(trials)
    tasks = {task for task, _, _ in last}
    own = as_object(setup.get("cells"))
    budgets = {arm: as_usd({**setup, **as_object(own.get(arm))}.get("max_budget_usd")) for arm in arms}
    planned = len(tasks) * max((number for _, _, number in last), default=0)
    return Measured(tabulate(trials, arms, planned, lost_runs(path, trials, arms), budgets))


def _read_file(path: Path) -> Measured:
    text = read_given(path).decode()
    try:
        objects = [json.loads(text)]
    except ValueError:
        objects = [json.loads(line) for line in text.splitlines() if line.strip()]
    if not objects:
        raise ValueError("the file is empty")
    bodies = [as_object(value) for value in objects]
    if len(bodies) == 1 and "cells" in bodies[0]:
        return Measured(tuple(decode_row(cell) for cell in as_array(bodies[0].get("cells"))))
    ended = [body for body in bodies if body.get("type", "result") == "result" and "is_error" in body]
    if not ended:
        raise ValueError("it is not the result of a sweep or a run")
    return Measured((_of_results(ended),), single=True)


def _of_results(results: Sequence[Mapping[str, object]]) -> Row:
    """Read runs from objects of `--output-format json`. Costs are a session's: of several runs in one, the last
    counts."""
    costs: dict[str, tuple[Decimal, bool]] = {}
    for number, result in enumerate(results):
        cost = as_object(result.get("cost_usd"))
        total = as_usd(cost.get("total"))
        known = total is not None and not as_array(cost.get("unpriced"))
        costs[as_str(result.get("session_id")) or str(number)] = total or Decimal(0), known
    count = len(results)
    return Row(
        cell="run",
        runs=count,
        passed=sum(result.get("is_error") is False for result in results),
        total=sum((usd for usd, _ in costs.values()), Decimal(0)),
        unpriced=sum(not known for _, known in costs.values()),
        means={
            "turns": sum(as_int(result.get("num_turns")) for result in results) / count,
            "seconds": sum(as_number(result.get("duration_ms")) for result in results) / count / 1000,
        },
    )


def _read_session(name: str) -> Measured:
    """Read a session: it has passed if its last answer is complete and nothing has failed since."""
    from sagent.cli.settings import load_settings
    from sagent.session.contents import MessageEntry
    from sagent.session.folds import spend
    from sagent.session.log import read_log
    from sagent.session.store import find, named_logs
    from sagent.session.view import branch

    try:
        settings = load_settings({})
        path = find(settings.state_dir, name, settings.cwd)
        logs = [list(read_log(file)) for file in named_logs(path)]
    except (SessionNotFound, SessionCorrupt) as error:
        raise UsageError(f"{name}: {error}") from error
    replies, passed = 0, False
    for entry in branch(logs[0]):
        content = entry.content if entry.kind in ("message", "failed") else None
        if isinstance(content, MessageEntry) and content.message.role == "assistant":
            replies += 1
            passed = content.message.stop in ("end", "stop_sequence")
        elif content is not None:
            passed = False
    if not replies and logs[0][-1].kind != "failed":
        return Measured(())
    cost = spend(entry for log in logs for entry in log).cost()
    unpriced, means = int(bool(cost.unpriced)), {"turns": float(replies)}
    row = Row(cell="session", runs=1, passed=int(passed), total=cost.total, unpriced=unpriced, means=means)
    return Measured((row,), single=True)


def _lines(all_findings: Sequence[Finding], *, named: bool) -> Iterator[str]:
    for cell, findings in groupby(all_findings, lambda each: each.cell):
        if named:
            yield cell
        for each in findings:
            figure = "-" if each.figure is None else f"{each.figure:.6g}"
            mark, why = "ok    " if each.ok else "FAILED", f"  ({each.why})" if each.why else ""
            yield f"{'  ' if named else ''}{mark}  {each.condition} {figure} {each.wanted}{why}"
    failed = sum(not each.ok for each in all_findings)
    total = len(all_findings)
    yield f"FAILED: {failed} of {total} conditions" if failed else f"ok: {total} of {total} conditions"
