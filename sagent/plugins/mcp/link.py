"""The connection to one MCP server: made on demand in a separate task, and again after a loss."""

import asyncio
import re
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from sagent.lib.process import ProcessGroup
from sagent.lib.text import one_line, printable
from sagent.plugins.mcp.answers import tolerate_output
from sagent.plugins.mcp.elicitation import Elicitor
from sagent.plugins.mcp.host import Host, client_info
from sagent.plugins.mcp.list_filter import filtered_streams
from sagent.plugins.mcp.pipes import MAX_LINE_BYTES, Program
from sagent.plugins.mcp.server import McpServer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    import httpx2
    from mcp import Client
    from mcp.client import ClientRequestContext
    from mcp.client._transport import Transport
    from mcp.client.session import IncomingMessage
    from mcp.types import ElicitRequestParams, ElicitResult, ListRootsResult

    from sagent.plugins.mcp.login import Login
    from sagent.sandbox.profile import Profile

Kind: TypeAlias = Literal["tools", "prompts", "resources"]

START_TIMEOUT_SECONDS = 20.0  # for a server to be ready for a call, if it has nothing more to start
_CLOSE_TIMEOUT_SECONDS = 3.0  # seconds for a connection to end
_MAX_RESTART_DELAY_SECONDS = 30.0  # between two starts
_MAX_CALL_WAIT_SECONDS = 4.0  # that a call waits for a restart; with longer waits it fails at once
_MAX_RELISTEN_DELAY_SECONDS = 60.0  # maximum seconds until changes are listened for again


class NotYet(ConnectionError):
    """Refusal to start a server again so soon."""


