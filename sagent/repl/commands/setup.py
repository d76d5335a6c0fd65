"""Commands about permissions, tools, skills, settings and the terminal."""

import asyncio
from collections.abc import Mapping
from typing import Annotated

from sagent.config.plugins import Installed
from sagent.errors import UsageError
from sagent.policy.permissions import Mode
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.view.lines import Line, table

MODE_WORDS: Mapping[Mode, str] = {
    "plan": "read only, change nothing",
    "ask": "ask before writing or running",
    "edit": "edit in the project freely, run in the sandbox, ask for more",
    "full": "allow everything without asking",
}


def mode_words(plugins: Installed) -> Mapping[Mode, str]:
    """Return the modes in words, those of plugins last."""
    return {**MODE_WORDS, **{name: extra.help for name, extra in plugins.operations("mode").items()}}


@command(complete=lambda context: mode_words(context.settings.plugins).items())
async def permissions(context: CommandContext, mode: str = "") -> None:
    """Show or change the permission mode.

    The rules and the sandbox are shown too. A change lasts for this session.
    """
    policy, words = context.opened.policy, mode_words(context.settings.plugins)
    if mode and mode not in words:
        raise UsageError(f"There is no mode {mode!r}: give {', '.join(words)}.")
    if mode:
        context.require_person("--permission-mode")
        policy.mode = mode
        context.say(f"Permission mode {mode}: {words[mode]}")
        return
    rows: list[Line] = [(("", "Mode "), ("class:mode", policy.mode), ("class:dim", f": {words.get(policy.mode, '')}"))]
    rows += [(("class:done", "  allow "), ("", str(rule))) for rule in policy.rules.allow]
    rows += [(("class:failed", "  deny  "), ("", str(rule))) for rule in policy.rules.deny]
    context.write([*rows, *table([("class:dim", name), ("", text)] for name, text in await sandbox_rows(context))])


@command()
async def plan(context: CommandContext, text: Annotated[str, "task"] = "") -> None:
    """Have the model plan before it changes anything.

    It reads only, and ends with a plan, which you accept, change or refuse. With a text, that is sent at once.
    """
    context.require_person("--plan")
    context.opened.policy.mode = "plan"
    context.say(f"Permission mode plan: {MODE_WORDS['plan']}")
    if text:
        context.prompt(text)


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
