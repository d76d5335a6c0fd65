"""Commands about sessions: what is open and what it cost, earlier ones, and how one leaves this machine."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sagent.errors import UsageError
from sagent.lib.figures import count, money
from sagent.lib.money import UNBILLED
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.commands.conversation import saved
from sagent.repl.terminal.picker import Option
from sagent.repl.view.lines import Line, Span, table
from sagent.session.store import Summary, find, summaries
from sagent.usage import Sum, Totals, Usage

if TYPE_CHECKING:
    from sagent.transcript.export import Exported

_FORMS = (
    ("html", "one page"),
    ("md", "Markdown"),
    ("jsonl", "every entry"),
    ("bundle", "all of it, checked by `sagent verify`"),
)


def _earlier(context: CommandContext) -> list[Summary]:
    """Sessions of this directory in which something was said, without the one that is open."""
    try:
        own = context.opened.agent.log.session_id
    except UsageError:
        own = ""
    return [one for one in _all(context) if one.id != own]


def _all(context: CommandContext) -> list[Summary]:
    return [one for one in summaries(context.settings.state_dir, context.settings.cwd) if one.title]


def _describe(summary: Summary) -> str:
    least = "≥" if summary.unpriced else ""
    return f"{summary.last[:16].replace('T', ' ')}  {least}{money(summary.usd)}  {summary.id}"


@command(complete=lambda context: [(one.id, one.title) for one in _earlier(context)])
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
    """List the sessions of this directory; ● is this one."""
    found = await asyncio.to_thread(_all, context)
    own = context.opened.agent.log.session_id
    marks = {own: ("class:done", "●")}
    rows = [[marks.get(one.id, ("", " ")), ("class:dim", _describe(one)), ("", one.title)] for one in found[:50]]
    context.write(table(rows or [[("class:dim", f"no sessions of {context.settings.cwd} yet")]]))


@command()
async def rename(context: CommandContext, text: str) -> None:
    """Give this session a name."""
    from sagent.session.contents import Label

    context.opened.agent.log.append(Label(text))
    context.say(f"This session is called {text!r} now")


@command()
async def status(context: CommandContext) -> None:
    """Show model, limits, session, permissions and sandbox."""
    from sagent.repl.commands.setup import sandbox_rows
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
        *await sandbox_rows(context),
        ("directory", ", ".join(map(str, dict.fromkeys((settings.cwd, *settings.add_dirs))))),
        ("session", f"{agent.log.session_id}  {agent.log.path or 'in memory only'}"),
    ]
    context.write(table([("class:dim", name), ("", value)] for name, value in rows))


@command()
async def cost(context: CommandContext) -> None:
    """Show what this session has cost.

    By role, model and agent, with the cache's share, and what compactions have saved.
    """
    ledger = context.opened.agent.ledger
    totals, spent = ledger.totals(), ledger.cost()
    whole = totals.whole.usage
    least = "≥ " if spent.unpriced else ""
    cap = f" of {money(ledger.cap)}" if ledger.cap is not None else ""
    read = f"{count(whole.total_input)} tokens read, {_cached(whole, '0%')} of them from the cache"
    tokens = f"  {read}; {count(whole.output)} written"
    rows = [*_rows("role", totals.by_role), *_rows("model", totals.by_model), *_rows("agent", totals.by_agent)]
    heading: Line = (("class:heading", f"{least}{money(spent.total)}{cap}"), ("class:dim", tokens))
    lines = [heading, *table(rows, right=(1, 2, 3, 4))]
    if spent.unpriced:
        lines.append((("class:warning", f"No known price: {', '.join(spent.unpriced)}"),))
    if spent.unbilled:
        lines.append((("class:warning", f"{money(spent.unbilled)} more count towards a cap ({UNBILLED})"),))
    if ledger.held:
        lines.append((("class:dim", f"{money(ledger.held)} are reserved by calls in flight"),))
    context.write([*lines, *await saved(context), *_on_the_advisor_alone(context, totals)])


def _cached(usage: Usage, nothing: str) -> str:
    return f"{usage.cache_read / usage.total_input:.0%}" if usage.total_input else nothing


def _rows(head: str, sums: Mapping[str, Sum]) -> Iterator[Sequence[Span]]:
    if sums:
        yield ()
        yield [("class:dim", word) for word in (head, "read", "cached", "written", "USD")]
    for name, each in sorted(sums.items(), key=lambda item: -item[1].usd):
        figures = (count(each.usage.total_input), _cached(each.usage, "-"), count(each.usage.output))
        yield [("", name), *(("class:dim", figure) for figure in figures), ("", money(each.usd))]


def _on_the_advisor_alone(context: CommandContext, totals: Totals) -> Iterator[Line]:
    """What the executors' tokens would have cost by the advisor's prices."""
    done = totals.by_role.get("executor", Sum()).usage
    for advisor in context.settings.advisors:
        name, _, model = advisor.model.partition("/")
        usd = context.opened.agent.ledger.prices.price(name, model, done)
        if usd is not None and done != Usage():
            yield ()
            yield (("class:dim", f"  The executor's work on {advisor.model} alone: {money(usd)}"),)


@command(complete=_FORMS)
async def export(
    context: CommandContext, form: Literal["html", "md", "jsonl", "bundle", ""] = "", file: str = ""
) -> None:
    """Write this session to a file for others.

    A page, which a browser shows, Markdown, entries, or a bundle. What looks like a secret is taken out and counted.
    """
    session = context.opened.agent.log.path
    if not session:
        raise UsageError("This session is not kept, so there is nothing to export.")
    suffix = {"": "html", "bundle": "tar"}.get(form, form)
    path = context.settings.cwd / Path(file or f"{Path(session).name}.{suffix}").expanduser()
    done = await asyncio.to_thread(_write, Path(session), path, form or "html")
    note = f"{done.secrets} that looked like secrets were taken out" if done.secrets else "nothing looks like a secret"
    context.say(f"Exported to {path}; {note}: look before you share it.")
    if context.has_person and path.suffix == ".html":
        show_page(path)
    for problem in done.problems[:10]:
        context.say(problem)


def show_page(page: Path) -> None:
    """Open a page in the desktop's browser, where there is a desktop."""
    mac = sys.platform == "darwin"
    program = shutil.which("open" if mac else "xdg-open")
    if program and (mac or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ):
        line = '"$0" "$1" </dev/null >/dev/null 2>&1 &'  # a browser may run on after us
        subprocess.run(["/bin/sh", "-c", line, program, page.resolve().as_uri()], start_new_session=True, check=False)


def _write(session: Path, path: Path, form: Literal["html", "md", "jsonl", "bundle"]) -> "Exported":
    from sagent.repl.settings_file import write_private
    from sagent.transcript.export import Exported, export_bundle, export_lines, export_text
    from sagent.transcript.export_redaction import Redaction

    redaction = Redaction()
    if form == "bundle":
        return export_bundle(session, path, redaction, {})
    if form == "jsonl":
        write_private(path, b"".join(export_lines(session, redaction)))
        return Exported(redaction.count)
    page, done = export_text(session, form, redaction)
    write_private(path, page)
    return done
