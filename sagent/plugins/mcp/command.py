"""`sagent mcp`: the MCP servers in the settings, and sagent as a server for others."""

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.cli.flags import Parser, add_agent_flags, add_setting
from sagent.cli.render import binary_safe
from sagent.cli.settings import load_settings
from sagent.cli.tables import write
from sagent.config.files import find_file
from sagent.errors import SagentError, UsageError
from sagent.lib.atomic import put
from sagent.lib.json import as_array
from sagent.lib.names import path_of
from sagent.lib.signals import on_first_signal
from sagent.lib.text import Table, count, one_line
from sagent.plugins.hosting.listening import LOOPBACK, listening, read_tokens, require, url_of
from sagent.plugins.hosting.opening import settings_for
from sagent.plugins.mcp import PACKAGES
from sagent.plugins.mcp.table import servers_of

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from sagent.agent import Agent, Asker
    from sagent.config import Settings
    from sagent.events import Event
    from sagent.plugins.hosting.live import ClientOptions
    from sagent.plugins.mcp import McpTool
    from sagent.plugins.mcp.agent_server import Open, Sessions
    from sagent.plugins.mcp.server import McpServer

TOKEN = "SAGENT_MCP_TOKEN"  # noqa: S105 -- the name of a variable


def run_mcp(argv: Sequence[str]) -> int:
    parser = Parser(
        "mcp", "Manage the MCP servers whose tools sagent uses, or run sagent as an MCP server for other agents."
    )
    operations = parser.add_subparsers(dest="operation", required=True, metavar="OPERATION")
    listing = operations.add_parser("list", help="list the servers of your settings and of this directory")
    testing = operations.add_parser("test", help="start servers and list their tools")
    testing.add_argument("name", nargs="?", metavar="NAME", help="only this one")
    adding = operations.add_parser("add", help="add a server: sagent mcp add NAME URL, or NAME -- COMMAND ARG...")
    adding.add_argument("name", metavar="NAME", help="letters, digits, _ and -")
    adding.add_argument(
        "--env", metavar="NAME=VALUE", action="append", default=[], help="an environment variable for its command"
    )
    adding.add_argument("--header", metavar="NAME=VALUE", action="append", default=[], help="a header for its URL")
    needs = "allow its command more than the sandbox does, as in network:api.example.com (repeatable)"
    adding.add_argument("--needs", metavar="NEED", action="append", default=[], help=needs)
    adding.add_argument("target", nargs="+", metavar="URL | -- COMMAND", help="its URL, or its command after --")
    removing = operations.add_parser("remove", help="remove a server from your settings")
    removing.add_argument("name", metavar="NAME")
    entering = operations.add_parser("login", help="log in to a server with a URL, in a browser")
    approving = operations.add_parser("approve", help="approve the present tool definitions of a server")
    leaving = operations.add_parser("logout", help="remove the login to a server")
    for each in (entering, leaving, approving):
        each.add_argument("name", metavar="NAME")
    for each in (listing, testing, adding, removing, entering, leaving, approving):
        each.add_config()
    browsing = operations.add_parser("browser", help="run a browser for agents, with playwright-mcp and Chromium")
    browsing.add_argument("rest", nargs="*", metavar="-- ARG", help="arguments of playwright-mcp, after --")
    serving = operations.add_parser(
        "serve",
        help="run an MCP server with the tools sagent, sagent_reply and sagent_status",
        argument_default=argparse.SUPPRESS,
    )
    http = f"over HTTP at [HOST:]PORT (HOST is {LOOPBACK}); the token is {TOKEN}, or a new one on stderr"
    serving.add_argument("--http", metavar="[HOST:]PORT", help=http)
    add_setting(serving, "cwd", "the directory for sessions that name none")
    serving.add_config()
    add_agent_flags(serving)
    listed = not argv or (argv[0].startswith("-") and argv[0] not in ("-h", "--help"))
    given = vars(parser.parse_args(["list", *argv] if listed else argv))
    operation = given.pop("operation")
    if (do := {"add": _add, "remove": _remove, "browser": _browse, "serve": _serve}.get(operation)) is not None:
        return do(given)
    by_name = {"test": _test, "approve": _approve, "login": _login, "logout": _logout}
    settings = load_settings({"config": given["config"]})
    return _list(settings) if operation == "list" else by_name[operation](settings, given["name"])


def _browse(options: Mapping[str, object]) -> int:
    from sagent.plugins.mcp.browser import start_browser

    return start_browser([*map(str, as_array(options["rest"]))], os.environ)


def _remove(options: Mapping[str, object]) -> int:
    from sagent.plugins.mcp.removal import remove_row

    path, name = _own_file(options), str(options["name"])
    remove_row(path, "mcp", name, "MCP server")
    write(sys.stdout, [f"Removed {name} from {path}."])
    return 0


def _list(settings: "Settings") -> int:
    from shlex import join

    if not (servers := servers_of(settings)):
        write(sys.stdout, ["No MCP server is configured. To add one: sagent mcp add NAME URL"])
        return 0
    rows = tuple((name, each.url or join([each.command, *each.args])) for name, each in servers.items())
    write(binary_safe(sys.stdout), [Table(rows, ("name", "command or URL"))])
    return 0


