"""A ChatGPT plan by the login of `codex`: the promises of a Model, and those about the login."""

import asyncio
import base64
import contextlib
import json
import os
import signal
import stat
import subprocess
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sagent.errors import ModelErrorKind, UsageError
from sagent.messages import user
from sagent.model import Model, Request
from sagent.plugins.logins import codex_login
from sagent.plugins.logins.openai_subscription import OpenAISubscription
from sagent.testing.model_suite import OpenModel, ServedModelSuite, ask, collect, failure
from sagent.testing.script import Fail, Raw, Turn
from sagent.testing.server import FakeProviderServer

MODEL = "gpt-5.6-terra"
CLAIMS = {"https://api.openai.com/auth": {"chatgpt_account_id": "acc-1", "chatgpt_plan_type": "plus"}}

Serve = Callable[..., AbstractAsyncContextManager[Any]]


def token(name: str, *, lasts: float | None = 86_400.0, **claims: object) -> str:
    """A JSON web token that runs out in so many seconds."""
    end = {} if lasts is None else {"exp": int(time.time() + lasts)}
    parts = ({"alg": "none"}, {**CLAIMS, **end, "jti": name, **claims})
    coded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
    return ".".join((*coded, "signature"))


def log_in(home: Path, access: str, **members: object) -> Path:
    """auth.json as `codex login` writes it."""
    home.mkdir(parents=True, exist_ok=True)
    path = home / "auth.json"
    tokens = {"id_token": token("id"), "access_token": access, "refresh_token": "rt-1", "account_id": "acc-1"}
    fields = {
        "auth_mode": "chatgpt",
        "OPENAI_API_KEY": None,
        "tokens": tokens,
        "last_refresh": "2026-11-21T15:27:42.811873682Z",
    }
    path.write_text(json.dumps({**fields, **members}))
    path.chmod(0o600)
    return path


def http(status: int, body: object) -> list[bytes]:
    data = json.dumps(body).encode()
    return [
        b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(data)),
        data,
    ]


def renewed(name: str = "new") -> list[bytes]:
    return http(200, {"id_token": token("id2"), "access_token": token(name), "refresh_token": "rt-2"})


def bearers(server: FakeProviderServer) -> list[str]:
    """Whose tokens the requests carried, by the tokens' names."""
    payloads = [request.headers["authorization"].split(".")[1] for request in server.requests]
    return [json.loads(base64.urlsafe_b64decode(part + "==="))["jti"] for part in payloads]


def request(**members: Any) -> Request:
    return Request("talk", (user("hi"),), **members)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """CODEX_HOME."""
    return tmp_path / "codex"


@asynccontextmanager
async def opened(home: Path, url: str, tokens: str = "http://127.0.0.1:9/") -> AsyncGenerator[OpenAISubscription]:
    environ = {"CODEX_HOME": str(home), "CODEX_REFRESH_TOKEN_URL_OVERRIDE": f"{tokens}/oauth/token"}
    async with aclosing(OpenAISubscription.from_credentials(base_url=url, environ=environ)) as provider:
        yield provider


class TestOpenAISubscription(ServedModelSuite):
    """The promises of a Model."""

    @pytest.fixture
    def open_model(self, home: Path) -> OpenModel:
        log_in(home, token("a"))

        @asynccontextmanager
        async def made(url: str) -> AsyncGenerator[Model]:
            async with opened(home, url) as provider:
                yield provider.model(MODEL)

        return made

    async def test_the_output_limit_reaches_the_provider(self, open_model: OpenModel) -> None:
        """It does not: the endpoint refuses a request that has one. That is said, once."""
        async with FakeProviderServer([Turn("x")] * 2) as server, open_model(server.url) as model:
            notes = [(await collect(model, ask(max_output=77)))[1].notes for _ in range(2)]
        assert "max_output_tokens" not in server.requests[0].json
        assert notes == [("a ChatGPT plan takes no output limit: that of 77 tokens was left out",), ()]


