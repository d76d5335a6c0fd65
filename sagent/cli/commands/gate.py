"""`sagent gate`: whether a result is good enough, for CI: each condition is shown with its figure."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from math import sqrt
from pathlib import Path

from sagent.cli.flags import Parser
from sagent.cli.render import binary_safe
from sagent.cli.settings import read_flag
from sagent.cli.tables import write
from sagent.config.values import RefusedError, decimal
from sagent.errors import SessionCorrupt, SessionNotFound, UsageError
from sagent.lab.table import Row, decode_row, tabulate
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_int, as_object, as_str, json_dump
from sagent.lib.text import nearest
from sagent.session.store import is_session
from sagent.transcript.steps import as_number, as_usd

OK, FAILED = 0, 1
EPILOG = """RESULT is the directory or the result.json of a sweep, the directory of a bench-advisor, the JSON that a run
has printed (--output-format json, or one such object a line), or a session: its path, its id or the beginning of one.

exit codes:
  0 every condition holds   1 one does not   2 wrong usage, or there is nothing to judge"""


@dataclass(frozen=True, slots=True)
class Finding:
    """One condition: what was found, what was wanted, whether that holds, and why not where a figure cannot say it."""

    cell: str
    name: str
    figure: float | None
    wanted: str
    holds: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Measured:
    """A result, by its cells. A `single` run has to be without an error, whatever else is asked of it. `lost` is what
    runs that were killed may have cost besides, in USD: nobody knows their bill, nor of which cell they were."""

    rows: tuple[Row, ...]
    single: bool = False
    lost: Decimal = Decimal(0)


def run_gate(argv: Sequence[str]) -> int:
    """Judge it. Raises UsageError for what cannot be judged."""
    given = _parser().parse_args(argv)
    limits = _Limits.of(given)
    measured = _read(given.result)
    if measured.single and limits.least is None:
        limits = replace(limits, least=1.0)
    if not limits.any:
        raise UsageError("Say what has to hold: --min-pass 0.8, --max-usd 1, ... See sagent gate --help.")
    rows = _chosen(measured.rows, given.cell, given.result)
    before = None if given.baseline is None else _read(given.baseline).rows
    found: list[Finding] = []
    for row in rows:
        earlier = None if before is None else _alike(before, row.cell, str(given.baseline), len(rows))
        found += limits.judge(row, earlier, row.unsure + measured.lost)
    holds = all(each.holds for each in found)
    out = binary_safe(sys.stdout)
    if given.output_format == "json":
        out.write(json_dump(_object(found, holds=holds)) + "\n")
    else:
        write(out, _show(found, named=len(measured.rows) > 1))
    return OK if holds else FAILED


def _parser() -> Parser:
    description = "Whether a result is good enough: every condition has to hold for every cell."
    parser = Parser("gate", description, epilog=EPILOG)
    parser.add_argument("result", metavar="RESULT", help="what is judged")
    parser.add_argument("--min-pass", metavar="SHARE", help="at least this share of the runs passed: 0.8, or 80%%")
    parser.add_argument("--max-usd", metavar="N", help="a cell has cost at most N USD in all")
    parser.add_argument("--max-usd-per-pass", metavar="N", help="at most N USD for each run that passed")
    parser.add_argument("--max-turns", metavar="N", help="at most N model calls a run, in the mean")
    parser.add_argument("--max-seconds", metavar="N", help="at most N seconds a run, in the mean")
    parser.add_argument("--cell", metavar="NAME", action="append", help="judge this cell alone (repeatable)")
    parser.add_argument("--baseline", metavar="RESULT", help="an earlier result: the pass rate may not drop below its")
    parser.add_argument("--max-drop", metavar="SHARE", help="with --baseline: by more than this (0)")
    parser.add_argument(
        "--confident", action="store_true",
        help="judge shares and means by the end of their 95%% interval that is the worse one",
    )  # fmt: skip
    parser.add_argument("--partial", action="store_true", help="runs that are still to be made do not fail it")
    parser.add_argument("--output-format", choices=("text", "json"), default="text", help="%(choices)s")
    return parser


# -- conditions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Limits:
    least: float | None = None
    usd: float | None = None
    usd_per_pass: float | None = None
    turns: float | None = None
    seconds: float | None = None
    drop: float | None = None
    confident: bool = False
    partial: bool = False

    @classmethod
    def of(cls, given: argparse.Namespace) -> "_Limits":
        """The limits of the command line. Raises UsageError."""
        if given.max_drop is not None and given.baseline is None:
            raise UsageError("--max-drop says how far the pass rate may drop below that of --baseline RESULT: give it.")
        drop = None if given.baseline is None else read_flag("--max-drop", given.max_drop or "0", _share)
        return cls(
            least=read_flag("--min-pass", given.min_pass, _share),
            usd=read_flag("--max-usd", given.max_usd, _figure),
            usd_per_pass=read_flag("--max-usd-per-pass", given.max_usd_per_pass, _figure),
            turns=read_flag("--max-turns", given.max_turns, _figure),
            seconds=read_flag("--max-seconds", given.max_seconds, _figure),
            drop=drop,
            confident=given.confident,
            partial=given.partial,
        )

    @property
    def any(self) -> bool:
        every = (self.least, self.usd, self.usd_per_pass, self.turns, self.seconds, self.drop)
        return any(each is not None for each in every)

    def judge(self, row: Row, before: Row | None, unsure: Decimal) -> Iterator[Finding]:
        """Every condition on a cell. One that was never run holds none."""
        if row.missing and not self.partial:
            count = row.runs + row.missing
            why = f"{row.runs} of {count} runs are made; --partial judges those"
            yield Finding(row.cell, "complete", float(row.runs), f"= {count}", holds=False, why=why)
        if self.least is not None:
            yield self._passed(row, self.least)
        if self.usd is not None:
            yield self._cost(row, "usd", 1, unsure, self.usd)
        if self.usd_per_pass is not None:
            yield self._cost(row, "usd_per_pass", row.passed, unsure, self.usd_per_pass)
        for name, most in (("turns", self.turns), ("seconds", self.seconds)):
            if most is not None:
                yield self._mean(row, name, most)
        if self.drop is not None and before is not None:
            yield self._dropped(row, before, self.drop)

    def _passed(self, row: Row, least: float) -> Finding:
        wanted = f">= {least:g}"
        if row.rate is None:
            return Finding(row.cell, "pass", None, wanted, holds=False, why="no run has ended")
        figure = row.interval.low if self.confident else row.rate
        low, high = row.interval
        why = f"{row.passed} of {row.runs} passed, {low:.3f} to {high:.3f}"
        return Finding(row.cell, "pass", figure, wanted, holds=figure >= least, why=why)

    @staticmethod
    def _cost(row: Row, name: str, shares: int, unsure: Decimal, most: float) -> Finding:
        """What it has cost, in so many shares."""
        wanted, figure = f"<= {most:g}", float(row.total / shares) if shares else None
        if row.unpriced:
            why = (
                f"of {row.unpriced} {'run' if row.unpriced == 1 else 'runs'} a price is not known: it is at least this"
            )
            return Finding(row.cell, name, figure, wanted, holds=False, why=why)
        if not row.runs or figure is None:
            why = "no run has ended" if not row.runs else "none has passed"
            return Finding(row.cell, name, figure, wanted, holds=False, why=why)
        if figure <= most < (worst := float((row.total + unsure) / shares)):
            why = f"runs that were killed or interrupted may have cost more: up to {worst:g}"
            return Finding(row.cell, name, figure, wanted, holds=False, why=why)
        return Finding(row.cell, name, figure, wanted, holds=figure <= most)

    def _mean(self, row: Row, name: str, most: float) -> Finding:
        wanted, figure, why = f"<= {most:g}", row.means.get(name), ""
        if figure is None:
            return Finding(row.cell, name, None, wanted, holds=False, why="it is not known")
        if self.confident:
            interval = row.intervals.get(name)
            if interval is None:
                return Finding(row.cell, name, figure, wanted, holds=False, why="one run has no interval: make more")
            why, figure = f"mean {figure:g}, {interval.low:g} to {interval.high:g}", interval.high
        return Finding(row.cell, name, figure, wanted, holds=figure <= most, why=why)

    def _dropped(self, row: Row, before: Row, most: float) -> Finding:
        wanted = f"<= {most:g}"
        if row.rate is None or before.rate is None:
            which = "the baseline" if before.rate is None else "it"
            return Finding(row.cell, "drop", None, wanted, holds=False, why=f"no run of {which} has ended")
        drop = before.rate - row.rate
        why = f"{before.passed} of {before.runs} before, {row.passed} of {row.runs} now"
        if self.confident:
            drop += sqrt((before.interval.high - before.rate) ** 2 + (row.rate - row.interval.low) ** 2)
            why += "; the upper end of Newcombe's interval"
        return Finding(row.cell, "drop", drop, wanted, holds=drop <= most + 1e-12, why=why)


def _figure(text: object) -> float:
    return float(decimal(text, "give a number, at least 0"))


def _share(text: object) -> float:
    """From 0 to 1, or in percent."""
    accepted = "give a share from 0 to 1, or from 0% to 100%"
    percent = isinstance(text, str) and text.endswith("%")
    share = decimal(str(text)[:-1], accepted) / 100 if percent else decimal(text, accepted)
    if share > 1:
        raise RefusedError(accepted)
    return float(share)


# -- results -----------------------------------------------------------------------------------------------------------


def _chosen(rows: Sequence[Row], names: Sequence[str] | None, result: str) -> Sequence[Row]:
    if names is None:
        return rows
    known = {row.cell: row for row in rows}
    for name in names:
        if name not in known:
            raise UsageError(f"{result} has no cell {name!r}{_nearest(name, tuple(known))}")
    return [known[name] for name in names]


def _alike(rows: Sequence[Row], cell: str, baseline: str, judged: int) -> Row:
    """The cell of the baseline that another is compared with: of its name, or the only one where one cell is judged."""
    for row in rows:
        if row.cell == cell:
            return row
    if len(rows) == 1 == judged:
        return rows[0]
    raise UsageError(f"{baseline} has no cell {cell!r} to compare with{_nearest(cell, [row.cell for row in rows])}")


def _nearest(name: str, names: Sequence[str]) -> str:
    return nearest(name, names) or f"; it has {', '.join(names)}."


def _read(name: str) -> Measured:
    """What is there under a name. Raises UsageError for nothing, and for what cannot be read."""
    path = Path(name).expanduser()
    try:
        if path.is_dir():
            found = _read_directory(path)
        elif path.is_file() and path.name != "root.jsonl":
            found = _read_file(path)
        else:
            found = _read_session(name)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{name}: it cannot be read as a result: {reason}.") from error
    if not any(row.runs or row.missing for row in found.rows):
        raise UsageError(f"{name}: it is empty: no run of it has ended, so there is nothing to judge.")
    if not any(row.runs for row in found.rows):
        raise UsageError(f"{name}: no run of it has ended yet, so there is nothing to judge.")
    return found


def _read_directory(path: Path) -> Measured:
    if is_session(path):
        return _read_session(str(path))
    if (path / "result.json").is_file():
        return _read_file(path / "result.json")
    if (path / "runs.jsonl").is_file():
        return _read_notes(path)
    raise ValueError("there is neither a result.json nor a runs.jsonl in it, and it is no session")


def _read_notes(path: Path) -> Measured:
    """The notes of a bench-advisor, or of a sweep."""
    from sagent.lab.trials import ARMS, decode_trial, latest

    setup = as_object(json.loads((path / "setup.json").read_bytes()))
    arms = tuple(as_object(setup.get("cells"))) or ARMS
    *lines, rest = (path / "runs.jsonl").read_bytes().split(b"\n")
    del rest  # of a run that is being written, or that a kill cut off
    trials = [decode_trial(line, arms) for line in lines]
    last = latest(trials)
    tasks = {task for task, _, _ in last}
    rows = tabulate(trials, arms, len(tasks) * max((number for _, _, number in last), default=0))
    sessions = path / "sessions"
    begun = {session.name for session in sessions.iterdir()} if sessions.is_dir() else set[str]()
    lost = len(begun - {Path(trial.session).name for trial in trials})  # their process was killed
    each = as_usd(setup.get("max_budget_usd")) or Decimal("inf")
    return Measured(rows, lost=lost * each if lost else Decimal(0))


def _read_file(path: Path) -> Measured:
    text = path.read_text("utf-8")
    try:
        objects = [json.loads(text)]
    except ValueError:
        objects = [json.loads(line) for line in text.splitlines() if line.strip()]
    if not objects:
        raise ValueError("the file is empty")
    bodies = [as_object(value) for value in objects]
    if len(bodies) == 1 and "cells" in bodies[0]:
        rows = tuple(decode_row(cell) for cell in as_array(bodies[0].get("cells")))
        at_most = as_usd(bodies[0].get("spent_at_most_usd")) or Decimal(0)
        return Measured(rows, lost=max(Decimal(0), at_most - sum(row.total + row.unsure for row in rows)))
    ended = [body for body in bodies if body.get("type", "result") == "result" and "is_error" in body]
    if not ended:
        raise ValueError("it is neither the result of a sweep nor that of a run")
    return Measured((_of_results(ended),), single=True)


def _of_results(results: Sequence[Mapping[str, object]]) -> Row:
    """Runs by the objects of `--output-format json`. Costs are a session's: of several runs in one the last one's."""
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
    """A session: it has passed where its last answer is whole and nothing has failed since."""
    from sagent.cli.settings import load_settings
    from sagent.session.contents import MessageEntry
    from sagent.session.folds import branch, spend
    from sagent.session.log import read_log
    from sagent.session.store import find, log_files

    try:
        settings = load_settings({})
        path = find(settings.state_dir, name, settings.cwd)
        logs = [list(read_log(file)) for file in log_files(path)]
    except (SessionNotFound, SessionCorrupt) as error:
        raise UsageError(f"{name}: {error}") from error
    replies = 0
    passed = False
    for entry in branch(logs[0]):
        content = entry.content if entry.kind in ("message", "failed") else None
        if isinstance(content, MessageEntry) and content.message.role == "assistant":
            replies += 1
            passed = content.message.stop in ("end", "stop_sequence")
        elif content is not None:
            passed = False
    cost = spend(entry for log in logs for entry in log).cost()
    if not replies and logs[0][-1].kind != "failed":
        return Measured(())
    return Measured(
        (
            Row(
                cell="session",
                runs=1,
                passed=int(passed),
                total=cost.total,
                unpriced=int(bool(cost.unpriced)),
                means={"turns": float(replies)},
            ),
        ),
        single=True,
    )


# -- as text and as JSON -----------------------------------------------------------------------------------------------


def _show(found: Sequence[Finding], *, named: bool) -> Iterator[str]:
    before = ""
    for each in found:
        if named and each.cell != before:
            yield each.cell
        before = each.cell
        figure = "-" if each.figure is None else f"{each.figure:.6g}"
        why = f"  ({each.why})" if each.why else ""
        yield f"{'  ' if named else ''}{'ok    ' if each.holds else 'FAILED'}  {each.name} {figure} {each.wanted}{why}"
    failed = sum(not each.holds for each in found)
    yield f"FAILED: {failed} of {len(found)} conditions" if failed else f"ok: {len(found)} of {len(found)} conditions"


def _object(found: Sequence[Finding], *, holds: bool) -> Mapping[str, object]:
    return {
        "ok": holds,
        "conditions": [
            {
                "cell": each.cell,
                "condition": each.name,
                "figure": each.figure,
                "wanted": each.wanted,
                "ok": each.holds,
                "why": each.why or None,
            }
            for each in found
        ],
    }
