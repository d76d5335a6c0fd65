"""Tools of MCP servers (modelcontextprotocol.io), as tools like any other. Needs sagent[mcp].

Each server lives in a task of its own, for as long as the session; one that has ended is started by the next call.
Programs run in the sandbox.
"""

import asyncio
import base64
import logging
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from sagent.bridges.pipes import Program
from sagent.config import McpServer
from sagent.errors import ToolError
from sagent.lib.json import JsonObject, json_dump, json_freeze_object, json_thaw
from sagent.lib.process import ProcessGroup
from sagent.lib.text import one_line, printable
from sagent.messages import Document, Image, Text
from sagent.sandbox import Confined, Sandbox
from sagent.tool import Media, RunContext, ToolOutput

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult
    from mcp.types import Tool as McpToolInfo

    from sagent.bridges.mcp_login import Login
    from sagent.sandbox.profile import Need, Profile

Confine: TypeAlias = Callable[[Sequence[str], "Sequence[Need]"], Awaitable[Confined]]
"""How a server's command line is run, with what was granted to it."""

PATIENCE = 20.0  # seconds that a server may take to be ready for a call, where it has no more to start
_ENDING = 3.0  # seconds for a connection to end
LOGINS = "mcp"  # the directory of logins, in the state directory
MOST_TOOLS = 128  # of one server
MOST_SCHEMAS = 200_000  # characters of descriptions and schemas of one server: every request carries them
MOST_RESULT = 10_000_000  # characters of one text, or bytes of one image or document, in a result


@asynccontextmanager
async def open_servers(
    servers: Mapping[str, McpServer],
    notices: list[str],
    confine: Confine | None = None,
    logins: Path | None = None,
) -> AsyncGenerator[tuple["McpTool", ...]]:
    """The tools of all servers that could be reached; what could not be is said in the notices.

    All servers are started together, and stopped in the end. Without `confine` their programs run in no sandbox.
    `logins` is the directory of the logins at servers.
    """
    if not servers:
        yield ()
        return
    try:
        await asyncio.to_thread(import_module, "mcp")
    except ImportError:
        from sagent.lib.installed import install_command

        hint = install_command("mcp")
        notices.append(f"MCP servers need a package that is not installed: {hint}. Without it: {', '.join(servers)}.")
        yield ()
        return
    processes = ProcessGroup()
    links = [Link(name, server, processes, confine or _unconfined, logins) for name, server in servers.items()]
    with _unsaid("mcp", "client"):
        try:
            found = await asyncio.gather(*(_tools_of(link, notices) for link in links))
            offered = tuple(tool for tools in found for tool in tools)
            _number(offered, notices)
            yield offered
        finally:
            await asyncio.gather(*(link.aclose() for link in links), return_exceptions=True)
            await processes.aclose()


def confining(sandbox: Sandbox, profile: "Callable[[], Profile]", cwd: Path) -> Confine:
    """Programs run in a directory and in a sandbox, within the profile that there is when one is started."""
    from sagent.sandbox.profile import Need

    async def confine(argv: Sequence[str], needs: Sequence[Need]) -> Confined:
        if not sandbox.stands:
            return Confined(argv)
        real = [Need(need.kind, os.path.realpath(need.target)) if need.target[:1] == "/" else need for need in needs]
        return await sandbox.confine(argv, profile(), cwd, real, lasting=True)

    return confine


@contextmanager
def _unsaid(*loggers: str) -> Generator[None]:
    """Keep what the SDK logs off stderr, where it goes if nobody has set logging up; who has gets it as ever."""
    handler = logging.NullHandler()
    for name in loggers:
        logging.getLogger(name).addHandler(handler)
    try:
        yield
    finally:
        for name in loggers:
            logging.getLogger(name).removeHandler(handler)


async def _unconfined(argv: Sequence[str], needs: "Sequence[Need]") -> Confined:
    return Confined(argv)


async def _tools_of(link: "Link", notices: list[str]) -> Sequence["McpTool"]:
    """What a server offers, in time and in bounds."""
    patience = link.server.start_timeout
    waited = asyncio.timeout(patience)
    try:
        async with waited:
            listed = (await (await link.client()).list_tools()).tools
        tools = [McpTool(link, info) for info in listed]
    except Exception as error:
        link.lost()
        late = f"has not listed its tools within {patience:g} s (its start_timeout)"
        said = late if waited.expired() else f"is not there: {(await link.reason(error)).rstrip('.')}"
        hint = link.hint().replace("it ran", "It ran", 1)
        notices.append(f"The MCP server {link.name} {said}. This session goes on without its tools. {hint}".rstrip())
        return ()
    left = MOST_SCHEMAS
    kept: list[McpTool] = []
    for tool in tools:
        size = len(tool.description) + len(json_dump(tool.parameters))
        if len(kept) < MOST_TOOLS and size <= left:
            kept.append(tool)
            left -= size
    if out := [_plain(tool.own) for tool in tools if tool not in kept]:
        notices.append(
            f"The MCP server {link.name} offers {len(tools)} tools; at most {MOST_TOOLS}, with {MOST_SCHEMAS:,}"
            f" characters of descriptions and schemas, are taken; left out: {one_line(', '.join(out), 300)}"
        )
    return kept


