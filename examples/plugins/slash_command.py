"""A slash command with a picker: /branch shows the branches of the repository and checks one out."""

import asyncio
import subprocess

from sagent.errors import UsageError
from sagent.plugin import Plugin, SlashCommand
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.terminal.picker import Option


@command(here=True)
async def branch(context: CommandContext, name: str = "") -> None:
    """Check out a branch.

    Give its name, or choose from a list of the latest.
    """
    cwd = context.settings.cwd

    async def git(*words: str) -> str:
        run = await asyncio.to_thread(subprocess.run, ["git", *words], cwd=cwd, capture_output=True, text=True)
        if run.returncode:
            raise UsageError(run.stderr.strip() or f"git {words[0]} failed")
        return run.stdout

    if not name:
        listed = await git("branch", "--sort=-committerdate", "--format=%(refname:short) %(subject)")
        rows = [line.partition(" ") for line in listed.splitlines()]
        chosen = await context.pick("Which branch?", [Option(one, one, hint) for one, _, hint in rows])
        if chosen is None:
            return
        name = chosen
    if name.startswith("-"):
        raise UsageError(f"{name} is no name of a branch.")
    await git("switch", "-q", name)
    context.say(f"On {name}.")


plugin = Plugin("slash-command", "checks out branches", slash_commands=(SlashCommand("branch", ":branch"),))
