"""Network access for sandboxes: one proxy to the allowed hosts for all, and a relay to it in each box."""

import asyncio
import contextlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.errors import ToolError
from sagent.plugins.network.proxy import Proxy
from sagent.sandbox import Access
from sagent.sandbox.bubblewrap import KEPT
from sagent.sandbox.mounts import INSIDE

if TYPE_CHECKING:
    from sagent.sandbox.bubblewrap import Box, View

_MAX_MEMORY_BYTES = 1 << 30  # data limit of a relay


class ProxiedNetwork:
    """The network of commands by a proxy. `directory` holds its socket; boxes see it at INSIDE."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._proxy = Proxy()
        self._lasting: dict[tuple[str, ...], str] = {}  # passes that any command may have
        self._listening = asyncio.Lock()
        self._open = False
        self._loopback = 0
        self._ports: dict[Box, int] = {}

    async def admit(self, domains: tuple[str, ...], view: "View | None", *, once: bool) -> Access:
        """Let a command reach hosts, from a view's box or from this machine. Raises ToolError."""
        try:
            token = self._lasting.get(domains) or self._proxy.admit(domains)
        except ValueError as error:
            raise ToolError(f"The command was not run: {error}.") from error
        if not once:
            self._lasting[domains] = token
        async with self._listening:
            try:
                port = await self._loopback_port() if view is None else await self._port_in(view)
            except (OSError, ValueError) as error:
                raise ToolError(f"The command was not run: the sandbox's proxy does not work: {error}.") from error
        return Access(self._proxy.environment(token, port), port, partial(self._end, token))

    async def aclose(self) -> None:
        """End all connections."""
        await self._proxy.aclose()

    def _end(self, token: str) -> Sequence[str]:
        """End the access of a command; return a sentence about refused hosts."""
        refused = self._proxy.refused(token)
        if token not in self._lasting.values():
            self._proxy.dismiss(token)
        named = ", ".join(f'"network:{host}"' for host in refused)
        said = (
            f"it was denied access to hosts that are not allowed: call again with `needs` {named} and a "
            "`reason`, and the person will be asked"
        )
        return [said] if refused else []

    async def _loopback_port(self) -> int:
        self._loopback = self._loopback or await self._proxy.listen_on_loopback()
        return self._loopback

    async def _port_in(self, view: "View") -> int:
        if not self._open:
            await self._proxy.listen(self._directory)
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
    argv = view.entering(argv, "/", memory=_MAX_MEMORY_BYTES, capabilities=KEPT)  # it outlives the view
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
