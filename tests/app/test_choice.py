"""Which model answers: what was asked for, what there is a key for, what runs on this machine."""

from pathlib import Path

import pytest

from sagent.agent import Agent
from sagent.app import choice as choices
from sagent.app.choice import choose_model, split_model
from sagent.config import load
from sagent.errors import UsageError
from sagent.providers.rows import Row
from sagent.testing.server import FakeProviderServer, Listed, Turn


@pytest.mark.parametrize(
    ("name", "provider", "expected"),
    [
        ("anthropic/claude-x", None, ("anthropic", "claude-x")),
        ("claude-x", None, ("anthropic", "claude-x")),
        ("gpt-9", None, ("openai", "gpt-9")),
        ("kimi-k9", None, ("moonshot", "kimi-k9")),
        ("qwen9-plus", None, ("dashscope", "qwen9-plus")),
        ("MiniMax-M9", None, ("minimax", "MiniMax-M9")),
        ("openrouter/anthropic/claude-x", None, ("openrouter", "anthropic/claude-x")),
        ("anthropic/claude-x", "openrouter", ("openrouter", "anthropic/claude-x")),
        ("mine/x", None, ("mine", "x")),
        ("Qwen/Qwen9", "openai-compatible", ("openai-compatible", "Qwen/Qwen9")),
        ("nobody-knows", None, (None, "nobody-knows")),
    ],
)
def test_names(name: str, provider: str | None, expected: tuple[str | None, str]) -> None:
    assert split_model(name, provider, {"mine": Row("mine")}) == expected


async def test_a_model_of_an_unknown_provider_says_how_to_name_it(tmp_path: Path) -> None:
    settings = load({"model": "nobody-knows"}, {"HOME": str(tmp_path)}, tmp_path)
    with pytest.raises(UsageError, match="provider/model"):
        await choose_model(settings)


async def test_a_local_server_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeProviderServer([], models=[Listed("local-model")], require_key=False) as server:
        monkeypatch.setattr(choices, "LOCAL_SERVERS", {"Dead": "http://127.0.0.1:9/v1", "Live": f"{server.url}/v1"})
        choice = await choose_model(load({}, {"HOME": str(tmp_path)}, tmp_path))
        assert (choice.model.provider, choice.model.id) == ("openai-compatible", "local-model")
        await choice.aclose()


async def test_nothing_at_all_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "LOCAL_SERVERS", {"Dead": "http://127.0.0.1:9/v1"})
    with pytest.raises(UsageError, match=r"ANTHROPIC_API_KEY(.|\n)*sagent demo"):
        await choose_model(load({}, {"HOME": str(tmp_path)}, tmp_path))


async def test_a_resumed_session_keeps_its_model_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "k")
    environ = {"HOME": str(tmp_path)}
    kept = await choose_model(load({}, environ, tmp_path), "openai/gpt-5.5")
    assert (kept.model.provider, kept.model.id) == ("openai", "gpt-5.5")
    told = await choose_model(load({"model": "claude-x"}, environ, tmp_path), "openai/gpt-5.5")
    assert told.model.provider == "anthropic"
    for choice in (kept, told):
        await choice.aclose()


@pytest.mark.parametrize(
    ("family", "path"), [("anthropic", ""), ("responses", "/v1"), ("google", ""), ("openai", "/v1")]
)
async def test_a_provider_of_ones_own_may_speak_any_family(tmp_path: Path, family: str, path: str) -> None:
    async with FakeProviderServer([Turn(text="ok")]) as server:
        file = tmp_path / "config.toml"
        file.write_text(f'[providers.acme]\nbase_url = "{server.url}{path}"\napi_key = "k"\nfamily = "{family}"\n')
        choice = await choose_model(
            load({"model": "acme/m"}, {"HOME": str(tmp_path), "SAGENT_CONFIG": str(file)}, tmp_path)
        )
        assert (await Agent(choice.model).run("hi")).content == "ok"
        assert server.requests[0].family == ("chat" if family == "openai" else family)
        await choice.aclose()


async def test_a_provider_of_ones_own(tmp_path: Path) -> None:
    async with FakeProviderServer([]) as server:
        path = tmp_path / "config.toml"
        path.write_text(f'[providers.acme]\nbase_url = "{server.url}/v1"\napi_key = "${{ACME}}"\n')
        environ = {"HOME": str(tmp_path), "SAGENT_CONFIG": str(path), "ACME": "secret"}
        choice = await choose_model(load({"model": "acme/large"}, environ, tmp_path))
        assert (choice.model.provider, choice.model.id) == ("acme", "large")
        assert [info.id for info in await choice.provider("acme").models()] == ["fake-model"]
        assert server.requests[0].headers["authorization"] == "Bearer secret"
        await choice.aclose()
