"""`/import-session`: a session of another program becomes one of ours, which is opened."""

import asyncio
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import cast, get_args

from sagent.errors import UsageError
from sagent.plugins.transfer.places import newest
from sagent.plugins.transfer.steps import PROGRAMS, Program
from sagent.plugins.transfer.writer import rows_of
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.terminal.picker import Option

MAX_CHOICES = 30


@command(here=True)
async def import_session(context: CommandContext, transcript: str = "", program: str = "") -> None:
    """Go on with a session of Claude Code, codex, Gemini CLI, opencode or pi.

    Give a file or an id, and the program if that is not clear, or choose from a list. The transcript stays as it is.
    """
    from sagent.plugins.transfer.command import take_over

    context.require_person("sagent resume")
    if context.turn.locked():
        raise UsageError("A turn is in progress: interrupt it first (Esc).")
    if program and program not in get_args(Program):
        raise UsageError(f"{program!r} is no program that sessions are taken over from: {', '.join(PROGRAMS)}.")
    chosen = cast("Program | None", program or None)
    which = transcript or await _choose(context)
    if not which:
        return
    settings = context.settings
    taken = await asyncio.to_thread(take_over, which, chosen, settings)
    context.say(taken.summary)
    for row in rows_of(taken.left_out):
        context.say(f"left out: {row}")
    context.reopen(replace(settings, session=taken.session, continue_session=False, ephemeral=False, fork=None))


async def _choose(context: CommandContext) -> str | None:
    """Let the person choose one of the newest transcripts. Raises UsageError if there is none."""
    found = await asyncio.to_thread(newest, None, Path("~").expanduser(), os.environ, MAX_CHOICES)
    if not found:
        raise UsageError(f"There is no transcript of {', '.join(PROGRAMS.values())} on this machine.")
    times = Counter(place.id for place in found)
    options = [
        Option(place.id if times[place.id] == 1 else str(place.file), f"{PROGRAMS[place.program]} {place.id}",
               also=place.id)
        for place in found
    ]  # fmt: skip
    return await context.pick("Which session?", options)
