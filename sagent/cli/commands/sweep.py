"""`sagent sweep`: tasks carried out in every cell of a grid of settings, within one budget, and a table of them."""

import asyncio
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

from sagent.cli.flags import Parser
from sagent.cli.render import binary_safe
from sagent.cli.tables import write
from sagent.errors import ConfigError, SagentError, UsageError
from sagent.lib.text import Table, count, printable

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.lab.plan import Cell, Spec
    from sagent.lab.runner import Experiment, Field, Plan
    from sagent.lab.table import Row
    from sagent.lab.trials import Task, Trial

FORMATS = ("text", "json", "markdown", "csv")
KIND = "sweep"
RESULT = "result.json"
EPILOG = """exit codes:
  0 every run is made   1 some failed   2 usage   3 the next run would pass the budget   130, 143 interrupted"""


def run_sweep(argv: Sequence[str]) -> int:
    """Make the runs that are missing and show what all of them came to."""
    given = _parser().parse_args(argv)
    from sagent.lab.plan import read_spec

    file = Path(given.spec).expanduser()
    spec = read_spec(file)
    if spec.max_total_usd is None and not given.no_budget:
        raise UsageError(
            f"{file}: max_total_usd is missing: say what all runs together may cost, or give --no-budget to do without."
        )
    if given.no_budget:
        spec = replace(spec, max_total_usd=None)
    directory = Path(given.output or f"{file.stem}.sweep")
    spec = replace(spec, tasks=(*spec.tasks, *_asked(spec, file)))
    names = [task.name for task in spec.tasks]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise UsageError(f"{file}: there are two tasks {twice!r}: name each apart.")
    own = [] if given.config is None else ["--config", given.config]
    again = [*own, *(["--no-budget"] if given.no_budget else [])]
    sweep = _Sweep(spec, _plan(spec, given.config), file, directory, given.output_format, again)
    return asyncio.run(sweep.show() if given.dry_run else sweep.carry_out())


def _parser() -> Parser:
    parser = Parser(
        "sweep",
        description="Carry tasks out with every combination of settings that SPEC names, within one budget, and table "
        "what each came to. The same command again goes on where it stopped.",
        epilog=EPILOG,
    )
    parser.add_argument("spec", metavar="SPEC", help="tasks, [grid], max_total_usd, ... in TOML (docs/sweep.md)")
    parser.add_argument("--output", metavar="DIR", help="keep every run in DIR (SPEC's name with .sweep)")
    parser.add_argument("--output-format", choices=FORMATS, default="text", help="of the table: %(choices)s")
    parser.add_argument("--dry-run", action="store_true", help="show the grid and what it may cost, and end")
    parser.add_argument("--no-budget", action="store_true", help="without a bound on what all runs together cost")
    parser.add_config()
    return parser


def _asked(spec: "Spec", file: Path) -> "Iterator[Task]":
    """What was asked in sessions, as tasks. Raises UsageError."""
    if not spec.sessions:
        return
    from sagent.cli.settings import load_settings
    from sagent.lab.rerun import read_asked
    from sagent.lab.trials import Task
    from sagent.messages import Text
    from sagent.session.store import find

    settings = load_settings({})
    for name in spec.sessions:
        try:
            asked = read_asked(path := find(settings.state_dir, name, settings.cwd), settings)
        except SagentError as error:
            raise UsageError(f"{file}: sessions: {error}") from error
        if not asked.cwd.is_dir():
            raise UsageError(f"{file}: sessions: {asked.cwd}, where {name} was recorded, is not there.")
        if any(not isinstance(part, Text) for message in asked.spoken for part in message.parts):
            raise UsageError(f"{file}: sessions: {name} was asked with images or documents; only text can be a task.")
        first, *then = (message.content for message in asked.spoken)
        yield Task(
            path.name,
            first,
            spec.session_check,
            asked.cwd,
            session=asked.session,
            commit=asked.commit,
            then=tuple(then),
        )


def _plan(spec: "Spec", config: str | None) -> "Plan":
    from sagent.lab.runner import Plan, Way

    own = None if config is None else str(Path(config).absolute())
    ways = tuple(Way(cell.name, _loader(cell, own), cell.team) for cell in spec.cells)
    return Plan(
        tasks=spec.tasks, ways=ways, near=spec.near, repeats=spec.repeats, jobs=spec.jobs, total=spec.max_total_usd
    )


def _loader(cell: "Cell", config: str | None) -> "Callable[[Path], Settings]":
    def load(work: Path) -> "Settings":
        from sagent.cli.settings import load_settings

        return cell.apply(load_settings({**cell.given, "cwd": str(work), "config": config}))

    return load


