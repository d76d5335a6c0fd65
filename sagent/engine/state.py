"""The parts of one agent: its inbox, its journal, its jobs, and the only place where its history grows."""

import asyncio
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, replace
from typing import Literal, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from sagent.context.calls import Forms, own_forms
from sagent.cost.ledger import Ledger
from sagent.engine.context import Context, Prompts, RunLimits, is_reached
from sagent.engine.neighbours import Neighbours
from sagent.errors import UsageError
from sagent.events import Denial, Event, Notice, Received
from sagent.lib.dataclass import dataclass
from sagent.lib.text import main_argument, one_line, system_reason
from sagent.messages import Message, Text, ToolCall, ToolResult, user
from sagent.model import EFFORTS, Effort, Model, ModelLimits
from sagent.peer import Action, Caller, Compact, JobState, JobStatus, Moment
from sagent.policy import Policy
from sagent.session.contents import (
    EXECUTOR,
    Content,
    JobEntry,
    MessageEntry,
    MessageReceived,
    ResultEntry,
    StoredMessage,
    StoredResult,
)
from sagent.session.log import Log
from sagent.tool import Tool, ToolOutput, Workspace
from sagent.usage import Usage

Listener: TypeAlias = Callable[[Event], None]
MAX_DIFF_CHARS = 50_000  # of a change to keep in its result


_working: "ContextVar[list[AgentState] | None]" = ContextVar("working", default=None)  # emptied when the work is over


@contextmanager
def working_for(state: "AgentState") -> Generator[None]:
    """Record the agent that this code, and the asyncio tasks and threads it starts, work for: nothing else would tell
    for work that a tool starts itself."""
    before, held = _working.get(), [state]
    _working.set(held)
    try:
        yield
    finally:
        held.clear()  # work that is left running is for nobody
        _working.set(before)


def caller() -> "AgentState | None":
    """Return the agent that this code works for; None if it is unknown, or its work is over."""
    return next(iter(_working.get() or ()), None)


class Arrived(NamedTuple):
    """A message, the id of its log entry ("" for a prompt, which is read at once), and True if its sender, an agent,
    waits for an answer."""

    message: Message
    entry: str = ""
    answer: bool = False


