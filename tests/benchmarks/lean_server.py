"""A provider that does nothing but time its client: argv[2] tool turns of the command argv[3] (by default an `echo`) in
the family argv[1], then an answer.

With the family "agents" every client gets one call of its own. Prints its address; when its standard input ends, as
JSON, when the first request came and when the last (seconds of the monotonic clock), the bytes of the first one's body,
and the milliseconds from the end of each answer to the next request. A process of its own that keeps nothing:
FakeProviderServer keeps every request, and the time from turn to turn grew with what it kept.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable

Event = dict[str, object]
COMMAND = json.dumps({"command": sys.argv[3] if len(sys.argv) > 3 else "echo hello"})


def stream(events: list[Event]) -> bytes:
    """An answer in one piece."""
    body = "".join(f"event: {event.get('type', 'message')}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def block(index: int, start: Event, delta: Event) -> list[Event]:
    """A content block that arrives in one delta."""
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        {"type": "content_block_delta", "index": index, "delta": delta},
        {"type": "content_block_stop", "index": index},
    ]


def anthropic(call_id: str, name: str = "Bash", arguments: str = COMMAND) -> list[Event]:
    """A call, or without an id the end."""
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    events: list[Event] = [{"type": "message_start", "message": {**message, "stop_reason": None}}]
    events += block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "next"})
    if call_id:
        call = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        events += block(1, call, {"type": "input_json_delta", "partial_json": arguments})
    stop = "tool_use" if call_id else "end_turn"
    events += [{"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 5}}]
    return [*events, {"type": "message_stop"}]


def chat(call_id: str) -> list[Event]:
    """The same in Chat Completions."""
    calls = [{"index": 0, "id": call_id, "type": "function", "function": {"name": "Bash", "arguments": COMMAND}}]
    deltas: list[Event] = [{"role": "assistant", "content": "next"}, *([{"tool_calls": calls}] if call_id else [])]
    chunks: list[Event] = [{"id": "c", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    end = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if call_id else "stop"}
    return [*chunks, {"id": "c", "choices": [end], "usage": usage}]


def responses(call_id: str, name: str = "Bash", arguments: str = COMMAND) -> list[Event]:
    """The same in Responses."""
    text = [{"type": "output_text", "text": "next", "annotations": []}]
    output: list[Event] = [
        {"type": "message", "id": "msg", "role": "assistant", "status": "completed", "content": text}
    ]
    if call_id:
        output.append({"type": "function_call", "id": "fc", "call_id": call_id, "name": name, "arguments": arguments})
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    done: Event = {"id": "r", "model": "m", "status": "completed", "output": output, "usage": usage}
    return [
        {"type": "response.created", "response": {"id": "r", "model": "m", "status": "in_progress", "output": []}},
        {"type": "response.output_text.delta", "item_id": "msg", "output_index": 0, "delta": "next"},
        *({"type": "response.output_item.done", "output_index": at, "item": item} for at, item in enumerate(output)),
        {"type": "response.completed", "response": done},
    ]


def google(call_id: str) -> list[Event]:
    """The same in generateContent."""
    parts: list[Event] = [{"text": "next"}]
    if call_id:
        parts.append({"functionCall": {"id": call_id, "name": "Bash", "args": json.loads(COMMAND)}})
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    return [{"candidates": [candidate], "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5}}]


def codex(call_id: str) -> list[Event]:
    """Responses, with the name and the argument that Codex has for a command."""
    return responses(call_id, "exec_command", json.dumps({"cmd": json.loads(COMMAND)["command"]}))


def pi(call_id: str) -> list[Event]:
    """Messages, with pi's name for a command."""
    return anthropic(call_id, "bash")


def in_turn(family: str, turns: int, asked: list[float]) -> Callable[[bytes], list[Event]]:
    """The next answer, whoever asks: so many calls, then the end."""
    return lambda _: FAMILIES[family](f"call_{len(asked):06d}" if len(asked) < turns else "")


def by_body(_family: str, _turns: int, asked: list[float]) -> Callable[[bytes], list[Event]]:
    """For many agents at a time: each is given one call of List, and after its result the end. One that is to sleep
    is given a long command."""

    def answer(body: bytes) -> list[Event]:
        call_id = f"call_{len(asked):06d}"
        if b'"tool_result"' in body:
            return anthropic("")
        if b"sleep" in body[-200:]:
            return anthropic(call_id, "Bash", json.dumps({"command": "sleep 60"}))
        return anthropic(call_id, "List", "{}")

    return answer


FAMILIES: dict[str, Callable[[str], list[Event]]] = {
    "anthropic": anthropic,
    "chat": chat,
    "responses": responses,
    "google": google,
    "codex": codex,
    "pi": pi,
}


async def main(family: str, turns: int) -> None:
    """Serve until standard input ends."""
    gaps: list[float] = []
    sent: list[float] = []
    came: list[float] = []
    sizes: list[int] = []
    answer = (by_body if family == "agents" else in_turn)(family, turns, sent)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                body = await reader.readexactly(int(size.partition(b":")[2]))
                came.append(time.monotonic())
                sizes.append(len(body))
                if sent:
                    gaps.append(1000 * (time.perf_counter() - sent[-1]))
                writer.write(stream(answer(body)))
                sent.append(time.perf_counter())
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 22)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    print(json.dumps({"first": came[0], "last": came[-1], "body": sizes[0], "gaps": gaps}))


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
