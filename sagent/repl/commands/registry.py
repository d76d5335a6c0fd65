"""All commands by name: the built-in ones, skills, and the person's and a project's from `commands/*.md`."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.config.declared import CORE
from sagent.config.plugins import Installed, named_errors
from sagent.context.commands import find_commands
from sagent.context.frontmatter import Document
from sagent.context.skills import Skill, find_skills, skill_text
from sagent.errors import UsageError
from sagent.lib.raised import advice, ends, reason
from sagent.plugin import SlashCommand, resolve
from sagent.repl.commands.command import Argument, Command, CommandContext

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.repl.opening import Opened
    from sagent.surface import Prompt


class Commands(Mapping[str, Command]):
    """Commands by name, from several mappings, of which later ones win. One that is given as a function is made when it
    is first asked for: most of them are in no session, and their modules need memory."""

    def __init__(self, *of: Mapping[str, Command | Callable[[], Command]]) -> None:
        self.rows: dict[str, Command | Callable[[], Command]] = {}
        for each in of:
            self.rows |= each.rows if isinstance(each, Commands) else each

    def __getitem__(self, name: str) -> Command:
        if not isinstance(found := self.rows[name], Command):
            found = self.rows[name] = found()
        return found

    def __contains__(self, name: object) -> bool:
        return name in self.rows

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def all_commands(settings: "Settings", notices: list[str] | None = None) -> Mapping[str, Command]:
    """Return the commands by name. For equal names, built-in ones and those of plugins win over skills, skills over the
    person's files, and these over the project's. Notices list those that cannot be called."""
    notices = [] if notices is None else notices
    built_in = plugin_commands(settings.plugins, notices)
    theirs: dict[str, Command] = {}
    for skill in find_skills(settings.cwd, settings.config_dir):
        if skill.command:
            _add(theirs, _skill_command(skill), skill.path, built_in, notices)
    for one in find_commands(settings.cwd, settings.config_dir):
        _add(theirs, own_command(one.name, one.document, one.root), one.path, built_in, notices)
    return Commands(theirs, built_in)


def _add(
    theirs: dict[str, Command], command: Command, path: Path, built_in: Mapping[str, Command], notices: list[str]
) -> None:
    if command.name in built_in or theirs.setdefault(command.name, command) is not command:
        which = "a command of sagent or of a plugin" if command.name in built_in else "a skill"
        notices.append(f"/{command.name} does not call {path}: {which} has that name.")


async def prompt_commands(opened: "Opened") -> Mapping[str, Command]:
    """Return the prompts of the session's sources, as commands."""
    return {one.name: _prompt_command(one) for one in await opened.surface.prompts()}


def _prompt_command(prompt: "Prompt") -> Command:
    async def run(context: CommandContext, arguments: Mapping[str, str]) -> None:
        context.send_filled(await prompt.fill(arguments.get("text", "")))

    return Command(prompt.name, prompt.about, (Argument("text", required=False, rest=True),), run)


def plugin_commands(plugins: Installed, notices: list[str]) -> Mapping[str, Command]:
    """Return the commands of the core and of plugins by name. Notices list unavailable ones and why; those of ours are
    loaded later."""
    found: dict[str, Command | Callable[[], Command]] = {}
    for plugin, row in plugins.owned(SlashCommand):
        if row.command.startswith("sagent."):
            found[row.name] = partial(_load, plugin, row)
            continue
        try:
            found[row.name] = _load(plugin, row)
        except BaseException as error:
            if ends(error):
                raise
            notices.append(f"/{row.name} of the plugin {plugin} is left out: {reason(error)}. {advice(plugin)}")
    return Commands(found)


def _load(plugin: str, row: SlashCommand) -> Command:
    """Import a command."""
    one = resolve(row.command)
    if not isinstance(one, Command):
        raise TypeError(f"{row.command} is not a command, but {type(one).__name__}")
    run = one.run if plugin == CORE.name else _named(one, plugin)
    return replace(one, name=row.name, run=run) if (one.name, one.run) != (row.name, run) else one


def _named(command: Command, plugin: str) -> Callable[[CommandContext, Mapping[str, str]], Awaitable[None]]:
    """Return a function that runs a plugin's command and names the plugin in errors."""

    async def run(context: CommandContext, arguments: Mapping[str, str]) -> None:
        with named_errors(f"/{command.name}", plugin, SystemExit):
            await command.run(context, arguments)

    return run


def own_command(name: str, document: Document, root: Path | None = None) -> Command:
    """Return a command from a file, with an optional `description:` and `argument-hint:`, and its plugin's `root`."""
    body = document.body.strip()
    body = body.replace("${CLAUDE_PLUGIN_ROOT}", str(root)) if root else body
    first = document.fields.get("description") or next(iter(body.splitlines()), "")[:80]
    hint = document.fields.get("argument-hint", "")

    async def run(context: CommandContext, arguments: Mapping[str, str]) -> None:
        await _send(context, body, arguments.get("text", ""))

    return Command(name, f"{first} ({hint})" if hint else first, (Argument("text", required=False, rest=True),), run)


def _skill_command(skill: Skill) -> Command:
    async def run(context: CommandContext, arguments: Mapping[str, str]) -> None:
        try:
            body = skill_text(skill)
        except OSError as error:
            raise UsageError(f"{skill.path} could not be read: {error.strerror or error}") from error
        await _send(context, body, arguments.get("text", ""))

    return Command(
        skill.name.lower(), f"Skill: {skill.description}", (Argument("text", required=False, rest=True),), run
    )


async def _send(context: CommandContext, body: str, arguments: str) -> None:
    from sagent.repl.commands.filling import expand_command

    context.send_filled(await expand_command(body, arguments, context.local))
