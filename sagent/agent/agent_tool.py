"""An agent, or what is made of agents, as a tool of another; and the stage on which agents are run together."""

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

from sagent.agent import spawn
from sagent.agent.agent import Agent
from sagent.agent.tree import END_SECONDS
from sagent.engine.limits import RunLimits, limits_of, with_limits
from sagent.engine.prompts import specs_of
from sagent.engine.state import Resources
from sagent.errors import BudgetExceeded, SagentError, ToolError, UsageError
from sagent.events import Failure, Result
from sagent.lib.json import JsonObject, as_str, json_freeze_object
from sagent.messages import Message, ToolCall, user
from sagent.peer import Action, SpawnRequest
from sagent.policy import Allow, Ask, Deny, Hold, Policy, Turn, Verdict
from sagent.tool import Effect, PathFilter, RunContext, Tool, ToolOutput, Workspace
from sagent.usage import Cost, Usage

INTERRUPT_SECONDS = 0.8  # that an agent is given to stop by itself when the call that waits for it is cancelled

R = TypeVar("R", bound=Result)


@runtime_checkable
class Runnable(Protocol):
    """Whatever answers a prompt: an agent, a pattern of agents, or an object of your own."""

    async def run(self, prompt: str | Message, /) -> Result:
        """Answer it. Raises what Agent.run raises; a result's `error` says that it is not a whole answer."""
        ...


class Composite(ABC):
    """What is made of runnables, which it runs on a stage."""

    @property
    @abstractmethod
    def members(self) -> Sequence[Runnable]:
        """What it is made of."""

    @property
    def agents(self) -> Sequence[Agent]:
        """Every agent in it, each once."""
        found: list[Agent] = []
        for member in self.members:
            if isinstance(member, Agent):
                found.append(member)
            elif isinstance(member, Composite):
                found += member.agents
        return tuple(dict.fromkeys(found))

    @abstractmethod
    async def perform(self, prompt: Message, stage: "Stage") -> Result:
        """Answer a prompt with members that are run on this stage. Raises what they raise."""


class Stage:
    """One run of agents together: runs each, and counts what all of them used.

    Without a caller each agent is run itself, with its own log and ledger. With one, a likeness of it is run below the
    caller, whose tree, ledger, log and permissions then hold; on one stage its conversation goes on from run to run.
    """

    def __init__(self, caller: Agent | None = None, name: str = "") -> None:
        self._caller, self._name = caller, name
        self._conversations: dict[Agent, Sequence[Message]] = {}
        self._started = time.monotonic()
        self._strangers: list[Cost] = []  # of runnables without a ledger that we know
        self.usage, self.turns = Usage(), 0
        self.last: Result | None = None  # that says something

    async def run(self, member: Runnable, prompt: str | Message) -> Result:
        """Have one answer. Raises what it raises."""
        result, error = await self.attempt(member, prompt)
        if error is not None:
            raise error
        return result

    async def attempt(self, member: Runnable, prompt: str | Message) -> tuple[Result, Exception | None]:
        """The same, with what it raised; the result is then what it had. Only a cancellation is raised."""
        if isinstance(member, Composite):
            return await self._attempt_composite(member, prompt)
        if isinstance(member, Agent):
            if self._caller is None:
                return await self._attempt_agent(member, prompt)
            return await self._attempt_below(self._caller, member, prompt)
        try:
            result = self._count(await member.run(prompt))
        except Exception as error:
            return failed(error), error
        self._strangers.append(result.cost)
        return result, None

    def total(self, result: R, agents: Sequence[Agent]) -> R:
        """A result with what everybody on this stage used; the cost is all that the agents' ledgers tell, each once."""
        ledgers = dict.fromkeys(agent.ledger for agent in (agents if self._caller is None else [self._caller]))
        costs = [*(ledger.cost() for ledger in ledgers), *self._strangers]
        seconds = time.monotonic() - self._started
        return replace(result, usage=self.usage, turns=self.turns, cost=sum(costs, Cost()), duration=seconds)

    async def _attempt_composite(self, member: Composite, prompt: str | Message) -> tuple[Result, Exception | None]:
        inner = Stage(self._caller, self._name)
        inner._conversations = self._conversations
        try:
            result = await member.perform(user(prompt) if isinstance(prompt, str) else prompt, inner)
            return inner.total(result, member.agents), None
        except Exception as error:
            return inner.total(failed(error), member.agents), error
        finally:
            self.usage, self.turns = self.usage + inner.usage, self.turns + inner.turns
            self.last = _latest(self.last, inner.last)
            self._strangers += inner._strangers

    async def _attempt_agent(self, agent: Agent, prompt: str | Message) -> tuple[Result, Exception | None]:
        before = agent._last  # noqa: SLF001 -- a run that ends by an exception leaves its result there
        try:
            return self._count(await agent.run(prompt)), None
        except BaseException as error:
            last = agent._last  # noqa: SLF001
            had = None if last is None or last is before else self._count(last)
            if not isinstance(error, Exception):
                raise
            return had or failed(error), error

    async def _attempt_below(
        self, caller: Agent, model: Agent, prompt: str | Message
    ) -> tuple[Result, Exception | None]:
        message = replace(user(prompt) if isinstance(prompt, str) else prompt, sender=caller.path)
        try:
            child = _spawn_like(model, caller, self._name, message, self._conversations.get(model))
        except (UsageError, BudgetExceeded) as error:
            return failed(error), error
        try:
            result = self._count(await child.wait())
        except asyncio.CancelledError:
            child.interrupt()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(INTERRUPT_SECONDS):
                    self._count(await child.wait())  # what it had
            if (life := child.end()) is not None:
                await asyncio.wait([life], timeout=END_SECONDS)
            raise
        self._conversations[model] = child.messages
        return result, None

    def _count(self, result: Result) -> Result:
        self.usage, self.turns = self.usage + result.usage, self.turns + result.turns
        self.last = _latest(self.last, result)
        return result


