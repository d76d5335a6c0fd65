"""Lists of MCP servers in other programs' formats."""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from sagent.config.files import File, GivenTable
from sagent.errors import ConfigError
from sagent.lib.json import as_array, as_object, as_str
from sagent.lib.names import path_of
from sagent.plugin import PathBase, Table, resolve
from sagent.plugins.imports.plan import Plan

_KNOWN = frozenset(
    {"type", "command", "args", "env", "environment", "url", "httpUrl", "serverUrl", "headers", "timeout", "enabled"}
    | {"disabled", "cwd", "trust", "description", "startup_timeout_sec", "tool_timeout_sec", "name", "gallery"}
    | {"version", "required"}
)
_PAIRS = ("env", "environment", "headers", "http_headers", "env_http_headers")
_TRIES = ("alwaysLoad", "bearer_token_env_var", "http_headers", "env_http_headers")


def take_servers(plan: Plan, servers: object, file: Path, *, milliseconds: bool = False, expands: bool = True) -> None:
    """Take servers by name. `expands`: `${NAME}` in their values is a variable there, as it is here."""
    if servers is not None and as_object(servers) != servers:
        plan.leave_out("mcp", "servers", file, f"they are {servers!r:.40}, not an object of servers by name")
    for name, given in as_object(servers).items():
        own = re.sub(r"[^A-Za-z0-9_-]", "-", name)[:32]
        table = as_object(given)
        if table.get("enabled") is False or table.get("disabled") is True:
            plan.leave_out("mcp", name, file, "it is switched off there")
        elif table.get("type") == "sse":
            plan.leave_out("mcp", name, file, "sagent does not support SSE, which streamable HTTP has replaced")
        elif own in plan.taken or own in plan.own.mcp:
            plan.leave_out("mcp", name, file, f"there is an [mcp.{own}] already")
        else:
            try:
                server = _server(table, plan.project, milliseconds=milliseconds, expands=expands)
                _check(plan, own, server, file)
            except (ValueError, ConfigError) as error:
                why = str(error).partition(": ")[2] if isinstance(error, ConfigError) else str(error)
                plan.leave_out("mcp", name, file, why)
                continue
            plan.own.mcp[own] = server | ({"always_load": True} if table.get("alwaysLoad") is True else {})
            note = f"as [mcp.{own}] of your config.toml, for all projects: {_words(server, plan.is_shared(file))}"
            plan.add("mcp", name, file, "taken over", note)


def _check(plan: Plan, name: str, server: Mapping[str, object], file: Path) -> None:
    """Parse a server as in a settings file. Raises ConfigError, and ValueError for an invalid one."""
    if "mcp" not in plan.plugins.named(Table):
        raise ValueError("the plugin mcp, which uses servers, is missing")
    read = cast("Callable[[GivenTable], object]", resolve(plan.plugins.named(Table)["mcp"].read))
    base = PathBase(file.parent, plan.home)
    read(GivenTable("mcp", File(file, "", {}), {name: server}, base, os.environ, None, (), {}, lambda _: None))


def _words(server: Mapping[str, object], stranger: bool) -> str:  # noqa: FBT001 -- a fact of the server
    """Describe everything that a `stranger`'s server is run or called with, in a line; the person's own values may be
    keys."""

    def shown(value: object) -> object:
        return value if stranger else "..."

    variables = [f"{name}={shown(value)}" for name, value in as_object(server.get("env")).items()]
    headers = [f"({name}: {shown(value)})" for name, value in as_object(server.get("headers")).items()]
    command = [as_str(server.get("command")), *map(str, as_array(server.get("args")))]
    return " ".join((str(server["url"]), *headers) if "url" in server else (*variables, *command))


def _check_shape(table: Mapping[str, object]) -> None:
    if strangers := [key for key in table if key not in _KNOWN and key not in _TRIES]:
        raise ValueError(f"{strangers[0]} is not supported")
    for name in ("args", *_PAIRS):
        if (given := table.get(name)) and not (as_array(given) if name == "args" else as_object(given)):
            raise ValueError(f"{name} is {given!r:.40}, not a {'list' if name == 'args' else 'table'}")


def _started_in(directory: str, command: list[str], project: Path) -> list[str]:
    """Return the command as started in a directory; "" is the session's."""
    if not directory or not command:
        return command
    place = directory if directory.startswith("${") else str(project / path_of(directory))
    return ["/bin/sh", "-c", 'cd "$0" && exec "$@"', place, *command]


def _server(table: Mapping[str, object], project: Path, *, milliseconds: bool, expands: bool) -> dict[str, object]:
    _check_shape(table)

    def value(text: object) -> str:
        if not isinstance(text, str):
            raise ValueError(f"{text!r:.40} is not a string")  # noqa: TRY004 -- as for all that means nothing here
        text = text if expands else text.replace("${", "$${")
        text = text.replace("${workspaceFolder}", str(project))
        text = re.sub(r"\$\{env:(\w+)\}|\{env:(\w+)\}", lambda match: f"${{{match[1] or match[2]}}}", text)
        if left := re.search(r"(?:\$\{\w+:(?!-)|\{file:)[^}]{0,99}\}?", text):
            raise ValueError(f"{left[0]} is not supported: write the value, or ${{NAME}}")
        return re.sub(r"(?<!\$)\$\{(\w+)\}", r"${\1:-}", text)  # an unset one is no error then

    program = table.get("command")
    command = [value(each) for each in as_array(program)] or ([value(program)] if program else [])
    command += [value(each) for each in as_array(table.get("args"))]
    url = value(table.get("url") or table.get("httpUrl") or table.get("serverUrl") or "")
    # as far as it can be read before its variables are known
    if url and "${" not in url and not ((parts := urlsplit(url)).scheme in ("http", "https") and parts.hostname):
        raise ValueError(f"{url!r:.40} is not a URL that begins with http:// or https://")
    if bool(command) == bool(url):
        raise ValueError("it has neither a command nor a url" if not url else "it has a command and a url")
    command = _started_in(value(table.get("cwd") or ""), command, project)
    found: dict[str, object] = {"url": url} if url else {"command": command[0]}
    if command[1:]:
        found["args"] = command[1:]
    pairs = as_object(table.get("env")) or as_object(table.get("environment"))
    if pairs and command:
        found["env"] = {name: value(each) for name, each in pairs.items()}
    given = {**as_object(table.get("headers")), **as_object(table.get("http_headers"))}
    headers = {name: value(each) for name, each in given.items()}
    headers |= {name: f"${{{as_str(each)}:-}}" for name, each in as_object(table.get("env_http_headers")).items()}
    if variable := as_str(table.get("bearer_token_env_var")):
        headers["Authorization"] = f"Bearer ${{{variable}:-}}"
    if headers and url:
        found["headers"] = headers
    timeout = table.get("tool_timeout_sec", table.get("timeout"))
    if isinstance(timeout, int | float) and timeout > 0:
        found["timeout"] = timeout / 1000 if milliseconds else timeout
    start = table.get("startup_timeout_sec")
    if isinstance(start, int | float) and start > 0:
        found["start_timeout"] = start
    return found
