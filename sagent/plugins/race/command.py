"""`sagent race`: several models on one task, the first that passes the check is merged."""

import argparse
import asyncio
import signal
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace

from sagent.agent import Agent
from sagent.app.assembly import open_agent, policy_of
from sagent.cli.flags import Parser
from sagent.cli.headless import EXIT_BUDGET, EXIT_FAILED, Interrupter
from sagent.cli.render import binary_safe, report
from sagent.cli.settings import load_settings, with_chosen_model
from sagent.cli.tables import show
from sagent.config import Settings
from sagent.errors import UsageError
from sagent.events import Event, Notice
from sagent.lib.dataclass import dataclass
from sagent.lib.figures import bill, duration
from sagent.lib.text import Table, printable
from sagent.model import full_name
from sagent.plugins.race.race import Race, Racer, Rules
from sagent.plugins.worktrees.preparation import Preparation
from sagent.plugins.worktrees.record import Record, Repository, repository_at
from sagent.plugins.worktrees.worktree import (
    clean_name,
    described,
    made,
    merge,
    outcome,
    remove,
    repair,
    ways,
)
from sagent.transcript.event_json import encode_cost

DESCRIPTION = """Have several models do one task, each in a git worktree of its own and all within one budget. The first
whose work passes the check wins: it is merged into your work tree, and the others are stopped and removed."""
EPILOG = """exit codes:
  0 one has won and is merged   1 none has passed, or the winner could not be merged   2 usage
  3 the budget was too small for all of them   130, 143 interrupted"""
_REFUSED = ("model", "plan", "advisor_api_base")


@dataclass(slots=True)
class RaceEnd:
    """The outcome of a race."""

    racers: list[Racer] = field(default_factory=list[Racer])
    records: dict[str, Record] = field(default_factory=dict[str, Record])
    winner: Racer | None = None
    merged: bool = False
    session: str = ""
    cost: Mapping[str, object] | None = None
    interrupted: int = 0


def run_race(argv: Sequence[str]) -> int:
    """Race and show the table. Raises UsageError."""
    given, flags = _parse(argv)
    models = [name.strip() for model in given.models for name in model.split(",") if name.strip()]
    if len(models) < 2:
        raise UsageError("A race needs two models or more: --models anthropic/claude-sonnet-4-6,openai/gpt-5.5.")
    rules = Rules(given.task, given.check, given.check_timeout, given.attempts, given.time_limit)
    chosen = {**flags, "model": models[0], "cwd": given.cwd, "config": given.config}
    settings = with_chosen_model(load_settings(chosen))
    if not given.task.strip() or not given.check.strip():
        raise UsageError("A race needs a task, and a check that decides: --check 'make test'.")
    repository = repository_at(settings.cwd, settings.state_dir)
    for text in repair(repository):
        report(text)
    return asyncio.run(_carry_out(settings, repository, rules, models, given))


def _parse(argv: Sequence[str]) -> tuple[argparse.Namespace, dict[str, object]]:
    parser = Parser("race", DESCRIPTION, epilog=EPILOG)
    parser.add_argument("task", metavar="TASK", help="what to do")
    models = "the models, separated by commas; one that is named twice runs twice"
    parser.add_argument("--models", metavar="A,B", action="append", required=True, help=models)
    parser.add_argument("--check", metavar="COMMAND", required=True, help="a shell command that exits with 0 when done")
    parser.add_argument(
        "--check-timeout", metavar="S", type=_seconds, default=600.0, help="seconds that a check may take (%(default)g)"
    )
    parser.add_argument("--time-limit", metavar="S", type=_seconds, help="seconds that each model has")
    tries = "how often each may be checked before it gives up (%(default)s)"
    parser.add_argument("--attempts", metavar="N", type=_whole, default=3, help=tries)
    parser.add_argument("--no-merge", action="store_true", help="keep the winner's worktree in place of merging it")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_cwd()
    parser.add_config()
    return parser.parse_apart(argv, _REFUSED, "a race has --models, each with the same settings; leave it out")


def _seconds(text: str) -> float:
    if not 0 < (value := float(text)) < 1e7:
        raise argparse.ArgumentTypeError("give seconds above 0")
    return value


