"""One agent's conversation, log and jobs, without anything that concerns other agents."""

import asyncio
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Literal

from sagent.agent.asking import Handoff, check_message
from sagent.context.compaction import break_down
from sagent.cost.budget import Meter
from sagent.cost.ledger import Ledger
from sagent.engine.actions import apply, check
from sagent.engine.compaction import make_room
from sagent.engine.context import limits_of
from sagent.engine.neighbours import Extension, Report
from sagent.engine.state import AgentState, Job
from sagent.errors import ToolError, UsageError
from sagent.events import Advice, Event
from sagent.messages import Message, Text
from sagent.model import Model, full_name
from sagent.peer import Action, Background, Caller, Cancel, Consult, Inject, JobStatus, Status
from sagent.session.contents import AdviceOutcome, AdviceRated, ConsultationEntry, MessageWithdrawn
from sagent.session.folds import branch_contents, counted, history
from sagent.session.log import Log
from sagent.tool import Tool, ToolOutput
from sagent.usage import Cost

if TYPE_CHECKING:
    from sagent.rewind.filediff import FileDiff
    from sagent.rewind.restore import FileChanges

_OFFER_SECONDS = 5.0  # for a tool to offer that its job outlives this process: commands start far sooner
_POLL_SECONDS = 0.02


class Conversation(Caller):
    """The part of an agent that needs only its engine's state."""

    state: AgentState
    handoffs: list[Handoff]  # the latest requests to agents below, and their answers

    @property
    @abstractmethod
    def _doing(self) -> Literal["idle", "working", "ended"]:
        """The agent's state; "working" means in a run."""

    @property
    def running(self) -> bool:
        """True while a run is in progress."""
        return self._doing == "working"

    @property
    def path(self) -> str:
        return self.state.path

    @property
    def model(self) -> Model:
        """The current model."""
        return self.state.model

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools that it can call."""
        return tuple(self.state.tools.values())

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation so far."""
        return tuple(self.state.context.history)

    @property
    def ledger(self) -> Ledger:
        """The ledger of its tree."""
        return self.state.ledger

    @property
    def log(self) -> Log:
        return self.state.log

    @property
    def advisory(self) -> Extension | None:
        """The agent's advisors, if it has any."""
        return self.state.context.extension

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call a function with every event, at once and in the loop's thread; call the returned function to stop.
        Raises UsageError for a function that cannot be called like this, such as an async one."""
        if not callable(listener) or iscoroutinefunction(listener):
            kind = "an async function" if callable(listener) else type(listener).__name__
            raise UsageError(f"a listener is {kind}: give a plain function, which is called with each event")
        ends = [self.state.journal.listen(listener)]
        return lambda: ends.pop()() if ends else None

    def inform(self, message: Message) -> None:
        """Let it read a message that needs no answer, in its next pause."""
        self.state.receive(message, "next")

    def withdraw(self, message: Message) -> bool:
        """Withdraw a message that was sent and is still unread; return True if that was possible."""
        entries = self.state.inbox.withdraw(message)
        for entry in entries:
            self.state.journal.record(MessageWithdrawn(entry))
        return bool(entries)

    def wake(self) -> None:
        """Let a run that waits for others check again whether it still has to."""
        self.state.inbox.nudge("next")

    def cost(self) -> Cost:
        """Return the cost of the whole tree."""
        return self.state.ledger.cost()

    def status(self) -> Status:
        """Return the agent's state in brief."""
        state, context = self.state, self.state.context
        tokens = context.tokens()
        report = Report() if context.extension is None else context.extension.report()
        jobs = tuple(job.status() for job in state.jobs.running())
        return Status(
            state.path,
            "working" if jobs and self._doing == "idle" else self._doing,  # it continues when they have ended
            full_name(state.model),
            state.run.turns,
            tokens,
            context.effort or "",
            state.model_limits.window,
            state.ledger.spent(state.path),
            state.ledger.spent_below(state.path),
            jobs,
            break_down(context.system, context.specs, context.history, tokens),
            limits_of(state.limits),
            report.advisors,
            state.ledger.waits(state.path),
        )

    async def consult(self, question: str = "", advisor: str = "") -> Sequence[Advice]:
        """Ask an advisor by its name, or the first; a panel is asked as a whole. Raises UsageError if there is none.

        The advice is returned and is not part of the conversation; `apply(Consult())` adds it.
        """
        if self.advisory is None:
            raise UsageError(f"{self.path} has no advisor: give one with --advisor, or switch to one")
        return await self.advisory.consult(question, advisor)

    def check(self, action: Action) -> None:
        check(self.state, action)

    def apply(self, action: Action) -> None:
        """Change model, effort, limits or context, or stop. It takes effect between two model calls.

        Raises UsageError if it cannot be done; then nothing has changed.
        """
        if not isinstance(action, Action):  # pyright: ignore[reportUnnecessaryIsInstance] -- not everybody has a checker
            raise UsageError(f'{action!r:.60} is not an action: give one of sagent.peer, such as Switch(effort="high")')
        if isinstance(action, Inject):
            self.send(action.message, action.moment)
            return
        check(self.state, action)
        if self.running and not isinstance(action, Background | Consult | Cancel):
            self.state.requested.actions.append(action)
            self.wake()
        else:
            apply(self.state, action)

    async def compact(self, hints: str = "") -> None:
        """Make the context smaller now, keeping the task; a model is asked for a summary. Raises UsageError while a run
        is in progress: use `apply(Compact(hints))` then."""
        if self.running:
            raise UsageError(f"agent {self.path} is running; apply(Compact()) is done before its next model call")
        await make_room(self.state, "asked for", hints, summarise=True)

    def restore(self, history: Sequence[Message]) -> None:
        """Take over an earlier conversation, before the first run. Raises UsageError for an invalid one."""
        for each in history:
            check_message(each)
        state, extension = self.state, self.advisory
        state.context.history, state.context.meter = list(history), _meter_of(state)
        if extension is not None and history:
            extension.resume(branch_contents(state.log.contents(), ConsultationEntry, AdviceOutcome, AdviceRated))

    def rewind(self, entry: str) -> None:
        """Go back to an earlier entry of the log. Later entries stay there as a branch, to which one can return in the
        same way. Files stay as they are: see `rewind_files`. Raises UsageError while a run is in progress, and for an
        entry that does not exist."""
        self._check_idle()
        state, context = self.state, self.state.context
        try:
            state.log.fork(entry)
        except ValueError as error:
            raise UsageError(str(error)) from error
        context.history = list(history(state.log.contents(), state.log.blobs.get))
        context.meter, context.proven, context.compacted_length, state.prompt_id = _meter_of(state), None, -1, ""
        if context.extension is not None:
            context.extension.resume(())
        self.handoffs.clear()

    def _check_idle(self) -> None:
        """Raise UsageError while a run is in progress."""
        if self.running:
            raise UsageError(f"agent {self.path} is running: interrupt it before you go back")

    async def diff(self, path: str, entry: str = "") -> "FileDiff":
        """Compare a file, by its absolute path, with its state when an entry of the log was written ("" is its
        beginning). Raises UsageError for an entry that does not exist, and for a file that has not changed since."""
        from sagent.rewind.filediff import diff_file

        return await diff_file(self.log, entry, path)

    async def preview(self, entry: str) -> "FileChanges":
        """List what `rewind_files` would change and leave alone. Raises UsageError for an entry that does not exist."""
        from sagent.rewind.restore import preview

        return await preview(self.log, entry)

    def jobs(self) -> Sequence[JobStatus]:
        return tuple(job.status() for job in self.state.jobs.all())

    def job_output(self, name: str) -> str:
        job = self._job(name)
        if job.output is None:
            return job.ongoing.tail
        return "".join(part.text for part in job.output.content if isinstance(part, Text))

    async def wait_for_job(self, name: str, seconds: float | None = None) -> JobStatus:
        """Return the state of a job once it has ended, the time is over or a message has arrived. Raises UsageError."""
        job = self._job(name)
        if not job.task.done():
            arrival = asyncio.create_task(self.state.inbox.arrival("now"))
            try:
                await asyncio.wait([job.task, arrival], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            finally:
                arrival.cancel()
        return job.status()

    async def cancel_job(self, name: str) -> JobStatus:
        """Stop a job; the end of its output is kept. Raises UsageError."""
        job = self._job(name)
        if not job.task.done():
            job.task.cancel()
            await asyncio.wait([job.task])
        return job.status()

    async def detach_job(self, name: str) -> str:
        """Let a job outlive this process, wake those who wait for it, and return where its output goes. A job that has
        just begun gets time to offer that. Raises UsageError if its tool cannot."""
        job = self._job(name)
        while job.state == "running" and job.ongoing.detach is None and time.monotonic() < job.started + _OFFER_SECONDS:
            await asyncio.wait([job.task], timeout=_POLL_SECONDS)
        if job.state != "running" or job.ongoing.detach is None:
            raise UsageError(f"{job.name} ({job.call.name}, {job.state}) cannot outlive this process.")
        try:
            where = job.ongoing.detach()
        except ToolError as error:
            raise UsageError(f"{job.name} could not be detached, and continues as before: {error}") from error
        text = f"{job.name} is detached and continues on its own, even after this session: {where}"
        job.state, job.output, job.ended = "detached", ToolOutput.of(text, summary="detached"), time.monotonic()
        self.wake()
        self.state.neighbours.wake_above()
        return text

    def _job(self, name: str) -> Job:
        jobs = self.state.jobs
        if job := jobs.named(name):
            return job
        raise UsageError(f"There is no {name!r}. The jobs are: {', '.join(job.name for job in jobs.all()) or 'none'}.")


def _meter_of(state: AgentState) -> Meter:
    """Return the known size of an earlier conversation. It is no upper bound, because prompt and tools may differ."""
    model, size, tokens = counted(state.log.contents(), state.role)
    return Meter(size, tokens) if tokens and model == state.model.id else Meter()