class _Sweep:
    def __init__(
        self, spec: "Spec", plan: "Plan", file: Path, directory: Path, form: str, again: Sequence[str]
    ) -> None:
        self._spec, self._plan, self._file, self._form = spec, plan, file, form
        self._directory, self._again = directory, again
        self._fields: Mapping[str, Field] = {}
        self._out, self._err = binary_safe(sys.stdout), binary_safe(sys.stderr)

    async def show(self) -> int:
        """The grid and the worst case; nothing is made or spent."""
        self._fields = await self._survey()
        if self._form == "json":
            self._write_json(self._out, self._grid_object())
        else:
            write(self._out, self._grid())
        return 0

    async def carry_out(self) -> int:
        from sagent.cli.commands.bench_advisor import Progress, ending, make_runs, open_notes
        from sagent.cli.headless import Interrupter
        from sagent.lab.runner import Experiment

        interrupter = Interrupter()
        interrupter.install()
        try:
            self._fields = await self._survey()
            notes = open_notes(self._plan, self._setup(), str(self._directory), "--output")
        except asyncio.CancelledError:
            return 128 + (interrupter.received or 2)
        try:
            progress = Progress(self._err)

            def report(trial: "Trial") -> None:
                progress(trial)
                self._keep(experiment)

            budgets = {arm: field.budget for arm, field in self._fields.items()}
            experiment = Experiment(self._plan, budgets, notes, report)
            progress.runs = experiment.missing
            write(self._err, self._grid())
            made = experiment.planned - experiment.missing
            self._err.write(
                f"kept in {printable(str(self._directory))}" + (f"; {made} runs are made\n" if made else "\n")
            )
            self._err.flush()
            self._keep(experiment)
            await make_runs(experiment, interrupter)
            self._keep(experiment)
            self._show(experiment)
            if experiment.stopped:
                again = shlex.join(["sagent", "sweep", str(self._file), "--output", str(self._directory), *self._again])
                self._err.write(f"sagent: stopped before the end: {printable(experiment.stopped)}; to go on: {again}\n")
        finally:
            await asyncio.to_thread(notes.close)
        return ending(experiment, interrupter)

    async def _survey(self) -> "Mapping[str, Field]":
        """What every cell is, looked at before anything is spent. Raises UsageError naming the cell."""
        from sagent.lab.runner import survey

        found: dict[str, Field] = {}
        for way in self._plan.ways:
            try:
                settings = way.load(Path.cwd())
                budgets = settings.max_budget_usd, way.team and way.team.budget_usd
                if self._plan.total is not None and not any(budgets):
                    raise UsageError("max_total_usd is kept only where no run is without end: give max_budget_usd too.")
                if settings.model is None:
                    raise UsageError('no model is named: write model = ["PROVIDER/MODEL", ...] in [grid]')
                found |= await survey(replace(self._plan, ways=(way,)), Path.cwd())
            except (UsageError, ConfigError) as error:
                raise UsageError(f"{self._file}: cell {way.arm}: {error}") from error
        for notice in dict.fromkeys(notice for field in found.values() for notice in field.notices):
            self._err.write(f"sagent: warning: {printable(notice)}\n")
        return found

    def _setup(self) -> dict[str, object]:
        """What all runs must have been made with: what all cells have in common, and what each has of its own."""
        rows = {cell.name: {**_plain(cell), **self._fields[cell.name].setup} for cell in self._spec.cells}
        names = list(dict.fromkeys(name for row in rows.values() for name in row))
        first = next(iter(rows.values()))
        alike = [name for name in names if all(name in row and row[name] == first.get(name) for row in rows.values())]
        own = {cell: {name: value for name, value in row.items() if name not in alike} for cell, row in rows.items()}
        return {"kind": KIND, **{name: first[name] for name in alike}, "cells": own}

    # -- the grid ------------------------------------------------------------------------------------------------------

    @property
    def _each(self) -> int:
        return len(self._plan.tasks) * self._plan.repeats

    @property
    def _worst(self) -> Decimal | None:
        """What all runs can cost, None where nothing bounds it."""
        budgets = [field.budget for field in self._fields.values()]
        known = [budget for budget in budgets if budget is not None]
        all_of_them = self._each * sum(known, Decimal(0)) if len(known) == len(budgets) else None
        bounds = [bound for bound in (all_of_them, self._plan.total) if bound is not None]
        return min(bounds) if bounds else None

    def _grid(self) -> Iterator[str | Table]:
        cells, tasks, repeats = len(self._spec.cells), len(self._plan.tasks), self._plan.repeats
        jobs = f", {self._plan.jobs} at a time" if self._plan.jobs > 1 else ""
        yield (
            f"{count(cells, 'cell')} × {count(tasks, 'task')} × {count(repeats, 'repeat')} = "
            f"{cells * self._each} runs{jobs}"
        )
        rows = (
            (name, field.executor, "-" if field.budget is None else f"{field.budget:f}")
            for name, field in self._fields.items()
        )
        yield Table(tuple(rows), ("cell", "model", "at most, USD"), right=(2,))
        total = self._plan.total
        bound = "" if total is None else f" (max_total_usd = {total:f})"
        yield "worst case: " + ("no bound" if self._worst is None else f"{self._worst:f} USD{bound}")

    def _grid_object(self) -> dict[str, object]:
        return {
            "kind": KIND,
            "planned": len(self._spec.cells) * self._each,
            "repeats": self._plan.repeats,
            "jobs": self._plan.jobs,
            "tasks": [task.name for task in self._plan.tasks],
            "max_total_usd": _number(self._plan.total),
            "worst_usd": _number(self._worst),
            "cells": [self._cell_object(cell) for cell in self._spec.cells],
        }

    def _cell_object(self, cell: "Cell") -> dict[str, object]:
        field = self._fields[cell.name]
        return {
            "name": cell.name,
            "model": field.executor,
            "advisors": list(field.advisors),
            "max_budget_usd": _number(field.budget),
            **({} if cell.team is None else {"team": cell.team.name, "visible_handoffs": cell.team.visible_handoffs}),
            "settings": _plain(cell),
        }

    # -- the result ----------------------------------------------------------------------------------------------------

    def _rows(self, experiment: "Experiment") -> "tuple[Row, ...]":
        from sagent.lab.table import tabulate

        return tabulate(experiment.trials, [cell.name for cell in self._spec.cells], self._each)

    def _object(self, experiment: "Experiment", rows: "Sequence[Row]") -> dict[str, object]:
        from sagent.lab.table import HOW, encode_row

        cells = {cell.name: self._cell_object(cell) for cell in self._spec.cells}
        return {
            "kind": KIND,
            "spec": self._file.name,
            "planned": experiment.planned,
            "missing": experiment.missing,
            "stopped": experiment.stopped or None,
            "repeats": self._plan.repeats,
            "tasks": [task.name for task in self._plan.tasks],
            "max_total_usd": _number(self._plan.total),
            "spent_usd": _number(sum((row.total for row in rows), Decimal(0))),
            "spent_at_most_usd": _number(experiment.spent),
            "unpriced": sum(row.unpriced for row in rows),
            "cells": [{**cells[row.cell], **encode_row(row)} for row in rows],
            "how": " ".join(HOW.split()),
        }

    def _keep(self, experiment: "Experiment") -> None:
        """The figures as they stand, in a file that is always whole."""
        from sagent.lib.atomic import atomic_write
        from sagent.lib.json import json_dump

        with atomic_write(self._directory / RESULT) as file:
            file.write((json_dump(self._object(experiment, self._rows(experiment))) + "\n").encode("utf-8", "replace"))

    def _show(self, experiment: "Experiment") -> None:
        from sagent.lab.table import as_csv, as_markdown, show

        rows = self._rows(experiment)
        match self._form:
            case "json":
                self._write_json(self._out, self._object(experiment, rows))
            case "csv":
                self._out.write(as_csv(rows))
            case "markdown":
                write(self._out, as_markdown(rows))
            case _:
                write(self._out, (*self._head(experiment, rows), "", *show(rows)))
        self._out.flush()

    def _head(self, experiment: "Experiment", rows: "Sequence[Row]") -> Iterator[str]:
        left = f"; {experiment.missing} still to be made" if experiment.missing else ""
        yield f"runs   {experiment.planned - experiment.missing} of {experiment.planned}{left}"
        least = "≥ " if any(row.unpriced for row in rows) else ""
        usd = sum((row.total for row in rows), Decimal(0))
        most = f"; at most {experiment.spent:.6f}" if experiment.spent > usd else ""
        total = "" if self._plan.total is None else f" of {self._plan.total:f}"
        yield f"spent  {least}{usd:.6f}{total} USD{most}"

    @staticmethod
    def _write_json(out: TextIO, value: Mapping[str, object]) -> None:
        from sagent.lib.json import json_dump

        out.write(json_dump(value) + "\n")


def _plain(cell: "Cell") -> dict[str, object]:
    return {name: _json(value) for name, value in {**cell.given, **cell.rules}.items()}


def _json(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_json(each) for each in cast("Sequence[object]", value)]
    return (
        value
        if value is None or isinstance(value, bool | int | str)
        else float(value)
        if isinstance(value, Decimal | float)
        else str(value)
    )


def _number(usd: Decimal | None) -> float | None:
    return None if usd is None else float(usd)
