"""The editor in which a session's directory is open, as a part of its agent."""

import asyncio
import os

from sagent.app.builder import AgentBuilder
from sagent.plugins.editor import EDITOR_LINK

_LOCKS = ("$CLAUDE_CONFIG_DIR/ide", "~/.claude/ide", "~/.config/claude/ide")  # folders with the editors' lock files


async def add(builder: AgentBuilder) -> None:
    """Let the agent read the editor's selection and errors. In a terminal, let the person decide on changes here or in
    the editor."""
    settings, surface = builder.settings, builder.surface
    if not settings.of(EDITOR_LINK) or not any(map(_is_directory, _LOCKS)):
        return
    from sagent.plugins.editor.lockfile import find_lock_file

    lock = await asyncio.to_thread(find_lock_file, settings.cwd, os.environ)
    if lock is None:
        return
    from sagent.plugins.editor.link import open_link
    from sagent.plugins.editor.tool import reviewing, with_editor

    link = await builder.stack.enter_async_context(open_link(lock))
    if link is None:
        return
    builder.adapters.append(lambda tools: with_editor(tools, link))
    surface.selections.append(link.context)
    if surface.where == "terminal" and builder.ask is not None:  # an editor shows changes by itself
        builder.ask = reviewing(builder.ask, link, settings.cwd)


def _is_directory(path: str) -> bool:
    return os.path.isdir(os.path.expandvars(os.path.expanduser(path)))  # noqa: PTH111, PTH112 -- cheap
