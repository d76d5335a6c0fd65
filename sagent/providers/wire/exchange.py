"""One call over a transport: bytes out, deltas and one reply back. Handles streams, silence and ends."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from itertools import groupby
from math import isfinite
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from sagent.errors import ModelError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import NotJsonError, as_array, as_object
from sagent.lib.pace import give_way
from sagent.model import Delta, Reply, RequestDigest, TextPart, ThinkingPart
from sagent.providers.wire.encoding import Body
from sagent.providers.wire.faults import ExchangeFailed, Origin, error_in, from_event, from_status
from sagent.providers.wire.reply import ReplyReader
from sagent.providers.wire.sse import EventReader
from sagent.providers.wire.transport import Answer, Transport

MAX_ERROR_BYTES = 65_536  # bytes read of an error's body
_MAX_BODY_BYTES = 64 * 1024 * 1024  # bytes of an answer that is not streamed, and of one event
_MAX_STREAM_BYTES = 256 * 1024 * 1024  # bytes of a stream, whatever their content
_MAX_EMPTY_BYTES = 4 * 1024 * 1024  # consecutive bytes without a part of the reply: pings, comments, empty events
_UNSHOWN = 128  # bytes of arguments reported together, as a sign of life
_STREAM_END_SECONDS = 0.25  # seconds for a finished stream to end, so that its connection can be reused
_FIELDS = (b":", b"data", b"event", b"id", b"retry")  # fields of a line in an event stream
_BLANK = b"\xef\xbb\xbf \t\r\n"
_TRAILER_TIMEOUT_SECONDS = 10.0  # seconds for usage after a finished reply, and for the body of an error

T = TypeVar("T")
OnWaiting: TypeAlias = Callable[[str, str], None]
"""Called with the reason why a call waits at every change, and "" when it no longer waits: the path of its agent, "" if
all of them wait, and a line."""


def ignore_wait(_agent: str, _line: str) -> None:
    """Ignore the report."""


@runtime_checkable
class ReportsWaiting(Protocol):
    """A provider that reports why its calls wait."""

    on_waiting: OnWaiting


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds of silence after which a call is given up. Pings and comments do not count as silence.

    `reasoning_stall` applies before the first event, and while the model reasons or a server tool works.
    """

    stall: float = 60.0
    reasoning_stall: float = 180.0
    connect: float = 10.0


@dataclass(frozen=True, slots=True)
class Call:
    """A request ready to send, and the reader for its answer: of `max_output` tokens, or unlimited if that is 0."""

    url: str
    headers: Mapping[str, str]
    body: Body
    digest: RequestDigest
    reader: ReplyReader
    origin: Origin
    timeouts: Timeouts
    notes: tuple[str, ...] = ()
    max_output: int = 0


async def exchange(transport: Transport, prepare: Callable[[], Call]) -> AsyncGenerator[Delta | Reply]:
    """Make a call: deltas as they come, then the Reply. Raises only ModelError.

    Deltas of one kind that arrive together are merged; none is held back. Closing the iterator closes the response.
    """
    call = prepare()
    watch = _Watch(call)
    answer: Answer | None = None
    try:
        answer = await watch.over(transport.post(call.url, call.headers, call.body.parts))
        if not 200 <= answer.status < 300:
            found = await read_body(answer, MAX_ERROR_BYTES, timeout=_TRAILER_TIMEOUT_SECONDS)
            for billed in _bills_in(call, [("", found.decode("utf-8", "replace"))]):
                yield billed
            raise from_status(call.origin, answer.status, answer.headers, found)
        async with aclosing(_items(call, answer, watch)) as batches:
            async for items in batches:
                for item in items:
                    yield item
                watch.touch()  # the time our caller took is not the provider's silence
    except asyncio.CancelledError:
        for billed in call.reader.report_unshown():  # everything received counts, not only shown text
            yield billed
        raise
    except ExchangeFailed as error:
        error.sent = error.sent or answer is not None
        raise call.origin.disrupted(error) from error
    except (RecursionError, NotJsonError) as error:  # JSON is read by code that goes deeper than what reads its values
        deep = call.origin.hopeless("its answer is nested too deeply")
        deep.sent = True
        raise deep from error
    except ModelError as error:
        error.sent = error.sent or call.reader.received > 0  # it had begun to answer
        for billed in await _bills_after(call, answer, error):
            yield billed
        raise
    finally:
        if answer is not None:
            await answer.aclose()


