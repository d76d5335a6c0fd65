"""Tasks carried out with and without an advisor, in turn and within one budget each: what `bench-advisor` measures."""

import asyncio
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import IO

from sagent.agent import Agent
from sagent.app.advising import advisors_of
from sagent.app.assembly import choose_tools, open_agent
from sagent.app.choice import choose_model
from sagent.config import Settings
from sagent.cost.prices import PriceBook
from sagent.errors import SagentError, UsageError
from sagent.events import Advised, Event, Result
from sagent.session.entries import Bill
from sagent.session.folds import bills
from sagent.session.log import read_log
from sagent.session.store import is_session, log_files
from sagent.trace.benchmark import ARMS, FINISHED, Arm, Outcome, Task, Trial, latest
from sagent.trace.notebook import Notes

PATIENCE = 3  # runs in a row that fail, after which the rest would too
SAID = 4_096  # bytes of a check's output that are looked at
OWN_DOING = frozenset(
    {
        "max_turns",
        "max_tool_call_rounds",
        "max_tokens",
        "context_overflow",
        "refusal",
        "content_filter",
        "advisor_stop",
    }
)
"""Errors of a run that are the model's own doing, or a limit's: what it left is checked like any other."""
ALIKE = (
    "effort", "advisor_mode", "advisor_stop", "panel", "advisor_rules", "transport", "fallback",
    "max_response_tokens", "max_request_tokens", "system", "append_system", "tools", "max_turns",
    "max_tool_call_rounds", "permission_mode", "allow", "deny",
)  # fmt: skip
"""Settings that all runs of a comparison share, beside models and budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be measured. `load` gives the settings of a run in a directory. `total` bounds what all runs together
    cost, in USD; `near` is where the file of tasks lies, which checks know as TASKFILE_DIR."""

    tasks: tuple[Task, ...]
    load: Callable[[Path], Settings]
    near: Path
    repeats: int = 1
    jobs: int = 1
    total: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """Who takes part: models as "provider/id", advisors as they are named, and what else all runs share."""

    executor: str
    advisors: tuple[str, ...]
    budget: Decimal | None
    setup: Mapping[str, object]
    notices: tuple[str, ...] = ()


async def survey(plan: Plan, cwd: Path) -> Field:
    """Find out, before anything is spent, whether the runs can be made. Raises UsageError."""
    settings = _strict(plan.load(cwd))
    if not settings.advisors:
        raise UsageError("Name the advisor that is to be measured: --advisor PROVIDER/MODEL.")
    if settings.model is None:
        raise UsageError("Name the model that does the work: --executor PROVIDER/MODEL.")
    budget, notices = settings.max_budget_usd, list(settings.warnings)
    if plan.total is not None and budget is None:
        raise UsageError("--max-total-usd can be kept only where no run is without end: give --max-budget-usd too.")
    if plan.total is not None and budget is not None and budget > plan.total:
        raise UsageError(f"One run may cost {budget} USD, all of them {plan.total}: none could begin.")
    choose_tools(settings)
    choice = await choose_model(settings)
    try:
        advisors_of(settings, choice, notices)
        executor = f"{choice.model.provider}/{choice.model.id}"
        if budget is not None:
            prices = PriceBook(settings.prices, free=choice.free())
            await asyncio.to_thread(prices.warm)
            for name in (executor, *(advisor.model for advisor in settings.advisors)):
                if "/" in name and prices.ceiling(*name.split("/", 1)) is None:
                    raise UsageError(
                        f"{name} has no known price, so that --max-budget-usd cannot be kept: give its price in the "
                        f'settings ([prices."{name}"]: input and output, in USD per million tokens).'
                    )
    finally:
        await choice.aclose()
    advisors = tuple(map(str, settings.advisors))
    shared = {name: _plain(getattr(settings, name)) for name in ALIKE}
    setup = {"executor": executor, "advisors": list(advisors), "max_budget_usd": _plain(budget), **shared}
    return Field(executor, advisors, budget, setup, tuple(notices))


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, int | float | str) else str(value)


def _strict(settings: Settings) -> Settings:
    """With advisors that must be there, wherever they were named: without them there is nothing to measure."""
    return replace(settings, origins={**settings.origins, "advisors": "--advisor"})


