"""Providers by name, by environment and by model; rows of data; limits."""

import subprocess
import sys
from typing import Any

import pytest

from sagent import providers
from sagent.errors import ConfigError, UsageError
from sagent.messages import user
from sagent.model import ModelLimits, Request
from sagent.providers import (
    Anthropic,
    DashScope,
    Google,
    MiniMax,
    Moonshot,
    OpenAI,
    OpenAICompatible,
    built_in,
    infer,
    provider_named,
    read_rows,
)
from sagent.providers.families.anthropic.provider import messages_url
from sagent.providers.families.openai_endpoint import api_root
from sagent.providers.limits import known_models, limits_of
from sagent.providers.registry import row_called, row_named


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("claude-opus-5-5", "anthropic"),
        ("gpt-5.6-terra", "openai"),
        ("chatgpt-4o-latest", "openai"),
        ("o3-mini", "openai"),
        ("o4-mini", "openai"),
        ("kimi-k2.6", "moonshot"),
        ("moonshot-v1-8k", "moonshot"),
        ("qwen3.6-plus", "dashscope"),
        ("Qwen3-Max", "dashscope"),
        ("MiniMax-M2.7", "minimax"),
        ("llama-3", None),
        ("", None),
    ],
)
def test_provider_inferred_from_model(model: str, provider: str | None) -> None:
    assert infer(model) == provider


def test_missing_key_is_named() -> None:
    for kind, variable in ((OpenAI, "OPENAI"), (Moonshot, "MOONSHOT"), (DashScope, "DASHSCOPE"), (MiniMax, "MINIMAX")):
        with pytest.raises(UsageError, match=f"set {variable}_API_KEY"):
            kind.from_env(environ={})
        assert kind.from_env(environ={f"{variable}_API_KEY": "k" * 8}).name == variable.lower()
    with pytest.raises(UsageError, match="ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN"):
        Anthropic.from_env(environ={"ANTHROPIC_API_KEY": " "})
    with pytest.raises(UsageError, match="OPENAI_COMPATIBLE_BASE_URL"):
        OpenAICompatible.from_env(environ={"OPENAI_COMPATIBLE_API_KEY": "k" * 8})
    with pytest.raises(UsageError, match="OPENAI_COMPATIBLE_API_KEY"):
        OpenAICompatible.from_env(environ={"OPENAI_COMPATIBLE_BASE_URL": "https://models.example"})


@pytest.mark.parametrize(
    ("model", "at", "provider"),
    [
        ("kimi-k2", "https://api.moonshot.cn/v1", "moonshot"),
        ("qwen-plus", "https://dashscope-us.aliyuncs.com/compatible-mode/v1", "dashscope"),
        ("grok-4", "https://api.x.ai/v1", "xai"),
        ("qwen-plus", "https://api.stranger.example/v1", None),
        ("gemma-3-270m-it", "http://127.0.0.1:8080", None),
        ("gemma-3n-e4b-it", "https://generativelanguage.googleapis.com", "google"),
        ("gpt-oss-20b", "http://127.0.0.1:8080/v1", None),
        ("gemini-3.1-pro-preview", "http://127.0.0.1:8080", "google"),
        ("gpt-5.5", "http://127.0.0.1:8080/v1", "openai"),
        ("kimi-k2", "http://localhost:8000/v1", None),
        ("gpt-5.5", "https://gateway.example/v1", "openai"),  # its protocol is what the gateway is there for
        ("claude-opus-4-6", "http://localhost:4000", "anthropic"),
    ],
)
def test_strangers_server_gets_no_maker_key(model: str, at: str, provider: str | None) -> None:
    assert infer(model, at=at) == provider


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_local_server_needs_no_key(host: str) -> None:
    url = f"http://{host}:8080"
    assert OpenAICompatible.from_env(environ={"OPENAI_COMPATIBLE_BASE_URL": url}).url == f"{url}/v1"
    assert Anthropic.from_env(environ={"ANTHROPIC_BASE_URL": url}).access.base_url == url


def test_own_remote_server_needs_no_key() -> None:
    found = provider_named("ollama", environ={"OLLAMA_BASE_URL": "http://nas.example:11434"})
    assert found.name == "ollama"
    with pytest.raises(UsageError, match=r"OPENAI_COMPATIBLE_API_KEY \(any word, if it needs none\)"):
        provider_named("openai-compatible", environ={"OPENAI_COMPATIBLE_BASE_URL": "http://nas.example"})
    with pytest.raises(UsageError, match="No key"):  # a name, and not an address of this machine
        provider_named("openai-compatible", environ={"OPENAI_COMPATIBLE_BASE_URL": "http://127.example"})


