"""Isolation of spawned agents: each works in a worktree, and what it did is merged when it ends."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard, TypeVar, cast

from sagent.app.builder import AgentBuilder
from sagent.context.instructions import repository_root
from sagent.errors import ToolError, UsageError
from sagent.lib.json import EMPTY, JsonObject, as_object, as_str, json_freeze_object
from sagent.messages import Text, ToolCall
from sagent.peer import Caller, Peer, SpawnRequest
from sagent.policy import Allow, Deny
from sagent.tool import Effect, RunContext, Tool, ToolOutput
from sagent.tools import AgentSpawn

if TYPE_CHECKING:
    from sagent.agent import Agent
    from sagent.plugins.worktrees.record import Record, Repository
    from sagent.plugins.worktrees.worktree import Outcome

T = TypeVar("T")
MAX_FILES = 50  # that the caller reads of
_ISOLATION = {
    "type": "string",
    "enum": ["worktree"],
    "description": "its own copy of the files; its changes are merged when it ends",
}


async def add(builder: AgentBuilder) -> None:
    """Let AgentSpawn isolate agents, if the agent works in a git repository."""
    settings = builder.settings
    is_offered = repository_root(settings.cwd) is not None
    builder.tools = [
        IsolatingSpawn(tool, builder, is_offered=is_offered) if _isolates(tool, is_offered=is_offered) else tool
        for tool in builder.tools
    ]
    if not is_offered:
        return
    from sagent.plugins.worktrees.record import home_of

    if home_of(settings.cwd, settings.state_dir).is_dir():
        builder.notices += await _repaired(settings.cwd, settings.state_dir)


def _isolates(tool: Tool, *, is_offered: bool) -> TypeGuard[AgentSpawn]:
    """Return True for AgentSpawn, if isolation can be chosen or the file of an agent does so."""
    return isinstance(tool, AgentSpawn) and (is_offered or any(kind.isolation for kind in tool.kinds.values()))


async def _repaired(cwd: Path, state_dir: Path) -> list[str]:
    from sagent.plugins.worktrees.record import repository_at
    from sagent.plugins.worktrees.worktree import repair

    try:
        return await asyncio.to_thread(lambda: repair(repository_at(cwd, state_dir)))
    except UsageError as error:
        return [str(error)]


class IsolatingSpawn(AgentSpawn):
    """AgentSpawn with the argument `isolation`, if that is offered; files of agents have it in any case."""

    def __init__(self, inner: AgentSpawn, builder: AgentBuilder, *, is_offered: bool) -> None:
        super().__init__(tuple(replace(kind, isolation="") for kind in inner.kinds.values()))
        self._isolations = {name: kind.isolation for name, kind in inner.kinds.items() if kind.isolation}
        self._builder, self._turn = builder, asyncio.Lock()
        own = as_object(self.parameters.get("properties"))
        if is_offered:
            self.parameters = json_freeze_object({**self.parameters, "properties": {**own, "isolation": _ISOLATION}})

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        kind = self.kinds.get(as_str(arguments.get("agent")))
        isolation = as_str(arguments.get("isolation")) or (self._isolations.get(kind.name, "") if kind else "")
        if not isolation:
            return await super().__call__(arguments, run)
        if arguments.get("persistent") is True:
            raise ToolError("An agent with isolation ends with its answer: leave out persistent, or isolation.")
        if isolation != "worktree":
            where = f"{kind.path}: " if kind else ""
            raise ToolError(f"{where}isolation is {isolation!r:.40}, and can only be worktree.")
        if run.caller is None:
            raise ToolError("There are no agents here.")
        with ExitStack() as stack:
            record = await self._make(as_str(arguments.get("name")) or (kind.name if kind else ""), run, stack)
            try:
                given = json_freeze_object({**arguments, "prompt": _prompt(arguments, record)})
                caller = cast("Caller", _IsolatedCaller(run.caller, _place(record, run), self._builder))
                output = await super().__call__(given, replace(run, caller=caller))
            except BaseException:
                self._builder.warn(await self._in_thread(lambda: _kept(record)))
                raise
            end = await self._end(record, run)
            return replace(output, content=(*output.content, Text(f"\n\n{end}")))  # its calls have shown differences

    async def _make(self, name: str, run: RunContext, stack: ExitStack) -> "Record":
        from sagent.plugins.worktrees.preparation import Preparation
        from sagent.plugins.worktrees.record import repository_at
        from sagent.plugins.worktrees.worktree import clean_name, made

        settings = self._builder.settings
        how = replace(Preparation.of(settings), takes_changes=True)

        def make() -> "Record":
            repository: Repository = repository_at(run.workspace.cwd, settings.state_dir)
            return stack.enter_context(
                made(repository, f"{clean_name(name) or 'agent'}-", f"an agent of {run.agent}", how)
            )

        try:
            async with self._turn:  # two must not choose one name
                return await self._in_thread(make)
        except (UsageError, OSError) as error:
            raise ToolError(f"No agent was spawned: {error}") from error

    async def _end(self, record: "Record", run: RunContext) -> str:
        """Merge what an agent did, if the policy lets its caller write that; return what became of it."""
        from sagent.plugins.worktrees.worktree import merge, outcome, remove, ways

        try:
            done = await self._in_thread(lambda: outcome(record))
            if done.is_empty:
                await self._in_thread(lambda: remove(record))
                return "It changed no files."
            if why := await self._obstacle(record, done, run):
                raise UsageError(why)
            await self._watched(record, done, run, lambda: merge(record))
            await self._in_thread(lambda: remove(record))
            return f"Its changes are merged into your files: {done}.{_files(done)}"
        except (UsageError, OSError) as error:
            kept = await self._in_thread(lambda: record.write("kept"))
            where = f"They are in the worktree {kept.path}, on the branch {kept.branch}."
            text = f"Its changes are not merged: {error} {where}"
            self._builder.warn(f"{run.agent}: {text} {ways(kept)}")
            return text

    async def _obstacle(self, record: "Record", done: "Outcome", run: RunContext) -> str:
        """Return why the caller may not write the changed files, though the agent might; "" if it may."""
        policy, isolated = self._builder.policy, replace(run.workspace, cwd=record.path, roots=(record.path,))
        for change in done.changes:
            call = ToolCall(run.call_id, "Write", EMPTY)
            here, there = (Effect("write", paths=(root / change.path,)) for root in (record.root, record.path))
            verdict = await policy.before_tool(call, here, run.workspace)
            if isinstance(verdict, Deny):
                return verdict.reason
            if not isinstance(verdict, Allow) and isinstance(await policy.before_tool(call, there, isolated), Allow):
                return f"{change.path} needs a person's permission."
        return ""

    async def _watched(self, record: "Record", done: "Outcome", run: RunContext, work: Callable[[], object]) -> None:
        """Carry out a merge, one at a time, as a change of its files that a rewind can undo."""
        agent = cast("Agent", run.caller)
        paths = tuple(record.root / change.path for change in done.changes)

        async def merge() -> None:
            async with self._turn:
                await self._in_thread(work)

        call = ToolCall(run.call_id, "AgentSpawn", EMPTY)
        await agent.neighbours.watch(call, Effect("write", paths=paths), merge)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Do slow work to its end, whatever happens meanwhile."""
        task = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            raise


