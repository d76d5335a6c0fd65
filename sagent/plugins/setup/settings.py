"""`/config`: the settings, those that differ first, and a change of one; and `/theme`."""

import asyncio
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Literal, cast

from sagent.errors import UsageError
from sagent.plugin import Choice, PathBase, RefusedError, Setting
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.terminal.picker import Option
from sagent.repl.view.lines import Line
from sagent.repl.view.theme import THEMES

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.config.report import Row

DEFAULT = "default"  # the source of a setting that nobody has set


@command(complete=lambda context: [(row.name, row.value) for row in ordered(context.settings)], here=True)
async def config(context: CommandContext, name: str = "", text: str = "") -> None:
    """Show the settings and where they come from, or change one.

    Those that differ from the defaults are first. With a word, only settings whose names contain it; with a value after
    a name, or a choice from the list, the setting is kept in your config.
    """
    rows = [row for row in ordered(context.settings) if name in row.name]
    if not rows:
        raise UsageError(f"No setting has {name!r} in its name.")
    if text:
        await _change(context, name, text)
    elif context.has_person and not name:
        options = [Option(row.name, row.name, f"{row.value}  ({row.origin})") for row in rows]
        if chosen := await context.pick("Which setting? What differs is first", options):
            await _change(context, chosen, await _value(context, chosen) or "")
    else:
        width = max(len(row.name) for row in rows)
        context.write([_line(row, width) for row in rows])


def ordered(settings: "Settings") -> "Sequence[Row]":
    """Return all settings, those that differ from the defaults first."""
    from sagent.config.report import show

    return sorted(show(settings), key=lambda row: row.origin == DEFAULT)


def _line(row: "Row", width: int) -> Line:
    style = "" if row.origin == DEFAULT else "class:strong"
    return ((style, f"  {row.name:{width}}"), ("", f"  {row.value}"), ("class:dim", f"  ({row.origin})"))


async def _value(context: CommandContext, name: str) -> str | None:
    """Ask for the new value: from a list if the accepted words are few."""
    setting = _setting(context.settings, name)
    now = next(row.value for row in ordered(context.settings) if row.name == name)
    words = ("true", "false") if setting.type == "bool" else _words(setting)
    if words:
        options = [Option(word, word, current=word == now) for word in words]
        return await context.pick(f"{name}: {setting.help or 'which value?'}", options)
    context.say(f"{name} is {now}. {setting.help}".rstrip(". ") + ".")
    return await context.line(f"{name} = ")


def _words(setting: Setting) -> Sequence[str]:
    return setting.read.words if isinstance(setting.read, Choice) else ()


def _setting(settings: "Settings", name: str) -> Setting:
    """Return a setting that can be changed here. Raises UsageError."""
    found = settings.plugins.named(Setting).get(name)
    if found is None or found.adds or "." in name + found.key:
        raise UsageError(f"{name} is changed in {settings.user_file}, with an editor.")
    return found


async def _change(context: CommandContext, name: str, text: str) -> None:
    """Keep a value in the person's file, and use it from the next session on."""
    from sagent.plugins.setup.stored import store_value

    context.require_person(f"--{name.replace('_', '-')}")
    settings, setting = context.settings, _setting(context.settings, name)
    if not (text := text.strip()):
        return
    try:
        value = setting.read(text, PathBase(settings.cwd, settings.cwd))
    except RefusedError as error:
        raise UsageError(f"{name}: {text!r} is not accepted: {error}.") from error
    kept = value if isinstance(value, bool | int | float) else text
    await asyncio.to_thread(store_value, settings.user_file, setting.key or name, kept)
    if name in {field.name for field in fields(settings)}:
        changed = {name: value, "origins": {**settings.origins, name: str(settings.user_file)}}
        context.use(replace(settings, **cast("dict[str, object]", changed)))
    if name == "theme":
        context.set_display("theme", text)
    then = "" if name == "theme" else "; it holds from the next session on, or after /new"
    context.say(f"{name} = {text} in {settings.user_file}{then}")


@command(complete=THEMES.items())
async def theme(context: CommandContext, name: str = "") -> None:
    """Set the colours: auto, dark, light or plain.

    Without a name, choose from a list. It is kept as `theme` in your config.
    """
    from sagent.plugins.setup.stored import store_value

    settings = context.settings
    options = [Option(one, one, words, current=one == settings.theme) for one, words in THEMES.items()]
    if name := name or await context.pick("Which colours?", options) or "":
        context.set_display("theme", name)
        context.use(replace(settings, theme=name))
        await asyncio.to_thread(store_value, settings.user_file, "theme", name)
        context.say(f"Theme {name}: {THEMES[name]}, also from now on")


@command(name="vim")
async def set_vim(context: CommandContext, state: Literal["on", "off", ""] = "") -> None:
    """Turn vi keys in the input on or off."""
    context.set_display("vim", state)
