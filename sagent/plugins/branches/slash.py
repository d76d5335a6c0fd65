"""Commands that go back in a session, or continue a copy of it."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.names import quote_path
from sagent.lib.text import one_line
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.opening import SessionChoices
from sagent.repl.terminal.picker import Option
from sagent.repl.view.diff import render_whole_diff
from sagent.repl.view.lines import Line, printable, wrap
from sagent.session.folds import Point, points
from sagent.session.store import copy, delete

if TYPE_CHECKING:
    from sagent.rewind.filediff import FileDiff
    from sagent.rewind.restore import FileChanges

_MAX_SEARCHED_CHARS = 4_000  # characters of a request that are searched for secrets, more than are shown
_MAX_ROWS = 20  # files that are shown each on its own row
_DONE = {"written": "changed", "created": "deleted", "deleted": "created"}  # changes, by the actions that undo them


def _points(context: CommandContext) -> tuple[Point, ...]:
    found = points(context.opened.agent.log.contents())
    if not found:
        raise UsageError("This session has no prompts yet.")
    return found


def _chosen(points: tuple[Point, ...], name: str) -> Point:
    """Return a request by its number in `/tree`, or the beginning of its entry's id."""
    fitting = [point for point in points if len(name) > 3 and point.entry.startswith(name)]
    if not fitting and name.isdecimal() and 0 < int(name) <= len(points):
        fitting = [points[int(name) - 1]]
    if len(fitting) != 1:
        raise UsageError(f"There is no prompt {name}: give a number from /tree, 1 to {len(points)}.")
    return fitting[0]


def _line_of(point: Point) -> str:
    from sagent.lib.secrets import redact

    return one_line(redact(point.text[:_MAX_SEARCHED_CHARS])[0], 80) or "(no text)"


@dataclass(frozen=True, slots=True)
class _Goal:
    """The goal of going back: the entries for the conversation ("" if it stays) and for the files, and its name."""

    conversation: str
    files: str
    label: str
    text: str = ""  # comes back into the input


def _goal_of(point: Point) -> _Goal:
    entry = point.before if point.current else point.tip
    label = f"{'back to before' if point.current else 'forward to after'}: {_line_of(point)}"
    return _Goal(entry, entry, label, point.text if point.current else "")


@command(here=True)
async def rewind(
    context: CommandContext, prompt: str = "", what: Literal["", "both", "conversation", "files"] = ""
) -> None:
    """Go back to before a prompt.

    Give its number in /tree, or choose from a list; the prompt is put back into the input. If files have changed since,
    it shows what restoring them would do, and you choose: conversation and files, or only one of them. Files that
    someone else has changed are left alone. The later part is kept as a branch, to which /rewind can go forward
    again, files included.
    """
    found = _points(context)
    agent = context.local
    goal = _goal_of(_chosen(found, prompt)) if prompt else await _picked(context, found)
    if goal is None:
        return
    chosen: str = what
    shown: list[Line] = []
    if not chosen:
        seen = await agent.preview(goal.files)
        shown, chosen = _unchanged(seen, context.settings.cwd), await _choose(context, goal, seen)
    if chosen in ("both", "conversation") and goal.conversation:
        agent.rewind(goal.conversation)
        context.rewound(goal.text)
        context.say(goal.label)
    if chosen in ("both", "files"):
        done = await agent.rewind_files(goal.files)
        context.say(f"files {goal.label}: {_count(done)}")
        if (unchanged := _unchanged(done, context.settings.cwd)) != shown:
            context.write(unchanged)


async def _picked(context: CommandContext, points: tuple[Point, ...]) -> _Goal | None:
    from sagent.plugins.branches.undo import way_back

    here = [point for point in reversed(points) if point.current]
    options = [
        Option(_goal_of(each), _line_of(each), each.at[:16].replace("T", " "), keywords=each.text) for each in here
    ]
    if back := way_back(context.opened.agent.log.contents()):
        goal = _Goal(back.conversation, back.files, "as it was before the last /rewind")
        options.insert(0, Option(goal, "undo the last /rewind of files", back.at[:16].replace("T", " ")))
    return await context.pick("Back to before which prompt?", options)


