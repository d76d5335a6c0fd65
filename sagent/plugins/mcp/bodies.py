"""Limits for a server's answers over HTTP, because a few compressed bytes may expand to very many."""

import zlib
from collections.abc import AsyncIterator, Callable

import httpx2

from sagent.lib.inflate import Inflater, encodings
from sagent.plugins.mcp.pipes import MAX_LINE_BYTES
from sagent.plugins.mcp.server import McpServer


def http_client(
    server: McpServer,
    auth: httpx2.Auth | None,
    on_answer: Callable[[httpx2.Response], object] = lambda _: None,
    on_more: Callable[[], object] = lambda: None,
) -> httpx2.AsyncClient:
    """Return a client for a server with a URL. `on_answer` is called with each answer, and `on_more` if one is too
    long."""

    async def attend(response: httpx2.Response) -> None:
        _bound(response, on_more)
        on_answer(response)

    headers = {"accept-encoding": ", ".join(encodings()), **server.headers}
    return httpx2.AsyncClient(headers=headers, timeout=server.timeout, auth=auth, event_hooks={"response": [attend]})


def _bound(response: httpx2.Response, on_more: Callable[[], object]) -> None:
    """Limit an answer to MAX_LINE_BYTES. Events are limited separately by their reader."""
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        return
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding in encodings():
        del response.headers["content-encoding"]
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(response.stream, encoding, on_more)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, encoding: str, on_more: Callable[[], object]) -> None:
        self._stream, self._on_more = stream, on_more
        self._inflater = Inflater(encoding) if encoding in encodings() else None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_LINE_BYTES
        try:
            async for chunk in self._stream:
                for plain in self._inflater.feed(chunk) if self._inflater else (chunk,):
                    if (left := left - len(plain)) < 0:
                        self._on_more()
                        raise httpx2.ReadError("the answer is too long")
                    yield plain
            if self._inflater:
                yield self._inflater.finish()[0]
        except zlib.error as error:
            raise httpx2.DecodingError(str(error)) from error

    async def aclose(self) -> None:
        await self._stream.aclose()
