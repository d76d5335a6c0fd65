"""GitHub Copilot by a loopback GitHub: the promises of a Model by each API, and those about the login."""

import asyncio
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sagent.cost.prices import PriceBook
from sagent.errors import ModelError, UsageError
from sagent.lib.json import as_object
from sagent.lib.secrets import redact
from sagent.messages import Image, Message, Text, ToolCall, ToolResult, user
from sagent.model import Model, Request
from sagent.plugins.logins.copilot import Copilot
from sagent.plugins.logins.copilot_login import NAME, Account, log_in, login_file
from sagent.plugins.logins.github_device import begin, finish, host_url
from sagent.providers.registry import provider_named
from sagent.providers.wire.faults import ExchangeFailed, Origin
from sagent.providers.wire.transport import Answer, DirectTransport
from sagent.testing.model_suite import OpenModel, ServedModelSuite, collect, failure
from sagent.testing.script import Call, Fail, Received, Turn
from sagent.testing.server import FakeProviderServer
from sagent.usage import Usage
from tests.depth import later
from tests.plugins.logins.github_stand_in import LISTED, GitHub

ACCOUNT = "gho_" + "b" * 36
ENDS = {"chat": "/chat/completions", "responses": "/responses", "anthropic": "/v1/messages"}
MODELS = {"chat": "gpt-4.1", "responses": "gpt-5.6-terra", "anthropic": "claude-sonnet-5.5"}

Serve = Callable[..., AbstractAsyncContextManager[str]]


def request(*messages: Message, conversation: str = "talk", **members: Any) -> Request:
    return Request(conversation, messages or (user("hi"),), **members)


def keep(home: Path, host: str, **members: object) -> Path:
    """A login as it is kept, with a token that has run out unless `members` say otherwise."""
    path = login_file({"HOME": str(home)})
    path.parent.mkdir(parents=True, exist_ok=True)
    fields = {
        "host": host,
        "github_token": ACCOUNT,
        "access_token": "tid=0ld0ld0ld;exp=1",
        "until": 0,
        "models": LISTED,
    }
    path.write_text(json.dumps({**fields, **members}))
    path.chmod(0o600)
    return path


def calls(server: FakeProviderServer) -> list[Received]:
    """What was asked of models."""
    return [asked for asked in server.requests if asked.method == "POST"]


@asynccontextmanager
async def opened(home: Path) -> AsyncGenerator[Copilot]:
    async with aclosing(Copilot.from_credentials(environ={"HOME": str(home)})) as provider:
        yield provider


class Suite(ServedModelSuite):
    """The promises of a Model, by one of the APIs."""

    model = ""

    @pytest.fixture
    def open_model(self, tmp_path: Path) -> OpenModel:
        @asynccontextmanager
        async def made(url: str) -> AsyncGenerator[Model]:
            keep(tmp_path, "https://github.com", api=url, until=time.time() + 1_000)
            async with opened(tmp_path) as provider:
                yield provider.model(self.model)

        return made


class TestChat(Suite):
    model = MODELS["chat"]


class TestResponses(Suite):
    model = MODELS["responses"]


class TestMessages(Suite):
    model = MODELS["anthropic"]


@pytest.fixture
def github() -> GitHub:
    return GitHub()


async def finished(github: GitHub, address: str) -> tuple[str, list[float]]:
    """The account's token, and how long was waited before each question."""
    waited: list[float] = []

    async def pause(seconds: float) -> None:
        waited.append(seconds)

    host, origin, transport = f"http://{address}", Origin(NAME), DirectTransport()
    try:
        code = await begin(host, transport, origin)
        return await finish(host, code, transport, origin, pause), waited
    finally:
        await transport.aclose()