def _test(settings: "Settings", name: str | None) -> int:
    """Start the servers and show their offers; return 1 if one is unusable."""
    servers = servers_of(settings) if name is None else {name: _server(settings, name)}
    notices: list[str] = []
    rows = [(tool.name, one_line(tool.description, 100)) for tool in asyncio.run(_offered(settings, servers, notices))]
    if not servers:
        return _list(settings)
    if rows:
        write(binary_safe(sys.stdout), [Table(tuple(rows), ("tool", "description"))])
    write(binary_safe(sys.stderr), (f"sagent: {text}" for text in notices))
    return 1 if notices else 0


def _approve(settings: "Settings", name: str) -> int:
    """Save the present tools of a server as approved, and show the changed ones."""
    server = {name: _server(settings, name)}
    notices: list[str] = []
    tools = asyncio.run(_offered(settings, server, notices))
    write(binary_safe(sys.stderr), (f"sagent: {text}" for text in notices))
    changed = [tool for tool in tools if tool.changed]
    if changed:
        rows = tuple((tool.name, tool.now.shown) for tool in changed if tool.now is not None)
        write(binary_safe(sys.stdout), [Table(rows, ("changed", "its definition now"))])
    for tool in tools:
        tool.approve()
    if tools:
        write(sys.stdout, [f"{count(len(tools), 'tool')} of {name} approved as defined now."])
    return 0 if tools else 1


async def _offered(settings: "Settings", servers: "Mapping[str, McpServer]", notices: list[str]) -> "Sequence[McpTool]":
    from sagent.app import policy_of
    from sagent.plugins.mcp.servers import LOGINS, confining, open_servers
    from sagent.sandbox import Sandbox
    from sagent.tool import Workspace

    policy, workspace = policy_of(settings), Workspace(settings.cwd, (settings.cwd, *settings.add_dirs))
    sandbox = Sandbox(settings.sandbox, cache=settings.state_dir)
    confine = confining(sandbox, lambda: policy.profile(workspace), settings.cwd)
    try:
        async with open_servers(servers, confine=confine, logins=settings.state_dir / LOGINS) as tools:
            notices += tools.notices
            return tools
    finally:
        await sandbox.aclose()


def _add(options: Mapping[str, object]) -> int:
    from sagent.plugins.mcp.removal import add_row
    from sagent.plugins.mcp.table import SERVER_NAME

    name, target = str(options["name"]), [*map(str, as_array(options["target"]))]
    is_url = len(target) == 1 and target[0].startswith(("http://", "https://"))
    env, headers = _pairs("--env", options["env"]), _pairs("--header", options["header"])
    needs = [*map(str, as_array(options["needs"]))]
    if not re.fullmatch(SERVER_NAME, name):
        raise UsageError(f"{name!r} is not a valid server name: use at most 32 letters, digits, _ and -.")
    if len(target) == 1 and "://" in target[0] and not is_url:
        raise UsageError(f"{target[0]} is not the URL of an MCP server: these begin with https:// or http://.")
    if is_url and (env or needs):
        raise UsageError("--env and --needs are for servers that are commands; a URL takes --header.")
    if headers and not is_url:
        raise UsageError("--header is for servers with a URL; a command takes --env.")
    table: dict[str, object] = {"url": target[0]} if is_url else {"command": target[0], "args": target[1:]}
    table |= {key: value for key, value in {"env": env, "headers": headers, "needs": needs}.items() if value}
    path = _own_file(options)
    before = path.read_bytes() if path.exists() else None
    taken = f"an MCP server {name!r} already: `sagent mcp remove {name}` first, or choose a name."
    add_row(path, "mcp", name, table, taken)
    try:
        load_settings({"config": str(path)})
    except SagentError:
        put(path, before) if before is not None else path.unlink()
        raise
    write(sys.stdout, [f"Added {name} to {path}. To try it: sagent mcp test {name}"])
    return 0


def _login(settings: "Settings", name: str) -> int:
    """Log the person in; return 1 on failure."""
    server = _remote(settings, name)
    if "issuer" in server.oauth:
        raise UsageError(f"{name} needs no login: its oauth settings have an issuer and a secret or key.")
    require("sagent mcp login", "mcp", PACKAGES, "mcp")
    from mcp import MCPError
    from mcp.client.auth import OAuthFlowError

    from sagent.plugins.hosting.browser_return import LOGIN_TIMEOUT_SECONDS, open_browser
    from sagent.plugins.mcp.link import failure
    from sagent.plugins.mcp.login import log_in
    from sagent.plugins.mcp.servers import LOGINS

    def show(url: str) -> None:
        write(
            sys.stderr, [f"To log in to {name}, open this address within {LOGIN_TIMEOUT_SECONDS / 60:g} minutes:", url]
        )
        sys.stderr.flush()
        if sys.stderr.isatty():
            open_browser(url)

    try:
        tools = asyncio.run(log_in(name, server, settings.state_dir / LOGINS, show))
    except (OAuthFlowError, MCPError, TimeoutError, OSError, ExceptionGroup) as error:
        write(sys.stderr, [f"sagent: You are not logged in to {name}. {failure(error)}"])
        return 1
    write(sys.stdout, [f"You are logged in to {name}, which has {tools} tools."])
    return 0


