"""Network access for sandboxes: one proxy to the allowed hosts for all, and a relay to it in each box."""

import asyncio
import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.errors import ToolError
from sagent.sandbox.bubblewrap import KEPT
from sagent.sandbox.mounts import INSIDE
from sagent.sandbox.proxy import Proxy

if TYPE_CHECKING:
    from sagent.sandbox.bubblewrap import Box, View

_MEMORY = 1 << 30  # data limit of a relay


class Network:
    """`directory` holds the proxy's socket; boxes see it at INSIDE."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.proxy = Proxy()
        self._listening = asyncio.Lock()
        self._open = False
        self._loopback = 0
        self._ports: dict[Box, int] = {}

    def admit(self, domains: Iterable[str]) -> str:
        """Return a pass for hosts. Raises ToolError for an invalid host."""
        try:
            return self.proxy.admit(domains)
        except ValueError as error:
            raise ToolError(f"The command was not run: {error}.") from error

    async def environment(self, token: str, view: "View | None") -> tuple[Mapping[str, str], int]:
        """Return the variables that point programs to the proxy, and its port: on a box's own loopback, or this
        machine's.

        Raises ToolError.
        """
        async with self._listening:
            try:
                port = await self._loopback_port() if view is None else await self._port_in(view)
            except (OSError, ValueError) as error:
                raise ToolError(f"The command was not run: the sandbox's proxy does not work: {error}.") from error
        return self.proxy.environment(token, port), port

    async def _loopback_port(self) -> int:
        self._loopback = self._loopback or await self.proxy.listen_on_loopback()
        return self._loopback

    async def _port_in(self, view: "View") -> int:
        if not self._open:
            await self.proxy.listen(self._directory)
            shutil.copy(Path(__file__).with_name("relay.py"), self._directory)  # boxes see it there
            self._open = True
        if not (box := view.box).has_relay:
            box.end_relay()
            box.relay, self._ports[box] = await asyncio.to_thread(_start_relay, view)
        return self._ports[box]


def _start_relay(view: "View") -> "tuple[subprocess.Popen[bytes], int]":
    """Return a relay, and its port in a box. Raises OSError."""
    argv = [sys.executable, "-I", "-S", f"{INSIDE}/relay.py", f"{INSIDE}/proxy", "0"]
    null = subprocess.DEVNULL
    argv = view.entering(argv, "/", memory=_MEMORY, capabilities=KEPT)  # it outlives the view
    # Commands can read its environment: it holds nothing of ours.
    relay = subprocess.Popen(
        argv, env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=null, start_new_session=True
    )
    assert relay.stdout is not None
    with contextlib.closing(relay.stdout) as output:
        try:
            return relay, int(output.readline())
        except ValueError:
            relay.kill()
            relay.communicate()
            raise OSError(f"{sys.executable} does not run in the sandbox") from None
