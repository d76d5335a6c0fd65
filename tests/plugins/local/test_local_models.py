"""Servers and weights on this machine as the program chooses them."""

import sys
from pathlib import Path
from typing import Any

import pytest

from sagent.app.models import choose_model, split_model
from sagent.errors import UsageError
from sagent.messages import user
from sagent.model import Reply, Request, is_same_model
from sagent.plugins.local.selfhosted import SelfHosted, SelfHostedModel
from sagent.plugins.textcalls.protocols import AdaptiveModel
from sagent.providers import built_in, provider_named
from sagent.providers.families.chat.efforts import effort_members
from sagent.testing.server import FakeProviderServer, Listed, Turn
from tests.plugins.textcalls.test_protocols import SMALL, _settings


@pytest.mark.parametrize("ephemeral", [False, True])
async def test_llama_server_recognized(tmp_path: Path, ephemeral: bool) -> None:
    listed = [Listed("tiny-q4", window=4_096, owner="llamacpp", weights=SMALL)]
    async with FakeProviderServer([], models=listed, require_key=False) as server:
        for _ in range(2):
            choice = await choose_model(_settings(tmp_path, server.url, ephemeral=ephemeral))
            model = choice.model
            assert (model.provider, model.id) == ("llamacpp", "tiny-q4")
            assert isinstance(model, AdaptiveModel) and model.protocol == "text"
            assert choice.limits(model).window == 4_096
            assert is_same_model(model, choice.resolve("llamacpp/tiny-q4")), "a later switch uses the same connections"
            assert choice.prices().ceiling("llamacpp", "tiny-q4") is not None, "it costs nothing, and that is known"
            other = choice.resolve("llamacpp/other")
            assert isinstance(other, AdaptiveModel) and other.protocol == "text", "it answers to any name"
            await choice.aclose()
        asked = sum(request.path.endswith("/models") for request in server.requests)
        assert asked == (2 if ephemeral else 1)


async def test_own_file_tells_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tiny-1b.gguf", "large-70b.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    monkeypatch.setenv("LLAMA_CPP_SERVER", sys.executable)
    for name, protocol in (("tiny-1b", "text"), ("large-70b", "native")):
        monkeypatch.setenv("LLAMA_CPP_MODEL", str(tmp_path / f"{name}.gguf"))
        for asked in ("llamacpp/other", f"llamacpp/{name}"):
            choice = await choose_model(_settings(tmp_path, "", model=asked, base_url=None))
            assert isinstance(choice.model, AdaptiveModel) and choice.model.protocol == protocol
            await choice.aclose()


async def test_key_and_named_provider_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [Listed("a", owner="llamacpp", weights=SMALL), Listed("b", owner="llamacpp", weights=SMALL)]
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "secret")
    async with FakeProviderServer([Turn(text="ok")], models=listed) as server:
        choice = await choose_model(_settings(tmp_path, server.url))
        assert (choice.model.provider, choice.model.id) == ("llamacpp", "m"), "with several, the name decides"
        items = [item async for item in choice.model.stream(Request("c", [user("hi")]))]
        assert isinstance(items[-1], Reply)
        assert server.requests[-1].headers["authorization"] == "Bearer secret"
        await choice.aclose()
        named = await choose_model(_settings(tmp_path, server.url, provider="openai-compatible"))
        assert named.model.provider == "openai-compatible"
        await named.aclose()


def test_weights_shared_per_provider(tmp_path: Path) -> None:
    local = SelfHosted(folder=tmp_path)
    assert is_same_model(SelfHostedModel(local, "a/b"), SelfHostedModel(local, "a/b"))
    assert not is_same_model(SelfHostedModel(local, "a/b"), SelfHostedModel(SelfHosted(folder=tmp_path), "a/b"))


def test_llamacpp_default_port_and_key() -> None:
    provider = provider_named("llamacpp", environ={})
    assert (provider.name, provider.access.base_url) == ("llamacpp", "http://127.0.0.1:8080/v1")  # pyright: ignore[reportAttributeAccessIssue]
    assert built_in()["llamacpp"].free
    own = provider_named("llamacpp", environ={"LLAMA_CPP_API_KEY": "k" * 8})
    assert own.headers() == {"authorization": f"Bearer {'k' * 8}"}  # pyright: ignore[reportAttributeAccessIssue]
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    assert effort_members("x", built_in()["llamacpp"].quirks, "none", with_tools=True) == (off, ())


def test_llamacpp_rejects_non_text() -> None:
    wrong: Any = 3_141
    with pytest.raises(UsageError, match=r"^key is int: give a string$"):
        provider_named("llamacpp", key=wrong)
    with pytest.raises(UsageError, match=r"^base_url is int: give a string$"):
        provider_named("llamacpp", key="k" * 8, base_url=wrong)
    with pytest.raises(UsageError, match=r"^model_id is int: give a string$"):
        provider_named("llamacpp", key="k" * 8).model(wrong)


def test_weights_named_with_provider() -> None:
    assert split_model("selfhosted/Qwen/Qwen3-0.6B", None, {}) == ("selfhosted", "Qwen/Qwen3-0.6B")
