"""A bus, three nodes and a team at work on them, without a key. The node at work is killed, and the work goes on.

    python examples/mesh/failover.py

The lead has two agents on other nodes do a part each. While they work, the lead's node gets SIGKILL. Another one takes
the session over within seconds: the two parts are not begun again, and their answers reach the lead where it is now.
"""

import asyncio
import os
import signal
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from sagent.events import Event, Notice, SessionOpened, ToolFinished, ToolStarted
from sagent.plugins.mesh.remote import Mesh
from sagent.testing.server import Call, FakeProviderServer, Received, Step, Turn

PROGRAM = [sys.executable, "-m", "sagent.bin.cli"]
MODEL = "anthropic/claude-sonnet-4-6"
NODES: tuple[str, ...] = ("one", "two", "three")
PARTS = ("Part A: count the files.", "Part B: count the lines.")
BEGAN = time.monotonic()


def say(text: str) -> None:
    print(f"{time.monotonic() - BEGAN:5.1f} s  {text}", flush=True)


def answer(received: Received) -> Step:
    """What the model says: the lead has two agents work, each of them runs a command and answers."""
    messages = received.json["messages"]
    assert isinstance(messages, list)
    said = sum(isinstance(message, dict) and message["role"] == "assistant" for message in messages)
    if any(part in str(messages[0]) for part in PARTS):
        work = Call("Bash", {"command": "sleep 3; echo counted", "description": "Count"})
        return (Turn("I count.", calls=(work,)), Turn("I have counted 42 of them."))[said]
    parts = tuple(Call("NodeAgent", {"prompt": part}, id=f"part{number}") for number, part in enumerate(PARTS))
    return (Turn("Two agents do a part each.", calls=parts), Turn("Both parts are done: 42 files, 42 lines."))[said]


@asynccontextmanager
async def running(*argv: str, place: Path, url: str, stdout: int = DEVNULL) -> AsyncGenerator[Process]:
    """A `sagent ...` that is told where the model is."""
    model = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "no-key-needed"}
    environment = {**os.environ, **model, "XDG_STATE_HOME": str(place), "XDG_CONFIG_HOME": str(place / "config")}
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, *argv, env=environment, stdin=DEVNULL, stdout=stdout, stderr=DEVNULL
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def show(event: Event) -> None:
    match event:
        case SessionOpened(agent="root", resumed=resumed):
            say("the session is open again, on another node" if resumed else "the session is open")
        case ToolStarted(call=call):
            say(f"  {call.name} {call.arguments.get('prompt', '')}")
        case ToolFinished(call=call, result=result):
            say(f"  {call.name} has answered: {result.text}")
        case Notice(text=text):
            say(f"  ! {text}")
        case _:
            pass


async def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        async with (
            FakeProviderServer(answer) as model,
            running("bus", "--port", "0", place=place, url=model.url, stdout=PIPE) as bus,
        ):
            assert bus.stdout is not None
            url = (await bus.stdout.readline()).decode().strip()
            say(f"a bus listens at {url.partition('?')[0]}")
            return await team(place, model.url, url)


async def team(place: Path, model: str, url: str) -> int:
    flags = ("--permission-mode", "full", "--model", MODEL)
    nodes = [running("node", "--bus", url, "--name", name, *flags, place=place / name, url=model) for name in NODES]
    async with nodes[0] as one, nodes[1] as two, nodes[2] as three, Mesh.connect(url) as mesh:
        processes = dict(zip(NODES, (one, two, three), strict=True))
        async with mesh.spawn("Count what is here.") as lead:
            lead.listen(show)
            while len(await mesh.sessions()) < 1 + len(PARTS):  # noqa: ASYNC110 -- the bus is asked
                await asyncio.sleep(0.2)
            await asyncio.sleep(1.0)
            say(f"both parts are begun; the lead is on node {lead.record.node}, which gets SIGKILL now")
            processes[lead.record.node].send_signal(signal.SIGKILL)
            result = await lead.wait()
        say(f"the lead is on node {lead.record.node} and says: {result.content}")
        say(f"sessions: {', '.join(f'{session.id} on {session.node}' for session in await mesh.sessions())}")
    return 0 if result.error is None else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
