"""Resumes an earlier process's unfinished work from an agent's log: unread messages, lost jobs, children, open
checkpoints."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from sagent.agent import spawn
from sagent.agent.resources import Resources
from sagent.agent.tree import Node, allowance
from sagent.engine.context import CHANGEABLE
from sagent.engine.dispatch import close_calls
from sagent.engine.state import AgentState, Arrived
from sagent.errors import SagentError, SessionCorrupt
from sagent.lib.json import EMPTY, JsonObject
from sagent.lib.money import ZERO
from sagent.lib.text import failure
from sagent.messages import Message, user
from sagent.peer import SpawnRequest
from sagent.rewind.plan import cut_off as open_checkpoints
from sagent.rewind.recorder import read_snapshot
from sagent.session.contents import PromptEntry, RequestSent, Returned, Spawned, SwitchedEntry
from sagent.session.entries import Entry
from sagent.session.folds import branch_contents, contents, history, last_job, lost_jobs, unfinished, unread, waiting
from sagent.session.log import read_agent

if TYPE_CHECKING:
    from sagent.peer import Moment
    from sagent.session.log import Log, LogView

LOST = (
    "The process ended while this call was open: it may have been carried out, in part or not at all. Look before you "
    "repeat it."
)
Begin: TypeAlias = Callable[[spawn.AgentParts, Sequence[Message], SpawnRequest], Node]
"""Begins a child's life, with its conversation so far."""


async def resume(agent: Node, resources: Resources, begin: Begin) -> Iterable[Entry]:
    """Resume an agent, given the earlier entries of its log. `resources` are the parts of the agent."""
    state, tree = agent.state, agent.tree
    entries = state.log.contents()
    for found in unread(entries, state.log.blobs.get):
        moment: Moment = "idle" if found.moment == "idle" else "next"
        state.inbox.put(Arrived(found.message, found.entry, found.answer), moment)
    for what in open_checkpoints(entries.of("touched"), read_snapshot):
        state.journal.record(what)
    _leave_out(state, entries)
    state.jobs.last = last_job(entries)
    for job in lost_jobs(entries):
        state.journal.record(replace(job, state="lost"))
        text = f"{job.job}, a call of {job.tool}, was lost: the process ended."
        state.receive(user(text, sender="sagent"), "next")
    heads = [returned.entry for returned in contents(entries, Returned)]
    for born in branch_contents(entries, Spawned):
        path = born.agent
        tree.register(path)
        try:
            if born.persistent:
                await _revive(agent, resources, begin, born, heads)
            else:
                _report_lost(state, born, heads)
        except (SagentError, OSError, ValueError) as error:
            why = failure(error) if isinstance(error, OSError) else error
            state.journal.notify("warning", text := f"{path} could not be restored: {why}")
            state.receive(user(text, sender="sagent"), "next")
    return entries


def _leave_out(state: AgentState, entries: "LogView") -> None:
    """Leave out of requests the parts that providers have refused."""
    logged = [entry.content for entry in entries.of("request") if b'"left_out"' in entry.line]
    if not logged:
        return
    from sagent.providers.leftout import kept_out
    from sagent.providers.toolforms import LEFT_OUT

    options = {**state.context.options}
    parameters = (each.parameters for each in logged if isinstance(each, RequestSent))
    for provider, left in kept_out(parameters).items():
        options[provider] = JsonObject({**options.get(provider, EMPTY), LEFT_OUT: left})
    state.context.options = options


def answer_lost_calls(state: AgentState) -> None:
    """Give each call that was open when the process ended a result, because models need every call to be answered."""
    history = state.context.history
    known = {result.call_id: result for message in history[-1:] for result in message.results}
    reply = next(iter(history[-2:] if known else history[-1:]), Message("user"))
    if any(call.id not in known for call in reply.calls):
        if known:
            history.pop()
        close_calls(state, reply, LOST, known)


async def _revive(parent: Node, resources: Resources, begin: Begin, born: Spawned, heads: Sequence[str]) -> None:
    """Restore a persistent child from its `spawned` entry and its log of later changes, but without its unfinished
    turn. `heads` are those of logs that ended a turn."""
    state, path = parent.state, born.agent
    log = _log_of(state, born)
    entries = log.contents()
    # an advisor's switches have no model, effort or limits
    switch = next((found for found in reversed(contents(entries, SwitchedEntry)) if found.model), None)
    prompts, now = contents(entries, PromptEntry), switch or born
    request = SpawnRequest(
        prompt="",
        system=prompts[-1].system if prompts else born.system,
        model=now.model,
        effort=now.effort,
        options=born.options if _provider(now.model) == _provider(born.model) else EMPTY,
        tools=born.tools,
        max_turns=born.max_turns,
        max_depth=born.max_depth,
        budget_usd=born.budget_usd,
        persistent=True,
    )
    budget = born.budget_usd
    rest = None if budget is None else max(budget - state.ledger.spent_below(path), ZERO)
    with allowance(state.ledger, path, rest):
        parts = spawn.parts_for(parent, resources, path, request, None if switch is None else _all_of(switch.limits))
        child = begin(parts, history(entries, state.log.blobs.get), request)
    if unfinished(entries, heads) and not waiting(entries):  # its turn was interrupted and nothing else continues it
        last = child.messages[-1] if child.messages else None
        if last is not None and last.role == "assistant" and not last.calls and last.stop != "interrupted":
            text = f"{path} has answered:\n{last.content}"
        else:
            text = f"{path} was at work when the process ended, and is restored. Write to it to continue."
        state.receive(user(text, sender=path), "next")
        state.journal.record(Returned(path, child.log.head))
    await child.resume()


def _provider(model: str) -> str:
    return model.partition("/")[0]


def _all_of(limits: Mapping[str, object]) -> Mapping[str, int | str]:
    """Return each changeable limit, with its last value."""
    return {name: value if isinstance(value := limits.get(name), int) else "none" for name in CHANGEABLE}


def _log_of(state: AgentState, born: Spawned) -> "Log":
    """Return the log of a child. Raises SessionCorrupt if another log is in its place."""
    first = next(iter(read_agent(state.log, born.agent)), None)  # does not create a missing file
    if first is None or first.id != born.entry:
        raise SessionCorrupt("its log is missing, or is not the one that was begun (`sagent verify` shows more)")
    return state.log.child(born.agent)


def _report_lost(state: AgentState, born: Spawned, heads: Sequence[str]) -> None:
    """Report the output of a child that was to answer once, if the process ended before it did."""
    path, log = born.agent, _log_of(state, born)
    entries = log.contents()
    if (text := cut_off(path, entries, heads, history(entries, state.log.blobs.get))) is not None:
        for what in open_checkpoints(entries.of("touched"), read_snapshot):
            log.append(what)
        state.receive(user(text, sender="sagent"), "next")
        state.journal.record(Returned(path, log.head))
    log.close()


def cut_off(path: str, entries: Iterable[Entry], heads: Sequence[str], messages: Sequence[Message]) -> str | None:
    """Return the report about a child that owed an answer when the process ended; None if it had answered."""
    if not unfinished(entries, heads):
        return None
    said = (message.content for message in reversed(messages) if message.role == "assistant" and message.content)
    had = next(said, "")
    what = f"Its output so far:\n{had}" if had else "It had not said anything yet."
    return f"{path} was lost: the process ended.\n{what}"
