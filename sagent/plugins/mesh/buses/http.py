"""A bus over HTTP: the client of `http_routes`, as `sagent serve` has them."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from sagent.errors import SagentError, UsageError
from sagent.lib.json import JsonObject, as_array, as_int, as_object, as_str, json_freeze, json_load, wire_bytes
from sagent.plugins.mesh import errors
from sagent.plugins.mesh.bus import (
    Delivery,
    Envelope,
    Frame,
    answer_timeout,
    encode_body,
    envelope_of,
    failure,
    frame_kind,
)
from sagent.plugins.mesh.buses.gate import show
from sagent.plugins.mesh.cards import Card, Change, Query, decode_card, encode_card
from sagent.plugins.mesh.tasks import end
from sagent.providers.wire.sse import EventReader

if TYPE_CHECKING:
    import httpx2

MAX_SILENCE_SECONDS = 30.0  # seconds without a sign of the server after which a stream is taken up anew
RECONNECT_TIMEOUT_SECONDS = 30.0  # in which a server that cannot be reached is tried again
_RETRY_DELAY_SECONDS = 0.2
_MAX_UNREAD_EVENTS = 100  # events of a stream that wait for their reader
_KINDS: Mapping[str, type[SagentError]] = {
    kind.kind: kind
    for kind in (
        errors.NobodyThere, errors.DeadlineExceeded, errors.TooLarge, errors.Full, errors.Unavailable, errors.Refused,
        errors.WrongVersion, UsageError,
    )
}  # fmt: skip


@asynccontextmanager
async def http_bus(url: str, token: str) -> AsyncGenerator["HttpBus"]:
    """Connect to a server, `http://HOST:PORT`, with its token. Nothing is sent before it is used."""
    import httpx2

    headers = {"authorization": f"Bearer {token}"}
    timeout = httpx2.Timeout(MAX_SILENCE_SECONDS, connect=5.0)
    async with httpx2.AsyncClient(base_url=f"{url.rstrip('/')}/v1/bus", headers=headers, timeout=timeout) as client:
        yield HttpBus(client)


class HttpBus:
    """A bus over HTTP. Made by `http_bus`. Lost connections are resumed."""

    def __init__(self, client: "httpx2.AsyncClient") -> None:
        self._client = client

    async def send(self, envelope: Envelope, *, timeout: float = 10.0) -> "_Sent":
        encode_body(envelope)
        await self.call(
            "POST", "/messages", {**show(envelope), "timeout": timeout}, seconds=timeout + RECONNECT_TIMEOUT_SECONDS
        )
        return _Sent(self, envelope)

    @asynccontextmanager
    async def asking(self, envelope: Envelope, *, timeout: float = 600.0) -> AsyncGenerator[AsyncIterator[Frame]]:
        encode_body(envelope)
        until = time.monotonic() + timeout
        body = {**show(replace(envelope, deadline=time.time() + timeout)), "timeout": timeout}
        async with self._events("POST", "/requests", body, last=("reply", "failed", "error")) as events:
            try:
                yield _frames(events, envelope, until)
            finally:
                if not events.ended:
                    with suppress(SagentError):  # the server notices by itself before long
                        await self.call("DELETE", f"/requests/{envelope.id}", seconds=1.0)

    @asynccontextmanager
    async def receiving(self, name: str) -> AsyncGenerator[AsyncIterator[Delivery]]:
        async with self._events("GET", f"/inbox/{name}") as events:
            try:
                yield self._deliveries(events)
            finally:
                with suppress(SagentError):
                    await self.call("DELETE", f"/inbox/{name}", seconds=1.0)

    async def _deliveries(self, events: "_Events") -> AsyncIterator[Delivery]:
        known: dict[str, _Delivery] = {}
        async for name, data in events:
            token = as_str(data.get("delivery"))
            if name == "error" and not isinstance(error := _error_of(data), errors.Unavailable):
                raise error
            if name == "cancelled" and token in known:
                known.pop(token).cancel.set()
            elif name == "message":
                envelope = envelope_of(data.get("message"))
                places = as_int(data.get("sequence")), as_int(data.get("deliveries"), 1)
                delivery = _Delivery(self, token, envelope, *places)
                if envelope.answers_to:
                    known[token] = delivery
                yield delivery

    async def put_card(self, card: Card) -> None:
        await self.call("PUT", f"/cards/{card.address}", encode_card(card))

    async def remove_card(self, address: str) -> None:
        await self.call("DELETE", f"/cards/{address}")

    async def cards(self, *queries: Query) -> list[Card]:
        found = dict[str, Card]()
        for query in dict.fromkeys(queries or (Query(),)):
            for each in as_array(await self.call("GET", f"/cards?{_parameters(query)}")):
                card = decode_card(each)
                found[card.address] = card
        return [*found.values()]

    @asynccontextmanager
    async def watching_cards(self) -> AsyncGenerator[AsyncIterator[Change | None]]:
        async with self._events("GET", "/cards/events") as events:

            async def changes() -> AsyncIterator[Change | None]:
                async for name, data in events:
                    card = data.get("card")
                    found = None if card is None else decode_card(card)
                    yield None if name == "ready" else Change(as_str(data.get("address")), found)

            yield changes()

    async def call(
        self, method: str, path: str, body: object = None, *, seconds: float = RECONNECT_TIMEOUT_SECONDS
    ) -> object:
        """Return the answer to a request, which is repeated if the connection was lost, as the routes allow."""
        import httpx2

        data, until = None if body is None else wire_bytes(body), time.monotonic() + seconds
        while True:
            try:
                answer = await self._client.request(method, path, content=data)
            except httpx2.TransportError as error:
                if time.monotonic() >= until:
                    raise errors.Unavailable(f"The server of the bus cannot be reached: {_words(error)}") from error
                await asyncio.sleep(_RETRY_DELAY_SECONDS)
            else:
                check(answer.status_code, answer.content)
                return _read(answer.content) if answer.content else None

    @asynccontextmanager
    async def _events(
        self, method: str, path: str, body: object = None, *, last: tuple[str, ...] = ()
    ) -> AsyncGenerator["_Events"]:
        events = _Events(self._client, method, path, None if body is None else wire_bytes(body), last)
        task = asyncio.create_task(events.run())
        try:
            await events.opened.wait()
            yield events
        finally:
            await end(task)


def _parameters(query: Query) -> str:
    given = [("namespace", query.namespace), ("recursive", str(int(query.recursive))), ("kind", query.kind or "")]
    return urlencode([*given, *(("label", label) for label in query.labels)])


class _Events:
    """A stream of events over any number of connections. Iterating raises the server's errors."""

    def __init__(
        self, client: "httpx2.AsyncClient", method: str, path: str, body: bytes | None, last: tuple[str, ...]
    ) -> None:
        self._client, self._method, self._path, self._body, self._ends = client, method, path, body, last
        self._queue: asyncio.Queue[tuple[str, Mapping[str, object]] | SagentError] = asyncio.Queue(_MAX_UNREAD_EVENTS)
        self.opened = asyncio.Event()  # the server has begun to answer, or has refused
        self._last, self.ended = "", False

    async def __aiter__(self) -> AsyncGenerator[tuple[str, Mapping[str, object]]]:
        while True:
            item = await self._queue.get()
            if isinstance(item, SagentError):
                raise item
            self.ended = item[0] in self._ends
            yield item
            if self.ended:
                return

    async def run(self) -> None:
        """Follow it until cancelled, or its end."""
        import httpx2

        lost = time.monotonic()
        while True:
            try:
                if await self._follow():
                    return None
                lost = time.monotonic()
            except SagentError as error:
                return await self._fail(error)
            except httpx2.TransportError as error:
                if time.monotonic() - lost > RECONNECT_TIMEOUT_SECONDS:
                    text = f"The server of the bus cannot be reached: {_words(error)}"
                    return await self._fail(errors.Unavailable(text))
            await asyncio.sleep(_RETRY_DELAY_SECONDS)

    async def _fail(self, error: SagentError) -> None:
        self.opened.set()
        await self._queue.put(error)

    async def _follow(self) -> bool:
        """Follow the stream over one connection. Return True if it has ended."""
        headers = {"last-event-id": self._last} if self._last else {}
        reader = EventReader()
        async with self._client.stream(self._method, self._path, content=self._body, headers=headers) as answer:
            if answer.status_code != 200:
                check(answer.status_code, await answer.aread())
            async for chunk in answer.aiter_bytes():
                self.opened.set()
                for name, text in reader.feed(chunk):
                    data = as_object(_read(text))
                    await self._queue.put((name, data))
                    self._last = as_str(data.get("id"), self._last)
                    if name in self._ends:
                        return True
        return False


