"""A bus, nodes as processes, and a model on loopback that says what comes next by what it is shown."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from sagent.plugins.mesh.jetstream import JetStream, connected
from sagent.plugins.mesh.server import Server, ServerOptions, serving
from sagent.testing.server import FakeProviderServer, Received, Script, Step
from tests.forks import CHECKOUT, Forks
from tests.warm import warm

PROGRAM = [sys.executable, "-m", "sagent.bin.cli"]
MODEL = "anthropic/claude-sonnet-4-6"


def by_results(turns: Sequence[Step]) -> Callable[[Received], Step]:
    """A script that goes on with the turn whose number is that of the replies so far: a call that is made again after a
    crash is answered as the first one was."""

    def choose(received: Received) -> Step:
        messages = json.loads(received.body)["messages"]
        return turns[min(sum(message["role"] == "assistant" for message in messages), len(turns) - 1)]

    return choose


class Fork:
    """What a process of asyncio is, for a fork that says what goes on."""

    def __init__(self, pid: int, end: socket.socket) -> None:
        self.pid, self.stderr = pid, asyncio.StreamReader()
        self._end = asyncio.create_task(self._ended(end))

    async def _ended(self, end: socket.socket) -> int:
        with end:
            end.setblocking(False)
            return int(await asyncio.get_running_loop().sock_recv(end, 8))

    @property
    def returncode(self) -> int | None:
        return self._end.result() if self._end.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(self._end)

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@dataclass
class Process:
    """A running `sagent ...`."""

    process: asyncio.subprocess.Process
    name: str = ""

    def kill(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)


@dataclass
class Place:
    """Where a test happens."""

    forks: ClassVar[Forks | None] = None  # a benchmark has none
    directory: Path
    url: str
    bus: JetStream
    server: FakeProviderServer
    stack: contextlib.AsyncExitStack
    broker: Server | None = None
    nodes: dict[str, Process] = field(default_factory=dict[str, Process])
    program: Sequence[str] = tuple(PROGRAM)
    provider: str = ""  # the model's URL, where it is not reached by the server's own

    async def restart_bus(self, *, lost: bool = False) -> None:
        """Kill the bus, and start it again on what it has on its disk, or on an empty one."""
        assert self.broker is not None
        os.kill(self.broker.process.pid, signal.SIGKILL)
        await self.broker.process.ended()
        if lost:
            shutil.rmtree(self.directory / "bus" / "store")
        options = ServerOptions(self.directory / "bus", port=self.broker.port)
        self.broker = await self.stack.enter_async_context(serving(options))

    def environment(self, name: str) -> dict[str, str]:
        home = self.directory / f"home-{name}"
        warm(home / "state" / "sagent")
        keep = {key: os.environ[key] for key in ("PATH", "LANG", "CI", "PYTHONPATH") if key in os.environ}
        return {
            **keep,
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "ANTHROPIC_BASE_URL": self.provider or self.server.url,
            "ANTHROPIC_API_KEY": "k",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }

    async def start(
        self, *argv: str, name: str, cwd: Path | None = None, within: Sequence[str] = (), **options: Any
    ) -> Process:
        """Start the program, `within` a command that starts others elsewhere."""
        given: dict[str, Any] = {
            "stdin": asyncio.subprocess.DEVNULL,
            "stdout": asyncio.subprocess.DEVNULL,
            **options,
        }
        process = await asyncio.create_subprocess_exec(
            *within, *self.program, *argv, env=self.environment(name), cwd=cwd or self.directory, **given
        )
        self.stack.push_async_callback(_end, process)
        return Process(process, name)

    async def fork(self, forks: Forks, *argv: str, name: str) -> Process:
        """Start the program as a fork; what it says is read from `stderr`."""
        (said, stderr), null = os.pipe(), os.open(os.devnull, os.O_RDWR)
        pid, end = forks.start(
            *argv, cwd=self.directory, environment=self.forked(name), streams=(null, os.dup(null), stderr)
        )
        fork, loop = Fork(pid, end), asyncio.get_running_loop()
        reading = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(fork.stderr), os.fdopen(said, "rb"))
        self.stack.callback(reading[0].close)
        self.stack.push_async_callback(_end, fork)
        return Process(fork, name)  # pyright: ignore[reportArgumentType] -- it has what tests ask of a node

    def forked(self, name: str) -> dict[str, str]:
        """The environment of a fork, which has nothing in it that is read when an interpreter starts."""
        return {key: value for key, value in self.environment(name).items() if key not in ("LANG", "PYTHONPATH")}

    async def node(self, name: str, *argv: str, bus: str = "", within: Sequence[str] = ()) -> Process:
        """A node that takes work, by another way to the bus where one is given."""
        pipe = asyncio.subprocess.PIPE
        flags = ("--permission-mode", "full", "--sandbox", "off", "--model", MODEL)
        own = ("node", "--bus", bus or self.url, "--name", name, *flags, *argv)
        if self.forks is not None and not within:
            node = await self.fork(self.forks, *own, name=name)
        else:
            node = await self.start(*own, name=name, within=within, stderr=pipe)
        assert node.process.stderr is not None
        lines: list[bytes] = []
        while b"takes work" not in (line := await node.process.stderr.readline()):
            lines.append(line)
            assert line, f"node {name} did not start: {lines}"
        self.stack.enter_context(contextlib.suppress(asyncio.CancelledError))
        drained = asyncio.create_task(_drain(node.process.stderr, name))
        self.stack.callback(drained.cancel)
        self.nodes[name] = node
        return node

    async def ask(self, *argv: str, cwd: Path | None = None) -> tuple[int, str, str]:
        """The program's answer to a prompt on the bus."""
        return await self.ask_plain("--bus", self.url, *argv, cwd=cwd)

    async def ask_plain(self, *argv: str, cwd: Path | None = None) -> tuple[int, str, str]:
        """What the program says, as a fork where that may be."""
        if self.forks is not None:
            environment = {**self.forked("me"), "PYTHONPATH": str(CHECKOUT)}
            place = cwd or self.directory
            done = await asyncio.to_thread(self.forks.run, *argv, cwd=place, environment=environment)
            return done.returncode, done.stdout.decode(), done.stderr.decode()
        pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        asked = await self.start(*argv, name="me", cwd=cwd, stdin=null, stdout=pipe, stderr=pipe)
        async with asyncio.timeout(60):
            out, err = await asked.process.communicate()
        return asked.process.returncode or 0, out.decode(), err.decode()


async def _end(process: asyncio.subprocess.Process | Fork) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
            process.kill()
        await process.wait()


async def _drain(stream: asyncio.StreamReader, name: str) -> None:
    while line := await stream.readline():
        sys.stderr.write(f"[{name}] {line.decode()}")


@contextlib.asynccontextmanager
async def place(directory: Path, script: Script, *, host: str = "127.0.0.1", **options: Any) -> AsyncGenerator[Place]:
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(FakeProviderServer(script, **options))
        running = await stack.enter_async_context(serving(ServerOptions(directory / "bus", host, 0)))
        bus = await stack.enter_async_context(connected(running.url))
        await bus.ensure()
        yield Place(directory, running.url, bus, server, stack, running)


def result_of(out: str) -> Mapping[str, object]:
    return json.loads(out)
