"""An agent behind a web page: POST a prompt, read the answer as server-sent events. No framework.

python examples/web_events.py           (asks itself once; with a port it serves until it is stopped)
"""

import asyncio
import json
import sys

from sagent import Agent
from sagent.events import Finished, TextDelta
from sagent.testing import ScriptedModel

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-store\r\nconnection: close\r\n\r\n"


async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One request: who hangs up ends the run, for closing the stream cancels it."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    prompt = await reader.readexactly(int(head.partition("content-length:")[2].split("\r\n")[0] or 0))
    writer.write(HEAD)
    async with Agent(ScriptedModel("You asked: " + prompt.decode())) as agent:
        async for event in agent.stream(prompt.decode()):
            match event:
                case TextDelta(_, text):
                    writer.write(f"data: {json.dumps({'text': text})}\n\n".encode())
                case Finished(_, result):
                    writer.write(f"event: done\ndata: {json.dumps({'usd': str(result.cost.total)})}\n\n".encode())
                case _:
                    pass
            await writer.drain()
    writer.close()


async def main(port: int = 0) -> None:
    """Any ASGI framework works the same way: give its streaming response these lines."""
    server = await asyncio.start_server(handle, "127.0.0.1", port)
    async with server:
        if port:
            await server.serve_forever()
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nWhat now?")
        print((await reader.read()).decode().partition("\r\n\r\n")[2].strip())
        writer.close()


asyncio.run(main(*map(int, sys.argv[1:])))
