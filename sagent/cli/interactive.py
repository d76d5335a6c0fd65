"""The REPL on a terminal: puts it together with what opens sessions."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, TypeAlias, cast

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from sagent.config import Settings
    from sagent.policy.permissions import PermissionPolicy
    from sagent.providers.wire.exchange import OnWaiting
    from sagent.repl.opening import Asker, Listener, Opened, OpenedHere, Opening
    from sagent.surface import Surface
    from sagent.tool import Tool
    from sagent.tools.ask import Answerer

Talk: TypeAlias = "Callable[..., Coroutine[None, None, int]]"


def run_interactive(flags: Mapping[str, object]) -> int:
    """Talk to a person until they leave; return the exit code. Slow imports happen while the prompt is shown."""
    choosing = flags.get("resume") == ""
    flags = {name: value for name, value in flags.items() if not (choosing and name == "resume")}

    def load() -> "Settings":
        from sagent.cli.settings import load_settings

        return load_settings(flags)

    run = plain_lines(flags, load)
    if run is None:
        from sagent.repl.front import run_repl as run
    return asyncio.run(run(load, open_in_terminal, choosing=choosing))


def plain_lines(flags: Mapping[str, object], load: "Callable[[], Settings]") -> "Talk | None":
    """Return the REPL in plain lines if the terminal can only print or the person wants it. Their settings are only
    loaded first if one may say so, because the prompt does not wait for them."""
    prints = os.environ.get("TERM", "") in ("", "dumb", "unknown")
    if not prints and "plain" not in flags and "SAGENT_PLAIN" not in os.environ and not _file_names("plain", flags):
        return None
    from sagent.plugin import extra_of_ours

    found = cast("Callable[[Settings | None], Talk | None] | None", extra_of_ours("plain lines"))
    return found(None if prints else load()) if found else None


def _file_names(word: str, flags: Mapping[str, object]) -> bool:
    """Return True if a file of the person's settings has a word, wherever that is. The prompt waits for this, so it
    imports nothing."""
    base = "~/Library/Application Support" if sys.platform == "darwin" else "~/.config"  # as sagent.context.places
    folder = f"{os.environ.get('XDG_CONFIG_HOME') or base}/sagent"
    named = flags.get("config") or os.environ.get("SAGENT_CONFIG")
    for name in [str(named)] if named else [f"{folder}/config.{suffix}" for suffix in ("toml", "yaml", "yml")]:
        with suppress(OSError, ValueError), open(os.path.expanduser(name), encoding="utf-8") as file:  # noqa: PTH111, PTH123 -- as above
            if word in file.read():
                return True
    return False


def open_in_terminal(
    settings: "Settings", listener: "Listener", ask: "Asker", answer: "Answerer", on_waiting: "OnWaiting"
) -> "AbstractAsyncContextManager[Opened]":
    """Open a session with the person at this terminal; one that another process has open is followed."""
    from sagent.plugin import extra_of_ours
    from sagent.surface import Surface

    held = cast("Callable[[Settings], Opening | None] | None", settings.session and extra_of_ours("open sessions"))
    if held and (opening := held(settings)):
        return opening(settings, listener, ask, answer, on_waiting)
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