async def _frames(events: _Events, envelope: Envelope, until: float) -> AsyncIterator[Frame]:
    reading = aiter(events)
    while True:
        try:
            async with asyncio.timeout(max(0.0, until + 1.0 - time.monotonic())):  # the server says it first
                name, data = await anext(reading)
        except TimeoutError:
            raise answer_timeout(envelope) from None
        if name == "error":
            raise _error_of(data)
        place = as_int(data.get("number"), 1), as_int(data.get("attempt"), 1)
        body = json_freeze(data.get("body"))
        kind_of = frame_kind(name)
        yield Frame(kind_of or "failed", body if kind_of else failure(f"An unknown event: {name}", "failed"), *place)
        if events.ended:
            return


def _error_of(data: Mapping[str, object]) -> SagentError:
    """Return the error that the server's bus has met."""
    return _KINDS.get(as_str(data.get("kind")), errors.Unavailable)(as_str(data.get("message")))


def check(status: int, data: bytes) -> None:
    """Raise the error in an answer."""
    if status < 400:
        return
    try:
        found = as_object(json_load(data))
    except ValueError:
        found = JsonObject()
    detail, kind = as_str(found.get("detail"), f"The server has answered {status}."), as_str(found.get("kind"))
    if status in (401, 403) and kind not in _KINDS:
        raise errors.Refused(f"The server does not admit this token: {detail}")
    raise _KINDS.get(kind, errors.Unavailable)(detail)


