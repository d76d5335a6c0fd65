"""What an agent is made of: its parts, its history, and the one place where something is added to either."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

from sagent.agent.bounds import Bounds, limits_of, with_limits
from sagent.agent.inbox import Arrived, Inbox
from sagent.agent.jobs import Jobs
from sagent.codec import encode_message, encode_result_part
from sagent.context.compaction import find_cut
from sagent.context.stubs import drop
from sagent.cost.ledger import Ledger, Reservation, Spent
from sagent.errors import ModelError, SagentError, UsageError
from sagent.events import Denial, Event, Notice, Received, Switched
from sagent.lib.json import (
    EMPTY,
    JsonObject,
    as_array,
    as_object,
    as_str,
    canonical_bytes,
    json_freeze,
    json_freeze_object,
    json_thaw,
    sha256_hex,
)
from sagent.messages import Message, ToolCall, ToolResult, user
from sagent.model import EFFORTS, Effort, Limits, Model, Request, ToolSpec
from sagent.peer import Action, Background, Caller, Cancel, Compact, Consult, Inject, Moment, Stop, Switch
from sagent.policy import Ask, Policy
from sagent.policy.advisory import Advisory, AdvisoryFactory
from sagent.session.entries import Bill, compacted, received
from sagent.session.entries import spent as bill_body
from sagent.session.folds import compact
from sagent.session.log import Log
from sagent.tool import Tool, Workspace
from sagent.usage import Charge, Usage

if TYPE_CHECKING:
    from sagent.agent.tree import Tree

Asker: TypeAlias = Callable[[ToolCall, Ask], Awaitable[str | None]]
"""Puts a question to a person: None means yes, a string is the reason for no."""


EXECUTOR = "executor"


@dataclass(frozen=True, slots=True)
class Resources:
    """What an agent holds that outlives a turn or is shared with others of its tree. None: the agent makes its own."""

    log: Log | None = None
    ledger: Ledger | None = None
    workspace: Workspace | None = None
    ask: Asker | None = None
    path: str = "root"
    resolve: Callable[[str], Model] | None = None  # "provider/id" -> Model, for Switch
    limits: Callable[[Model], Limits] | None = None  # a model's sizes, where more is known than it knows itself
    fallbacks: Sequence[Model] = ()  # take over, one after the other, when the model cannot be reached
    finish: Callable[[], Awaitable[None]] | None = None  # awaited when a run ends, before its result is told
    tree: "Tree | None" = None
    catalog: Callable[[], str] | None = None  # the models that can be switched to, in words
    advisory: AdvisoryFactory | None = None  # gives it advisors
    advised: bool = True  # from the start; else when it is first switched to one
    role: str = EXECUTOR  # who its calls are billed as
    compactor: Model | None = None  # who sums up a conversation that is cut


@dataclass(slots=True)
class Meter:
    """How many tokens the conversation holds: what the provider last counted, and bytes for what came since."""

    weight: int = 0  # the bound of the last request that was counted
    counted: int = 0  # what the provider said it was
    window: int | None = None  # as an overflow error told it
    shrunk: bool = False  # the conversation no longer begins with what was counted

    def bound(self, weight: int) -> int:
        """The most input tokens a request of this weight can have."""
        if not self.counted or self.shrunk or weight < self.weight:
            return weight
        return min(weight, self.counted + weight - self.weight)

    def estimate(self, weight: int) -> int:
        """How many tokens it likely has; text has three to four bytes to a token."""
        if not self.counted:
            return weight // 3
        if self.shrunk or weight < self.weight:
            return self.counted * weight // self.weight
        return self.counted + (weight - self.weight) // 3

    def learn(self, weight: int, counted: int) -> None:
        """Take over what the provider counted."""
        if counted > 0:
            self.weight, self.counted, self.shrunk = weight, counted, False


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


class Prompts:
    """System prompts and tools made ready, once for all agents that have the same."""

    def __init__(self) -> None:
        self._specs: dict[tuple[int, ...], tuple[Sequence[Tool], tuple[ToolSpec, ...]]] = {}
        self._bodies: dict[tuple[str, int], tuple[tuple[ToolSpec, ...], str, Mapping[str, object]]] = {}

    def specs(self, tools: Sequence[Tool]) -> tuple[ToolSpec, ...]:
        """The tools as the model sees them; equal tools give the very same tuple."""
        key = tuple(map(id, tools))
        if key not in self._specs:
            self._specs[key] = (tuple(tools), specs_of(tools))
        return self._specs[key][1]

    def body(self, system: str, specs: tuple[ToolSpec, ...]) -> tuple[str, Mapping[str, object]]:
        """What the log keeps of them, and its hash."""
        key = (system, id(specs))
        if key not in self._bodies:
            tools = [
                {"name": spec.name, "description": spec.description, "parameters": json_thaw(spec.parameters)}
                for spec in specs
            ]
            body = {"system": system, "tools": tools}
            self._bodies[key] = (specs, sha256_hex(canonical_bytes(body)), body)
        return self._bodies[key][1:]


@dataclass(slots=True)
class State:
    """One agent's parts and history. `history` only grows."""

    path: str
    model: Model
    system: str
    tools: Mapping[str, Tool]
    judge: Policy  # as it was given
    policy: Policy  # with what advisors see to around it
    bounds: Bounds
    effort: Effort | None
    log: Log
    ledger: Ledger
    workspace: Workspace
    ask: Asker | None = None
    resolve: Callable[[str], Model] | None = None
    listed: Callable[[Model], Limits] | None = None
    fallbacks: list[Model] = field(default_factory=list[Model])
    options: JsonObject = EMPTY
    output_schema: JsonObject | None = None  # that the answer of this run is to be held to
    inbox: Inbox = field(default_factory=Inbox)
    jobs: Jobs = field(default_factory=Jobs)
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
    prompt_id: str = ""  # hash of the system prompt and tools last logged
    role: str = EXECUTOR  # who its calls are billed as
    advisory: Advisory | None = None
    advise: Callable[[], Advisory] | None = None  # makes them, where it has none
    unused: Advisory | None = None  # made, and without an advisor so far
    consult: Callable[[str, str], None] = lambda question, advisor: None  # has an advisor asked for a person
    cancelled: set[str] = field(default_factory=set[str])  # calls that are to end
    unsettled: list[tuple[Reservation, tuple[Charge, ...]]] = field(
        default_factory=list[tuple[Reservation, tuple[Charge, ...]]]
    )
    finish: Callable[[], Awaitable[None]] | None = None
    catalog: Callable[[], str] | None = None
    log_lost: bool = False

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

    def admit(self, arrived: Arrived) -> None:
        """Let a message from the inbox enter the history. The agent above is told of the turn in any case."""
        sender = arrived.message.sender
        if arrived.answer and sender not in self.run.askers and sender != self.path.rpartition("/")[0]:
            self.run.askers.append(sender)
        self.add(arrived.message, arrived.entry)

    def answer_askers(self, answer: Message) -> None:
        """Those whose messages were read get their answer."""
        askers, self.run.askers = self.run.askers, []
        for path in askers:
            self.tell(path, answer)

    def arrivals(self) -> list[Arrived]:
        """What is to be read before the next model call; changes that were asked for are made first."""
        self.apply_pending()
        return self.inbox.take()

    def apply_pending(self) -> None:
        """Make the changes that were asked for while a call was in flight."""
        pending, self.pending = self.pending, []
        for action in pending:
            try:
                self.apply(action)
            except (SagentError, OSError) as error:  # it was checked when it was asked for; that may be long ago
                self.emit(Notice(self.path, "warning", f"What was asked for was not done: {error}"))

    def add(self, message: Message, entry: str = "") -> None:
        """Let the history grow by a message, in memory and in the log; `entry` is the one by which it was received."""
        self.history.append(message)
        came = {"received": entry} if entry else {}
        self.record("message", lambda: {**encode_message(message, self.keep), **came})
        if message.role == "user":
            self.emit(Received(self.path, message))
        else:
            self.run.replies.append(message)

    def record_history(self) -> None:
        """Log a history that was taken over from another agent: each log is whole in itself."""
        for message in self.history:
            self.record("message", encode_message(message, self.keep))

    def add_result(self, result: ToolResult, seconds: float) -> None:
        """Log one call's result the moment it is known; the message that carries it enters the history later."""
        self.record("result", lambda: {"result": encode_result_part(result, self.keep), "seconds": round(seconds, 3)})

    def receive(self, message: Message, moment: Moment, *, answer: bool = False) -> None:
        """Put a message into the inbox, and first into the log: one that was not read yet survives this process.

        With `answer`, what the agent says at the end of its turn goes back to the sender.
        """
        entry = self.record("received", lambda: received(encode_message(message, self.keep), moment, answer=answer))
        self.inbox.put(Arrived(message, entry, answer), moment)

    async def rest(self) -> list[Arrived]:
        """What is to be read when the turn would end. A run that waits for its jobs ends when there are none.

        Whoever asked something has the answer now.
        """
        if self.run.askers:
            self.answer_askers(user(f"{self.path} has answered:\n{self.history[-1].content}", sender=self.path))
        while True:
            self.apply_pending()
            late = [] if self.run.stop else self.inbox.take(idle=True)
            if late or self.run.stop or not self.bounds.wait_for_jobs or not (self.jobs.running() or self.busy()):
                return late
            await self.inbox.arrival()

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

    def record(self, kind: str, body: Mapping[str, object] | Callable[[], Mapping[str, object]]) -> str:
        """Append to the log; the entry's id. When that fails the run goes on and says so once, and the id is "".

        Nothing is logged after a failure, even if the disk has room again: a history with a hole is worse than a
        short one.
        """
        if self.log_lost:
            return ""
        try:
            return self.log.append(kind, body() if callable(body) else body).id
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
        """Bill a call, in the ledger and the log; its price in USD, or None when that is not known, or not yet.

        Prices load while the model thinks. Without a cap, a call that ends before they are there is billed with the
        next one, or at the end of the run.
        """
        for charge in charges:
            if not charge.role:
                self.run.usage += charge.usage
        self.unsettled.append((reservation, charges))
        now = self.ledger.cap is not None or self.ledger.prices.is_warm
        return self.settle_all() if now else None

    def settle_all(self) -> Decimal | None:
        """Bill what is not billed yet; the price of the last call."""
        usd: Decimal | None = None
        for reservation, charges in self.unsettled:
            spent = self.bill(reservation, charges)
            prices = [record.usd for record in spent if record.usd is not None]
            usd = sum(prices, Decimal(0)) if len(prices) == len(spent) else None
        self.unsettled.clear()
        return usd

    def bill(self, reservation: Reservation, charges: tuple[Charge, ...]) -> tuple[Spent, ...]:
        """Settle a call with the ledger, and log what it says."""
        spent = reservation.settle(charges)
        for record in spent:
            self.record("spent", bill_body(_bill(record)))
        return spent

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
    def limits(self) -> Limits:
        """The model's sizes: as its provider told them in an error, else as its listing does, else from data."""
        sizes = self.listed(self.model) if self.listed else self.model.limits
        return replace(sizes, window=self.meter.window) if self.meter.window else sizes

    def request(self) -> Request:
        """The next model call, as the history stands."""
        more = self.advisory.options(self.model) if self.advisory is not None else None
        return Request(
            conversation=f"{self.log.session_id}:{self.path}",
            messages=self.history,
            system=self.system,
            tools=self.specs if more is None or "tools" not in more else self._specs_beside(more),
            max_output=self.bounds.max_response_tokens,
            effort=self.effort,
            options=self.options if more is None else _joined(self.options, more),
            output_schema=self.output_schema,
        )

    def _specs_beside(self, options: JsonObject) -> tuple[ToolSpec, ...]:
        """The tools but for those that the provider brings under the same name."""
        brought = {as_str(as_object(tool).get("name")) for tool in as_array(options.get("tools"))}
        return self.prompts.specs(tuple(tool for name, tool in self.tools.items() if name not in brought))

    def record_prompt(self) -> None:
        """Log the system prompt and tools as sent, once and again whenever they differ."""
        prompt_id, body = self.prompts.body(self.system, self.specs)
        if prompt_id != self.prompt_id:
            self.prompt_id = prompt_id
            self.record("prompt", body)

    def apply(self, action: Action) -> None:
        """Do to this agent what an Action says; called between two model calls only."""
        match action:
            case Inject(message, moment):
                self.receive(message, moment)
            case Background(call_id):
                self.background.add(call_id)
                self.inbox.nudge("now")
            case Switch():
                self._switch(action)
            case Stop(reason):
                self.run.stop = reason or "stopped"
            case Compact(drop=(), clear=False):
                self.compact_wanted = action  # it takes a model call
            case Compact():
                self._compact(action)
            case Consult(question, advisor):
                self.consult(question, advisor)
            case Cancel(call_id):
                self.cancelled.add(call_id)
                self.inbox.nudge("now")
                if self.advisory is not None and not call_id:
                    self.advisory.cancel()

    def check(self, action: Action) -> None:
        """Raise UsageError for a change that cannot be made."""
        match action:
            case Switch(model, effort, limits, advisor):
                if advisor is not None:
                    self._advisory_to_change(advisor).check(advisor)
                if effort is not None:
                    parse_effort(effort)
                if limits is not None:
                    with_limits(self.bounds, limits)
                if model is not None:
                    self._check_model(self._resolved(model))
            case Compact(drop=names) if names and "*" not in names:
                known = {name.lower() for name in self._tools_known()}
                if strangers := [name for name in names if name.lower() not in known]:
                    raise UsageError(f"{self.path} has no tool {strangers[0]!r}; it has {', '.join(self.tools)}")
            case Consult() if self.advisory is None:
                raise UsageError(f"{self.path} has no advisor: name one with --advisor, or switch to one")
            case _:
                pass

    def _advisory_to_change(self, change: str) -> Advisory:
        """Its advisors; where it has none yet, new ones, which are its own when the change is made."""
        if self.advisory is not None:
            return self.advisory
        if self.advise is None:
            raise UsageError(f"{self.path} cannot have advisors ({change!r}): it was made without Resources.advisory")
        self.unused = self.unused or self.advise()
        return self.unused

    def _check_model(self, model: Model) -> None:
        """That a model could take over this conversation."""
        window = (self.listed(model) if self.listed else model.limits).window
        size = self.meter.estimate(model.weigh(self.request()))
        cut = find_cut(self.history, (window or 0) // 2, self.path.rpartition("/")[0])
        if window is not None and size >= window and cut is None:
            raise UsageError(
                f"{model.provider}/{model.id} cannot take over: the conversation holds about {size:,} tokens, "
                f"its window {window:,}. Make the context smaller first."
            )
        if self.ledger.cap_of(self.path) is not None and self.ledger.prices.ceiling(model.provider, model.id) is None:
            raise UsageError(
                f"{model.provider}/{model.id} has no known price, so the cap on spending could not be kept"
            )

    def _resolved(self, name: str) -> Model:
        if self.resolve is None:
            raise UsageError(f"{name} cannot be used: this agent has only {self.model.provider}/{self.model.id}")
        return self.resolve(name)

    def _switch(self, switch: Switch) -> None:
        model = self._resolved(switch.model) if switch.model is not None else None
        if switch.effort is not None:
            self.effort = parse_effort(switch.effort)
        if switch.limits is not None:
            self.bounds = with_limits(self.bounds, switch.limits)
        if switch.advisor is not None:
            advisory = self._advisory_to_change(switch.advisor)
            what = advisory.switch(switch.advisor)
            self.advised_by(advisory)
            self.record("switched", {"advisor": what})
            self.emit(Switched(self.path, what))
        if switch.model is not None or switch.effort is not None or switch.limits is not None:
            self.change(model)

    def advised_by(self, advisory: Advisory) -> None:
        """Have advisors: their tool is offered from the next call on, where it was not already."""
        self.advisory = advisory
        tool = advisory.tool
        if tool is not None and self.tools.get(tool.name) is not tool:
            self.tools = {**self.tools, tool.name: tool}
            self.specs = self.prompts.specs(tuple(self.tools.values()))
        if self.policy is self.judge:
            self.policy = advisory.judge(self.judge)

    def rewound(self) -> None:
        """Forget what was known of a history that is no longer this agent's."""
        self.meter, self.proven, self.prompt_id, self.cramped = Meter(), None, "", -1
        self.handoffs.clear()
        if self.advisory is not None:
            self.advisory.forget()

    def change_back(self, error: ModelError) -> bool:
        """Let the model answer again that did before the last switch, where its successor has not answered yet."""
        if self.proven is None:
            return False
        self.model, self.meter = self.proven
        self.proven = None
        text = f"the switch was taken back: {error}"
        self.emit(Notice(self.path, "warning", text))
        self.change(None, text)
        self.add(user(text, sender="sagent"))
        return True

    def _tools_known(self) -> set[str]:
        """Those it has, and those whose results are in the history."""
        return {*self.tools, *(call.name for message in self.history for call in message.calls)}

    def _compact(self, order: Compact) -> None:
        """Make the context smaller as ordered, and say by how much. Raises OSError: then nothing has changed."""
        before = self.meter.estimate(self.model.weigh(self.request()))
        kept = _last_request(self.history, self.path.rpartition("/")[0])
        if order.clear:
            body = compacted((), before, before, "asked for", kept=kept)
        else:
            wanted = {name.lower() for name in order.drop}
            names = {name for name in self._tools_known() if name.lower() in wanted} | (wanted & {"*"})
            body = compacted(drop(self.history, names, self.log.blobs), before, before, "asked for")
        compact(self.history, body)
        self.meter.shrunk = True
        after = self.meter.estimate(self.model.weigh(self.request()))
        self.record("compacted", {**body, "after": after})
        if order.clear and kept:
            self.add(user(CLEARED, sender="sagent"))
            for advice in self.advisory.in_force() if self.advisory is not None else ():
                self.add(advice)
        self.emit(
            Notice(self.path, "info", f"The context was made smaller, from about {before:,} tokens to {after:,}.")
        )

    def change(self, model: Model | None, reason: str = "") -> None:
        """Let another model, or the same with another effort, answer from the next call on; `reason` is logged."""
        if model is not None:
            self.proven = self.proven or (self.model, self.meter)
            self.model, self.meter = model, Meter()
        name = f"{self.model.provider}/{self.model.id}"
        limits = limits_of(self.bounds)
        because = {"reason": reason} if reason else {}
        self.record("switched", {"model": name, "effort": self.effort, "limits": limits, **because})
        told = "".join(f", {name} {value}" for name, value in limits.items())
        self.emit(Switched(self.path, f"model {name}, effort {self.effort or 'default'}{told}"))


CLEARED = "The conversation was cleared, as asked; only the last request is left of it. Go on from there."


def _joined(options: JsonObject, more: JsonObject) -> JsonObject:
    """Both, lists put together."""
    joined = {name: json_freeze([*as_array(options.get(name)), *as_array(value)]) for name, value in more.items()}
    return JsonObject({**options, **joined})


def _last_request(history: Sequence[Message], above: str) -> tuple[int, ...]:
    """The places that stay when a conversation is cleared: the last request of a person or of the agent above, with
    what sagent added to it, and the calls that are still open. A request that was answered need not stay."""
    last = history[-1] if history else None
    if last is None or (last.role == "assistant" and not last.calls and last.stop != "interrupted"):
        return ()
    asked = [place for place, message in enumerate(history) if message.role == "user" and not message.results]
    own = [place for place in asked if history[place].sender in ("", above)] or asked[-1:]
    added = [place for place in asked if place > own[-1] and history[place].sender == "sagent"] if own else []
    return (*own[-1:], *added, *([len(history) - 1] if last.calls else []))


def parse_effort(text: str) -> Effort:
    """An effort by name. Raises UsageError naming the valid ones."""
    for effort in EFFORTS:
        if text == effort:
            return effort
    raise UsageError(f"unknown effort {text!r}; one of {', '.join(EFFORTS)}")


_ASIDE: Mapping[str, object] = {"background": {"type": "boolean"}, "delay": {"type": "number"}}


def specs_of(tools: Sequence[Tool]) -> tuple[ToolSpec, ...]:
    """The tools as the model sees them. Where one looks after jobs, calls may be put into the background, and those of
    tools that are not `quick` say so."""
    jobs = any(tool.name == "BackgroundTask" for tool in tools)
    return tuple(_spec(tool, jobs=jobs and not getattr(tool, "quick", False)) for tool in tools)


def _spec(tool: Tool, *, jobs: bool) -> ToolSpec:
    parameters = tool.parameters
    if jobs:
        own = as_object(parameters.get("properties"))
        more = {name: schema for name, schema in _ASIDE.items() if name not in own}
        parameters = json_freeze_object({**parameters, "properties": {**own, **more}})
    return ToolSpec(tool.name, tool.description, parameters)


def _bill(spent: Spent) -> Bill:
    """The ledger's record as the log writes it: cost and session are strangers, and meet here."""
    return Bill(
        spent.agent,
        spent.role,
        spent.provider,
        spent.model,
        spent.usage,
        spent.usd,
        spent.tier,
        spent.estimated,
    )