class TestRequest:
    async def test_request_fits_endpoint(self, home: Path) -> None:
        """Stored nowhere, with instructions, with the account's and the conversation's names (codex 0.150.0)."""
        log_in(home, token("a"))
        async with FakeProviderServer([Turn("x")] * 3) as server, opened(home, server.url) as provider:
            model = provider.model(MODEL)
            await collect(model, request(system="Be terse."))
            await collect(model, request())
            await collect(model, Request("other", (user("hi"),)))
        first, second, third = server.requests
        assert (first.json["store"], first.json["stream"], first.json["instructions"]) == (False, True, "Be terse.")
        assert first.json["include"] == ["reasoning.encrypted_content"]
        assert second.json["instructions"]
        assert first.headers["chatgpt-account-id"] == "acc-1"
        assert first.headers["originator"] == "sagent"
        assert first.headers["session-id"] == second.headers["session-id"] != third.headers["session-id"]

    async def test_plan_window_used(self, home: Path) -> None:
        log_in(home, token("a"))
        async with opened(home, "http://127.0.0.1:9") as provider:
            assert provider.model("gpt-5.6-terra").limits.window == 272_000
            assert provider.model("gpt-77").limits.window == 272_000

    async def test_models_from_plan(self, home: Path, raw_server: Serve) -> None:
        log_in(home, token("a"))
        listed = [
            {"slug": "gpt-9", "display_name": "GPT-9", "context_window": 500_000, "visibility": "list"},
            {"slug": "gpt-secret", "visibility": "hide"},
        ]
        async with raw_server(http(200, {"models": listed})) as server, opened(home, server.url) as provider:
            rows = await provider.models()
        assert [(row.id, row.name, row.limits.window) for row in rows] == [("gpt-9", "GPT-9", 500_000)]
        assert b"/models?client_version=" in server.requests[0]


class TestLimits:
    @pytest.mark.parametrize(
        ("error", "kind", "wait"),
        [
            ({"type": "usage_limit_reached", "resets_in_seconds": 13_872}, "rate_limit", 13_872),
            ({"type": "usage_limit_reached", "resets_at": int(time.time()) + 7_200}, "rate_limit", 7_200),
            ({"type": "rate_limit_exceeded", "message": "Slow down"}, "rate_limit", None),
            ({"type": "usage_not_included", "message": "Not in your plan"}, "payment", None),
        ],
        ids=["in", "at", "a short one", "not included"],
    )
    async def test_spent_plan_says_when_it_resets(
        self, home: Path, error: dict[str, object], kind: ModelErrorKind, wait: int | None
    ) -> None:
        log_in(home, token("a"))
        step = Fail(429, body={"error": {"plan_type": "plus", "message": "The usage limit has been reached", **error}})
        async with FakeProviderServer([step]) as server, opened(home, server.url) as provider:
            _, failed = await failure(provider.model(MODEL), request())
        assert failed.kind == kind
        assert failed.retry_after is None if wait is None else wait - 3_600 < (failed.retry_after or 0) <= wait

    async def test_html_page_shown_as_error(self, home: Path) -> None:
        log_in(home, token("a"))
        page = Raw(403, body=b"<html><body>Just a moment</body></html>")
        async with FakeProviderServer([page]) as server, opened(home, server.url) as provider:
            _, failed = await failure(provider.model(MODEL), request())
        assert failed.kind == "permission"
        assert "Just a moment" in str(failed)