class Experiment:
    """Carries the runs of a plan out that its notes do not have yet. `tell` hears of each that has ended."""

    def __init__(self, plan: Plan, budget: Decimal | None, notes: Notes, tell: Callable[[Trial], None]) -> None:
        self._plan, self._budget, self._notes, self._tell = plan, budget, notes, tell
        self._held = Decimal(0)  # what the runs in progress may cost
        self._room = asyncio.Condition()
        self._failed = 0  # runs in a row
        self._rooms = 0
        self.stopped = ""
        self.over_total = False

    @property
    def trials(self) -> Sequence[Trial]:
        """All that have ended and are of the plan, in this process and in earlier ones."""
        wanted = {(task.name, number) for task in self._plan.tasks for number in range(1, self._plan.repeats + 1)}
        return [trial for trial in self._notes.trials if (trial.task, trial.number) in wanted]

    @property
    def planned(self) -> int:
        """How many runs the plan has."""
        return len(self._plan.tasks) * self._plan.repeats * len(ARMS)

    @property
    def missing(self) -> int:
        """How many of them are still to be made, those included that came to nothing."""
        return self.planned - sum(trial.outcome in FINISHED for trial in latest(self.trials).values())

    @property
    def spent(self) -> Decimal:
        """USD that all runs have cost at most. One that was killed counts with all of its budget."""
        worst = self._budget or Decimal(0)
        known = (worst if trial.most is None else trial.most for trial in self._notes.trials)
        return sum(known, worst * self._notes.lost)

    async def run(self) -> None:
        """Make the runs, until all are made, money or patience is out, or this is cancelled: then the runs in progress
        are stopped and noted as interrupted. `stopped` says why it ended early. Raises OSError where notes cannot be
        written."""
        runs = self._order()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._plan.jobs):
                    group.create_task(self._work_off(runs))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from several

    def _order(self) -> Iterator[tuple[Task, Arm, int]]:
        """Repeat by repeat, and which arm is first by turns: what changes in time meets both."""
        done = {trial.key for trial in latest(self.trials).values() if trial.outcome in FINISHED}
        for number in range(1, self._plan.repeats + 1):
            for place, task in enumerate(self._plan.tasks):
                for arm in ARMS if (place + number) % 2 else ARMS[::-1]:
                    if (task.name, arm, number) not in done:
                        yield task, arm, number

    async def _work_off(self, runs: Iterator[tuple[Task, Arm, int]]) -> None:
        for task, arm, number in runs:
            if self.stopped or not await self._afford():
                return
            try:
                trial = await _Run(self._plan, task, arm, number, self._notes.session(task.name, arm, number)).make(
                    self._workplace(), self._keep
                )
            finally:
                await self._free()
            self._failed = self._failed + 1 if trial.outcome == "failed" else 0
            if self._failed >= PATIENCE and not self.stopped:
                self.stopped = f"{self._failed} runs in a row failed, the last one because {trial.reason}"

    def _workplace(self) -> Path:
        self._rooms += 1
        return self._notes.workplace / str(self._rooms)

    def _keep(self, trial: Trial) -> None:
        self._notes.keep(trial)
        self._tell(trial)

    async def _afford(self) -> bool:
        """Hold the budget of a run; wait where runs in progress may leave enough of the total."""
        total, budget = self._plan.total, self._budget
        if total is None or budget is None:
            return True
        async with self._room:
            while self.spent + self._held + budget > total:
                if not self._held:
                    self.over_total = True
                    self.stopped = self.stopped or (
                        f"{self.spent:.6f} of {total} USD are spent, and the next run may cost {budget}"
                    )
                if self.stopped:
                    return False
                await self._room.wait()
            self._held += budget
        return True

    async def _free(self) -> None:
        if self._plan.total is not None and self._budget is not None:
            self._held -= self._budget
            async with self._room:
                self._room.notify_all()