class Inbox:
    """Messages in order of arrival, each with the moment to read it. Putting never blocks."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Moment, Arrived]] = []
        self._watchers: list[tuple[tuple[Moment, ...], asyncio.Future[None]]] = []

    def put(self, arrived: Arrived, moment: Moment = "now") -> None:
        """Add a message."""
        self._waiting.append((moment, arrived))
        self.nudge(moment)

    def take(self, *, idle: bool = False) -> list[Arrived]:
        """Return the messages to read before the next model call; when idle, all. Each is returned once."""
        taken = [arrived for moment, arrived in self._waiting if idle or moment != "idle"]
        self._waiting = [] if idle else [item for item in self._waiting if item[0] == "idle"]
        return taken

    def withdraw(self, message: Message) -> list[str]:
        """Remove an unread message; return the id of its entry in a list, [] if it is not there."""
        waiting, self._waiting = self._waiting, [item for item in self._waiting if item[1].message is not message]
        return [arrived.entry for _, arrived in waiting if arrived.message is message]

    def holds(self, *moments: Moment) -> bool:
        """Return True if a message for one of these moments (or any) is waiting."""
        return any(not moments or moment in moments for moment, _ in self._waiting)

    def defer(self) -> None:
        """Make waiting messages less urgent: they are read together with the next ones."""
        self._waiting = [("next" if moment == "now" else moment, arrived) for moment, arrived in self._waiting]

    async def arrival(self, *moments: Moment) -> None:
        """Wait until a message for one of the moments (or any) is there, or for a nudge."""
        if not self.holds(*moments):
            await self.nudged(*moments)

    async def nudged(self, *moments: Moment) -> None:
        """Wait for the next message for one of the moments (or any), or for a nudge."""
        watcher = (moments, asyncio.get_running_loop().create_future())
        self._watchers.append(watcher)
        try:
            await watcher[1]
        finally:
            self._watchers.remove(watcher)

    def nudge(self, moment: Moment = "now") -> None:
        """Wake those who wait for such messages, even if there are none."""
        for moments, future in self._watchers:
            if (not moments or moment in moments) and not future.done():
                future.set_result(None)


class Journal:
    """The log and the listeners of one agent. If the log cannot be written, it is abandoned and the run continues."""

    def __init__(self, path: str, log: Log) -> None:
        self.path, self.log = path, log
        self.lost = False  # logging has ended
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call a function with every event, at once and in the loop's thread; call the returned function to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def emit(self, event: Event) -> None:
        """Pass an event to every listener. If one fails, the loop's handler gets the error and the run continues; a
        broken pipe ends the run, because its reader is gone."""
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except BrokenPipeError:
                raise
            except (Exception, SystemExit, asyncio.CancelledError) as error:
                context = {"message": f"a listener failed on {type(event).__name__}", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)

    def notify(self, level: Literal["info", "warning"], text: str) -> None:
        """Emit a notice."""
        self.emit(Notice(self.path, level, text))

    def record(self, content: Content | Callable[[], Content]) -> str:
        """Append to the log; return the entry's id. After a failure, which is reported once, the run continues without
        logging, and the id is "". Logging does not resume even if the disk has room again: a history with a gap is
        worse than a short one."""
        if self.lost:
            return ""
        try:
            return self.log.append(content() if callable(content) else content).id
        except OSError as error:
            self.lost = True
            self.notify(
                "warning",
                f"The log cannot be written ({system_reason(error)}); the run continues, but nothing more is "
                "saved. Free some space or fix the directory, then start again with --continue.",
            )
            return ""

    def keep(self, data: bytes) -> str:
        """Store media as a blob; return its name in the log."""
        return self.log.blobs.put(data).name

    def close(self) -> None:
        """Close the log: nobody reads further entries of this agent."""
        self.lost = True
        self.log.close()

    async def make_durable(self) -> None:
        """Make sure that the log is on the disk."""
        if not self.lost:
            try:
                await asyncio.to_thread(self.log.sync)
            except OSError as error:
                self.notify("warning", f"The log could not be synced to disk: {error}")


@dataclass(slots=True)
class RunningCall:
    """A running call, whether it is a job or not: its latest output, and the way to detach it, if any. `started` is
    when its tool was called, by a monotonic clock."""

    tail: str = ""
    started: float = field(default_factory=time.monotonic)
    detach: Callable[[], str] | None = None  # makes it outlive this process; returns its output's path


@dataclass(slots=True)
class Job:
    """A call in the background."""

    name: str
    call: ToolCall
    task: asyncio.Task[None]
    ongoing: RunningCall
    state: JobState = "running"
    started: float = field(default_factory=time.monotonic)
    ended: float = 0.0
    output: ToolOutput | None = None

    @property
    def what(self) -> str:
        """The main argument of its call, in one line."""
        return one_line(main_argument(self.call.arguments), 80)

    def status(self) -> JobStatus:
        """Return the job's current state."""
        seconds = (self.ended or time.monotonic()) - self.started
        return JobStatus(self.name, self.call.name, self.what, self.state, round(seconds, 1))

    def entry(self) -> JobEntry:
        """Return the job's log entry: its beginning, or its end."""
        return JobEntry(self.name, self.call.id, self.call.name, self.state)


