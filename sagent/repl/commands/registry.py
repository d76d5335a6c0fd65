"""All commands by name: the built-in ones, and the person's from `commands/*.md`."""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.lib.regular import read_regular
from sagent.repl.commands.command import Argument, Command, CommandContext

if TYPE_CHECKING:
    from sagent.config import Settings

MOST_BYTES = 200_000  # of a person's command


def all_commands(settings: "Settings") -> Mapping[str, Command]:
    """Built-in commands win over the person's, and those over the project's."""
    from sagent.context.instructions import repository_root

    root = repository_root(settings.cwd) or settings.cwd
    theirs = [*own_commands(root / ".sagent" / "commands", root), *own_commands(settings.config_dir / "commands")]
    return {**{one.name: one for one in theirs}, **built_in_commands()}


def built_in_commands() -> Mapping[str, Command]:
    from sagent.repl.commands import agents, conversation, model, rewind, session, setup

    modules = (agents, conversation, model, rewind, session, setup)
    return {one.name: one for module in modules for one in vars(module).values() if isinstance(one, Command)}


def own_commands(directory: Path, border: Path | None = None) -> Iterator[Command]:
    """Each `NAME.md` is a command that sends its text, with `$ARGUMENTS`, and `$1` to `$9`, replaced."""
    try:
        files = sorted(directory.glob("*.md"))
    except OSError:
        return
    for file in files:
        name = file.stem.lower()
        if name.replace("-", "").replace("_", "").isalnum():
            try:
                text = read_regular(file, border, most=MOST_BYTES, cut=True).decode(errors="replace")
            except OSError:
                continue
            yield own_command(name, text)


def own_command(name: str, text: str) -> Command:
    """A command of the person's. A head between lines of `---` may hold a `description:`."""
    summary = ""
    if text.startswith("---\n") and (end := text.find("\n---\n")) > 0:
        head, text = text[4:end], text[end + 5 :]
        found = (line.partition(":")[2].strip() for line in head.splitlines() if line.startswith("description:"))
        summary = next(found, "")
    body = text.strip()

    async def run(context: CommandContext, given: Mapping[str, str]) -> None:
        context.prompt(filled(body, given.get("text", "")))

    first = summary or next(iter(body.splitlines()), "")[:80]
    return Command(name, first, (Argument("text", required=False, rest=True),), run)


def filled(body: str, arguments: str) -> str:
    """The text with its place holders replaced; arguments that none asks for stand at the end."""
    try:
        words = shlex.split(arguments)
    except ValueError:
        words = arguments.split()

    def word(match: re.Match[str]) -> str:
        if not match[1]:
            return arguments
        return words[int(match[1]) - 1] if int(match[1]) <= len(words) else ""

    text, asked = re.subn(r"\$ARGUMENTS|\$([1-9])", word, body)
    return text if asked or not arguments else f"{text}\n\n{arguments}"