class TestLogin:
    async def test_login_waits_for_code(self, github: GitHub, listening: Serve) -> None:
        """As long as it is told, and longer when it is told to slow down (RFC 8628, 3.5)."""
        pending = {"error": "authorization_pending"}
        github.polls = [pending, {"error": "slow_down", "interval": 7}, pending, {"error": "slow_down"}, pending]
        async with listening(github.handle) as address:
            token, waited = await finished(github, address)
        assert token.startswith("gho_")
        assert waited == [1, 1, 7, 7, 12, 12]
        asked, *polls = github.forms
        assert (asked["scope"], polls[0]["device_code"]) == ("read:user", "secret-device-code")

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            ({"error": "access_denied"}, "was refused at"),
            ({"error": "expired_token"}, "WDJB-MJHT was not entered in time"),
            ({"error": "device_flow_disabled", "error_description": "not for this app"}, "not for this app"),
        ],
        ids=["denied", "expired", "disabled"],
    )
    async def test_refused_login_says_next_step(
        self, answer: Mapping[str, str], words: str, github: GitHub, listening: Serve
    ) -> None:
        github.polls = [answer]
        async with listening(github.handle) as address:
            with pytest.raises(ModelError, match=words) as failed:
                await finished(github, address)
        assert failed.value.kind == "auth"
        assert "secret-device-code" not in str(failed.value)

    async def test_other_host_gives_no_code(self, raw_server: Callable[..., Any]) -> None:
        page = b"<html>Sign in to the proxy</html>"
        answer = [b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(page), page]
        async with raw_server(answer) as server:
            with pytest.raises(ModelError, match="gives no code to log in with"):
                await finished(GitHub(), server.url.removeprefix("http://"))

    async def test_login_private_with_plan_models(self, github: GitHub, listening: Serve, tmp_path: Path) -> None:
        said: list[str] = []
        path = tmp_path / "config" / "sagent" / "copilot.json"
        async with listening(github.handle) as address:
            github.api = f"http://{address}"
            await log_in(f"http://{address}", path, said.append)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "https://github.example/login/device" in said[0]
        assert "WDJB-MJHT" in said[0]
        assert "octocat, individual" in said[1] and "1240.5 of 1,500" in said[1] and "2026-12-01" in said[1]
        assert "gpt-5.6-terra, claude-sonnet-5.5" in said[2]
        assert not any("gho_" in line or "tid=" in line for line in said)
        kept = json.loads(path.read_text())
        assert kept["github_token"].startswith("gho_")
        assert [row["id"] for row in kept["models"]][:2] == ["gpt-5.6-terra", "claude-sonnet-5.5"]

    @pytest.mark.parametrize(
        ("given", "url"),
        [
            ("github.com", "https://github.com"),
            ("company.ghe.com", "https://company.ghe.com"),
            ("https://company.ghe.com/", "https://company.ghe.com"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ],
    )
    def test_host_is_name_or_address(self, given: str, url: str) -> None:
        assert host_url(given) == url

    @pytest.mark.parametrize(
        "given", ["http://company.ghe.com", "http://127.example", "", "a b", "ftp://x", "https://x?y"]
    )
    def test_login_refused_unencrypted(self, given: str) -> None:
        with pytest.raises(UsageError):
            host_url(given)


class TestExchange:
    @pytest.mark.parametrize("family", ["chat", "responses", "anthropic"])
    async def test_model_uses_listed_api(self, family: str, github: GitHub, listening: Serve, tmp_path: Path) -> None:
        async with FakeProviderServer([Turn("x")]) as server, listening(github.handle) as address:
            github.api = server.url
            keep(tmp_path, f"http://{address}")
            async with opened(tmp_path) as provider:
                await collect(provider.model(MODELS[family]), request())
            (asked,) = calls(server)
        assert asked.path == ENDS[family]
        assert asked.headers["authorization"] == f"Bearer {github.token}"
        assert asked.headers["copilot-integration-id"] == "vscode-chat"
        assert asked.headers["editor-version"].startswith("sagent/")
        assert "x-api-key" not in asked.headers
        (exchange,) = github.exchanges
        assert exchange["authorization"] == f"token {ACCOUNT}"

    async def test_expired_token_renewed(
        self, github: GitHub, listening: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with FakeProviderServer([Turn("x")] * 3) as server, listening(github.handle) as address:
            github.api = server.url
            keep(tmp_path, f"http://{address}")
            async with opened(tmp_path) as provider:
                model = provider.model(MODELS["chat"])
                await collect(model, request())
                await collect(model, request())
                later = time.time() + github.lasts + 1
                monkeypatch.setattr("sagent.plugins.logins.copilot_login.time.time", lambda: later)
                await collect(model, request())
            used = [asked.headers["authorization"] for asked in calls(server)]
        assert len(github.exchanges) == 2
        assert used[0] == used[1] != used[2]

    async def test_refused_token_exchanged_once(self, github: GitHub, listening: Serve, tmp_path: Path) -> None:
        script = [Fail(401), Turn("x"), Fail(401), Fail(401)]
        async with FakeProviderServer(script) as server, listening(github.handle) as address:
            github.api = server.url
            keep(tmp_path, f"http://{address}", api=server.url, until=time.time() + 1_000)
            async with opened(tmp_path) as provider:
                await collect(provider.model(MODELS["chat"]), request())
                _, failed = await failure(provider.model(MODELS["chat"]), request())
        assert len(github.exchanges) == 2
        assert failed.kind == "auth"
        assert "sagent login copilot" in str(failed)

    async def test_parallel_calls_share_exchange(self, github: GitHub, listening: Serve, tmp_path: Path) -> None:
        async with FakeProviderServer([Turn("x")] * 3) as server, listening(github.handle) as address:
            github.api = server.url
            keep(tmp_path, f"http://{address}")
            async with opened(tmp_path) as one, opened(tmp_path) as other:
                calls = [(one, "a"), (one, "b"), (other, "c")]
                await asyncio.gather(
                    *(collect(provider.model(MODELS["chat"]), request(conversation=name)) for provider, name in calls)
                )
        assert len(github.exchanges) == 1

    @later
    async def test_processes_share_exchange(self, github: GitHub, listening: Serve, tmp_path: Path) -> None:
        """The second waits for the first, and finds what it has kept."""
        program = f"""
import asyncio
from sagent.messages import user
from sagent.model import Reply, Request
from sagent.plugins.logins import Copilot

async def main():
    provider = Copilot.from_env()
    async for item in provider.model({MODELS["chat"]!r}).stream(Request("talk", (user("hi"),))):
        if isinstance(item, Reply):
            print(item.message.content)
    await provider.aclose()

asyncio.run(main())
"""
        async with FakeProviderServer([Turn("x")] * 2) as server, listening(github.handle) as address:
            github.api = server.url
            keep(tmp_path, f"http://{address}")
            environ = {**os.environ, "HOME": str(tmp_path)}
            environ.pop("XDG_CONFIG_HOME", None)
            github.pause.clear()
            running = [
                await asyncio.create_subprocess_exec(
                    sys.executable, "-c", program, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
                )
                for _ in range(2)
            ]
            while "/copilot_internal/v2/token" not in github.paths:
                assert all(each.returncode is None for each in running)
                await asyncio.sleep(0.02)
            github.pause.set()
            said = [await process.communicate() for process in running]
        assert [out.strip() for out, _ in said] == [b"x", b"x"], said
        assert len(github.exchanges) == 1

    async def test_account_without_copilot_explained(self, github: GitHub, listening: Serve, tmp_path: Path) -> None:
        github.refusal = 403, {"message": "not signed up", "error_details": {"notification_id": "not_signed_up"}}
        async with listening(github.handle) as address:
            keep(tmp_path, f"http://{address}")
            async with opened(tmp_path) as provider:
                _, failed = await failure(provider.model(MODELS["chat"]), request())
        assert (failed.kind, failed.retryable) == ("permission", False)
        assert "github.com/settings/copilot" in str(failed)

    async def test_revoked_login_asks_again(self, github: GitHub, listening: Serve, tmp_path: Path) -> None:
        github.refusal = 401, {"message": f"Bad credentials: {ACCOUNT}"}
        async with listening(github.handle) as address:
            keep(tmp_path, f"http://{address}")
            async with opened(tmp_path) as provider:
                _, failed = await failure(provider.model(MODELS["chat"]), request())
        assert failed.kind == "auth"
        assert "sagent login copilot" in str(failed)
        assert ACCOUNT not in str(failed)

    async def test_account_token_without_exchange(self, github: GitHub, listening: Serve, tmp_path: Path) -> None:
        github.refusal = 404, {"message": "Not Found"}
        async with FakeProviderServer([Turn("x")]) as server, listening(github.handle) as address:
            github.api = server.url
            keep(tmp_path, f"http://{address}")
            async with opened(tmp_path) as provider:
                await collect(provider.model(MODELS["chat"]), request())
        assert calls(server)[0].headers["authorization"] == f"Bearer {ACCOUNT}"

    async def test_errors_hide_tokens(self, github: GitHub, listening: Serve, tmp_path: Path) -> None:
        refusal = Fail(400, message="tid=0ld0ld0ld;exp=1 is not liked")
        async with FakeProviderServer([refusal]) as server, listening(github.handle) as address:
            keep(tmp_path, f"http://{address}", api=server.url, until=time.time() + 1_000)
            async with opened(tmp_path) as provider:
                _, failed = await failure(provider.model(MODELS["chat"]), request())
        assert "0ld0ld" not in str(failed)

    async def test_known_list_without_listing(self, github: GitHub, listening: Serve, tmp_path: Path) -> None:
        github.models = [{"id": "x", "capabilities": {"y": "z" * 1_100_000}}]  # a file with it would not be read again
        async with listening(github.handle) as address:
            github.api = f"http://{address}"
            path = keep(tmp_path, f"http://{address}")
            async with opened(tmp_path) as provider:
                await provider.renewal.fresh("")
                assert provider.model(MODELS["responses"]).limits.window == 336_000
        assert path.stat().st_size < 100_000

    @pytest.mark.parametrize("api", ["http://elsewhere.example", "ftp://x", "", "javascript:x"])
    async def test_token_never_sent_unencrypted(
        self, api: str, github: GitHub, listening: Serve, tmp_path: Path
    ) -> None:
        github.api = api
        async with listening(github.handle) as address:
            path = keep(tmp_path, f"http://{address}")
            async with opened(tmp_path) as provider:
                await provider.renewal.fresh("")
        assert json.loads(path.read_text())["api"].startswith("https://copilot-api.")

    async def test_company_host_addresses(self, tmp_path: Path) -> None:
        """Nothing can be asked there from here: what would go out is caught."""
        asked: list[str] = []

        class Caught(DirectTransport):
            async def get(self, url: str, headers: Mapping[str, str]) -> Answer:
                asked.append(url)
                raise ExchangeFailed("network", "caught", final=True)

        keep(tmp_path, "https://company.ghe.com")
        account = Account.find({"HOME": str(tmp_path)})
        provider = Copilot(account, transport=Caught())
        await failure(provider.model(MODELS["chat"]), request())
        assert asked == ["https://api.company.ghe.com/copilot_internal/v2/token"]

    async def test_full_disk_keeps_calls_working(
        self, github: GitHub, listening: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(_: Path, data: bytes) -> None:
            del data
            raise OSError(28, "No space left on device")

        async with FakeProviderServer([Turn("x")]) as server, listening(github.handle) as address:
            github.api = server.url
            path = keep(tmp_path, f"http://{address}")
            before = path.read_text()
            monkeypatch.setattr("sagent.plugins.logins.copilot_login.put", full)
            async with opened(tmp_path) as provider:
                await collect(provider.model(MODELS["chat"]), request())
        assert path.read_text() == before

    @pytest.mark.needs("not-root")
    async def test_unsaved_login_still_used(self, github: GitHub, listening: Serve, tmp_path: Path) -> None:
        async with FakeProviderServer([Turn("x")]) as server, listening(github.handle) as address:
            github.api = server.url
            path = keep(tmp_path, f"http://{address}")
            before = path.read_text()
            path.parent.chmod(0o500)
            try:
                async with opened(tmp_path) as provider:
                    _, reply = await collect(provider.model(MODELS["chat"]), request())
            finally:
                path.parent.chmod(0o700)
            assert (reply.message.content, path.read_text()) == ("x", before)


class TestRequest:
    @pytest.mark.parametrize(
        ("messages", "conversation", "initiator"),
        [
            ((user("hi"),), "s:root", "user"),
            ((user("hi", sender="root"),), "s:root/child", "agent"),
            ((user("sum up"),), "s:root:compactor", "agent"),
            (
                (
                    user("hi"),
                    Message("assistant", (ToolCall("c1", "Read"),), model="copilot/gpt-4.1"),
                    Message("user", (ToolResult("c1", (Text("x"),)),)),
                ),
                "s:root",
                "agent",
            ),
        ],
        ids=["a person", "another agent", "the compactor", "a result"],
    )
    async def test_initiator_sent(
        self, messages: tuple[Message, ...], conversation: str, initiator: str, tmp_path: Path
    ) -> None:
        async with FakeProviderServer([Turn("x")]) as server:
            keep(tmp_path, "https://github.com", api=server.url, until=time.time() + 1_000)
            async with opened(tmp_path) as provider:
                await collect(provider.model(MODELS["chat"]), request(*messages, conversation=conversation))
        assert server.requests[0].headers["x-initiator"] == initiator
        assert "copilot-vision-request" not in server.requests[0].headers

    async def test_images_announced_to_vision_models(self, tmp_path: Path) -> None:
        shown = user("look", Image("image/png", b"\x89PNG"))
        async with FakeProviderServer([Turn("x")] * 2) as server:
            keep(tmp_path, "https://github.com", api=server.url, until=time.time() + 1_000)
            async with opened(tmp_path) as provider:
                await collect(provider.model(MODELS["responses"]), request(shown))
                _, reply = await collect(provider.model(MODELS["chat"]), request(shown))
        seen, blind = server.requests
        assert seen.headers["copilot-vision-request"] == "true"
        assert "copilot-vision-request" not in blind.headers
        assert "does not accept images" in reply.notes[0]

    async def test_unknown_beta_features_left_out(self, tmp_path: Path) -> None:
        script = [Fail(400, message="unsupported beta header(s): thinking-binding-controls"), Turn("x"), Turn("y")]
        async with FakeProviderServer(script) as server:
            keep(tmp_path, "https://github.com", api=server.url, until=time.time() + 1_000)
            async with opened(tmp_path) as provider:
                model = provider.model("claude-sonnet-5.5")
                for _ in range(2):
                    await collect(model, request(effort="high"))
        assert ["anthropic-beta" in asked.headers for asked in server.requests] == [True, False, False]
        assert "block_binding" in json.dumps(server.requests[0].json)
        assert "block_binding" not in json.dumps(server.requests[1].json)
        assert as_object(server.requests[1].json["thinking"])["type"] == "adaptive"

    async def test_signed_reasoning_goes_back(self, tmp_path: Path, raw_server: Callable[..., Any]) -> None:
        """reasoning_opaque, which only Copilot has."""
        call = {"index": 0, "id": "c1", "function": {"name": "Read", "arguments": "{}"}}
        delta = {"reasoning_text": "hm", "reasoning_opaque": "signed", "tool_calls": [call]}
        chunk = json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]}).encode()
        body = b"data: " + chunk + b"\n\ndata: [DONE]\n\n"
        answer = [b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(body), body]
        async with raw_server(answer) as server:
            keep(tmp_path, "https://github.com", api=server.url, until=time.time() + 1_000)
            async with opened(tmp_path) as provider:
                model = provider.model(MODELS["chat"])
                _, reply = await collect(model, request())
                result = Message("user", (ToolResult("c1", (Text("x"),)),))
                await collect(model, request(user("hi"), reply.message, result))
        sent = json.loads(server.requests[1].partition(b"\r\n\r\n")[2])["messages"][1]
        assert (sent["reasoning_text"], sent["reasoning_opaque"]) == ("hm", "signed")


