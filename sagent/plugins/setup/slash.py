"""The commands that show what works here, and what belongs into a bug report."""

import os

from sagent.repl.commands.command import CommandContext, command
from sagent.repl.view.lines import table
from sagent.version import __version__

_MARKS = {"good": ("class:done", "✓"), "poor": ("class:warning", "!"), "bad": ("class:failed", "✗")}


@command(here=True)
async def doctor(context: CommandContext) -> None:
    """Check keys, providers, terminal and programs."""
    from sagent.plugins.setup.doctor import examine
    from sagent.plugins.setup.machine import next_step

    found = await examine(context.settings)
    rows = table([_MARKS[finding.state], ("", finding.what), ("class:dim", finding.detail)] for finding in found)
    context.write([*rows, (("", next_step(found, "/login")),)])


@command()
async def bug(context: CommandContext) -> None:
    """Show what to put into a bug report.

    Versions, terminal and session, but nothing of the conversation.
    """
    import platform

    lines = [
        f"sagent {__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"TERM={os.environ.get('TERM', '')} TERM_PROGRAM={os.environ.get('TERM_PROGRAM', '')}",
        f"session {context.opened.agent.log.path or 'in memory'}: attach it only if nothing in it is secret",
    ]
    context.write([(("", f"  {line}"),) for line in lines])
