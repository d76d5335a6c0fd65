"""Commands about permissions, tools, settings, keys and the terminal."""

import asyncio
from typing import TYPE_CHECKING, Literal

from sagent.errors import UsageError
from sagent.policy.permissions import MODES
from sagent.repl.commands.command import command
from sagent.repl.commands.context import CommandContext
from sagent.repl.view.theme import THEMES

if TYPE_CHECKING:
    from sagent.repl.view.lines import Line

_MODES = {
    "plan": "look only, change nothing",
    "ask": "ask before writing or running",
    "edit": "edit in the project freely, ask before running",
    "full": "ask nothing",
}


def _modes(context: CommandContext) -> list[tuple[str, str]]:
    del context
    return list(_MODES.items())


@command(complete=_modes)
async def permissions(context: CommandContext, mode: Literal["plan", "ask", "edit", "full", ""] = "") -> None:
    """Show the mode and the rules, or change the mode for this session."""
    policy = context.opened.policy
    for known in MODES:
        if mode == known:
            policy.mode = known
            context.say(f"Permission mode {mode}: {_MODES[known]}")
            return
    rows: list[Line] = [(("", "Mode "), ("class:mode", policy.mode), ("class:dim", f": {_MODES[policy.mode]}"))]
    rows += [(("class:done", "  allow "), ("", str(rule))) for rule in policy.rules.allow]
    rows += [(("class:failed", "  deny  "), ("", str(rule))) for rule in policy.rules.deny]
    context.write(rows)


@command(name="tools")
async def list_tools(context: CommandContext) -> None:
    """The tools that the model has."""
    rows: list[Line] = []
    for tool in context.opened.agent.tools:
        told = tool.description.split(". ", 1)[0].split("\n", 1)[0]
        rows.append((("class:tool", f"  {tool.name:16}"), ("class:dim", told[:160])))
    context.write(rows or [(("class:dim", "  none"),)])


@command(name="config")
async def show_config(context: CommandContext, name: str = "") -> None:
    """Every setting, its value and where it comes from; or those whose names hold a word."""
    from sagent.config.report import show

    rows = [row for row in show(context.settings) if name in row.name]
    if not rows:
        raise UsageError(f"There is no setting with {name!r} in its name.")
    width = max(len(row.name) for row in rows)
    context.write([(("", f"  {row.name:{width}}  {row.value}"), ("class:dim", f"  ({row.origin})")) for row in rows])


def _keyless(context: CommandContext) -> list[tuple[str, str]]:
    from sagent.providers.rows import built_in

    del context
    return [(name, row.key) for name, row in built_in().items() if row.default]


@command(complete=_keyless)
async def login(context: CommandContext, provider: str = "") -> None:
    """Give a provider's key: it is tested, kept where only you can read it, and used from now on.

    It is tested where the provider is reached, by its BASE_URL variable too, and is only ever sent there.
    """
    import os

    from sagent.config.keyring import IN_KEYRING, has_keyring, keep_key
    from sagent.config.servers import own_address
    from sagent.context.instructions import repository_root
    from sagent.repl.login import store_key, test_key
    from sagent.repl.terminal.picker import Option

    if provider == "local":
        context.reopen(context.settings)
        return
    if not provider:
        options = [Option(name, name, key) for name, key in _keyless(context)]
        provider = await context.pick("A key of which provider?", options) or ""
    if not provider:
        return
    from sagent.providers.registry import row_named

    row = row_named(provider, {name: one.row for name, one in context.settings.providers.items()})
    key = await context.line(f"Key of {row.name} (not shown): ", secret=True)
    if not key or not key.strip():
        return
    key = key.strip()
    context.say(f"Testing the key with {row.name} …")
    own = context.settings.providers
    address = await asyncio.to_thread(own_address, row.name, own, os.environ)
    await test_key(row.name, key, address.base_url, own)
    custom = own.get(row.name)
    beside = "" if address.base_url in ("", row.base_url, custom.base_url if custom else "") else address.base_url
    kept = key
    if await asyncio.to_thread(has_keyring):
        options = [
            Option(IN_KEYRING, "in the keyring of this computer"),
            Option(key, f"in {context.settings.config_dir / 'config.toml'}, which only you can read"),
        ]
        kept = await context.pick("It works. Where is it to be kept?", options)
        if kept is None:
            return
    if kept == IN_KEYRING:
        await asyncio.to_thread(keep_key, row.name, key)
    where = await asyncio.to_thread(store_key, context.settings.config_dir, row.name, kept, beside)
    only = f", for {beside} alone" if beside else ""
    context.say(f"It works; it is kept {IN_KEYRING if kept == IN_KEYRING else f'in {where}'}{only}")
    if kept != IN_KEYRING and repository_root(where.resolve().parent) is not None:
        context.say(f"{where} lies in a git repository: see that it is not committed")
    from sagent.config import load

    fresh = await asyncio.to_thread(load, {}, None, context.settings.cwd)
    from dataclasses import replace

    context.reopen(replace(context.settings, providers=fresh.providers))


@command(name="vim")
async def set_vim(context: CommandContext, state: Literal["on", "off", ""] = "") -> None:
    """Use vi keys in the input, on or off."""
    context.set_display("vim", state)


def _themes(context: CommandContext) -> list[tuple[str, str]]:
    del context
    return [(name, "") for name in THEMES]


@command(complete=_themes)
async def theme(context: CommandContext, name: str) -> None:
    """How the terminal looks: auto, dark, light or plain."""
    context.set_display("theme", name)


@command()
async def doctor(context: CommandContext) -> None:
    """Check keys, providers, terminal, programs and the state directory."""
    from sagent.repl.doctor import examine

    rows: list[Line] = []
    for finding in await examine(context.settings):
        mark, style = {"good": ("✓", "class:done"), "bad": ("✗", "class:failed")}.get(
            finding.state, ("!", "class:warning")
        )
        rows.append(((style, f"  {mark} "), ("", f"{finding.what:20}"), ("class:dim", f" {finding.told}")))
    context.write(rows)


@command()
async def bug(context: CommandContext) -> None:
    """What to put into a bug report: versions, terminal, session; nothing of the conversation."""
    import os
    import platform

    from sagent.version import __version__

    told = [
        f"sagent {__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"TERM={os.environ.get('TERM', '')} TERM_PROGRAM={os.environ.get('TERM_PROGRAM', '')}",
        f"session {context.opened.agent.log.path or 'in memory'}: attach it only if nothing in it is secret",
    ]
    context.write([(("", f"  {line}"),) for line in told])