class TestModels:
    async def test_plan_models_have_sizes_and_prices(self, github: GitHub, listening: Serve, tmp_path: Path) -> None:
        async with listening(github.handle) as address:
            github.api = f"http://{address}"
            keep(tmp_path, f"http://{address}")
            async with opened(tmp_path) as provider:
                rows = {row.id: row for row in await provider.models()}
        assert list(rows) == ["gpt-5.6-terra", "claude-sonnet-5.5", "gpt-4.1"]
        terra = rows["gpt-5.6-terra"]
        assert terra.usd == {"input": 2, "cache_read": Decimal("0.2"), "output": 12}
        assert (terra.limits.window, terra.limits.max_output) == (336_000, 128_000)  # 272,000 and room for a reply
        assert rows["claude-sonnet-5.5"].name == "Claude Sonnet 5.5 (premium requests: 1.25)"
        assert rows["gpt-4.1"].name == "GPT-4.1 (included)"

    async def test_efforts_from_list(self, tmp_path: Path) -> None:
        async with FakeProviderServer([Turn("x")]) as server:
            keep(tmp_path, "https://github.com", api=server.url, until=time.time() + 1_000)
            async with opened(tmp_path) as provider:
                _, reply = await collect(provider.model("gpt-5.6-terra"), request(effort="max"))
        assert as_object(server.requests[0].json["reasoning"])["effort"] == "high"
        assert reply.notes == ("gpt-5.6-terra has no effort max: high is used",)

    @pytest.mark.parametrize(
        ("model", "end"),
        [
            ("claude-opus-9", "/v1/messages"),
            ("gpt-7", "/responses"),
            ("gpt-5.1-codex-mini", "/responses"),
            ("gpt-5-mini", "/chat/completions"),
            ("gemini-9", "/chat/completions"),
        ],
    )
    async def test_unlisted_model_known_by_name(self, model: str, end: str, tmp_path: Path) -> None:
        async with FakeProviderServer([Turn("x")]) as server:
            keep(tmp_path, "https://github.com", api=server.url, until=time.time() + 1_000, models=[])
            async with opened(tmp_path) as provider:
                await collect(provider.model(model), request())
        assert server.requests[0].path == end

    def test_credits_priced_as_listed(self) -> None:
        usage = Usage(input=1_000_000, output=1_000_000)
        assert PriceBook().price("copilot", "gpt-5.6-terra", usage) == Decimal(22)


