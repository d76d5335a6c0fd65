"""Filters a server's lists item by item, because the SDK rejects a whole list for one undefined item.

Answers to calls are repaired in the same way, block by block. Optional invalid members of an item are removed; an item
that is still invalid is left out of the list, and reported.
"""

from collections.abc import AsyncGenerator, Mapping, MutableMapping, MutableSet
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sagent.lib.json import as_array, as_object
from sagent.lib.text import one_line, printable
from sagent.plugins.mcp.answers import COMPLETE, mend_answer

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, Transport, TransportStreams, WriteStream
    from mcp.shared.message import SessionMessage

_KINDS = ("tools", "prompts", "resources")
_NEEDED = {"", "name", "inputSchema", "uri", "arguments"}  # what these say cannot be guessed
MAX_DEPTH = 100  # nested objects and arrays in a schema
_NEWEST = "2026-07-28"


@asynccontextmanager
async def filtered_streams(
    transport: "Transport", unread: MutableMapping[str, str]
) -> "AsyncGenerator[TransportStreams]":
    """Yield the streams of a transport. Its lists have the valid items; `unread` gets the others by name, with the
    reason."""
    async with transport as (incoming, outgoing):
        calls = set[object]()
        yield _FilteredStream(incoming, unread, calls), _NotedStream(outgoing, calls)


class _Wrapped:
    """A wrapper around one of the SDK's streams, closed with it."""

    def __init__(self, inner: "ReadStream[SessionMessage | Exception] | WriteStream[SessionMessage]") -> None:
        self._inner = inner

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)


class _NotedStream(_Wrapped):
    """A stream of messages, as the SDK writes it. It records the ids of tool calls, because answers do not repeat the
    method."""

    def __init__(self, outgoing: "WriteStream[SessionMessage]", calls: MutableSet[object]) -> None:
        super().__init__(outgoing)
        self._outgoing, self._calls = outgoing, calls

    async def send(self, item: "SessionMessage", /) -> None:
        from mcp.types import JSONRPCRequest

        if isinstance(item.message, JSONRPCRequest) and item.message.method == "tools/call":
            self._calls.add(item.message.id)
        await self._outgoing.send(item)


class _FilteredStream(_Wrapped):
    """A stream of messages, as the SDK reads it."""

    def __init__(
        self,
        incoming: "ReadStream[SessionMessage | Exception]",
        unread: MutableMapping[str, str],
        calls: MutableSet[object],
    ) -> None:
        super().__init__(incoming)
        self._incoming, self._unread, self._calls = incoming, unread, calls
        self._version = _NEWEST

    async def receive(self) -> "SessionMessage | Exception":
        return self._filtered(await self._incoming.receive())

    def __aiter__(self) -> "_FilteredStream":
        return self

    async def __anext__(self) -> "SessionMessage | Exception":
        return self._filtered(await self._incoming.__anext__())

    def _filtered(self, item: "SessionMessage | Exception") -> "SessionMessage | Exception":
        from mcp.types import JSONRPCResponse

        if not isinstance(item, Exception) and isinstance(item.message, JSONRPCResponse):
            result = item.message.result
            if "capabilities" in result:
                self._version = str(result.get("protocolVersion", self._version))
            for kind in _KINDS:
                if isinstance(result.get(kind), list):
                    result[kind] = [each for one in as_array(result[kind]) for each in self._read(kind, one)]
            of_call = item.message.id in self._calls
            self._calls.discard(item.message.id)
            mend_answer(result, self._version, of_call=of_call)
        return item

    def _read(self, kind: str, item: object) -> list[object]:
        """Return the item in a form that the SDK accepts, or nothing."""
        fields, wrong = dict(as_object(item)), dict[str, str]()
        if kind == "tools" and (schema := as_object(fields.get("inputSchema"))) is fields.get("inputSchema"):
            fields["inputSchema"] = {"type": "object", **schema}
            if _depth(schema) > MAX_DEPTH:
                wrong = {"inputSchema": "nested too deeply"}
        for _ in range(0 if wrong else 3):  # the revision, and then the SDK, report errors
            wrong = _wrong(kind, fields, self._version)
            if not wrong:
                return [fields]
            if not _NEEDED.isdisjoint(wrong):
                break
            fields = {name: value for name, value in fields.items() if name not in wrong}
        name = printable(str(fields.get("name", f"one of its {kind}")))
        self._unread[one_line(name, 100)] = one_line("; ".join(f"{at}: {why}" for at, why in wrong.items()), 200)
        return []


def _depth(value: object) -> int:
    """Return the greatest depth of nested objects and arrays."""
    deepest, level = 0, [value]
    while level := [inner for each in level for inner in (*as_object(each).values(), *as_array(each))]:
        deepest += 1
    return deepest


def _wrong(kind: str, fields: Mapping[str, object], version: str) -> dict[str, str]:
    """Return the protocol violations, by the member of the item."""
    from mcp_types.methods import parse_server_result
    from pydantic import ValidationError

    try:
        parse_server_result(f"{kind}/list", version, {**COMPLETE, kind: [fields]})
    except ValidationError as error:
        return {str(one["loc"][2]) if len(one["loc"]) > 2 else "": one["msg"] for one in error.errors()}
    except (KeyError, ValueError):  # the SDK reports an unknown version
        pass
    return {}