async def _choose(context: CommandContext, goal: _Goal, changes: "FileChanges") -> str:
    """Show what would happen to files, and let the person choose; "" is nothing."""
    if not changes.changed:
        context.write(_unchanged(changes, context.settings.cwd))
        if not goal.conversation:
            context.say("The files are as they were then.")
        return "conversation"
    context.write([*_changed(changes, context.settings.cwd), *_unchanged(changes, context.settings.cwd)])
    both = [Option("both", "conversation and files"), Option("conversation", "conversation only")]
    options = [*(both if goal.conversation else ()), Option("files", "files only"), Option("", "cancel")]
    try:
        return await context.pick(f"Restore what? Files: {_count(changes)}", options) or ""
    except UsageError:
        if not goal.conversation:
            raise
        context.say("Files stay as they are: /rewind NUMBER both restores them too.")
        return "conversation"


@command(here=True)
async def diff(context: CommandContext, file: str = "", what: Literal["", "undo"] = "") -> None:
    """Show which files this session has changed, or undo the changes to one of them.

    Choose a file to see its diff; u, or /diff FILE undo, restores it to its state before this session, and /rewind can
    undo that. A file that someone else has changed since is left alone. Without a terminal, a patch is printed.
    """
    agent, cwd = context.local, context.settings.cwd
    while True:
        changes = await agent.preview("")
        paths = {each.path: f"{_DONE[each.how]} +{each.removed} -{each.added}" for each in changes.changed}
        paths |= {each.path: f"cannot be undone: {each.why}" for each in changes.left}
        if not paths:
            context.write(_unchanged(changes, cwd))
            context.say("This session has changed no files.")
            return
        if file:
            path: str | None = _named(file, list(paths), cwd)
        elif context.has_person:
            total = sum(each.removed for each in changes.changed), sum(each.added for each in changes.changed)
            files = "1 file" if len(paths) == 1 else f"{len(paths)} files"
            title = f"Changed in this session: {files}, +{total[0]} -{total[1]}. Which one?"
            path = await context.pick(title, [Option(each, _short(each, cwd), paths[each]) for each in paths])
        else:
            for each in paths:
                context.write([(("", line),) for line in _patch(await agent.diff(each), cwd)])
            return
        if path is None:
            return
        undone = what == "undo" or await _reviewed(context, await agent.diff(path), paths[path])
        if undone:
            context.say(f"{_short(path, cwd)}: {_count(done := await agent.rewind_files('', path))}")
            context.write(_unchanged(replace(done, omitted=(), commands=False), cwd))
        if file or not context.has_person:
            return


def _named(file: str, paths: Sequence[str], cwd: Path) -> str:
    """Return the file of a session that a name means: a path from the working directory, or the end of a path."""
    whole = [path for path in paths if path in (file, str(cwd / file))]
    found = whole or [path for path in paths if path.endswith(f"/{file.removeprefix('./')}")]
    if len(found) == 1:
        return found[0]
    names = ", ".join(_short(path, cwd) for path in (found or paths)[:_MAX_ROWS])
    raise UsageError(f"{file} {'means several' if found else 'is not one of the'} changed files: {names}")


async def _reviewed(context: CommandContext, change: "FileDiff", text: str) -> bool:
    """Show a file's diff. Returns whether the person wants the file restored and has confirmed it."""
    name = _short(change.path, context.settings.cwd)
    if not context.has_person:
        context.write([(("", line),) for line in _patch(change, context.settings.cwd)])
        return False

    def shown(width: int) -> Sequence[Line]:
        head: Line = (("class:ask", "? "), ("class:tool", name), ("class:dim", f"  {text}"))
        note = wrap([("class:dim", printable(change.note))], width, (("", "  "),)) if change.note else []
        return [*wrap(head, width), *note, *(render_whole_diff(change.diff, width, change.path) if change.diff else ())]

    undo = [] if text.startswith("cannot") else [Option("undo", "Undo it in this file", key="u", short="undo")]
    if not await context.pick(shown, [*undo, Option("", "Back", key="b", short="back")]):
        return False
    sure = [("class:ask", f"? Restore {name} to its state before this session?")]
    answers = [Option("yes", "Yes, restore it", key="y", short="yes"), Option("", "No", key="n", short="no")]
    return bool(await context.pick(lambda width: wrap(sure, width), answers))