class AgentTool:
    """A tool whose call has an agent, or what is made of agents, answer a prompt.

    Each call is a conversation of its own, which begins where the agent's own one stands, below the calling agent: its
    ledger pays, its log names it, its permissions hold beside the agent's own, and its interruption reaches it.
    """

    parameters = json_freeze_object(
        {
            "type": "object",
            "properties": {"prompt": {"type": "string", "description": "all it needs to know"}},
            "required": ["prompt"],
        }
    )

    def __init__(self, runnable: Runnable, name: str, description: str) -> None:
        self._runnable = runnable
        self.name, self.description = name, description
        self._alone = asyncio.Lock()

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        """None of its own: what agents do is judged call by call, in each of them."""
        del arguments, workspace
        return Effect("none")

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Its answer; an error result says what went wrong, and what there was until then. A cancelled call shows that
        too."""
        prompt = as_str(arguments.get("prompt"))
        stage = Stage(run.caller, self.name) if isinstance(run.caller, Agent) else Stage()
        try:
            async with contextlib.nullcontext() if isinstance(run.caller, Agent) else self._alone:
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
        said = f"\nWhat it had until then:\n{result.content}" if result.content else ""
        raise ToolError(f"{self.name} failed ({failure.kind}): {failure.message}{said}")


def _latest(before: Result | None, now: Result | None) -> Result | None:
    """The later of two results, unless it is without words."""
    return now if now is not None and (now.content or before is None) else before


def offer(agent: Agent, tool: Tool) -> None:
    """Give an agent one more tool, between two runs. Raises UsageError where it runs, or has one of that name."""
    state = agent._state  # noqa: SLF001 -- the engine's own
    if agent.running:
        raise UsageError(f"agent {agent.path} is running; it can be given the tool {tool.name} when it has ended")
    if tool.name in state.tools:
        raise UsageError(f"agent {agent.path} has a tool {tool.name!r} already; give this place an agent of its own")
    state.tools = {**state.tools, tool.name: tool}
    state.specs = specs_of(tuple(state.tools.values()))


def failed(error: Exception) -> Result:
    """An exception as a result."""
    if isinstance(error, SagentError):
        reason = "budget" if isinstance(error, BudgetExceeded) else "error"
        return Result("", (), reason, Failure(error.kind, str(error)))
    return Result("", (), "error", Failure("crashed", f"{type(error).__name__}: {error}"))


def _spawn_like(model: Agent, caller: Agent, name: str, prompt: Message, held: Sequence[Message] | None) -> Agent:
    """A new agent below the caller that is like another, at work on a prompt. Raises UsageError: none was begun."""
    own, above = model._state, caller._state  # noqa: SLF001 -- the engine's own
    if own.ledger is not above.ledger and own.ledger.cap is not None:
        raise UsageError(
            f"{model.path} has a cap of its own, which cannot be kept on the ledger of {caller.path}: "
            "give both the same ledger, or that agent none"
        )
    order = SpawnRequest(prompt.content, name)
    deepest = caller._deepest  # noqa: SLF001
    path = caller.tree.reserve(caller.path, name, deepest)
    workspace = spawn.workspace_for(own, order)
    workspace.hidden = _both(own.workspace.hidden, above.workspace.hidden)
    resources = Resources(
        log=above.log.child(path),
        ledger=above.ledger,
        workspace=workspace,
        ask=above.ask or own.ask,
        path=path,
        resolve=own.resolve,
        model_limits=own.listed,
        fallbacks=tuple(own.fallbacks),
        catalog=own.catalog,
        tree=caller.tree,
    )
    child = Agent(
        own.model,
        system=own.system,
        tools=tuple(own.tools.values()),
        policy=_Both(own.policy, above.policy),
        limits=_least(own.limits, above.limits),
        effort=own.effort,
        resources=resources,
    )
    child.restore(spawn.history_for(own, replace(order, share="full")) if held is None else held)
    child.begin(above, order, deepest, prompt)
    return child


class _Both:
    """Two policies: a call is made when neither objects."""

    def __init__(self, own: Policy, above: Policy) -> None:
        self._policies = (own, above) if own is not above else (own,)

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        """The stricter word: a denial, else a question, else yes."""
        verdicts = [await policy.before_tool(call, effect, workspace) for policy in self._policies]
        return min(verdicts, key=lambda verdict: (Deny, Hold, Ask, Allow).index(type(verdict)))

    async def after_turn(self, turn: Turn) -> Sequence[Action]:
        """What follows for either."""
        return [action for policy in self._policies for action in await policy.after_turn(turn)]


def _both(own: PathFilter | None, above: PathFilter | None) -> PathFilter | None:
    """What either hides is hidden."""
    if own is None or above is None:
        return own or above

    def veil(tool: str, directory: Path) -> Callable[[str], bool]:
        first, second = own(tool, directory), above(tool, directory)
        return lambda name: first(name) or second(name)

    return veil


def _least(own: RunLimits, above: RunLimits) -> RunLimits:
    """An agent's own bounds, where they are not wider than those above it."""
    most = limits_of(above)
    least = {name: min(value, limits_of(own).get(name, value)) for name, value in most.items()}
    return with_limits(own, least)
