"""The process that starts a kernel and speaks to it (jupyter.org, messaging). It reads questions and writes answers as
lines of JSON. It runs in the sandbox with the kernel, and the kernel ends with it.

A question is {"id", "code", "seconds"}, or {"interrupt": true}. An answer is {"id", "progress": text}, and in the end
{"id", "parts": [{"text"} or {"type", "data"}], "error": bool, "state"}. The state is "done", "late", "interrupted",
"ended" or the reason why there is no kernel.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Protocol, cast

from sagent.lib.json import as_array, as_int, as_object, as_str
from sagent.sandbox.scratch import Scratch
from sagent.tools.notebook import output_text

START_TIMEOUT_SECONDS = 60.0  # seconds that a kernel may take to start
PROGRESS_INTERVAL_SECONDS = 0.3  # seconds between two progress messages
INTERRUPT_TIMEOUT_SECONDS = 5.0  # to end after an interruption
MAX_TEXT_CHARS = 200_000  # of a call: of more the beginning and the end
MAX_IMAGES, MAX_IMAGE_CHARS = 10, 8_000_000  # of a call; characters of base64
_IMAGES = ("image/png", "image/jpeg", "image/webp")
_MAX_SOCKET_CHARS = 80  # of a path: the system allows about 100


class Client(Protocol):
    """The used part of jupyter_client's AsyncKernelClient, whose types are partly unknown."""

    def start_channels(self) -> None: ...
    def stop_channels(self) -> None: ...
    def wait_for_ready(self, *, timeout: float) -> Awaitable[None]: ...
    def execute(self, code: str, *, store_history: bool, allow_stdin: bool, stop_on_error: bool) -> str: ...
    def get_iopub_msg(self, *, timeout: float) -> Awaitable[object]: ...


class Spec(Protocol):
    argv: list[str]


class Manager(Protocol):
    """And of its AsyncKernelManager."""

    transport: str
    ip: str
    connection_file: str
    kernel_spec: Spec

    def start_kernel(self, *, cwd: str) -> Awaitable[None]: ...
    def interrupt_kernel(self) -> Awaitable[None]: ...
    def shutdown_kernel(self, *, now: bool) -> Awaitable[None]: ...
    def is_alive(self) -> Awaitable[bool]: ...
    def client(self) -> Client: ...


class Written:
    """A growing text. A long one keeps its beginning and its end."""

    def __init__(self) -> None:
        self._head = self._tail = ""
        self._lost = 0

    def add(self, text: str) -> None:
        room = MAX_TEXT_CHARS - len(self._head)
        self._head += text[:room]
        self._tail += text[room:]
        if len(self._tail) > 2 * MAX_TEXT_CHARS:
            self._lost += len(self._tail) - MAX_TEXT_CHARS
            self._tail = self._tail[-MAX_TEXT_CHARS:]

    def recent(self) -> str:
        return (self._tail or self._head)[-2_000:]

    def part(self) -> Mapping[str, str]:
        lost = self._lost + max(0, len(self._tail) - MAX_TEXT_CHARS)
        between = f"\n(... {lost:,} characters are left out ...)\n" if lost else ""
        return {"text": self._head + between + self._tail[-MAX_TEXT_CHARS:]}


class Outputs:
    """The outputs of a call so far."""

    def __init__(self) -> None:
        self._parts: list[Written | Mapping[str, str]] = []
        self._images = 0
        self.failed = False

    def take(self, kind: str, content: Mapping[str, object]) -> str:
        """Take a message and return the text that is worth showing as progress."""
        match kind:
            case "stream":
                return self._write(as_str(content.get("text")))
            case "error":
                self.failed = True
                trace = "\n".join(map(as_str, as_array(content.get("traceback"))))
                return self._write(f"{trace or as_str(content.get('evalue'))}\n")
            case "display_data" | "execute_result" | "update_display_data":
                return self._show(as_object(content.get("data")))
            case "clear_output":
                self._parts = []
            case _:
                pass  # the kernel's state, and messages between widgets
        return ""

    def _show(self, data: Mapping[str, object]) -> str:
        for kind in _IMAGES:
            if image := as_str(data.get(kind)):
                self._images += 1
                if self._images <= MAX_IMAGES and len(image) <= MAX_IMAGE_CHARS:
                    self._parts.append({"type": kind, "data": "".join(image.split())})
                    return ""
                return self._write("(an image that is left out: there are too many, or it is too large)\n")
        return self._write(f"{output_text(data) or ', '.join(data)}\n")

    def _write(self, text: str) -> str:
        last = self._parts[-1] if self._parts else None
        if not isinstance(last, Written):
            last = Written()
            self._parts.append(last)
        last.add(text)
        return last.recent()

    def parts(self) -> list[Mapping[str, str]]:
        return [part.part() if isinstance(part, Written) else part for part in self._parts]


