"""Commands about sessions."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from sagent.errors import UsageError
from sagent.repl.command import command
from sagent.repl.desk import Desk
from sagent.repl.picker import Option
from sagent.session.store import Summary, find, summaries

if TYPE_CHECKING:
    from sagent.repl.lines import Line


def _earlier(desk: Desk) -> list[Summary]:
    """Those of this directory in which something was said, without the one that is open."""
    try:
        own = desk.opened.agent.log.session_id
    except UsageError:
        own = ""
    found = summaries(desk.settings.state_dir, desk.settings.cwd)
    return [one for one in found if one.title and one.id != own]


def _told(summary: Summary) -> str:
    from sagent.repl.transcript import money

    least = "≥" if summary.unpriced else ""
    return f"{summary.last[:16].replace('T', ' ')}  {least}{money(summary.usd)}  {summary.id}"


def _ids(desk: Desk) -> list[tuple[str, str]]:
    return [(one.id, one.title) for one in _earlier(desk)]


@command(complete=_ids)
async def resume(desk: Desk, session: str = "") -> None:
    """Go on with an earlier session: its id, the beginning of it, or from a list."""
    settings = desk.settings
    if session:
        path = await asyncio.to_thread(find, settings.state_dir, session, settings.cwd)
    else:
        found = await asyncio.to_thread(_earlier, desk)
        if not found:
            raise UsageError(f"There is no earlier session of {settings.cwd}.")
        chosen = await desk.pick("Which session?", [Option(one.path, one.title, _told(one)) for one in found])
        if chosen is None:
            return
        path = chosen
    desk.reopen(replace(settings, session=path, continue_session=False, ephemeral=False))


@command(name="sessions")
async def list_sessions(desk: Desk) -> None:
    """The sessions of this directory, last used first."""
    found = await asyncio.to_thread(_earlier, desk)
    rows: list[Line] = [(("class:dim", f"  {_told(one)}  "), ("", one.title)) for one in found[:50]]
    desk.write(rows or [(("class:dim", f"  no sessions of {desk.settings.cwd} yet"),)])


@command()
async def rename(desk: Desk, text: str) -> None:
    """Give this session a name."""
    from sagent.session.entries import label

    desk.opened.agent.log.append("label", label(text))
    desk.say(f"This session is called {text!r} now")


@command()
async def status(desk: Desk) -> None:
    """Model, limits, session, directory, permissions at a glance."""
    from sagent import __version__
    from sagent.repl.transcript import count, money

    agent, settings = desk.opened.agent, desk.settings
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
        ("permissions", desk.opened.policy.mode),
        ("directory", ", ".join(map(str, dict.fromkeys((settings.cwd, *settings.add_dirs))))),
        ("session", f"{agent.log.session_id}  {agent.log.path or 'kept in memory only'}"),
    ]
    desk.write([(("class:dim", f"  {name:12}"), ("", value)) for name, value in rows])