def _patch(change: "FileDiff", cwd: Path) -> Iterator[str]:
    """Yield a file's diff for `patch -p1`, after a line about changes that a patch cannot express."""
    name = _short(change.path, cwd)
    if change.note:
        yield f"# {name}: {change.note}"
    if change.diff:
        yield "--- " + ("/dev/null" if change.was.kind == "absent" else f"a/{name}")
        yield "+++ " + ("/dev/null" if change.now.kind == "absent" else f"b/{name}")
        yield from change.diff.split("\n")
    elif not change.note:
        yield f"# {name}: {'new' if change.was.kind == 'absent' else 'deleted'}, and empty"


def _count(changes: "FileChanges") -> str:
    hows = [change.how for change in changes.changed]
    counts = [f"{hows.count(how)} {how}" for how in dict.fromkeys(hows)]
    left = [f"{len(changes.left)} left alone"] if changes.left else []
    return ", ".join((*counts, *left)) or "none changed"


def _changed(changes: "FileChanges", cwd: Path) -> list[Line]:
    rows: list[Line] = []
    for change in changes.changed[:_MAX_ROWS]:
        lines = (("class:diff.added", f" +{change.added}"), ("class:diff.removed", f" -{change.removed}"))
        rows.append((("class:dim", f"  {change.how:8}"), ("", _short(change.path, cwd)), *lines))
    return rows + _rest(len(changes.changed))


def _unchanged(changes: "FileChanges", cwd: Path) -> list[Line]:
    """Return the files that stay unchanged, and what is never covered."""
    rows: list[Line] = []
    left = [("left alone", one) for one in changes.left]
    omitted = [("not covered", one) for one in changes.omitted if one not in changes.left]
    for mark, each in (*left, *omitted):
        rows.append((("class:warning", f"  {mark} "), ("", _short(each.path, cwd)), ("class:dim", f": {each.why}")))
    rows[_MAX_ROWS:] = _rest(len(rows))
    if changes.commands:
        rows.append(
            (
                (
                    "class:dim",
                    f"  Commands ran: their changes outside {cwd}, or to files that git ignores, are not undone.",
                ),
            )
        )
    return rows


def _rest(count: int) -> list[Line]:
    return [(("class:dim", f"  … {count - _MAX_ROWS} more"),)] if count > _MAX_ROWS else []


def _short(path: str, cwd: Path) -> str:
    return quote_path(path.removeprefix(f"{cwd}/"))


@command(name="tree")
async def show_tree(context: CommandContext) -> None:
    """Show all prompts, including branches.

    ● marks the current conversation.
    """
    rows: list[Line] = []
    for number, point, lead in _branches(_points(context)):
        mark, style = ("●", "") if point.current else ("○", "class:dim")
        rows.append((("class:dim", f"  {number:>3} {mark} {lead}"), (style, _line_of(point))))
    context.write(rows)


def _branches(points: Sequence[Point]) -> Iterator[tuple[int, Point, str]]:
    """Yield the requests by their numbers, each branch as a whole, with the lines to draw before them. If a
    conversation was continued in several ways, a line leads from each to the next."""
    below: dict[str, list[int]] = {}
    for at, point in enumerate(points):
        below.setdefault(point.after, []).append(at)
    waiting: list[tuple[int, str, str]] = []  # with the prefix to draw before it, and before its successors

    def add(entry: str, lead: str) -> None:
        ways = below.get(entry, [])
        for at in reversed(ways):
            first, more = ("", "") if len(ways) == 1 else ("└ ", "  ") if at == ways[-1] else ("├ ", "│ ")
            waiting.append((at, lead + first, lead + more))

    add("", "")
    while waiting:
        at, lead, more = waiting.pop()
        yield at + 1, points[at], lead
        add(points[at].entry, more)


@command(here=True)
async def fork(context: CommandContext, prompt: str = "") -> None:
    """Continue in a copy of this session.

    As it is now, or from before a prompt; this session is not changed.
    """
    settings, agent = context.settings, context.opened.agent
    if not agent.log.path:
        raise UsageError("This session is not saved, so there is nothing to copy.")
    point = _chosen(_points(context), prompt) if prompt else None
    entry, of = (point.before, f"from before {_line_of(point)!r}") if point else ("", "of this session")
    path = await asyncio.to_thread(copy, Path(agent.log.path), settings.state_dir, settings.cwd, entry)
    said = f"You are now in {path.name}, a copy {of}. To go back to the original: /resume {agent.log.session_id}"
    settings = replace(settings, session=path, continue_session=False, fork=None)
    try:
        context.reopen(settings, SessionChoices.of(context.opened), said)
    except UsageError:  # nobody continues it
        delete(path)
        raise