class Jobs:
    """An agent's jobs, including ended ones. A name is never used twice in a session."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._ongoing: WeakKeyDictionary[asyncio.Task[None], RunningCall] = WeakKeyDictionary()
        self.stopping = False  # all are being ended, not single ones on request
        self.last = 0  # number of the latest; a resumed session continues from there

    def begin(self, call: ToolCall, task: asyncio.Task[None]) -> Job:
        """Make a job of a call's task."""
        self.last += 1
        ongoing = self.ongoing(task)
        job = Job(f"job:{self.last}", call, task, ongoing, started=ongoing.started)
        self._jobs[job.name] = job
        return job

    def ongoing(self, task: asyncio.Task[None]) -> RunningCall:
        """Return the state of a running call, by its task."""
        return self._ongoing.setdefault(task, RunningCall())

    def of(self, task: asyncio.Task[object] | None) -> Job | None:
        """Return the job of a task."""
        return next((job for job in self._jobs.values() if job.task is task), None)

    def named(self, name: str) -> Job | None:
        """Return a job by "job:3" or "3"."""
        return self._jobs.get(name if name.startswith("job:") else f"job:{name}")

    def all(self) -> tuple[Job, ...]:
        """Return all jobs, in the order in which they began."""
        return tuple(self._jobs.values())

    def running(self) -> tuple[Job, ...]:
        """Return the jobs that have not ended and were not detached."""
        return tuple(job for job in self._jobs.values() if job.state == "running")

    async def stop(self) -> None:
        """Cancel all running jobs; return when they have ended. For detached ones, only the waiting ends."""
        self.stopping = True
        tasks = [job.task for job in self._jobs.values() if not job.task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.stopping = False


def result_message(job: Job) -> Message:
    """Return the message that brings a job's result."""
    output = job.output or ToolOutput(())
    seconds = job.ended - job.started
    how = {"done": "has ended", "failed": "has failed", "cancelled": "was cancelled"}.get(job.state, job.state)
    about = f" ({job.what})" if job.what else ""
    head = Text(f"{job.name}, the call of {job.call.name}{about}, {how} after {seconds:.1f} s. Its result:\n")
    return user("", head, *output.content, sender=job.name)


@dataclass(slots=True)
class Run:
    """The bookkeeping of the run in progress."""

    started: float = field(default_factory=time.monotonic)
    turns: int = 0
    rounds: int = 0
    cut_replies: int = 0  # in a row without a whole call
    stop: str = ""
    deps: object = None  # for its tools
    interrupted: bool = False  # on purpose, when providers stop, and not with its task
    askers: list[str] = field(default_factory=list[str])  # agents waiting for an answer
    usage: Usage = field(default_factory=Usage)
    denials: list[Denial] = field(default_factory=list[Denial])
    replies: list[Message] = field(default_factory=list[Message])  # of the model, those cut off included


@dataclass(slots=True)
class RequestedChanges:
    """The changes that were requested while a call was in flight."""

    actions: list[Action] = field(default_factory=list[Action])  # to apply before the next model call
    compact: Compact | None = None  # a compaction to make before it
    background: set[str] = field(default_factory=set[str])  # calls to move to the background; "" is all
    cancelled: set[str] = field(default_factory=set[str])  # calls to end

    def take_background(self) -> set[str]:
        """Return the calls to move to the background, each returned once."""
        asked, self.background = self.background, set()
        return asked


@dataclass(slots=True)
class AgentState:
    """The state of one agent: its conversation, its journal, and what it works with."""

    path: str
    context: Context
    journal: Journal
    tools: Mapping[str, Tool]
    judge: Policy  # as it was given
    policy: Policy  # wrapped by an extension, if any
    ledger: Ledger
    workspace: Workspace
    neighbours: Neighbours
    prompts: Prompts
    caller: Caller | None = None  # the agent itself, as its tools may use it
    role: str = EXECUTOR  # who its calls are billed as
    fallbacks: list[Model] = field(default_factory=list[Model])  # replace the model, one after the other
    compactor: Model | None = None  # who sums up a conversation that is cut; None is the model itself
    call_forms: Forms = own_forms  # of calls in text
    inbox: Inbox = field(default_factory=Inbox)
    jobs: Jobs = field(default_factory=Jobs)
    run: Run = field(default_factory=Run)
    requested: RequestedChanges = field(default_factory=RequestedChanges)
    noted: tuple[str, ...] = ()  # clamped or left out in the last call
    prompt_id: str = ""  # hash of the system prompt and tools last logged

    @property
    def model(self) -> Model:
        return self.context.model

    @property
    def limits(self) -> RunLimits:
        return self.context.limits

    @property
    def log(self) -> Log:
        return self.journal.log

    @property
    def above(self) -> str:
        """The path of the agent above, "" for a root."""
        return self.path.rpartition("/")[0]

    @property
    def model_limits(self) -> ModelLimits:
        """The model's sizes: from a provider's error, otherwise from its list, otherwise from our data."""
        sizes, window = self.neighbours.sizes(self.model), self.context.meter.window
        return replace(sizes, window=window) if window else sizes

    @property
    def closing(self) -> bool:
        """True if the run in progress makes no further model call."""
        return bool(self.run.stop) or is_reached(self.limits.max_turns, self.run.turns)

    def is_detached(self) -> bool:
        """Return True if the call that this task makes was detached, to outlive the process."""
        job = self.jobs.of(asyncio.current_task())
        return job is not None and job.state == "detached"

    def offer(self, tool: Tool) -> None:
        """Add a tool, from the next call on."""
        if self.tools.get(tool.name) is not tool:
            self.tools = {**self.tools, tool.name: tool}
            self.context.specs = self.prompts.specs(tuple(self.tools.values()))

    def add(self, message: Message, entry: str = "") -> None:
        """Add a message to the history, in memory and in the log; `entry` is the one of its arrival."""
        self.context.history.append(message)
        self.journal.record(lambda: MessageEntry(StoredMessage.of(message, self.journal.keep), entry))
        if message.role == "user":
            self.journal.emit(Received(self.path, message))
        else:
            self.run.replies.append(message)

    def add_result(self, call: ToolCall, result: ToolResult, took: float, diff: str = "", summary: str = "") -> None:
        """Log a call's result at once, with facts for readers of the log; its message enters the history later."""
        if len(diff) > MAX_DIFF_CHARS:
            diff = f"{diff[: diff.rfind(chr(10), 0, MAX_DIFF_CHARS) + 1]}@@ {len(diff)} characters in all @@\n"
        made = dict(call.arguments) if all(call not in each.calls for each in self.context.history[-1:]) else {}
        self.journal.record(lambda: ResultEntry(StoredResult.of(result, self.journal.keep), took, diff, summary, made))

    def receive(self, message: Message, moment: Moment, *, answer: bool = False) -> None:
        """Put a message into the inbox, after logging it: an unread one survives this process.

        With `answer`, the agent's last text of the turn goes back to the sender.
        """
        entry = self.journal.record(
            lambda: MessageReceived(StoredMessage.of(message, self.journal.keep), moment, answer)
        )
        self.inbox.put(Arrived(message, entry, answer), moment)

    def admit(self, *, idle: bool = False) -> bool:
        """Move the due messages into the history, when idle all of them; return True if there were any.

        Their senders get an answer if they requested one; the agent above is informed of the turn in any case.
        """
        arrived = self.inbox.take(idle=idle)
        for message, entry, answer in arrived:
            if answer and message.sender not in self.run.askers and message.sender != self.above:
                self.run.askers.append(message.sender)
            self.add(message, entry)
        return bool(arrived)

    def answer_askers(self, answer: Message) -> None:
        """Send the answer to the senders of read messages."""
        askers, self.run.askers = self.run.askers, []
        for path in askers:
            self.neighbours.deliver(path, answer)

    def record_prompt(self) -> None:
        """Log the system prompt and tools as sent: once, and again whenever they change."""
        prompt_id, entry = self.prompts.entry(self.context.system, self.context.specs)
        if prompt_id != self.prompt_id:
            self.prompt_id = prompt_id
            self.journal.record(entry)


def parse_effort(text: str) -> Effort:
    """Parse an effort. Raises UsageError with the valid ones."""
    for effort in EFFORTS:
        if text == effort:
            return effort
    raise UsageError(f"unknown effort {text!r}; one of {', '.join(EFFORTS)}")
