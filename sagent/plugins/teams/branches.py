"""Side by side."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, fields, replace
from typing import TypeAlias

from sagent.agent.agent_tool import Composite, Runnable, Stage
from sagent.agent.asking import Prompt
from sagent.agent.resources import check_whole
from sagent.agent.tree import Node
from sagent.errors import UsageError
from sagent.events import Failure, Result
from sagent.lib.dataclass import dataclass
from sagent.messages import Message
from sagent.plugins.teams.pattern import Pattern, check_judge, made_by, said, stop

Aggregate: TypeAlias = Runnable | Callable[[Sequence[Result]], str | Awaitable[str]]
Outcome: TypeAlias = tuple[Result, Exception | None]


@dataclass(frozen=True, slots=True)
class Gathered(Result):
    """The result of `parallel`. `members` has the result of each member by name; the `error` of one that failed says
    why.

    Members that were stopped because enough had answered are not in it.
    """

    members: Mapping[str, Result] = field(default_factory=dict[str, Result])


def parallel(*members: Runnable, aggregate: Aggregate | None = None, quorum: int | None = None) -> "Parallel":
    """Ask all members the same at the same time, and combine their answers.

    `aggregate` combines them: a function that gets the results of the members that succeeded, in the members' order, or
    an agent that is given all answers as text. Without it, the answers are joined under their members' names. With a
    `quorum`, that many answers are enough and the other members are stopped; all are stopped once the quorum cannot be
    reached. Without one, all members must succeed. If too few succeed, the first error is raised if there is no answer
    at all; otherwise the result has the answers there are, and its `error` names the members that failed.

    A member is named by its agent's path, with a number if several have the same. Raises UsageError for an impossible
    quorum, and for an agent that is in two members, because an agent can do only one thing at a time.
    """
    return Parallel(members, aggregate, quorum)


class Parallel(Pattern):
    """See `parallel`."""

    name = "parallel"

    def __init__(self, members: Sequence[Runnable], aggregate: Aggregate | None, quorum: int | None) -> None:
        super().__init__(members)
        self._names = _names(members)
        self._branches = tuple(members)
        self._aggregate, self._quorum = aggregate, quorum
        if isinstance(aggregate, Runnable):
            self.members = (*self._branches, aggregate)
        check_judge("aggregate", aggregate)
        if quorum is not None:
            check_whole(f"quorum={quorum!r:.60}", quorum, 1)
        if quorum is not None and not 1 <= quorum <= len(members):
            raise UsageError(f"a quorum of {quorum} cannot be met by {len(members)} members")
        busy = Counter(id(agent) for member in members for agent in _agents(member))
        if any(times > 1 for times in busy.values()):
            raise UsageError("an agent is in two members of parallel, but can do one thing at a time: use another")

    async def perform(self, prompt: Message, stage: Stage) -> Gathered:
        """Ask all, gather, aggregate. When cancelled, the members are stopped before it returns."""
        results, errors = await self._gather(prompt, stage)
        good = [result for result in results.values() if not result.is_error]
        needed = self._quorum or len(self._branches)
        if not good and errors:
            raise next(iter(errors.values()))
        if len(good) >= needed:
            return _gathered(await self._join(prompt, stage, results, good), results)
        failures = {name: result.error for name, result in results.items() if result.error is not None}
        first = next(iter(failures.values()))
        named = "; ".join(f"{name} failed ({failure.kind}): {failure.message}" for name, failure in failures.items())
        failure = Failure(first.kind, f"{len(good)} of {needed} needed answers: {named}")
        partial = _gathered(said(_sections(results)), results)
        return replace(partial, stop_reason="error", error=failure)

    async def run(self, prompt: Prompt, *, deps: object = None) -> Gathered:
        """Run as every pattern does. The result includes those of the members."""
        result = await super().run(prompt, deps=deps)
        return result if isinstance(result, Gathered) else _gathered(result, {})

    async def _gather(self, prompt: Message, stage: Stage) -> tuple[Mapping[str, Result], Mapping[str, Exception]]:
        """Return the members' results or exceptions, in their order, once they are enough or can no longer be."""
        tasks = {
            name: asyncio.create_task(stage.attempt(member, prompt), name=name)
            for name, member in zip(self._names, self._branches, strict=True)
        }
        try:
            while waiting := {task for task in tasks.values() if not task.done()}:
                ended = [_outcome(task)[0] for task in tasks.values() if task.done()]
                good = sum(not result.is_error for result in ended)
                if self._quorum is not None and not good < self._quorum <= good + len(waiting):
                    break
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            outcomes = {name: _outcome(task) for name, task in tasks.items() if task.done()}
        finally:
            await stop(tasks.values())
        results = {name: result for name, (result, _) in outcomes.items()}
        return results, {name: error for name, (_, error) in outcomes.items() if error is not None}

    async def _join(
        self, prompt: Message, stage: Stage, results: Mapping[str, Result], good: Sequence[Result]
    ) -> Result:
        if self._aggregate is None:
            return said(_sections(results))
        if isinstance(self._aggregate, Runnable):
            text = f"Several agents were asked:\n\n{prompt.content}\n\nCombine their answers into one."
            return await stage.run(self._aggregate, f"{text}\n\n{_sections(results)}")
        return said(await made_by("aggregate", self._aggregate(good), str, "a string is needed"))


def _outcome(task: "asyncio.Task[Outcome]") -> Outcome:
    """Return the outcome of a member that has ended. A member that cancelled itself was interrupted."""
    if task.cancelled():
        return Result("", (), "interrupted", Failure("interrupted", "it was cancelled")), None
    return task.result()


def _names(members: Sequence[Runnable]) -> Sequence[str]:
    names = [member.path if isinstance(member, Node) else getattr(member, "name", "agent") for member in members]
    times, seen = Counter(names), Counter[str]()
    unique: list[str] = []
    for name in names:
        seen[name] += 1
        unique.append(name if times[name] == 1 else f"{name}-{seen[name]}")
    return unique


def _agents(member: Runnable) -> Sequence[Node]:
    return member.agents if isinstance(member, Composite) else [member] if isinstance(member, Node) else []


def _sections(results: Mapping[str, Result]) -> str:
    """Return every answer or failure below its member's name; a single answer alone as it is."""
    if [result.is_error for result in results.values()] == [False]:
        return next(iter(results.values())).content
    return "\n\n".join(f"## {name}\n\n{_section(result)}" for name, result in results.items())


def _section(result: Result) -> str:
    if result.error is None:
        return result.content
    return f"Failed ({result.error.kind}): {result.error.message}\n\n{result.content}".rstrip()


def _gathered(result: Result, members: Mapping[str, Result]) -> Gathered:
    return Gathered(**{each.name: getattr(result, each.name) for each in fields(Result)}, members=members)