def test_bad_key_address_or_way_is_refused() -> None:
    with pytest.raises(UsageError, match="The key for openai is empty"):
        OpenAI.from_key("")
    with pytest.raises(UsageError, match="give its base_url with the key"):
        OpenAICompatible.from_key("k" * 8)
    with pytest.raises(UsageError, match="auth is one of key, bearer, credentials, not 'oauth'"):
        OpenAI.from_key("k" * 8, auth="oauth")
    with pytest.raises(UsageError, match="transport is direct or sdk, not 'grpc'"):
        OpenAI.from_key("k" * 8, transport="grpc")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("key", ["sk-a\nb", "sk a", "schlüssel"])
def test_unsendable_key_is_refused_unshown(key: str) -> None:
    with pytest.raises(UsageError) as caught:
        OpenAI.from_key(key)
    assert key not in str(caught.value)


@pytest.mark.parametrize("name", ["anthropic", "openai", "groq", "google"])
def test_non_text_key_is_named_not_shown(name: str) -> None:
    wrong: Any = 3_141
    with pytest.raises(UsageError, match=r"^key is int: give a string$"):
        provider_named(name, key=wrong)
    with pytest.raises(UsageError, match=r"^base_url is int: give a string$"):
        provider_named(name, key="k" * 8, base_url=wrong)
    with pytest.raises(UsageError, match=r"^model_id is int: give a string$"):
        provider_named(name, key="k" * 8).model(wrong)


@pytest.mark.parametrize("url", ["models.example", "ftp://models.example", "https://", "http://host:port"])
def test_invalid_base_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="base URL"):
        OpenAI.from_key("k" * 8, base_url=url)


def test_key_header_by_provider() -> None:
    assert Anthropic.from_key("k" * 8).headers()["x-api-key"] == "k" * 8
    bearer = Anthropic.from_env(environ={"ANTHROPIC_AUTH_TOKEN": "t" * 8}).headers()
    assert (bearer["authorization"], "x-api-key" in bearer) == (f"Bearer {'t' * 8}", False)
    both = {"ANTHROPIC_API_KEY": "k" * 8, "ANTHROPIC_AUTH_TOKEN": "t" * 8}
    assert Anthropic.from_env(environ=both).headers()["x-api-key"] == "k" * 8
    assert Anthropic.from_env(environ=both, auth="bearer").headers()["authorization"] == f"Bearer {'t' * 8}"
    only = {"ANTHROPIC_API_KEY": "k" * 8}
    assert Anthropic.from_env(environ=only, auth="bearer").headers()["authorization"] == f"Bearer {'k' * 8}"
    assert OpenAI.from_key("k" * 8).headers() == {"authorization": f"Bearer {'k' * 8}"}
    assert "k" * 8 not in repr(OpenAI.from_key("k" * 8).access)


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/", "https://api.anthropic.com/v1/messages"),
        ("https://api.minimax.io/anthropic/v1/", "https://api.minimax.io/anthropic/v1/messages"),
        ("http://localhost:1/v1/messages", "http://localhost:1/v1/messages"),
    ],
)
def test_messages_url(base: str, url: str) -> None:
    assert messages_url(base) == url


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1"),
        ("https://api.openai.com/v1/", "https://api.openai.com/v1"),
        ("http://localhost:8080", "http://localhost:8080/v1"),
        ("http://localhost:8080/api/paas/v4", "http://localhost:8080/api/paas/v4"),
        ("http://localhost:8080/v1/chat/completions", "http://localhost:8080/v1"),
    ],
)
def test_chats_url(base: str, url: str) -> None:
    assert api_root(base) == url


def test_unknown_provider_suggests_names() -> None:
    with pytest.raises(UsageError, match="Did you mean anthropic"):
        provider_named("antropic")
    with pytest.raises(UsageError, match=r"The providers are .*moonshot"):
        provider_named("zzzzzz")
    for name, owner in (("gemini", "google"), ("kimi", "moonshot"), ("grok", "xai"), ("lm_studio", "lmstudio")):
        with pytest.raises(UsageError, match=f"Did you mean {owner}"):
            provider_named(name)
    assert provider_named("OpenAI_Compatible", base_url="http://localhost:1", environ={}).name == "openai-compatible"


def test_class_names_its_provider() -> None:
    by_class = {
        "AnthropicCLI": "anthropic-cli",
        "OpenAICompatible": "openai-compatible",
        "OpenAISubscription": "openai-subscription",
    }
    homes = {"Batches", "ChatProvider", "ResponsesProvider", "Row", "Timeouts"}  # of no one provider
    for name in providers.__all__:
        if isinstance(getattr(providers, name), type) and name not in homes:
            assert row_named(name).name == by_class.get(name, name.lower())
    assert row_called("x-ai") is row_called("z-ai") is None  # vendors' names elsewhere
    own = read_rows({"anthropiccli": {"base_url": "http://127.0.0.1:1"}}, "here")
    assert row_named("AnthropicCLI", own) is own["anthropiccli"]


