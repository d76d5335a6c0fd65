"""What a server says before its first word: that it loads its model, or how far it has read the prompt."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol, Self, TypeVar, runtime_checkable

from sagent.errors import ModelError
from sagent.lib.json import as_int
from sagent.model import ModelInfo
from sagent.providers.wire.exchange import Told

MAX_LOADING_SECONDS = 900.0  # that loading a model may take
_PAUSE_SECONDS = 0.25
_SILENCE_SECONDS = 1.0  # after which a server that says nothing is shown to be waited for

T = TypeVar("T")


@runtime_checkable
class Loading(Protocol):
    """A provider that loads a model itself, before it can say which it has."""

    @property
    def unloaded(self) -> ModelInfo | None:
        """The model that the first call loads, where that is known."""


def is_loading(error: ModelError) -> bool:
    """Return True if a server refused a request because it is loading its model (llama.cpp)."""
    return error.status == 503 and "loading model" in str(error).lower()


def loading_line(model: str, seconds: float) -> str:
    """Return a line about a model that is being loaded."""
    return f"Loading {model or 'the model'}… {int(seconds)} s"


def reading_line(progress: Mapping[str, object]) -> str:
    """Return a line about a prompt that is being read, from llama.cpp's `prompt_progress`; "" when it was read. What
    the server knew of it is not counted."""
    known = as_int(progress.get("cache"))
    total, read = as_int(progress.get("total")) - known, as_int(progress.get("processed")) - known
    if not 0 <= read < total:
        return ""
    seconds = as_int(progress.get("time_ms")) / 1000
    rate = f", {read / seconds:,.0f} tokens a second" if read and seconds > 0 else ""
    return f"Reading the prompt: {100 * read // total} % ({read:,} of {total:,} tokens{rate})"


def server_line(seconds: float) -> str:
    """Return a line about a server that says nothing."""
    return f"Waiting for the server… {int(seconds)} s"


class CallWait:
    """Tells what a call of an agent waits for. Within the block that is at first the server itself, which says nothing
    while it answers another call, or what `line` says of so many seconds."""

    def __init__(self, told: Told, conversation: str, line: Callable[[float], str] = server_line) -> None:
        self._told, self._agent, self._line = told, f"{conversation}::".split(":")[1], line
        self._ticking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._ticking = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._end()

    def tell(self, line: str) -> None:
        """Tell it from now on, "" for nothing."""
        self._end()
        self._told(self._agent, line)

    def _end(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None

    async def _tick(self) -> None:
        began = time.monotonic()
        while True:
            await asyncio.sleep(_SILENCE_SECONDS)
            self._told(self._agent, self._line(time.monotonic() - began))


class LoadingWait:
    """Waits for a server that is loading its model, up to MAX_LOADING_SECONDS."""

    def __init__(self, told: Callable[[str], None], model: str) -> None:
        self._told, self._model = told, model
        self._began = time.monotonic()

    async def pause(self, error: ModelError) -> None:
        """Return when it is time to ask again. Raises the error if it means anything else, or after too long."""
        waited = time.monotonic() - self._began
        if not is_loading(error) or waited > MAX_LOADING_SECONDS:
            raise error
        self._told(loading_line(self._model, waited))
        await asyncio.sleep(_PAUSE_SECONDS)


async def when_loaded(ask: Callable[[], Awaitable[T]], told: Told, model: str = "") -> T:
    """Return what a server answers, once it has loaded its model. Raises ModelError."""
    wait = LoadingWait(partial(told, ""), model)
    try:
        while True:
            try:
                return await ask()
            except ModelError as error:
                await wait.pause(error)
    finally:
        told("", "")
