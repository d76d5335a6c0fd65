"""A listening socket that is closed has nobody left at it."""

import asyncio
import contextlib
import socket

import pytest

from sagent.lib.listener import stop_accepting


@pytest.mark.parametrize("rounds", range(6))
async def test_connection_at_stop_reaches_handler(rounds: int) -> None:
    writers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", 0)
    client = socket.create_connection(server.sockets[0].getsockname())
    for _ in range(rounds):
        await asyncio.sleep(0)
    await stop_accepting(server)
    server.close()
    for writer in writers:
        writer.transport.abort()
    await asyncio.sleep(0)  # the loop closes it in its next round
    with client, contextlib.suppress(ConnectionError):
        client.settimeout(30)
        assert client.recv(1) == b"", "the loop does not go on: all was closed"
