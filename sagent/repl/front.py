"""The first moments: a prompt to type at while everything else loads. Imports as little as possible."""

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING

from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from sagent.repl.terminal.history import ProjectHistory
from sagent.repl.terminal.screen import Screen

if TYPE_CHECKING:
    from collections.abc import Callable

    from sagent.config import Settings
    from sagent.repl.opening import Opening
    from sagent.repl.repl import Repl


async def run_repl(load: "Callable[[], Settings]", opening: "Opening", *, choosing: bool = False) -> int:
    """Talk to a person until they leave; return the exit code. `load` and `opening` run while the prompt is shown. With
    `choosing`, the person first chooses a session."""
    history = ProjectHistory()
    screen = Screen(history)
    early: list[str] = []
    screen.keys = _first_keys(screen, early)
    working: list[asyncio.Task[int]] = []

    async def work() -> int:
        repl_class = await asyncio.to_thread(_load_rest)
        repl = repl_class(screen, history, load, opening, choosing=choosing)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGHUP, signal.SIGTERM):
            loop.add_signal_handler(number, repl.end, 128 + number)
        if hasattr(signal, "SIGTSTP"):
            loop.add_signal_handler(signal.SIGTSTP, repl.input.suspend)
            loop.add_signal_handler(signal.SIGCONT, repl.input.questions.begin_anew)
        with contextlib.suppress(asyncio.CancelledError):
            await repl.run(early)
        return repl.code

    def begin() -> None:  # the first drawing is done before this task has its turn
        working.append(asyncio.create_task(work()))
        working[0].add_done_callback(lambda _: screen.leave())

    try:
        with contextlib.suppress(EOFError):  # the terminal's end
            await screen.app.run_async(pre_run=begin, handle_sigint=False, set_exception_handler=False)
    finally:
        for task in working:
            task.cancel()
            await asyncio.wait([task])
        screen.close()
    return working[0].result() if working and not working[0].cancelled() else 0


def _first_keys(screen: Screen, early: list[str]) -> KeyBindings:
    """Bind keys for the time before a session: Enter queues the typed line; Ctrl-C and Ctrl-D leave."""
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        del event
        if screen.buffer.text.strip():
            early.append(screen.buffer.text)
        screen.buffer.reset()

    @keys.add("c-c")
    @keys.add("c-d")
    def _(event: KeyPressEvent) -> None:
        del event
        screen.leave()

    return keys


def _load_rest() -> "type[Repl]":
    from sagent.repl.repl import Repl

    return Repl
