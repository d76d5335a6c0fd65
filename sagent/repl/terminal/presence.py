"""Whether the person is there, and how to call one who is not."""

import asyncio
import os
import time
from collections.abc import Callable

from sagent.repl.terminal.screen import Screen

QUIET = 0.7  # seconds without a key before a question takes the keyboard
LONG_TURN = 10.0  # seconds of work after which its end is told with a bell


class Presence:
    """Knows when something was typed last. `way` is how to call them: "off", "bell" or "osc9"."""

    def __init__(self, screen: Screen, way: Callable[[], str]) -> None:
        self._screen, self._way = screen, way
        self._typed_at = 0.0
        screen.buffer.on_text_changed += self._on_typed

    def _on_typed(self, _: object) -> None:
        self._typed_at = time.monotonic()

    async def until_quiet(self) -> None:
        """Wait until the person has stopped typing."""
        if (left := self._typed_at + QUIET - time.monotonic()) > 0:
            await asyncio.sleep(left)
            await self.until_quiet()

    def ring(self, seconds: float) -> None:
        """Call a person who looks elsewhere when work ends; after long work also where the terminal does not say."""
        if seconds >= LONG_TURN or self._screen.focused is False:
            self.call("sagent has finished")

    def call(self, text: str) -> None:
        """Call a person who looks elsewhere, or has not typed for a while."""
        way, screen = self._way(), self._screen
        away = time.monotonic() - self._typed_at >= LONG_TURN if screen.focused is None else not screen.focused
        if way == "off" or not away:
            return
        if way == "osc9":
            note = f"\x1b]9;{text}\x07"
            inside = bool(os.environ.get("TMUX"))  # tmux passes it on where its option allow-passthrough is on
            screen.output.write_raw(f"\x1bPtmux;\x1b{note}\x1b\\" if inside else note)
        screen.output.bell()
        screen.output.flush()
