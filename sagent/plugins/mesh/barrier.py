"""The barrier between an agent and the bus: model calls, and tool calls with effects, wait until the bus has
acknowledged the entries before them and the session is still ours."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from sagent.lib.json import JsonObject
from sagent.model import Counting, Delta, Model, ModelLimits, Reply, Request, Structuring, closing
from sagent.plugins.mesh.lease import Lease
from sagent.plugins.mesh.mirror import Mirror
from sagent.session.store import Session
from sagent.tool import Answer, RunContext, Tool
from sagent.tools.wrapped import WrappedTool

if TYPE_CHECKING:
    from sagent.plugins.hosting.figures import Judgement

_CHECK_INTERVAL_SECONDS = 0.05  # seconds between looks at a lease in doubt


class Barrier:
    """Makes the model, the tools and `more` tools (if it may spawn agents) of an agent on a node wait for the bus.
    `keep_files` is awaited after each call that may have changed files, before its result is logged, so that the files
    on the bus include all logged changes."""

    def __init__(
        self, mirror: Mirror, lease: Lease, keep_files: Callable[[], Awaitable[None]], more: Sequence[Tool] = ()
    ) -> None:
        self._mirror, self._lease, self.keep_files, self._more = mirror, lease, keep_files, more
        self.is_lost: Callable[[], bool] = lambda: False  # whether the local log can no longer be written
        self.judgement: Judgement | None = None  # set by who opens the agent

    def follow(self, session: Session) -> None:
        self._mirror.follow(session)

    def model(self, model: Model) -> Model:
        return model if isinstance(model, KeptModel) else KeptModel(model, self)

    def tools(self, tools: Sequence[Tool]) -> list[Tool]:
        more = self._more if any(tool.name == "AgentSpawn" for tool in tools) else ()
        return [KeptTool(tool, self) for tool in (*tools, *more)]

    async def passed(self, begun: RunContext | None = None) -> None:
        """Return when the effect may happen. Waits for ever if the session is lost (the wait is cancelled with its
        agent). `begun` is the call to be made, which is reported to the bus."""
        if self.is_lost():  # what happens from here on would be in no log: the session is another node's
            self._mirror.fence()
        if begun is not None:
            self._mirror.begin(begun.agent, begun.call_id)
        await self._mirror.settled()
        while not self._lease.holds:  # noqa: ASYNC110 -- in doubt: it is renewed, or the session is given up
            await asyncio.sleep(_CHECK_INTERVAL_SECONDS)


class KeptModel:
    """A model with calls that wait."""

    def __init__(self, model: Model, barrier: Barrier) -> None:
        self._model, self._barrier = model, barrier
        self.provider, self.id = model.provider, model.id

    @property
    def limits(self) -> ModelLimits:
        return self._model.limits

    def max_input_tokens(self, request: Request) -> int:
        return self._model.max_input_tokens(request)

    async def count_tokens(self, request: Request) -> int | None:
        return await self._model.count_tokens(request) if isinstance(self._model, Counting) else None

    def structures(self, request: Request) -> bool:
        return isinstance(self._model, Structuring) and self._model.structures(request)

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        await self._barrier.passed()
        async with closing(self._model.stream(request)) as deltas:
            async for delta in deltas:
                yield delta

    def __getattr__(self, name: str) -> object:
        return getattr(self._model, name)


class KeptTool(WrappedTool):
    """A tool; calls that may change something wait, and files are saved after them."""

    def __init__(self, tool: Tool, barrier: Barrier) -> None:
        super().__init__(tool)
        self._barrier = barrier

    async def __call__(self, arguments: JsonObject, run: RunContext) -> Answer:
        if run.effect is not None and run.effect.kind in ("none", "read"):
            return await self.tool(arguments, run)
        await self._barrier.passed(run)
        try:
            return await self.tool(arguments, run)
        finally:
            await self._barrier.keep_files()
