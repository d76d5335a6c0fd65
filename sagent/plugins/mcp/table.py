"""The table `[mcp.NAME]` of files of settings."""

import re
from collections.abc import Mapping
from typing import cast

from sagent.config.files import File, GivenTable
from sagent.config.settings import Settings
from sagent.config.values import decimal, switch, url
from sagent.plugin import PathBase, RefusedError
from sagent.plugins.mcp import MCP
from sagent.plugins.mcp.server import McpServer
from sagent.plugins.programs.needs import list_of_texts, read_need, table_of_texts


def servers_of(settings: Settings) -> Mapping[str, McpServer]:
    """Return the servers of the settings by name."""
    return cast("Mapping[str, McpServer]", settings.of(MCP))


SERVER_NAME = r"[A-Za-z0-9_-]{1,32}"  # of `[mcp.NAME]`
_MCP = ("command", "args", "env", "url", "headers", "timeout", "start_timeout", "needs", "oauth", "always_load")
_OAUTH = (
    "scope", "client_id", "client_secret", "client_metadata_url", "callback_port", "issuer", "private_key", "algorithm",
)  # fmt: skip


def read_mcp(table: GivenTable) -> Mapping[str, McpServer]:
    """`[mcp.NAME]`: a `command` with `args`, `env` and `needs`, or a `url` with `headers`; `timeout` of a call and
    `start_timeout` in seconds; `always_load`.

    Raises ConfigError with file and line.
    """
    return {name: _mcp_server(table.file, name, row, table.base) for name, row in table.rows().items()}


def _mcp_server(file: File, name: str, row: Mapping[str, object], base: PathBase) -> McpServer:
    """Read the members of a server. Raises ConfigError."""
    if not re.fullmatch(SERVER_NAME, name):
        raise file.error(("mcp", name), f"{name!r} is not a valid server name: use at most 32 letters, digits, _ and -")
    if strangers := [key for key in row if key not in _MCP]:
        raise file.unknown(("mcp", name, strangers[0]), _MCP)
    command, address = row.get("command", ""), row.get("url", "")
    if not isinstance(command, str):
        raise file.error(("mcp", name, "command"), f"mcp.{name}.command: give a string, and its arguments in args")
    if not isinstance(address, str) or bool(command) == bool(address):
        raise file.error(("mcp", name), f"mcp.{name} needs a command or a url, and not both")
    if address and "needs" in row:
        raise file.error(
            ("mcp", name, "needs"), f"mcp.{name}.needs is only for a command: a url does not run in the sandbox"
        )
    if "oauth" in row and not address:
        raise file.error(("mcp", name, "oauth"), f"mcp.{name}.oauth is only for a url: a command has no login")
    try:
        return McpServer(
            command,
            tuple(list_of_texts(row.get("args", []), "args")),
            table_of_texts(row.get("env", {}), "env"),
            address and url(address) and address,
            table_of_texts(row.get("headers", {}), "headers"),
            _seconds("timeout", row.get("timeout", 600)),
            _seconds("start_timeout", row.get("start_timeout", 10)),
            tuple(read_need(text, base) for text in list_of_texts(row.get("needs", []), "needs")),
            _oauth(row.get("oauth", {})),
            switch(row.get("always_load", False)),
        )
    except RefusedError as error:
        raise file.error(("mcp", name), f"mcp.{name}: {error}") from None


def _oauth(value: object) -> Mapping[str, str]:
    pairs = table_of_texts(value, "oauth")
    if strangers := [key for key in pairs if key not in _OAUTH]:
        raise RefusedError(f"oauth has no {strangers[0]!r}: give {', '.join(_OAUTH)}")
    if "issuer" in pairs and not ("client_id" in pairs and ("client_secret" in pairs) != ("private_key" in pairs)):
        raise RefusedError(
            "oauth.issuer is for a login without a browser: give client_id and a client_secret or private_key"
        )
    if not pairs.get("callback_port", "0").isdecimal():
        raise RefusedError('oauth.callback_port: give a port number as a string, as in "8910"')
    return pairs


def _seconds(name: str, value: object) -> float:
    accepted = f"{name}: give seconds as a number above 0"
    if not (seconds := float(decimal(value, accepted))):
        raise RefusedError(accepted)
    return seconds
