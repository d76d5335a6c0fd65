"""Opens an earlier session to rewind it: no model is called, so no model or key is needed."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from sagent.agent import Agent, Resources
from sagent.config import Settings
from sagent.errors import ModelError
from sagent.events import Event
from sagent.model import Delta, ModelLimits, Reply, Request
from sagent.rewind.plan import cut_off
from sagent.rewind.recorder import read_snapshot
from sagent.session.folds import history
from sagent.session.store import Session
from sagent.tool import Workspace


class _NoModel:
    """Stands for a model."""

    provider, id, limits = "none", "none", ModelLimits()

    def max_input_tokens(self, request: Request) -> int:
        return 0

    def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        raise ModelError("invalid_request", "no model is available here", provider=self.provider)


@asynccontextmanager
async def open_offline(settings: Settings, listener: Callable[[Event], None]) -> AsyncGenerator[Agent]:
    """Yield the root's agent of the named session, without tools; work that was interrupted stays as it is. Raises
    SessionBusy, SessionCorrupt, SessionNotFound and OSError."""
    with Session.open(settings.session or Path()) as session:
        log = session.log()
        agent = Agent(_NoModel(), resources=Resources(log=log, workspace=Workspace(settings.cwd)))
        agent.listen(listener)
        try:
            agent.restore(history(log.contents(), log.blobs.get))
            for what in cut_off(log.contents().of("touched"), read_snapshot):
                agent.state.journal.record(what)
            yield agent
        finally:
            await agent.aclose()
