"""A language server as a program: JSON-RPC over two pipes, each message after its length in bytes.

As the Language Server Protocol 3.17 has it under "Base Protocol".
"""

import asyncio
import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sagent.lib.json import as_int, as_object, as_str, json_parse, wire_bytes
from sagent.lib.process import ProcessGroup
from sagent.lib.text import one_line, printable
from sagent.plugins.programs.piped import PipedProcess

MAX_MESSAGE_BYTES = 1 << 26  # of one message, and of data waiting to be read by the server
_MAX_HEADER_BYTES = 1 << 13
_MIN_THREAD_BYTES = 1 << 20  # bytes of a message that is parsed outside of the loop
_EXIT_TIMEOUT_SECONDS = 1.0  # to end by itself
METHOD_NOT_FOUND = -32601


class ServerError(Exception):
    """A request was answered with an error, whose `code` is the protocol's; or the server is gone: then it is 0."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class Connection:
    """A run of a server. `answer` answers its requests, or raises ServerError; `on_notification` gets its
    notifications."""

    def __init__(
        self,
        processes: ProcessGroup,
        answer: Callable[[str, Mapping[str, object]], object],
        on_notification: Callable[[str, Mapping[str, object]], None],
    ) -> None:
        self._processes, self._answer, self._on_notification = processes, answer, on_notification
        self._program: PipedProcess | None = None
        self._pending: dict[int, asyncio.Future[object]] = {}
        self._reading: asyncio.Task[None] | None = None
        self._count = 0
        self.ended = asyncio.Event()
        self._broken = ""  # why it is not listened to any more

    @property
    def fault(self) -> str:
        """The reason why the server is gone; "" while it runs."""
        if self._broken:
            return self._broken
        if self._program is None or self._program.process.alive:
            return ""
        lines = self._program.stderr_lines
        line = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "")
        return f"it {self._program.outcome}{f': {one_line(line, 200)}' if line else ''}"

    async def start(self, argv: Sequence[str], environment: Mapping[str, str], cwd: Path) -> None:
        """Start the server. Raises OSError, and ValueError for arguments with a NUL."""
        program = await PipedProcess.start(self._processes, argv, environment, cwd, max_line_bytes=_MAX_HEADER_BYTES)
        self._program, self._reading = program, asyncio.create_task(self._read(program))

    async def request(self, method: str, params: object, seconds: float) -> object:
        """Return the result. Raises ServerError, and TimeoutError after `seconds`; the server is then told to
        cancel."""
        self._count += 1
        number = self._count
        answered = self._pending[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"id": number, **_call(method, params)})
            async with asyncio.timeout(seconds):
                return await answered
        except (TimeoutError, asyncio.CancelledError):
            with contextlib.suppress(ServerError):
                self.notify("$/cancelRequest", {"id": number})
            raise
        finally:
            self._pending.pop(number, None)

    def notify(self, method: str, params: object) -> None:
        """Send a notification. Raises ServerError if the server is gone."""
        self._send(_call(method, params))

    def _send(self, message: Mapping[str, object]) -> None:
        if self._program is None or self.fault or self._program.writer.is_closing():
            raise ServerError(self.fault or "it does not run")
        body = wire_bytes({"jsonrpc": "2.0", **message})
        self._program.writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        if self._program.writer.transport.get_write_buffer_size() > MAX_MESSAGE_BYTES:
            self._break("it does not read its input")
            raise ServerError(self._broken)

    async def _read(self, program: PipedProcess) -> None:
        try:
            while True:
                size = _length(await program.reader.readuntil(b"\r\n\r\n"))
                text = (await program.reader.readexactly(size)).decode()
                large = size > _MIN_THREAD_BYTES
                message = as_object(await asyncio.to_thread(json_parse, text) if large else json_parse(text))
                self._take(message)
        except (ValueError, RecursionError, asyncio.LimitOverrunError) as error:
            self._break(f"it wrote something that is not a message: {one_line(printable(str(error)), 100)}")
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            if not self._broken:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_EXIT_TIMEOUT_SECONDS):
                        await program.process.ended()
            self._break(self.fault or "it has closed its output")

    def _take(self, message: Mapping[str, object]) -> None:
        method, number = as_str(message.get("method")), message.get("id")
        params = as_object(message.get("params"))
        if method and number is None:
            self._on_notification(method, params)
        elif method:
            with contextlib.suppress(ServerError):
                self._send({"id": number, **self._answered(method, params)})
        elif isinstance(number, int) and (waiting := self._pending.get(number)) is not None and not waiting.done():
            if (error := message.get("error")) is not None:
                said = one_line(printable(as_str(as_object(error).get("message"), "no reason")), 300)
                waiting.set_exception(ServerError(said, as_int(as_object(error).get("code"), -1) or -1))
            else:
                waiting.set_result(message.get("result"))

    def _answered(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        try:
            return {"result": self._answer(method, params)}
        except ServerError as error:
            return {"error": {"code": error.code, "message": str(error)}}

    def _break(self, failure: str) -> None:
        """Break the connection permanently."""
        self._broken = self._broken or failure
        self.ended.set()
        if self._program is not None:
            self._program.process.kill()
        for waiting in self._pending.values():
            if not waiting.done():
                waiting.set_exception(ServerError(self._broken))
                waiting.exception()  # perhaps nobody waits any more

    async def aclose(self) -> None:
        """Ask it to end, and see to it."""
        program = self._program
        if program is not None and not self.fault:
            with contextlib.suppress(ServerError, TimeoutError):
                await self.request("shutdown", None, _EXIT_TIMEOUT_SECONDS)
                self.notify("exit", None)
                async with asyncio.timeout(_EXIT_TIMEOUT_SECONDS):
                    await program.process.ended()
        self._break("it was ended")
        if program is not None and self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
            await program.process.kill_tree()
            program.close()


def _call(method: str, params: object) -> Mapping[str, object]:
    return {"method": method} if params is None else {"method": method, "params": params}


def _length(header: bytes) -> int:
    """Return the number of bytes that follow. Raises ValueError."""
    match = re.search(rb"(?i)(?:^|\r\n)content-length: *(\d{1,9}) *\r\n", header)
    if match is None or int(match[1]) > MAX_MESSAGE_BYTES:
        raise ValueError(f"a header {header[:60]!r}")
    return int(match[1])
