"""`sagent bench-advisor`: what an advisor is worth on tasks of one's own, with what can be known and what not."""

import argparse
import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from sagent.cli.flags import Parser, add_agent_flags, take_executor
from sagent.cli.render import binary_safe
from sagent.cli.settings import load_settings, read_flag
from sagent.cli.tables import write
from sagent.errors import UsageError
from sagent.lib.text import one_line, printable

if TYPE_CHECKING:
    from sagent.cli.headless import Interrupter
    from sagent.config import Settings
    from sagent.lab.comparison import Comparison, Side
    from sagent.lab.notebook import Notes
    from sagent.lab.runner import Experiment, Field, Plan
    from sagent.lab.stats import Difference
    from sagent.lab.trials import Trial

EXIT_DONE, EXIT_FAILED, EXIT_BUDGET = 0, 1, 3


def run_bench_advisor(argv: Sequence[str]) -> int:
    flags = vars(_parser().parse_args(argv))
    file = Path(flags.pop("tasks"))
    from sagent.config.values import whole

    repeats, jobs = (read_flag(f"--{name}", flags.pop(name, None), whole(1)) or 1 for name in ("repeats", "jobs"))
    total = read_flag("--max-total-usd", flags.pop("max_total_usd", None), _total)
    out, as_json = flags.pop("out", None), flags.pop("json", False)
    take_executor(flags)

    from sagent.lab.runner import Plan, Way
    from sagent.lab.trials import ARMS, read_tasks

    def load(work: Path) -> "Settings":
        return load_settings({**flags, "cwd": str(work)})

    def load_unadvised(work: Path) -> "Settings":
        return replace(load(work), advisors=())

    without, advised = ARMS
    tasks, near = read_tasks(file), file.absolute().parent
    ways = Way(without, load_unadvised), Way(advised, load)
    plan = Plan(tasks=tasks, ways=ways, near=near, repeats=repeats, jobs=jobs, total=total)
    return asyncio.run(_carry_out(plan, load, out, as_json=as_json))