def test_own_rows() -> None:
    rows = read_rows(
        {"acme": {"base_url": "https://acme.example/v1", "models": ["acme-"], "max_tokens": "max_completion_tokens"}},
        "x",
    )
    provider = provider_named("acme", rows=rows, environ={"ACME_API_KEY": "k" * 8})
    body = provider.model("acme-1").prepare(Request("c", [user("hi")], max_output=7)).body.data  # pyright: ignore[reportAttributeAccessIssue]
    assert b'"max_completion_tokens":7' in body
    assert infer("acme-1", rows) == "acme"
    claude = read_rows({"own": {"family": "anthropic", "base_url": "https://own.example"}}, "x")
    assert isinstance(provider_named("own", key="k" * 8, rows=claude), Anthropic)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"famly": "chat"}, "famly: unknown; accepted are family"),
        ({"family": "soap"}, "'soap' is not one of anthropic, chat"),
        ({"images": "yes"}, "images: a true or false is needed"),
        ({"models": "x-"}, "models: a list is needed"),
        ({"models": [1]}, "models: a list of strings is needed"),
        ({"reasoning_back": "yes"}, "reasoning_back: 'yes' is not one of"),
        ({"documents": "pdf"}, "documents: 'pdf' is not one of '', file"),
        ({"max_tokens": ""}, "max_tokens: the name of the output limit"),
        ({"id_length": -1}, "id_length: a number of characters"),
        ({"longest_id": 0}, "longest_id: a number of characters"),
    ],
)
def test_wrong_row_is_told_where_and_why(table: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=r"my\.toml: \[acme\]") as caught:
        read_rows({"acme": table}, "my.toml")
    assert words in str(caught.value)


def test_known_server_behind_generic_provider() -> None:
    provider = OpenAICompatible.from_key("k" * 8, base_url="https://api.deepseek.com")
    assert provider.row.quirks == built_in()["deepseek"].quirks
    assert provider.name == "openai-compatible"


def test_limits_by_longest_prefix() -> None:
    assert limits_of("anthropic", "claude-opus-4-6-20260101") == ModelLimits(1_000_000, 128_000)
    assert limits_of("anthropic", "claude-opus-4-20250514") == ModelLimits(200_000, 32_000)
    assert limits_of("openai", "gpt-4o-mini") == ModelLimits(128_000, 16_384)
    assert limits_of("moonshot", "kimi-k2.6") == ModelLimits(262_144, None)
    assert limits_of("openai", "who-knows") == limits_of("acme", "gpt-5") == ModelLimits()
    assert any(info.id == "claude-sonnet-5-5" for info in known_models("anthropic"))


def test_first_request_imports_no_sdk() -> None:
    """Start-up is counted in modules: times are noisy, counts are not."""
    script = """
import asyncio, sys
from sagent.messages import user
from sagent.model import Request
from sagent.providers import Anthropic
async def main():
    model = Anthropic.from_key("key", base_url="http://127.0.0.1:9").model("claude-sonnet-4-6")
    try:
        async for _ in model.stream(Request("c", [user("hi")])):
            pass
    except Exception as error:
        print(type(error).__name__, error.kind)
asyncio.run(main())
heavy = {"anthropic", "openai", "httpx2", "httpcore2", "pydantic", "anyio", "email", "urllib.request", "tomllib"}
print(sorted(heavy & set(sys.modules)), len(sys.modules) < 230)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["ModelError network", "[] True"]


def test_names_exist_before_their_modules() -> None:
    import sagent.providers

    assert set(sagent.providers.__all__) >= {"Anthropic", "OpenAI", "provider_named"}
    with pytest.raises(AttributeError, match="no attribute 'Nobody'"):
        _ = sagent.providers.Nobody


@pytest.mark.parametrize("name", ["openai", "anthropic"])
@pytest.mark.parametrize("url", ["http://host/v1?api-version=1", "http://host/v1#part", "nonsense", "ftp://host"])
def test_pathless_base_url_is_refused(name: str, url: str) -> None:
    with pytest.raises(UsageError, match="is not a base URL"):
        provider_named(name, key="key-for-tests", base_url=url)


@pytest.mark.parametrize("kind", [Moonshot, OpenAICompatible, Google])
def test_provider_without_login_gets_none(kind: type) -> None:
    """The SDK of its family would send it the key of the family's owner."""
    with pytest.raises(UsageError, match="has no login other than its API key"):
        kind.from_credentials(base_url="http://127.0.0.1:1/v1")
