"""An agent, or a composite of agents, as a tool of another agent; and the stage on which agents run together."""

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Generic, Protocol, TypeVar, runtime_checkable

from sagent.agent.tree import END_SECONDS, Node
from sagent.errors import BudgetExceeded, SagentError, ToolError, UsageError
from sagent.events import Failure, Result
from sagent.lib.dataclass import Deps_contra
from sagent.lib.json import JsonObject, as_str
from sagent.lib.money import EXACT, ZERO
from sagent.messages import Message, user
from sagent.tool import Harmless, RunContext, ToolOutput, arguments_schema
from sagent.usage import Cost, Usage

INTERRUPT_SECONDS = 0.8  # for an agent to stop by itself when the call that waits for it is cancelled

R = TypeVar("R", bound=Result)


@runtime_checkable
class Runnable(Protocol):
    """Anything that answers a prompt: an agent, a pattern of agents, or an object of your own."""

    async def run(self, prompt: str | Message, /) -> Result:
        """Answer it. Raises what Agent.run raises; a result's `error` says that it is not a whole answer."""
        ...


class Composite(ABC):
    """A combination of runnables, which it runs on a stage."""

    members: Sequence[Runnable]

    @property
    def agents(self) -> Sequence[Node]:
        """All agents in it, each once."""
        found: list[Node] = []
        for member in self.members:
            if isinstance(member, Node):
                found.append(member)
            elif isinstance(member, Composite):
                found += member.agents
        return tuple(dict.fromkeys(found))

    @abstractmethod
    async def perform(self, prompt: Message, stage: "Stage") -> Result:
        """Answer a prompt with members that run on this stage. Raises their errors."""


class Stage:
    """Run of several agents together: it runs each, and adds up their usage.

    Without a caller, each agent runs itself, with its own log and ledger. With one, a copy of it runs below the caller,
    whose tree, ledger, log and permissions then apply; on one stage the copy's conversation continues from run to run.
    """

    def __init__(self, caller: Node | None = None, name: str = "", deps: object = None) -> None:
        self.caller, self._name, self.deps = caller, name, deps
        self._conversations: dict[Node, Sequence[Message]] = {}
        self._started = time.monotonic()
        self._strangers: list[Cost] = []  # of runnables without a ledger that we know
        self.usage, self.turns, self.usd = Usage(), 0, ZERO
        self.last: Result | None = None  # with a text

    async def run(self, member: Runnable, prompt: str | Message) -> Result:
        """Run one member on a prompt. Raises its errors."""
        result, error = await self.attempt(member, prompt)
        if error is not None:
            raise error
        return result

    async def attempt(self, member: Runnable, prompt: str | Message) -> tuple[Result, Exception | None]:
        """Run a member and return its result so far and its exception. Raises only a cancellation."""
        message = user(prompt) if isinstance(prompt, str) else prompt
        if isinstance(member, Composite):
            return await self._attempt_composite(member, message)
        if isinstance(member, Node):
            if self.caller is None:
                return await self._attempt_agent(member, message)
            return await self._attempt_below(self.caller, member, message)
        try:
            result = self._count(await member.run(prompt))
        except Exception as error:
            return failed(error), error
        self._strangers.append(result.cost)
        return result, None

    def total(self, result: R, agents: Sequence[Node]) -> R:
        """Return a result with the usage of all members on this stage; each of their ledgers is counted once."""
        ledgers = dict.fromkeys(agent.ledger for agent in (agents if self.caller is None else [self.caller]))
        costs = [*(ledger.cost() for ledger in ledgers), *self._strangers]
        seconds = time.monotonic() - self._started
        used = replace(result, usage=self.usage, turns=self.turns, run_usd=self.usd)
        return replace(used, cost=sum(costs, Cost()), duration=seconds)

    async def _attempt_composite(self, member: Composite, prompt: Message) -> tuple[Result, Exception | None]:
        inner = Stage(self.caller, self._name, self.deps)
        inner._conversations = self._conversations
        try:
            result = await member.perform(prompt, inner)
            return inner.total(result, member.agents), None
        except Exception as error:
            return inner.total(failed(error), member.agents), error
        finally:
            self._add(inner.usage, inner.turns, inner.usd)
            self.last = _latest(self.last, inner.last)
            self._strangers += inner._strangers

    async def _attempt_agent(self, agent: Node, prompt: Message) -> tuple[Result, Exception | None]:
        before = agent.last  # a run that ends with an exception leaves its result there
        try:
            return self._count(await agent.answer(prompt, self.deps)), None
        except BaseException as error:
            last = agent.last
            had = None if last is None or last is before else self._count(last)
            if not isinstance(error, Exception):
                raise
            return had or failed(error), error

    async def _attempt_below(self, caller: Node, model: Node, prompt: Message) -> tuple[Result, Exception | None]:
        message = replace(prompt, sender=caller.path)
        try:
            child = caller.spawn_like(model, self._name, message, self._conversations.get(model), self.deps)
        except (UsageError, BudgetExceeded) as error:
            return failed(error), error
        try:
            result = self._count(await child.wait())
        except asyncio.CancelledError:
            if (had := await stop_child(child)) is not None:
                self._count(had)
            raise
        self._conversations[model] = child.messages
        return result, None

    def _count(self, result: Result) -> Result:
        self._add(result.usage, result.turns, result.run_usd)
        self.last = _latest(self.last, result)
        return result

    def _add(self, usage: Usage, turns: int, usd: Decimal) -> None:
        self.usage, self.turns, self.usd = self.usage + usage, self.turns + turns, EXACT.add(self.usd, usd)


