"""The application: the card for everybody, the protocol for clients with a token."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.types.a2a_pb2 import AgentCard
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH
from a2a.utils.error_handlers import build_rest_error_payload
from a2a.utils.errors import A2AError
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount

from sagent.lib.json import wire_bytes
from sagent.lib.text import cut
from sagent.plugins.a2a.card import JSONRPC_PATH, REST_PATH
from sagent.plugins.a2a.contexts import DIRECTORY, Answer, Contexts, answer_alone
from sagent.plugins.a2a.handler import Caller, CallerBuilder, Handler
from sagent.plugins.a2a.push import Receivers
from sagent.plugins.a2a.receiver_files import ReceiverFiles
from sagent.plugins.hosting.door import Bounded, Door
from sagent.plugins.hosting.live import Opening
from sagent.session.store import sessions

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PARSE_ERROR = -32700  # of JSON-RPC
_CACHED = "public, max-age=300"


def make_app(card: AgentCard, callers: Mapping[str, Caller], host: str) -> "ASGIApp":
    """Return the application; `callers` by their tokens, `host` is the name by which it is reached."""
    handler, builder = Handler(), CallerBuilder()
    routes = [
        *create_agent_card_routes(card, cache_control=_CACHED),
        *create_jsonrpc_routes(handler, JSONRPC_PATH, builder, enable_v0_3_compat=True),
        Mount(REST_PATH, routes=create_rest_routes(handler, builder, enable_v0_3_compat=True)),
    ]
    return Door(
        _Streaming(Bounded(_Readable(Starlette(routes=routes)))),
        callers,
        host,
        opens=lambda path: path == AGENT_CARD_WELL_KNOWN_PATH,
    )


def make_caller(
    opening: Opening, state: Path, cwd: Path, push_to: Sequence[str], answer: Answer = answer_alone
) -> Caller:
    """Return a caller whose sessions are stored in `state` and work in `cwd`. `push_to` are addresses that are notified
    although they are not public; `answer` answers a prompt. Raises OSError."""
    files = ReceiverFiles(state / DIRECTORY)
    files.sweep(sessions(state))
    receivers = Receivers(files, push_to)
    contexts = Contexts(opening, state, cwd, receivers.notify, answer)
    receivers.resume(contexts.tasks(), contexts.show)
    return Caller(contexts, receivers)


class _Readable:
    """An application that only gets JSON bodies, because the SDK treats undecodable ones as internal errors."""

    def __init__(self, app: "ASGIApp") -> None:
        self._app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        message = await receive()  # the whole body
        if why := _unreadable(message.get("body", b"")):
            await _refusal(scope["path"], f"The request cannot be read: {why}.")(scope, receive, send)
            return
        whole = [message]

        async def replay() -> "Message":
            return whole.pop() if whole else await receive()

        await self._app(scope, replay, send)


def _unreadable(body: bytes) -> str:
    """Return why a body is not JSON with finite numbers; "" if it is, or is empty."""

    def refuse(name: str) -> object:
        raise ValueError(f"{name} is no number of JSON")

    try:
        json.loads(body.decode("utf-8-sig") or "{}", parse_constant=refuse)
    except UnicodeDecodeError:
        return "it is not UTF-8"
    except RecursionError:
        return "it is nested too deeply"
    except ValueError as error:
        return cut(str(error), 200)
    return ""


def _refusal(path: str, text: str) -> Response:
    """Return the answer to an unreadable request, in its protocol's form."""
    if path == JSONRPC_PATH:
        return JSONResponse({"jsonrpc": "2.0", "id": None, "error": {"code": PARSE_ERROR, "message": text}})
    return JSONResponse({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": text}}, 400)


class _Streaming:
    """An application whose streams end with their error."""

    def __init__(self, app: "ASGIApp") -> None:
        self._app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        begun = False

        async def watched(message: "Message") -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except A2AError as error:
            if not begun:
                raise
            data = wire_bytes(build_rest_error_payload(error))  # of version 0.3, whose streams begin before their work
            await send({"type": "http.response.body", "body": b"event: error\ndata: %b\n\n" % data})
