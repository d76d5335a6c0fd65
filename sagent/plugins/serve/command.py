"""`sagent serve`: sessions over HTTP and server-sent events, and a page that shows them."""

import argparse
import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, cast

from sagent.cli.flags import Parser, add_agent_flags, add_setting, plugins_of
from sagent.cli.render import report
from sagent.cli.settings import load_settings, with_chosen_model
from sagent.config.declared import CORE
from sagent.errors import SagentError
from sagent.plugins.hosting.listening import Listener, add_listener, announced, listening, require, take_listener
from sagent.plugins.hosting.opening import opening_of, state_of
from sagent.plugins.serve import PACKAGES

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request
    from starlette.routing import Route

    from sagent.config import Settings

    Routes: TypeAlias = Callable[
        [Mapping[str, object], Callable[[Request], Hashable]], AbstractAsyncContextManager[Sequence[Route]]
    ]

ROUTES = "serve routes"
"""The extension point for routes: "module:function" of an async context manager that yields them. It takes the plugins'
flags of this command, and a function that returns a request's user."""
TOKEN = "SAGENT_SERVE_TOKEN"  # noqa: S105 -- the name of a variable


def run_serve(argv: Sequence[str]) -> int:
    """Serve until SIGINT or SIGTERM; sessions that run then are interrupted, and can be resumed."""
    parser = Parser(
        "serve", "Serve sessions over HTTP, for programs and the browser.", argument_default=argparse.SUPPRESS
    )
    add_listener(parser, "serve several people, each with their own token and sessions (repeatable)")
    parser.add_flags_of("serve")
    add_setting(parser, "cwd", "the directory where sessions work")
    add_setting(parser, "add_dirs", "another directory for sessions (repeatable)")
    parser.add_config()
    add_agent_flags(parser)
    given = vars(parser.parse_args(argv))
    own = {flag.keyword: given.pop(flag.keyword) for flag in plugins_of(argv).flags("serve") if flag.keyword in given}
    listener = take_listener(given, TOKEN)
    settings = with_chosen_model(load_settings(given))  # reports their errors now, not to the first client
    require("sagent serve", "serve", PACKAGES, "starlette", "uvicorn")
    with listening(listener.host, listener.port) as bound:
        return asyncio.run(_serve(given, settings, listener, bound, own))


async def _serve(
    flags: Mapping[str, object],
    settings: "Settings",
    listener: Listener,
    bound: socket.socket,
    options: Mapping[str, object],
) -> int:
    from sagent.plugins.hosting.running import serve
    from sagent.plugins.serve.app import make_app
    from sagent.plugins.serve.sessions import Place, Sessions
    from sagent.repl.settings_file import add_rule

    keep = partial(add_rule, settings.user_file)
    roots = tuple(path.resolve() for path in (settings.cwd, *settings.add_dirs))
    users = {
        token: Sessions(
            opening_of(flags, name, users=listener.tokens.values()),
            Place(roots, state_of(settings, name)),
            None if name else keep,  # one of several users does not change the settings of all
        )
        for name, token in listener.tokens.items()
    }
    async with _more_routes(settings, options) as more:
        with announced(settings.state_dir / "serve", listener, bound, _words):
            return await serve(make_app(users, listener.host, more), bound, list(users.values()))


def _words(url: str, tokens: Mapping[str, str], file: "Path") -> Sequence[str]:
    pages = [f"{f'{name}: ' if name else 'Open '}{url}/#token={token}" for name, token in tokens.items()]
    return [*pages, f"API: {url}/openapi.json, token also in {file}. Ctrl-C ends it."]


@asynccontextmanager
async def _more_routes(settings: "Settings", options: Mapping[str, object]) -> "AsyncGenerator[Sequence[Route]]":
    """Yield the routes that plugins add, each given the flags for this command, and the function that identifies
    users."""
    from sagent.lib.raised import advice, reason
    from sagent.plugin import resolve
    from sagent.plugins.hosting.door import USER

    routes: list[Route] = []
    async with AsyncExitStack() as stack:
        for plugin, extra in settings.plugins.extras(ROUTES):
            try:
                add = cast("Routes", resolve(extra.add))
                more = await stack.enter_async_context(add(options, lambda request: id(request.scope[USER])))
            except SagentError:
                raise
            except (Exception, SystemExit) as error:
                if plugin == CORE.name:
                    raise
                report(f"routes of the plugin {plugin} are left out: {reason(error)}. {advice(plugin)}")
            else:
                routes += more
        yield routes
