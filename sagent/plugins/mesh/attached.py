"""The root agent of a session on a bus, for a client that talks to it, whichever node it runs on."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import ClassVar, Self

from sagent.errors import SagentError, UsageError
from sagent.events import Event, Failure, Finished, Notice, Result, Retrying
from sagent.peer import Action, Switch
from sagent.plugins.hosting.followed import FollowedAgent
from sagent.plugins.mesh import names
from sagent.plugins.mesh.errors import Fenced, MeshError, NobodyThere, Unavailable
from sagent.plugins.mesh.jetstream import JetStream
from sagent.plugins.mesh.logstream import SessionStream
from sagent.plugins.mesh.rebuild import LogCopy
from sagent.plugins.mesh.records import Records, SessionRecord
from sagent.plugins.mesh.remote import RemotePeer
from sagent.plugins.mesh.tasks import end
from sagent.sandbox.scratch import temporary

_CHECK_INTERVAL_SECONDS = 1.0  # seconds between checks of who holds the session
_SILENT = 3  # checks after which a node without the lease counts as stopped, or all nodes as full


class RemoteAgent(FollowedAgent):
    """The root agent of a session that nodes of a bus work on."""

    nobody: ClassVar[type[SagentError]] = NobodyThere
    rests: ClassVar[str] = "No node is running this session now. Send a message first, or include this in one."

    def __init__(self, bus: JetStream, peer: RemotePeer, copy: LogCopy, listener: Callable[[Event], None]) -> None:
        super().__init__(peer, copy, listener)
        self._bus, self._remote = bus, peer
        peer.on_record = self._on_record

    @classmethod
    @asynccontextmanager
    async def followed(
        cls, bus: JetStream, peer: RemotePeer, listener: Callable[[Event], None]
    ) -> AsyncGenerator[Self]:
        """Follow a session while the block lasts. Raises SessionCorrupt, Unavailable and OSError."""
        with temporary() as place:
            copy = LogCopy(SessionStream(bus, peer.record.id), place / peer.record.id)
            agent = cls(bus, peer, copy, listener)
            try:
                async with agent.keeping_up():
                    watching = asyncio.create_task(agent._watch())
                    try:
                        yield agent
                    finally:
                        await end(watching)
            finally:
                copy.close()

    def apply_at_rest(self, action: Action) -> None:
        """Have the next node open it with another model or effort. Raises UsageError for other actions."""
        if not isinstance(action, Switch) or action.limits is not None or action.advisor is not None:
            raise UsageError(self.rests)
        self.peer.start(self._report(self._switch_at_rest(action)))

    async def _switch_at_rest(self, action: Switch) -> None:
        """Have the next node open it with another model or effort."""
        chosen = {"model": action.model, "effort": action.effort}
        records = Records(self._bus)
        record, revision = await records.get(self.peer.path)
        flags = {**record.flags, **{name: text for name, text in chosen.items() if text}}
        try:
            await records.change(record, revision, flags=flags)
        except Fenced:
            await self.peer.change(action)
        words = " and ".join(f"{name} {text}" for name, text in chosen.items() if text)
        self._emit(Notice("root", "info", f"It continues with {words}."))

    def _on_moved(self) -> None:
        """End open replies and calls: another node has the session now."""
        self.peer.end_waits()
        if self._writing:
            self._writing = False
            self._emit(Retrying("root", "The node that wrote it has stopped", "node", 1, 0.0, "…"))
        for agent in sorted(self._working):
            lost = Result("", (), "interrupted", Failure("interrupted", "Its node has stopped."))
            self._emit(Finished(agent, lost))
        self._working.clear()

    def _on_record(self, before: SessionRecord) -> None:
        now = self._remote.record
        if now.state == "idle":
            self._live = False
            self._stale.set()
        elif before.node and now.node != before.node and now.state == "working" and before.state != "idle":
            text = f"Node {now.node} continues this session, which ran on {before.node} before."
            self._emit(Notice("root", "info", text))
            self._on_moved()
        self._changed()

    async def _watch(self) -> None:
        """Report when nobody holds a session that has work, and when the bus is away."""
        leases, silent, away = self._bus.bucket(names.LEASES), 0, False
        while True:
            await asyncio.sleep(_CHECK_INTERVAL_SECONDS)
            if self._bus.is_up == away:
                away = not away
                text = "The bus cannot be reached." if away else "The bus is back. To see messages since then: /earlier"
                self._emit(Notice("root", "warning" if away else "info", text))
                self._stale.set()
            if away or not self.running:
                silent = 0
                continue
            figures = self.peer.figures
            if figures is None or figures.node != self._remote.record.node:
                with suppress(MeshError):
                    await self._look()
            with suppress(Unavailable):
                silent = 0 if await leases.get(names.token(self.peer.path)) is not None else silent + 1
            if silent == _SILENT and self.running:
                self._emit(Notice("root", "warning", self._silence()))

    def _silence(self) -> str:
        record = self._remote.record
        if record.state == "queued" or not record.node:
            return (
                f"This session is waiting for a node with a free "
                f"slot{f' and the label {record.label}' * bool(record.label)}."
            )
        return f"Node {record.node} no longer answers. The next node with a free slot continues this session."
