"""The end of a listening socket, with nobody left at it."""

import asyncio

_ROUNDS = 4  # of the loop, until what was accepted by now is a connection


async def stop_accepting(server: asyncio.Server) -> None:
    """Have a server accept nobody more, and return when all that it has accepted have been passed to its handler. It is
    closed after that: whoever is on the way while asyncio closes a server it drops, with the socket still open."""
    for listener in server.sockets:
        asyncio.get_running_loop().remove_reader(listener.fileno())
    for _ in range(_ROUNDS):
        await asyncio.sleep(0)