class Link:
    """The link to one server. `on_changed` is called with a changed list, `elicitor` asks a person its questions."""

    def __init__(self, name: str, server: McpServer, processes: ProcessGroup, host: Host, elicitor: Elicitor) -> None:
        self.name, self.server = name, server
        self.on_changed: Callable[[Kind], None] = lambda _: None
        self._processes, self._host, self.elicitor = processes, host, elicitor
        self._program = Program(processes, lambda: None)
        self._profile: Profile | None = None  # that it runs within
        self._login: Login | None = None
        self._refuses = False  # a server with a URL has last refused an unauthenticated request
        self.unread: dict[str, str] = {}  # invalid items in its lists, by name, with the reason
        self.adds = False  # it may change its tools, as it says
        self.attend: Callable[[], Callable[[], Sequence[str]]] = lambda: tuple  # watches its effects during a call
        self._task: asyncio.Task[None] | None = None
        self._lives: set[asyncio.Task[None]] = set()  # of this connection, and of lost ones that still end
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[Client] | None = None
        self._failures = 0  # in a row
        self._mode: Literal["auto", "legacy"] = "auto"
        self._too_long = False  # a server with a URL: its answer was
        self._died = False  # its program, and not because it was stopped
        self._failed_at = 0.0

    @property
    def state(self) -> str:
        """Describe the state of the connection."""
        if self._ready is not None and self._ready.done() and not self._stop.is_set():
            return "connected"
        return "failed" if self._failures else "not connected"

    async def client(self) -> "Client":
        """Return a ready connection. Raises any error that prevents it."""
        if self._task is None or self._task.done() or self._stop.is_set():
            await self._pause()
        if self._task is None or self._task.done() or self._stop.is_set():
            again = self._task is not None
            self._ready = asyncio.get_running_loop().create_future()
            self._stop, self._died = asyncio.Event(), False
            self._task = asyncio.create_task(self._live(self._ready, self._stop, again=again))
            self._lives.add(self._task)
            self._task.add_done_callback(self._lives.discard)
        assert self._ready is not None
        async with asyncio.timeout(max(START_TIMEOUT_SECONDS, self.server.start_timeout)):
            return await asyncio.shield(self._ready)

    async def _pause(self) -> None:
        """Wait before another start of a server that fails repeatedly. Raises NotYet if that would be long."""
        if self._failures < 2:
            return
        pause = min(2.0 ** (self._failures - 2), _MAX_RESTART_DELAY_SECONDS)
        left = self._failed_at + pause - asyncio.get_running_loop().time()
        if left > _MAX_CALL_WAIT_SECONDS:
            raise NotYet(f"it failed {self._failures} times in a row and will be started again in {left:.0f} s")
        await asyncio.sleep(max(left, 0.0))

    def lost(self) -> None:
        """End a connection that failed: the next call makes another."""
        self._end(self._stop)
        if self._task is not None and self._ready is not None and not self._ready.done():
            self._task.cancel()

    def _on_answer(self, response: "httpx2.Response") -> None:
        if response.status_code == 401 or response.is_success:
            self._refuses = response.status_code == 401

    def _on_more(self) -> None:
        self._too_long = True

    def _on_end(self, stop: asyncio.Event) -> None:
        """Handle the end of a program's output: the program died unless the connection was stopped."""
        self._died = not stop.is_set()
        self._end(stop)

    def _end(self, stop: asyncio.Event) -> None:
        """End a connection, and count a failure."""
        if not stop.is_set():
            self._failures += 1
            self._failed_at = asyncio.get_running_loop().time()
            stop.set()

    def works(self) -> None:
        """Record an answer: the next failure counts as the first one."""
        self._failures = 0

    async def _live(self, ready: "asyncio.Future[Client]", stop: asyncio.Event, *, again: bool) -> None:
        """Run a connection from start to end in one task, because its cancel scopes must be left in the same task."""
        try:
            try:
                await self._serve(ready, stop, again=again)
            except Exception:
                if ready.done() or not (self._died and self._mode == "auto" and self._stop is stop):
                    raise
                # servers of the earlier protocol may end when anything is asked before their handshake
                self._mode, self._stop, self._died = "legacy", asyncio.Event(), False
                self._failures -= 1
                await self._serve(ready, self._stop, again=again)
        except Exception as error:
            if not ready.done():
                ready.set_exception(error)
                ready.exception()  # it may be that no caller waits any more
        finally:
            if not ready.done():
                ready.set_exception(ConnectionError("starting it was cancelled"))
                ready.exception()

    async def _serve(self, ready: "asyncio.Future[Client]", stop: asyncio.Event, *, again: bool) -> None:
        """Have a connection until it is lost or given up."""
        async with self._connect(stop) as client:
            tolerate_output(client.session)
            if not ready.done():
                ready.set_result(client)
            if again:
                self.on_changed("tools")
            listening = asyncio.create_task(self._listen(client))
            try:
                await stop.wait()
            finally:
                listening.cancel()
                await asyncio.wait([listening])

    @asynccontextmanager
    async def _connect(self, stop: asyncio.Event) -> "AsyncGenerator[Client]":
        server = self.server
        if server.url:
            from mcp.client.streamable_http import streamable_http_client

            from sagent.plugins.mcp.bodies import http_client

            self._login, self._too_long = self._read_login(), False
            auth = self._login
            if "issuer" in server.oauth:
                from sagent.plugins.mcp.machine_login import machine_login

                auth = machine_login(server)
            async with (
                http_client(server, auth, self._on_answer, self._on_more) as http,
                self._over(
                    streamable_http_client(server.url, http_client=http, max_sse_event_size=MAX_LINE_BYTES)
                ) as client,
            ):
                yield client
        else:
            from mcp.client.stdio import get_default_environment

            confined = await self._host.confine([server.command, *server.args], server.needs)
            self._profile, self._program = confined.profile, Program(self._processes, lambda: self._on_end(stop))
            self.attend = confined.attend
            streams = self._program.streams(
                *confined.launched({**get_default_environment(), **server.env}), confined.cwd
            )
            try:
                async with self._over(streams) as client:
                    yield client
            finally:
                confined.finish()

    def _over(self, transport: "Transport") -> "Client":
        from mcp import Client

        return Client(
            filtered_streams(transport, self.unread),
            mode=self._mode,
            read_timeout_seconds=self.server.timeout,
            client_info=client_info(),
            elicitation_callback=self._elicit,
            list_roots_callback=self._roots if self._host.roots else None,
            message_handler=self._on_message,
        )

    async def _roots(self, context: "ClientRequestContext") -> "ListRootsResult":
        from mcp.types import ListRootsResult, Root

        return ListRootsResult(roots=[Root(uri=path.as_uri(), name=path.name) for path in self._host.roots])  # pyright: ignore[reportArgumentType] -- pydantic reads it

    async def _elicit(self, context: "ClientRequestContext", params: "ElicitRequestParams") -> "ElicitResult":
        del context
        return await self.elicitor.ask(self.name, params)

    async def _on_message(self, message: "IncomingMessage") -> None:
        """Handle a notification of a server of the earlier protocol."""
        from mcp import types

        match message:
            case types.ToolListChangedNotification():
                self.on_changed("tools")
            case types.PromptListChangedNotification():
                self.on_changed("prompts")
            case types.ResourceListChangedNotification():
                self.on_changed("resources")
            case _:
                pass

    async def _listen(self, client: "Client") -> None:
        """Receive changes by the protocol's long request, available since 2026-07-28."""
        from mcp import MCPError
        from mcp.client.subscriptions import (
            ListenNotSupportedError,
            PromptsListChanged,
            ResourcesListChanged,
            SubscriptionLost,
            ToolsListChanged,
        )

        kinds: dict[type, Kind] = {
            ToolsListChanged: "tools", PromptsListChanged: "prompts", ResourcesListChanged: "resources",
        }  # fmt: skip
        offered = client.server_capabilities
        tools, prompts, resources = (
            bool(one and one.list_changed) for one in (offered.tools, offered.prompts, offered.resources)
        )
        pause = 1.0
        while tools or prompts or resources:
            try:
                async with client.listen(
                    tools_list_changed=tools, prompts_list_changed=prompts, resources_list_changed=resources
                ) as events:
                    async for event in events:
                        pause = 1.0
                        if (kind := kinds.get(type(event))) is not None:
                            self.on_changed(kind)
            except ListenNotSupportedError:  # the earlier protocol, in which servers send changes unasked
                return
            except (MCPError, SubscriptionLost, TimeoutError):
                pass
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_RELISTEN_DELAY_SECONDS)
            for kind, wanted in (("tools", tools), ("prompts", prompts), ("resources", resources)):
                if wanted:  # it may have changed meanwhile
                    self.on_changed(cast("Kind", kind))

    def _read_login(self) -> "Login | None":
        """Read the person's login at the server, if there is one."""
        if not self.server.url or self._host.state is None or "issuer" in self.server.oauth:
            return None
        from sagent.plugins.mcp.login import Login, LoginFile

        file = LoginFile(self._host.state, self.server.url)
        return Login(self.name, self.server, file) if file.path.exists() else None

    async def reason(self, error: BaseException) -> str:
        """Describe why the connection was lost."""
        if isinstance(error, NotYet):
            return str(error)
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_CLOSE_TIMEOUT_SECONDS)
        if self._too_long:
            return f"it answered with more than {MAX_LINE_BYTES >> 20} MiB"
        return self.login_wanted() or (self._program.fault if self._died or is_closed(error) else "") or failure(error)

    def login_wanted(self) -> str:
        """Return why it needs a login; "" if it has accepted the last request."""
        if self._login is not None and self._login.lacks:
            return self._login.lacks
        if self._refuses and "issuer" in self.server.oauth:
            return "it rejects the client_id of its oauth settings"
        return f"it needs a login: sagent mcp login {self.name}" if self._refuses else ""

    def hint(self, text: str | None = None) -> str:
        """Name the setting that grants it more, if its errors or its failure to run may come from its sandbox."""
        from sagent.sandbox.signs import was_held_back, within

        if self._profile is None or not (text is None or was_held_back(text, failed=True)):
            return ""
        limits = within(self._profile, map(Path, self._profile.writable[:4]))
        return f"{limits}. `[mcp.{self.name}] needs = [...]` in the person's config allows it more."

    async def aclose(self) -> None:
        self._stop.set()
        if self._lives:
            _, left = await asyncio.wait(self._lives, timeout=_CLOSE_TIMEOUT_SECONDS)
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)


def is_closed(error: BaseException) -> bool:
    """Return True if a connection has ended below the protocol."""
    from mcp import MCPError
    from mcp.types import CONNECTION_CLOSED

    return isinstance(error, MCPError) and error.code == CONNECTION_CLOSED


def failure(error: BaseException) -> str:
    """Describe an error; of several the first."""
    inner: object = error
    while isinstance(inner, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", inner).exceptions[0]
    text = re.sub(r"\s*For further information visit \S+", "", f"{type(inner).__name__}: {inner}".rstrip(": "))
    return one_line(printable(text), 300)
