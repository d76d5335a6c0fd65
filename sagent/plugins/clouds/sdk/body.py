"""Bodies of an SDK's responses: decompressed here, and cut to the size that errors need."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Protocol, cast

import httpx2

from sagent.providers.wire.exchange import MAX_ERROR_BYTES, read_body
from sagent.providers.wire.transport import Answer, inflated

_ERROR_TIMEOUT_SECONDS = 10.0  # given to the body of an error


class _Closable(Protocol):
    async def aclose(self) -> None: ...


class _Body(httpx2.AsyncByteStream):
    """A response's body that replaces the original one."""

    def __init__(self, response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._stream = response.stream
        self._status = response.status_code
        self._encoding: str = response.headers.pop("content-encoding", "")
        self._network: _Closable | None = response.extensions.get("network_stream")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with aclosing(inflated(self._stream, self._encoding)) as chunks:
            if self._status >= 300:  # the SDKs read the whole body of an error at once
                answer = Answer(self._status, {}, chunks, self.aclose)
                yield await read_body(answer, MAX_ERROR_BYTES, timeout=_ERROR_TIMEOUT_SECONDS)
                return
            async for chunk in chunks:
                yield chunk

    async def aclose(self) -> None:
        if self._network is not None and _left_over(self._stream):
            await self._network.aclose()  # otherwise the next request would get its rest
        await self._stream.aclose()


def _left_over(stream: object) -> bool:
    """Return whether bytes came after an answer's end. The SDKs' HTTP client keeps them for the next answer, in private
    attributes; if these are not found, the connection is not used again."""
    for name in ("_stream", "_httpcore_stream", "_stream", "_connection", "_h11_state", "trailing_data"):
        stream = getattr(stream, name, None)
    return not isinstance(stream, tuple) or bool(cast("tuple[bytes, bool]", stream)[0])


async def _guard(response: httpx2.Response) -> None:
    response.stream = _Body(response)


def hooks() -> dict[str, list[Callable[[httpx2.Response], Awaitable[None]]]]:
    """Return the hooks for an SDK's HTTP client."""
    return {"response": [_guard]}