class TestRenewal:
    async def test_expired_login_renewed_and_saved(self, home: Path, raw_server: Serve) -> None:
        """Whole, for the owner's eyes alone, and with whatever else the file holds."""
        path = log_in(home, token("old", lasts=60), extra={"kept": 1})
        path.chmod(0o644)
        async with FakeProviderServer([Turn("x")]) as server, raw_server(renewed()) as tokens:
            async with opened(home, server.url, tokens.url) as provider:
                await collect(provider.model(MODEL), request())
            assert bearers(server) == ["new"]
            sent = json.loads(tokens.requests[0].partition(b"\r\n\r\n")[2])
        assert (sent["grant_type"], sent["refresh_token"]) == ("refresh_token", "rt-1")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        kept = json.loads(path.read_text())
        assert (kept["tokens"]["refresh_token"], kept["tokens"]["account_id"]) == ("rt-2", "acc-1")
        assert (kept["auth_mode"], kept["extra"]) == ("chatgpt", {"kept": 1})
        assert kept["last_refresh"] > "2026-11-21T15:27"
        assert sorted(entry.name for entry in home.iterdir()) == ["auth.json", "auth.json.lock"]

    async def test_refused_login_renewed_once(self, home: Path, raw_server: Serve) -> None:
        log_in(home, token("old"))
        script = [Fail(401), Turn("x"), Fail(401), Fail(401)]
        async with FakeProviderServer(script) as server, raw_server(renewed(), renewed("newer")) as tokens:
            async with opened(home, server.url, tokens.url) as provider:
                await collect(provider.model(MODEL), request())
                _, failed = await failure(provider.model(MODEL), request())
            assert bearers(server) == ["old", "new", "new", "newer"]
        assert failed.kind == "auth"
        assert "Run `codex login`" in str(failed)

    async def test_refresh_token_spent_once(self, home: Path, raw_server: Serve) -> None:
        """Two calls of one provider, and another provider with the same file, at the same time."""
        log_in(home, token("old", lasts=60))
        slow = [0.2, *renewed()]
        async with FakeProviderServer([Turn("x")] * 3) as server, raw_server(slow) as tokens:
            async with opened(home, server.url, tokens.url) as one, opened(home, server.url, tokens.url) as other:
                calls = [(one, "a"), (one, "b"), (other, "c")]
                await asyncio.gather(
                    *(collect(provider.model(MODEL), Request(name, (user("hi"),))) for provider, name in calls)
                )
            assert len(tokens.requests) == 1
            assert bearers(server) == ["new"] * 3

    async def test_renewal_by_program_used(self, home: Path) -> None:
        """Nothing is spent where another's work will do."""
        log_in(home, token("old", lasts=60))
        async with FakeProviderServer([Turn("x")]) as server, opened(home, server.url) as provider:
            log_in(home, token("the program's"))
            await collect(provider.model(MODEL), request())
            assert bearers(server) == ["the program's"]

    async def test_renewal_by_other_program_used(self, home: Path, listening: Serve) -> None:
        """Ours is then refused as spent."""
        log_in(home, token("old", lasts=60))

        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            log_in(home, token("the program's"))
            writer.write(b"".join(http(401, {"error": {"code": "refresh_token_reused"}})))
            await writer.drain()

        async with FakeProviderServer([Turn("x")]) as server, listening(refuse) as address:
            async with opened(home, server.url, f"http://{address}") as provider:
                await collect(provider.model(MODEL), request())
            assert bearers(server) == ["the program's"]

    async def test_refused_renewal_says_next_step(self, home: Path, raw_server: Serve) -> None:
        path = log_in(home, token("old", lasts=-10))
        before = path.read_text()
        refused = http(401, {"error": {"code": "refresh_token_reused", "message": "already used"}})
        async with raw_server(refused) as tokens, opened(home, "http://127.0.0.1:9", tokens.url) as provider:
            _, failed = await failure(provider.model(MODEL), request())
        assert failed.kind == "auth"
        assert "refresh_token_reused" in str(failed)
        assert "Run `codex login`" in str(failed)
        assert path.read_text() == before

    @pytest.mark.parametrize(
        ("answer", "kind"),
        [(http(503, {"error": "busy"}), "server"), ([None], "network"), (http(200, {"nothing": 1}), "server")],
        ids=["busy", "hung up", "no token"],
    )
    async def test_failed_renewal_retryable(
        self, home: Path, raw_server: Serve, answer: list[bytes], kind: ModelErrorKind
    ) -> None:
        log_in(home, token("old", lasts=-10))
        async with FakeProviderServer([Turn("x")]) as server, raw_server(answer, renewed()) as tokens:
            async with opened(home, server.url, tokens.url) as provider:
                _, failed = await failure(provider.model(MODEL), request())
                assert (failed.kind, failed.retryable) == (kind, True)
                await collect(provider.model(MODEL), request())
            assert bearers(server) == ["new"]

    async def test_renewal_outlives_cancellation(self, home: Path, raw_server: Serve) -> None:
        """Half of one would lose the login: the token is spent, and its successor not kept."""
        path = log_in(home, token("old", lasts=-10))
        async with raw_server([0.3, *renewed()]) as tokens, opened(home, "http://127.0.0.1:9", tokens.url) as provider:
            call = asyncio.create_task(failure(provider.model(MODEL), request()))
            while not tokens.requests:
                await asyncio.sleep(0.01)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        assert json.loads(path.read_text())["tokens"]["refresh_token"] == "rt-2"

    async def test_without_lock_nothing_spent(self, home: Path, raw_server: Serve) -> None:
        log_in(home, token("old", lasts=-10))
        (home / "auth.json.lock").mkdir()
        async with raw_server(renewed()) as tokens, opened(home, "http://127.0.0.1:9", tokens.url) as provider:
            _, failed = await failure(provider.model(MODEL), request())
        assert failed.kind == "auth"
        assert not tokens.requests

    @pytest.mark.needs("not-root")
    async def test_unsaveable_renewal_not_spent(self, home: Path, raw_server: Serve) -> None:
        log_in(home, token("old", lasts=-10))
        home.chmod(0o500)
        try:
            async with raw_server(renewed()) as tokens, opened(home, "http://127.0.0.1:9", tokens.url) as provider:
                _, failed = await failure(provider.model(MODEL), request())
            assert failed.kind == "auth"
            assert not tokens.requests
        finally:
            home.chmod(0o700)

    async def test_linked_file_stays_link(self, home: Path, tmp_path: Path, raw_server: Serve) -> None:
        real = log_in(tmp_path / "elsewhere", token("old", lasts=-10))
        home.mkdir()
        (home / "auth.json").symlink_to(real)
        async with (
            FakeProviderServer([Turn("x")]) as server,
            raw_server(renewed()) as tokens,
            opened(home, server.url, tokens.url) as provider,
        ):
            await collect(provider.model(MODEL), request())
        assert (home / "auth.json").is_symlink()
        assert json.loads(real.read_text())["tokens"]["refresh_token"] == "rt-2"

    async def test_token_without_expiry_lasts_8_days(self, home: Path, raw_server: Serve) -> None:
        log_in(home, "opaque", last_refresh="2020-01-01T00:00:00Z")
        async with FakeProviderServer([Turn("x")]) as server, raw_server(renewed()) as tokens:
            async with opened(home, server.url, tokens.url) as provider:
                await collect(provider.model(MODEL), request())
            assert bearers(server) == ["new"]

    async def test_account_id_from_token(self, home: Path) -> None:
        path = log_in(home, token("a"))
        fields = json.loads(path.read_text())
        del fields["tokens"]["account_id"]
        path.write_text(json.dumps(fields))
        async with FakeProviderServer([Turn("x")]) as server, opened(home, server.url) as provider:
            await collect(provider.model(MODEL), request())
        assert server.requests[0].headers["chatgpt-account-id"] == "acc-1"


