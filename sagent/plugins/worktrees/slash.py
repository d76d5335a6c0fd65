"""`/worktree`: what was done in the worktree of a session, and what becomes of it."""

import asyncio
import os
from typing import TYPE_CHECKING, Literal

from sagent.errors import UsageError
from sagent.repl.commands.command import CommandContext, command

if TYPE_CHECKING:
    from sagent.plugins.worktrees.record import Record


@command(here=True)
async def worktree(
    context: CommandContext, what: Literal["", "list", "diff", "merge", "drop"] = "", name: str = ""
) -> None:
    """Show the worktree of this session, merge it or drop it.

    `/worktree diff` shows what was done in it, `/worktree merge` brings that into your work tree, where you can go on
    from; `/worktree drop NAME` removes another one. At the end of a session you are asked what becomes of its own.
    `sagent --worktree` begins one.
    """
    from sagent.plugins.worktrees.record import records, repository_at
    from sagent.plugins.worktrees.worktree import diff, outcome, outcome_or_reason, ways

    settings = context.settings
    repository = await asyncio.to_thread(repository_at, settings.cwd, settings.state_dir)
    every = [*records(repository)]
    own = next((each for each in every if os.path.realpath(each.path) == os.path.realpath(repository.root)), None)
    record = next((each for each in every if each.name == name), None) if name else own
    if what == "list" or (not what and record is None):
        for each in every:
            context.say(f"{each.name}: {await asyncio.to_thread(outcome_or_reason, each)} · {each.path}")
        if not every:
            context.say("There are no worktrees of this repository. `sagent --worktree` begins a session in one.")
        return
    if record is None:
        names = ", ".join(each.name for each in every) or "none"
        raise UsageError(f"Give the name of a worktree. There are: {names}.")
    match what:
        case "diff":
            for line in (await asyncio.to_thread(diff, record)).decode("utf-8", "replace").splitlines():
                context.say(line)
        case "merge" | "drop":
            if context.turn.locked():
                raise UsageError("A turn is in progress: interrupt it first (Esc).")
            context.say(await asyncio.to_thread(_end, record, what, own=record is own))
        case _:
            then = "See /worktree diff, then /worktree merge." if record is own else ways(record)
            context.say(f"{record.name}: {await asyncio.to_thread(outcome, record)} · {record.path}. {then}")


def _end(record: "Record", action: Literal["merge", "drop"], *, own: bool) -> str:
    """Merge or drop a worktree, and return what was done. The session's own stays after a merge."""
    from sagent.plugins.worktrees.record import holding
    from sagent.plugins.worktrees.worktree import advance, merge, outcome_or_reason, remove

    if own and action == "drop":
        raise UsageError("This session works in it: leave with /exit, and drop it when you are asked.")
    if own:
        done = merge(record)
        advance(record)
        return f"Merged into {record.root}: {done}."
    with holding(record):
        done = merge(record) if action == "merge" else outcome_or_reason(record)
        remove(record)
    return f"The worktree {record.name} is {'merged' if action == 'merge' else 'dropped'}: {done}."
