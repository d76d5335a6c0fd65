"""Tools that concern agents: spawn them, write to them, inspect them and change their settings."""

import asyncio
import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Literal, cast

from sagent.errors import SagentError, ToolError, UsageError
from sagent.events import Result
from sagent.lib.json import JsonObject, as_array, as_int, as_object, as_str, json_freeze_object
from sagent.lib.text import count, failure
from sagent.messages import Text, user
from sagent.peer import Caller, Compact, Peer, SpawnRequest, Status, Switch
from sagent.policy.readings import names_tool
from sagent.tool import Harmless, RunContext, ToolOutput, arguments_schema

if TYPE_CHECKING:
    from sagent.context.agents import AgentKind

MAX_DELAY_SECONDS = 86_400.0
END_SECONDS = 0.8  # time an agent has to end after the call that waits for it is cancelled
MAX_SPAWN_ROUNDS = 20  # event loop rounds to wait for an agent that a parallel call is spawning
LIMITS = ("max_turns", "max_tool_call_rounds", "max_request_tokens", "max_response_tokens")


class AgentSpawn(Harmless):
    """Starts a new agent on a task; its answer is the call's result."""

    name = "AgentSpawn"
    description = (
        "Have a new agent do a task beside yours, or one that would fill your context. It has your model, tools and"
        " permissions unless you name others, and knows only what the prompt says. Returns its answer; several calls"
        " in one turn run side by side. `persistent`: returns its path at once, lives on for AgentSend, answers by"
        " message."
    )
    parameters = arguments_schema(
        "prompt",
        prompt={"type": "string"},
        name={"type": "string"},
        system={"type": "string"},
        model={"type": "string", "description": "provider/model"},
        effort={"type": "string"},
        tools={"type": "array", "items": {"type": "string"}, "description": "default: yours"},
        max_turns={"type": "integer"},
        max_depth={"type": "integer", "description": "0: it may spawn none"},
        budget_usd={"type": "number"},
        persistent={"type": "boolean"},
        share={"type": "string", "enum": ["none", "brief", "full"], "description": "of your conversation"},
    )

    def __init__(self, kinds: "Sequence[AgentKind]" = ()) -> None:
        """`kinds` are the described agents that a call may name."""
        self.kinds = {kind.name: kind for kind in kinds}
        if kinds:
            rows = "".join(f"\n- {kind.name}: {kind.description}" for kind in kinds)
            self.description = (
                f"{self.description} `agent`: one that is described, with its own prompt and tools:{rows}"
            )
            own = as_object(self.parameters.get("properties"))
            named = {"type": "string", "enum": list(self.kinds)}
            self.parameters = json_freeze_object({**self.parameters, "properties": {**own, "agent": named}})

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Spawn an agent and, unless it is persistent, wait for its answer. If the call is cancelled, the agent is
        interrupted and its output so far is shown."""
        caller, order = _caller(run), _spawn_request(arguments)
        kind = self.kinds.get(as_str(arguments.get("agent")))
        if kind is not None and kind.isolation:  # a plugin's tool takes this from the kinds that it isolates
            raise ToolError(f"No agent was spawned: {kind.path} demands isolation; no plugin for it is loaded.")
        try:
            peer = await (caller.spawn(order) if kind is None else _spawn_kind(caller, order, kind))
        except (SagentError, OSError) as error:
            raise ToolError(
                f"No agent was spawned: {failure(error) if isinstance(error, OSError) else error}"
            ) from error
        if order.persistent:
            text = f"{peer.path} is at work; its answer arrives as a message. Write to it with AgentSend."
            return ToolOutput.of(text, summary=f"{peer.path} at work")
        try:
            return _answer_of(peer.path, await peer.wait())
        except asyncio.CancelledError:
            peer.interrupt()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    if said := (await peer.wait()).content:
                        run.progress(f"{peer.path}: {said}")
            raise


class AgentSend(Harmless):
    """Sends a message to other agents."""

    name = "AgentSend"
    quick = True
    description = (
        "Send a message to a living agent by its path or name (root/review, review, parent), or to several by a pattern"
        " (review*, *). It reads it before its next step; its answer comes as a message."
    )
    parameters = arguments_schema(
        "to",
        "content",
        to={"type": "string"},
        content={"type": "string"},
        delay={"type": "number", "description": "seconds from now"},
    )

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        caller, name = _caller(run), as_str(arguments.get("to"))
        for _ in range(MAX_SPAWN_ROUNDS):
            if caller.peers(name):
                break
            await asyncio.sleep(0)
        peers = _find_peers(caller, name)
        message = user(as_str(arguments.get("content")), sender=caller.path)
        names = ", ".join(peer.path for peer in peers)
        delay = arguments.get("delay")
        seconds = float(min(max(delay, 0.0), MAX_DELAY_SECONDS)) if isinstance(delay, int | float) else 0.0
        for peer in peers:
            caller.post(peer.path, message, seconds)
        when = f" in {seconds:g} s" if seconds else ""
        return ToolOutput.of(f"Sent to {names}{when}.", summary=f"to {names}{when}")


class AgentSelf(Harmless):
    """Reports on and changes the agent that calls it, or another."""

    name = "AgentSelf"
    quick = True
    deferrable = "along"
    description = (
        "See and change how you run, or another agent (`target`). status: context, spending, jobs, agents. catalog:"
        " models with prices. Changes take effect before the next step."
    )
    parameters = arguments_schema(
        status={"type": "boolean"},
        switch={"type": "object", "description": "{model?, effort?, advisor?}"},
        context={
            "type": "object",
            "description": "{compact?: true, hints?, drop?: [tools whose results go], clear?: true}",
        },
        limits={
            "type": "object",
            "description": "{max_turns?, max_tool_call_rounds?, max_request_tokens?, max_response_tokens?}",
        },
        catalog={"type": "boolean"},
        target={"type": "string"},
    )

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Make all changes or none, then report what was requested."""
        caller = _caller(run)
        name = as_str(arguments.get("target"))
        target, *others = _find_peers(caller, name) if name else (caller,)
        if others:
            named = ", ".join(peer.path for peer in (target, *others))
            raise ToolError(f"{name!r} means several agents: {named}. Name one.")
        try:
            reports = _change(caller, target, arguments)
        except SagentError as error:
            raise ToolError(f"Nothing was changed: {error}") from error
        if arguments.get("catalog") is True:
            reports.append(await asyncio.to_thread(caller.catalog))
        if arguments.get("status") is True or not reports:
            reports.append(_status(caller, target))
        return ToolOutput.of("\n\n".join(reports), summary=reports[0].split("\n", 1)[0][:80])


