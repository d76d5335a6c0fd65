"""The base of all patterns: each is used as an agent is."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Self, TypeVar, cast

from sagent.agent.agent_tool import AgentTool, Composite, Runnable, Stage, failed
from sagent.agent.asking import Prompt, events_of, to_message, wait_for
from sagent.agent.tree import END_SECONDS
from sagent.errors import BudgetExceeded, ModelError, UsageError
from sagent.events import Event, Failure, Finished, Result
from sagent.lib.dataclass import Deps
from sagent.messages import Message, Part, Text
from sagent.tool import RunContext, Tool

T = TypeVar("T")


class Pattern(Composite):
    """Agents that work together. One run at a time; the agents keep their conversations from run to run.

    A step's error is the pattern's error: an exception of a step is raised, and a result with an `error` is the last. A
    result's usage and `run_usd` add up those of all members. Its cost is the total of their ledgers.
    """

    name = "pattern"

    def __init__(self, members: Sequence[Runnable]) -> None:
        if not members:
            raise UsageError(f"{self.name} needs at least one agent")
        for member in members:
            if not callable(getattr(member, "run", None)):
                kind = type(member).__name__
                raise UsageError(f"{kind} is not an agent: pass agents or patterns, each as its own argument")
        self.members = tuple(members)
        self._task: asyncio.Task[object] | None = None  # the task of the current run
        self._interrupted = False

    async def run(self, prompt: Prompt, *, deps: object = None) -> Result:
        """Answer one prompt, as Agent.run does; all its agents get the same `deps`. Raises what a step raises, and
        UsageError."""
        message, stage = to_message(prompt), Stage(deps=deps)
        if self._task is not None:
            raise UsageError(f"this {self.name} is running; wait for its result")
        task = asyncio.current_task()
        assert task is not None
        self._task, self._interrupted = task, False
        try:
            result = await self.perform(message, stage)
        except asyncio.CancelledError:
            if not self._interrupted:
                raise
            task.uncancel()
            had, failure = stage.last or Result("", (), ""), Failure("interrupted", "the run was interrupted")
            result = replace(had, stop_reason="interrupted", error=failure)
        finally:
            self._task = None
        return stage.total(result, self.agents)

    def run_sync(self, prompt: Prompt, *, deps: object = None) -> Result:
        """`run` for code that is not async; must not be called inside a running event loop."""
        return wait_for(lambda: self.run(prompt, deps=deps), self.aclose)

    def stream(self, prompt: Prompt, *, deps: object = None) -> AsyncGenerator[Event, None]:
        """Yield every member's events as they happen; the last is Finished, with the pattern's name and result.

        Errors are in the result, not raised. Closing the iterator early cancels the run.
        """

        async def once() -> Event:
            message = to_message(prompt)
            try:
                return Finished(self.name, await self.run(message, deps=deps))
            except (ModelError, BudgetExceeded) as error:
                return Finished(self.name, failed(error))

        return events_of(once, self.listen)

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call a function with every event of its agents; call the returned function to stop."""
        ends = [agent.listen(listener) for agent in self.agents]

        def forget() -> None:
            for end in ends:
                end()

        return forget

    def interrupt(self) -> None:
        """Stop the agents at work; `run` returns the last answer, with error kind "interrupted"."""
        if self._task is not None and not self._interrupted:
            self._interrupted = True
            self._task.cancel()

    def as_tool(
        self, name: str, description: str, *, deps: Callable[[RunContext[Deps]], object] | None = None
    ) -> Tool[Deps]:
        """Return a tool with which an agent asks this pattern. The agents of a call work below the calling agent;
        `deps` says which of its dependencies they get, by default none."""
        return AgentTool(self, name, description, deps)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close its agents."""
        for agent in self.agents:
            await agent.aclose()


class FunctionPattern(Pattern):
    """A pattern whose members are run by a function."""

    def __init__(
        self, name: str, members: Sequence[Runnable], perform: Callable[[Message, Stage], Awaitable[Result]]
    ) -> None:
        self.name, self._perform = name, perform
        super().__init__(members)

    async def perform(self, prompt: Message, stage: Stage) -> Result:
        return await self._perform(prompt, stage)


def media_of(prompt: Message) -> Sequence[Part]:
    return [part for part in prompt.parts if not isinstance(part, Text)]


def check_judge(name: str, value: object) -> None:
    """Raise UsageError for a judge that is neither an agent nor a function."""
    if value is not None and not isinstance(value, Runnable) and not callable(value):
        raise UsageError(f"{name} is {type(value).__name__}: give an agent or a function of the result")


def check_named(name: str, value: object) -> None:
    """Raise UsageError for agents that are not given by their names."""
    if not isinstance(value, Mapping):
        raise UsageError(f'{name} takes agents by name, {{"billing": agent, ...}}, and not a {type(value).__name__}')


async def made_by(name: str, value: T | Awaitable[T], kinds: type[T] | tuple[type[T], ...], expected: str) -> T:
    """Return the result of a function of the program, awaited if needed. Raises UsageError for a wrong type."""
    made = await cast("Awaitable[T]", value) if isinstance(value, Awaitable) else value
    if not isinstance(made, kinds):
        raise UsageError(f"the function for {name} returned {made!r:.60}: {expected}")
    return made


def said(text: str) -> Result:
    """Return a text as a result."""
    return Result(text, (Text(text),), "end")


async def stop(tasks: "Iterable[asyncio.Task[T]]") -> None:
    """Cancel running tasks. Returns when they have ended, or after a few seconds."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        if not task.cancelling():  # a second time would cut off how it ends its agent
            task.cancel()
    if running:
        await asyncio.wait(running, timeout=END_SECONDS)
