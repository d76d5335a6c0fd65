"""Events and figures of a running session as JSON lines, for the clients that follow it elsewhere."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import cast, get_args

from sagent.events import Event
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_object, as_str, wire_bytes
from sagent.lib.text import printable
from sagent.plugins.hosting.figures import FIGURES, Figures, read_figures
from sagent.plugins.hosting.typed import adapter, encode

END_LINE = b'{"kind":"end"}\n'
"""After this line a result is available."""
_WAIT_KIND = "Waits"
_KINDS = {kind.__name__: kind for kind in get_args(Event)}


@dataclass(frozen=True, slots=True)
class ServerWait:
    """An agent's wait for a local server; `line` is "" when it no longer waits."""

    agent: str
    line: str


def event_line(event: Event) -> bytes:
    """Return the line of an event."""
    return _line(type(event).__name__, encode(event))


def figures_line(figures: Figures) -> bytes:
    """Return the line of new figures."""
    return _line(FIGURES, encode(figures))


def wait_line(agent: str, line: str) -> bytes:
    """Return the line that says why a call of an agent waits."""
    return _line(_WAIT_KIND, wire_bytes({"agent": agent, "line": line}))


def _line(kind: str, data: bytes) -> bytes:
    return b'{"kind":"%b","event":%b}\n' % (kind.encode(), data)


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
