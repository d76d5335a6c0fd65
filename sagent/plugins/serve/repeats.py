"""A request repeated under its Idempotency-Key is carried out once, and gets the first answer again."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from sagent.lib.json import sha256_hex
from sagent.plugins.hosting.bodies import read_within
from sagent.plugins.hosting.door import USER
from sagent.plugins.hosting.problem import problem

MAX_KEYS = 2_000  # keys that are remembered
MAX_BODY_BYTES = 1 << 20  # of a request
MAX_ANONYMOUS_BYTES = 4_096  # of one without a token
REQUEST_TIMEOUT_SECONDS = 30  # for a complete request
_MAX_KEY_CHARS = 200  # of a key


async def read_body(request: Request) -> bytes:
    """Read the body of a request. Raises UsageError for too much, or too slowly."""
    if not hasattr(request.state, "body"):
        max_bytes = MAX_BODY_BYTES if USER in request.scope else MAX_ANONYMOUS_BYTES
        request.state.body = await read_within(request, max_bytes, REQUEST_TIMEOUT_SECONDS)
    return request.state.body


class Repeats:
    """Remembers answers, or requests in progress, by user, path and key, while the server runs."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, str, str], tuple[str, asyncio.Task[Response]]] = OrderedDict()

    def once(self, handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            key = request.headers.get("idempotency-key", "")
            if not key:
                return await handler(request)
            if len(key) > _MAX_KEY_CHARS:
                return problem(400, f"The Idempotency-Key is longer than {_MAX_KEY_CHARS} characters.")
            digest = sha256_hex(await read_body(request))
            name = (id(request.scope[USER]), request.url.path, key)
            if name not in self._known:
                self._known[name] = digest, asyncio.ensure_future(handler(request))
                while len(self._known) > MAX_KEYS:
                    self._known.popitem(last=False)
            known, task = self._known[name]
            if known != digest:
                return problem(422, "This Idempotency-Key was used for another request: use a new one.")
            try:
                return await asyncio.shield(task)
            except Exception:
                self._known.pop(name, None)  # a failed request may be retried
                raise

        return handle
