"""Runs tasks in several arms, in turn and within one budget: the measurements of `bench-advisor` and `sweep`."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import field, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.advisor.advisor import parse_advisor
from sagent.agent import Agent
from sagent.agent.tree import Node
from sagent.app.assembly import open_agent
from sagent.app.models import choose_model
from sagent.app.parts.advisors import advisors_of
from sagent.app.toolset import choose_tools
from sagent.config import Settings
from sagent.errors import SagentError, UsageError
from sagent.events import Advised, Event, Result
from sagent.lib.dataclass import dataclass
from sagent.lib.json import sha256_hex
from sagent.model import full_name
from sagent.plugins.lab.notebook import Notes
from sagent.plugins.lab.trials import FINISHED, Arm, Outcome, Task, Trial, latest_trials
from sagent.plugins.lab.workcopy import copy, remove, scratch_of
from sagent.plugins.programs.check import run_check
from sagent.plugins.teams.files import TeamFile
from sagent.plugins.teams.opening import open_team
from sagent.plugins.teams.team import Team
from sagent.providers.access import loopback
from sagent.session.folds import charges
from sagent.session.log import read_log
from sagent.session.store import is_session, named_logs
from sagent.usage import Charge

if TYPE_CHECKING:
    from sagent.providers.wire.collecting import Collecting

MAX_CONSECUTIVE_FAILURES = 3  # consecutive failures, after which the rest would fail too
OWN_DOING = frozenset(
    {"max_turns", "max_tool_call_rounds", "max_tokens", "context_overflow", "refusal", "content_filter", "advisor_stop"}
)
"""Errors of a run that come from the model or a limit: its files are checked as usual."""
MAX_RUN_SECONDS = 30 * 86_400.0  # for a run that waits for batches
"""Settings that all runs of a comparison share, other than models and budget."""


@dataclass(frozen=True, slots=True)
class RunnableArm:
    """An arm of the comparison. `load` returns the settings of a run in a directory; with a `team` they are its
    lead's."""

    name: Arm
    load: Callable[[Path], Settings]
    team: TeamFile | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of a measurement. `total` limits the cost of all runs, in USD. `task_dir` is the directory of the task
    file; checks have it as TASKFILE_DIR."""

    tasks: tuple[Task, ...]
    arms: tuple[RunnableArm, ...]
    task_dir: Path
    repeats: int = 1
    jobs: int = 1
    total: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """The participants of an arm: models as "provider/id", advisors by name, and `setup`, its settings. `budget` is the
    maximum cost of one run, in USD."""

    executor: str
    advisors: tuple[str, ...]
    budget: Decimal | None
    setup: Mapping[str, object]
    notices: tuple[str, ...] = ()


async def check_arms(plan: Plan, cwd: Path) -> Mapping[Arm, Field]:
    """Check, before anything is spent, that the runs of every arm can be made. Raises UsageError."""
    return {arm.name: await _check_arm(arm, plan.total, cwd) for arm in plan.arms}


async def _check_arm(arm: RunnableArm, total: Decimal | None, cwd: Path) -> Field:
    settings = require_advisors(arm.load(cwd))
    budget, notices = _least(settings.max_budget_usd, arm.team and arm.team.budget_usd), list(settings.warnings)
    if total is not None and budget is None:
        raise UsageError("--max-total-usd needs a limit on each run: give --max-budget-usd too.")
    if total is not None and budget is not None and budget > total:
        raise UsageError(f"One run may cost ${budget}, more than the ${total} for all of them: no run could start.")
    named = arm.team.roles if arm.team else ()
    roles = [role.model for role in named if role.model]
    roles += [parse_advisor(spec).model for role in named for spec in role.advisors]
    choose_tools(settings)
    choice = await choose_model(settings)
    try:
        advisors_of(settings, choice, notices, notices.append)
        executor, address = full_name(choice.model), choice.address(choice.model.provider)
        if budget is not None:
            prices = choice.prices()
            for name in (executor, *(advisor.model for advisor in settings.advisors), *roles):
                if "/" in name and prices.ceiling(*name.split("/", 1)) is None:
                    raise UsageError(
                        f"{name} has no known price, so --max-budget-usd cannot be kept: set its price in the "
                        f'settings ([prices."{name}"]: input and output, in USD per million tokens).'
                    )
    finally:
        await choice.aclose()
    if arm.team is not None:
        async with open_team(replace(settings, ephemeral=True), arm.team, lambda _: None):
            pass  # all its roles are available
    advisors = tuple(map(str, settings.advisors))
    alike = {setting.name: _plain(settings.of(setting)) for setting in settings.plugins.passed_on("shared")}
    shared = {**alike, "advisor_rules": _plain(settings.advisor_rules)}
    setup = {"executor": executor, "advisors": list(advisors), "max_budget_usd": _plain(budget), **shared}
    if address and not loopback(f"http://{address.partition(' at ')[2]}"):  # a server here may get another port
        setup |= {"address": address}
    if arm.team is not None:
        text = repr((replace(arm.team, unadvised=frozenset()), sorted(arm.team.unadvised)))
        digest = sha256_hex(text.encode())[:16]  # changes whenever the team does
        setup |= {"team": arm.team.name, "visible_handoffs": arm.team.visible_handoffs, "team_digest": digest}
    return Field(executor, advisors, budget, setup, tuple(notices))


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, int | float | str) else str(value)


def require_advisors(settings: Settings) -> Settings:
    """Make a missing advisor an error, wherever it was named: without it there is nothing to measure."""
    return replace(settings, origins={**settings.origins, "advisors": "--advisor"})


class Experiment:
    """Makes the runs of a plan that its notes lack, each within the budget of its arm. `report` is called after each
    run. With `batches` no run has a deadline, because runs wait for each other."""

    def __init__(
        self,
        plan: Plan,
        budgets: Mapping[Arm, Decimal | None],
        notes: Notes,
        report: Callable[[Trial], None],
        batches: "Collecting | None" = None,
    ) -> None:
        self._plan, self._budgets, self._notes, self._report = plan, budgets, notes, report
        self._batches = batches
        self._worst = max((budget or Decimal(0) for budget in budgets.values()), default=Decimal(0))
        self._held = Decimal(0)  # the maximum cost of runs in progress
        self._room = asyncio.Condition()
        self._failed = 0  # runs in a row
        self.stopped = ""
        self.over_total = False

    @property
    def trials(self) -> Sequence[Trial]:
        """The ended trials of the plan, in this process and earlier ones."""
        wanted = {(task.name, number) for task in self._plan.tasks for number in range(1, self._plan.repeats + 1)}
        return [trial for trial in self._notes.trials if (trial.task, trial.number) in wanted]

    @property
    def planned(self) -> int:
        return len(self._plan.tasks) * self._plan.repeats * len(self._plan.arms)

    @property
    def missing(self) -> int:
        """Number of trials that are still to be made, those included that failed for reasons outside the task."""
        return self.planned - sum(trial.outcome in FINISHED for trial in latest_trials(self.trials).values())

    @property
    def spent(self) -> Decimal:
        """USD that all runs have cost at most. A killed run counts with its whole budget."""
        known = (self._worst if trial.most is None else trial.most for trial in self._notes.trials)
        lost = (max(self._budgets.get(arm) or Decimal(0) for arm in arms) for arms in self._notes.lost)
        return sum((*known, *lost), Decimal(0))

    @property
    def lost(self) -> Sequence[Sequence[Arm]]:
        """The runs that were killed, as the notes have them."""
        return self._notes.lost

    async def run(self) -> None:
        """Make the runs until all are made, the budget is used up, or too many fail. If this is cancelled, runs in
        progress are stopped and noted as interrupted. `stopped` says why it ended early. Raises OSError if notes cannot
        be written."""
        runs = self._order()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._plan.jobs):
                    group.create_task(self._work_off(runs))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from several

    def _order(self) -> Iterator[tuple[Task, RunnableArm, int]]:
        """Yield the runs repeat by repeat, with the arms in turn first, so that changes over time affect all of
        them."""
        arms = self._plan.arms
        done = {trial.key for trial in latest_trials(self.trials).values() if trial.outcome in FINISHED}
        for number in range(1, self._plan.repeats + 1):
            for place, task in enumerate(self._plan.tasks):
                first = (place + number - 1) % len(arms)
                for arm in (*arms[first:], *arms[:first]):
                    if (task.name, arm.name, number) not in done:
                        yield task, arm, number

    async def _work_off(self, runs: Iterator[tuple[Task, RunnableArm, int]]) -> None:
        for task, arm, number in runs:
            budget = self._budgets[arm.name]
            if self.stopped or not await self._afford(budget):
                return
            if self._batches is not None:
                self._batches.expect(1)
            named = sha256_hex(repr((task.name, arm.name, number)).encode("utf-8", "replace"))[:12]
            room = self._notes.workplace / named  # the same in every process: models are told their directory
            try:
                session = self._notes.session(task.name, arm.name, number)
                run = _Run(task, arm, number, budget, self._plan.task_dir, session, self._batches)
                trial = await run.make(room, self._keep)
            finally:
                if self._batches is not None:
                    self._batches.expect(-1)
                await self._free(budget)
            self._failed = self._failed + 1 if trial.outcome == "failed" else 0
            if self._failed >= MAX_CONSECUTIVE_FAILURES and not self.stopped:
                self.stopped = f"{self._failed} runs in a row failed, the last one because {trial.reason}"

    def _keep(self, trial: Trial) -> None:
        self._notes.keep(trial)
        self._report(trial)

    async def _afford(self, budget: Decimal | None) -> bool:
        """Reserve the budget of a run; wait if runs in progress may leave enough of the total."""
        total = self._plan.total
        if total is None or budget is None:
            return True
        async with self._room:
            while self.spent + self._held + budget > total:
                if not self._held:
                    self.over_total = True
                    self.stopped = self.stopped or (
                        f"${self.spent:.6f} of ${total} are spent, and the next run may cost ${budget}"
                    )
                if self.stopped:
                    return False
                await self._room.wait()
            self._held += budget
        return True

    async def _free(self, budget: Decimal | None) -> None:
        if self._plan.total is not None and budget is not None:
            self._held -= budget
            async with self._room:
                self._room.notify_all()


@dataclass(slots=True)
class _Run:
    task: Task
    arm: RunnableArm
    number: int
    budget: Decimal | None
    task_dir: Path
    session: Path | None
    batches: "Collecting | None" = None
    agent: Node | None = None
    result: Result | None = None
    reason: str = ""
    late: bool = False
    check: int | None = None
    turns: int = 0
    seconds: float = 0.0
    unasked: list[str] = field(default_factory=list[str])  # why consultations failed

    async def make(self, place: Path, keep: Callable[[Trial], None]) -> Trial:
        """Make a run in a new temporary directory at `place`, and save its result."""
        task = self.task
        try:
            if task.session and task.directory is not None:
                async with scratch_of(task.directory, task.commit, place) as scratch:
                    work = scratch.directory
            else:
                work = place / (task.directory or Path("work")).name
                place.mkdir(mode=0o700)
                await copy(task.directory, work)
            outcome = await self._carry_out(work)
        except asyncio.CancelledError:
            keep(self._trial("interrupted"))
            raise
        except (SagentError, OSError) as error:
            self.reason = str(error) or type(error).__name__
            outcome = "failed"
        finally:
            await asyncio.to_thread(remove, place)
        trial = self._trial(outcome)
        keep(trial)
        return trial

    async def _carry_out(self, work: Path) -> Outcome:
        settings = require_advisors(self.arm.load(work)).without("trace")
        settings = replace(
            settings,
            max_budget_usd=_least(settings.max_budget_usd, self.budget),
            session=self.session,
            ephemeral=self.session is None,
            continue_session=False,
            fork=None,
        )

        def on_event(event: Event) -> None:
            if isinstance(event, Advised) and event.advice.status == "failed":
                self.unasked.append(event.advice.reason)

        def time_out(worker: Agent | Team) -> None:
            self.late = True
            worker.interrupt()

        task = self.task
        async with AsyncExitStack() as stack:
            if self.arm.team is None:
                worker = self.agent = await stack.enter_async_context(
                    open_agent(settings, on_event, batches=self.batches)
                )
            else:
                opened = open_team(settings, self.arm.team, on_event, batches=self.batches)
                worker = await stack.enter_async_context(opened)
                self.agent = worker.agents[0]
            seconds = task.timeout if self.batches is None else MAX_RUN_SECONDS
            timer = asyncio.get_running_loop().call_later(seconds, time_out, worker)
            try:
                for prompt in (task.prompt, *task.then):
                    # the prompts name the original directory, the run has a copy
                    moved = prompt.replace(str(task.directory), str(work)) if task.session else prompt
                    self._note(await worker.run(moved))
                    if self.late or self.result is None or self.result.error is not None:
                        break
            except SagentError as error:
                self.reason = str(error)
                with suppress(UsageError):
                    self._note(await self.agent.wait())
            finally:
                timer.cancel()
        if (outcome := self._undecided()) is not None:
            return outcome
        found = await run_check(task.check, work, task.timeout, {"TASKFILE_DIR": str(self.task_dir)})
        self.check = found.code
        if found.code == 0:
            return "solved"
        last = found.said.rpartition("\n")[2].strip()[:200]
        failed = f"the check exits with {found.code}: {last}".rstrip(": ")
        self.reason = self.reason or (f"the check: {found.said}" if found.code is None else failed)
        return "unsolved"

    def _note(self, result: Result) -> None:
        self.result = result
        self.turns += result.turns
        self.seconds += result.duration

    def _undecided(self) -> Outcome | None:
        """Return the outcome of a run that its check cannot judge."""
        if self.result is None:
            return "failed"
        failure = self.result.error
        if failure is not None and not self.late and failure.kind not in OWN_DOING:
            self.reason = failure.message
            return "budget" if failure.kind == "budget" else "failed"
        tallies = self.result.advisors.values()
        if any(tally.failed for tally in tallies) and not any(tally.answered + tally.declined for tally in tallies):
            self.reason = f"no consultation was answered: {self.unasked[-1] if self.unasked else 'all failed'}"
            return "failed"
        self.reason = "its time was over" if self.late else "" if failure is None else failure.message
        return None

    def _trial(self, outcome: Outcome) -> Trial:
        result = self.result
        made = list(self._bills())
        usd = sum((bill.usd or Decimal(0) for bill in made), Decimal(0))
        advisors = [bill.usd for bill in made if bill.role.startswith("advisor:")]
        unknown = any(bill.usd is None for bill in made)
        budget = None if self.agent is None else self.agent.ledger.cap
        # Under a budget each call was reserved in the log before it was sent, and counts with that if its bill never
        # came.
        most = sum((bill.at_most or bill.usd or Decimal(0) for bill in made), Decimal(0))
        if unknown or budget is None:
            most = None if budget is None else max(usd, budget)
        unsure = unknown or any(bill.estimated for bill in made) or outcome == "interrupted"
        tallies = () if result is None else tuple(result.advisors.values())
        return Trial(
            task=self.task.name,
            digest=self.task.digest,
            arm=self.arm.name,
            number=self.number,
            outcome=outcome,
            stop="timeout" if self.late else "" if result is None else result.stop_reason,
            reason=self.reason,
            check=self.check,
            usd=None if unknown else usd,
            least=usd,
            most=most if unsure and self.agent is not None else usd,
            advisor_usd=None if None in advisors else sum((advisor or Decimal(0) for advisor in advisors), Decimal(0)),
            turns=self.turns,
            read=sum(bill.usage.total_input for bill in made),
            written=sum(bill.usage.output for bill in made),
            seconds=round(self.seconds, 3),
            answered=sum(tally.answered for tally in tallies),
            declined=sum(tally.declined for tally in tallies),
            undone=sum(tally.failed for tally in tallies),
            withheld=sum(tally.withheld for tally in tallies),
            session="" if self.session is None or not is_session(self.session) else str(self.session),
            at=datetime.now(UTC).isoformat(timespec="seconds")[:-6] + "Z",
        )

    def _bills(self) -> Iterator[Charge]:
        """Yield what all agents of the run were billed, by their logs."""
        if self.session is not None and is_session(self.session):
            for file in named_logs(self.session):
                yield from charges(read_log(file))
        elif self.agent is not None:
            for path in self.agent.ledger.totals().by_agent:
                log = self.agent.log
                yield from charges((log if path == log.agent else log.child(path)).entries())


def _least(first: Decimal | None, second: Decimal | None) -> Decimal | None:
    return min((usd for usd in (first, second) if usd is not None), default=None)
