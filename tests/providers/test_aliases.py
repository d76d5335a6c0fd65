"""Short names of models: what they stand for, whose come first, and where they are only a server's own names."""

from pathlib import Path

import pytest

from sagent.app.models import Choice, choose_model
from sagent.config import load
from sagent.cost.prices import PriceBook
from sagent.errors import ConfigError, UsageError
from sagent.model import full_name
from sagent.providers import built_in
from sagent.providers.aliases import newest, own_alias, shipped
from sagent.testing.script import Turn
from sagent.testing.server import FakeProviderServer
from tests.depth import later


def chosen(tmp_path: Path, config: str = "", **given: object) -> Choice:
    (tmp_path / "mine.toml").write_text(config)
    return Choice(load(given, {"HOME": str(tmp_path)}, tmp_path, file=tmp_path / "mine.toml"))


@later
def test_each_alias_has_a_price() -> None:
    book = PriceBook()
    for name in shipped():
        provider, _, model = newest(name, book, ()).partition("/")
        assert provider in built_in()
        assert model in {row.id for row in book.known_models(provider)}, name
        assert name not in built_in(), "a provider is called so"


def test_newest_of_family_by_version() -> None:
    listed = ("gpt-9-terra", "gpt-10.1-terra", "gpt-9.9-terra", "gpt-11-terra-preview", "gpt-2512-terra", "gpt-12-sol")
    book = PriceBook({f"openai/{model}": {"input": 1, "output": 2} for model in listed})
    assert newest("gpt", book, ()) == "openai/gpt-10.1-terra"
    assert newest("GPT", book, ()) == "openai/gpt-10.1-terra"
    assert newest("nobody", book, ()) == ""
    assert newest("grok", PriceBook(), ()) != "xai/grok-4.20"  # which came before 4.3


def test_alias_at_first_provider_with_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "k" * 8)
    assert full_name(chosen(tmp_path).resolve("sonnet")).startswith("openrouter/anthropic/claude-sonnet-")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k" * 8)
    assert full_name(chosen(tmp_path).resolve("Sonnet")).startswith("anthropic/claude-sonnet-")


async def test_named_provider_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "k" * 8)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k" * 8)
    monkeypatch.setenv("GROQ_API_KEY", "k" * 8)
    for provider, model in (("openrouter", "openrouter/anthropic/claude-opus-"), ("groq", "groq/opus")):
        choice = await choose_model(load({"model": "opus", "provider": provider}, {"HOME": str(tmp_path)}, tmp_path))
        assert full_name(choice.model).startswith(model)
        await choice.aclose()


def test_missing_key_is_the_providers_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No key for anthropic: set ANTHROPIC_API_KEY"):
        chosen(tmp_path).resolve("haiku")


async def test_own_server_may_have_that_model(tmp_path: Path) -> None:
    config = '[aliases]\nquick = "qwen3:8b"\n'
    async with FakeProviderServer([Turn(text="ok")], require_key=False) as server:
        for name, model in (("sonnet", "sonnet"), ("quick", "qwen3:8b")):
            (tmp_path / "mine.toml").write_text(config)
            given = {"model": name, "base_url": f"{server.url}/v1"}
            choice = await choose_model(load(given, {"HOME": str(tmp_path)}, tmp_path, file=tmp_path / "mine.toml"))
            assert full_name(choice.model) == f"openai-compatible/{model}"
            assert choice.resolve("gpt").id == "gpt"
            await choice.aclose()


@later
def test_own_aliases_come_first_and_nest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k" * 8)
    config = '[aliases]\nwork = "opus"\nsonnet = "anthropic/claude-sonnet-4-6"\nMine = "work"\n'
    choice = chosen(tmp_path, config)
    assert choice.resolve("sonnet").id == "claude-sonnet-4-6"
    assert choice.resolve("mine") is not choice.resolve("work")
    assert choice.resolve("mine").id == choice.resolve("opus").id
    assert own_alias("a", {"a": "b", "b": "a"}) == "a"


@pytest.mark.parametrize("table", ['a = "b"\nb = "a"', 'a = "a"', "a = 1", 'a = ""', '"a/b" = "c"'])
def test_bad_alias_is_refused_with_line(table: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"mine\.toml:\d"):
        chosen(tmp_path, f"[aliases]\n{table}")


def test_aliases_work_for_fallback_and_compactor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k" * 8)
    choice = chosen(tmp_path, fallback="haiku,opus", compactor="haiku")
    assert [model.id.split("-")[1] for model in choice.fallbacks()] == ["haiku", "opus"]
    compactor = choice.compactor()
    assert compactor is not None
    assert compactor.id == choice.resolve("haiku").id
