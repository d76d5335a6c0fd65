"""Commands that show the open session, and `/sandbox`, which changes its sandbox too."""

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, cast

from sagent.errors import UsageError
from sagent.lib.figures import count
from sagent.messages import user
from sagent.plugin import resolve
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.commands.conversation import saved
from sagent.repl.commands.session import earlier_sessions, minute
from sagent.repl.commands.setup import sandbox_rows
from sagent.repl.terminal.picker import Option
from sagent.repl.view.lines import Line, Span, cut, table
from sagent.repl.view.panel import cost_line
from sagent.session.folds import title

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sagent.config import Settings

KEYS = (
    ("Enter", "send; a running turn reads it at its next step"),
    ("Tab", "queue until the turn ends; Up takes it back"),
    ("Shift-Enter, Alt-Enter, Ctrl-J", "insert a new line"),
    ("Esc", "close what is open, or interrupt; Esc Esc: clear, or go back to an earlier prompt"),
    ("Shift-Tab", "switch to the next permission mode"),
    ("Down", "while agents work: follow one, or stop it"),
    ("Ctrl-B", "move the running call to the background"),
    ("Ctrl-O", "expand the last call, thought or advice"),
    ("Ctrl-R", "search the history"),
    ("Ctrl-X Ctrl-E", "write in $EDITOR"),
    ("@path", "attach a file, an image or a PDF"),
    ("Ctrl-V", "attach the image in the clipboard"),
    ("!command", "run a command; the model reads its output"),
    ("#note", "add a note to the project's AGENTS.md"),
    ("Ctrl-C", "clear or interrupt; twice: quit"),
    ("Ctrl-D", "quit"),
)
"""For /help; docs/keys.md says more."""
MAX_SESSIONS = 50  # that /sessions lists
_BAR = 30  # columns
_SANDBOX = {
    "auto": "commands run in a sandbox; if there is none, you are asked about them",
    "required": "commands run in a sandbox, or not at all",
    "off": "commands run without a sandbox, with your own access; you are asked about them",
}


@command(name="help", complete=lambda context: context.names())
async def show_help(context: CommandContext, name: str = "") -> None:
    """List commands and keys, or describe a command."""
    if name:
        found = context.commands.get(name.removeprefix("/"))
        if found is None:
            raise UsageError(f"There is no command {name!r}. See /help.")
        choices = [f"{one.name}: {', '.join(one.choices)}" for one in found.arguments if one.choices]
        paragraphs = [" ".join(paragraph.split("\n")) for paragraph in found.help.split("\n\n")]
        context.write([(("class:tool", found.usage),), *((("", text),) for text in (*paragraphs, *choices))])
        return
    commands = [(one.usage, one.summary) for _, one in sorted(context.commands.items())]
    rows = table([("class:tool", usage), ("class:dim", what)] for usage, what in (*commands, *KEYS))
    keys: list[Line] = [(), (("class:heading", "Keys"),), *rows[len(commands) :]]
    context.write([(("class:heading", "Commands"),), *rows[: len(commands)], *keys])


@command()
async def status(context: CommandContext) -> None:
    """Show model, limits, session, permissions and sandbox."""
    from sagent.version import __version__

    agent, settings = context.opened.agent, context.settings
    now = agent.status()
    window = f" of {count(now.window)}" if now.window else ""
    rows = [
        ("sagent", __version__),
        ("model", f"{now.model}{f', effort {now.effort}' if now.effort else ''}"),
        ("advisors", ", ".join(f"{advisor.name} ({advisor.model})" for advisor in settings.advisors) or "none"),
        ("context", f"about {count(now.context_tokens)} tokens{window}"),
        ("cost", cost_line(agent.cost())),
        ("limits", ", ".join(f"{name} {value}" for name, value in now.limits.items()) or "none"),
        ("jobs", ", ".join(f"{job.name} {job.tool} {job.what}" for job in now.jobs) or "none"),
        ("permissions", context.opened.policy.mode),
        *await sandbox_rows(context),
        *_place(context),
        ("session", f"{agent.log.session_id}  {agent.log.path or 'in memory only'}"),
    ]
    context.write(table([("class:dim", name), ("", value)] for name, value in rows))


def _place(context: CommandContext) -> list[tuple[str, str]]:
    if (elsewhere := context.elsewhere) is not None:
        return [("runs on", elsewhere.where() or "no node now")]
    settings = context.settings
    return [("directory", ", ".join(map(str, dict.fromkeys((settings.cwd, *settings.add_dirs)))))]


@command()
async def context(context: CommandContext) -> None:
    """Show what fills the context window.

    Also what compactions have saved.
    """
    status = context.opened.agent.status()
    size, window = status.context_tokens, status.window
    whole = window or max(size, 1)
    styles = ("class:mark", "class:advice", "class:done", "class:warning", "class:news", "class:dim")
    kinds = sorted(status.tokens_by_kind.items(), key=lambda item: -item[1])
    bar: list[Span] = []
    rows: list[list[Span]] = []
    for number, (kind, tokens) in enumerate(kinds):
        style = styles[min(number, len(styles) - 1)]
        bar.append((style, "█" * max(round(_BAR * tokens / whole), not number)))
        figures = (count(tokens), f"{tokens / whole:.1%}")
        rows.append([(style, "■"), ("", kind), *(("class:dim", figure) for figure in figures)])
    empty = "░" * max(_BAR - sum(len(text) for _, text in bar), 0)
    bar += [("class:dim", empty)]
    share = f", {size / window:.1%} of the window's {count(window)}" if window else ""
    lines = table(rows, right=(2, 3))
    context.write([(("", f"About {count(size)} tokens{share}"),), tuple(bar), *lines, *await saved(context)])


