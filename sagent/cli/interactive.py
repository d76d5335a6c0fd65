"""The REPL on a terminal: puts it together with what opens sessions."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from sagent.config import Settings
    from sagent.policy.permissions import PermissionPolicy
    from sagent.repl.opening import Asker, Listener, Opened
    from sagent.tool import Tool
    from sagent.tools.ask import Answerer


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
    return asyncio.run(run(load, open_session, choosing=choosing))


@asynccontextmanager
async def open_session(
    settings: "Settings",
    listener: "Listener",
    ask: "Asker",
    answer: "Answerer",
    adapt: "Callable[[Sequence[Tool]], Sequence[Tool]]" = tuple,
    private: "Sequence[Path]" = (),
) -> "AsyncGenerator[Opened]":
    """A session with a person; `private` as `policy_of` has it. Raises what `open_agent` raises."""
    policy = await asyncio.to_thread(_load_policy, settings, private)
    from sagent.app import open_agent
    from sagent.repl.opening import Opened
    from sagent.sandbox import Sandbox
    from sagent.tools.ask import AskUser
    from sagent.tools.todo import TodoWrite

    more = (AskUser(answer), TodoWrite()) if settings.tools is None else ()
    sandbox = Sandbox(settings.sandbox, cache=settings.state_dir)
    async with open_agent(settings, listener, ask, policy, more, sandbox, answer, adapt) as agent:
        yield Opened(agent, policy, sandbox)


def _load_policy(settings: "Settings", private: "Sequence[Path]") -> "PermissionPolicy":
    """The policy, and with it the engine: its imports are slow, and somebody may be typing."""
    import gc

    from sagent.app import policy_of

    gc.freeze()  # modules stay anyway: looking through them again and again is what a collection would take longest for
    return policy_of(settings, private)
