"""The proxy's socket below a directory whose path is longer than the name of a socket may be."""

import asyncio
import socket
from pathlib import Path

import pytest

from sagent.plugins.network.proxy import Proxy
from sagent.plugins.network.relay import connect


@pytest.mark.needs("linux")
@pytest.mark.parametrize("length", [10, 90, 200])
async def test_proxy_listens_below_long_directory(tmp_path: Path, length: int) -> None:
    above = tmp_path / ("d" * length)
    above.mkdir()
    async with Proxy() as proxy:
        path = await proxy.listen(above / "proxy")
        with socket.socket(socket.AF_UNIX) as client:
            await asyncio.to_thread(connect, client, str(path))
            assert client.getpeername()
        assert path.is_socket()