async def fetch(
    transport: Transport,
    url: str,
    headers: Mapping[str, str],
    origin: Origin,
    timeouts: Timeouts,
    body: Sequence[bytes] | None = None,
) -> object:
    """GET a JSON document, or POST a body for one. Raises ModelError."""
    try:
        answer, found = await read_answer(transport, url, headers, body, timeout=timeouts.stall)
    except ExchangeFailed as error:
        raise origin.disrupted(error) from error
    try:
        data = read_json(found) if answer.status == 200 else None
    except (ValueError, RecursionError):
        data = None
    if data is None or error_in(as_object(data)):
        raise from_status(origin, answer.status, answer.headers, found)
    return data


async def read_answer(
    transport: Transport,
    url: str,
    headers: Mapping[str, str],
    body: Sequence[bytes] | None = None,
    *,
    timeout: float,
    max_bytes: int = _MAX_BODY_BYTES,
) -> tuple[Answer, bytes]:
    """GET, or POST a body: return an answer and its body, within a time. Raises ExchangeFailed."""
    try:
        async with asyncio.timeout(timeout):
            answer = await (transport.get(url, headers) if body is None else transport.post(url, headers, body))
            try:
                return answer, await read_body(answer, max_bytes if 200 <= answer.status < 300 else MAX_ERROR_BYTES)
            finally:
                await answer.aclose()
    except TimeoutError as error:
        raise ExchangeFailed("stalled", f"no answer within {timeout:g} s", sent=True) from error


async def _items(call: Call, answer: Answer, watch: "_Watch") -> AsyncGenerator[Sequence[Delta | Reply]]:
    """Yield the deltas, at the end those held back, and the reply."""
    async with aclosing(_deltas(call, answer, watch)) as batches:
        async for deltas in batches:
            yield deltas
    held = list[Delta]()
    call.reader.finish(held)
    yield [*held, _reply(call)]


async def _deltas(call: Call, answer: Answer, watch: "_Watch") -> AsyncGenerator[list[Delta]]:
    """Yield the deltas of a streamed answer, or of one that came whole although a stream was requested."""
    reader = EventReader()
    began = chunk = await _beginning(call, answer, watch)
    if chunk[:1] in (b"{", b"[", b"<"):  # JSON, or a page of HTML
        body, out = chunk + await read_body(answer, _MAX_BODY_BYTES, watch), list[Delta]()
        try:
            _take_whole(call, answer, body, out)
        finally:  # deltas before the error come first
            if out:
                yield _merged(out)
        return
    bounds = _Bounds(call, reader)
    while chunk:
        await give_way()
        reader.alive, ended = False, call.reader.complete
        out: list[Delta] = []
        error = _take_events(call, bounds.feed(chunk), out)
        out = out or call.reader.report_unshown(_UNSHOWN)
        if reader.alive and not ended:
            watch.touch()
        if out:
            yield _merged(out)
        if error is not None:
            raise error
        if call.reader.closed:
            await _rest(answer)
            return
        bounds.check()
        chunk = await _next(call, answer, watch)
    out = []
    error = _take_events(call, reader.end(), out)
    if out:
        yield _merged(out)
    if error is not None and error.kind != "protocol":  # that would be half an event: the stream was cut inside it
        raise error
    if not call.reader.complete:
        if began and not began.startswith(_FIELDS):
            raise call.origin.error("protocol", f"the answer is not a stream of events: {_shown(began)}")
        raise call.origin.error("cut", "the stream ended before the reply did")


class _Bounds:
    """Limits on the bytes of a stream: in total, in one event, and in a row without any of the reply."""

    __slots__ = ("_call", "_left", "_quiet", "_reader", "_received")

    def __init__(self, call: Call, reader: EventReader) -> None:
        self._call = call
        self._reader = reader
        self._left, self._quiet, self._received = _MAX_STREAM_BYTES, 0, 0

    def feed(self, chunk: bytes) -> list[tuple[str, str]]:
        """Return the events that these bytes complete. Raises ModelError."""
        if (left := self._left - len(chunk)) < 0:
            raise _too_long(self._call, _MAX_STREAM_BYTES)
        held = self._reader.held
        events = self._reader.feed(chunk)
        if self._reader.held > _MAX_BODY_BYTES:
            raise _too_long(self._call, _MAX_BODY_BYTES)
        grown = max(0, self._reader.held - held)  # bytes of an incomplete event with unknown content
        self._left, self._quiet = left, self._quiet + len(chunk) - grown
        return events

    def check(self) -> None:
        """Raise ModelError if too many consecutive bytes brought nothing."""
        if (received := self._call.reader.received) != self._received:
            self._quiet, self._received = 0, received
        if self._quiet > _MAX_EMPTY_BYTES:
            raise _too_long(self._call, _MAX_EMPTY_BYTES, " without content")


