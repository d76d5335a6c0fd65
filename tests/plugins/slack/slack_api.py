"""Slack on loopback: the Web API and Socket Mode, as the SDK's own client speaks to them."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

from aiohttp import WSMsgType, web

TEAM, BOT, CHANNEL = "T1", "UBOT", "C1"
MOST = 13_000  # characters of a message


@dataclass
class Slack:
    """What is there. `limit` calls that write are answered with 429; `fail` names calls that are refused, and how."""

    url: str = ""
    messages: dict[str, dict] = field(default_factory=dict)  # by their time, as they are now
    edits: int = 0
    uploads: dict[str, bytes] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    ephemeral: list[str] = field(default_factory=list)
    acked: list[str] = field(default_factory=list)
    fail: dict[str, str] = field(default_factory=dict)
    limit: int = 0
    slow: float = 0.0  # seconds that a call which writes takes to be answered, when it is done
    slow_files: float = 0.0
    sockets: list[web.WebSocketResponse] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _numbers: count = field(default_factory=lambda: count(1))

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds."""
        async with asyncio.timeout(60):
            while not holds():
                self.changed.clear()
                await self.changed.wait()

    def texts(self, thread: str = "") -> list[str]:
        """What the messages of a thread say, in their order."""
        return [text_of(each) for each in self.messages.values() if thread in ("", each["thread_ts"])]

    async def send(self, kind: str, payload: dict, *, twice: bool = False) -> None:
        """An envelope, to the socket that is open; again as if it had not been acknowledged."""
        await self.until(lambda: any(not each.closed for each in self.sockets))
        envelope = {"envelope_id": f"e{next(self._numbers)}", "type": kind, "payload": payload}
        socket = next(each for each in reversed(self.sockets) if not each.closed)
        for _ in range(1 + twice):
            await socket.send_str(json.dumps(envelope))

    async def say(self, text: str, ts: str, *, user: str = "U1", kind: str = "app_mention", **more: object) -> None:
        event = {"type": kind, "user": user, "channel": CHANNEL, "ts": ts, "text": text, **more}
        await self.send("events_api", {"team_id": TEAM, "event": event})

    async def press(self, label: str, *, user: str = "U1", team: str = TEAM) -> None:
        """Press the button of a label, in the last message that has one."""
        await self.until(lambda: self._button(label))
        value = self._button(label)
        payload = {
            "type": "block_actions",
            "user": {"id": user, "team_id": team},
            "team": {"id": TEAM},
            "channel": {"id": CHANNEL},
            "actions": [{"action_id": value, "value": value}],
        }
        await self.send("interactive", payload)

    def _button(self, label: str) -> str:
        blocks = [block for each in self.messages.values() for block in each["blocks"] if block["type"] == "actions"]
        found = [button for block in blocks for button in block["elements"] if button["text"]["text"] == label]
        return found[-1]["value"] if found else ""

    async def api(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        self.tokens.add(request.headers.get("Authorization", ""))
        body = await request.json() if request.content_type == "application/json" else dict(await request.post())
        body |= request.query
        if method.startswith("chat.") and self.limit:
            self.limit -= 1
            return web.json_response({"ok": False, "error": "ratelimited"}, status=429, headers={"Retry-After": "0"})
        if method in self.fail:
            return web.json_response({"ok": False, "error": self.fail[method]})
        answer = self._answer(method, body)
        self.changed.set()
        if method.startswith("chat."):
            await asyncio.sleep(self.slow)
        return web.json_response({"ok": True, **answer})

    def _answer(self, method: str, body: dict) -> dict:
        match method:
            case "auth.test":
                return {"team_id": TEAM, "user_id": BOT}
            case "apps.connections.open":
                return {"url": f"{self.url.replace('http', 'ws')}/socket"}
            case "chat.postMessage":
                assert len(json.dumps(body["blocks"])) < MOST
                ts = f"900.{next(self._numbers):06}"
                self.messages[ts] = {**body, "ts": ts}
                return {"ts": ts}
            case "chat.update":
                assert len(json.dumps(body["blocks"])) < MOST
                self.messages[body["ts"]] |= body
                self.edits += 1
                return {"ts": body["ts"]}
            case "chat.postEphemeral":
                self.ephemeral.append(body["text"])
                return {}
            case "files.getUploadURLExternal":
                return {"upload_url": f"{self.url}/upload/{body['filename']}", "file_id": body["filename"]}
            case "files.completeUploadExternal":
                return {"files": [{"id": "F1"}]}
            case _:
                return {}

    async def upload(self, request: web.Request) -> web.StreamResponse:
        self.uploads[request.match_info["name"]] = await request.read()
        return web.Response(text="OK")

    async def file(self, request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(self.slow_files)
        return web.Response(body=self.files[request.match_info["name"]])

    async def socket(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.sockets.append(socket)
        await socket.send_str(json.dumps({"type": "hello"}))
        self.changed.set()
        async for message in socket:
            if message.type is WSMsgType.TEXT and message.data.startswith("{"):
                self.acked.append(json.loads(message.data)["envelope_id"])
                self.changed.set()
        return socket


def text_of(message: dict) -> str:
    return "".join(block["text"] for block in message["blocks"] if block["type"] == "markdown")


@asynccontextmanager
async def fake_slack() -> AsyncGenerator[Slack]:
    slack = Slack()
    app = web.Application(client_max_size=1 << 26)
    app.add_routes([
        web.post("/api/{method}", slack.api), web.post("/upload/{name}", slack.upload),
        web.get("/files/{name}", slack.file), web.get("/socket", slack.socket),
    ])  # fmt: skip
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    slack.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield slack
    finally:
        for socket in slack.sockets:
            await socket.close()
        await runner.cleanup()
