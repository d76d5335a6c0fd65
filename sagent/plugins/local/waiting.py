"""Waiting for a server on this machine: for a turn, and for the prompt to be read."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Self

from sagent.lib.json import as_int
from sagent.providers.wire.exchange import OnWaiting

_SILENCE_SECONDS = 1.0  # after which a wait for a silent server is shown


def reading_line(progress: Mapping[str, object]) -> str:
    """Return a line about a prompt that is being read, from llama.cpp's `prompt_progress`; "" when it was read. Tokens
    in the server's cache are not counted."""
    known = as_int(progress.get("cache"))
    total, read = as_int(progress.get("total")) - known, as_int(progress.get("processed")) - known
    if not 0 <= read < total:
        return ""
    seconds = as_int(progress.get("time_ms")) / 1000
    rate = f", {read / seconds:,.0f} tokens a second" if read and seconds > 0 else ""
    return f"Reading the prompt: {100 * read // total} % ({read:,} of {total:,} tokens{rate})"


def server_line(seconds: float) -> str:
    """Return a line about a silent server."""
    return f"Waiting for the server… {int(seconds)} s"


class CallWait:
    """Reports why a call of an agent waits. In the block that is at first the server itself, which is silent while it
    answers another call, or the text of `line` for a number of seconds."""

    def __init__(self, on_waiting: OnWaiting, conversation: str, line: Callable[[float], str] = server_line) -> None:
        self._on_waiting, self._agent, self._line = on_waiting, f"{conversation}::".split(":")[1], line
        self._ticking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._ticking = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._end()

    def tell(self, line: str) -> None:
        """Report a reason from now on, "" for none."""
        self._end()
        self._on_waiting(self._agent, line)

    def _end(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None

    async def _tick(self) -> None:
        began = time.monotonic()
        while True:
            await asyncio.sleep(_SILENCE_SECONDS)
            self._on_waiting(self._agent, self._line(time.monotonic() - began))
