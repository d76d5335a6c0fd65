"""What a new agent gets from the one above it: never more than that has."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TypedDict

from sagent.agent.handoffs import Handoff, brief
from sagent.agent.resources import ExtensionFactory, Resources
from sagent.agent.tree import Node
from sagent.engine.extension import Extension
from sagent.engine.inbox import Arrived
from sagent.engine.limits import CHANGEABLE, RunLimits, with_limits
from sagent.engine.state import EXECUTOR, AgentState, parse_effort
from sagent.errors import UsageError
from sagent.lib.money import ZERO
from sagent.messages import Message, user
from sagent.model import Effort, Model
from sagent.peer import SpawnRequest
from sagent.policy import Policy
from sagent.session.contents import MessageEntry, Opened, PromptEntry, Spawned, SwitchedEntry
from sagent.session.entries import Entry
from sagent.session.folds import contents, unfinished, waiting
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
    above: Node, own: Resources, path: str, request: SpawnRequest, entries: Iterable[Entry] = ()
) -> AgentParts:
    """What an agent below another is made of; `own` is what the other has, `entries` the new one's log, if there is
    one. Raises UsageError for a request that cannot be met."""
    state, extension = above.state, above.state.context.extension
    model, effort = model_for(state, request)
    given = replace(
        own,
        advisory=inherited(own.advisory, extension),
        advised=extension is not None,
        role=request.role or EXECUTOR,
    )
    return AgentParts(
        model=model,
        system=system_for(state, request),
        tools=tools_for(state, request),
        policy=state.judge,
        limits=with_limits(bounds_for(state, request), limits_told(entries)),
        effort=effort,
        resources=resources_for(above, given, path, workspace_for(state, request)),
    )


def resources_for(above: Node, like: Resources, path: str, workspace: Workspace) -> Resources:
    """What a new agent below another has: all that `like` has, but for what is its own."""
    return replace(
        like,
        log=above.state.log.child(path),
        ledger=above.state.ledger,
        workspace=workspace,
        path=path,
        tree=above.tree,
        finish=None,
    )


def inherited(make: ExtensionFactory | None, above: Extension | None) -> ExtensionFactory | None:
    """A factory of extensions that take over that of the agent above."""
    if make is None or above is None:
        return make
    return lambda agent, own: make(agent, own or above)


def model_for(state: AgentState, request: SpawnRequest) -> tuple[Model, Effort | None]:
    """The model and effort ordered, else the parent's. Raises UsageError: unknown, not allowed, without a key."""
    model = state.model
    if request.model and request.model != f"{model.provider}/{model.id}":
        model = state.neighbours.resolve(request.model)
    return model, parse_effort(request.effort) if request.effort else state.context.effort


def tools_for(state: AgentState, request: SpawnRequest) -> Sequence[Tool]:
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


def bounds_for(state: AgentState, request: SpawnRequest) -> RunLimits:
    """The parent's bounds, with fewer turns where that is ordered. One that lives on need not wait for its jobs.
    Raises UsageError for what is no limit."""
    if request.max_turns is not None and request.max_turns < 1:
        raise UsageError(f"max_turns: a whole number above 0 is needed, not {request.max_turns}")
    if request.max_depth is not None and request.max_depth < 0:
        raise UsageError(f"max_depth: 0 or more generations are needed, not {request.max_depth}")
    most = [turns for turns in (request.max_turns, state.limits.max_turns) if turns is not None]
    return replace(state.limits, max_turns=min(most, default=None), wait_for_jobs=not request.persistent)


def workspace_for(state: AgentState, request: SpawnRequest) -> Workspace:
    """A workspace of its own in the parent's directory: a child's `cd` and exports are its own.

    What the parent has read counts as read for a child that sees the parent's conversation only.
    """
    own, environment = state.workspace, state.workspace.environment
    seen = dict(own.seen) if request.share == "full" else {}
    return replace(own, environment=None if environment is None else dict(environment), seen=seen)