@dataclass(slots=True)
class _Run:
    """One run of one task."""

    plan: Plan
    task: Task
    arm: Arm
    number: int
    session: Path | None
    agent: Agent | None = None
    result: Result | None = None
    reason: str = ""
    late: bool = False
    check: int | None = None
    unasked: list[str] = field(default_factory=list[str])  # why consultations failed

    async def make(self, place: Path, keep: Callable[[Trial], None]) -> Trial:
        """Carry it out in a new directory at `place`, which is gone in the end, and keep what it came to."""
        try:
            outcome = await self._carry_out(place / (self.task.directory or Path("work")).name)
        except asyncio.CancelledError:
            keep(self._trial("interrupted"))
            raise
        except (SagentError, OSError) as error:
            self.reason = str(error) or type(error).__name__
            outcome = "failed"
        finally:
            await asyncio.to_thread(_remove, place)
        trial = self._trial(outcome)
        keep(trial)
        return trial

    async def _carry_out(self, work: Path) -> Outcome:
        work.parent.mkdir(mode=0o700)
        await copy(self.task.directory, work)
        settings = replace(
            _strict(self.plan.load(work)),
            session=self.session,
            ephemeral=self.session is None,
            continue_session=False,
            fork=None,
            trace=None,
        )
        if self.arm == "without":
            settings = replace(settings, advisors=())
        async with open_agent(settings, self._hear) as agent:
            self.agent = agent
            timer = asyncio.get_running_loop().call_later(self.task.timeout, self._time_out)
            try:
                self.result = await agent.run(self.task.prompt)
            except SagentError as error:
                self.reason = str(error)
                with suppress(UsageError):
                    self.result = await agent.wait()
            finally:
                timer.cancel()
        if (outcome := self._undecided()) is not None:
            return outcome
        self.check, said = await self._decide(work)
        self.reason = self.reason or ("" if self.check == 0 else said)
        return "solved" if self.check == 0 else "unsolved"

    def _hear(self, event: Event) -> None:
        if isinstance(event, Advised) and event.advice.status == "failed":
            self.unasked.append(event.advice.reason)

    def _time_out(self) -> None:
        self.late = True
        if self.agent is not None:
            self.agent.interrupt()

    def _undecided(self) -> Outcome | None:
        """What a run is that its check has nothing to say about."""
        failure = None if self.result is None else self.result.error
        if self.result is None:
            return "failed"
        if failure is not None and not self.late and failure.kind not in OWN_DOING:
            self.reason = failure.message
            return "budget" if failure.kind == "budget" else "failed"
        tallies = self.result.advisors.values()
        if any(tally.failed for tally in tallies) and not any(tally.answered + tally.declined for tally in tallies):
            self.reason = f"no consultation was answered: {self.unasked[-1] if self.unasked else 'all failed'}"
            return "failed"
        self.reason = "its time was over" if self.late else "" if failure is None else failure.message
        return None

    async def _decide(self, work: Path) -> tuple[int | None, str]:
        """The exit code of the check, None where its time was over; and the last it said."""
        with tempfile.TemporaryFile() as output:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                self.task.check,
                cwd=work,
                env={**os.environ, "TASKFILE_DIR": str(self.plan.near)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                async with asyncio.timeout(self.task.timeout):
                    code = await process.wait()
            except TimeoutError:
                return None, "the check did not end in time"
            finally:
                with suppress(ProcessLookupError, PermissionError):  # whatever it began ends with it
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
            return code, f"the check exits with {code}: {_end_of(output)}".rstrip(": ")

    def _trial(self, outcome: Outcome) -> Trial:
        result = self.result
        made = list(self._bills())
        usd = sum((bill.usd or Decimal(0) for bill in made), Decimal(0))
        advisors = [bill.usd for bill in made if bill.role.startswith("advisor:")]
        unknown = any(bill.usd is None for bill in made)
        budget = None if self.agent is None else self.agent.ledger.cap
        unsure = unknown or any(bill.estimated for bill in made) or outcome == "interrupted"
        tallies = () if result is None else tuple(result.advisors.values())
        return Trial(
            task=self.task.name,
            digest=self.task.digest,
            arm=self.arm,
            number=self.number,
            outcome=outcome,
            stop="timeout" if self.late else "" if result is None else result.stop_reason,
            reason=self.reason,
            check=self.check,
            usd=None if unknown else usd,
            most=(None if budget is None else max(usd, budget)) if unsure and self.agent is not None else usd,
            advisor_usd=None if None in advisors else sum((each or Decimal(0) for each in advisors), Decimal(0)),
            turns=0 if result is None else result.turns,
            seconds=0.0 if result is None else round(result.duration, 3),
            answered=sum(tally.answered for tally in tallies),
            declined=sum(tally.declined for tally in tallies),
            undone=sum(tally.failed for tally in tallies),
            withheld=sum(tally.withheld for tally in tallies),
            session="" if self.session is None or not is_session(self.session) else str(self.session),
            at=datetime.now(UTC).isoformat(timespec="seconds")[:-6] + "Z",
        )

    def _bills(self) -> Iterator[Bill]:
        """What all agents of the run were billed, by their logs."""
        if self.session is not None and is_session(self.session):
            for file in log_files(self.session):
                yield from bills(read_log(file))
        elif self.agent is not None:
            for path in {path for path, _ in self.agent.ledger.usage()}:
                log = self.agent.log
                yield from bills((log if path == log.agent else log.child(path)).entries())


def _end_of(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - SAID))
    lines = output.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip()[:200] if lines else ""


def _remove(place: Path) -> None:
    """Remove a directory and what is in it, whatever a run has made of its permissions."""
    if not place.is_dir():
        return
    for directory, names, _ in os.walk(place):
        for name in names:
            path = Path(directory, name)
            if not path.is_symlink():
                with suppress(OSError):
                    path.chmod(0o700)
    shutil.rmtree(place, ignore_errors=True)


# -- copies ------------------------------------------------------------------------------------------------------------


class _OverError(Exception):
    """Nobody wants the copy any more."""


async def copy(source: Path | None, target: Path) -> None:
    """A copy of a directory, or an empty one, at a path that is not there yet. Links that lead into the original lead
    into the copy: whoever works in it cannot change the original by them. Raises OSError."""
    if source is None:
        target.mkdir()
        return
    over = threading.Event()
    work = asyncio.create_task(asyncio.to_thread(_copy, source, target, over))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        over.set()
        await asyncio.wait([work])
        work.exception()
        raise


def _copy(source: Path, target: Path, over: threading.Event) -> None:
    def step(one: str, other: str) -> str:
        if over.is_set():
            raise _OverError
        return shutil.copy2(one, other)

    shutil.copytree(source, target, symlinks=True, copy_function=step)
    origin = os.path.realpath(source)
    for directory, names, files in os.walk(target):
        for name in (*names, *files):
            link = Path(directory, name)
            if not link.is_symlink():
                continue
            leads = os.path.realpath(link.readlink()) if link.readlink().is_absolute() else ""
            if leads == origin or leads.startswith(origin + os.sep):
                inside = target / os.path.relpath(leads, origin)
                link.unlink()
                link.symlink_to(os.path.relpath(inside, directory))
