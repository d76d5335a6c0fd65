"""What an earlier process left in an agent's log, taken up: unread messages, lost jobs, children, open checkpoints."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from sagent.agent import spawn
from sagent.agent.tree import Tree
from sagent.engine.inbox import Arrived
from sagent.engine.state import AgentState
from sagent.errors import SagentError
from sagent.messages import user
from sagent.rewind.plan import cut_off
from sagent.session.contents import Returned, Spawned
from sagent.session.entries import Entry
from sagent.session.folds import branch_contents, contents, history, last_job, lost_jobs, unread

if TYPE_CHECKING:
    from sagent.peer import Moment

Revive: TypeAlias = Callable[[Spawned, Sequence[str]], Awaitable[None]]
"""Brings a child back that lives on: by the entry that says how it was spawned, and the heads of logs that ended a
turn."""


async def resume(state: AgentState, tree: Tree, revive: Revive) -> Iterable[Entry]:
    """Take up what the log says; its entries, as they were before."""
    entries = state.log.contents()
    for found in unread(entries, state.log.blobs.get):
        moment: Moment = "idle" if found.moment == "idle" else "next"
        state.inbox.put(Arrived(found.message, found.entry, found.answer), moment)
    for what in cut_off(entries.of("touched")):
        state.journal.record(what)
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
                await revive(born, heads)
            else:
                _report_lost(state, path, heads)
        except (SagentError, OSError, ValueError) as error:
            state.journal.notify("warning", text := f"{path} is not there again: {error}")
            state.receive(user(text, sender="sagent"), "next")
    return entries


def _report_lost(state: AgentState, path: str, heads: Sequence[str]) -> None:
    """Report what a child had that was to answer once, where the process ended before it did."""
    log = state.log.child(path)
    entries = log.contents()
    if (text := spawn.cut_off(path, entries, heads, history(entries, state.log.blobs.get))) is not None:
        for what in cut_off(entries.of("touched")):
            log.append(what)
        state.receive(user(text, sender="sagent"), "next")
        state.journal.record(Returned(path, log.head))
    log.close()
