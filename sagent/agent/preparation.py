"""Prepares each run: checks its dependencies, and makes its prompt, policy and tools from them."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from inspect import iscoroutinefunction, isroutine, unwrap
from types import NoneType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast, get_args

from sagent.engine.context import specs_of
from sagent.engine.state import AgentState
from sagent.errors import UsageError
from sagent.lib.dataclass import Deps_contra
from sagent.messages import ToolCall
from sagent.model import ToolSpec
from sagent.peer import Action
from sagent.policy import AllowAll, Deny, Policy, Turn, Verdict
from sagent.session.contents import PromptEntry
from sagent.session.folds import branch_contents
from sagent.tool import Effect, RunContext, Tool, Workspace

if TYPE_CHECKING:
    from sagent.agent.progress import Progress

PromptOf: TypeAlias = Callable[[RunContext[Deps_contra]], str | Awaitable[str]]
"""Writes the system prompt of a new session."""
PolicyOf: TypeAlias = Callable[[RunContext[Deps_contra]], Policy]
"""Makes the policy of a run."""
ToolsOf: TypeAlias = Callable[
    [RunContext[Deps_contra], Sequence[ToolSpec]], Sequence[ToolSpec] | Awaitable[Sequence[ToolSpec]]
]
"""Chooses the tools of a run and their descriptions: tools that it does not return are left out."""


class Preparation(Generic[Deps_contra]):
    """An agent's prompt, policy and choice of tools, as given: values, or functions of a run's context.

    `judge` is the policy that judges its calls; `is_fixed` is True if it is the same in all runs.
    """

    def __init__(
        self,
        system: "str | PromptOf[Deps_contra]",
        policy: "Policy | PolicyOf[Deps_contra] | None",
        choose: "ToolsOf[Deps_contra] | None",
    ) -> None:
        self.system, self.choose = system, choose
        given = policy.inner if isinstance(policy, WatchedPolicy) else policy  # each agent has a watch of its own
        self.policy: Policy | PolicyOf[Deps_contra] = AllowAll() if given is None else given
        self.is_fixed = _is_policy(self.policy)
        if not isinstance(system, str):
            _check_callable("system", system, "a string")
        if not self.is_fixed:
            _check_callable("policy", self.policy, 'a policy, such as PermissionPolicy("edit")')
        else:
            _check_policy(self.policy)
        if choose is not None and not callable(choose):
            raise UsageError(
                f"prepare_tools is {type(choose).__name__}: give a function of a run's context and its tools"
            )
        self.judge = WatchedPolicy(cast("Policy", self.policy) if self.is_fixed else _PolicyOfRun())
        self._base: tuple[Tool, ...] | None = None  # all of the agent's own; None: never changed
        self._offered: tuple[Tool, ...] = ()  # in the last run
        self._specs: dict[tuple[ToolSpec, ...], tuple[ToolSpec, ...]] = {}  # equal ones are logged once

    async def prepare(self, state: AgentState, more: Sequence[Tool] = ()) -> None:
        """Prepare a run; `more` are tools of this run only. Raises UsageError, and the functions' errors."""

        def progress(text: str) -> None:
            state.journal.notify("info", text)

        deps = cast("Deps_contra", state.run.deps)
        run = RunContext(state.path, "", state.workspace, state.log.blobs, progress, state.caller, deps=deps)
        if isinstance(own := self.judge.inner, _PolicyOfRun):
            own.now = _needed("policy", cast("PolicyOf[Deps_contra]", self.policy)(run), "a policy", _is_policy)
            _check_policy(own.now)
        self.judge.begin(state)
        if self.choose is not None or more or self._base is not None:
            await self._offer(state, run, more)
        _check_deps(state)
        if not isinstance(write := self.prompt(state), str):
            past = branch_contents(state.log.contents(), PromptEntry)
            said = (past[-1].system if past else None) or await _awaited(write(run))
            state.context.system = _needed("system", said, "a string", lambda given: isinstance(given, str))

    def prompt(self, state: AgentState) -> "str | PromptOf[Deps_contra]":
        """Return the current system prompt: a string once its session has begun."""
        return state.context.system if isinstance(self.system, str) or state.prompt_id else self.system

    def own_tools(self, tools: Mapping[str, Tool]) -> Sequence[Tool]:
        """Return the agent's own tools, without those of a run, including those that the run left out."""
        if self._base is None:
            return tuple(tools.values())
        known = {id(tool) for tool in (*self._base, *self._offered)}
        return (*self._base, *(tool for tool in tools.values() if id(tool) not in known))

    async def _offer(self, state: AgentState, run: RunContext[Deps_contra], more: Sequence[Tool]) -> None:
        """Offer the chosen tools of the agent and of the run."""
        self._base = tuple(self.own_tools(state.tools))
        tools = {tool.name: tool for tool in (*self._base, *more)}
        if len(tools) < len(self._base) + len(more):
            taken = {tool.name for tool in self._base}
            twice = next(tool.name for tool in more if tools[tool.name] is not tool or tool.name in taken)
            raise UsageError(f"two tools are called {twice!r}: a run's own tool needs a different name")
        chosen = tuple(tools.values())
        if self.choose is not None:
            from sagent.tools.wrapped import WrappedTool

            specs = {tool.name: ToolSpec(tool.name, tool.description, tool.parameters) for tool in chosen}
            given = await _awaited(self.choose(run, tuple(specs.values())))
            wanted = tuple(_needed("prepare_tools", given, "a list of tools", lambda said: isinstance(said, Iterable)))
            if other := [each for each in wanted if not isinstance(each, ToolSpec)]:  # pyright: ignore[reportUnnecessaryIsInstance] -- the program's
                raise UsageError(
                    f"prepare_tools returned {other[0]!r:.60}: return some of the ToolSpecs that it was given"
                )
            if strangers := [spec.name for spec in wanted if spec.name not in specs]:
                raise UsageError(
                    f"prepare_tools returned {strangers[0]!r}, but the tools are {', '.join(tools) or 'none'}"
                )
            by_name = {spec.name: spec for spec in wanted}
            chosen = tuple(
                tools[name] if spec == specs[name] else WrappedTool(tools[name], spec) for name, spec in by_name.items()
            )
        self._offered = chosen
        state.tools = {tool.name: tool for tool in chosen}
        sent = specs_of(chosen)
        state.context.specs = self._specs.setdefault(sent, sent)


