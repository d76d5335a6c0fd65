"""`sagent bench-advisor`: measures an advisor's benefit on one's own tasks, with the limits of the evidence."""

import argparse
import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.cli.flags import Parser, add_agent_flags, add_setting
from sagent.cli.settings import load_settings
from sagent.cli.tables import show
from sagent.errors import UsageError
from sagent.lib.money import number
from sagent.lib.text import printable
from sagent.plugins.lab.commands.experiments import ExperimentCommand
from sagent.plugins.teams.flag import read_flag

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.plugins.lab.comparison import Comparison, Side
    from sagent.plugins.lab.runner import Experiment, Field, Plan
    from sagent.plugins.lab.stats import Difference
    from sagent.plugins.lab.trials import Trial


def run_bench_advisor(argv: Sequence[str]) -> int:
    flags = vars(_parser().parse_args(argv))
    file = Path(flags.pop("tasks"))
    from sagent.config.values import whole

    repeats, jobs = (read_flag(f"--{name}", flags.pop(name, None), whole(1)) or 1 for name in ("repeats", "jobs"))
    total = read_flag("--max-total-usd", flags.pop("max_total_usd", None), _total)
    out, as_json = flags.pop("out", None), flags.pop("json", False)

    from sagent.plugins.lab.runner import Plan, RunnableArm
    from sagent.plugins.lab.trials import ARMS, read_tasks

    def load(work: Path) -> "Settings":
        return load_settings({**flags, "cwd": str(work)})

    without, advised = ARMS
    tasks, task_dir = read_tasks(file), file.absolute().parent
    ways = RunnableArm(without, lambda work: replace(load(work), advisors=())), RunnableArm(advised, load)
    plan = Plan(tasks=tasks, arms=ways, task_dir=task_dir, repeats=repeats, jobs=jobs, total=total)
    return asyncio.run(_Benchmark(plan, load, out, as_json=as_json).carry_out())


def _parser() -> Parser:
    parser = Parser(
        "bench-advisor",
        usage="sagent bench-advisor TASKFILE --executor M --advisor M [flags]",
        description="Run each task with and without the advisor, within the same budget, and show the difference. "
        "Flags of a run that say how an agent works are taken too.",
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("tasks", metavar="TASKFILE", help="[[tasks]] in TOML, or JSON lines: name, prompt, check, ...")
    group = parser.add_addresses("benchmark")
    group.add_argument("--repeats", metavar="N", help="run each task N times in each way (1)")
    group.add_argument("--jobs", metavar="N", help="N runs at a time (1)")
    group.add_argument("--max-total-usd", metavar="N", help="spend at most N USD on all runs together, at list prices")
    group.add_argument("--out", metavar="DIR", help="keep every run in DIR; run the same command again to continue")
    group.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    group.add_argument("--config", metavar="FILE", help="a TOML or YAML file to use in place of your user settings")
    add_setting(group, "log_level", "info reports each run on stderr, even without a terminal")
    add_agent_flags(parser)
    return parser


def _total(text: object) -> Decimal:
    from sagent.config.values import decimal
    from sagent.plugin import RefusedError

    if not (total := decimal(text, accepted := "give USD as a number above 0")):
        raise RefusedError(accepted)
    return total


class _Benchmark(ExperimentCommand):
    def __init__(self, plan: "Plan", load: "Callable[[Path], Settings]", out: str | None, *, as_json: bool) -> None:
        super().__init__(plan, out)
        self._load, self._as_json = load, as_json

    @property
    def _field(self) -> "Field":
        return self.fields["with"]

    @property
    def again(self) -> str:
        return "run the same command again to continue" if self.directory else "with --out, it could be continued"

    async def look(self) -> Mapping[str, object]:
        from sagent.plugins.lab.runner import check_arms

        settings = self._load(Path.cwd())
        if not settings.advisors:
            raise UsageError("No advisor to measure: give --advisor PROVIDER/MODEL.")
        if settings.model is None:
            raise UsageError("No model to do the work: give --executor PROVIDER/MODEL.")
        self.talks = settings.log_level in ("info", "debug") or (self.err.isatty() and settings.log_level != "error")
        self.fields = await check_arms(self.plan, Path.cwd())
        return self._field.setup

    def begin(self, experiment: "Experiment") -> None:
        del experiment
        for notice in self._field.notices:
            self.err.write(f"sagent: warning: {printable(notice)}\n")

    def keep(self, experiment: "Experiment") -> None:
        """Do nothing: the notes are enough."""

    def show(self, experiment: "Experiment") -> None:
        from sagent.plugins.lab.comparison import compare
        from sagent.plugins.lab.comparison import show as lines

        found = compare(experiment.trials)
        blocks = (*self._head(experiment), "", *lines(found))
        show(self._object(experiment, found), blocks, as_json=self._as_json)

    def _head(self, experiment: "Experiment") -> Iterator[str]:
        plan, field, trials = self.plan, self._field, experiment.trials
        yield f"executor  {field.executor}"
        for advisor in field.advisors:
            yield f"advisor   {advisor}"
        budget = "" if field.budget is None else f", at most ${field.budget} each"
        left = f"; {experiment.missing} still to be made" if experiment.missing else ""
        yield f"runs      {len(plan.tasks)} tasks × {plan.repeats} repeats × 2 ways{budget}{left}"
        unknown = any(trial.usd is None for trial in trials)
        usd = sum((trial.usd or Decimal(0) for trial in trials), Decimal(0))
        yield f"spent     {'≥ ' if unknown else ''}${usd:.6f}, runs that came to nothing included"

    def _object(self, experiment: "Experiment", comparison: "Comparison") -> Mapping[str, object]:
        from sagent.plugins.lab.comparison import HOW

        return {
            "executor": self._field.executor,
            "advisors": self._field.advisors,
            "max_budget_usd": number(self._field.budget),
            "max_total_usd": number(self.plan.total),
            "repeats": self.plan.repeats,
            "planned": experiment.planned,
            "missing": experiment.missing,
            "stopped": experiment.stopped or None,
            "arms": {arm: _plain(side) for arm, side in comparison.sides.items()},
            "tasks": {
                name: {arm: _plain(side) for arm, side in sides.items()} for name, sides in comparison.tasks.items()
            },
            "differences": {name: _difference(difference) for name, difference in comparison.differences.items()},
            "how": " ".join(HOW.split()),
            "runs": [_plain(trial) for trial in experiment.trials],
        }


def _plain(of: "Trial | Side") -> Mapping[str, object]:
    return {name: number(value) if isinstance(value, Decimal) else value for name, value in asdict(of).items()}


def _difference(difference: "Difference") -> Mapping[str, object]:
    shown = {"pairs": difference.pairs, "mean": difference.mean, "interval": difference.interval}
    shown["told"] = difference.is_clear
    return shown if difference.p is None else {**shown, "p": difference.p}