async def _beginning(call: Call, answer: Answer, watch: "_Watch") -> bytes:
    """Return the first bytes with content. Gateways send white space to keep a connection open."""
    left = _MAX_STREAM_BYTES
    while chunk := await _next(call, answer, watch):
        if said := chunk.lstrip(_BLANK):
            return said
        if (left := left - len(chunk)) < 0:
            raise _too_long(call, _MAX_STREAM_BYTES)
        watch.touch()
    return b""


def _too_long(call: Call, max_bytes: int, of: str = "") -> ModelError:
    return call.origin.hopeless(f"its answer is longer than {max_bytes:,} bytes{of}")


async def _next(call: Call, answer: Answer, watch: "_Watch") -> bytes:
    """Return the next bytes, b"" at the end. Errors after a complete reply are ignored."""
    try:
        while (chunk := await watch.over(anext(answer.chunks, None))) is not None:
            if chunk:
                return chunk
    except (ExchangeFailed, ModelError):
        if call.reader.complete:
            return b""
        raise
    return b""


def _take_events(call: Call, events: Iterable[tuple[str, str]], out: list[Delta]) -> ModelError | None:
    """Read events up to the reply's end or an error, which is returned, so that deltas before it are emitted first."""
    events = iter(events)
    try:
        for name, data in events:
            _take_event(call, name, data, out)
            if call.reader.closed:
                break
            if 0 < call.max_output < call.reader.least_tokens:
                return call.origin.hopeless(f"it continued after the {call.max_output:,} tokens asked for")
    except ModelError as error:
        out += _bills_in(call, events)
        return error
    return None


def _bills_in(call: Call, events: Iterable[tuple[str, str]]) -> list[Delta]:
    """Return the charges that events report along with an error."""
    out: list[Delta] = []
    for _, data in events:
        with suppress(ValueError, RecursionError):
            call.reader.failed(as_object(read_json(data)), out)
    return out


async def _bills_after(call: Call, answer: Answer | None, error: ModelError) -> list[Delta]:
    """Return the charges that are reported after an error."""
    if answer is None or error.final or call.reader.charges():
        return []
    return _bills_in(call, EventReader().feed(await _rest(answer)))


def _take_event(call: Call, name: str, data: str, out: list[Delta]) -> None:
    text = data.strip()
    if not text:
        return
    if text == "[DONE]":
        call.reader.done()
        return
    try:
        event = read_json(data)
    except (ValueError, RecursionError) as error:
        if call.reader.complete or name in ("ping", "heartbeat", "keepalive"):
            return
        if name == "error":
            raise from_event(call.origin, {"error": text}) from error
        if "\n" in text:  # a server that puts no blank line between its events
            for line in text.split("\n"):
                _take_event(call, name, line, out)
            return
        unread = call.origin.error("protocol", f"an event of the stream is not JSON: {_shown(text)}")
        unread.max_retries = 1  # a server that writes such answers will repeat them
        raise unread from error
    fields = as_object(event) or as_object(next(iter(as_array(event)), None))
    if name == "error" or error_in(fields):
        if call.reader.complete:
            call.reader.failed_late(text)
            return
        call.reader.failed(fields, out)
        raise from_event(call.origin, fields or {"error": text})
    call.reader.feed(fields, out)


