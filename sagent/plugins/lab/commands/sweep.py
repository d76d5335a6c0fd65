"""`sagent sweep`: runs tasks in every cell of a grid of settings, within one budget, and shows a table of the
results."""

import argparse
import asyncio
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from sagent.cli.flags import Parser, plugins_of
from sagent.cli.tables import show, write
from sagent.errors import ConfigError, SagentError, UsageError
from sagent.lib.money import number
from sagent.lib.names import path_of
from sagent.lib.text import Table, count, printable
from sagent.plugin import resolve
from sagent.plugins.lab.commands.experiments import ExperimentCommand

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from sagent.config import Settings
    from sagent.plugins.lab.plan import Cell, Spec
    from sagent.plugins.lab.runner import Experiment, Field, Plan
    from sagent.plugins.lab.table import Row
    from sagent.plugins.lab.trials import Task
    from sagent.providers.wire.collecting import Collecting

FORMATS = ("text", "json", "markdown", "csv")
KIND = "sweep"
REQUESTS = "sweep requests"
"""The place where plugins add a transport that sends the requests of several runs together."""
RESULT = "result.json"
TOGETHER = 100
"""Parallel runs with --batch, if the file sets no number: those that wait share a batch."""
EPILOG = """exit codes:
  0 every run is made   1 some failed   2 usage   3 the next run would pass the budget   130, 143 interrupted"""


class _Batches(Protocol):
    """A transport that sends runs' requests as batches, to providers with such an API."""

    providers: tuple[str, ...]

    def __call__(
        self, journal: Path, *, report: Callable[[str], None]
    ) -> "AbstractAsyncContextManager[Collecting]": ...


def _batches() -> _Batches:
    """Return the transport of the plugin whose flag was given."""
    _, extra = next(iter(plugins_of(sys.argv[1:]).extras(REQUESTS)))
    return cast("_Batches", resolve(extra.add))


def _in_batches(args: argparse.Namespace) -> bool:
    return bool(vars(args).get("batch"))


def run_sweep(argv: Sequence[str]) -> int:
    """Make the missing runs and show the results of all."""
    given = _parser().parse_args(argv)
    from sagent.plugins.lab.plan import read_spec

    file = path_of(given.spec)
    spec = read_spec(file)
    if spec.max_total_usd is None and not given.no_budget:
        raise UsageError(f"{file}: max_total_usd is missing: set what all runs together may cost, or give --no-budget.")
    if given.no_budget:
        spec = replace(spec, max_total_usd=None)
    spec = replace(spec, tasks=(*spec.tasks, *_asked(spec, file)))
    names = [task.name for task in spec.tasks]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise UsageError(f"{file}: two tasks are called {twice!r}: give each its own name.")
    own = [] if given.config is None else ["--config", given.config]
    again = [*own, *(["--no-budget"] if given.no_budget else []), *(["--batch"] if _in_batches(given) else [])]
    if _in_batches(given) and spec.jobs == 1:
        spec = replace(spec, jobs=TOGETHER)
    sweep = _Sweep(spec, given, again)
    return asyncio.run(sweep.show_grid() if given.dry_run else sweep.carry_out())


def _parser() -> Parser:
    parser = Parser(
        "sweep",
        description="Run tasks with every combination of the settings in SPEC, within one budget, and tabulate the "
        "results. Run the same command again to continue where it stopped.",
        epilog=EPILOG,
    )
    parser.add_argument("spec", metavar="SPEC", help="tasks, [grid], max_total_usd, ... in TOML (docs/sweep.md)")
    parser.add_argument("--output", metavar="DIR", help="keep every run in DIR (SPEC's name with .sweep)")
    parser.add_argument("--output-format", choices=FORMATS, default="text", help="the format of the table")
    parser.add_argument("--dry-run", action="store_true", help="show the grid and what it may cost, and exit")
    parser.add_flags_of("sweep")
    parser.add_argument("--no-budget", action="store_true", help="no limit on what all runs together cost")
    parser.add_config()
    return parser


def _asked(spec: "Spec", file: Path) -> "Iterator[Task]":
    """Yield the prompts of sessions as tasks. Raises UsageError."""
    if not spec.sessions:
        return
    from sagent.cli.settings import load_settings
    from sagent.messages import Text
    from sagent.plugins.lab.rerun import read_asked
    from sagent.plugins.lab.trials import Task
    from sagent.session.store import find

    settings = load_settings({})
    for name in spec.sessions:
        try:
            asked = read_asked(path := find(settings.state_dir, name, settings.cwd), settings)
        except SagentError as error:
            raise UsageError(f"{file}: sessions: {error}") from error
        if not asked.cwd.is_dir():
            raise UsageError(f"{file}: sessions: {asked.cwd}, where {name} was recorded, does not exist.")
        if any(not isinstance(part, Text) for message in asked.spoken for part in message.parts):
            raise UsageError(
                f"{file}: sessions: the prompt of {name} has images or documents; a task can only be text."
            )
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
    from sagent.plugins.lab.runner import Plan, RunnableArm

    own = None if config is None else str(Path(config).absolute())

    def load(cell: "Cell", work: Path) -> "Settings":
        from sagent.cli.settings import load_settings

        return cell.apply(load_settings({**cell.settings, "cwd": str(work), "config": own}))

    arms = tuple(RunnableArm(cell.name, partial(load, cell), cell.team) for cell in spec.cells)
    return Plan(
        tasks=spec.tasks,
        arms=arms,
        task_dir=spec.task_dir,
        repeats=spec.repeats,
        jobs=spec.jobs,
        total=spec.max_total_usd,
    )


