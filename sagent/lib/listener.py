"""Closing a listening socket without losing connections."""

import asyncio

_ROUNDS = 4  # of the loop, until accepted connections are set up


async def stop_accepting(server: asyncio.Server) -> None:
    """Stop a server from accepting, and return when all accepted connections were passed to its handler. Then it is
    closed; closing first would make asyncio drop connections being set up, with open sockets."""
    for listener in server.sockets:
        asyncio.get_running_loop().remove_reader(listener.fileno())
    for _ in range(_ROUNDS):
        await asyncio.sleep(0)
