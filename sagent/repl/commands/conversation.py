"""Commands about the conversation itself."""

from typing import TYPE_CHECKING

from sagent.errors import UsageError
from sagent.peer import Compact
from sagent.repl.commands.command import command
from sagent.repl.commands.context import CommandContext

if TYPE_CHECKING:
    from sagent.repl.view.lines import Line


def _names(context: CommandContext) -> list[tuple[str, str]]:
    from sagent.repl.commands.registry import all_commands

    return [(name, one.help.split("\n", 1)[0]) for name, one in sorted(all_commands(context.settings).items())]


@command(name="help", complete=_names)
async def show_help(context: CommandContext, name: str = "") -> None:
    """Commands and keys; of one command all there is to know."""
    from sagent.repl.commands.registry import all_commands

    commands = all_commands(context.settings)
    if name:
        found = commands.get(name.removeprefix("/"))
        if found is None:
            raise UsageError(f"There is no command {name!r}. See /help.")
        choices = [f"{one.name}: {', '.join(one.choices)}" for one in found.arguments if one.choices]
        lines = [found.usage, *found.help.split("\n"), *choices]
        context.write([(("class:tool" if not number else "", line),) for number, line in enumerate(lines)])
        return
    width = max(len(one.usage) for one in commands.values())
    rows: list[Line] = [
        (("class:tool", f"  {one.usage:{width}}"), ("class:dim", f"  {one.help.split(chr(10), 1)[0]}"))
        for _, one in sorted(commands.items())
    ]
    keys = [(("class:tool", f"  {key:{width}}"), ("class:dim", f"  {what}")) for key, what in KEYS]
    context.write([(("class:heading", "Commands"),), *rows, (), (("class:heading", "Keys"),), *keys])


KEYS = (
    ("Enter", "send; while work is in progress it is read before the next model call"),
    ("Tab", "while work is in progress: keep for when it is done; Up takes it back"),
    ("Alt-Enter, \\ Enter, Ctrl-J", "a new line"),
    ("Esc", "interrupt; twice, when nothing is in progress: back to an earlier request"),
    ("Ctrl-B", "let the running call go on in the background"),
    ("Ctrl-O", "show all of the last call, thought or advice; again for the one before"),
    ("Ctrl-R", "search what was typed before"),
    ("Ctrl-X Ctrl-E", "write in $EDITOR"),
    ("@path, Ctrl-V", "attach a file, an image or a PDF; the image in the clipboard"),
    ("!command", "run a command and share what it prints"),
    ("#note", "write into the project's AGENTS.md"),
    ("Ctrl-C, Ctrl-D", "clear, interrupt, twice: quit; quit"),
)
"""What keys do, for /help; docs/keys.md says more."""


@command(name="quit")
async def leave(context: CommandContext) -> None:
    """Leave; the session can be resumed."""
    context.leave()


@command()
async def compact(context: CommandContext, text: str = "") -> None:
    """Make the context smaller; what is said behind it is what matters."""
    context.opened.agent.apply(Compact(hints=text))
    context.say("The context is made smaller before the next model call.")


@command()
async def clear(context: CommandContext) -> None:
    """Forget the conversation; the log keeps it."""
    context.opened.agent.apply(Compact(clear=True))
    context.say("The conversation is forgotten; the log keeps it.")


@command()
async def context(context: CommandContext) -> None:
    """What fills the window, as a bar and a list, and what compactions have saved."""
    from sagent.repl.view.transcript import count

    status = context.opened.agent.status()
    size, window = status.context_tokens, status.window
    whole = max(size, 1) if not window else window if size > window // 10 else window // 10  # nearly empty: a tenth
    styles = ("class:mark", "class:advice", "class:done", "class:warning", "class:news", "class:dim")
    kinds = sorted(status.holds.items(), key=lambda item: -item[1])
    bar: list[tuple[str, str]] = []
    for number, (_, tokens) in enumerate(kinds):
        bar.append((styles[min(number, len(styles) - 1)], "█" * round(50 * tokens / whole)))
    filled = sum(len(text) for _, text in bar)
    bar.append(("class:dim", "░" * max(50 - filled, 0)))
    share = f", {size / window:.0%} of {count(window)}" if window else ""
    rows: list[Line] = [
        (
            (styles[min(number, len(styles) - 1)], "  ■ "),
            ("", f"{kind:28}"),
            ("class:dim", f"{count(tokens):>8}  {tokens / max(size, 1):4.0%}"),
        )
        for number, (kind, tokens) in enumerate(kinds)
    ]
    part = ("class:dim", f"  of {count(whole)}")
    context.write([(("", f"About {count(size)} tokens{share}"),), (*bar, part), *rows, *await _saved(context)])


async def _saved(context: CommandContext) -> "list[Line]":
    """What compactions have saved, as the last turn told; while one is in progress that is not known."""
    from sagent.repl.view.transcript import count, money

    agent = context.opened.agent
    try:
        saving = None if agent.running else (await agent.wait()).saving
    except UsageError:  # it has not run yet
        saving = None
    if saving is None or not saving.compactions:
        return []
    times = f"{saving.compactions} compaction{'s' if saving.compactions > 1 else ''}"
    usd = "" if saving.usd is None else f", {money(abs(saving.usd))} {'less' if saving.usd >= 0 else 'more'} in all"
    return [(), (("class:dim", f"  {times}: {count(saving.tokens)} tokens were not sent again{usd}"),)]


@command()
async def copy(context: CommandContext) -> None:
    """Copy the last answer to the clipboard."""
    said = next(
        (one.content for one in reversed(context.opened.agent.messages) if one.role == "assistant" and one.content), ""
    )
    if not said:
        raise UsageError("Nothing was answered yet.")
    context.copy(said)
    context.say(f"{len(said)} characters were copied")


@command()
async def init(context: CommandContext) -> None:
    """Have the model write AGENTS.md for this project."""
    from sagent.repl.project import instructions_file

    path = instructions_file(context.settings.cwd)
    doing = "Improve" if path.exists() else "Write"
    context.prompt(
        f"{doing} {path.name} in {path.parent}: what an agent must know to work in this project. Look at the project "
        "first. Say how it is built, tested and run, how it is laid out, and the conventions that its code shows. Keep "
        "what is there and right, at most a page, no advice that holds for every project."
    )


@command()
async def memory(context: CommandContext) -> None:
    """The instruction files that this session began with, and where #notes go."""
    import asyncio

    from sagent.context.instructions import gather
    from sagent.repl.project import instructions_file

    settings = context.settings
    found = await asyncio.to_thread(gather, settings.cwd, settings.config_dir, settings.add_dirs)
    rows: list[Line] = [(("", f"  {path}"), ("class:dim", f"  {path.stat().st_size} bytes")) for path in found.files]
    rows = rows or [(("class:dim", "  none"),)]
    notes = instructions_file(settings.cwd)
    context.write([(("class:heading", "Instructions"),), *rows, (("class:dim", f"#note writes to {notes}"),)])
