"""The MCP servers that a client names when it sets up a session."""

from collections.abc import Mapping, Sequence

from sagent.lib.json import as_object, as_str
from sagent.plugins.hosting.jsonrpc import INVALID_PARAMS, RpcError, list_in, text_in
from sagent.surface import BroughtServer


def read_servers(rows: Sequence[object]) -> Mapping[str, BroughtServer]:
    """Parse servers by name. Raises RpcError for an invalid one."""
    found: dict[str, BroughtServer] = {}
    for number, each in enumerate(map(as_object, rows)):
        where = f"mcpServers[{number}]"
        name = text_in(each, "name", f"{where}.")
        if name in found:
            raise RpcError(INVALID_PARAMS, f"{where}: there are two servers that are called {name!r}.")
        found[name] = _server(each, where)
    return found


def _server(row: Mapping[str, object], location: str) -> BroughtServer:
    match row.get("type"):
        case None | "stdio":
            args = [each for each in list_in(row, "args", f"{location}.") if isinstance(each, str)]
            if len(args) != len(list_in(row, "args", f"{location}.")):
                raise RpcError(INVALID_PARAMS, f"{location}.args is a list of strings.")
            env = _pairs(row, "env", location)
            return BroughtServer(command=text_in(row, "command", f"{location}."), args=tuple(args), env=env)
        case "http":
            return BroughtServer(url=text_in(row, "url", f"{location}."), headers=_pairs(row, "headers", location))
        case other:
            raise RpcError(INVALID_PARAMS, f"{location} has the type {other!r}: sagent takes stdio and http.")


def _pairs(given: Mapping[str, object], name: str, location: str) -> Mapping[str, str]:
    """Return a list of names and values."""
    pairs = [(each.get("name"), each.get("value")) for each in map(as_object, list_in(given, name, f"{location}."))]
    if not all(isinstance(key, str) and key and isinstance(value, str) for key, value in pairs):
        raise RpcError(INVALID_PARAMS, f'{location}.{name} is a list of {{"name": ..., "value": ...}}.')
    return {as_str(key): as_str(value) for key, value in pairs}
