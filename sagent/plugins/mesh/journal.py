"""What a node does with sessions, for whoever runs it: notes for its log, and figures for Prometheus."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from decimal import Decimal
from typing import Literal, TypeAlias

from sagent.events import Event, ReplyFinished
from sagent.lib.dataclass import dataclass
from sagent.lib.json import json_dump

Act: TypeAlias = Literal["taken", "finished", "released", "lost", "left", "failed", "stopped"]
_TEXTS: Mapping[Act, str] = {
    "taken": "session {session} is taken",
    "finished": "session {session} has finished",
    "released": "session {session} is released for other nodes",
    "lost": "session {session} is lost to other nodes: {why}",
    "left": "session {session} is left to other nodes: {why}",
    "failed": "session {session} {why}",
    "stopped": "session {session} is stopped. {why}",
}
_QUIET: tuple[Act, ...] = ("taken", "finished", "released")
_HELP = {
    "sagent_node_slots": "sessions that this node may work on at a time",
    "sagent_node_sessions": "sessions that it holds now",
    "sagent_node_pause_seconds": "its longest pause of the last minute",
    "sagent_node_lease_seconds": "how long its leases last",
    "sagent_bus_up": "1 if the bus can be reached",
    "sagent_queue_sessions": "work that waits for a node or is being done, on the whole bus",
    "sagent_node_acts_total": "what it did with sessions",
    "sagent_node_model_calls_total": "model calls that succeeded",
    "sagent_node_usd_total": "USD that these were billed, at list prices",
}
_MAX_HEAD_BYTES = 8_192


@dataclass(frozen=True, slots=True)
class Note:
    """Act of a node on a session, its reason, and the sessions held since. `at` is in seconds since 1970."""

    act: Act
    session: str
    why: str
    held: int
    at: float

    @property
    def level(self) -> Literal["info", "warning"]:
        return "info" if self.act in _QUIET else "warning"

    @property
    def text(self) -> str:
        return _TEXTS[self.act].format(session=self.session, why=self.why)

    def line(self, node: str) -> str:
        """Return the note as a line of JSON."""
        own = {"at": round(self.at, 3), "level": self.level, "node": node, "act": self.act, "session": self.session}
        return json_dump({**own, "why": self.why, "held": self.held})


class Journal:
    """Passes on what a node does, and counts it."""

    def __init__(self, on_note: Callable[[Note], object]) -> None:
        self.on_note = on_note
        self.acts = Counter[Act]()
        self.calls, self.usd = 0, Decimal(0)

    def note(self, act: Act, session: str, why: str = "", held: int = 0) -> Note:
        note = Note(act, session, why, held, time.time())
        self.acts[act] += 1
        self.on_note(note)
        return note

    def on_event(self, event: Event) -> None:
        """Count the model calls of a session."""
        if isinstance(event, ReplyFinished):
            self.calls += 1
            self.usd += event.usd or 0

    def figures(self) -> dict[str, float]:
        """Return the counters, by their names and labels."""
        acts = {f'sagent_node_acts_total{{act="{act}"}}': float(self.acts[act]) for act in _TEXTS}
        return {**acts, "sagent_node_model_calls_total": self.calls, "sagent_node_usd_total": float(self.usd)}


def exposition(figures: Mapping[str, float]) -> str:
    """Return figures in Prometheus' text format (prometheus.io/docs/instrumenting/exposition_formats)."""
    lines, named = list[str](), set[str]()
    for name, value in figures.items():
        family = name.partition("{")[0]
        if family not in named:
            named.add(family)
            kind = "counter" if family.endswith("_total") else "gauge"
            lines += [f"# HELP {family} {_HELP[family]}", f"# TYPE {family} {kind}"]
        lines.append(f"{name} {value:g}")
    return "\n".join(lines) + "\n"


@asynccontextmanager
async def shown(host: str, port: int, figures: Callable[[], Awaitable[Mapping[str, float]]]) -> AsyncGenerator[int]:
    """Show figures at /metrics during the block; yield the port. Raises OSError if it is taken."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(10):
                head = await reader.readuntil(b"\r\n\r\n")
                found = head.startswith((b"GET /metrics ", b"GET /metrics?"))
                body = exposition(await figures()).encode() if found else b"see /metrics\n"
                status = b"200 OK" if found else b"404 Not Found"
                kind = b"text/plain; version=0.0.4; charset=utf-8"
                top = b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
                writer.write(top % (status, kind, len(body)) + body)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, host, port, limit=_MAX_HEAD_BYTES)
    async with server:
        yield server.sockets[0].getsockname()[1]
