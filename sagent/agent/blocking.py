"""Agents for code without an event loop."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Protocol, TypeVar, overload, runtime_checkable

from sagent.agent.agent_tool import Runnable
from sagent.agent.asking import wait_for
from sagent.errors import UsageError
from sagent.events import Result
from sagent.messages import Message

T = TypeVar("T")


@runtime_checkable
class _Closable(Protocol):
    async def aclose(self) -> None: ...


@overload
def run_sync(work: Coroutine[object, object, T], /) -> T: ...
@overload
def run_sync(work: Runnable, prompt: str | Message, /) -> Result: ...
def run_sync(work: Coroutine[object, object, object] | Runnable, prompt: str | Message = "", /) -> object:
    """Run a coroutine to its end, as in `run_sync(agent.run("...", output=Recipe))`; or have an agent, a pattern or
    your own runnable answer a prompt, as in `run_sync(agent, "...")`, and close it.

    Raises UsageError inside a running event loop, and what the work raises.
    """
    if isinstance(work, Runnable):
        return wait_for(lambda: work.run(prompt), work.aclose if isinstance(work, _Closable) else _nothing)
    if not isinstance(work, Coroutine):  # pyright: ignore[reportUnnecessaryIsInstance] -- not everybody has a checker
        raise UsageError(f"run_sync takes an agent or a coroutine, as agent.run(...), not a {type(work).__name__}")
    coroutine = work
    try:
        return wait_for(_returned(coroutine), _nothing)
    finally:
        coroutine.close()


def _returned(coroutine: Coroutine[object, object, T]) -> Callable[[], Awaitable[T]]:
    return lambda: coroutine


async def _nothing() -> None:
    """Nothing is to be closed."""
