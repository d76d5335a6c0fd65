"""A bus of its own for a module of tests: a real server on a free port of loopback, which can be killed."""

import asyncio
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Self

from sagent.plugins.mesh.server import Server, ServerOptions, serving


class Broker:
    """A server that outlives the event loops of single tests."""

    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self._ready: Future[Server] = Future()
        self._kill: asyncio.Event | None = None
        self._again: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = Thread(target=lambda: asyncio.run(self._live()), name="bus")

    @property
    def url(self) -> str:
        return self._ready.result().url

    @property
    def port(self) -> int:
        return self._ready.result().port

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.result()
        return self

    def restart(self) -> None:
        """Kill the server, as `kill -9` does, and return when another listens in its place."""
        self._again = Future()
        self._order(lambda: self._kill and self._kill.set())
        self._again.result()

    def __exit__(self, *_: object) -> None:
        self._again = Future()
        self._again.set_result(None)
        self._order(lambda: self._kill and self._kill.set())
        self._thread.join()

    def _order(self, call: object) -> None:
        assert self._loop is not None
        assert callable(call)
        self._loop.call_soon_threadsafe(call)

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            while True:
                self._kill = asyncio.Event()
                async with serving(self._options) as server:
                    if self._ready.done():
                        self._again.set_result(None)
                    else:
                        self._ready.set_result(server)
                        self._options = replace(self._options, port=server.port)
                    await self._kill.wait()
                    if self._again.done():
                        return
                    server.process.kill()
        except BaseException as error:
            (self._again if self._ready.done() else self._ready).set_exception(error)


def options(folder: Path) -> ServerOptions:
    return ServerOptions(folder / "bus", port=0)