class TestNoLogin:
    def test_missing_login_explained(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="Run `sagent login copilot`"):
            Copilot.from_env(environ={"HOME": str(tmp_path)})

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"github_token": 7}', "\udcff", "[" * 100_000])
    def test_malformed_login_file_explained(self, text: str, tmp_path: Path) -> None:
        path = keep(tmp_path, "https://github.com")
        path.write_text(text, errors="surrogateescape")
        with pytest.raises(UsageError, match="Run `sagent login copilot`"):
            Copilot.from_env(environ={"HOME": str(tmp_path)})

    async def test_environment_token_needs_no_file(self, github: GitHub, listening: Serve, tmp_path: Path) -> None:
        environ = {"HOME": str(tmp_path), "COPILOT_GITHUB_TOKEN": ACCOUNT}
        async with aclosing(Copilot.from_env(environ=environ)) as provider:
            assert provider.model("gpt-7").id == "gpt-7"
        assert not list(tmp_path.iterdir())
        with pytest.raises(UsageError, match="characters that a key cannot have"):
            provider_named("copilot", key="a b")
        with pytest.raises(UsageError, match="not an SDK"):
            provider_named("copilot", key=ACCOUNT, transport="sdk")

    def test_export_hides_tokens(self, github: GitHub) -> None:
        text, _ = redact(f"authorization: Bearer {github.token}\ntoken {github.token} and {ACCOUNT}")
        assert "abcdef" not in text
        assert "5e4d3c2b1a" not in text
        assert ACCOUNT not in text


async def test_tool_call_over_each_api(tmp_path: Path) -> None:
    """By each API: the call of one model, its result, and what another makes of it."""
    turns = [Turn(calls=(Call("Read", {"path": "x"}),)), Turn("read")] * 3
    async with FakeProviderServer(turns) as server:
        keep(tmp_path, "https://github.com", api=server.url, until=time.time() + 1_000)
        async with opened(tmp_path) as provider:
            messages = [user("hi")]
            for name in MODELS.values():
                _, reply = await collect(provider.model(name), request(*messages))
                messages += [reply.message]
                messages += [Message("user", tuple(ToolResult(c.id, (Text("x"),)) for c in reply.message.calls))]
                _, reply = await collect(provider.model(name), request(*messages))
                messages += [reply.message, user("again")]
    assert [asked.path for asked in server.requests] == [end for end in ENDS.values() for _ in range(2)]
