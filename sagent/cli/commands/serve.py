"""`sagent serve`: sessions over HTTP and server-sent events, and a page that shows them."""

import argparse
import asyncio
import os
import socket
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from sagent.cli.fetched import BUS
from sagent.cli.flags import Parser, add_agent_flags
from sagent.cli.listening import Listener, add_listener, announced, listening, require, take_listener
from sagent.cli.opening import opening_of, state_of
from sagent.cli.settings import load_settings

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.routing import Route

    from sagent.config import Settings

TOKEN = "SAGENT_SERVE_TOKEN"  # noqa: S105 -- the name of a variable


def run_serve(argv: Sequence[str]) -> int:
    """Serve until SIGINT or SIGTERM; sessions that run then are interrupted, and can be resumed."""
    parser = Parser(
        "serve", "Serve sessions over HTTP, for programs and the browser.", argument_default=argparse.SUPPRESS
    )
    add_listener(parser, "serve several people, each with their own token and sessions (repeatable)")
    bus = "the bus behind /v1/bus (or SAGENT_BUS); by default each user has a bus within this server"
    parser.add_argument("--bus", metavar="URL", help=bus)
    parser.add_argument("--cwd", metavar="DIR", help="the directory where sessions work")
    parser.add_argument("--add-dir", metavar="DIR", action="append", help="another directory for sessions (repeatable)")
    parser.add_config()
    add_agent_flags(parser)
    given = vars(parser.parse_args(argv))
    bus = str(given.pop("bus", os.environ.get(BUS, "")))
    listener = take_listener(given, TOKEN)
    settings = load_settings(given)  # what is wrong with them is said at once, and not to the first client
    require("sagent serve", "serve", "starlette", "uvicorn")
    with listening(listener.host, listener.port) as bound:
        return asyncio.run(_serve(given, settings, listener, bound, bus))


async def _serve(
    flags: Mapping[str, object], settings: "Settings", listener: Listener, bound: socket.socket, bus: str
) -> int:
    from sagent.bridges.serve.app import make_app
    from sagent.bridges.serve.running import serve
    from sagent.bridges.serve.sessions import Place, Sessions
    from sagent.repl.settings_file import add_rule

    keep = partial(add_rule, settings.user_file)
    roots = tuple(path.resolve() for path in (settings.cwd, *settings.add_dirs))
    users = {
        token: Sessions(
            opening_of(flags, name, users=listener.tokens.values()),
            Place(roots, state_of(settings, name)),
            None if name else keep,  # one of several does not change the settings of all
        )
        for name, token in listener.tokens.items()
    }
    async with _bus_of(bus) as more:
        with announced(settings.state_dir / "serve", listener, bound, _words):
            return await serve(make_app(users, listener.host, more), bound, list(users.values()))


def _words(url: str, tokens: Mapping[str, str], file: "Path") -> Sequence[str]:
    pages = [f"{f'{name}: ' if name else 'Open '}{url}/#token={token}" for name, token in tokens.items()]
    return [*pages, f"API: {url}/openapi.json, token also in {file}. Ctrl-C ends it."]


@asynccontextmanager
async def _bus_of(url: str) -> "AsyncGenerator[Sequence[Route]]":
    """The routes of a bus: of a server elsewhere, or of one in this process for each user."""
    from sagent.bridges.serve.door import USER
    from sagent.mesh.buses.http_routes import Gates, bus_routes
    from sagent.mesh.buses.local import LocalBus

    async with AsyncExitStack() as stack:
        if url:
            from sagent.mesh.buses.nats import nats_bus

            shared = await stack.enter_async_context(nats_bus(url))
            gates = Gates(lambda _: shared)
        else:
            own = defaultdict[int, LocalBus](LocalBus)
            gates = Gates(lambda request: own[id(request.scope[USER])])
        stack.push_async_callback(gates.aclose)
        yield bus_routes(gates)
