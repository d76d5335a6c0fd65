"""`/attach` and `/bg`, and the lines of `/sessions` about what runs in the background."""

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.errors import UsageError
from sagent.messages import user
from sagent.plugins.background.records import Record, find, records
from sagent.repl.commands.command import CommandContext, command

if TYPE_CHECKING:
    from sagent.config import Settings

_OF_THE_START = (
    *("prompt", "print", "image", "continue", "resume", "session", "fork", "ephemeral", "output_format"),
    *("plan", "worktree"),
)
"""Flags of this process that are not those of its session in the background."""
_GO_ON = "Go on."


def _open(settings: "Settings") -> list[Record]:
    return [record for record in reversed(records(settings.state_dir)) if record.is_open]


def _names(context: CommandContext) -> Iterator[tuple[str, str]]:
    yield from ((record.id, record.title) for record in _open(context.settings))


@command(complete=_names)
async def attach(context: CommandContext, session: str = "") -> None:
    """Follow a session that runs in the background, as if it ran here.

    Give its id or the beginning of its id, or choose from a list with what each does and asks. The session that was
    open here is closed, and can be resumed; one that runs in the background goes on.
    """
    from sagent.plugins.background.watching import Watch

    settings = context.settings
    if context.turn.locked() and context.elsewhere is None:
        raise UsageError("A turn is in progress: interrupt it first (Esc), or /bg takes it to the background.")
    if session:
        record = await asyncio.to_thread(find, settings.state_dir, session)
    else:
        picked = await Watch(settings.state_dir).pick(context)
        if picked is None:
            if not await asyncio.to_thread(_open, settings):
                raise UsageError('No session runs in the background. `sagent --bg "TASK"` or /bg starts one.')
            return
        record = picked
    if not record.is_open:
        raise UsageError(f"Session {record.id} does not run: {record.condition}. To open it here: /resume {record.id}")
    await _follow(context, record)


async def _follow(context: CommandContext, record: Record) -> None:
    """Leave the session that is open, and follow another. Raises UsageError."""
    if context.turn.locked() and context.elsewhere is None:
        raise UsageError("A turn is in progress: interrupt it first (Esc), or /bg takes it to the background.")
    await _leave(context)
    path = Path(record.path)
    context.reopen(replace(context.settings, session=path, continue_session=False, ephemeral=False, fork=None))


async def show_running(context: CommandContext) -> bool:
    """Let the person watch, answer and stop what runs in the background, or attach to it; return False if nothing
    does."""
    from sagent.plugins.background.watching import watch

    if not await asyncio.to_thread(_open, context.settings):
        return False
    if (record := await watch(context)) is not None:
        await _follow(context, record)
    return True


async def _leave(context: CommandContext) -> None:
    """Leave the session that is followed, if one is: it goes on."""
    if context.elsewhere is None:
        return
    from sagent.plugins.background.attached import LocalAgent

    if isinstance(agent := context.opened.agent, LocalAgent):
        agent.leave()
    async with context.turn:  # which ends with it
        pass


@command()
async def bg(context: CommandContext, prompt: str = "") -> None:
    """Let this session go on in the background, and leave it.

    A turn in progress is continued there; with a prompt, that is its next one. One that runs in the background already
    is only left; if `/attach` was typed before, a new session begins here.
    """
    from sagent.cli.flags import parse_run, plugins_of
    from sagent.plugins.background.starting import start_later

    if not context.has_person:
        raise UsageError("There is no terminal to leave. `sagent --bg` runs a prompt in the background.")
    if context.elsewhere is not None:
        if prompt:
            context.opened.agent.send(user(prompt))
        if sys.argv[1:2] == ["attach"] or context.settings.session is None:
            context.leave()
            return
        session = context.opened.agent.log.session_id
        await _leave(context)
        settings = replace(context.settings, session=None, continue_session=False, fork=None)
        context.reopen(settings, None, f"This is a new session. {session} goes on: /attach {session}")
        return
    agent, policy, settings = context.local, context.opened.policy, context.settings
    if not agent.log.path:
        raise UsageError("This session is not saved, so that it cannot go on in the background.")
    if not (prompt or agent.running):
        raise UsageError("Nothing is in progress. `/bg PROMPT` has a prompt answered in the background.")
    flags = {
        name: value
        for name, value in parse_run(plugins_of(sys.argv[1:]), sys.argv[1:]).items()
        if name not in _OF_THE_START
    }
    flags |= {"cwd": str(settings.cwd), "resume": agent.log.path, "permission_mode": policy.mode}
    if (cap := agent.ledger.cap) is not None:
        flags["max_budget_usd"] = f"{cap:f}"
    await asyncio.to_thread(start_later, settings.state_dir, flags, user(prompt or _GO_ON))
    context.say(f"It goes on in the background. To come back: sagent attach {agent.log.session_id}")
    context.leave()


def listed(settings: "Settings") -> list[tuple[str, str, str]]:
    """Return what runs in the background, or was killed within a day: the id, facts, and the task."""
    from sagent.plugins.background.commands.listing import is_current

    current = [
        record for record in reversed(records(settings.state_dir)) if is_current(record) and record.state != "ended"
    ]
    return [(record.id, f"{record.condition}  {record.bill}", record.title) for record in current]
