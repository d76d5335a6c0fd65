"""Machines on a network of their own: network namespaces, each by cables at two switches. A cable that is pulled loses
what is sent, in both directions, and nobody learns of it."""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncGenerator

BUS, WORLD = "bus", "world"
"""The switches of each machine: at one is the bus, at the other all else, such as the model."""
_SUBNETS = {BUS: 231, WORLD: 232}


def _ip(*argv: str) -> None:
    subprocess.run(["ip", *argv], check=True, capture_output=True, text=True)


class Network:
    """Two switches and some machines. This machine is at both switches, as number 1."""

    def __init__(self) -> None:
        self._tag = f"{os.getpid() % 0xFFFF:x}"
        self._machines: dict[str, int] = {}
        self._switches: list[str] = []

    def address(self, switch: str, machine: str = "") -> str:
        return f"10.{_SUBNETS[switch]}.{os.getpid() % 250}.{self._machines.get(machine, 0) + 1}"

    def open(self) -> None:
        for switch in _SUBNETS:
            self._add_switch(switch)
            _ip("addr", "add", f"{self.address(switch)}/24", "dev", self._switch(switch))

    def close(self) -> None:
        for machine in self._machines:
            for switch in _SUBNETS:
                _ip("link", "del", self._cable(machine, switch))
            _ip("netns", "del", self._space(machine))
        for switch in self._switches:
            _ip("link", "del", switch)

    def machine(self, name: str) -> tuple[str, ...]:
        """A new machine; with what is returned before it, a command is run there."""
        self._machines[name] = len(self._machines) + 1
        space = self._space(name)
        _ip("netns", "add", space)
        _ip("-n", space, "link", "set", "lo", "up")
        for switch in _SUBNETS:
            here, there = self._cable(name, switch), f"to{switch}"
            _ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", space)
            _ip("-n", space, "addr", "add", f"{self.address(switch, name)}/24", "dev", there)
            _ip("-n", space, "link", "set", there, "up")
            _ip("link", "set", here, "master", self._switch(switch), "up")
        return ("ip", "netns", "exec", space)

    def pull(self, *machines: str, switch: str = BUS) -> None:
        """Cut machines off from a switch, each from all."""
        for machine in machines:
            _ip("link", "set", self._cable(machine, switch), "nomaster")

    def part(self, *machines: str) -> None:
        """Have machines reach each other by the bus's switch, and nobody else."""
        if self._switch("apart") not in self._switches:
            self._add_switch("apart")
        for machine in machines:
            _ip("link", "set", self._cable(machine, BUS), "master", self._switch("apart"))

    def heal(self, *machines: str, switch: str = BUS) -> None:
        for machine in machines:
            _ip("link", "set", self._cable(machine, switch), "master", self._switch(switch))

    def _add_switch(self, name: str) -> None:
        _ip("link", "add", self._switch(name), "type", "bridge")
        self._switches.append(self._switch(name))
        _ip("link", "set", self._switch(name), "up")

    def _switch(self, name: str) -> str:
        return f"sg{self._tag}-{name}"

    def _space(self, machine: str) -> str:
        return f"sg{self._tag}-{machine}"

    def _cable(self, machine: str, switch: str) -> str:
        return f"sg{self._tag}{switch[0]}{self._machines[machine]}"


@contextlib.asynccontextmanager
async def network() -> AsyncGenerator[Network]:
    found = Network()
    try:
        found.open()
        yield found
    finally:
        found.close()


@contextlib.asynccontextmanager
async def forwarded(host: str, port: int) -> AsyncGenerator[int]:
    """A port at an address of this machine that leads to one of loopback."""

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(1 << 16):
                target.write(data)
                await target.drain()
        target.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(copy(reader, back), copy(there, writer))

    server = await asyncio.start_server(accept, host, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