class Driver:
    """The driver of one kernel, and of its current call."""

    def __init__(self, python: str) -> None:
        self._python = python
        self._manager: Manager | None = None
        self._client: Client | None = None
        self._scratch: Scratch | None = None  # for its sockets
        self.interrupted = False

    async def run(self, number: int, code: str, seconds: float) -> None:
        """Run code, and write its results."""
        outputs = Outputs()
        try:
            state = await self._run(number, code, seconds, outputs)
        except Exception as error:
            state = f"{type(error).__name__}: {error}"
        failed = outputs.failed or state != "done"
        say({"id": number, "parts": outputs.parts(), "error": failed, "state": state})

    async def interrupt(self) -> None:
        self.interrupted = True
        if self._manager is not None:
            with suppress(Exception):  # it may have ended
                await self._manager.interrupt_kernel()

    async def close(self) -> None:
        if self._client is not None:
            self._client.stop_channels()
        if self._manager is not None:
            with suppress(Exception):
                await self._manager.shutdown_kernel(now=True)
        self._client = self._manager = None
        if self._scratch is not None:
            self._scratch.remove()
            self._scratch = None

    async def _start(self) -> Client:
        created: object = import_module("jupyter_client.manager").AsyncKernelManager(kernel_name="python3")
        manager = self._manager = cast("Manager", created)
        scratch = self._scratch = Scratch()
        folder = str(scratch.path)
        if len(folder) < _MAX_SOCKET_CHARS:
            manager.transport, manager.ip = "ipc", f"{folder}/kernel"
        manager.connection_file = f"{folder}/connection.json"
        manager.kernel_spec.argv = [self._python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        await manager.start_kernel(cwd=os.getcwd())  # noqa: PTH109 -- as jupyter wants it
        client = self._client = manager.client()
        client.start_channels()
        await client.wait_for_ready(timeout=START_TIMEOUT_SECONDS)
        return client

    async def _run(self, number: int, code: str, seconds: float, outputs: Outputs) -> str:
        client = self._client or await self._start()
        manager = self._manager
        assert manager is not None
        self.interrupted = False
        request_id = client.execute(code, store_history=True, allow_stdin=False, stop_on_error=True)
        clock = asyncio.get_running_loop().time
        end, late, next_progress = clock() + seconds, False, 0.0
        message: Mapping[str, object]
        while True:
            try:
                message = as_object(await client.get_iopub_msg(timeout=0.5))
            except Exception:  # nothing has come: jupyter's own class for that
                if not await manager.is_alive():
                    await self.close()
                    return "ended"
                message = {}
            if clock() > end:
                if late:
                    await self.close()
                    return "late"
                late, end = True, clock() + INTERRUPT_TIMEOUT_SECONDS
                await manager.interrupt_kernel()
            if as_object(message.get("parent_header")).get("msg_id") != request_id:
                continue
            content, kind = as_object(message.get("content")), as_str(message.get("msg_type"))
            if kind == "status" and content.get("execution_state") == "idle":
                return "late" if late else "interrupted" if self.interrupted else "done"
            if (shown := outputs.take(kind, content)) and clock() > next_progress:
                next_progress = clock() + PROGRESS_INTERVAL_SECONDS
                say({"id": number, "progress": shown})


def say(answer: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


async def _serve() -> None:
    from sagent.lib.process import open_reader

    reader, _ = await open_reader(os.dup(0), limit=1 << 26)
    driver = Driver(sys.argv[-1])
    running: asyncio.Task[None] | None = None
    try:
        while line := await reader.readline():
            question = as_object(json.loads(line))
            if question.get("interrupt"):
                await driver.interrupt()
            else:
                if running is not None:
                    await running
                seconds = question.get("seconds")
                limit = float(seconds) if isinstance(seconds, int | float) else START_TIMEOUT_SECONDS
                running = asyncio.create_task(
                    driver.run(as_int(question.get("id")), as_str(question.get("code")), limit)
                )
    finally:
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        await driver.close()


def main() -> None:
    """Run the process until its standard input ends."""
    asyncio.run(_serve())
