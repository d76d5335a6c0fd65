"""Version 2 of the protocol, a draft that is spoken only where it is switched on: the lifecycle of its prompts."""

import itertools
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sagent.plugins.acp.command import AcpHost
from sagent.plugins.acp.server import Server
from sagent.testing.script import Call, Fail, Stall, Turn
from sagent.testing.server import FakeProviderServer, Script
from tests.depth import later
from tests.waiting import until


@dataclass
class Client:
    """Sends lines, and keeps what comes."""

    latest: int = 2
    seen: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def __post_init__(self) -> None:
        host = AcpHost({"model": "anthropic/claude-sonnet-4-6", "permission_mode": "full"}, self.latest)
        self.server = Server(host, lambda line: self.seen.append(json.loads(line)))
        self._ids = itertools.count()

    def send(self, method: str, **params: object) -> Callable[[], dict[str, Any] | None]:
        """Send a request; what is returned gives its response, once there is one."""
        number = next(self._ids)
        line = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.server.connection.receive(json.dumps(line).encode())
        return lambda: next((each for each in self.seen if each.get("id") == number and "method" not in each), None)

    async def ask(self, method: str, **params: object) -> dict[str, Any]:
        return await until(self.send(method, **params), method) or {}

    def notify(self, method: str, **params: object) -> None:
        self.server.connection.receive(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    @property
    def states(self) -> list[dict[str, Any]]:
        updates = (each["params"]["update"] for each in self.seen if each.get("method") == "session/update")
        return [each for each in updates if each["sessionUpdate"] == "state_update"]

    @property
    def ends(self) -> list[str]:
        return [each["stopReason"] for each in self.states if each["state"] == "idle"]


@asynccontextmanager
async def client(monkeypatch: pytest.MonkeyPatch, script: Script) -> AsyncGenerator[Client]:
    async with FakeProviderServer(script) as provider:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        found = Client()
        await found.ask("initialize", protocolVersion=2, info={"name": "x", "version": "1"})
        try:
            yield found
        finally:
            await found.server.aclose()
        running = [each["state"] for each in found.states].count("running")
        assert len(found.ends) == running


@pytest.mark.parametrize(("latest", "asked", "agreed"), [(1, 2, 1), (2, 1, 1), (2, 2, 2), (2, 3, 2), (2, 0, 1)])
async def test_version_negotiated(latest: int, asked: int, agreed: int) -> None:
    found = Client(latest)
    answer = await found.ask("initialize", protocolVersion=asked)
    assert answer["result"]["protocolVersion"] == agreed
    for method in ("session/load", "session/set_mode", "authenticate"):
        assert (await found.ask(method))["error"]["code"] == (-32601 if agreed == 2 else -32602)


@later
async def test_prompts_accepted_while_turns_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = [
        Turn("", calls=(Call("Bash", {"command": "touch began; sleep 60"}),)), Fail(400, message="no"),
        Turn("well"), Stall(Turn("never")),
    ]  # fmt: skip
    async with client(monkeypatch, script) as found:
        session = (await found.ask("session/new", cwd=str(tmp_path)))["result"]["sessionId"]
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}
        answers = [await found.ask("session/prompt", **prompt) for _ in range(2)]
        messages = {answer["result"]["messageId"] for answer in answers}
        shown = [each["params"]["update"] for each in found.seen if each.get("method") == "session/update"]
        assert {each["messageId"] for each in shown if each["sessionUpdate"] == "user_message"} == messages
        await until((tmp_path / "began").exists, "the command")
        found.notify("session/cancel", sessionId=session)
        await until(lambda: found.ends == ["cancelled"] * 2, "both ends")
        for count in (3, 4):
            await found.ask("session/prompt", **prompt)
            await until(lambda wanted=count: len(found.ends) == wanted, "the end")
        assert found.ends[2:] == ["error", "end_turn"]
        found.send("session/prompt", **prompt)
        found.notify("session/cancel", sessionId=session)  # at once
        await until(lambda: len(found.ends) == 5, "the end")
        assert found.ends[-1] == "cancelled"
        wrong = await found.ask("session/resume", sessionId=session, cwd=str(tmp_path), replayFrom={"type": "_x"})
        assert wrong["error"]["code"] == -32602