def _whole(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 100:
        raise argparse.ArgumentTypeError("give a whole number from 1 to 100")
    return int(text)


async def _carry_out(
    settings: Settings, repository: Repository, rules: Rules, models: Sequence[str], flags: argparse.Namespace
) -> int:
    interrupter = Interrupter()
    ended = RaceEnd()
    with ExitStack() as held:
        try:
            if await interrupter.outcome(_race(settings, repository, rules, models, ended, held)) is None:
                ended.interrupted = 128 + (interrupter.received or signal.SIGINT)
        finally:
            await asyncio.to_thread(settle, ended, keep=bool(flags.no_merge))
    show(_as_json(ended, rules), _blocks(ended), as_json=flags.json)
    if ended.interrupted:
        return ended.interrupted
    if ended.winner is not None:
        return 0 if ended.merged or flags.no_merge else EXIT_FAILED
    return EXIT_BUDGET if all(racer.standing == "budget" for racer in ended.racers) else EXIT_FAILED


async def _race(
    settings: Settings, repository: Repository, rules: Rules, models: Sequence[str], ended: RaceEnd, held: ExitStack
) -> bool:
    """Make the worktrees, and race in them. `ended` has what was reached, whatever happens."""
    policy = policy_of(settings)
    async with open_agent(settings, _progress(), policy=policy) as root:
        names = _checked(root, settings, models)
        inside = settings.cwd.resolve().relative_to(repository.root.resolve())
        ended.session = root.log.session_id
        for name, model in zip(_names(names), names, strict=True):

            def make(name: str = name, model: str = model) -> None:
                record = held.enter_context(made(repository, f"{name}-", "race", Preparation.of(settings)))
                ended.records[name] = record
                (record.path / inside).mkdir(parents=True, exist_ok=True)
                ended.racers.append(Racer(name, model, record.path / inside))

            await _to_end(make)
        race = Race(root, rules, ended.racers, report, policy)
        try:
            ended.winner = await race.run()
        finally:
            ended.cost = encode_cost(root.cost())
    return True


async def _to_end(work: Callable[[], None]) -> None:
    """Do slow work in a thread, always to its end: what it makes has to be removed."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _checked(root: Agent, settings: Settings, models: Sequence[str]) -> Sequence[str]:
    """Return the whole names of models that can be used, within the budget if there is one. Raises UsageError."""
    names = [full_name(root.state.neighbours.resolve(name)) for name in models]
    if settings.max_budget_usd is not None:
        for name in names:
            if root.ledger.prices.ceiling(*name.split("/", 1)) is None:
                raise UsageError(
                    f"{name} has no known price, so --max-budget-usd cannot be kept: set its price in the settings "
                    f'([prices."{name}"]: input and output, in USD per million tokens), or leave it out.'
                )
    return names


def _names(models: Sequence[str]) -> Sequence[str]:
    """Return a short name for each model; one that is named twice has a number."""
    short = [clean_name(model.rpartition("/")[2]) or "model" for model in models]
    times, seen, found = Counter(short), Counter[str](), list[str]()
    for name in short:
        seen[name] += 1
        found.append(name if times[name] == 1 else f"{name}-{seen[name]}")
    return found


def settle(ended: RaceEnd, *, keep: bool) -> None:
    """Merge the winner, and remove the other worktrees; those with changes are kept if there is no winner."""
    for racer in ended.racers:
        record = ended.records[racer.name]
        try:
            if racer is ended.winner and not keep:
                done = merge(record)
                ended.merged = True
                report(f"{racer.name} has won and is merged: {done}.")
            elif (racer is ended.winner or ended.winner is None) and not outcome(record).is_empty:
                record.write("kept")
                report(f"The worktree {record.name} is kept: {outcome(record)}. {ways(record)}")
                continue
            remove(record)
        except UsageError as error:
            record.write("kept")
            report(f"The worktree {record.name} is kept: {error} {ways(record)}")


def _progress() -> Callable[[Event], None]:
    err = binary_safe(sys.stderr)

    def tell(event: Event) -> None:
        if isinstance(event, Notice) and event.level != "info":
            err.write(printable(f"sagent: {event.text}\n"))
            err.flush()

    return tell


def _blocks(ended: RaceEnd) -> Sequence[str | Table]:
    rows = tuple(
        (
            racer.name,
            racer.standing,
            str(racer.attempts),
            str(racer.turns),
            duration(racer.seconds),
            bill(racer.cost.total, racer.cost.unbilled, least=bool(racer.cost.unpriced)),
            racer.reason,
        )
        for racer in ended.racers
    )
    titles = ("model", "standing", "checks", "turns", "time", "cost", "why")
    return [Table(rows, titles, (2, 3, 4, 5))] if rows else ["The race did not begin."]


def _as_json(ended: RaceEnd, rules: Rules) -> dict[str, object]:
    kept = {name: record for name, record in ended.records.items() if record.file.exists()}
    return {
        "winner": ended.winner.name if ended.winner else None,
        "merged": ended.merged,
        "interrupted": bool(ended.interrupted),
        "check": rules.check,
        "session_id": ended.session,
        "cost_usd": ended.cost,
        "racers": [
            {
                "name": racer.name,
                "model": racer.model,
                "standing": racer.standing,
                "reason": racer.reason,
                "checks": racer.attempts,
                "check": racer.check,
                "turns": racer.turns,
                "seconds": round(racer.seconds, 3),
                "cost_usd": float(racer.cost.total),
                "unbilled_usd": float(racer.cost.unbilled),
                "worktree": described(replace(kept[racer.name], state="kept"), outcome(kept[racer.name]))
                if racer.name in kept
                else None,
            }
            for racer in ended.racers
        ],
    }
