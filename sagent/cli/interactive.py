"""The REPL on a terminal: puts it together with what opens sessions."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from sagent.config import Settings
    from sagent.plugins.editor.link import EditorLink
    from sagent.policy.permissions import PermissionPolicy
    from sagent.providers.wire.exchange import Told
    from sagent.repl.opening import Asker, Listener, OpenedHere
    from sagent.tool import Tool
    from sagent.tools.ask import Answerer

_LOCKS = ("$CLAUDE_CONFIG_DIR/ide", "~/.claude/ide", "~/.config/claude/ide")  # where editors say that they listen


def run_interactive(flags: Mapping[str, object]) -> int:
    """Talk to a person until they leave; the exit code. What is heavy loads while the prompt is shown."""
    choosing = flags.get("resume") == ""
    flags = {name: value for name, value in flags.items() if not (choosing and name == "resume")}

    def load() -> "Settings":
        from sagent.cli.settings import load_settings

        return load_settings(flags)

    if os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        from sagent.repl.teletype import run_teletype as run
    else:
        from sagent.repl.front import run_repl as run
    return asyncio.run(run(load, open_linked_session, choosing=choosing))


@asynccontextmanager
async def open_linked_session(
    settings: "Settings", listener: "Listener", ask: "Asker", answer: "Answerer", told: "Told"
) -> "AsyncGenerator[OpenedHere]":
    """The same as `open_session`, with the editor in which the directory is open, where one offers its link."""
    async with linked_editor(settings) as link:
        if link is None:
            async with open_session(settings, listener, ask, answer, told=told) as opened:
                yield opened
            return
        from sagent.plugins.editor.tool import linked, reviewing

        asks = reviewing(ask, link, settings.cwd)

        def adapt(tools: "Sequence[Tool]") -> "Sequence[Tool]":
            return linked(tools, link)

        async with open_session(settings, listener, asks, answer, adapt, told=told) as opened:
            yield replace(opened, selected=link.context)


@asynccontextmanager
async def linked_editor(settings: "Settings") -> "AsyncGenerator[EditorLink | None]":
    """The link of the editor in which the session's directory is open; None where there is none."""
    lock = None
    if settings.editor_link and any(os.path.isdir(os.path.expandvars(os.path.expanduser(each))) for each in _LOCKS):  # noqa: PTH111, PTH112 -- cheap
        from sagent.plugins.editor.lockfile import find_lock_file

        lock = await asyncio.to_thread(find_lock_file, settings.cwd, os.environ)
    if lock is None:
        yield None
        return
    from sagent.plugins.editor.link import open_link

    async with open_link(lock) as link:
        yield link


@asynccontextmanager
async def open_session(
    settings: "Settings",
    listener: "Listener",
    ask: "Asker",
    answer: "Answerer",
    adapt: "Callable[[Sequence[Tool]], Sequence[Tool]]" = tuple,
    private: "Sequence[Path]" = (),
    told: "Told | None" = None,
) -> "AsyncGenerator[OpenedHere]":
    """A session with a person; `private` as `policy_of` has it, `told` as `open_agent`, which says what is
    raised."""
    policy = await asyncio.to_thread(_load_policy, settings, private)
    from sagent.app import open_agent, servers_of
    from sagent.providers.wire.exchange import untold
    from sagent.repl.opening import OpenedHere
    from sagent.sandbox import Sandbox
    from sagent.tools.ask import AskUser
    from sagent.tools.todo import TodoWrite

    more = (AskUser(answer), TodoWrite()) if settings.tools is None else ()
    sandbox = Sandbox(settings.sandbox, cache=settings.state_dir)
    servers = servers_of(settings)
    opening = open_agent(settings, listener, ask, policy, more, sandbox, answer, adapt, servers, told=told or untold)
    async with opening as agent:
        yield OpenedHere(agent, policy, sandbox, servers=servers)


def _load_policy(settings: "Settings", private: "Sequence[Path]") -> "PermissionPolicy":
    """The policy, and with it the engine: its imports are slow, and somebody may be typing."""
    import gc

    from sagent.app import policy_of

    gc.freeze()  # modules stay anyway: looking through them again and again is what a collection would take longest for
    return policy_of(settings, private)
