"""The part of an agent that writes git notes about commits, at the end of its turns and of the session."""

import asyncio
from pathlib import Path

from sagent.agent import Agent
from sagent.app.builder import AgentBuilder
from sagent.errors import SessionCorrupt
from sagent.events import Event, Finished
from sagent.plugins.blame.notes import write_notes


async def add(builder: AgentBuilder) -> None:
    """Write notes about the commits with this session's changes."""
    if builder.log.path:
        noting = Noting(builder)
        builder.stack.push_async_callback(noting.end)
        builder.started.append(noting.attend)


class Noting:
    """Writes notes about the commits of one session, one writer at a time. A note that fails is told once."""

    def __init__(self, builder: AgentBuilder) -> None:
        self._builder, self._session = builder, Path(builder.log.path)
        self._known = set[str]()
        self._is_told = False
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def attend(self, agent: Agent) -> None:
        """Write notes after each turn of the session's own agent."""
        agent.listen(self._on_event)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Finished) and event.agent == "root":
            self._task = asyncio.create_task(self._write())

    async def end(self) -> None:
        """Write the last notes."""
        if self._task is not None:
            await asyncio.wait([self._task])
        await self._write()

    async def _write(self) -> None:
        async with self._lock:
            log, cwd = self._builder.log, self._builder.settings.cwd
            try:
                reason = await asyncio.to_thread(write_notes, cwd, self._session, log.head, self._known)
            except (OSError, SessionCorrupt) as error:
                reason = str(error)
            if reason and not self._is_told:
                self._is_told = True
                self._builder.warn(f"No note names this session for a commit: {reason}.")
