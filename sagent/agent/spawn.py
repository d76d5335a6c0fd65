"""Creation of child agents: none gets more than the agent above it has, and a copy may do only what both may."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Never, TypedDict

from sagent.agent.asking import Handoff, brief
from sagent.agent.resources import ExtensionFactory, Resources
from sagent.agent.tree import Node
from sagent.engine.context import RunLimits, limits_of, with_limits
from sagent.engine.neighbours import Extension
from sagent.engine.state import AgentState, Arrived, parse_effort
from sagent.errors import UsageError
from sagent.lib.json import EMPTY
from sagent.messages import Message, ToolCall, user
from sagent.model import Effort, Model, full_name
from sagent.peer import Action, SpawnRequest
from sagent.policy import Allow, Ask, Deny, Policy, Postpone, Turn, Verdict
from sagent.session.contents import EXECUTOR, MessageEntry, Opened, Spawned, StoredMessage
from sagent.session.log import Log, MemoryLog
from sagent.tool import Effect, PathFilter, ProfileOf, Tool, Workspace

if TYPE_CHECKING:
    from sagent.agent.preparation import PolicyOf, PromptOf, ToolsOf


class AgentParts(TypedDict):
    """The parts of an agent."""

    model: Model
    system: "str | PromptOf[Never]"
    tools: Sequence[Tool]
    policy: "Policy | PolicyOf[Never]"
    prepare_tools: "ToolsOf[Never] | None"
    limits: RunLimits
    effort: Effort | None
    options: Mapping[str, object]
    resources: Resources


def parts_for(
    parent: Node, own: Resources, path: str, request: SpawnRequest, limits: Mapping[str, int | str] | None = None
) -> AgentParts:
    """Return the parts of an agent below another; `own` are those of the parent, `limits` the new one's changes
    since it was spawned. Raises UsageError for an impossible request: a model that is unknown, not allowed or without a
    key, missing tools, invalid limits."""
    state, extension = parent.state, parent.advisory
    model = state.model
    if request.model and request.model != full_name(model):
        model = state.neighbours.resolve(request.model)
    effort = parse_effort(request.effort) if request.effort else state.context.effort
    if request.share == "full" and request.system is not None:
        raise UsageError('share "full" copies the whole prompt, so the child cannot have its own system prompt')
    given = replace(
        own, advisory=_inherited(own.advisory, extension), advised=extension is not None, role=request.role or EXECUTOR
    )
    return AgentParts(
        model=model,
        system=parent.preparation.prompt(state) if request.system is None else request.system,
        tools=_tools(state, request),
        policy=state.judge if parent.preparation.is_fixed else parent.preparation.policy,
        prepare_tools=parent.preparation.choose,
        limits=with_limits(_limits(state, request), limits or {}),
        effort=effort,
        options=state.context.options.get(model.provider, EMPTY) if request.options is None else request.options,
        resources=resources_for(
            parent, given, path, workspace_for(state, request.directory, with_reads=request.share == "full")
        ),
    )


def parts_like(model: Node, source: Resources, parent: Node, path: str) -> AgentParts:
    """Return the parts of a copy of an agent, below another."""
    own = model.state
    workspace = workspace_for(own, "", with_reads=False)
    workspace.hidden = _either(own.workspace.hidden, parent.state.workspace.hidden)
    workspace.profile = _combined_profile(own.workspace.profile, parent.state.workspace)
    resources = resources_for(parent, source, path, workspace)
    most, least = limits_of(parent.state.limits), limits_of(own.limits)  # its own limits, if they are not wider
    return AgentParts(
        model=own.model,
        system=model.preparation.prompt(own),
        tools=tuple(model.preparation.own_tools(own.tools)),
        policy=_policy_like(model, parent),
        prepare_tools=model.preparation.choose,
        limits=with_limits(own.limits, {name: min(value, least.get(name, value)) for name, value in most.items()}),
        effort=own.context.effort,
        options=own.context.options.get(own.model.provider, EMPTY),
        resources=replace(resources, advisory=None, role=EXECUTOR, compactor=None),
    )


def _policy_like(model: Node, parent: Node) -> "Policy | PolicyOf[Never]":
    """Return a policy in which both judge; if one is made for each run, so is the combination."""
    make = model.preparation.policy
    if model.preparation.is_fixed or not callable(make):
        return CombinedPolicy(model.state.policy, parent.state.policy)
    return lambda run: CombinedPolicy(make(run), parent.state.policy)


def resources_for(parent: Node, like: Resources, path: str, workspace: Workspace) -> Resources:
    """Return the resources of a new agent below another: all that `like` has, except its own. Raises OSError."""
    log, ledger = _log_for(parent, path), parent.ledger
    return replace(like, log=log, ledger=ledger, workspace=workspace, path=path, tree=parent.tree, finish=None)


def _log_for(parent: Node, path: str) -> Log:
    """Return the log of a new agent below another; in memory if the session is no longer saved."""
    if parent.state.journal.lost:
        return MemoryLog(path, session_id=parent.log.session_id, blobs=parent.log.blobs)
    return parent.log.child(path)


def workspace_for(state: AgentState, directory: str, *, with_reads: bool) -> Workspace:
    """Return a workspace of its own in a directory, in place of the parent's first root, or in the parent's, so that
    `cd` and exports stay the child's. Files that the parent has read count as read only for a child that sees the
    parent's conversation."""
    own, environment = state.workspace, state.workspace.environment
    if directory:
        own = replace(own, cwd=Path(directory), roots=(Path(directory), *own.roots[1:]))
    environment = None if environment is None else dict(environment)
    return replace(own, environment=environment, known_files=dict(own.known_files) if with_reads else {})