class _IsolatedCaller:
    """An agent that spawns in another directory, and is otherwise itself."""

    def __init__(self, caller: Caller, directory: Path, builder: AgentBuilder) -> None:
        self._caller, self._directory, self._builder = caller, directory, builder

    def __getattr__(self, name: str) -> object:
        return getattr(self._caller, name)

    async def spawn(self, order: SpawnRequest) -> Peer:
        """Spawn an agent in the worktree. What a search may not show it is anchored there."""
        child = await self._caller.spawn(replace(order, directory=str(self._directory)))
        workspace = cast("Agent", child).state.workspace
        workspace.hidden = self._builder.policy.hidden(workspace)
        return child


def _place(record: "Record", run: RunContext) -> Path:
    """Return the caller's directory in a worktree."""
    place = record.path / run.workspace.cwd.resolve().relative_to(record.root.resolve())
    place.mkdir(parents=True, exist_ok=True)  # it may have no files that git keeps
    return place


def _prompt(arguments: JsonObject, record: "Record") -> str:
    where = (
        f"You work in {record.path}, which is your own copy of {record.root} (a git worktree, on the branch "
        f"{record.branch}): change files only there. What you changed is merged when you end."
    )
    return f"{as_str(arguments.get('prompt'))}\n\n{where}"


def _kept(record: "Record") -> str:
    """Keep the worktree of an agent that was stopped, if it has changes; return what became of it."""
    from sagent.plugins.worktrees.worktree import outcome, remove, ways

    try:
        if (done := outcome(record)).is_empty:
            remove(record)
            return f"The worktree {record.name} has no changes and is dropped."
        record.write("kept")
        return f"An agent was stopped; its worktree {record.name} is kept: {done}. {ways(record)}"
    except (UsageError, OSError) as error:
        return f"The worktree {record.name} stays: {error}"


def _files(done: "Outcome") -> str:
    rows = [f"\n{change.path} +{change.added} -{change.removed}" for change in done.changes]
    more = [f"\nand {len(rows) - MAX_FILES} more"] if len(rows) > MAX_FILES else []
    return "".join((*rows[:MAX_FILES], *more))
