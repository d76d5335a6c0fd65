"""A bus of its own for a module of tests: a real server on a free port of loopback."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from sagent.mesh.server import Server, ServerOptions, serving


@contextmanager
def bus_in_thread(options: ServerOptions) -> Iterator[Server]:
    """A server that outlives the event loops of single tests."""
    ready: Future[tuple[Server, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def live() -> None:
        stopped = asyncio.Event()
        try:
            async with serving(options) as server:
                ready.set_result((server, asyncio.get_running_loop(), stopped))
                await stopped.wait()
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    thread = Thread(target=lambda: asyncio.run(live()), name="bus")
    thread.start()
    server, loop, stopped = ready.result()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join()


def options(folder: Path) -> ServerOptions:
    return ServerOptions(folder / "bus", port=0)
