"""What an agent is made of: its parts, its history, and the one place where something is added to either."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeAlias

from sagent.agent.inbox import Inbox
from sagent.codec import encode_message, encode_result_part
from sagent.cost.ledger import Ledger, Reservation, Spent
from sagent.events import Denial, Event, Notice, Received, Switched
from sagent.lib.json import EMPTY, JsonObject, canonical_bytes, sha256_hex
from sagent.messages import Message, ToolCall, ToolResult
from sagent.model import Effort, Model, Request, ToolSpec
from sagent.peer import Action, Compact, Inject, Stop, Switch
from sagent.policy import Ask, Policy
from sagent.session.entries import Bill
from sagent.session.entries import spent as bill_body
from sagent.session.log import Log
from sagent.tool import Tool, Workspace
from sagent.usage import Charge, Usage

Asker: TypeAlias = Callable[[ToolCall, Ask], Awaitable[str | None]]
"""Puts a question to a person: None means yes, a string is the reason for no."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far one run may go. None is no limit. Tokens are per request and per reply; times are seconds."""

    max_turns: int | None = None
    max_tool_call_rounds: int | None = None
    max_request_tokens: int | None = None
    max_response_tokens: int | None = None
    max_retries: int = 8
    longest_wait: float = 120.0  # a provider that asks for more than this is not waited for


@dataclass(frozen=True, slots=True)
class Resources:
    """What an agent holds that outlives a turn or is shared with others of its tree. None: the agent makes its own."""

    log: Log | None = None
    ledger: Ledger | None = None
    workspace: Workspace | None = None
    ask: Asker | None = None
    path: str = "root"
    resolve: Callable[[str], Model] | None = None  # "provider/id" -> Model, for Switch
    finish: Callable[[], Awaitable[None]] | None = None  # awaited when a run ends, before its result is told


@dataclass(slots=True)
class Meter:
    """How many tokens the conversation holds: what the provider last counted, and bytes for what came since."""

    weight: int = 0  # the bound of the last request that was counted
    counted: int = 0  # what the provider said it was

    def bound(self, weight: int) -> int:
        """The most input tokens a request of this weight can have."""
        if not self.counted or weight < self.weight:
            return weight
        return min(weight, self.counted + weight - self.weight)

    def estimate(self, weight: int) -> int:
        """How many tokens it likely has; text has three to four bytes to a token."""
        if not self.counted or weight < self.weight:
            return weight // 3
        return self.counted + (weight - self.weight) // 3

    def learn(self, weight: int, counted: int) -> None:
        """Take over what the provider counted."""
        if counted > 0:
            self.weight, self.counted = weight, counted


@dataclass(slots=True)
class Run:
    """The bookkeeping of the run in progress."""

    started: float = field(default_factory=time.monotonic)
    turns: int = 0
    rounds: int = 0
    stop: str = ""
    usage: Usage = field(default_factory=Usage)
    denials: list[Denial] = field(default_factory=list[Denial])