def _read(data: str | bytes) -> object:
    """Parse the server's answer. Raises Unavailable for anything but JSON, such as a proxy's page."""
    try:
        return json_load(data)
    except ValueError as error:
        raise errors.Unavailable(f"The answer of the bus's server cannot be read: {error}.") from error


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


class _Sent:
    def __init__(self, bus: HttpBus, envelope: Envelope) -> None:
        self._bus, self.envelope = bus, envelope

    @property
    def id(self) -> str:
        return self.envelope.id

    async def taken(self) -> None:
        while not as_object(await self._bus.call("GET", f"/messages/{self.id}/taken")).get("taken"):
            pass  # the server has waited for a while


class _Delivery:
    def __init__(self, bus: HttpBus, token: str, envelope: Envelope, sequence: int, deliveries: int) -> None:
        self._bus, self._path, self._frames = bus, f"/deliveries/{token}", 0
        self.envelope, self.sequence, self.deliveries, self.cancel = envelope, sequence, deliveries, asyncio.Event()

    async def ack(self) -> None:
        await self._post("ack", {})

    async def emit(self, frame: object) -> None:
        self._frames += 1
        await self._post("frames", {"body": frame, "number": self._frames})

    async def reply(self, body: object) -> None:
        await self._post("reply", {"body": body})

    async def fail(self, message: str, kind: str = errors.MeshError.kind) -> None:
        await self._post("failure", {"message": message, "kind": kind})

    async def cancelled(self) -> None:
        await self.cancel.wait()

    async def _post(self, action: str, body: Mapping[str, object]) -> None:
        with suppress(errors.NobodyThere):  # it is over
            await self._bus.call("POST", f"{self._path}/{action}", body)
