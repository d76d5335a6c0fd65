"""`doctor` asks each provider whether it takes the key, by a request that costs nothing."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sagent.config import load
from sagent.errors import UsageError
from sagent.plugin import Finding
from sagent.plugins.setup.doctor import examine
from sagent.plugins.setup.key import test_key as try_key

LISTED = b'{"data":[{"id":"m"}],"models":[{"name":"models/m"}]}'
GOOD = "good-key-good-key"


@asynccontextmanager
async def serving(status: Mapping[str, int], asked: list[str], wrong: int = 401) -> AsyncGenerator[str]:
    """Serve lists of models; `status` is that of a path's end for any key, or `wrong` for all but the good one."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split(" ", 2)[1].partition("?")[0]
        asked.append(path)
        code = next((code for end, code in status.items() if path.endswith(end)), 200 if GOOD in head else wrong)
        body = LISTED if code == 200 else b'{"error":{"message":"no such %s"}}' % (b"page" if code == 404 else b"key")
        writer.write(b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\nconnection: close\r\n" % code)
        writer.write(b"content-length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def ask(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, provider: str, url: str, key: str, login: str = "sagent login"
) -> Finding:
    names = {"anthropic": "ANTHROPIC", "openai": "OPENAI", "google": "GEMINI", "openrouter": "OPENROUTER"}
    names |= {"groq": "GROQ", "mistral": "MISTRAL"}
    for name in names.values():
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
    monkeypatch.setenv(f"{names[provider]}_API_KEY", key)
    monkeypatch.setenv(f"{names[provider]}_BASE_URL", url)
    settings = load({}, {"HOME": str(tmp_path)}, tmp_path)
    return next(each for each in await examine(settings, login) if each.what == provider)


@pytest.mark.parametrize("provider", ["anthropic", "openai", "google", "groq", "mistral"])
async def test_key_tested(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, provider: str) -> None:
    async with serving({}, []) as url:
        good = await ask(monkeypatch, tmp_path, provider, url, GOOD)
        assert (good.state, good.detail.endswith("and takes the key")) == ("good", True), good
        bad = await ask(monkeypatch, tmp_path, provider, url, "bad-key-bad-key-bad")
        assert bad.state == "bad"
        assert "refuses the key: " in bad.detail
        assert f"with sagent login {provider}." in bad.detail
        inside = await ask(monkeypatch, tmp_path, provider, url, "bad-key-bad-key-bad", login="/login")
        assert f"with /login {provider}." in inside.detail


async def test_public_list_proves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with serving({"/models": 200}, []) as url:
        found = await ask(monkeypatch, tmp_path, "groq", url, GOOD)
    assert found.state == "poor"
    assert "the key could not be tested" in found.detail


async def test_openrouter_key_endpoint_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []
    async with serving({"/models": 200}, asked) as url:
        assert (await ask(monkeypatch, tmp_path, "openrouter", url, GOOD)).state == "good"
        assert (await ask(monkeypatch, tmp_path, "openrouter", url, "bad-key-bad-key-bad")).state == "bad"
    assert {path.rpartition("/")[2] for path in asked} == {"key"}


@pytest.mark.parametrize("other", [429, 500, 404])
async def test_unrefused_wrong_key_proves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, other: int) -> None:
    """The list may be public, and its server busy when it is asked with another key."""
    async with serving({}, [], wrong=other) as url:
        assert (await ask(monkeypatch, tmp_path, "groq", url, GOOD)).state == "poor"


@pytest.mark.parametrize("provider", ["anthropic", "google", "groq", "openrouter"])
@pytest.mark.parametrize("keys", [f"{GOOD},bad-key-bad-key-bad", f"{GOOD},{GOOD}-2,bad-key-bad-key-bad"])
async def test_each_key_is_tested(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, provider: str, keys: str) -> None:
    async with serving({}, []) as url:
        found = await ask(monkeypatch, tmp_path, provider, url, keys)
        assert found.state == "bad"
        number = keys.count(",") + 1
        assert f"(key {number} of {number})" in found.detail
        with pytest.raises(UsageError, match="The key was not saved"):
            await try_key(provider, keys, url, {})
        assert (await ask(monkeypatch, tmp_path, provider, url, f"{GOOD},{GOOD}-2")).state == "good"


@pytest.mark.parametrize(("key", "state"), [(GOOD, "good"), ("bad-key-bad-key-bad", "bad")])
async def test_own_provider_tested(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str, state: str) -> None:
    async with serving({}, []) as url:
        configure(tmp_path, f'[providers.mine]\nbase_url = "{url}"\napi_key = "{key}"\n')
        settings = load({}, {"HOME": str(tmp_path)}, tmp_path)
        found = {each.what: each for each in await examine(settings)}
        assert found["mine"].state == state
        assert "mine" in found["keys"].detail
        if state == "bad":
            assert "api_key in [providers.mine]" in found["mine"].detail


async def test_key_tested_at_its_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with serving({}, []) as url:
        await ask(monkeypatch, tmp_path, "groq", "http://127.0.0.1:1", GOOD)
        configure(tmp_path, f'model = "groq/m"\nbase_url = "{url}"\n')
        settings = load({}, {"HOME": str(tmp_path)}, tmp_path)
        (found,) = [each for each in await examine(settings) if each.what == "groq"]
    assert found.state == "good"


def configure(home: Path, text: str) -> None:
    file = home / ".config/sagent/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    file.chmod(0o600)


@pytest.mark.parametrize(("code", "state"), [(404, "poor"), (500, "bad"), (403, "bad")])
async def test_other_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int, state: str) -> None:
    async with serving({"/models": code}, []) as url:
        assert (await ask(monkeypatch, tmp_path, "groq", url, GOOD)).state == state


async def test_unreachable_server_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = await ask(monkeypatch, tmp_path, "groq", "http://127.0.0.1:1", GOOD)
    assert found.state == "bad"
    assert "127.0.0.1:1 cannot be reached" in found.detail


async def test_login_reports_untested_key(tmp_path: Path) -> None:
    async with serving({"/models": 200}, []) as url:
        assert not await try_key("groq", GOOD, url, {})
    async with serving({}, []) as url:
        assert await try_key("groq", GOOD, url, {})
        with pytest.raises(UsageError, match="The key was not saved"):
            await try_key("mistral", "bad-key-bad-key-bad", url, {})
    pages: list[str] = []
    async with serving({"/models": 200}, pages) as url:
        with pytest.raises(UsageError, match="The key was not saved"):
            await try_key("openrouter", "bad-key-bad-key-bad", url, {})
