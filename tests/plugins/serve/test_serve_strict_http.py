"""The server of `sagent serve` on the wire."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from served import served

from tests.strict_http import StrictHttp, exchange


class TestStrictHttp(StrictHttp):
    @pytest.fixture
    async def port(self, work: Path) -> AsyncIterator[int]:
        async with served(work) as client:
            yield int(client.url.rpartition(":")[2])

    @pytest.mark.parametrize("sent", [b"", b"GET", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"])
    async def test_unfinished_head_is_given_up(self, port: int, sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sagent.plugins.hosting.running.HEAD_TIMEOUT_SECONDS", 0.01)
        assert await exchange(port, sent) == b""
        whole = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        assert (await exchange(port, whole)).startswith(b"HTTP/1.1 200 ")
