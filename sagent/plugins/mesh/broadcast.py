"""The events of a running session for attached clients: JSON lines, many in a message."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from sagent.events import Event
from sagent.plugins.hosting.figures import Figures
from sagent.plugins.hosting.lines import END_LINE, ServerWait, event_line, figures_line, read_lines, wait_line
from sagent.plugins.mesh import names
from sagent.plugins.mesh.errors import MeshError
from sagent.plugins.mesh.jetstream import JetStream

__all__ = ["END_LINE", "Broadcast", "ServerWait", "lease_of", "read_lines"]

_LEASE = "Sagent-Lease"
_MAX_MESSAGE_BYTES = 1 << 20  # of events in a message; a single larger event than the bus carries is left out


class Broadcast:
    """Publishes events in order. Lost ones are not repeated, because the log has everything. `lease` is the revision of
    the holder's lease, by which clients recognize messages of an earlier holder."""

    def __init__(self, bus: JetStream, session: str, lease: int | None = None) -> None:
        self._bus, self._subject = bus, names.events_subject(session)
        self._headers = {} if lease is None else {_LEASE: str(lease)}
        self._lines: list[bytes] = []
        self._wake = asyncio.Event()

    def on_event(self, event: Event) -> None:
        self._add(event_line(event))

    def show(self, figures: Figures) -> None:
        """Publish these figures, and later changes."""
        self._add(figures_line(figures))

    def tell(self, agent: str, line: str) -> None:
        """Publish why a call of an agent waits."""
        self._add(wait_line(agent, line))

    def _add(self, line: bytes) -> None:
        self._lines.append(line)
        self._wake.set()

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self.flush()

    async def flush(self, *last: bytes) -> None:
        """Publish pending events, then these lines."""
        lines, self._lines = [*self._lines, *last], []
        while lines:
            count, size = 1, len(lines[0])
            while count < len(lines) and (size := size + len(lines[count])) <= _MAX_MESSAGE_BYTES:
                count += 1
            with suppress(MeshError):
                await self._bus.publish(self._subject, b"".join(lines[:count]), self._headers, timeout=1.0)
            del lines[:count]


def lease_of(headers: Mapping[str, str]) -> int | None:
    """Return the lease of a message's sender; None if unknown."""
    text = headers.get(_LEASE, "")
    return int(text) if text.isascii() and text.isdigit() else None