def _logout(settings: "Settings", name: str) -> int:
    server = _remote(settings, name)
    require("sagent mcp logout", "mcp", PACKAGES, "mcp")
    from sagent.plugins.mcp.login import LoginFile
    from sagent.plugins.mcp.servers import LOGINS

    there = LoginFile(settings.state_dir / LOGINS, server.url).forget()
    write(sys.stdout, [f"The login to {name} was removed." if there else f"There was no login to {name}."])
    return 0


def _remote(settings: "Settings", name: str) -> "McpServer":
    server = _server(settings, name)
    if not server.url:
        raise UsageError(
            f"{name} is a command, which has no login. Give it keys as environment variables: sagent mcp add --env"
        )
    return server


def _server(settings: "Settings", name: str) -> "McpServer":
    servers = servers_of(settings)
    if name not in servers:
        raise UsageError(f"There is no MCP server {name!r}. There are: {', '.join(servers) or 'none'}.")
    return servers[name]


def _own_file(options: Mapping[str, object]) -> Path:
    """Return the person's settings file, if it can be changed. Raises UsageError."""
    named = options["config"]
    path = path_of(str(named)) if named is not None else find_file(load_settings({}).config_dir)[0]
    if path.suffix != ".toml":
        raise UsageError(f"{path} is YAML, which is not changed automatically: edit `mcp` there yourself.")
    return path


def _pairs(flag: str, value: object) -> dict[str, str]:
    pairs = [text.partition("=") for text in map(str, as_array(value))]
    if wrong := [name for name, sign, _ in pairs if not sign or not name]:
        raise UsageError(f"{flag} {wrong[0]}: write NAME=VALUE.")
    return {name: text for name, _, text in pairs}


def _serve(flags: dict[str, object]) -> int:
    where = flags.pop("http", None)
    address = _address(str(where)) if where is not None else None
    load_settings(flags)  # reports their errors now, not to the first client
    require("sagent mcp serve", "mcp", PACKAGES, "mcp")
    from sagent.plugins.mcp.agent_server import Sessions

    async def serve() -> int:
        sessions = Sessions(opener(flags))
        try:
            return await (_over_stdio(sessions) if address is None else _over_http(sessions, *address))
        finally:
            await sessions.aclose()

    return asyncio.run(serve())


def _address(location: str) -> tuple[str, int]:
    host, _, port = location.rpartition(":")
    if not port.isdecimal() or not 0 <= int(port) < 65536:
        raise UsageError(f"--http {location}: give [HOST:]PORT, as in --http 8900.")
    return host.strip("[]") or LOOPBACK, int(port)


def opener(flags: Mapping[str, object]) -> "Open":
    """Return a function that opens agents by the flags, within a client's permitted choices: never above the flags'
    budget."""

    def opened(
        options: "ClientOptions", listener: "Callable[[Event], None]", ask: "Asker | None"
    ) -> "AbstractAsyncContextManager[Agent]":
        from sagent.app import open_agent

        return open_agent(settings_for(flags, options), listener, ask)

    return opened


async def _over_stdio(sessions: "Sessions") -> int:
    """Serve until the end of stdin, or SIGINT, SIGTERM or SIGHUP."""
    from sagent.plugins.mcp.agent_server import make_server
    from sagent.plugins.mcp.stdio import serve_stdio

    received: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    on_first_signal(received.set_result)
    serving = asyncio.create_task(serve_stdio(make_server(sessions)))
    await asyncio.wait([serving, received], return_when=asyncio.FIRST_COMPLETED)
    if not serving.done():
        await sessions.aclose()
        os._exit(128 + received.result())  # a thread of the SDK still waits for stdin, and would for ever
    await serving
    return 0


async def _over_http(sessions: "Sessions", host: str, port: int) -> int:
    """Serve at an address until SIGINT or SIGTERM. The address, and a generated token, are printed on stderr."""
    from mcp.server.transport_security import TransportSecuritySettings

    from sagent.plugins.hosting.door import Bounded, Door
    from sagent.plugins.hosting.running import serve
    from sagent.plugins.mcp.agent_server import make_server

    token = read_tokens(TOKEN, ())[""]
    with listening(host, port) as bound:
        sys.stderr.write(f"sagent: MCP at {url_of(bound, host)}/mcp\n")
        if not os.environ.get(TOKEN):
            sys.stderr.write(f"sagent: clients send the header Authorization: Bearer {token}\n")
        sys.stderr.flush()
        checks = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # the door has it
        app = make_server(sessions).streamable_http_app(host=host, transport_security=checks)
        return await serve(Door(Bounded(app), {token: sessions}, host, opens=lambda _: False), bound, [sessions])
