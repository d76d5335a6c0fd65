"""A client of `sagent acp` in this process: it holds the agent to the protocol at each line that it gets."""

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import acp.schema as schema
import pytest
from pydantic import BaseModel

from sagent.plugins.acp.command import AcpHost
from sagent.plugins.acp.server import Server
from sagent.testing.server import FakeProviderServer, Script

MODEL = "anthropic/claude-sonnet-4-6"
RESULTS: Mapping[str, type[BaseModel]] = {
    "initialize": schema.InitializeResponse,
    "authenticate": schema.AuthenticateResponse,
    "session/new": schema.NewSessionResponse,
    "session/load": schema.LoadSessionResponse,
    "session/resume": schema.ResumeSessionResponse,
    "session/list": schema.ListSessionsResponse,
    "session/prompt": schema.PromptResponse,
    "session/set_mode": schema.SetSessionModeResponse,
    "session/set_config_option": schema.SetSessionConfigOptionResponse,
    "session/close": schema.CloseSessionResponse,
    "session/delete": schema.DeleteSessionResponse,
}
ASKED: Mapping[str, type[BaseModel]] = {
    "session/request_permission": schema.RequestPermissionRequest,
    "fs/read_text_file": schema.ReadTextFileRequest,
    "fs/write_text_file": schema.WriteTextFileRequest,
    "elicitation/create": schema.CreateFormSessionElicitationRequest,
}
Handler = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, object]]]


