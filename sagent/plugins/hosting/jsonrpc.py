"""JSON-RPC 2.0 (jsonrpc.org/specification) between two peers: each request gets exactly one response."""

import asyncio
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias

from sagent.lib.json import as_array, as_object, as_str, json_parse, wire_bytes
from sagent.lib.text import cut

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
MAX_ERROR_CHARS = 4_000  # of an error, which may quote the request
CANCELLED, AUTH_REQUIRED, NOT_FOUND = -32800, -32000, -32002  # as ACP's schema, ErrorCode

Id: TypeAlias = str | int | float | None
Params: TypeAlias = Mapping[str, object]


class RpcError(Exception):
    """An error response. `data` has details beyond the message."""

    def __init__(self, code: int, message: str, data: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.code, self.data = code, data


def text_in(params: Params, name: str, location: str = "") -> str:
    """Return a parameter that must be a text and not empty. Raises RpcError."""
    if not (found := as_str(params.get(name))):
        raise RpcError(INVALID_PARAMS, f"{location}{name} is missing or not a string.")
    return found


def list_in(params: Params, name: str, location: str = "", *, required: bool = False) -> Sequence[object]:
    """Return a list, empty if it is optional. Raises RpcError."""
    found = params.get(name)
    if (found is not None or required) and not isinstance(found, list):
        raise RpcError(INVALID_PARAMS, f"{location}{name} is missing or not a list.")
    return as_array(params.get(name))


class Answer:
    """A result, and a function to call once it was sent."""

    def __init__(self, result: Mapping[str, object], after: Callable[[], None] = lambda: None) -> None:
        self.result, self.after = result, after


Method: TypeAlias = Callable[[Params], Awaitable["Answer | Mapping[str, object]"]]


class Connection:
    """Handles a peer's messages by `methods`, and sends requests to the peer.

    Messages begin in the order of arrival: the part of a method before its first `await` is done before the next
    message is handled.
    """

    def __init__(
        self, methods: Mapping[str, Method], notices: Mapping[str, Method], send: Callable[[bytes], None]
    ) -> None:
        self.methods, self._notices, self._write = methods, notices, send
        self._open: dict[tuple[type, Id], asyncio.Task[Answer]] = {}  # requests of the peer
        self._asked: dict[int, asyncio.Future[object]] = {}  # requests of ours
        self._count = 0
        self._noting: set[asyncio.Task[None]] = set()

    # -- what arrives

    def receive(self, line: bytes | None) -> None:
        """Handle one line, None for one that was too long."""
        if line is None:
            self._refuse(None, INVALID_REQUEST, "A line is too long; the longest that are read have 256 MiB.")
            return
        if not line.strip():
            return
        try:
            message = json_parse(line.decode())
        except (ValueError, RecursionError) as error:
            self._refuse(None, PARSE_ERROR, f"A line is not JSON: {error}")
            return
        if isinstance(message, list):
            self._refuse(None, INVALID_REQUEST, "Batches are not part of ACP: send each message on a line of its own.")
        elif not isinstance(message, dict):
            self._refuse(None, INVALID_REQUEST, "A message is a JSON object.")
        else:
            self._take(as_object(message))  # pyright: ignore[reportUnknownArgumentType] -- JSON: its keys are strings

    def _take(self, message: Params) -> None:
        method, given = message.get("method"), message.get("id")
        number = given if isinstance(given, str | int | float) and not isinstance(given, bool) else None
        if method is None and ("result" in message or "error" in message):
            self._take_response(message)
            return
        if message.get("jsonrpc") != "2.0" or not isinstance(method, str) or number != given:
            wants = 'A message has "jsonrpc": "2.0", a "method", and in a request an "id": a string or a number.'
            self._refuse(number, INVALID_REQUEST, wants)
        elif "id" in message:
            self._begin(number, method, message.get("params"))
        else:
            self._note(method, message.get("params"))

    def _begin(self, number: Id, method: str, params: object) -> None:
        key = (type(number), number)
        if key in self._open:
            self._refuse(number, INVALID_REQUEST, f"The id {number!r} is that of a request which is still open.")
        elif (found := self.methods.get(method)) is None:
            self._refuse(number, NO_METHOD, f"There is no method {method!r}.", {"method": cut(method, MAX_ERROR_CHARS)})
        elif params is not None and params is not as_object(params):
            self._refuse(number, INVALID_PARAMS, f"The params of {method} are an object.")
        else:
            self._open[key] = task = asyncio.create_task(_answered(found, as_object(params)))
            task.add_done_callback(lambda _: self._answer(key, task, method))

    def _note(self, method: str, params: object) -> None:
        if method == "$/cancel_request":
            number = as_object(params).get("requestId")
            task = self._open.get((type(number), number)) if isinstance(number, str | int | float | None) else None
            if task is not None:
                asyncio.get_running_loop().call_soon(task.cancel)  # it has begun by then
        elif (found := self._notices.get(method)) is not None:
            noting = asyncio.create_task(self._noted(found, method, as_object(params)))
            self._noting.add(noting)
            noting.add_done_callback(self._noting.discard)

    async def _noted(self, method: Method, name: str, params: Params) -> None:
        try:
            await method(params)
        except RpcError as error:  # a notification gets no response
            log(f"{name}: {error}")
        except Exception:
            log(f"{name} failed\n{traceback.format_exc()}")

    def _answer(self, key: tuple[type, Id], task: "asyncio.Task[Answer]", method: str) -> None:
        """Send the response of a request."""
        if self._open.pop(key, None) is None:
            return
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        match error:
            case None:
                self._send({"id": key[1], "result": task.result().result})
                task.result().after()
            case asyncio.CancelledError():
                self._refuse(key[1], CANCELLED, "The request was cancelled.")
            case RpcError():
                self._refuse(key[1], error.code, str(error), error.data)
            case _:
                log(f"{method} failed\n{''.join(traceback.format_exception(error))}")
                self._refuse(key[1], INTERNAL, f"{type(error).__name__}: {error}")

    def _take_response(self, message: Params) -> None:
        number = message.get("id")
        waiting = self._asked.pop(number, None) if type(number) is int else None
        if waiting is None or waiting.done():
            return  # nobody waits any more
        if (error := message.get("error")) is not None:
            found = as_object(error)
            code = found.get("code")
            text = as_str(found.get("message")) or "an error without a message"
            waiting.set_exception(RpcError(code if isinstance(code, int) else INTERNAL, text))
        else:
            waiting.set_result(message.get("result"))

    # -- what is sent

    def notify(self, method: str, params: Mapping[str, object]) -> None:
        self._send({"method": method, "params": params})

    async def request(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """Send a request and return the answer; if the wait is cancelled, the request is cancelled on the other side.
        Raises RpcError."""
        self._count += 1
        number = self._count
        self._asked[number] = waiting = asyncio.get_running_loop().create_future()
        self._send({"id": number, "method": method, "params": params})
        try:
            return as_object(await waiting)
        except asyncio.CancelledError:
            if self._asked.pop(number, None) is not None:
                self.notify("$/cancel_request", {"requestId": number})
            raise

    def _refuse(self, number: Id, code: int, text: str, data: Mapping[str, object] | None = None) -> None:
        text = cut(text, MAX_ERROR_CHARS)
        shown = {"details": text, **(data or {})}  # several clients only show these
        self._send({"id": number, "error": {"code": code, "message": text, "data": shown}})

    def _send(self, message: Mapping[str, object]) -> None:
        self._write(wire_bytes({"jsonrpc": "2.0", **message}) + b"\n")

    # -- the end

    async def settle(self, seconds: float) -> None:
        """Wait for open requests, for a limited time; then cancel them, which answers them, and wait half as long
        again."""
        if open_ := list(self._open.values()):
            _, late = await asyncio.wait(open_, timeout=seconds)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=seconds / 2)
        await asyncio.sleep(0)  # for responses of requests that have just ended

    def abandon(self) -> None:
        """Answer all open requests, ignoring errors."""
        while self._open:
            self._refuse(self._open.popitem()[0][1], CANCELLED, "The request was cancelled.")


async def _answered(method: Method, params: Params) -> Answer:
    result = await method(params)
    return result if isinstance(result, Answer) else Answer(result)


def log(text: str) -> None:
    """Write to standard error, which is the log of the editor."""
    from sagent.lib.text import printable

    with suppress(OSError):
        sys.stderr.write(printable(f"sagent acp: {text}") + "\n")
        sys.stderr.flush()