class TestNoLogin:
    """What is missing is said, and what to do."""

    def check(self, home: Path, words: str) -> None:
        with pytest.raises(UsageError, match=words):
            OpenAISubscription.from_credentials(environ={"CODEX_HOME": str(home)})

    def test_no_file(self, home: Path) -> None:
        self.check(home, r"npm install -g @openai/codex\), run `codex login`")

    def test_missing_file_in_usual_place(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=str(tmp_path / ".codex" / "auth.json")):
            OpenAISubscription.from_credentials(environ={"HOME": str(tmp_path)})

    @pytest.mark.parametrize("store", ["keyring", "auto"])
    def test_keyring_login_explained(self, home: Path, store: str) -> None:
        home.mkdir()
        (home / "config.toml").write_text(f'cli_auth_credentials_store = "{store}"\n')
        self.check(home, "in the system's keyring")

    def test_api_key_login_explained(self, home: Path) -> None:
        log_in(home, "", auth_mode="apikey", OPENAI_API_KEY="sk-x", tokens=None)
        self.check(home, "Use the provider openai")

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"tokens": {}}', "\udcff"])
    def test_malformed_login_file_explained(self, home: Path, text: str) -> None:
        home.mkdir()
        (home / "auth.json").write_text(text, errors="surrogateescape")
        self.check(home, "Run `codex login`")

    def test_given_key_refused(self) -> None:
        with pytest.raises(UsageError, match="With a key, use openai"):
            OpenAISubscription.from_key("sk-x")


