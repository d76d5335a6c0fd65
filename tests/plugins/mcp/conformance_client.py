"""Our MCP client as the conformance suite's client under test: it is given a server's URL and a scenario's name.

Connection, login and answers to questions are the program's own; only the person and the browser are played. Started
with the path of a socket it forks for each scenario that `conformance_asker.py` passes on: to import the SDK costs more
than a scenario does.
"""

import asyncio
import json
import os
import socket
import sys
import tempfile
import traceback
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import httpx2

from sagent.errors import ToolError
from sagent.lib.json import as_array, as_object, json_freeze_object
from sagent.plugins.mcp import Host, McpTool, Servers
from sagent.plugins.mcp.login import log_in
from sagent.plugins.mcp.server import McpServer
from sagent.tool import RunContext, Workspace
from sagent.tools.ask import Question

CLIENT = "https://conformance-test.local/client-metadata.json"
LOGINS = 3  # at most


async def person(question: Question) -> str | None:
    """Takes what is suggested, else says yes, else whatever comes first."""
    wanted = ("Use the suggested values", "Yes")
    return next((one for one in wanted if one in question.options), next(iter(question.options), "yes"))


@asynccontextmanager
async def opened(server: McpServer, state: Path) -> AsyncGenerator[tuple[Servers, list[str]]]:
    servers, notices = Servers(), list[str]()
    async with servers.opened({"it": server}, notices, Host(state=state, roots=(state,), answer=person)):
        yield servers, notices


async def call(tool: McpTool, arguments: Mapping[str, object]) -> str:
    """What a call came to."""
    run = RunContext("root", "c", Workspace(Path.cwd()), SimpleNamespace(), lambda _: None)  # pyright: ignore[reportArgumentType] -- no blobs are wanted
    try:
        output = await tool(json_freeze_object({**arguments}), run)
    except ToolError as error:
        return f"failed: {error}"
    return str(output.content)


def stubs(tool: McpTool) -> dict[str, object]:
    """Arguments of which nothing is lacking."""
    values = {"string": "x", "integer": 0, "number": 0, "boolean": False, "object": {}, "array": []}
    properties, required = as_object(tool.parameters.get("properties")), tool.parameters.get("required")
    return {
        str(name): values.get(str(as_object(properties.get(str(name))).get("type")), "x")
        for name in (required if isinstance(required, tuple) else ())
    }


async def use(servers: Servers, scenario: str, context: Mapping[str, object]) -> list[str]:
    """Make the calls that the scenario is about."""
    tools = {tool.own: tool for tool in servers.tools}
    match scenario:
        case "http-custom-headers":
            calls = [as_object(one) for one in as_array(context.get("toolCalls"))]
            known = [one for one in calls if str(one["name"]) in tools]
            return [await call(tools[str(one["name"])], as_object(one.get("arguments"))) for one in known]
        case "json-schema-2020-12-preservation":
            schema = tools["json_schema_2020_12_tool"].parameters
            return [await call(tools["json_schema_echo"], {"schema": schema})]
        case "initialize" | "json-schema-ref-no-deref":
            return []
        case "tools_call" | "request-metadata" | "http-standard-headers":
            return [await call(tools["add_numbers"], {"a": 5, "b": 3})]
        case _:
            return [await call(tool, stubs(tool)) for tool in tools.values()]


async def visit(url: str) -> None:
    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        await browser.get(url)


async def logged_in(server: McpServer, state: Path) -> None:
    """Log in as a person does, with a browser that says yes to everything."""
    visits: set[asyncio.Task[None]] = set()
    await log_in("it", server, state, lambda url: visits.add(asyncio.create_task(visit(url))))


async def main(url: str) -> int:
    context = as_object(json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}"))
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    oauth = {"client_metadata_url": CLIENT}
    oauth |= {key: str(context[key]) for key in ("client_id", "client_secret") if key in context}
    with tempfile.TemporaryDirectory() as folder:
        if scenario.startswith("auth/client-credentials"):
            oauth |= await without_a_person(url, context, Path(folder) / "key")
        return await play(url, oauth, scenario, context, Path(folder))


async def without_a_person(url: str, context: Mapping[str, object], key: Path) -> dict[str, str]:
    """The settings of a login by a secret or a key; the issuer, which a person knows, is what the server says."""
    at = urlsplit(url)
    async with httpx2.AsyncClient() as http:
        found = await http.get(f"{at.scheme}://{at.netloc}/.well-known/oauth-protected-resource{at.path}")
    settings = {"issuer": str(found.json()["authorization_servers"][0])}
    if "private_key_pem" in context:
        key.write_text(str(context["private_key_pem"]))
        settings |= {"private_key": str(key), "algorithm": str(context.get("signing_algorithm", "ES256"))}
    return settings


async def play(url: str, oauth: Mapping[str, str], scenario: str, context: Mapping[str, object], state: Path) -> int:
    """Use the server, and log in where it wants that."""
    server = McpServer(url=url, timeout=50, start_timeout=50, oauth=oauth)  # forty scenarios at once
    for attempt in range(LOGINS + 1):
        async with opened(server, state) as (servers, notices):
            said = [*notices, *(await use(servers, scenario, context))]
        print(attempt, said, file=sys.stderr)
        if not any("sagent mcp login" in one for one in said):
            return 1 if notices else 0
        if attempt < LOGINS:
            await logged_in(server, state)
    return 1


def serve(path: str) -> None:
    """Fork for each scenario, until this process is ended."""
    import mcp.client.streamable_http

    assert mcp.client.streamable_http
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(100)
        print("ready", flush=True)
        while True:
            asker, _ = listener.accept()
            if os.fork():
                asker.close()
                continue
            _play(asker)


def _play(asker: socket.socket) -> None:
    """Play a scenario with the asker's output and environment, and send it the exit code."""
    code = 1
    try:
        sent, fds, *_ = socket.recv_fds(asker, 1 << 20, 2)
        for number, fd in enumerate(fds, 1):
            os.dup2(fd, number)
        url, environment = json.loads(sent)
        os.environ.update(environment)
        code = asyncio.run(main(url))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        asker.sendall(bytes([code]))
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
