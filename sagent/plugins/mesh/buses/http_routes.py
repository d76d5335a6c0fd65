"""A bus over HTTP, for agents without a broker and in any language: routes for Starlette. Needs sagent[serve].

Streams are server-sent events with JSON data; a client that comes back names the last event it received in
`Last-Event-ID`, within `gate.RETURN_TIMEOUT_SECONDS`. Requests may be repeated: messages and requests carry their id,
frames their number.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from sagent.errors import SagentError, UsageError
from sagent.lib.json import as_int, as_object, as_str, json_load, wire_bytes
from sagent.plugins.hosting.beats import with_beats
from sagent.plugins.hosting.bodies import read_within
from sagent.plugins.hosting.problem import BodyTooLarge, BodyTooSlow
from sagent.plugins.mesh import names
from sagent.plugins.mesh.bus import MAX_BODY_BYTES, Bus, Envelope, envelope_of, new_id
from sagent.plugins.mesh.buses.gate import Event, Gate
from sagent.plugins.mesh.cards import Card, Change, Query, check_name, decode_card, encode_card, select
from sagent.plugins.mesh.errors import DeadlineExceeded, Full, MeshError, NobodyThere, Refused, TooLarge, Unavailable

Handler = Callable[[Gate, Request], Awaitable[Response]]

HEARTBEAT_SECONDS = 10.0  # seconds of silence after which a stream sends a sign of life
_STATUS: Mapping[type[SagentError], int] = {
    NobodyThere: 404, DeadlineExceeded: 504, TooLarge: 413, Full: 503, Unavailable: 503, Refused: 403,
    BodyTooSlow: 408,
}  # fmt: skip
_MAX_BODY_BYTES = MAX_BODY_BYTES + (1 << 16)
BODY_TIMEOUT_SECONDS = 60  # in which a body must have arrived
MAX_ID_CHARS = 200  # of a message


class Gates:
    """The gates of several buses, each made on first use."""

    def __init__(self, bus_of: Callable[[Request], Bus]) -> None:
        self._bus_of = bus_of
        self._gates: dict[Bus, Gate] = {}

    def of(self, request: Request) -> Gate:
        bus = self._bus_of(request)
        return self._gates.setdefault(bus, Gate(bus))

    async def aclose(self) -> None:
        for gate in self._gates.values():
            await gate.aclose()


def bus_routes(gates: Gates) -> list[Route]:
    """Return the routes, each for the bus of its request. Access is checked before."""

    def route(path: str, method: str, handler: Handler) -> Route:
        async def handle(request: Request) -> Response:
            try:
                return await handler(gates.of(request), request)
            except SagentError as error:
                return _problem(error)

        return Route(f"/v1/bus{path}", handle, methods=[method])

    return [
        route("/messages", "POST", _send),
        route("/messages/{id}/taken", "GET", _taken),
        route("/requests", "POST", _ask),
        route("/requests/{id}", "DELETE", _cancel),
        route("/inbox/{name}", "GET", _receive),
        route("/inbox/{name}", "DELETE", _leave),
        route("/deliveries/{token}/{what}", "POST", _handle),
        route("/cards", "GET", _cards),
        route("/cards/events", "GET", _watch),
        route("/cards/{address}", "PUT", _put_card),
        route("/cards/{address}", "DELETE", _remove_card),
    ]


def _problem(error: SagentError) -> Response:
    """Answer with application/problem+json (RFC 9457), with the kind of the error."""
    status = _STATUS.get(type(error), 400 if isinstance(error, UsageError) else 500)
    body = {"type": "about:blank", "status": status, "detail": str(error), "kind": error.kind}
    return Response(wire_bytes(body), status, media_type="application/problem+json")


async def _body(request: Request) -> Mapping[str, object]:
    """Read the object that a request brings. Raises UsageError for something else, and for what comes too slowly."""
    try:
        data = await read_within(request, _MAX_BODY_BYTES, BODY_TIMEOUT_SECONDS)
    except BodyTooLarge as error:
        raise TooLarge(str(error)) from None
    try:
        value = json_load(data or b"{}")
    except ValueError as error:
        raise UsageError(f"The request's body is not JSON: {error}") from None
    if not isinstance(value, Mapping):
        raise UsageError("The request's body is not a JSON object.")
    return as_object(value)


async def _envelope(request: Request) -> tuple[Envelope, float]:
    """Return a message from a request, and how long may be waited."""
    members = await _body(request)
    message_id = as_str(members.get("id")) or request.headers.get("idempotency-key") or new_id()
    if len(message_id) > MAX_ID_CHARS:
        raise UsageError(f"id: at most {MAX_ID_CHARS} characters.")
    try:
        envelope = envelope_of({"version": names.VERSION, **members, "id": message_id, "answers_to": ""})
    except ValueError as error:
        raise UsageError(f"Not a message: {str(error).rstrip('.')}.") from None
    if (timeout := members.get("timeout")) is None:
        timeout = 600.0
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= 86_400:
        raise UsageError("timeout: seconds, above 0 and at most a day.")
    return envelope, float(timeout)


async def _send(gate: Gate, request: Request) -> Response:
    envelope, timeout = await _envelope(request)
    await gate.send(envelope, min(timeout, 60.0))
    return _json({"id": envelope.id}, 202)


async def _taken(gate: Gate, request: Request) -> Response:
    taken = await gate.taken(request.path_params["id"], HEARTBEAT_SECONDS)
    return _json({"taken": taken}, 200 if taken else 202)


async def _ask(gate: Gate, request: Request) -> Response:
    envelope, timeout = await _envelope(request)
    after = request.headers.get("last-event-id", "")
    return _stream(gate.ask(envelope, timeout, again=bool(after)).follow(after))


async def _cancel(gate: Gate, request: Request) -> Response:
    await gate.cancel(request.path_params["id"])
    return Response(status_code=204)


async def _receive(gate: Gate, request: Request) -> Response:
    after = request.headers.get("last-event-id", "")
    inbox = await gate.receive(check_name(request.path_params["name"]), again=bool(after))
    return _stream(inbox.follow(after))


async def _leave(gate: Gate, request: Request) -> Response:
    await gate.leave(request.path_params["name"])
    return Response(status_code=204)


async def _handle(gate: Gate, request: Request) -> Response:
    token, action, members = request.path_params["token"], request.path_params["what"], await _body(request)
    handled = gate.delivery(token)
    match action:
        case "ack":
            await handled.delivery.ack()
        case "frames":
            await handled.emit(members.get("body"), as_int(members.get("number")))
        case "reply":
            await handled.delivery.reply(members.get("body"))
            gate.over(token)
        case "failure":
            message, kind = as_str(members.get("message"), "It failed."), as_str(members.get("kind"), MeshError.kind)
            await handled.delivery.fail(message, kind)
            gate.over(token)
        case _:
            raise UsageError(f"A delivery has ack, frames, reply and failure, and no {action}.")
    return Response(status_code=204)


async def _cards(gate: Gate, request: Request) -> Response:
    params = request.query_params
    if (kind := params.get("kind") or None) not in ("agent", "node", None):
        raise UsageError(f"kind={kind}: agent or node.")
    query = Query(params.get("namespace", ""), params.get("recursive") != "0", tuple(params.getlist("label")), kind)
    (cards,) = select([query], await gate.bus.cards(query))
    return _json([encode_card(card) for card in cards])


async def _put_card(gate: Gate, request: Request) -> Response:
    address, members = check_name(request.path_params["address"]), await _body(request)
    try:
        card: Card = decode_card({"version": names.VERSION, **members, "address": address})
    except ValueError as error:
        raise UsageError(str(error)) from None
    await gate.bus.put_card(card)
    return Response(status_code=204)


async def _remove_card(gate: Gate, request: Request) -> Response:
    await gate.bus.remove_card(check_name(request.path_params["address"]))
    return Response(status_code=204)


async def _watch(gate: Gate, request: Request) -> Response:
    async def events() -> AsyncGenerator[Event]:
        async with gate.bus.watching_cards() as changes:
            async for change in changes:
                yield _card_event(change)

    return _stream(events())


def _card_event(change: Change | None) -> Event:
    if change is None:
        return Event("", "ready", b"{}")
    card = None if change.card is None else encode_card(change.card)
    return Event("", "gone" if card is None else "card", wire_bytes({"address": change.address, "card": card}))


def _json(value: object, status: int = 200) -> Response:
    return Response(wire_bytes(value), status, media_type="application/json")


def _stream(events: AsyncGenerator[Event]) -> Response:
    """Stream server-sent events, with a comment now and then so that both sides see that the other is there."""

    async def stream() -> AsyncIterator[bytes]:
        yield b": here\n\n"
        async with aclosing(with_beats(events, HEARTBEAT_SECONDS)) as all_events:
            async for event in all_events:
                if event is None:
                    yield b": still here\n\n"
                else:
                    head = f"id: {event.id}\n" if event.id else ""
                    yield b"%bevent: %b\ndata: %b\n\n" % (head.encode(), event.name.encode(), event.data)

    return StreamingResponse(stream(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})