def _take_whole(call: Call, answer: Answer, body: bytes, out: list[Delta]) -> None:
    """Take an answer that is one JSON document."""
    if len(body) > _MAX_BODY_BYTES:
        raise _too_long(call, _MAX_BODY_BYTES)
    try:
        data = read_json(body)
    except (ValueError, RecursionError) as error:
        if body.lstrip()[:1] == b"<":
            raise from_status(call.origin, answer.status, answer.headers, body) from error
        if lines := EventReader().feed(body + b"\n"):  # JSON lines in place of events
            if failed := _take_events(call, lines, out):
                raise failed from error
            if call.reader.complete:
                return
        raise call.origin.error("protocol", f"the answer is not JSON: {_shown(body)}") from error
    # an array is a stream (Google's, if no events were requested)
    take = call.reader.feed if as_array(data) else call.reader.whole
    for fields in map(as_object, as_array(data) or (data,)):
        if error_in(fields):
            call.reader.failed(fields, out)
            raise from_event(call.origin, fields)
        if fields:
            take(fields, out)
    if not call.reader.complete:
        raise call.origin.error("protocol", f"the answer is not a reply: {_shown(body)}")


def _reply(call: Call) -> Reply:
    reader = call.reader
    usage, charges = reader.bill(call.body.max_input_tokens)
    message = reader.message()
    if reader.closes_calls and message.stop == "tool_use" and 0 < call.max_output == usage.output:
        message = replace(message, stop="max_tokens")
    notes = (*call.notes, *reader.notes(), *reader.mends)
    return Reply(message, usage, charges, call.digest, reader.response_id, notes, reader.advice())


def _merged(deltas: list[Delta]) -> list[Delta]:
    """Merge neighbouring texts, and neighbouring thoughts."""
    if len(deltas) < 2:
        return deltas
    merged: list[Delta] = []
    for kind, group in groupby(deltas, type):
        if kind in (TextPart, ThinkingPart):
            texts = [delta for delta in group if isinstance(delta, TextPart | ThinkingPart)]
            merged.append(replace(texts[0], text="".join(part.text for part in texts)))
        else:
            merged += group
    return merged


async def read_body(
    answer: Answer, max_bytes: int, watch: "_Watch | None" = None, *, timeout: float | None = None
) -> bytes:
    """Return the body, up to a number of bytes; with `timeout`, and for an error, whose status matters most, the part
    that arrives in time."""
    parts, left = list[bytes](), max_bytes
    with suppress(*(() if answer.status == 200 and timeout is None else (TimeoutError, ExchangeFailed))):
        async with asyncio.timeout(timeout):
            while left > 0:
                step = anext(answer.chunks, None)
                if (chunk := await (watch.over(step) if watch else step)) is None:
                    break
                if watch:
                    watch.touch()
                parts.append(chunk)
                left -= len(chunk)
    return b"".join(parts)[:max_bytes]


async def _rest(answer: Answer) -> bytes:
    """Read the rest of an ended answer, so that its connection can be reused."""
    return await read_body(answer, MAX_ERROR_BYTES, timeout=_STREAM_END_SECONDS)


def _shown(body: str | bytes) -> str:
    text = body if isinstance(body, str) else body[:200].decode("utf-8", "replace")
    return repr(text if len(text) <= 120 else f"{text[:120]}…")


class _Watch:
    """Ends a call that has been silent too long."""

    __slots__ = ("_call", "_last")

    def __init__(self, call: Call) -> None:
        self._call = call
        self.touch()

    def touch(self) -> None:
        """Note a sign of life."""
        self._last = asyncio.get_running_loop().time()

    async def over(self, step: Awaitable[T]) -> T:
        """Wait for a step. Raises ModelError("stalled") if the silence lasts too long."""
        reader, times = self._call.reader, self._call.timeouts
        allowed = times.reasoning_stall if reader.reasoning else times.stall
        if reader.complete:
            allowed = min(times.stall, _TRAILER_TIMEOUT_SECONDS)
        try:
            async with asyncio.timeout_at(self._last + allowed):
                return await step
        except TimeoutError as error:
            raise self._call.origin.error("stalled", f"nothing arrived for {allowed:g} s") from error


def read_json(text: str | bytes) -> object:
    """Parse JSON. Python's own numbers (NaN, 1e999) become text, because they could never be sent back."""
    plain = text if isinstance(text, str) else text.decode("utf-8", "replace")
    return _JSON.decode(plain.removeprefix("\ufeff"))


def _finite(text: str) -> float | str:
    number = float(text)
    return number if isfinite(number) else text


# A raw control character in a text is not JSON, and yet it can mean only itself.
_JSON = json.JSONDecoder(strict=False, parse_float=_finite, parse_constant=str)
