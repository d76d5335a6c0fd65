"""An MCP server that is a program: started with two pipes, one message a line, and ended with all its processes.

In addition to the SDK: lines are limited, the program cannot outlive this process, and the reason of its end is known.
"""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.lib.json import as_object
from sagent.lib.process import ProcessGroup
from sagent.lib.text import one_line
from sagent.plugins.programs.piped import PipedProcess

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage
    from mcp.types import JSONRPCMessage

MAX_LINE_BYTES = 1 << 26  # of one message
_END_SECONDS = 1.0  # that a program gets to end by itself, once its standard input has ended
_MAX_STDERR_BYTES = 2_000  # bytes of its standard error to keep
_PROBE_TIMEOUT_SECONDS = 3.0  # seconds for a server to state its protocol, before the earlier handshake is used
_CHUNK_BYTES = 1 << 16
_INTERNAL_ERROR = -32603  # JSON-RPC's code for an error of the server
_SUSPECT = re.compile(rb"\\u[dD][89a-fA-F]|NaN|Infinity")


class Program:
    """A run of a server's program. `fault` is why it ended; `on_end` is called when its output ends."""

    def __init__(self, processes: ProcessGroup, on_end: Callable[[], None]) -> None:
        self._processes, self._on_end = processes, on_end
        self._overlong = False
        self._heard = False
        self._program: PipedProcess | None = None

    @property
    def fault(self) -> str:
        if self._overlong:
            return f"it wrote a line of more than {MAX_LINE_BYTES >> 20} MiB"
        if self._program is None or self._program.process.alive:
            return ""
        said = "".join(f": {one_line(line, 200)}" for line in self._program.stderr_lines[-1:])
        return f"it {self._program.outcome}{said}"

    @asynccontextmanager
    async def streams(
        self, argv: Sequence[str], environment: Mapping[str, str], cwd: Path | None = None
    ) -> AsyncGenerator["TransportStreams"]:
        """Open the streams of the SDK's client. Raises OSError and ValueError if the program cannot be started."""
        import anyio
        from mcp.shared.message import SessionMessage

        async with AsyncExitStack() as stack:
            program = self._program = await PipedProcess.start(
                self._processes,
                argv,
                environment,
                cwd,
                max_line_bytes=MAX_LINE_BYTES,
                max_stderr_bytes=_MAX_STDERR_BYTES,
            )
            stack.callback(program.close)
            arriving, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
            outgoing, leaving = anyio.create_memory_object_stream[SessionMessage](0)
            for stream in (arriving, incoming, outgoing, leaving):
                stack.callback(stream.close)
            reading, writing = self._read(program.reader, arriving), _write(program.writer, leaving, arriving)
            talking = (reading, writing, self._hurry(arriving))
            stack.push_async_callback(_cancel, *map(asyncio.create_task, talking))
            stack.push_async_callback(_end, program)
            stack.callback(incoming.close)
            yield incoming, outgoing

    async def _read(
        self, reader: asyncio.StreamReader, arriving: "MemoryObjectSendStream[SessionMessage | Exception]"
    ) -> None:
        """Pass its messages on, skipping invalid ones. The end of the stream ends the client's."""
        import anyio
        from mcp.shared.message import SessionMessage

        with arriving, contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for line in self._lines(reader):
                try:
                    message = _message(_as_json(line))
                except (ValueError, RecursionError):
                    continue
                self._heard = True
                await arriving.send(SessionMessage(message))
        self._on_end()
        while await reader.read(_CHUNK_BYTES):  # a program that waits for its output to be read cannot end
            pass

    async def _hurry(self, arriving: "MemoryObjectSendStream[SessionMessage | Exception]") -> None:
        """Answer the first request, which negotiates a protocol, if the server ignores unknown requests."""
        import anyio
        from mcp.shared.message import SessionMessage
        from mcp.types import REQUEST_TIMEOUT, ErrorData, JSONRPCError

        await asyncio.sleep(_PROBE_TIMEOUT_SECONDS)
        if not self._heard:
            error = ErrorData(code=REQUEST_TIMEOUT, message="no answer")
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await arriving.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=1, error=error)))

    async def _lines(self, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        try:
            while line := await reader.readline():
                yield line
        except ValueError:
            self._overlong = True


async def _end(program: PipedProcess) -> None:
    """Ask a program to end, by the end of its standard input, and then see to it."""
    program.writer.close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_END_SECONDS):
            await program.process.ended()
    await program.process.kill_tree()
    await asyncio.wait([program.stderr_task], timeout=_END_SECONDS)


def _message(line: bytes) -> "JSONRPCMessage":
    """Return the message in a line. The SDK's reader rejects deep nesting (about 200) and other forms of answers, and
    the caller would then wait for the call's whole timeout."""
    from mcp.types import jsonrpc_message_adapter

    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return jsonrpc_message_adapter.validate_python(_mended(json.loads(line)), by_name=False)


def _mended(message: object) -> object:
    """Return an answer in JSON-RPC's form: its result and its error are objects, and it has one of them."""
    fields = as_object(message)
    if "method" in fields or not isinstance(number := fields.get("id"), int | str):
        return message
    plain: dict[str, object] = {"jsonrpc": "2.0", "id": number}
    if "result" in fields:
        result, found = fields["result"], as_object(fields["result"])
        return {**plain, "result": found if found or result == {} else {"structuredContent": result}}
    error = fields.get("error", "an answer with neither a result nor an error")
    given = as_object(error)
    code, said = given.get("code"), given.get("message")
    words = said if isinstance(said, str) else error if isinstance(error, str) else json.dumps(error)
    code = code if isinstance(code, int) and not isinstance(code, bool) else _INTERNAL_ERROR
    return {**plain, "error": {"code": code, "message": one_line(words, 500)}}


def _as_json(line: bytes) -> bytes:
    """Return a line in the reader's form if it is JSON except for half a surrogate pair, a byte that is not UTF-8, or
    NaN; otherwise the caller would wait for the call's whole timeout."""
    if not _SUSPECT.search(line):
        try:
            line.decode()
        except UnicodeDecodeError:
            return line.decode(errors="replace").encode()
        return line
    found = json.loads(line.decode(errors="replace"), parse_constant=lambda _: None)
    return json.dumps(found, ensure_ascii=False).encode(errors="replace")


async def _write(
    writer: asyncio.StreamWriter,
    leaving: "MemoryObjectReceiveStream[SessionMessage]",
    arriving: "MemoryObjectSendStream[SessionMessage | Exception]",
) -> None:
    """Pass our messages on. If nobody reads them, the client's stream is closed, because it waits for answers."""
    try:
        async for message in leaving:
            writer.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await writer.drain()
    except OSError:
        arriving.close()


async def _cancel(*tasks: "asyncio.Task[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
