"""The events of a running session for attached clients: JSON lines, many in a message."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import cast, get_args

from sagent.events import Event
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_object, as_str, wire_bytes
from sagent.lib.text import printable
from sagent.plugins.mesh import names
from sagent.plugins.mesh.errors import MeshError
from sagent.plugins.mesh.figures import FIGURES, Figures, read_figures
from sagent.plugins.mesh.jetstream import JetStream
from sagent.plugins.mesh.records import adapter, encode

END_LINE = b'{"kind":"end"}\n'
"""After this line a result is available."""
_LEASE = "Sagent-Lease"
_MAX_MESSAGE_BYTES = 1 << 20  # of events in a message; a single larger event than the bus carries is left out
_WAIT_KIND = "Waits"
_KINDS = {kind.__name__: kind for kind in get_args(Event)}


@dataclass(frozen=True, slots=True)
class ServerWait:
    """An agent's wait for a local server; `line` is "" when it no longer waits."""

    agent: str
    line: str


class Broadcast:
    """Publishes events in order. Lost ones are not repeated, because the log has everything. `lease` is the revision of
    the holder's lease, by which clients recognize messages of an earlier holder."""

    def __init__(self, bus: JetStream, session: str, lease: int | None = None) -> None:
        self._bus, self._subject = bus, names.events_subject(session)
        self._headers = {} if lease is None else {_LEASE: str(lease)}
        self._lines: list[bytes] = []
        self._wake = asyncio.Event()

    def on_event(self, event: Event) -> None:
        self._add(type(event).__name__, encode(event))

    def show(self, figures: Figures) -> None:
        """Publish these figures, and later changes."""
        self._add(FIGURES, encode(figures))

    def tell(self, agent: str, line: str) -> None:
        """Publish why a call of an agent waits."""
        self._add(_WAIT_KIND, wire_bytes({"agent": agent, "line": line}))

    def _add(self, kind: str, data: bytes) -> None:
        self._lines.append(b'{"kind":"%b","event":%b}\n' % (kind.encode(), data))
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


def read_lines(data: bytes) -> Iterator[Event | Figures | ServerWait | None]:
    """Yield the events in a message, None for the end of a run; kinds from newer versions are skipped."""
    for line in data.splitlines():
        with suppress(ValueError, RecursionError):
            found = as_object(json.loads(line))
            kind = as_str(found.get("kind"))
            if kind in _KINDS:
                yield cast("Event", adapter(_KINDS[kind]).validate_python(found.get("event")))
            elif kind == FIGURES:
                yield read_figures(found.get("event"))
            elif kind == _WAIT_KIND:
                told = as_object(found.get("event"))
                yield ServerWait(as_str(told.get("agent")), printable(as_str(told.get("line"))))
            elif kind == "end":
                yield None