def _parser() -> Parser:
    parser = Parser(
        "bench-advisor",
        usage="sagent bench-advisor TASKFILE --executor M --advisor M [flags]",
        description="Carry out each task with the advisor and without, within the same budget, and show what differs. "
        "Flags of a run that say how an agent works are taken too.",
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("tasks", metavar="TASKFILE", help="[[tasks]] in TOML, or JSON lines: name, prompt, check, ...")
    group = parser.add_executor("benchmark")
    group.add_argument("--repeats", metavar="N", help="carry each task out N times in each way (1)")
    group.add_argument("--jobs", metavar="N", help="N runs at a time (1)")
    group.add_argument("--max-total-usd", metavar="N", help="all runs together cost at most N USD; never overshot")
    group.add_argument("--out", metavar="DIR", help="keep every run in DIR; the same command again goes on from there")
    group.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    group.add_argument("--config", metavar="FILE", help="your settings, TOML or YAML, instead of your own file")
    group.add_argument("--log-level", metavar="L", help="info reports each run on stderr, also without a terminal")
    add_agent_flags(parser)
    return parser


def _total(text: object) -> Decimal:
    from sagent.config.values import RefusedError, decimal

    accepted = "give USD as a number above 0"
    if not (total := decimal(text, accepted)):
        raise RefusedError(accepted)
    return total


async def _carry_out(plan: "Plan", load: "Callable[[Path], Settings]", out: str | None, *, as_json: bool) -> int:
    from sagent.cli.headless import Interrupter
    from sagent.lab.runner import Experiment, survey

    interrupter = Interrupter()
    interrupter.install()
    stdout, stderr = binary_safe(sys.stdout), binary_safe(sys.stderr)
    try:
        settings = load(Path.cwd())
        if not settings.advisors:
            raise UsageError("Name the advisor that is to be measured: --advisor PROVIDER/MODEL.")
        if settings.model is None:
            raise UsageError("Name the model that does the work: --executor PROVIDER/MODEL.")
        fields = await survey(plan, Path.cwd())
        field = fields["with"]
        notes = open_notes(plan, field.setup, out)
    except asyncio.CancelledError:
        return 128 + (interrupter.received or 2)
    try:
        for notice in field.notices:
            stderr.write(f"sagent: warning: {printable(notice)}\n")
        talk = settings.log_level in ("info", "debug") or (stderr.isatty() and settings.log_level != "error")
        progress = Progress(stderr if talk else None)
        experiment = Experiment(plan, {arm: field.budget for arm, field in fields.items()}, notes, progress)
        progress.runs = experiment.missing
        await make_runs(experiment, interrupter)
        _show(plan, field, experiment, stdout, as_json=as_json)
        if experiment.stopped:
            again = "the same command again goes on" if out else "with --out it could be gone on with"
            stderr.write(f"sagent: stopped before the end: {printable(experiment.stopped)}; {again}\n")
    finally:
        await asyncio.to_thread(notes.close)
    return ending(experiment, interrupter)


async def make_runs(experiment: "Experiment", interrupter: "Interrupter") -> None:
    """Make the runs that are missing; an interrupt ends that, and the experiment knows."""
    try:
        await experiment.run()
    except asyncio.CancelledError:
        if interrupter.received is None:
            raise
        experiment.stopped = "interrupted"


def ending(experiment: "Experiment", interrupter: "Interrupter") -> int:
    if interrupter.received is not None:
        return 128 + interrupter.received
    if experiment.over_total:
        return EXIT_BUDGET
    return EXIT_FAILED if experiment.missing else EXIT_DONE


def open_notes(plan: "Plan", setup: Mapping[str, object], out: str | None, flag: str = "--out") -> "Notes":
    """Where the runs are kept: in the directory that the flag names, or nowhere. Raises UsageError."""
    from sagent.lab.notebook import Memory, Notebook

    if out is None:
        return Memory()
    home = Path(out).expanduser().resolve()
    for task in plan.tasks:
        if task.directory is not None and home.is_relative_to(task.directory):
            raise UsageError(
                f"{flag} {out} lies inside the directory of task {task.name!r}: its runs would see those before them. "
                "Name a directory elsewhere."
            )
    return Notebook(home, setup, plan.tasks, [way.arm for way in plan.ways], flag=flag)


class Progress:
    """A line for each run that has ended, for whoever watches."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self.runs = self._ended = 0

    def __call__(self, trial: "Trial") -> None:
        self._ended += 1
        if self._stream is None:
            return
        asked = f", {trial.consultations} consultations" if trial.arm == "with" or trial.consultations else ""
        usd = "price unknown" if trial.usd is None else f"{trial.usd:.6f} USD"
        why = f" ({one_line(trial.reason, 160)})" if trial.reason and trial.outcome != "solved" else ""
        self._stream.write(
            printable(
                f"run {self._ended} of {self.runs}, {trial.task} {trial.number} {trial.arm}: {trial.outcome}{why}, "
                f"{usd}, {trial.turns} turns, {trial.seconds:.1f} s{asked}"
            )
            + "\n"
        )
        self._stream.flush()


def _show(plan: "Plan", field: "Field", experiment: "Experiment", out: TextIO, *, as_json: bool) -> None:
    from sagent.lab.comparison import compare, show

    found = compare(experiment.trials)
    if as_json:
        from sagent.lib.json import json_dump

        out.write(json_dump(_object(plan, field, experiment, found)) + "\n")
    else:
        write(out, (*_head(plan, field, experiment), "", *show(found)))
    out.flush()


def _head(plan: "Plan", field: "Field", experiment: "Experiment") -> Iterator[str]:
    yield f"executor  {field.executor}"
    for advisor in field.advisors:
        yield f"advisor   {advisor}"
    budget = "" if field.budget is None else f", at most {field.budget} USD each"
    left = f"; {experiment.missing} still to be made" if experiment.missing else ""
    yield f"runs      {len(plan.tasks)} tasks × {plan.repeats} repeats × 2 ways{budget}{left}"
    trials = experiment.trials
    unknown = any(trial.usd is None for trial in trials)
    usd = sum((trial.usd or Decimal(0) for trial in trials), Decimal(0))
    yield f"spent     {'≥ ' if unknown else ''}{usd:.6f} USD, runs that came to nothing included"


# -- as JSON -----------------------------------------------------------------------------------------------------------


def _object(plan: "Plan", field: "Field", experiment: "Experiment", found: "Comparison") -> Mapping[str, object]:
    from sagent.lab.comparison import HOW

    return {
        "executor": field.executor,
        "advisors": list(field.advisors),
        "max_budget_usd": _number(field.budget),
        "max_total_usd": _number(plan.total),
        "repeats": plan.repeats,
        "planned": experiment.planned,
        "missing": experiment.missing,
        "stopped": experiment.stopped or None,
        "arms": {arm: _side(side) for arm, side in found.sides.items()},
        "tasks": {name: {arm: _side(side) for arm, side in sides.items()} for name, sides in found.tasks.items()},
        "differences": {name: _difference(difference) for name, difference in found.differences.items()},
        "how": " ".join(HOW.split()),
        "runs": [_run(trial) for trial in experiment.trials],
    }


def _run(trial: "Trial") -> Mapping[str, object]:
    from dataclasses import asdict

    return {name: float(value) if isinstance(value, Decimal) else value for name, value in asdict(trial).items()}


def _side(side: "Side") -> Mapping[str, object]:
    counts = ("trials", "judged", "solved", "turns", "consultations", "consulted")
    advice = ("answered", "declined", "failed", "withheld")
    return {
        **{name: getattr(side, name) for name in (*counts, *advice)},
        "solve_rate": side.solved / side.judged if side.judged else None,
        "solve_rate_interval": list(side.rate),
        "mean": dict(side.means),
        "consult_rate": side.consult_rate,
        "usd": _number(side.usd),
        "advisor_usd": _number(side.advisor_usd),
        "apart": dict(side.apart),
        "reasons": dict(side.reasons),
    }


def _difference(difference: "Difference") -> Mapping[str, object]:
    interval = None if difference.interval is None else list(difference.interval)
    shown = {"pairs": difference.pairs, "mean": difference.mean, "interval": interval, "told": difference.is_clear}
    return shown if difference.p is None else {**shown, "p": difference.p}


def _number(usd: Decimal | None) -> float | None:
    return None if usd is None else float(usd)
