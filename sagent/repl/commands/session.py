"""Commands about sessions."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.repl.commands.command import command
from sagent.repl.commands.context import CommandContext
from sagent.repl.terminal.picker import Option
from sagent.rewind.plan import way_back
from sagent.session.folds import Point, points
from sagent.session.store import Summary, copy, find, summaries

if TYPE_CHECKING:
    from sagent.repl.view.lines import Line
    from sagent.rewind.restore import FileChanges

_MOST_ROWS = 20  # files that are shown one by one


def _earlier(context: CommandContext) -> list[Summary]:
    """Those of this directory in which something was said, without the one that is open."""
    try:
        own = context.opened.agent.log.session_id
    except UsageError:
        own = ""
    found = summaries(context.settings.state_dir, context.settings.cwd)
    return [one for one in found if one.title and one.id != own]


def _told(summary: Summary) -> str:
    from sagent.repl.view.transcript import money

    least = "≥" if summary.unpriced else ""
    return f"{summary.last[:16].replace('T', ' ')}  {least}{money(summary.usd)}  {summary.id}"


def _ids(context: CommandContext) -> list[tuple[str, str]]:
    return [(one.id, one.title) for one in _earlier(context)]


@command(complete=_ids)
async def resume(context: CommandContext, session: str = "") -> None:
    """Go on with an earlier session: its id, the beginning of it, or from a list."""
    settings = context.settings
    if session:
        path = await asyncio.to_thread(find, settings.state_dir, session, settings.cwd)
    else:
        found = await asyncio.to_thread(_earlier, context)
        if not found:
            raise UsageError(f"There is no earlier session of {settings.cwd}.")
        chosen = await context.pick("Which session?", [Option(one.path, one.title, _told(one)) for one in found])
        if chosen is None:
            return
        path = chosen
    context.reopen(replace(settings, session=path, continue_session=False, ephemeral=False))


@command(name="sessions")
async def list_sessions(context: CommandContext) -> None:
    """The sessions of this directory, last used first."""
    found = await asyncio.to_thread(_earlier, context)
    rows: list[Line] = [(("class:dim", f"  {_told(one)}  "), ("", one.title)) for one in found[:50]]
    context.write(rows or [(("class:dim", f"  no sessions of {context.settings.cwd} yet"),)])


@command()
async def rename(context: CommandContext, text: str) -> None:
    """Give this session a name."""
    from sagent.session.entries import label

    context.opened.agent.log.append("label", label(text))
    context.say(f"This session is called {text!r} now")


@command()
async def status(context: CommandContext) -> None:
    """Model, limits, session, directory, permissions at a glance."""
    from sagent.repl.view.transcript import count, money
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
        ("session", f"{agent.log.session_id}  {agent.log.path or 'kept in memory only'}"),
    ]
    context.write([(("class:dim", f"  {name:12}"), ("", value)) for name, value in rows])


def _points(context: CommandContext) -> tuple[Point, ...]:
    found = points(context.opened.agent.log.contents())
    if not found:
        raise UsageError("Nothing was asked in this session yet.")
    return found


def _chosen(found: tuple[Point, ...], name: str) -> Point:
    """A request by its number in `/tree`, or the beginning of its entry's id."""
    fitting = [point for point in found if len(name) > 3 and point.entry.startswith(name)]
    if not fitting and name.isdecimal() and 0 < int(name) <= len(found):
        fitting = [found[int(name) - 1]]
    if len(fitting) != 1:
        raise UsageError(f"There is no request {name}: give its number in /tree, 1 to {len(found)}.")
    return fitting[0]


def _line_of(point: Point) -> str:
    words = " ".join(point.text.split()) or "(no text)"
    return words if len(words) <= 80 else f"{words[:79]}…"


@dataclass(frozen=True, slots=True)
class _Goal:
    """Where to go: the entries for the conversation ("" where it stays) and for the files, and what to say of it."""

    conversation: str
    files: str
    told: str
    text: str = ""  # comes back into the input


def _goal_of(point: Point) -> _Goal:
    entry = point.before if point.current else point.tip
    told = f"{'back before' if point.current else 'again after'}: {_line_of(point)}"
    return _Goal(entry, entry, told, point.text if point.current else "")


@command()
async def rewind(
    context: CommandContext, request: str = "", what: Literal["", "both", "conversation", "files"] = ""
) -> None:
    """Go back to before a request, by its number in /tree or from a list; the request comes back into the input.

    Where files have changed since, what winding them back would do is shown, and you choose: conversation and files, or
    only one of them. What somebody else has changed is left alone. What came after is kept as a branch, to which
    /rewind goes forward again, files included.
    """
    found = _points(context)
    agent = context.opened.agent
    goal = _goal_of(_chosen(found, request)) if request else await _picked(context, found)
    if goal is None:
        return
    chosen = what or await _choose(context, goal, await agent.preview(goal.files))
    if chosen in ("both", "conversation") and goal.conversation:
        agent.rewind(goal.conversation)
        context.rewound(goal.text)
        context.say(goal.told)
    if chosen in ("both", "files"):
        done = await agent.rewind_files(goal.files)
        context.say(f"files {goal.told}: {_count(done)}")
        context.write(_left(done, context.settings.cwd))