def _number(tools: Sequence["McpTool"], notices: list[str]) -> None:
    """Gives each tool a name of its own, for characters that a model cannot be shown make some alike."""
    names: set[str] = set()
    for tool in tools:
        first, number = tool.name, 1
        while tool.name in names:
            number += 1
            tool.name = f"{first[: 63 - len(str(number))]}_{number}"
        names.add(tool.name)
        if number > 1:
            notices.append(f"{tool.server}'s {_plain(tool.own)} is offered as {tool.name}: another is called {first}.")


class Link:
    """One server: started when it is needed."""

    def __init__(
        self, name: str, server: McpServer, processes: ProcessGroup, confine: Confine, logins: Path | None = None
    ) -> None:
        self.name = name
        self.server = server
        self._processes, self._confine, self._logins = processes, confine, logins
        self._program = Program(processes)
        self._profile: Profile | None = None  # that it runs within
        self._status = 0  # of the last response of a server with a URL
        self.attend: Callable[[], Callable[[], Sequence[str]]] = lambda: tuple  # to what it does for a call
        self._task: asyncio.Task[None] | None = None
        self._lives: set[asyncio.Task[None]] = set()  # of this connection, and of lost ones that have not ended yet
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[Client] | None = None

    async def client(self) -> "Client":
        """A connection that is ready. Raises whatever keeps it from that."""
        if self._task is None or self._task.done() or self._stop.is_set():
            self._ready = asyncio.get_running_loop().create_future()
            self._stop = asyncio.Event()
            self._task = asyncio.create_task(self._live(self._ready, self._stop))
            self._lives.add(self._task)
            self._task.add_done_callback(self._lives.discard)
        assert self._ready is not None
        async with asyncio.timeout(max(PATIENCE, self.server.start_timeout)):
            return await asyncio.shield(self._ready)

    def lost(self) -> None:
        """The connection failed: the next call begins another."""
        self._stop.set()
        if self._task is not None and self._ready is not None and not self._ready.done():
            self._task.cancel()

    async def _live(self, ready: "asyncio.Future[Client]", stop: asyncio.Event) -> None:
        """The whole life of a connection, in one task: its cancel scopes may not be left in another."""
        try:
            async with self._connect() as client:
                if not ready.done():
                    ready.set_result(client)
                await stop.wait()
        except Exception as error:
            if not ready.done():
                ready.set_exception(error)
                ready.exception()  # it may be that no caller waits any more
        finally:
            if not ready.done():
                ready.set_exception(ConnectionError("it was given up before it was ready"))
                ready.exception()

    @asynccontextmanager
    async def _connect(self) -> "AsyncGenerator[Client]":
        from mcp import Client

        server = self.server
        if server.url:
            import httpx2
            from mcp.client.streamable_http import streamable_http_client

            async def note(response: httpx2.Response) -> None:
                self._status = response.status_code

            async with (
                httpx2.AsyncClient(
                    headers=dict(server.headers), timeout=server.timeout, auth=self._login(),
                    event_hooks={"response": [note]},
                ) as http,
                Client(
                    streamable_http_client(server.url, http_client=http), read_timeout_seconds=server.timeout
                ) as client,
            ):  # fmt: skip
                yield client
        else:
            from mcp.client.stdio import get_default_environment

            confined = await self._confine([server.command, *server.args], server.needs)
            self._profile, self._program = confined.profile, Program(self._processes)
            self.attend = confined.attend
            streams = self._program.streams(*confined.launched({**get_default_environment(), **server.env}))
            try:
                async with Client(streams, read_timeout_seconds=server.timeout) as client:
                    yield client
            finally:
                confined.finish()

    def _login(self) -> "Login | None":
        """The person's login at the server, where there is one."""
        if not self.server.url or self._logins is None:
            return None
        from sagent.bridges.mcp_login import Login, LoginFile

        file = LoginFile(self._logins, self.server.url)
        return Login(self.name, self.server, file) if file.path.exists() else None

    async def reason(self, error: BaseException) -> str:
        """What went wrong with the connection, which is lost."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_ENDING)
        if self._status == 401:
            return f"it wants a login: sagent mcp login {self.name}"
        return self._program.fault or failure(error)

    def hint(self, said: str | None = None) -> str:
        """Which setting gives it more, where what it has said, or that it does not run, may come from its sandbox."""
        from sagent.sandbox.signs import was_held_back, within

        if self._profile is None or not (said is None or was_held_back(said, failed=True)):
            return ""
        told = within(self._profile, map(Path, self._profile.writable[:4]))
        return f"{told}. `[mcp.{self.name}] needs = [...]` in the person's config gives it more."

    async def aclose(self) -> None:
        self._stop.set()
        if self._lives:
            _, left = await asyncio.wait(self._lives, timeout=_ENDING)
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)


class McpTool:
    """A tool of a server. What its server says of its effects is not believed: a policy asks as for a command."""

    def __init__(self, link: Link, info: "McpToolInfo") -> None:
        self._link, self.own = link, info.name
        self.server = link.name
        self.deferrable = not link.server.always_load
        self.name = f"mcp__{_plain(link.name)}__{_plain(info.name)}"[:64]
        self.description = printable(info.description or info.title or info.name)[:2_000]
        self.parameters = json_freeze_object({"type": "object", **info.input_schema})

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        async def report(progress: float, total: float | None, message: str | None) -> None:
            run.progress(
                one_line(printable(message or ""), 200) or (f"{progress:g} of {total:g}" if total else f"{progress:g}")
            )

        thawed = json_thaw(arguments)
        assert isinstance(thawed, dict)
        try:
            client = await self._link.client()
            finish = self._link.attend()
            try:
                result = await client.call_tool(self.own, thawed, progress_callback=report)
            finally:
                undone = finish()
        except Exception as error:
            self._link.lost()
            reason = await self._link.reason(error)
            hint = self._link.hint(reason)
            raise ToolError(
                f"The MCP server {self.server} failed: {reason}" + (f" ({hint})" if hint else "")
            ) from error
        output = _output(result, self.server)
        output = replace(output, content=(*output.content, *(Text(f"({each})") for each in undone)))
        if output.is_error and (hint := self._link.hint(_words(output.content))):
            return replace(output, content=(*output.content, Text(f"({hint})")))
        return output


def _output(result: "CallToolResult", server: str) -> ToolOutput:
    content = [part for block in result.content for part in _shown(block)]
    if not content and result.structured_content is not None:
        content.append(Text(json_dump(result.structured_content)))
    content = [_bounded(part, server) for part in content]
    summary = " ".join(_words(content).split())[:80] or "done"
    return ToolOutput(tuple(content) or (Text("(nothing)"),), is_error=bool(result.is_error), summary=summary)


def _words(content: Sequence[Media]) -> str:
    return next((part.text[:1_000] for part in content if isinstance(part, Text)), "")


def _shown(block: object) -> Sequence[Media]:
    """A block of a result as a model is shown it."""
    from mcp import types

    match block:
        case types.TextContent():
            return (Text(block.text),)
        case types.ImageContent():
            return (Image(block.mime_type, base64.b64decode(block.data)),)
        case types.EmbeddedResource(resource=types.TextResourceContents() as held):
            return (Text(f"{held.uri}:\n{held.text}"),)
        case types.EmbeddedResource(resource=types.BlobResourceContents() as held):
            media_type = held.mime_type or "application/octet-stream"
            return (Document(media_type, base64.b64decode(held.blob), str(held.uri)),)
        case types.ResourceLink():
            return (Text(f"{block.name}: {block.uri}"),)
        case _:
            return (Text(f"({type(block).__name__}, which cannot be shown)"),)


def _bounded(part: Media, server: str) -> Media:
    """A part that memory and log can take; what is left out of it is said in its place."""
    size = len(part.text if isinstance(part, Text) else part.data)
    if size <= MOST_RESULT:
        return part
    if isinstance(part, Text):
        more = f"{size - MOST_RESULT:,} more characters of the MCP server {server} were left out"
        return Text(f"{part.text[:MOST_RESULT]}\n({more})")
    return Text(f"({type(part).__name__.lower()} of {size:,} bytes from the MCP server {server}: too large, left out)")


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def failure(error: BaseException) -> str:
    """What went wrong, of several things the first."""
    inner: object = error
    while isinstance(inner, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", inner).exceptions[0]
    return one_line(printable(f"{type(inner).__name__}: {inner}".rstrip(": ")), 300)
