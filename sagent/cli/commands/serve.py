"""`sagent serve`: sessions over HTTP and server-sent events, and a page that shows them."""

import argparse
import asyncio
import json
import os
import secrets
import socket
import sys
from collections import defaultdict
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from sagent.cli.flags import Parser, add_agent_flags
from sagent.cli.opening import opening_of, state_of
from sagent.cli.render import binary_safe
from sagent.cli.settings import load_settings
from sagent.cli.tables import write
from sagent.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.routing import Route

    from sagent.config import Settings

TOKEN = "SAGENT_SERVE_TOKEN"  # noqa: S105 -- the name of a variable
LOOPBACK = "127.0.0.1"
_SHORTEST = 16  # characters of a token that somebody chooses


def run_serve(argv: Sequence[str]) -> int:
    """Serve until SIGINT or SIGTERM; sessions that run then are interrupted, and can be resumed."""
    parser = Parser("serve", "Sessions over HTTP, for programs and in the browser.", argument_default=argparse.SUPPRESS)
    parser.add_argument("--host", metavar="HOST", help=f"the address to listen at (default {LOOPBACK})")
    parser.add_argument("--port", metavar="PORT", help="0, the default, is any free one")
    user = "several people, each with a token and with sessions of their own (repeatable)"
    parser.add_argument("--user", metavar="NAME", action="append", help=user)
    bus = "the bus that /v1/bus leads to (or SAGENT_BUS); without one it is a bus of this server, for each user its own"
    parser.add_argument("--bus", metavar="URL", help=bus)
    parser.add_argument("--output-format", metavar="F", help="text (default), or json: the addresses as a line of JSON")
    parser.add_argument("--cwd", metavar="DIR", help="where sessions work; they stay in this directory")
    parser.add_argument("--add-dir", metavar="DIR", action="append", help="another directory for sessions (repeatable)")
    parser.add_config()
    add_agent_flags(parser)
    given = vars(parser.parse_args(argv))
    host, port = str(given.pop("host", LOOPBACK)).strip("[]"), _port(str(given.pop("port", "0")))
    bus = str(given.pop("bus", os.environ.get("SAGENT_BUS", "")))
    names, form = list(given.pop("user", [])), str(given.pop("output_format", "text"))
    if form not in ("text", "json"):
        raise UsageError(f"--output-format {form}: text or json.")
    for name in names:
        if not name.isidentifier() or len(name) > 40 or names.count(name) > 1:
            raise UsageError(f"--user {name}: give a name once, of up to 40 letters, digits and _.")
    settings = load_settings(given)  # what is wrong with them is said at once, and not to the first client
    if missing := [name for name in ("starlette", "uvicorn") if find_spec(name) is None]:
        from sagent.lib.installed import install_command

        raise UsageError(
            f"sagent serve needs packages that are not installed ({', '.join(missing)}): {install_command('serve')}"
        )
    tokens = {name: secrets.token_urlsafe(32) for name in names} or {"": _own_token()}
    with _listening(host, port) as bound:
        return asyncio.run(_serve(given, settings, tokens, bound, host, form, bus))


async def _serve(
    flags: Mapping[str, object],
    settings: "Settings",
    tokens: Mapping[str, str],
    bound: socket.socket,
    host: str,
    form: str,
    bus: str,
) -> int:
    from sagent.bridges.serve.app import make_app
    from sagent.bridges.serve.running import serve
    from sagent.bridges.serve.sessions import Place, Sessions

    roots = tuple(path.resolve() for path in (settings.cwd, *settings.add_dirs))
    users = {
        token: Sessions(opening_of(flags, name), Place(roots, state_of(settings, name)))
        for name, token in tokens.items()
    }
    port = bound.getsockname()[1]
    async with _bus_of(bus) as more:
        with _announced(settings.state_dir, tokens, bound, host, form):
            return await serve(make_app(users, host, f"sagent-{port}", more), bound, list(users.values()))


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


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 <= int(text) < 65536:
        raise UsageError(f"--port {text}: give a number from 0 to 65535.")
    return int(text)


def _own_token() -> str:
    token = os.environ.get(TOKEN) or secrets.token_urlsafe(32)
    if len(token) < _SHORTEST or not token.isascii() or not token.isprintable():
        raise UsageError(f"{TOKEN} is too short, or not printable ASCII: give at least {_SHORTEST} characters.")
    return token


def _listening(host: str, port: int) -> socket.socket:
    try:
        bound = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise UsageError(f"--host {host} --port {port}: {error.strerror or error}") from error
    bound.setsockopt(
        socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
    )  # asyncio sets it only where a socket names the protocol
    return bound


def _sweep(folder: "Path") -> None:
    """Remove what servers left that were killed."""
    for file in folder.glob("*.json"):
        try:
            os.kill(int(json.loads(file.read_bytes())["pid"]), 0)
        except ProcessLookupError:
            file.unlink(missing_ok=True)
        except (OSError, ValueError, KeyError, TypeError):
            continue


@contextmanager
def _announced(state: "Path", tokens: Mapping[str, str], bound: socket.socket, host: str, form: str) -> Generator[None]:
    """Say where it listens and with which tokens; also in a file, for this user's other processes."""
    from ipaddress import ip_address

    from sagent.lib.atomic import atomic_write
    from sagent.session.log import make_directory

    port = bound.getsockname()[1]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    shown = {"url": url, "pid": os.getpid(), "tokens": dict(tokens)} if "" not in tokens else None
    shown = shown or {"url": url, "pid": os.getpid(), "token": tokens[""]}
    make_directory(state / "serve")
    _sweep(state / "serve")
    file = state / "serve" / f"{port}.json"
    with atomic_write(file) as out:
        out.write(json.dumps(shown).encode() + b"\n")
    try:
        if form == "json":
            write(sys.stdout, [json.dumps({**shown, "file": str(file)})])
        else:
            for name, token in tokens.items():
                who = f"{name}: " if name else "Open "
                write(binary_safe(sys.stdout), [f"{who}{url}/#token={token}"])
            write(binary_safe(sys.stdout), [f"API: {url}/openapi.json, token also in {file}. Ctrl-C ends it."])
        sys.stdout.flush()
        if not ip_address(bound.getsockname()[0]).is_loopback:
            sys.stderr.write("sagent: it can be reached from other machines, and what is sent is not encrypted.\n")
            sys.stderr.flush()
        yield
    finally:
        file.unlink(missing_ok=True)
