"""All commands by name: the built-in ones, skills, and the person's and a project's from `commands/*.md`."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.context.frontmatter import read_document
from sagent.context.places import Place, places
from sagent.context.skills import Skill, find_skills, skill_text
from sagent.errors import UsageError
from sagent.lib.encoding import readable
from sagent.lib.regular import read_regular
from sagent.lib.text import printable
from sagent.repl.commands.command import Argument, Command, CommandContext

if TYPE_CHECKING:
    from sagent.bridges.mcp import Servers
    from sagent.bridges.mcp.catalog import Prompt
    from sagent.config import Settings
    from sagent.repl.opening import Opened

MOST_BYTES = 200_000  # of a person's command
_MOST = 200  # files of one directory


def all_commands(settings: "Settings") -> Mapping[str, Command]:
    """Built-in commands win over skills, those over the person's, and these over the project's."""
    theirs: dict[str, Command] = {}
    for skill in find_skills(settings.cwd, settings.config_dir):
        if skill.command:
            theirs.setdefault(skill.name.lower(), _skill_command(skill))
    for place in places("commands", settings.cwd, settings.config_dir):
        for one in own_commands(place):
            theirs.setdefault(one.name, one)
    return {**theirs, **built_in_commands()}


async def prompt_commands(opened: "Opened") -> Mapping[str, Command]:
    """The prompts of the session's MCP servers, as commands."""
    servers = opened.servers
    return {} if servers is None else {one.name: _prompt_command(servers, one) for one in await servers.prompts()}


def _prompt_command(servers: "Servers", prompt: "Prompt") -> Command:
    async def run(context: CommandContext, given: Mapping[str, str]) -> None:
        context.send_filled(await servers.fill(prompt, given.get("text", "")))

    about = f"{prompt.about} ({printable(prompt.usage)})" if prompt.arguments else prompt.about
    return Command(prompt.name, about, (Argument("text", required=False, rest=True),), run)


def built_in_commands() -> Mapping[str, Command]:
    from sagent.repl.commands import agents, conversation, memory, model, rewind, session, setup

    modules = (agents, conversation, memory, model, rewind, session, setup)
    return {one.name: one for module in modules for one in vars(module).values() if isinstance(one, Command)}


def own_commands(place: Place) -> Iterator[Command]:
    """Each `NAME.md` is a command that sends its text, with what it asks for filled in.

    One in a folder is called by its name, too, or, where that is taken, by both: `folder:name`.
    """
    names: set[str] = set()
    for file in _files(place.path):
        name = file.stem.lower()
        if not name.replace("-", "").replace("_", "").isalnum():
            continue
        if name in names and file.parent != place.path:
            name = f"{file.parent.name.lower()}:{name}"
        try:
            text = readable(read_regular(file, place.border, most=MOST_BYTES, cut=True))
        except OSError:
            continue
        names.add(name)
        yield own_command(f"{place.plugin}:{name}" if place.plugin else name, text, place.border)


def own_command(name: str, text: str, root: Path | None = None) -> Command:
    """A command from a file. Its head may hold a `description:` and an `argument-hint:`; `root` is its plugin's."""
    document = read_document(text)
    body = document.body.strip()
    body = body.replace("${CLAUDE_PLUGIN_ROOT}", str(root)) if root else body
    first = document.fields.get("description") or next(iter(body.splitlines()), "")[:80]
    hint = document.fields.get("argument-hint", "")

    async def run(context: CommandContext, given: Mapping[str, str]) -> None:
        await _send(context, body, given.get("text", ""))

    return Command(name, f"{first} ({hint})" if hint else first, (Argument("text", required=False, rest=True),), run)


def _skill_command(skill: Skill) -> Command:
    async def run(context: CommandContext, given: Mapping[str, str]) -> None:
        try:
            body = skill_text(skill)
        except OSError as error:
            raise UsageError(f"{skill.path} could not be read: {error.strerror or error}") from error
        await _send(context, body, given.get("text", ""))

    return Command(
        skill.name.lower(), f"Skill: {skill.description}", (Argument("text", required=False, rest=True),), run
    )


async def _send(context: CommandContext, body: str, arguments: str) -> None:
    from sagent.repl.commands.filling import carried_out

    context.send_filled(await carried_out(body, arguments, context.local))


def _files(place: Path) -> list[Path]:
    """The files of a directory, and then those of its folders."""
    try:
        own, deeper = sorted(place.glob("*.md")), sorted(place.glob("*/*.md"))
    except OSError:
        return []
    return [*own, *deeper][:_MOST]