@command(name="sessions", here=True)
async def list_sessions(context: CommandContext) -> None:
    """List the sessions of this directory: this one (●), then the most recently used.

    Then what runs in the background, in every directory, with state, cost and open question: Enter chooses one to
    answer, to stop or to attach to. Without a terminal, that comes first.
    """
    from sagent.session.summary import summarize

    agent = context.opened.agent
    spent, log = agent.cost(), agent.log
    now, kept = datetime.now(UTC).isoformat(), "" if log.path else " (not saved)"
    facts = _facts(now, cost_line(spent), log.session_id + kept)
    rows: list[list[Span]] = []
    for _, extra in () if context.has_person else context.settings.plugins.extras("running sessions"):
        listed = cast("Callable[[Settings], Sequence[tuple[str, str, str]]]", resolve(extra.add))
        found = await asyncio.to_thread(listed, context.settings)
        rows += ([("class:mark", "◌"), ("class:dim", f"{name}  {about}"), ("", text)] for name, about, text in found)
    rows.append([("class:done", "●"), ("class:dim", facts), ("", title(log.contents()) or "(no messages yet)")])
    for one in await asyncio.to_thread(lambda: [summarize(e.path) for e in earlier_sessions(context)[:MAX_SESSIONS]]):
        facts = _facts(one.last, one.bill, one.id)
        rows.append([("", " "), ("class:dim", facts), ("", one.title)])
    context.write(table(rows))
    for _, extra in context.settings.plugins.extras("watch sessions") if context.has_person else ():
        await cast("Callable[[CommandContext], Awaitable[object]]", resolve(extra.add))(context)


def _facts(at: str, bill: str, session: str) -> str:
    return f"{minute(at)}  {bill}  {session}"


@command(name="tools")
async def list_tools(context: CommandContext) -> None:
    """List the model's tools."""
    tools = [(tool.name, tool.description.split(". ", 1)[0].split("\n", 1)[0]) for tool in context.opened.agent.tools]
    rows = [[("class:tool", name), ("class:dim", cut(about, 160))] for name, about in tools]
    context.write(table(rows or [[("class:dim", "none")]]))


@command(name="skills", here=True)
async def show_skills(context: CommandContext) -> None:
    """List the skills that the model can use."""
    from sagent.context.skills import find_skills

    found = await asyncio.to_thread(find_skills, context.settings.cwd, context.settings.config_dir)
    if not found:
        place = f"{context.settings.config_dir}/skills/NAME/SKILL.md"
        raise UsageError(f"There are no skills. A skill is a file {place} or .sagent/skills/NAME/SKILL.md.")
    context.write(table([("", skill.name), ("class:dim", skill.description)] for skill in found))


@command(complete=_SANDBOX.items(), here=True)
async def sandbox(context: CommandContext, mode: Literal["auto", "required", "off", ""] = "") -> None:
    """Show or change the sandbox that commands run in.

    A change lasts for this session and applies to later commands; running MCP servers and jobs are not affected.
    """
    opened = context.opened
    held = opened.sandbox
    if held is None:
        raise UsageError("The sandbox of this session is not known here.")
    if not mode:
        rows = await sandbox_rows(context, whole=True)
        context.write(table([("class:dim", name), ("", text)] for name, text in rows))
        return
    context.require_person("--sandbox")
    if opened.agent.running:
        raise UsageError("A turn is in progress: interrupt it first (Esc).")
    if mode == held.wanted:
        context.say(f"The sandbox is {mode} already: {_SANDBOX[mode]}")
        return
    if mode == "off":
        options = [Option("keep", "No, keep it"), Option("off", "Yes, switch it off", _SANDBOX["off"])]
        if await context.pick("Switch the sandbox off for this session?", options) != "off":
            context.say("The sandbox stays.")
            return
    await asyncio.to_thread(held.switch, mode)
    way = f"run in {held.means.name}" if held.stands else f"run without a sandbox: {held.means.why}"
    opened.agent.send(user(f"From now on commands {way}.", sender="sandbox"), "next")
    context.say(f"Sandbox {mode}: from now on commands {way}.")


@command()
async def earlier(context: CommandContext, messages: str = "300") -> None:
    """Show the last messages of the conversation again.

    Give the number to show (300).
    """
    if not (messages.isascii() and messages.isdecimal() and int(messages)):
        raise UsageError(f"/earlier needs a number of messages, not {messages!r}.")
    context.recall(int(messages))


@command()
async def copy(context: CommandContext) -> None:
    """Copy the last answer to the clipboard."""
    answers = [
        message.content for message in context.opened.agent.messages if message.role == "assistant" and message.content
    ]
    if not answers:
        raise UsageError("There is no answer to copy yet.")
    context.copy(answers[-1])
    context.say(f"Copied {len(answers[-1])} characters")
