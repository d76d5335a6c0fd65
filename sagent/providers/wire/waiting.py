"""Servers that load their model before they answer."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar, runtime_checkable

from sagent.errors import ModelError
from sagent.model import ModelInfo
from sagent.providers.wire.exchange import OnWaiting

MAX_LOADING_SECONDS = 900.0  # that loading a model may take
_PAUSE_SECONDS = 0.25

T = TypeVar("T")


@runtime_checkable
class Loading(Protocol):
    """A provider that loads a model before it can name it."""

    @property
    def unloaded(self) -> ModelInfo | None:
        """The model that the first call loads, if known."""


def is_loading(error: ModelError) -> bool:
    """Return True if a server refused a request because it is loading its model (llama.cpp)."""
    return error.status == 503 and "loading model" in str(error).lower()


def loading_line(model: str, seconds: float) -> str:
    """Return a line about a model that is being loaded."""
    return f"Loading {model or 'the model'}… {int(seconds)} s"


class LoadingWait:
    """Waits for a server that is loading its model, up to MAX_LOADING_SECONDS."""

    def __init__(self, on_waiting: Callable[[str], None], model: str) -> None:
        self._on_waiting, self._model = on_waiting, model
        self._began = time.monotonic()

    async def pause(self, error: ModelError) -> None:
        """Return when it is time to ask again. Raises the error if it has another meaning, or after too long."""
        waited = time.monotonic() - self._began
        if not is_loading(error) or waited > MAX_LOADING_SECONDS:
            raise error
        self._on_waiting(loading_line(self._model, waited))
        await asyncio.sleep(_PAUSE_SECONDS)


async def when_loaded(ask: Callable[[], Awaitable[T]], on_waiting: OnWaiting, model: str = "") -> T:
    """Return a server's answer, once it has loaded its model. Raises ModelError."""
    wait = LoadingWait(partial(on_waiting, ""), model)
    try:
        while True:
            try:
                return await ask()
            except ModelError as error:
                await wait.pause(error)
    finally:
        on_waiting("", "")