def system_for(state: AgentState, request: SpawnRequest) -> str:
    """The parent's system prompt, unless there is one for the child. Raises UsageError where that cannot be."""
    if request.system is None:
        return state.context.system
    if request.share == "full":
        raise UsageError(
            'share "full" takes over the whole prompt, so the child cannot have a system prompt of its own'
        )
    return request.system


def history_for(state: AgentState, request: SpawnRequest) -> Sequence[Message]:
    """The parent's conversation up to the call that spawns, for a child that shares it: byte for byte the prefix whose
    cache the provider has."""
    if request.share != "full":
        return ()
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
    """Have a new agent in its own log and that of the one above, and its prompt in its inbox."""
    first = state.journal.record(Opened(state.log.session_id, state.path, str(state.workspace.cwd)))
    above.journal.record(spawned_entry(state, first, request))
    for message in state.context.history:  # taken over: each log is whole in itself
        state.journal.record(MessageEntry(StoredMessage.of(message, state.journal.keep)))
    if request.persistent:
        state.receive(prompt, "next")  # which would be given to it again after this process
    else:
        state.inbox.put(Arrived(prompt))


def spawned_entry(child: AgentState, first: str, request: SpawnRequest) -> Spawned:
    """What the parent's log keeps of a child: enough to bring one that lives on back after this process."""
    return Spawned(
        agent=child.path,
        entry=first,
        persistent=request.persistent,
        share=request.share,
        model=f"{child.model.provider}/{child.model.id}",
        effort=child.context.effort or "",
        tools=tuple(child.tools),
        system=request.system,
        max_turns=request.max_turns,
        max_depth=request.max_depth,
        budget_usd=request.budget_usd,
    )


def request_of(born: Spawned, entries: Iterable[Entry]) -> SpawnRequest:
    """The request for a child that is brought back: what its `spawned` entry says, and its log of later changes."""
    prompts, switches = contents(entries, PromptEntry), _switches(entries)
    now = switches[-1] if switches else born
    return SpawnRequest(
        prompt="",
        system=prompts[-1].system if prompts else born.system,
        model=now.model,
        effort=now.effort,
        tools=born.tools,
        max_turns=born.max_turns,
        max_depth=born.max_depth,
        budget_usd=born.budget_usd,
        persistent=True,
    )


def limits_told(entries: Iterable[Entry]) -> Mapping[str, int | str]:
    """The limits that an agent was last given while it ran, all of them; {} where nobody changed any."""
    switches = _switches(entries)
    if not switches:
        return {}
    limits = switches[-1].limits
    return {name: value if isinstance(value := limits.get(name), int) else "none" for name in CHANGEABLE}


def _switches(entries: Iterable[Entry]) -> Sequence[SwitchedEntry]:
    """Those of the model, its effort or the limits: an advisor's say nothing of these."""
    return [switched for switched in contents(entries, SwitchedEntry) if switched.model]


def rest_of(request: SpawnRequest, spent: Decimal) -> Decimal | None:
    """What is left of a child's allowance, if it has one."""
    return None if request.budget_usd is None else max(request.budget_usd - spent, ZERO)


def cut_off(path: str, entries: Iterable[Entry], heads: Sequence[str], messages: Sequence[Message]) -> str | None:
    """What to tell of a child that was to answer once and had not when the process ended; None of one that had."""
    if not unfinished(entries, heads):
        return None
    had = next(
        (message.content for message in reversed(messages) if message.role == "assistant" and message.content), ""
    )
    head = f"{path} was lost: the process ended."
    return f"{head}\nWhat it had until then:\n{had}" if had else f"{head}\nIt had said nothing yet."


def left_open(path: str, entries: Iterable[Entry], heads: Sequence[str], messages: Sequence[Message]) -> str | None:
    """What to tell of a child that was in a turn when the process ended, and will not go on with it by itself."""
    if not unfinished(entries, heads) or waiting(entries):
        return None
    last = messages[-1] if messages else None
    if last is not None and last.role == "assistant" and not last.calls and last.stop != "interrupted":
        return f"{path} has answered:\n{last.content}"
    return (
        f"{path} was at work when the process ended. It is there again with all it knew; write to it to have it go on."
    )
