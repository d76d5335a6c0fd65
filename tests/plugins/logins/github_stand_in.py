"""GitHub on loopback, as its documentation has the device flow and as clients of Copilot describe the rest."""

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

LISTED: tuple[Mapping[str, Any], ...] = (
    {
        "id": "gpt-5.6-terra",
        "name": "GPT-5.6 Terra",
        "model_picker_enabled": True,
        "supported_endpoints": ["/responses", "ws:/responses"],
        "capabilities": {
            "type": "chat",
            "limits": {
                "max_context_window_tokens": 400_000,
                "max_prompt_tokens": 272_000,
                "max_output_tokens": 128_000,
            },
            "supports": {"vision": True, "tool_calls": True, "reasoning_effort": ["low", "medium", "high"]},
        },
        "billing": {
            "token_prices": {
                "batch_size": 1_000_000,
                "default": {"input_price": 200, "cache_price": 20, "output_price": 1200},
            }
        },
    },
    {
        "id": "claude-sonnet-5.5",
        "name": "Claude Sonnet 5.5",
        "model_picker_enabled": True,
        "supported_endpoints": ["/chat/completions", "/v1/messages"],
        "capabilities": {
            "limits": {
                "max_context_window_tokens": 264_000,
                "max_prompt_tokens": 200_000,
                "max_output_tokens": 64_000,
            },
            "supports": {"vision": True, "tool_calls": True, "adaptive_thinking": True},
        },
        "billing": {"multiplier": 1.25, "is_premium": True},
    },
    {
        "id": "gpt-4.1",
        "name": "GPT-4.1",
        "supported_endpoints": ["/chat/completions"],
        "capabilities": {"supports": {"vision": False, "tool_calls": True}},
        "billing": {"multiplier": 0, "is_premium": False},
    },
    {"id": "off", "policy": {"state": "disabled"}, "capabilities": {"type": "chat"}},
    {"id": "text-embedding-3", "capabilities": {"type": "embeddings"}},
)
"""A plan's models, in the shape that clients of Copilot have published."""


class GitHub:
    """Answers `polls` one after the other to who waits for a login, and every exchange with a token of its own."""

    def __init__(self, polls: Sequence[Mapping[str, Any]] = (), *, api: str = "", lasts: int = 1_500) -> None:
        self.polls: list[Mapping[str, Any]] = list(polls)
        self.api = api
        self.lasts = lasts
        self.models: Sequence[Mapping[str, Any]] = LISTED
        self.exchanges: list[Mapping[str, str]] = []
        self.refusal: tuple[int, object] | None = None  # of every exchange
        self.forms: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.pause = asyncio.Event()  # exchanges wait for it
        self.pause.set()

    @contextlib.contextmanager
    def in_thread(self) -> Generator[str]:
        """Its address, while another loop serves it."""
        loop = asyncio.new_event_loop()
        server = loop.run_until_complete(asyncio.start_server(self.handle, "127.0.0.1", 0))
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            server.close()
            for task in asyncio.all_tasks(loop):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    loop.run_until_complete(task)
            loop.run_until_complete(asyncio.sleep(0.01))  # for the transports to be gone
            loop.close()

    @property
    def token(self) -> str:
        """The last token that was given."""
        return f"tid=abcdef{len(self.exchanges):04};exp=1893456000;sku=plus;proxy-ep=proxy.example:5e4d3c2b1a"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                await self._serve(reader, writer)
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = head.split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            path = lines[0].split()[1]
            self.paths.append(path)
            status, answer = await self._answer(path, headers, body)
            data = json.dumps(answer).encode()
            said = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
            writer.write(said.encode() + data)
            await writer.drain()

    async def _answer(self, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, object]:
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        match path:
            case "/login/device/code":
                self.forms.append(form)
                page = "https://github.example/login/device"
                code = {"device_code": "secret-device-code", "user_code": "WDJB-MJHT", "verification_uri": page}
                return 200, {**code, "expires_in": 900, "interval": 0}
            case "/login/oauth/access_token":
                self.forms.append(form)
                return 200, self.polls.pop(0) if self.polls else {"access_token": "gho_" + "a" * 36}
            case "/copilot_internal/v2/token":
                await self.pause.wait()
                self.exchanges.append(dict(headers))
                if self.refusal:
                    return self.refusal
                until = int(time.time()) + self.lasts + 300
                return 200, {
                    "token": self.token,
                    "expires_at": until,
                    "refresh_in": self.lasts,
                    "endpoints": {"api": self.api},
                }
            case "/copilot_internal/user":
                quota = {"entitlement": 1_500, "remaining": 1_240.5, "unlimited": False}
                about: dict[str, Any] = {
                    "login": "octocat",
                    "copilot_plan": "individual",
                    "quota_reset_date": "2026-12-01",
                }
                about |= {"endpoints": {"api": self.api}}
                return 200, {**about, "quota_snapshots": {"premium_interactions": quota}}
            case "/models":
                return 200, {"data": self.models}
            case _:
                return 404, {"message": "Not Found"}
