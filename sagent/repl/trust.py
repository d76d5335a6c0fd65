"""The question whether a project's file may choose the model or define hooks: asked once, before a session opens."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from sagent.lib.text import spelled_name
from sagent.plugin import Table
from sagent.repl.terminal.picker import Option
from sagent.repl.view.lines import Line, wrap

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.config.settings import Wish

Trust: TypeAlias = Literal["no", "always", "once"]
Chooser: TypeAlias = Callable[[str, Sequence[Option[Trust]]], Awaitable[Trust | None]]
"""Asks a question; None means no answer, which is no for now."""


async def settle_trust(
    settings: "Settings", write: Callable[[Sequence[Line]], None], choose: Chooser, width: int
) -> "tuple[Settings, str]":
    """Return the settings to open a session with, asking the person if needed, and a notice for them."""
    wish = settings.wish
    if wish is None or wish.refused:
        return settings, ""
    # Not in the title, for which a small terminal has no room.
    write(render_wish(wish, width, settings.plugins.named(Table)))
    said = await choose("Trust this folder?", _options(settings))
    notice = await asyncio.to_thread(_keep, settings, wish, said)
    if said in ("always", "once"):
        return wish.granted, notice
    from sagent.config.trust import warning

    left = tuple(text for text in settings.warnings if text != warning(wish))
    return replace(settings, warnings=left, wish=replace(wish, refused=said == "no")), notice


def render_wish(wish: "Wish", width: int, tables: Collection[str]) -> list[Line]:
    """Show the folder's wishes in full, where they are written, and their meaning. Rows of `tables` are programs."""
    others = [one for one in wish.wanted if one.name != "hooks"]
    lines: list[Line] = [(("class:ask", "This folder wants to set:" if others else "This folder wants to run hooks:"),)]
    for each in others:
        value = [("class:tool", each.text), ("class:dim", f"  (line {each.line})")]
        lines += wrap(value, width, (("", f"  {each.name} = "),))
    lines += wrap([("class:argument", spelled_name(str(wish.file)))], width, (("", "  in "),))
    hooks = [text for one in wish.wanted if one.name == "hooks" for text in one.value]
    for text in hooks:
        lines += wrap([("class:tool", text)], width, (("", "  hook "),))
    names = {one.name for one in wish.wanted}
    programs = " and ".join(name.replace("_", " ") for name in tables if name in names)
    models = "Your messages and the files read here would go to the models it names, at the cost of your keys."
    run = f"{programs.capitalize()} are programs that run without asking, in the sandbox if there is one."
    why = ([models] if names - {*tables} else []) + ([run] if programs else [])
    return lines + wrap([("class:dim", " ".join(why))], width, (("", "  "),))


def _options(settings: "Settings") -> list[Option[Trust]]:
    """Return the options, No first; an ephemeral session cannot keep an answer."""
    once = Option[Trust]("once", "Yes, for this session", key="s")
    if settings.ephemeral:
        return [Option("no", "No", key="n"), once]
    return [
        Option("no", "No", "and do not ask again", key="n"),
        once,
        Option("always", "Yes, always", "until these settings change", key="a"),
    ]


def _keep(settings: "Settings", wish: "Wish", answer: Trust | None) -> str:
    """Save a permanent answer; return a sentence about it."""
    if answer not in ("no", "always") or settings.ephemeral:
        return ""
    from sagent.config.trust import answer_file, remember

    try:
        remember(wish, settings.state_dir, trusted=answer == "always")
    except OSError as error:
        return f"Your answer is for this session only, because it could not be saved: {error.strerror or error}"
    return f"Saved; to be asked again, delete {answer_file(wish, settings.state_dir)}"
