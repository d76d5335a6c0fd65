"""The MCP servers that a client names when it sets up a session."""

from collections.abc import Mapping, Sequence

from sagent.lib.json import as_object, as_str
from sagent.plugins.hosting.jsonrpc import INVALID_PARAMS, RpcError, list_in, text_in
from sagent.surface import BroughtServer


def read_servers(given: Sequence[object]) -> Mapping[str, BroughtServer]:
    """Parse servers by name. Raises RpcError for an invalid one."""
    found: dict[str, BroughtServer] = {}
    for number, each in enumerate(map(as_object, given)):
        where = f"mcpServers[{number}]"
        name = text_in(each, "name", f"{where}.")
        if name in found:
            raise RpcError(INVALID_PARAMS, f"{where}: there are two servers that are called {name!r}.")
        found[name] = _server(each, where)
    return found


def _server(given: Mapping[str, object], where: str) -> BroughtServer:
    match given.get("type"):
        case None | "stdio":
            args = [each for each in list_in(given, "args", f"{where}.") if isinstance(each, str)]
            if len(args) != len(list_in(given, "args", f"{where}.")):
                raise RpcError(INVALID_PARAMS, f"{where}.args is a list of strings.")
            env = _pairs(given, "env", where)
            return BroughtServer(command=text_in(given, "command", f"{where}."), args=tuple(args), env=env)
        case "http":
            return BroughtServer(url=text_in(given, "url", f"{where}."), headers=_pairs(given, "headers", where))
        case other:
            raise RpcError(INVALID_PARAMS, f"{where} has the type {other!r}: sagent takes stdio and http.")


def _pairs(given: Mapping[str, object], name: str, where: str) -> Mapping[str, str]:
    """Return a list of names and values."""
    pairs = [(each.get("name"), each.get("value")) for each in map(as_object, list_in(given, name, f"{where}."))]
    if not all(isinstance(key, str) and key and isinstance(value, str) for key, value in pairs):
        raise RpcError(INVALID_PARAMS, f'{where}.{name} is a list of {{"name": ..., "value": ...}}.')
    return {as_str(key): as_str(value) for key, value in pairs}
