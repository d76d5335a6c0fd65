"""Commands about permissions, tools, skills, settings and the terminal."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from sagent.errors import UsageError
from sagent.messages import user
from sagent.policy.permissions import MODES, Mode
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.settings_file import store_value
from sagent.repl.terminal.picker import Option
from sagent.repl.view.lines import Line, cut, table
from sagent.repl.view.theme import THEMES

MODE_WORDS: Mapping[Mode, str] = {
    "plan": "read only, change nothing",
    "ask": "ask before writing or running",
    "edit": "edit in the project freely, run in the sandbox, ask for more",
    "full": "allow everything without asking",
}

_SANDBOX = {
    "auto": "commands run in a sandbox; if there is none, you are asked about them",
    "required": "commands run in a sandbox, or not at all",
    "off": "commands run without a sandbox, with your own access; you are asked about them",
}


@command(complete=MODE_WORDS.items())
async def permissions(context: CommandContext, mode: Literal["plan", "ask", "edit", "full", ""] = "") -> None:
    """Show or change the permission mode.

    The rules and the sandbox are shown too. A change lasts for this session.
    """
    policy = context.opened.policy
    for known in MODES:
        if mode == known:
            context.require_person("--permission-mode")
            policy.mode = known
            context.say(f"Permission mode {mode}: {MODE_WORDS[known]}")
            return
    rows: list[Line] = [(("", "Mode "), ("class:mode", policy.mode), ("class:dim", f": {MODE_WORDS[policy.mode]}"))]
    rows += [(("class:done", "  allow "), ("", str(rule))) for rule in policy.rules.allow]
    rows += [(("class:failed", "  deny  "), ("", str(rule))) for rule in policy.rules.deny]
    context.write([*rows, *table([("class:dim", name), ("", text)] for name, text in await sandbox_rows(context))])


@command()
async def plan(context: CommandContext, text: str = "") -> None:
    """Have the model plan before it changes anything.

    It reads only, and ends with a plan, which you accept, change or refuse. With a text, that is sent at once.
    """
    context.require_person("--plan")
    context.opened.policy.mode = "plan"
    context.say(f"Permission mode plan: {MODE_WORDS['plan']}")
    if text:
        context.prompt(text)


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


async def sandbox_rows(context: CommandContext, *, whole: bool = False) -> list[tuple[str, str]]:
    """Describe the sandbox and the paths and hosts that commands may use in it."""
    opened = context.opened
    if (sandbox := opened.sandbox) is None:
        return []
    from sagent.sandbox.report import described, held_by

    held = await asyncio.to_thread(held_by, sandbox)
    if not sandbox.known:
        return [("sandbox", f"{held}: {sandbox.means.why}")]
    profile = await asyncio.to_thread(opened.policy.profile, context.local.state.workspace)
    return [("sandbox", held), *((f"  {name}", text) for name, text in described(profile, whole=whole))]


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


@command(name="vim")
async def set_vim(context: CommandContext, state: Literal["on", "off", ""] = "") -> None:
    """Turn vi keys in the input on or off."""
    context.set_display("vim", state)


@command(complete=THEMES.items())
async def theme(context: CommandContext, name: str = "") -> None:
    """Set the colours: auto, dark, light or plain.

    Without a name, choose from a list. It is kept as `theme` in your config.
    """
    settings = context.settings
    options = [Option(one, f"{one} ✓" if one == settings.theme else one, words) for one, words in THEMES.items()]
    if name := name or await context.pick("Which colours?", options) or "":
        context.set_display("theme", name)
        context.use(replace(settings, theme=name))
        await asyncio.to_thread(store_value, settings.user_file, "theme", name)
        context.say(f"Theme {name}: {THEMES[name]}, also from now on")