async def _picked(context: CommandContext, found: tuple[Point, ...]) -> _Goal | None:
    """What the person wants to go back to."""
    here = [each for each in reversed(found) if each.current]
    options = [Option(_goal_of(each), _line_of(each), each.at[:16].replace("T", " ")) for each in here]
    if back := way_back(context.opened.agent.log.contents()):
        goal = _Goal(back.conversation, back.files, "as it was before the last /rewind")
        options.insert(0, Option(goal, "undo the last /rewind of files", back.at[:16].replace("T", " ")))
    return await context.pick("Back to before which request?", options)


async def _choose(context: CommandContext, goal: _Goal, seen: "FileChanges") -> str:
    """Show what would become of files, and have the person choose; "" is nothing."""
    if not seen.changed:
        context.write(_left(seen, context.settings.cwd))
        if not goal.conversation:
            context.say("The files are as they were then.")
        return "conversation"
    context.write([*_changed(seen, context.settings.cwd), *_left(seen, context.settings.cwd)])
    choices = [Option("both", "conversation and files"), Option("conversation", "conversation only")]
    if not goal.conversation:
        choices.clear()
    options = [*choices, Option("files", "files only"), Option("", "cancel")]
    try:
        return await context.pick(f"Wind back what? Files: {_count(seen)}", options) or ""
    except UsageError:
        if not goal.conversation:
            raise
        context.say("Files stay as they are: /rewind NUMBER both winds them back too.")
        return "conversation"


def _count(changes: "FileChanges") -> str:
    hows = [change.how for change in changes.changed]
    told = [f"{hows.count(how)} {how}" for how in dict.fromkeys(hows)]
    left = [f"{len(changes.left)} left alone"] if changes.left else []
    return ", ".join((*told, *left)) or "none changed"


def _changed(changes: "FileChanges", cwd: Path) -> "list[Line]":
    """The files that change, with their lines."""
    rows: list[Line] = []
    for change in changes.changed[:_MOST_ROWS]:
        lines = (("class:diff.added", f" +{change.added}"), ("class:diff.removed", f" -{change.removed}"))
        rows.append((("class:dim", f"  {change.how:8}"), ("", _short(change.path, cwd)), *lines))
    return rows + _rest(len(changes.changed))


def _left(changes: "FileChanges", cwd: Path) -> "list[Line]":
    """The files that stay as they are, those nobody can tell of, and what is never covered."""
    rows: list[Line] = []
    for mark, each in [
        *(("left alone", one) for one in changes.left),
        *(("not covered", one) for one in changes.omitted),
    ]:
        rows.append((("class:warning", f"  {mark} "), ("", _short(each.path, cwd)), ("class:dim", f": {each.why}")))
    rows[_MOST_ROWS:] = _rest(len(rows))
    if changes.commands:
        rows.append((("class:dim", f"  Commands ran: what they did outside {cwd}, or where git ignores it, stays."),))
    return rows


def _rest(count: int) -> "list[Line]":
    return [(("class:dim", f"  … {count - _MOST_ROWS} more"),)] if count > _MOST_ROWS else []


def _short(path: str, cwd: Path) -> str:
    from sagent.lib.names import quote_path

    return quote_path(path.removeprefix(f"{cwd}/"))


@command(name="tree")
async def show_tree(context: CommandContext) -> None:
    """What was asked in this session, branches included; the conversation as it stands is marked."""
    rows: list[Line] = []
    for number, point in enumerate(_points(context), 1):
        mark = "●" if point.current else "○"
        indent = "  " * min(point.depth, 20)
        rows.append(
            (("class:dim", f"  {number:>3} {mark} {indent}"), ("" if point.current else "class:dim", _line_of(point)))
        )
    context.write(rows)


@command()
async def fork(context: CommandContext, request: str = "") -> None:
    """Go on in a copy of this session, as it is now or from before a request; this one stays as it is."""
    settings, agent = context.settings, context.opened.agent
    if not agent.log.path:
        raise UsageError("This session is not kept, so there is nothing to copy.")
    entry = _chosen(_points(context), request).before if request else ""
    path = await asyncio.to_thread(copy, Path(agent.log.path), settings.state_dir, settings.cwd, entry)
    context.reopen(replace(settings, session=path, continue_session=False, ephemeral=False, fork=None))