class WatchedPolicy(Policy):
    """A policy, and a watch on turns of its agent's run that lead nowhere."""

    def __init__(self, inner: Policy) -> None:
        self.inner = inner
        self._state: AgentState | None = None
        self._progress: Progress | None = None

    def begin(self, state: AgentState) -> None:
        """Record that a run begins."""
        self._state, self._progress = state, None

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        return await self.inner.before_tool(call, effect, workspace)

    async def after_turn(self, turn: Turn) -> Sequence[Action]:
        actions = await self.inner.after_turn(turn) or ()
        if self._state is None or turn.agent != self._state.path or not getattr(self.inner, "watched", True):
            return actions
        if self._progress is None:
            from sagent.agent.progress import Progress  # after the first request

            self._progress = Progress(self._state)
        return (*actions, *self._progress.observe(turn))


class _PolicyOfRun(Policy):
    """The policy made for the current run."""

    now: Policy | None = None

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        if self.now is None:
            return Deny("No run has begun for which there is a policy.")
        from sagent.policy.verdict import checked

        return checked(self.now, call.name, await self.now.before_tool(call, effect, workspace))

    async def after_turn(self, turn: Turn) -> Sequence[Action]:
        return () if self.now is None else await self.now.after_turn(turn)


T = TypeVar("T")


async def _awaited(value: T | Awaitable[T]) -> T:
    return await cast("Awaitable[T]", value) if isinstance(value, Awaitable) else value


def _needed(name: str, value: T, expected: str, fits: Callable[[object], bool]) -> T:
    """Return the return value of a function of the program. Raises UsageError if it has the wrong type."""
    if not fits(value):
        raise UsageError(f"{name}: the function returned {type(value).__name__}; it must return {expected}")
    return value


def _check_callable(name: str, value: object, expected: str) -> None:
    if not callable(value):
        raise UsageError(f"{name} is {type(value).__name__}: give {expected}, or a function of a run's context")


def _is_policy(policy: object) -> bool:
    """Return True for a policy itself, False for a function or class that makes one."""
    return hasattr(policy, "before_tool") and not isinstance(policy, type)


def _check_policy(policy: object) -> None:
    """Raise UsageError for an invalid policy."""
    kind = type(policy).__name__
    if not hasattr(policy, "after_turn"):
        raise UsageError(
            f"{kind} has no after_turn: derive it from sagent.policy.Policy, whose after_turn does nothing"
        )
    for name, given in (("before_tool", "call, effect, workspace"), ("after_turn", "turn")):
        method = getattr(policy, name)
        if isroutine(method) and not iscoroutinefunction(unwrap(method)):
            raise UsageError(f"{kind}.{name} is not async: write `async def {name}(self, {given})`")


def _check_deps(state: AgentState) -> None:
    """Raise UsageError if a tool needs dependencies that the run was not given."""
    if state.run.deps is not None:
        return
    for tool in state.tools.values():
        wanted = getattr(tool, "deps_type", None)
        if wanted in (None, NoneType, object, Any) or isinstance(wanted, TypeVar) or NoneType in get_args(wanted):
            continue
        below = "the run of the agent above it, or as_tool(..., deps=...)"
        how = below if state.above else "agent.run(prompt, deps=...)"
        named = getattr(wanted, "__name__", wanted)
        raise UsageError(f"{tool.name} takes RunContext[{named}], and {state.path} has no deps: pass them with {how}")
