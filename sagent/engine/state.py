"""What an agent is made of: its parts, its history, and the one place where something is added to either."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from decimal import Decimal
from functools import cache, partial
from typing import TYPE_CHECKING, TypeAlias

from sagent.cost.ledger import Ledger, Reservation
from sagent.engine.inbox import Arrived, Inbox
from sagent.engine.jobs import Jobs
from sagent.engine.limits import RunLimits
from sagent.engine.meter import Meter
from sagent.engine.prompts import Prompts
from sagent.errors import UsageError
from sagent.events import Denial, Event, Notice, Received
from sagent.lib.dataclass import dataclass
from sagent.lib.json import (
    EMPTY,
    JsonObject,
    as_array,
    as_object,
    as_str,
)
from sagent.messages import Message, ToolCall, ToolResult
from sagent.model import EFFORTS, Effort, Model, ModelLimits, Request, ToolSpec
from sagent.peer import Action, Caller, Compact, Moment
from sagent.policy import Ask, Policy
from sagent.policy.advisory import Advisory, AdvisoryFactory
from sagent.session.contents import ChargeEntry, Content, MessageEntry, MessageReceived, ResultEntry
from sagent.session.log import Log
from sagent.session.stored import StoredMessage, StoredResult
from sagent.tool import Tool, Workspace
from sagent.usage import Charge, Sum, Usage

if TYPE_CHECKING:
    from sagent.agent.tree import Tree
    from sagent.rewind.recorder import Checkpoints

Asker: TypeAlias = Callable[[ToolCall, Ask], Awaitable[str | None]]
"""Puts a question to a person: None means yes, a string is the reason for no."""


EXECUTOR = "executor"
MOST_DIFF = 50_000  # characters of a change that its result keeps


@dataclass(frozen=True, slots=True)
class Resources:
    """What an agent holds that outlives a turn or is shared with others of its tree. None: the agent makes its own."""

    log: Log | None = None
    ledger: Ledger | None = None
    workspace: Workspace | None = None
    ask: Asker | None = None
    path: str = "root"
    resolve: Callable[[str], Model] | None = None  # "provider/id" -> Model, for Switch
    model_limits: Callable[[Model], ModelLimits] | None = (
        None  # a model's sizes, where more is known than it knows itself
    )
    fallbacks: Sequence[Model] = ()  # take over, one after the other, when the model cannot be reached
    finish: Callable[[], Awaitable[None]] | None = None  # awaited when a run ends, before its result is told
    tree: "Tree | None" = None
    catalog: Callable[[], str] | None = None  # the models that can be switched to, in words
    advisory: AdvisoryFactory | None = None  # gives it advisors
    advised: bool = True  # from the start; else when it is first switched to one
    role: str = EXECUTOR  # who its calls are billed as
    compactor: Model | None = None  # who sums up a conversation that is cut


def begin_checkpoints(*, looks_around: bool) -> "Checkpoints":
    """Those of a tree, from the first call on that may change a file."""
    from sagent.rewind.recorder import Checkpoints

    return Checkpoints(looks_around=looks_around)


@dataclass(slots=True)
class Run:
    """The bookkeeping of the run in progress."""

    started: float = field(default_factory=time.monotonic)
    turns: int = 0
    rounds: int = 0
    stop: str = ""
    askers: list[str] = field(default_factory=list[str])  # agents whose messages want an answer
    usage: Usage = field(default_factory=Usage)
    denials: list[Denial] = field(default_factory=list[Denial])
    replies: list[Message] = field(default_factory=list[Message])  # of the model, those cut off included


@dataclass(slots=True)
class AgentState:
    """One agent's parts and history. `history` only grows."""

    path: str
    model: Model
    system: str
    tools: Mapping[str, Tool]
    judge: Policy  # as it was given
    policy: Policy  # with what advisors see to around it
    limits: RunLimits
    effort: Effort | None
    log: Log
    ledger: Ledger
    workspace: Workspace
    ask: Asker | None = None
    resolve: Callable[[str], Model] | None = None
    listed: Callable[[Model], ModelLimits] | None = None
    fallbacks: list[Model] = field(default_factory=list[Model])
    output_schema: JsonObject | None = None  # that the answer of this run is to be held to
    inbox: Inbox = field(default_factory=Inbox)
    jobs: Jobs = field(default_factory=Jobs)
    checkpoints: "Callable[[], Checkpoints]" = field(  # of its whole tree
        default_factory=lambda: cache(partial(begin_checkpoints, looks_around=False))
    )
    pending: list[Action] = field(default_factory=list[Action])  # changes to make before the next model call
    background: set[str] = field(default_factory=set[str])  # calls that are to go on in the background; "" is all
    caller: Caller | None = None  # the agent itself, as its tools may use it
    handoffs: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])  # who, asked what, said
    busy: Callable[[], bool] = lambda: False  # whether agents below it are at work
    stir: Callable[[], None] = lambda: None  # wakes whoever waits for this agent's jobs
    tell: Callable[[str, Message], None] = lambda path, message: None  # a message to another agent, if it lives
    history: list[Message] = field(default_factory=list[Message])
    listeners: list[Callable[[Event], None]] = field(default_factory=list[Callable[[Event], None]])
    prompts: Prompts = field(default_factory=Prompts)
    specs: tuple[ToolSpec, ...] = ()
    meter: Meter = field(default_factory=Meter)
    compactor: Model | None = None  # who sums up a conversation that is cut; None is the model itself
    compact_wanted: Compact | None = None  # a compaction to make before the next model call
    cramped: int = -1  # messages there were when a compaction was made because the window was full
    compactions: int = 0
    removed: int = 0  # tokens that compactions have taken out of every request since
    saved: int = 0  # tokens that were not sent for that
    proven: tuple[Model, Meter] | None = None  # the model before the one that has not answered yet
    run: Run = field(default_factory=Run)
    noted: tuple[str, ...] = ()  # what was clamped or left out in the last call
    prompt_id: str = ""  # hash of the system prompt and tools last logged
    role: str = EXECUTOR  # who its calls are billed as
    advisory: Advisory | None = None
    advise: Callable[[], Advisory] | None = None  # makes them, where it has none
    unused: Advisory | None = None  # made, and without an advisor so far
    consult: Callable[[str, str], None] = lambda question, advisor: None  # has an advisor asked for a person
    cancelled: set[str] = field(default_factory=set[str])  # calls that are to end
    finish: Callable[[], Awaitable[None]] | None = None
    catalog: Callable[[], str] | None = None
    log_lost: bool = False

    def advised_by(self, advisory: Advisory) -> None:
        """Have advisors: their tool is offered from the next call on, where it was not already."""
        self.advisory = advisory
        tool = advisory.tool
        if tool is not None and self.tools.get(tool.name) is not tool:
            self.tools = {**self.tools, tool.name: tool}
            self.specs = self.prompts.specs(tuple(self.tools.values()))
        if self.policy is self.judge:
            self.policy = advisory.judge(self.judge)

    def emit(self, event: Event) -> None:
        """Tell every listener. One that fails is reported to the loop's handler and does not disturb the run.

        A broken pipe is not a failure: it says that nobody listens any more, and ends the run.
        """
        for listener in tuple(self.listeners):
            try:
                listener(event)
            except BrokenPipeError:
                raise
            except Exception as error:
                context = {"message": f"a listener failed on {type(event).__name__}", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)

    def add(self, message: Message, entry: str = "") -> None:
        """Let the history grow by a message, in memory and in the log; `entry` is the one by which it was received."""
        self.history.append(message)
        self.record(lambda: MessageEntry(StoredMessage.of(message, self.keep), entry))
        if message.role == "user":
            self.emit(Received(self.path, message))
        else:
            self.run.replies.append(message)

    def record_history(self) -> None:
        """Log a history that was taken over from another agent: each log is whole in itself."""
        for message in self.history:
            self.record(MessageEntry(StoredMessage.of(message, self.keep)))

    def add_result(self, result: ToolResult, seconds: float, diff: str = "") -> None:
        """Log one call's result the moment it is known; the message that carries it enters the history later. `diff` is
        for those who read the log."""
        if len(diff) > MOST_DIFF:
            diff = f"{diff[: diff.rfind(chr(10), 0, MOST_DIFF) + 1]}@@ {len(diff)} characters in all @@\n"
        self.record(lambda: ResultEntry(StoredResult.of(result, self.keep), seconds, diff))

    def receive(self, message: Message, moment: Moment, *, answer: bool = False) -> None:
        """Put a message into the inbox, and first into the log: one that was not read yet survives this process.

        With `answer`, what the agent says at the end of its turn goes back to the sender.
        """
        entry = self.record(lambda: MessageReceived(StoredMessage.of(message, self.keep), moment, answer))
        self.inbox.put(Arrived(message, entry, answer), moment)

    def take_background(self) -> set[str]:
        """The calls that are to go on in the background, each told once."""
        asked, self.background = self.background, set()
        return asked

    def take_cancelled(self) -> set[str]:
        """The calls that are to end, each told once."""
        asked, self.cancelled = self.cancelled, set()
        return asked

    def keep(self, data: bytes) -> str:
        """Keep media as a blob; the name by which the log refers to it."""
        return self.log.blobs.put(data).name

    def record(self, content: Content | Callable[[], Content]) -> str:
        """Append to the log; the entry's id. When that fails the run goes on and says so once, and the id is "".

        Nothing is logged after a failure, even if the disk has room again: a history with a hole is worse than a
        short one.
        """
        if self.log_lost:
            return ""
        try:
            return self.log.append(content() if callable(content) else content).id
        except OSError as error:
            self.log_lost = True
            self.emit(
                Notice(
                    self.path,
                    "warning",
                    f"The log cannot be written ({error.strerror or error}); the run goes on, but from here on nothing "
                    "is kept. Free space or fix the directory, then start again with --continue.",
                )
            )
            return ""

    def settle(self, reservation: Reservation, charges: tuple[Charge, ...]) -> Decimal | None:
        """Bill a call, in the ledger and the log, when it ends; its price in USD, or None when that is not known."""
        for charge in charges:
            if not charge.role:
                self.run.usage += charge.usage
        found = Sum()
        for charge in self.bill(reservation, charges):
            found.add(charge)
        return found.price

    def bill(self, reservation: Reservation, charges: tuple[Charge, ...]) -> tuple[Charge, ...]:
        """Settle a call with the ledger, and log each charge with its price."""
        settled = reservation.settle(charges)
        for charge in settled:
            self.record(ChargeEntry(charge))
        return settled

    def is_detached(self) -> bool:
        """Whether the call that this task makes was let go, to outlive the process."""
        job = self.jobs.of(asyncio.current_task())
        return job is not None and job.state == "detached"

    def close_log(self) -> None:
        """End the log: what is still to be recorded of this agent is nobody's to read."""
        self.log_lost = True
        self.log.close()

    async def make_durable(self) -> None:
        """Have the log on the disk, not only with the kernel."""
        if not self.log_lost:
            try:
                await asyncio.to_thread(self.log.sync)
            except OSError as error:
                self.emit(Notice(self.path, "warning", f"The log could not be synced to disk: {error}"))

    @property
    def model_limits(self) -> ModelLimits:
        """The model's sizes: as its provider told them in an error, else as its listing does, else from data."""
        sizes = self.listed(self.model) if self.listed else self.model.limits
        return replace(sizes, window=self.meter.window) if self.meter.window else sizes

    def request(self) -> Request:
        """The next model call, as the history stands."""
        options = (self.advisory.options(self.model) if self.advisory is not None else None) or EMPTY
        return Request(
            conversation=f"{self.log.session_id}:{self.path}",
            messages=self.history,
            system=self.system,
            tools=self._specs_beside(options) if "tools" in options else self.specs,
            max_output=self.limits.max_response_tokens,
            effort=self.effort,
            options=options,
            output_schema=self.output_schema,
        )

    def _specs_beside(self, options: JsonObject) -> tuple[ToolSpec, ...]:
        """The tools but for those that the provider brings under the same name."""
        brought = {as_str(as_object(tool).get("name")) for tool in as_array(options.get("tools"))}
        return self.prompts.specs(tuple(tool for name, tool in self.tools.items() if name not in brought))

    def record_prompt(self) -> None:
        """Log the system prompt and tools as sent, once and again whenever they differ."""
        prompt_id, entry = self.prompts.entry(self.system, self.specs)
        if prompt_id != self.prompt_id:
            self.prompt_id = prompt_id
            self.record(entry)


def parse_effort(text: str) -> Effort:
    """An effort by name. Raises UsageError naming the valid ones."""
    for effort in EFFORTS:
        if text == effort:
            return effort
    raise UsageError(f"unknown effort {text!r}; one of {', '.join(EFFORTS)}")
