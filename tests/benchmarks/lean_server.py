"""A provider that does nothing but time its client: argv[1] tool turns of `echo`, then an answer.

Prints its address; when its standard input ends, the milliseconds from the end of each answer to the next request, as
JSON. A process of its own that keeps nothing and parses no body: FakeProviderServer keeps every request, and the time
from turn to turn grew with what it kept.
"""

import asyncio
import json
import sys
import time


def stream(events: list[dict[str, object]]) -> bytes:
    """An answer in one piece."""
    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def block(index: int, start: dict[str, object], delta: dict[str, object]) -> list[dict[str, object]]:
    """A content block that arrives in one delta."""
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        {"type": "content_block_delta", "index": index, "delta": delta},
        {"type": "content_block_stop", "index": index},
    ]


def answer(turn: int, turns: int) -> bytes:
    """A call of Bash, or after so many turns the end."""
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    events: list[dict[str, object]] = [{"type": "message_start", "message": {**message, "stop_reason": None}}]
    events += block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "next"})
    if turn < turns:
        call = {"type": "tool_use", "id": f"toolu_{turn:06d}", "name": "Bash", "input": {}}
        arguments = json.dumps({"command": "echo hello"})
        events += block(1, call, {"type": "input_json_delta", "partial_json": arguments})
    stop = "tool_use" if turn < turns else "end_turn"
    events += [{"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 5}}]
    return stream([*events, {"type": "message_stop"}])


async def main(turns: int) -> None:
    """Serve until standard input ends."""
    gaps: list[float] = []
    sent: list[float] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(size.partition(b":")[2]))
                if sent:
                    gaps.append(1000 * (time.perf_counter() - sent[-1]))
                writer.write(answer(len(sent), turns))
                sent.append(time.perf_counter())
        except asyncio.IncompleteReadError:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 22)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    print(json.dumps(gaps))


asyncio.run(main(int(sys.argv[1])))