class _Sweep(ExperimentCommand):
    flag = "--output"

    def __init__(self, spec: "Spec", args: argparse.Namespace, again: Sequence[str]) -> None:
        self._spec, self._file, self._form = spec, path_of(args.spec), args.output_format
        self._kept_in = Path(args.output or f"{self._file.stem}.sweep")
        self._batch = _in_batches(args)
        super().__init__(_plan(spec, args.config), str(self._kept_in))
        self._again = ["sagent", "sweep", str(self._file), "--output", str(self._kept_in), *again]

    @property
    def again(self) -> str:
        return f"to continue: {shlex.join(self._again)}"

    async def show_grid(self) -> int:
        """Return the grid and the worst case without making or spending anything."""
        await self.look()
        show(self._grid_object(), self._grid(), as_json=self._form == "json")
        return 0

    async def look(self) -> Mapping[str, object]:
        """Return the description of every cell. Raises UsageError naming the cell."""
        from sagent.plugins.lab.runner import check_arms

        found: dict[str, Field] = {}
        for arm in self.plan.arms:
            try:
                settings = arm.load(Path.cwd())
                budgets = settings.max_budget_usd, arm.team and arm.team.budget_usd
                if self.plan.total is not None and not any(budgets):
                    raise UsageError("max_total_usd needs a limit on each run: set max_budget_usd too.")
                if settings.model is None:
                    raise UsageError('no model is named: write model = ["PROVIDER/MODEL", ...] in [grid]')
                found |= await check_arms(replace(self.plan, arms=(arm,)), Path.cwd())
                if self._batch:
                    self._check_batches(found[arm.name].executor.partition("/")[0], settings)
            except (UsageError, ConfigError) as error:
                raise UsageError(f"{self._file}: cell {arm.name}: {error}") from error
        for notice in dict.fromkeys(notice for field in found.values() for notice in field.notices):
            self.err.write(f"sagent: warning: {printable(notice)}\n")
        self.fields = found
        return self._setup()

    def _check_batches(self, provider: str, settings: "Settings") -> None:
        if provider not in (providers := _batches().providers):
            known = ", ".join(providers)
            raise UsageError(f"{provider} has no batch API that sagent can use ({known} have): leave out --batch.")
        if settings.auth == "credentials" and "auth" in settings.origins:
            raise UsageError("--batch needs an API key: leave out auth = credentials, or --batch.")

    def batched(self) -> "AbstractAsyncContextManager[Collecting | None]":
        if not self._batch:
            return super().batched()

        def report(line: str) -> None:
            self.err.write(f"{printable(line)}\n")
            self.err.flush()

        return _batches()(self._kept_in / "batches.jsonl", report=report)

    def begin(self, experiment: "Experiment") -> None:
        write(self.err, self._grid())
        made = experiment.planned - experiment.missing
        self.err.write(f"kept in {printable(str(self._kept_in))}{f'; {made} runs are made' if made else ''}\n")
        self.err.flush()
        self.keep(experiment)

    def _setup(self) -> dict[str, object]:
        """Return the settings that all runs must share: those common to all cells, and those of each."""
        rows = {cell.name: {**_plain(cell), **self.fields[cell.name].setup} for cell in self._spec.cells}
        names = list(dict.fromkeys(name for row in rows.values() for name in row))
        first = next(iter(rows.values()))
        alike = [name for name in names if all(name in row and row[name] == first.get(name) for row in rows.values())]
        own = {cell: {name: value for name, value in row.items() if name not in alike} for cell, row in rows.items()}
        batch = {"batch": True} if self._batch else {}
        return {"kind": KIND, **batch, **{name: first[name] for name in alike}, "cells": own}

    # -- the grid ------------------------------------------------------------------------------------------------------

    @property
    def _each(self) -> int:
        return len(self.plan.tasks) * self.plan.repeats

    @property
    def _worst(self) -> Decimal | None:
        """The maximum cost of all runs, None if nothing limits it."""
        budgets = [field.budget for field in self.fields.values()]
        known = [budget for budget in budgets if budget is not None]
        all_of_them = self._each * sum(known, Decimal(0)) if len(known) == len(budgets) else None
        bounds = [bound for bound in (all_of_them, self.plan.total) if bound is not None]
        return min(bounds) if bounds else None

    def _grid(self) -> Iterator[str | Table]:
        cells, tasks, repeats = len(self._spec.cells), len(self.plan.tasks), self.plan.repeats
        jobs = f", {self.plan.jobs} at a time" if self.plan.jobs > 1 else ""
        yield (
            f"{count(cells, 'cell')} × {count(tasks, 'task')} × {count(repeats, 'repeat')} = "
            f"{cells * self._each} runs{jobs}"
        )
        rows = (
            (name, field.executor, "-" if field.budget is None else f"{field.budget:f}")
            for name, field in self.fields.items()
        )
        yield Table(tuple(rows), ("cell", "model", "at most, $"), right=(2,))
        total = self.plan.total
        bound = "" if total is None else f" (max_total_usd = {total:f})"
        yield "worst case: " + ("no bound" if self._worst is None else f"${self._worst:f}{bound}")

    def _grid_object(self) -> dict[str, object]:
        return {
            "kind": KIND,
            "planned": len(self._spec.cells) * self._each,
            "repeats": self.plan.repeats,
            "jobs": self.plan.jobs,
            "tasks": [task.name for task in self.plan.tasks],
            "max_total_usd": number(self.plan.total),
            "worst_usd": number(self._worst),
            "cells": [self._cell_object(cell) for cell in self._spec.cells],
        }

    def _cell_object(self, cell: "Cell") -> dict[str, object]:
        field = self.fields[cell.name]
        return {
            "name": cell.name,
            "model": field.executor,
            "advisors": list(field.advisors),
            "max_budget_usd": number(field.budget),
            **({} if cell.team is None else {"team": cell.team.name, "visible_handoffs": cell.team.visible_handoffs}),
            "settings": _plain(cell),
        }

    # -- the result ----------------------------------------------------------------------------------------------------

    def _rows(self, experiment: "Experiment") -> "tuple[Row, ...]":
        from sagent.plugins.lab.table import tabulate

        names = [cell.name for cell in self._spec.cells]
        budgets = {name: field.budget for name, field in self.fields.items()}
        return tabulate(experiment.trials, names, self._each, experiment.lost, budgets)

    def _object(self, experiment: "Experiment", rows: "Sequence[Row]") -> dict[str, object]:
        from sagent.plugins.lab.table import HOW, encode_row

        cells = {cell.name: self._cell_object(cell) for cell in self._spec.cells}
        return {
            "kind": KIND,
            "spec": self._file.name,
            "planned": experiment.planned,
            "missing": experiment.missing,
            "stopped": experiment.stopped or None,
            "repeats": self.plan.repeats,
            "tasks": [task.name for task in self.plan.tasks],
            "max_total_usd": number(self.plan.total),
            "spent_usd": number(sum((row.total for row in rows), Decimal(0))),
            "spent_at_most_usd": number(experiment.spent),
            "unpriced": sum(row.unpriced for row in rows),
            "cells": [{**cells[row.cell], **encode_row(row)} for row in rows],
            "how": " ".join(HOW.split()),
        }

    def keep(self, experiment: "Experiment") -> None:
        """Save the present figures in a file that is always whole."""
        from sagent.lib.atomic import put
        from sagent.lib.json import json_dump

        text = json_dump(self._object(experiment, self._rows(experiment)))
        put(self._kept_in / RESULT, f"{text}\n".encode("utf-8", "replace"))

    def show(self, experiment: "Experiment") -> None:
        from sagent.plugins.lab import table

        rows = self._rows(experiment)
        match self._form:
            case "csv":
                self.out.write(table.as_csv(rows))
            case "markdown":
                write(self.out, table.as_markdown(rows))
            case form:
                blocks = (*self._head(experiment, rows), "", *table.show(rows))
                show(self._object(experiment, rows), blocks, as_json=form == "json")

    def _head(self, experiment: "Experiment", rows: "Sequence[Row]") -> Iterator[str]:
        left = f"; {experiment.missing} still to be made" if experiment.missing else ""
        yield f"runs   {experiment.planned - experiment.missing} of {experiment.planned}{left}"
        least = "≥ " if any(row.unpriced for row in rows) else ""
        usd = sum((row.total for row in rows), Decimal(0))
        most = f"; at most ${experiment.spent:.6f}" if experiment.spent > usd else ""
        total = "" if self.plan.total is None else f" of ${self.plan.total:f}"
        yield f"spent  {least}${usd:.6f}{total}{most}"


def _plain(cell: "Cell") -> dict[str, object]:
    return {name: _json(value) for name, value in {**cell.settings, **cell.rules}.items()}


def _json(value: object) -> object:
    match value:
        case None | bool() | int() | str():
            return value
        case Decimal() | float():
            return float(value)
        case list() | tuple():
            return [_json(each) for each in cast("Sequence[object]", value)]
        case _:
            return str(value)
