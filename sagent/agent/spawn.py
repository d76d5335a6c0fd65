"""What a new agent gets from the one above it: never more than that has."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypedDict

from sagent.agent.handoffs import Handoff, brief
from sagent.agent.resources import ExtensionFactory, Resources
from sagent.agent.tree import Node
from sagent.engine.extension import Extension
from sagent.engine.inbox import Arrived
from sagent.engine.limits import RunLimits, with_limits
from sagent.engine.state import EXECUTOR, AgentState, parse_effort
from sagent.errors import UsageError
from sagent.messages import Message, user
from sagent.model import Effort, Model
from sagent.peer import SpawnRequest
from sagent.policy import Policy
from sagent.session.contents import MessageEntry, Opened, Spawned
from sagent.session.stored import StoredMessage
from sagent.tool import Tool, Workspace


class AgentParts(TypedDict):
    """What an agent is made of."""

    model: Model
    system: str
    tools: Sequence[Tool]
    policy: Policy
    limits: RunLimits
    effort: Effort | None
    resources: Resources


def parts_for(
    above: Node, own: Resources, path: str, request: SpawnRequest, limits: Mapping[str, int | str] | None = None
) -> AgentParts:
    """What an agent below another is made of; `own` is what the other has, `limits` what the new one was given since it
    was spawned. Raises UsageError for a request that cannot be met: a model that is unknown, not allowed or without a
    key, tools that the other has not, what is no limit."""
    state, extension = above.state, above.advisory
    model = state.model
    if request.model and request.model != f"{model.provider}/{model.id}":
        model = state.neighbours.resolve(request.model)
    effort = parse_effort(request.effort) if request.effort else state.context.effort
    if request.share == "full" and request.system is not None:
        raise UsageError(
            'share "full" takes over the whole prompt, so the child cannot have a system prompt of its own'
        )
    given = replace(
        own,
        advisory=_inherited(own.advisory, extension),
        advised=extension is not None,
        role=request.role or EXECUTOR,
    )
    return AgentParts(
        model=model,
        system=state.context.system if request.system is None else request.system,
        tools=_tools(state, request),
        policy=state.judge,
        limits=with_limits(_limits(state, request), limits or {}),
        effort=effort,
        resources=resources_for(above, given, path, workspace_for(state, seen=request.share == "full")),
    )


def resources_for(above: Node, like: Resources, path: str, workspace: Workspace) -> Resources:
    """What a new agent below another has: all that `like` has, but for what is its own."""
    log, ledger = above.log.child(path), above.ledger
    return replace(like, log=log, ledger=ledger, workspace=workspace, path=path, tree=above.tree, finish=None)


def workspace_for(state: AgentState, *, seen: bool) -> Workspace:
    """A workspace of its own in the parent's directory: a child's `cd` and exports are its own.

    What the parent has read counts as read for a child that sees the parent's conversation only.
    """
    own, environment = state.workspace, state.workspace.environment
    environment = None if environment is None else dict(environment)
    return replace(own, environment=environment, seen=dict(own.seen) if seen else {})


def shared_history(state: AgentState) -> Sequence[Message]:
    """An agent's conversation up to the call that spawns: byte for byte the prefix whose cache the provider has."""
    shared = list(state.context.history)
    while shared and shared[-1].calls:
        shared.pop()
    return shared


def prompt_for(state: AgentState, request: SpawnRequest, path: str, handoffs: Sequence[Handoff]) -> Message:
    """The task, with who the child is and, in brief, what led to it."""
    who = f"You are {path}, an agent that works for {state.path}. Your last message of this turn is your answer to it."
    context = f"\n\n{brief(state, handoffs)}" if request.share == "brief" else ""
    return user(f"{who}{context}\n\nYour task:\n{request.prompt}", sender=state.path)


def record_birth(state: AgentState, above: AgentState, request: SpawnRequest, prompt: Message) -> None:
    """Have a new agent in its own log and that of the one above, enough there to bring one that lives on back after
    this process; and its prompt in its inbox."""
    spawned = Spawned(
        agent=state.path,
        entry=state.journal.record(Opened(state.log.session_id, state.path, str(state.workspace.cwd))),
        persistent=request.persistent,
        share=request.share,
        model=f"{state.model.provider}/{state.model.id}",
        effort=state.context.effort or "",
        tools=tuple(state.tools),
        system=request.system,
        max_turns=request.max_turns,
        max_depth=request.max_depth,
        budget_usd=request.budget_usd,
    )
    above.journal.record(spawned)
    for message in state.context.history:  # taken over: each log is whole in itself
        state.journal.record(MessageEntry(StoredMessage.of(message, state.journal.keep)))
    if request.persistent:
        state.receive(prompt, "next")  # which would be given to it again after this process
    else:
        state.inbox.put(Arrived(prompt))


def _inherited(make: ExtensionFactory | None, above: Extension | None) -> ExtensionFactory | None:
    """A factory of extensions that take over that of the agent above."""
    if make is None or above is None:
        return make
    return lambda agent, own: make(agent, own or above)


def _tools(state: AgentState, request: SpawnRequest) -> Sequence[Tool]:
    """Those of the parent's tools that are named. Raises UsageError for one that it has not."""
    if request.tools is None:
        return tuple(state.tools.values())
    if request.share == "full":
        raise UsageError(
            'share "full" takes over the whole prompt, so the child must have all the tools: leave tools out'
        )
    by_name = {name.lower(): tool for name, tool in state.tools.items()}
    if strangers := [name for name in request.tools if name.lower() not in by_name]:
        raise UsageError(f"{state.path} has no tool {strangers[0]!r} to pass on; it has {', '.join(state.tools)}")
    return tuple(by_name[name.lower()] for name in dict.fromkeys(request.tools))


def _limits(state: AgentState, request: SpawnRequest) -> RunLimits:
    """The parent's bounds, with fewer turns where that is ordered. One that lives on need not wait for its jobs.
    Raises UsageError for what is no limit."""
    if request.max_turns is not None and request.max_turns < 1:
        raise UsageError(f"max_turns: a whole number above 0 is needed, not {request.max_turns}")
    if request.max_depth is not None and request.max_depth < 0:
        raise UsageError(f"max_depth: 0 or more generations are needed, not {request.max_depth}")
    most = [turns for turns in (request.max_turns, state.limits.max_turns) if turns is not None]
    return replace(state.limits, max_turns=min(most, default=None), wait_for_jobs=not request.persistent)
