"""Convert Bedrock's AWS event stream to server-sent events, which all other readers know."""

import json
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Mapping
from typing import Protocol, cast

from botocore.eventstream import EventStreamBuffer, ParserError  # pyright: ignore[reportMissingTypeStubs] -- it has none

from sagent.lib.json import as_object, as_str
from sagent.providers.wire.faults import ExchangeFailed


class _Frame(Protocol):
    headers: Mapping[str, object]
    payload: bytes


class _Frames(Protocol):
    def add_data(self, data: bytes) -> None: ...
    def __iter__(self) -> Iterator[_Frame]: ...


async def server_sent(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield frames as events, after checking their checksums. A frame of InvokeModel has its event in a chunk. A frame
    of Converse becomes an object with one member, named for the event. Errors look like those of other services."""
    buffer = cast("_Frames", EventStreamBuffer())
    async for chunk in chunks:
        buffer.add_data(chunk)
        try:
            for frame in buffer:
                yield b"data: " + b" ".join(_event(frame.headers, frame.payload).splitlines()) + b"\n\n"
        except (ParserError, ValueError) as error:
            raise ExchangeFailed("protocol", f"a frame of the event stream is damaged: {error}") from error


def _event(headers: Mapping[str, object], payload: bytes) -> bytes:
    if headers.get(":message-type") != "event":
        code = as_str(headers.get(":exception-type")) or as_str(headers.get(":error-code"))
        said = as_str(as_object(_read(payload)).get("message")) or as_str(headers.get(":error-message"))
        return json.dumps({"type": "error", "error": {"type": code, "message": said}}).encode()
    if (kind := as_str(headers.get(":event-type"))) == "chunk":
        from base64 import b64decode

        return b64decode(as_str(as_object(_read(payload)).get("bytes")), validate=True)
    return b"{" + json.dumps(kind).encode() + b":" + (payload or b"{}") + b"}"


def _read(payload: bytes) -> object:
    return json.loads(payload or b"{}")