def _caller(run: RunContext) -> Caller:
    if run.caller is None:
        raise ToolError("There are no agents here.")
    return run.caller


def _spawn_request(arguments: JsonObject) -> SpawnRequest:
    tools, budget = arguments.get("tools"), arguments.get("budget_usd")
    try:
        usd = None if budget is None else Decimal(str(budget))
    except InvalidOperation as error:
        raise ToolError(f"budget_usd: give a number of USD, not {budget!r}") from error
    if usd is not None and not (usd.is_finite() and usd > 0):
        raise ToolError(f"budget_usd: give more than 0, not {budget!r}")
    share = as_str(arguments.get("share")) or "none"
    return SpawnRequest(
        prompt=as_str(arguments.get("prompt")),
        name=as_str(arguments.get("name")),
        system=as_str(arguments.get("system")) or None,
        model=as_str(arguments.get("model")),
        effort=as_str(arguments.get("effort")),
        tools=None if tools is None else tuple(map(str, as_array(tools))),
        max_turns=as_int(arguments.get("max_turns")) if "max_turns" in arguments else None,
        max_depth=as_int(arguments.get("max_depth")) if "max_depth" in arguments else None,
        budget_usd=usd,
        persistent=arguments.get("persistent") is True,
        share=cast("Literal['none', 'brief', 'full']", share),
    )


async def _spawn_kind(caller: Caller, order: SpawnRequest, kind: "AgentKind") -> Peer:
    """Spawn an agent of a described kind, with only those of its tools that the caller has. If the kind's model is
    unavailable, use the caller's."""
    there: object = getattr(caller, "tools", ())
    names = [as_str(getattr(each, "name", "")) for each in as_array(there)]
    allowed = {name.lower() for name in names if not any(names_tool(each, name) for each in kind.without)}
    for named in (kind.tools, order.tools):
        if named is not None:
            allowed &= {*map(str.lower, named)}
    kept = [name for name in names if name.lower() in allowed]
    turns = [most for most in (order.max_turns, kind.max_turns) if most is not None]
    request = replace(
        order,
        name=order.name or re.sub(r"[^\w-]", "-", kind.name),
        system=order.system or kind.prompt or None,
        tools=None if len(kept) == len(names) else tuple(kept),
        model=order.model or kind.model,
        effort=order.effort or kind.effort,
        max_turns=min(turns, default=None),
    )
    try:
        return await caller.spawn(request)
    except UsageError:
        if order.model or order.effort or not (kind.model or kind.effort):
            raise
        return await caller.spawn(replace(request, model="", effort=""))


def _answer_of(path: str, result: Result) -> ToolOutput:
    """Return a child's answer; if the child failed, return the reason and its output so far."""
    if result.error is None:
        return ToolOutput.of(result.content or "(no answer)", summary=f"{path}: {count(result.turns, 'turn')}")
    had = f"\nIts output so far:\n{result.content}" if result.content else "\nIt had not said anything yet."
    text = f"{path} failed ({result.error.kind}): {result.error.message}{had}"
    return ToolOutput((Text(text),), is_error=True, summary=f"{path}: {result.error.kind}")