@dataclass(slots=True)
class State:
    """One agent's parts and history. `history` only grows."""

    path: str
    model: Model
    system: str
    tools: Mapping[str, Tool]
    policy: Policy
    bounds: Bounds
    effort: Effort | None
    log: Log
    ledger: Ledger
    workspace: Workspace
    ask: Asker | None = None
    resolve: Callable[[str], Model] | None = None
    options: JsonObject = EMPTY
    inbox: Inbox = field(default_factory=Inbox)
    history: list[Message] = field(default_factory=list[Message])
    listeners: list[Callable[[Event], None]] = field(default_factory=list[Callable[[Event], None]])
    specs: tuple[ToolSpec, ...] = ()
    meter: Meter = field(default_factory=Meter)
    run: Run = field(default_factory=Run)
    prompt_id: str = ""  # hash of the system prompt and tools last logged
    unsettled: list[tuple[Reservation, tuple[Charge, ...]]] = field(
        default_factory=list[tuple[Reservation, tuple[Charge, ...]]]
    )
    finish: Callable[[], Awaitable[None]] | None = None
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

    def add(self, message: Message) -> None:
        """Let the history grow by a message, in memory and in the log."""
        self.history.append(message)
        self.record("message", lambda: encode_message(message, self.keep))
        if message.role == "user":
            self.emit(Received(self.path, message))

    def add_result(self, result: ToolResult, seconds: float) -> None:
        """Log one call's result the moment it is known; the message that carries it enters the history later."""
        self.record("result", lambda: {"result": encode_result_part(result, self.keep), "seconds": round(seconds, 3)})

    def keep(self, data: bytes) -> str:
        """Keep media as a blob; the name by which the log refers to it."""
        return self.log.blobs.put(data).name

    def record(self, kind: str, body: Mapping[str, object] | Callable[[], Mapping[str, object]]) -> None:
        """Append to the log. When that fails the run goes on and says so once.

        Nothing is logged after a failure, even if the disk has room again: a history with a hole is worse than a
        short one.
        """
        if self.log_lost:
            return
        try:
            self.log.append(kind, body() if callable(body) else body)
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

    def settle(self, reservation: Reservation, charges: tuple[Charge, ...]) -> Decimal | None:
        """Bill a call, in the ledger and the log; its price in USD, or None when that is not known, or not yet.

        Prices load while the model thinks. Without a cap, a call that ends before they are there is billed with the
        next one, or at the end of the run.
        """
        for charge in charges:
            self.run.usage += charge.usage
        self.unsettled.append((reservation, charges))
        now = self.ledger.cap is not None or self.ledger.prices.is_warm
        return self.settle_all() if now else None

    def settle_all(self) -> Decimal | None:
        """Bill what is not billed yet; the price of the last call."""
        usd: Decimal | None = None
        for reservation, charges in self.unsettled:
            spent = reservation.settle(charges)
            for record in spent:
                self.record("spent", bill_body(_bill(record)))
            prices = [record.usd for record in spent if record.usd is not None]
            usd = sum(prices, Decimal(0)) if len(prices) == len(spent) else None
        self.unsettled.clear()
        return usd

    async def make_durable(self) -> None:
        """Have the log on the disk, not only with the kernel."""
        if not self.log_lost:
            try:
                await asyncio.to_thread(self.log.sync)
            except OSError as error:
                self.emit(Notice(self.path, "warning", f"The log could not be synced to disk: {error}"))

    def request(self) -> Request:
        """The next model call, as the history stands."""
        return Request(
            conversation=f"{self.log.session_id}:{self.path}",
            messages=self.history,
            system=self.system,
            tools=self.specs,
            max_output=self.bounds.max_response_tokens,
            effort=self.effort,
            options=self.options,
        )

    def record_prompt(self) -> None:
        """Log the system prompt and tools as sent, once and again whenever they differ."""
        tools = [
            {"name": spec.name, "description": spec.description, "parameters": spec.parameters} for spec in self.specs
        ]
        body = {"system": self.system, "tools": tools}
        prompt_id = sha256_hex(canonical_bytes(body))
        if prompt_id != self.prompt_id:
            self.prompt_id = prompt_id
            self.record("prompt", body)

    def apply(self, action: Action) -> None:
        """Do to this agent what an Action says; called between two model calls only."""
        match action:
            case Inject(message, moment):
                self.inbox.put(message, moment)
            case Switch():
                self._switch(action)
            case Stop(reason):
                self.run.stop = reason or "stopped"
            case Compact():
                self.emit(Notice(self.path, "warning", "This version cannot compact yet; nothing was changed."))

    def _switch(self, switch: Switch) -> None:
        if switch.model is not None and self.resolve is not None:
            self.model = self.resolve(switch.model)
            self.meter = Meter()
        if switch.effort is not None:
            self.effort = parse_effort(switch.effort)
        what = f"model {self.model.provider}/{self.model.id}, effort {self.effort or 'default'}"
        self.record("switched", {"model": f"{self.model.provider}/{self.model.id}", "effort": self.effort})
        self.emit(Switched(self.path, what))


def parse_effort(text: str) -> Effort:
    """An effort by name. Raises UsageError naming the valid ones."""
    from sagent.errors import UsageError
    from sagent.model import EFFORTS

    for effort in EFFORTS:
        if text == effort:
            return effort
    raise UsageError(f"unknown effort {text!r}; one of {', '.join(EFFORTS)}")


def specs_of(tools: Sequence[Tool]) -> tuple[ToolSpec, ...]:
    """The tools as the model sees them."""
    return tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in tools)


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