class Refused(Exception):
    """An error response."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.data: object = error.get("data")


@dataclass
class Peer:
    """A client. `handlers` answer what the agent asks."""

    host: AcpHost
    handlers: dict[str, Handler] = field(default_factory=dict[str, Handler])
    updates: list[tuple[str, dict[str, Any]]] = field(default_factory=list[tuple[str, dict[str, Any]]])
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list[tuple[str, dict[str, Any]]])
    stray: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])  # responses that nobody waits for

    order: list[str] = field(default_factory=list[str])  # kinds of updates, and methods that were answered

    def __post_init__(self) -> None:
        self._ids = itertools.count(1)
        self._open: dict[int, tuple[str, asyncio.Future[dict[str, Any]]]] = {}
        self._calls: dict[tuple[str, str], str] = {}  # and their state
        self.tasks: set[asyncio.Task[None]] = set()
        self.server = Server(self.host, self._take)

    # -- what the agent sends

    def _take(self, line: bytes) -> None:
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        match message:
            case {"method": "session/update", "params": params}:
                if params["update"]["sessionUpdate"] != "notice":  # which this SDK does not know yet
                    schema.SessionNotification.model_validate(params)
                self.order.append(params["update"]["sessionUpdate"])
                self._note(params["sessionId"], params["update"])
            case {"method": "$/cancel_request"}:
                pass
            case {"method": str(method), "id": number, "params": params}:
                ASKED[method].model_validate(params)
                self.asked.append((method, params))
                if method == "session/request_permission":
                    assert (params["sessionId"], params["toolCall"]["toolCallId"]) in self._calls, "not announced"
                task = asyncio.ensure_future(self._answer(number, method, params))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)
            case {"id": number} if number in self._open:
                method, waiting = self._open.pop(number)
                self.order.append(method)
                if "error" not in message:
                    RESULTS[method].model_validate(message["result"])
                if not waiting.done():
                    waiting.set_result(message)
            case _:
                self.stray.append(message)

    def _note(self, session: str, update: dict[str, Any]) -> None:
        self.updates.append((session, update))
        match update:
            case {"sessionUpdate": "tool_call", "toolCallId": name}:
                assert (session, name) not in self._calls, f"{name} was announced twice"
                self._calls[session, name] = update["status"]
            case {"sessionUpdate": "tool_call_update", "toolCallId": name}:
                assert (session, name) in self._calls, f"{name} was not announced"
                self._calls[session, name] = update.get("status", self._calls[session, name])
            case _:
                pass

    async def _answer(self, number: int, method: str, params: Mapping[str, Any]) -> None:
        handler = self.handlers[method]
        try:
            answer: Mapping[str, object] = {"result": await handler(params)}
        except Refused as error:
            answer = {"error": {"code": error.code, "message": str(error)}}
        self.write(json.dumps({"jsonrpc": "2.0", "id": number, **answer}).encode())

    # -- what the client sends

    def write(self, line: bytes) -> None:
        self.server.connection.receive(line)

    def begin(self, method: str, **params: object) -> "asyncio.Future[dict[str, Any]]":
        """Send a request; its whole response comes later."""
        number = next(self._ids)
        waiting: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._open[number] = method, waiting
        self.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode())
        return waiting

    async def ask(self, method: str, **params: object) -> dict[str, Any]:
        """The result of a request. Raises Refused."""
        message = await asyncio.wait_for(self.begin(method, **params), 60)
        if "error" in message:
            raise Refused(message["error"])
        return message["result"]

    def notify(self, method: str, **params: object) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    async def greet(self, **capabilities: object) -> dict[str, Any]:
        return await self.ask("initialize", protocolVersion=1, clientCapabilities=capabilities)

    async def new(self, cwd: Path, **more: object) -> str:
        return (await self.ask("session/new", cwd=str(cwd), mcpServers=[], **more))["sessionId"]

    def send_prompt(self, number: object, session: str, text: str) -> None:
        """A prompt whose response is a stray one."""
        params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
        line = {"jsonrpc": "2.0", "id": number, "method": "session/prompt", "params": params}
        self.write(json.dumps(line).encode())

    def begin_prompt(self, session: str, text: str) -> "asyncio.Future[dict[str, Any]]":
        return self.begin("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    async def prompt(self, session: str, text: str, *blocks: object) -> str:
        """Why the turn ended."""
        prompt = [{"type": "text", "text": text}, *blocks]
        return (await self.ask("session/prompt", sessionId=session, prompt=prompt))["stopReason"]

    # -- what is looked at

    def kinds(self, *kinds: str, session: str = "") -> list[dict[str, Any]]:
        """The updates of some kinds."""
        return [update for name, update in self.updates if update["sessionUpdate"] in kinds and session in ("", name)]

    def text(self, kind: str = "agent_message_chunk", session: str = "") -> str:
        return "".join(each["content"]["text"] for each in self.kinds(kind, session=session))

    @property
    def unfinished(self) -> dict[tuple[str, str], str]:
        """Calls that have not ended, and requests that were not answered."""
        return {name: state for name, state in self._calls.items() if state not in ("completed", "failed")}

    @property
    def unanswered(self) -> int:
        return len(self._open)


@asynccontextmanager
async def agent_for(
    script: Script, capabilities: Mapping[str, object] | None = None, **flags: object
) -> AsyncGenerator[Peer]:
    """An agent that a scripted provider answers, and its client, which has greeted it."""
    with pytest.MonkeyPatch.context() as patched:
        async with FakeProviderServer(script) as provider:
            patched.setenv("ANTHROPIC_BASE_URL", provider.url)
            patched.setenv("ANTHROPIC_API_KEY", "k")
            peer = Peer(AcpHost({"model": MODEL, **flags}))
            try:
                await peer.greet(**(capabilities or {}))
                yield peer
            finally:
                await peer.server.aclose()
            assert not peer.unanswered
            assert not peer.unfinished


def choosing(*options: str) -> Handler:
    """Answers permission requests, one after another; the last answer goes on."""
    left = list(options)

    async def choose(params: Mapping[str, Any]) -> Mapping[str, object]:
        chosen = left.pop(0) if len(left) > 1 else left[0]
        if chosen == "cancelled":
            return {"outcome": {"outcome": "cancelled"}}
        return {"outcome": {"outcome": "selected", "optionId": chosen}}

    return choose
