"""What an SDK reads of a response: inflated by us, and of an error's body no more than says why."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing

import httpx2

from sagent.providers.wire.exchange import ERROR_BODY, read_body
from sagent.providers.wire.transport import Answer, inflated

_PATIENCE = 10.0  # seconds given to the body of an error


class _Body(httpx2.AsyncByteStream):
    """A response's body in place of the one that it came with."""

    def __init__(self, response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._stream = response.stream
        self._status = response.status_code
        self._encoding: str = response.headers.pop("content-encoding", "")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with aclosing(inflated(self._stream, self._encoding)) as chunks:
            if self._status >= 300:  # the SDKs read all of it, at once
                answer = Answer(self._status, {}, chunks, self.aclose)
                yield await read_body(answer, ERROR_BODY, patience=_PATIENCE)
                return
            async for chunk in chunks:
                yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _guard(response: httpx2.Response) -> None:
    response.stream = _Body(response)


def hooks() -> dict[str, list[Callable[[httpx2.Response], Awaitable[None]]]]:
    """For an SDK's HTTP client."""
    return {"response": [_guard]}
