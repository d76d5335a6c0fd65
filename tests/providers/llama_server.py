"""A stand-in for llama-server: the same flags, the same endpoints around the chat, and every way to misbehave.

As a program it reads its conduct from the variable STAND_IN, a JSON object: `script` (steps for the fake provider that
answers the chat; the last one repeats), `starts` (a file that gets a line for each start), `deaths` (how many of the
starts end badly: at once with `last_words`, or with `mid_stream` soon after the first byte of an answer), `loading`
(seconds from the first request), `slots`, `queue` (seconds of silence on each connection), `reading` (progress of the
prompt, before answers), `never_healthy`, `ignore_term`, `noise` (megabytes of log), `n_ctx`, `vision`.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))


class Front:
    """The server's door: answers what is llama.cpp's own, and passes every other connection on to a fake provider."""

    def __init__(self, upstream: str, *, name: str = "tiny", key: str = "", **conduct: Any) -> None:
        self.upstream = upstream.rpartition(":")[2]
        self.name, self.key, self.conduct = name, key, conduct
        self.since = 0.0  # of the first request
        self.tasks: set[asyncio.Task[None]] = set()

    async def open(self, port: int = 0) -> int:
        self.server = await asyncio.start_server(self.connected, "127.0.0.1", port)
        return self.server.sockets[0].getsockname()[1]

    async def aclose(self) -> None:
        self.server.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # for the transports to be gone

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self.tasks.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                head = await reader.readuntil(b"\r\n\r\n")
                if (own := self.answer(head)) is None:
                    await self.pass_on(head, reader, writer)
                else:
                    status, body = own
                    data = json.dumps(body).encode()
                    writer.write(
                        b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\nconnection: close\r\n"
                        b"content-length: %d\r\n\r\n%b" % (status, len(data), data)
                    )
                    await writer.drain()
        finally:
            self.tasks.discard(task)
            writer.close()

    def answer(self, head: bytes) -> tuple[int, object] | None:
        path = head.split(b" ")[1].decode()
        self.since = self.since or time.monotonic()
        loading = time.monotonic() - self.since < self.conduct.get("loading", 0)
        if loading or self.conduct.get("never_healthy"):
            return 503, {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}
        if path in ("/health", "/v1/health"):
            return 200, {"status": "ok"}
        if self.key and f"authorization: bearer {self.key}".lower() not in head.decode("latin-1").lower():
            return 401, {"error": {"message": "Invalid API Key", "type": "authentication_error", "code": 401}}
        window = self.conduct.get("n_ctx", 4096)
        if path == "/props":
            vision = self.conduct.get("vision", True)
            return 200, {
                "default_generation_settings": {"n_ctx": window, "params": {}},
                "total_slots": self.conduct.get("slots", 4),
                "model_alias": self.name,
                "modalities": {"vision": vision, "audio": False},
                "build_info": "b0-stand-in",
            }
        if path == "/v1/models":
            meta = {"n_ctx": window, "n_ctx_train": 8 * window}
            entry = {"id": self.name, "object": "model", "created": 0, "owned_by": "llamacpp", "meta": meta}
            return 200, {"models": [{"name": self.name, "model": self.name}], "object": "list", "data": [entry]}
        return None

    async def pass_on(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(self.conduct.get("queue", 0))
        inward, outward = await asyncio.open_connection("127.0.0.1", int(self.upstream))
        outward.write(head)
        back = asyncio.create_task(self.pump(inward, writer, dies=bool(self.conduct.get("mid_stream"))))
        there = asyncio.create_task(self.pump(reader, outward))
        try:  # whoever hangs up first ends both; in the way he did it
            await asyncio.wait((back, there), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task, end in ((back, writer), (there, outward)):
                failed = task.done() and not task.cancelled() and task.exception()
                task.cancel()
                if failed:
                    end.transport.abort()
            await asyncio.gather(back, there, return_exceptions=True)
            outward.close()

    async def read_prompt(self, target: asyncio.StreamWriter, *, chunked: bool) -> None:
        """Say how far the prompt is read, as often and as slowly as told."""
        reading = self.conduct["reading"]
        for step in range(reading["steps"]):
            total, pause = reading.get("total", 1_000), reading["seconds"]
            done = {"total": total, "cache": 0, "processed": total * step // reading["steps"]}
            done["time_ms"] = int(1000 * pause * step)
            event = {
                "choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}],
                "prompt_progress": done,
            }
            data = b"data: %b\n\n" % json.dumps(event).encode()
            target.write(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)
            await target.drain()
            await asyncio.sleep(pause)

    async def pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, dies: bool = False) -> None:
        while data := await source.read(65_536):
            head, end, body = data.partition(b"\r\n\r\n")
            if head.startswith(b"HTTP/") and b"event-stream" in head and self.conduct.get("reading"):
                target.write(head + end)
                await self.read_prompt(target, chunked=b"chunked" in head)
                data = body
            target.write(data)
            await target.drain()
            if dies:
                await asyncio.sleep(0.05)
                print("ggml_abort: out of memory", file=sys.stderr, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)


async def serve(given: argparse.Namespace, conduct: dict[str, Any]) -> None:
    from sagent.testing.server import FakeProviderServer, parse_script

    steps = parse_script(json.dumps(conduct.pop("script", [{"text": "Hello from the stand-in."}])))
    stop = asyncio.Event()
    if not conduct.pop("ignore_term", False):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with FakeProviderServer(steps, repeat_last=True) as server:
        front = Front(server.url, name=given.alias, key=os.environ["LLAMA_API_KEY"], **conduct)
        await front.open(given.port)
        print("main: model loaded", flush=True)
        await stop.wait()
        await front.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(prog="llama-server", add_help=False)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("-m", "--model", type=Path, required=True)
    parser.add_argument("-a", "--alias")
    parser.add_argument("-c", "--ctx-size", type=int)
    parser.add_argument("-b", "--batch-size", type=int)
    parser.add_argument("-np", "--parallel", type=int)
    parser.add_argument("-sps", "--slot-prompt-similarity", type=float)
    parser.add_argument("--jinja", action="store_true")
    parser.add_argument("-ngl", "--n-gpu-layers")
    given = parser.parse_args()
    conduct: dict[str, Any] = json.loads(os.environ.get("STAND_IN", "{}"))
    if given.ctx_size:
        conduct.setdefault("n_ctx", given.ctx_size)
    starts = 1
    if path := conduct.pop("starts", ""):
        with Path(path).open("a+") as file:
            file.write(json.dumps({"pid": os.getpid(), "arguments": sys.argv[1:], "port": given.port}) + "\n")
            file.seek(0)
            starts = len(file.readlines())
    if conduct.pop("ignore_term", False):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        conduct["ignore_term"] = True
    for number in range(int(conduct.pop("noise", 0) * 16_384)):
        print(f"{number:07d} {'n' * 55}")
    words = conduct.pop("last_words", "llama_model_load: error loading model")
    dies = starts <= conduct.pop("deaths", 0)
    if dies and not conduct.get("mid_stream"):
        print(f"\x1b[31m{words}\x1b[0m", file=sys.stderr)
        raise SystemExit(1)
    conduct["mid_stream"] = dies
    asyncio.run(serve(given, conduct))


if __name__ == "__main__":
    main()
