"""Commands about permissions, tools, settings and the terminal."""

import os
import platform
from typing import TYPE_CHECKING, Literal

from sagent.errors import UsageError
from sagent.policy.permissions import MODES
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.view.lines import cut
from sagent.repl.view.table import table
from sagent.repl.view.theme import THEMES

if TYPE_CHECKING:
    from sagent.repl.view.lines import Line

_MODES = {
    "plan": "look only, change nothing",
    "ask": "ask before writing or running",
    "edit": "edit in the project freely, ask before running",
    "full": "ask nothing",
}

_MARKS = {"good": ("class:done", "✓"), "poor": ("class:warning", "!"), "bad": ("class:failed", "✗")}


def _modes(context: CommandContext) -> list[tuple[str, str]]:
    del context
    return list(_MODES.items())


@command(complete=_modes)
async def permissions(context: CommandContext, mode: Literal["plan", "ask", "edit", "full", ""] = "") -> None:
    """Show or change the permission mode.

    The rules are shown too. A change is for this session.
    """
    policy = context.opened.policy
    for known in MODES:
        if mode == known:
            policy.mode = known
            context.say(f"Permission mode {mode}: {_MODES[known]}")
            return
    rows: list[Line] = [(("", "Mode "), ("class:mode", policy.mode), ("class:dim", f": {_MODES[policy.mode]}"))]
    rows += [(("class:done", "  allow "), ("", str(rule))) for rule in policy.rules.allow]
    rows += [(("class:failed", "  deny  "), ("", str(rule))) for rule in policy.rules.deny]
    context.write(rows)


@command(name="tools")
async def list_tools(context: CommandContext) -> None:
    """List the model's tools."""
    tools = [(tool.name, tool.description.split(". ", 1)[0].split("\n", 1)[0]) for tool in context.opened.agent.tools]
    rows = [[("class:tool", name), ("class:dim", cut(about, 160))] for name, about in tools]
    context.write(table(rows or [[("class:dim", "none")]]))


@command(name="config")
async def show_config(context: CommandContext, name: str = "") -> None:
    """Show the settings and where they come from.

    With a name, only those whose names contain it.
    """
    from sagent.config.report import show

    rows = [row for row in show(context.settings) if name in row.name]
    if not rows:
        raise UsageError(f"There is no setting with {name!r} in its name.")
    width = max(len(row.name) for row in rows)
    context.write([(("", f"  {row.name:{width}}  {row.value}"), ("class:dim", f"  ({row.origin})")) for row in rows])


@command(name="vim")
async def set_vim(context: CommandContext, state: Literal["on", "off", ""] = "") -> None:
    """Turn vi keys in the input on or off."""
    context.set_display("vim", state)


def _themes(context: CommandContext) -> list[tuple[str, str]]:
    del context
    return [(name, "") for name in THEMES]


@command(complete=_themes)
async def theme(context: CommandContext, name: str) -> None:
    """Set the colours: auto, dark, light or plain."""
    context.set_display("theme", name)


@command()
async def doctor(context: CommandContext) -> None:
    """Check keys, providers, terminal and programs."""
    from sagent.repl.doctor import examine

    found = await examine(context.settings)
    context.write(table([_MARKS[one.state], ("", one.what), ("class:dim", one.detail)] for one in found))


@command()
async def bug(context: CommandContext) -> None:
    """Show what to put into a bug report.

    Versions, terminal and session; nothing of the conversation.
    """
    from sagent.version import __version__

    lines = [
        f"sagent {__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"TERM={os.environ.get('TERM', '')} TERM_PROGRAM={os.environ.get('TERM_PROGRAM', '')}",
        f"session {context.opened.agent.log.path or 'in memory'}: attach it only if nothing in it is secret",
    ]
    context.write([(("", f"  {line}"),) for line in lines])
