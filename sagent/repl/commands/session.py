"""Commands about sessions."""

import asyncio
from dataclasses import replace

from sagent.errors import UsageError
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.terminal.picker import Option
from sagent.repl.view.figures import count, money
from sagent.repl.view.table import table
from sagent.session.store import Summary, find, summaries


def _earlier(context: CommandContext) -> list[Summary]:
    """Sessions of this directory in which something was said, without the one that is open."""
    try:
        own = context.opened.agent.log.session_id
    except UsageError:
        own = ""
    found = summaries(context.settings.state_dir, context.settings.cwd)
    return [one for one in found if one.title and one.id != own]


def _describe(summary: Summary) -> str:
    least = "≥" if summary.unpriced else ""
    return f"{summary.last[:16].replace('T', ' ')}  {least}{money(summary.usd)}  {summary.id}"


def _ids(context: CommandContext) -> list[tuple[str, str]]:
    return [(one.id, one.title) for one in _earlier(context)]


@command(complete=_ids)
async def resume(context: CommandContext, session: str = "") -> None:
    """Continue an earlier session.

    Name it by its id or the beginning of it, or choose from a list.
    """
    settings = context.settings
    if session:
        path = await asyncio.to_thread(find, settings.state_dir, session, settings.cwd)
    else:
        found = await asyncio.to_thread(_earlier, context)
        if not found:
            raise UsageError(f"There is no earlier session of {settings.cwd}.")
        chosen = await context.pick("Which session?", [Option(one.path, one.title, _describe(one)) for one in found])
        if chosen is None:
            return
        path = chosen
    context.reopen(replace(settings, session=path, continue_session=False, ephemeral=False))


@command(name="sessions")
async def list_sessions(context: CommandContext) -> None:
    """List the sessions of this directory."""
    found = await asyncio.to_thread(_earlier, context)
    rows = [[("class:dim", _describe(one)), ("", one.title)] for one in found[:50]]
    context.write(table(rows or [[("class:dim", f"no sessions of {context.settings.cwd} yet")]]))


@command()
async def rename(context: CommandContext, text: str) -> None:
    """Give this session a name."""
    from sagent.session.contents import Label

    context.opened.agent.log.append(Label(text))
    context.say(f"This session is called {text!r} now")


@command()
async def status(context: CommandContext) -> None:
    """Show model, limits, session and permissions."""
    from sagent.version import __version__

    agent, settings = context.opened.agent, context.settings
    now = agent.status()
    window = f" of {count(now.window)}" if now.window else ""
    rows = [
        ("sagent", __version__),
        ("model", f"{now.model}{f', effort {now.effort}' if now.effort else ''}"),
        ("advisors", ", ".join(f"{one.name} ({one.model})" for one in settings.advisors) or "none"),
        ("context", f"about {count(now.context_tokens)} tokens{window}"),
        ("cost", money(now.usd_tree)),
        ("limits", ", ".join(f"{name} {value}" for name, value in now.limits.items()) or "none"),
        ("jobs", ", ".join(f"{job.name} {job.tool} {job.what}" for job in now.jobs) or "none"),
        ("permissions", context.opened.policy.mode),
        ("directory", ", ".join(map(str, dict.fromkeys((settings.cwd, *settings.add_dirs))))),
        ("session", f"{agent.log.session_id}  {agent.log.path or 'in memory only'}"),
    ]
    context.write(table([("class:dim", name), ("", value)] for name, value in rows))