def shared_history(state: AgentState) -> Sequence[Message]:
    """Return agent's conversation up to the call that spawns: byte for byte the prefix that the provider has cached."""
    shared = list(state.context.history)
    while shared and shared[-1].calls:
        shared.pop()
    return shared


def prompt_for(state: AgentState, request: SpawnRequest, path: str, handoffs: Sequence[Handoff]) -> Message:
    """Return the task, together with who the child is and, in brief, what led to it."""
    who = f"You are {path}, an agent that works for {state.path}. Your last message of this turn is your answer to it."
    context = f"\n\n{brief(state, handoffs)}" if request.share == "brief" else ""
    return user(f"{who}{context}\n\nYour task:\n{request.prompt}", sender=state.path)


def record_birth(state: AgentState, parent: AgentState, request: SpawnRequest, prompt: Message) -> None:
    """Record a new agent in its own log and that of the one above, so that a later process can restore a persistent
    one; put its prompt into its inbox."""
    spawned = Spawned(
        agent=state.path,
        entry=state.journal.record(Opened(state.log.session_id, state.path, str(state.workspace.cwd))),
        persistent=request.persistent,
        share=request.share,
        model=full_name(state.model),
        effort=state.context.effort or "",
        options=state.context.options.get(state.model.provider, EMPTY),
        tools=tuple(state.tools),
        system=request.system,
        max_turns=request.max_turns,
        max_depth=request.max_depth,
        budget_usd=request.budget_usd,
    )
    if not parent.journal.record(spawned):  # no later process would know of it, or of its spending
        state.journal.lost = True
    for message in state.context.history:  # inherited messages: each log is complete in itself
        state.journal.record(MessageEntry(StoredMessage.of(message, state.journal.keep)))
    if request.persistent:
        state.receive(prompt, "next")  # it is received again after this process
    else:
        state.inbox.put(Arrived(prompt))


def _inherited(make: ExtensionFactory | None, parent: Extension | None) -> ExtensionFactory | None:
    """Return a factory of extensions that continue the one of the agent above."""
    if make is None or parent is None:
        return make
    return lambda agent, own: make(agent, own or parent)


def _tools(state: AgentState, request: SpawnRequest) -> Sequence[Tool]:
    """Return the parent's tools with these names. Raises UsageError for a missing one."""
    if request.tools is None:
        return tuple(state.tools.values())
    if request.share == "full":
        raise UsageError('share "full" copies the whole prompt, so the child must have all the tools: leave out tools')
    by_name = {name.lower(): tool for name, tool in state.tools.items()}
    if strangers := [name for name in request.tools if name.lower() not in by_name]:
        raise UsageError(f"{state.path} has no tool {strangers[0]!r} to pass on; it has {', '.join(state.tools)}")
    return tuple(by_name[name.lower()] for name in dict.fromkeys(request.tools))


def _limits(state: AgentState, request: SpawnRequest) -> RunLimits:
    """Return the parent's limits, with fewer turns if requested. A persistent agent need not wait for its jobs. Raises
    UsageError for invalid limits."""
    if request.max_turns is not None and request.max_turns < 1:
        raise UsageError(f"max_turns: give a whole number above 0, not {request.max_turns}")
    if request.max_depth is not None and request.max_depth < 0:
        raise UsageError(f"max_depth: give a whole number, 0 or more, not {request.max_depth}")
    most = [turns for turns in (request.max_turns, state.limits.max_turns) if turns is not None]
    return replace(state.limits, max_turns=min(most, default=None), wait_for_jobs=not request.persistent)


class CombinedPolicy:
    """Two policies combined: a call is made if neither objects."""

    def __init__(self, own: Policy, parent: Policy) -> None:
        self._policies = (own, parent) if own is not parent else (own,)

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        """Return the stricter verdict: a denial, else new arguments (both judge again), else a question, else yes."""
        from sagent.policy.verdict import checked

        verdicts = [
            checked(policy, call.name, await policy.before_tool(call, effect, workspace)) for policy in self._policies
        ]
        return min(verdicts, key=_leniency)

    async def after_turn(self, turn: Turn) -> Sequence[Action]:
        """Return the actions of both policies."""
        return [action for policy in self._policies for action in await policy.after_turn(turn) or ()]


def _leniency(verdict: Verdict) -> float:
    if isinstance(verdict, Allow) and verdict.arguments is not None:
        return 1.5  # after a denial, before a question about a call that will not be made
    return (Deny, Postpone, Ask, Allow).index(type(verdict))


def _combined_profile(own: "ProfileOf | None", parent: Workspace) -> "ProfileOf | None":
    """Combine two profiles: commands may touch only what both allow."""
    other = parent.profile
    if own is None or other is None:
        return own or other
    return lambda workspace: own(workspace).within(other(parent))


def _either(own: PathFilter | None, parent: PathFilter | None) -> PathFilter | None:
    """Return a filter that hides what either filter hides."""
    if own is None or parent is None:
        return own or parent

    def path_filter(tool: str, directory: Path) -> Callable[[str], bool]:
        first, second = own(tool, directory), parent(tool, directory)
        return lambda name: first(name) or second(name)

    return path_filter