class AgentTool(Harmless, Generic[Deps_contra]):
    """A tool whose call lets an agent, or a composite of agents, answer a prompt; their calls are judged one by one.

    Each call is a separate conversation below the calling agent, which begins with the agent's own conversation. The
    caller's ledger pays, its log names the call, its permissions apply in addition to the agent's own, and interrupting
    it interrupts both.
    """

    parameters = arguments_schema("prompt", prompt={"type": "string", "description": "all it needs to know"})

    def __init__(
        self,
        runnable: Runnable,
        name: str,
        description: str,
        deps: "Callable[[RunContext[Deps_contra]], object] | None" = None,
    ) -> None:
        self._runnable, self.name, self.description, self._deps = runnable, name, description, deps
        self._alone = asyncio.Lock()

    async def __call__(self, arguments: JsonObject, run: RunContext[Deps_contra]) -> ToolOutput:
        """Return the agent's answer; an error result has the reason and the output so far, even if cancelled."""
        prompt = as_str(arguments.get("prompt"))
        deps = None if self._deps is None else self._deps(run)
        stage = Stage(run.caller, self.name, deps) if isinstance(run.caller, Node) else Stage(deps=deps)
        try:
            async with contextlib.nullcontext() if isinstance(run.caller, Node) else self._alone:
                result, error = await stage.attempt(self._runnable, prompt)
        except asyncio.CancelledError:
            if stage.last is not None and stage.last.content:
                run.progress(stage.last.content)
            raise
        if error is not None and not isinstance(error, SagentError):
            raise error
        failure = result.error or (failed(error).error if error is not None else None)
        if failure is None:
            return ToolOutput.of(result.content or "(no answer)", summary=f"{result.turns} turns")
        said = f"\nIts output so far:\n{result.content}" if result.content else ""
        raise ToolError(f"{self.name} failed ({failure.kind}): {failure.message}{said}")


def _latest(before: Result | None, now: Result | None) -> Result | None:
    """Return the later of two results, unless it has no text."""
    return now if now is not None and (now.content or before is None) else before


async def stop_child(child: Node) -> Result | None:
    """Interrupt a spawned agent, so that its log records it, and end it. Return its result, if it has one by then."""
    child.interrupt()
    result = None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(INTERRUPT_SECONDS):
            result = await child.wait()
    if (life := child.end()) is not None:
        await asyncio.wait([life], timeout=END_SECONDS)
    return result


def failed(error: Exception) -> Result:
    """Return an exception as a result."""
    if isinstance(error, SagentError):
        reason = "budget" if isinstance(error, BudgetExceeded) else "error"
        return Result("", (), reason, Failure(error.kind, str(error)))
    return Result("", (), "error", Failure("crashed", f"{type(error).__name__}: {error}"))