@pytest.mark.needs("codex")
class TestRealProgram:
    """Codex itself, as it is installed."""

    async def test_codex_uses_our_renewed_login(self, home: Path, raw_server: Serve) -> None:
        """And sends the same words for it."""
        log_in(home, token("old", lasts=-10))
        async with FakeProviderServer([Turn("x")]) as server, raw_server(renewed()) as tokens:
            async with opened(home, server.url, tokens.url) as provider:
                await collect(provider.model(MODEL), request())
            ours = server.requests[0].headers
        theirs = await self.asked(home)
        for name in ("authorization", "chatgpt-account-id"):
            assert theirs[name] == ours[name]
        done = subprocess.run(
            ["codex", "login", "status"], env=environ_of(home), capture_output=True, text=True, check=False
        )
        assert "Logged in using ChatGPT" in done.stdout + done.stderr

    async def test_renewal_by_codex_used(self, home: Path, raw_server: Serve) -> None:
        log_in(home, token("old", lasts=-10), last_refresh="2020-01-01T00:00:00Z")
        async with raw_server(renewed("by codex")) as tokens:
            theirs = await self.asked(home, tokens.url)
            assert len(tokens.requests) == 1
            sent = json.loads(tokens.requests[0].partition(b"\r\n\r\n")[2])
        async with FakeProviderServer([Turn("x")]) as server, opened(home, server.url) as provider:
            await collect(provider.model(MODEL), request())
        assert bearers(server) == ["by codex"]
        assert server.requests[0].headers["authorization"] == theirs["authorization"]
        ours = {"client_id": codex_login._CLIENT, "grant_type": "refresh_token", "refresh_token": "rt-1"}
        assert {name: sent[name] for name in ours} == ours

    async def asked(self, home: Path, tokens: str = "http://127.0.0.1:9") -> dict[str, str]:
        """The headers with which the program asks for the plan's models."""
        async with FakeProviderServer([]) as server:
            config = {
                "chatgpt_base_url": f"{server.url}/backend-api",
                "model_provider": "loopback",
                "analytics.enabled": False,
                "otel.metrics_exporter": "none",
            }
            way = f'{{name="OpenAI",base_url="{server.url}/backend-api/codex",wire_api="responses"'
            way += ",requires_openai_auth=true,supports_websockets=false}"
            words = [
                f"-cmodel_providers.loopback={way}",
                *(f"-c{name}={json.dumps(value)}" for name, value in config.items()),
            ]
            environ = {**environ_of(home), "CODEX_REFRESH_TOKEN_URL_OVERRIDE": f"{tokens}/oauth/token"}
            process = await asyncio.create_subprocess_exec(
                *("codex", "exec", "--skip-git-repo-check", *words, "hi"),
                env=environ,
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                async with asyncio.timeout(60):
                    while True:
                        for seen in server.requests:
                            if seen.path.endswith("/codex/models") and "authorization" in seen.headers:
                                return dict(seen.headers)
                        await asyncio.sleep(0.02)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()


def environ_of(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home.parent), "CODEX_HOME": str(home)}