def _find_peers(caller: Caller, name: str) -> list[Peer]:
    if found := list(caller.peers(name)):
        return found
    living = ", ".join(peer.path for peer in caller.peers()) or "none"
    raise ToolError(f"No living agent is called {name!r}. The others are: {living}.")


def _change(caller: Caller, target: Peer, arguments: JsonObject) -> list[str]:
    """Check all changes, then apply them. Return a sentence for each. Raises UsageError."""
    actions: list[tuple[Switch | Compact, str]] = []
    switch = _object_in(arguments, "switch", ("provider", "model", "effort", "advisor"))
    context = _object_in(arguments, "context", ("compact", "hints", "drop", "clear"))
    limits = _limits(_object_in(arguments, "limits", LIMITS), caller.status(), target.status())
    provider, model, effort, advisor = (_name_in(switch, name) for name in ("provider", "model", "effort", "advisor"))
    if provider and not model:
        raise UsageError(f"give a model of {provider} too. catalog lists them.")
    if provider and model and not model.startswith(f"{provider}/"):
        model = f"{provider}/{model}"
    if model or effort or limits or advisor:
        words = (("model", model), ("effort", effort), ("advisor", advisor), *limits.items())
        parts = [f"{name} {value}" for name, value in words if value]
        actions.append((Switch(model, effort, limits or None, advisor), f"{', '.join(parts)} from the next step on"))
    drop = context.get("drop")
    names = (drop,) if isinstance(drop, str) else tuple(map(str, as_array(drop)))
    if context.get("clear") in (True, "true"):
        actions.append((Compact(clear=True), "the conversation is cleared before the next step"))
    elif names:
        actions.append((Compact(drop=names), f"results of {', '.join(names)} become stubs before the next step"))
    elif context.get("compact") in (True, "true"):
        actions.append((Compact(as_str(context.get("hints"))), "the context is compacted before the next step"))
    for action, _ in actions:
        target.check(action)
    for action, _ in actions:
        target.apply(action)
    return [f"{target.path}: {words}." for _, words in actions]


def _object_in(arguments: JsonObject, name: str, known: Sequence[str]) -> Mapping[str, object]:
    """Return an argument that is an object. Raises UsageError for an unknown member."""
    found = as_object(arguments.get(name))
    if unknown := [member for member in found if member not in known]:
        raise UsageError(f"{name} has no {unknown[0]!r}, it takes {', '.join(known)}.")
    return found


def _name_in(switch: Mapping[str, object], name: str) -> str | None:
    """Return a name given in `switch`, or None. Raises UsageError for an empty name or another type."""
    value = switch.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{name}: give a name, not {value!r}.")
    return value.strip()


def _limits(values: Mapping[str, object], own: Status, other: Status) -> Mapping[str, int]:
    """Parse limits; models may write them as strings. Raises UsageError for other values, or if a limit is too high. An
    agent may lower any limit. It may raise limits of agents below it up to its own."""
    ceiling = own.limits if other.path.startswith(f"{own.path}/") else other.limits
    limits: dict[str, int] = {}
    for name, value in values.items():
        text = str(value).strip()
        if isinstance(value, bool) or not re.fullmatch(r"0*[1-9][0-9]{0,17}", text):
            raise UsageError(f"{name}: give a whole number above 0, not {value!r:.40}.")
        limits[name] = int(text)
        if (most := ceiling.get(name)) is not None and limits[name] > most:
            raise UsageError(f"{name} can be at most {most} here: only whoever set it may raise it.")
    return limits


def _status(caller: Caller, target: Peer) -> str:
    status, cost = target.status(), caller.cost()
    least = "at least " if cost.unpriced else ""
    window = f" of {status.window:,}" if status.window else ""
    lines = [
        f"{status.path}: {status.state}, {status.model}, effort {status.effort or 'default'}, {status.turns} turns",
        f"context: about {status.context_tokens:,}{window} tokens",
        *(f"  {name}: about {tokens:,}" for name, tokens in status.tokens_by_kind.items()),
        f"spent: {least}${status.usd:.6f} itself, {least}${status.usd_tree:.6f} with those below it",
        f"all agents: {least}${cost.total:.6f}",
        *(f"{name}: {value}" for name, value in status.limits.items()),
        *filter(None, (status.waits,)),
        *(f"{job.name}: {job.tool} {job.what}, {job.state}, {job.seconds:g} s" for job in status.jobs),
    ]
    if target is caller:
        every = [peer.status() for peer in caller.peers()]
        others = [f"  {one.path}: {one.state}, {one.model}{', waits for money' * bool(one.waits)}" for one in every]
        lines += ["other agents:", *(others or ["  none"])]
    return "\n".join(lines)
