"""The REPL on a terminal: puts it together with what opens sessions."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from sagent.config import Settings
    from sagent.policy.permissions import PermissionPolicy
    from sagent.providers.wire.exchange import OnWaiting
    from sagent.repl.opening import Asker, Listener, OpenedHere
    from sagent.surface import Surface
    from sagent.tool import Tool
    from sagent.tools.ask import Answerer


def run_interactive(flags: Mapping[str, object]) -> int:
    """Talk to a person until they leave; return the exit code. Slow imports happen while the prompt is shown."""
    choosing = flags.get("resume") == ""
    flags = {name: value for name, value in flags.items() if not (choosing and name == "resume")}

    def load() -> "Settings":
        from sagent.cli.settings import load_settings

        return load_settings(flags)

    if os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        from sagent.repl.teletype import run_teletype as run
    else:
        from sagent.repl.front import run_repl as run
    return asyncio.run(run(load, open_in_terminal, choosing=choosing))


def open_in_terminal(
    settings: "Settings", listener: "Listener", ask: "Asker", answer: "Answerer", on_waiting: "OnWaiting"
) -> "AbstractAsyncContextManager[OpenedHere]":
    """Open a session with the person at this terminal."""
    from sagent.surface import Surface

    return open_session(settings, listener, ask, answer, on_waiting=on_waiting, surface=Surface("terminal"))


@asynccontextmanager
async def open_session(
    settings: "Settings",
    listener: "Listener",
    ask: "Asker",
    answer: "Answerer",
    adapt: "Callable[[Sequence[Tool]], Sequence[Tool]]" = tuple,
    private: "Sequence[Path]" = (),
    on_waiting: "OnWaiting | None" = None,
    surface: "Surface | None" = None,
) -> "AsyncGenerator[OpenedHere]":
    """Open a session with a person; `private` as in `policy_of`, `on_waiting`, `surface` and errors as in
    `open_agent`."""
    policy = await asyncio.to_thread(_load_policy, settings, private)
    from sagent.app import open_agent
    from sagent.providers.wire.exchange import ignore_wait
    from sagent.repl.opening import OpenedHere
    from sagent.sandbox import Sandbox
    from sagent.surface import Surface
    from sagent.tools.ask import AskUser
    from sagent.tools.todo import TodoWrite

    more = (AskUser(answer), TodoWrite()) if settings.tools is None else ()
    sandbox = Sandbox(settings.sandbox, cache=settings.state_dir)
    surface, on_waiting = surface or Surface(), on_waiting or ignore_wait
    opening = open_agent(
        settings, listener, ask, policy, more, sandbox, answer, adapt, on_waiting=on_waiting, surface=surface
    )
    async with opening as agent:
        yield OpenedHere(agent, policy, sandbox, surface)


def _load_policy(settings: "Settings", private: "Sequence[Path]") -> "PermissionPolicy":
    """Load the policy, and with it the engine: its imports are slow, and somebody may be typing."""
    import gc

    from sagent.app import policy_of

    gc.freeze()  # modules stay in any case: scanning them would be the slowest part of collections
    return policy_of(settings, private)
