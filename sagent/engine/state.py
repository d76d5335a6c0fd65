"""The parts of one agent, and the only place where its history grows."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import field, replace

from sagent.cost.ledger import Ledger
from sagent.engine.context import Context
from sagent.engine.inbox import Arrived, Inbox
from sagent.engine.jobs import Jobs
from sagent.engine.journal import Journal
from sagent.engine.limits import RunLimits, is_reached
from sagent.engine.neighbours import Neighbours
from sagent.engine.prompts import Prompts
from sagent.errors import UsageError
from sagent.events import Denial, Received
from sagent.lib.dataclass import dataclass
from sagent.messages import Message, ToolResult
from sagent.model import EFFORTS, Effort, Model, ModelLimits
from sagent.peer import Action, Caller, Compact, Moment
from sagent.policy import Policy
from sagent.session.contents import EXECUTOR, MessageEntry, MessageReceived, ResultEntry
from sagent.session.log import Log
from sagent.session.stored import StoredMessage, StoredResult
from sagent.tool import Tool, Workspace
from sagent.usage import Usage

MOST_DIFF = 50_000  # characters of a change that its result keeps


@dataclass(slots=True)
class Run:
    """The bookkeeping of the run in progress."""

    started: float = field(default_factory=time.monotonic)
    turns: int = 0
    rounds: int = 0
    cut_replies: int = 0  # in a row of which no call was whole
    stop: str = ""
    deps: object = None  # what it was given, for its tools
    interrupted: bool = False  # on purpose, which is when providers stop, and not with its task
    askers: list[str] = field(default_factory=list[str])  # agents whose messages want an answer
    usage: Usage = field(default_factory=Usage)
    denials: list[Denial] = field(default_factory=list[Denial])
    replies: list[Message] = field(default_factory=list[Message])  # of the model, those cut off included


@dataclass(slots=True)
class RequestedChanges:
    """What was requested while a call was in flight."""

    actions: list[Action] = field(default_factory=list[Action])  # to apply before the next model call
    compact: Compact | None = None  # a compaction to make before it
    background: set[str] = field(default_factory=set[str])  # calls that are to go on in the background; "" is all
    cancelled: set[str] = field(default_factory=set[str])  # calls that are to end

    def take_background(self) -> set[str]:
        """The calls to move to the background, each returned once."""
        asked, self.background = self.background, set()
        return asked


@dataclass(slots=True)
class AgentState:
    """One agent: its conversation, its journal, and what it works with."""

    path: str
    context: Context
    journal: Journal
    tools: Mapping[str, Tool]
    judge: Policy  # as it was given
    policy: Policy  # with what an extension has put around it
    ledger: Ledger
    workspace: Workspace
    neighbours: Neighbours
    prompts: Prompts
    caller: Caller | None = None  # the agent itself, as its tools may use it
    role: str = EXECUTOR  # who its calls are billed as
    fallbacks: list[Model] = field(default_factory=list[Model])  # take over, one after the other
    compactor: Model | None = None  # who sums up a conversation that is cut; None is the model itself
    inbox: Inbox = field(default_factory=Inbox)
    jobs: Jobs = field(default_factory=Jobs)
    run: Run = field(default_factory=Run)
    requested: RequestedChanges = field(default_factory=RequestedChanges)
    noted: tuple[str, ...] = ()  # what was clamped or left out in the last call
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
        """Whether the run in progress makes no further model call."""
        return bool(self.run.stop) or is_reached(self.limits.max_turns, self.run.turns)

    def is_detached(self) -> bool:
        """Whether the call that this task makes was detached, to outlive the process."""
        job = self.jobs.of(asyncio.current_task())
        return job is not None and job.state == "detached"

    def offer(self, tool: Tool) -> None:
        """Add a tool, from the next call on."""
        if self.tools.get(tool.name) is not tool:
            self.tools = {**self.tools, tool.name: tool}
            self.context.specs = self.prompts.specs(tuple(self.tools.values()))

    def add(self, message: Message, entry: str = "") -> None:
        """Add a message to the history, in memory and in the log; `entry` is the one by which it was received."""
        self.context.history.append(message)
        self.journal.record(lambda: MessageEntry(StoredMessage.of(message, self.journal.keep), entry))
        if message.role == "user":
            self.journal.emit(Received(self.path, message))
        else:
            self.run.replies.append(message)

    def add_result(self, result: ToolResult, seconds: float, diff: str = "") -> None:
        """Log a call's result as soon as it is known; the message that carries it enters the history later. `diff` is
        for those who read the log."""
        if len(diff) > MOST_DIFF:
            diff = f"{diff[: diff.rfind(chr(10), 0, MOST_DIFF) + 1]}@@ {len(diff)} characters in all @@\n"
        self.journal.record(lambda: ResultEntry(StoredResult.of(result, self.journal.keep), seconds, diff))

    def receive(self, message: Message, moment: Moment, *, answer: bool = False) -> None:
        """Put a message into the inbox, after logging it: an unread one survives this process.

        With `answer`, the agent's last words of the turn go back to the sender.
        """
        entry = self.journal.record(
            lambda: MessageReceived(StoredMessage.of(message, self.journal.keep), moment, answer)
        )
        self.inbox.put(Arrived(message, entry, answer), moment)

    def admit(self, *, idle: bool = False) -> bool:
        """Move the messages that are due into the history, when idle all of them; returns whether there were any.

        Their senders get an answer if they asked for one; the agent above is informed of the turn in any case.
        """
        arrived = self.inbox.take(idle=idle)
        for message, entry, answer in arrived:
            if answer and message.sender not in self.run.askers and message.sender != self.above:
                self.run.askers.append(message.sender)
            self.add(message, entry)
        return bool(arrived)

    def answer_askers(self, answer: Message) -> None:
        """Send the answer to those whose messages were read."""
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
    """An effort by name. Raises UsageError naming the valid ones."""
    for effort in EFFORTS:
        if text == effort:
            return effort
    raise UsageError(f"unknown effort {text!r}; one of {', '.join(EFFORTS)}")
