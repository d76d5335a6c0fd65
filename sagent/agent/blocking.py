"""Agents for code without an event loop."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Protocol, TypeVar, cast, overload, runtime_checkable

from sagent.agent.agent import Agent
from sagent.agent.agent_tool import Runnable
from sagent.agent.asking import Form, Prompt, wait_for
from sagent.agent.resources import GivenTool
from sagent.errors import UsageError
from sagent.events import Result
from sagent.lib.dataclass import refuse_keywords
from sagent.messages import Message

D = TypeVar("D")
Deps = TypeVar("Deps")
T = TypeVar("T")


@runtime_checkable
class _Closable(Protocol):
    async def aclose(self) -> None: ...


@overload
def run_sync(work: Coroutine[object, object, T], /) -> T: ...
@overload
def run_sync(
    work: Agent[Deps],
    prompt: Prompt,
    /,
    *,
    output: Form[D],
    deps: Deps = ...,
    tools: Sequence[GivenTool[Deps]] | None = None,
) -> Result[D]: ...
@overload
def run_sync(
    work: Agent[Deps],
    prompt: Prompt,
    /,
    *,
    output: object = None,
    deps: Deps = ...,
    tools: Sequence[GivenTool[Deps]] | None = None,
) -> Result: ...
@overload
def run_sync(work: Runnable, prompt: str | Message, /) -> Result: ...
def run_sync(work: Coroutine[object, object, object] | Runnable, prompt: Prompt = "", /, **given: object) -> object:
    """Run an agent, a pattern or your own runnable on a prompt, as in `run_sync(agent, "...", output=Recipe)`, and
    close it; further arguments are those of its `run`. Or run any coroutine to its end.

    Raises UsageError inside a running event loop, and the work's own errors.
    """
    if isinstance(work, Runnable):
        run = cast("Callable[..., Awaitable[Result]]", work.run)
        return wait_for(lambda: run(prompt, **given), work.aclose if isinstance(work, _Closable) else None)
    refuse_keywords("run_sync", given)
    if not isinstance(work, Coroutine):  # pyright: ignore[reportUnnecessaryIsInstance] -- not everybody has a checker
        raise UsageError(f"run_sync takes an agent or a coroutine, as agent.run(...), not a {type(work).__name__}")
    coroutine = work
    try:
        return wait_for(lambda: coroutine)
    finally:
        coroutine.close()
