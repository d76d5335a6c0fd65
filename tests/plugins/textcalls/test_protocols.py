"""Which protocol a model is spoken to in: by what was seen of it, by its server's listing, by its size."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.app.models import choose_model
from sagent.config import Settings, load
from sagent.cost.budget import Meter
from sagent.lib.json import JsonObject
from sagent.messages import Message, assistant, user
from sagent.model import ModelLimits, Reply, Request, RequestDigest, ToolSpec
from sagent.plugins.textcalls.protocols import (
    MAX_SMALL_WEIGHTS,
    AdaptiveModel,
    LearnedProtocols,
    is_small,
)
from sagent.providers.listings import weights_in_name
from sagent.testing.script import Listed
from sagent.testing.server import FakeProviderServer
from sagent.usage import Usage

SMALL = 1_777_088_000


def _settings(tmp_path: Path, url: str, **flags: object) -> Settings:
    given = {"base_url": f"{url}/v1", "state_dir": str(tmp_path / "state"), "model": "m", **flags}
    return load(given, {"HOME": str(tmp_path)}, tmp_path)


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("qwen2.5-coder:1.5b", 1_500_000_000),
        ("qwen2.5-coder-1.5b-instruct-q4_k_m", 1_500_000_000),
        ("Qwen/Qwen3-0.6B", 600_000_000),
        ("gemma-3-270m-it", 270_000_000),
        ("qwen3-30b-a3b", 30_000_000_000),
        ("qwen2.5-14b-instruct-1m", 14_000_000_000),
        ("mixtral-8x7b", None),
        ("MiniMax-Text-01-1m", None),
        ("gpt-5.5", None),
        ("kimi-k2.5", None),
        ("llama3.2", None),
        ("v3.1b2", None),
    ],
)
def test_model_size_read_from_name(name: str, weights: int | None) -> None:
    assert weights_in_name(name) == weights


@given(st.text(max_size=60))
def test_any_name_gives_size_or_none(name: str) -> None:
    found = weights_in_name(name)
    assert found is None or found >= 0
    assert is_small(name, MAX_SMALL_WEIGHTS) and not is_small("any", MAX_SMALL_WEIGHTS + 1)


@pytest.mark.parametrize(
    ("listed", "flags", "protocol"),
    [
        (Listed("m", weights=SMALL), {}, "text"),
        (Listed("m", weights=SMALL), {"tool_calls": "native"}, None),
        (Listed("m", weights=8_000_000_000), {}, "native"),
        (Listed("m"), {}, "native"),
        (Listed("m"), {"tool_calls": "text"}, "text"),
        (Listed("m"), {"model": "smollm2-360m"}, "text"),
        (Listed("m"), {"model": "claude-x", "tool_calls": "text"}, "text"),
        (Listed("m"), {"model": "claude-x"}, None),
    ],
)
async def test_protocol_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: Listed, flags: dict[str, object], protocol: str | None
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    async with FakeProviderServer([], models=[listed], require_key=False) as server:
        choice = await choose_model(_settings(tmp_path, server.url, **flags))
        found = choice.model.protocol if isinstance(choice.model, AdaptiveModel) else None
        assert found == protocol
        await choice.aclose()


async def test_protocol_remembered_and_forgotten(tmp_path: Path) -> None:
    async with FakeProviderServer([], models=[Listed("m")], require_key=False) as server:
        choice = await choose_model(_settings(tmp_path, server.url))
        assert isinstance(choice.model, AdaptiveModel) and choice.model.protocol == "native"
        choice.model.wrote_call_as_text()
        assert choice.model.protocol == "text"
        await choice.aclose()
        later = await choose_model(_settings(tmp_path, server.url))
        assert isinstance(later.model, AdaptiveModel) and later.model.protocol == "text"
        learned = LearnedProtocols(tmp_path / "state/protocols.json")
        assert list(learned.every().values()) == ["text"]
        assert (learned.forget("other"), learned.forget("m"), learned.forget("m")) == (0, 1, 0)
        await later.aclose()
        last = await choose_model(_settings(tmp_path, server.url))
        assert isinstance(last.model, AdaptiveModel) and last.model.protocol == "native"
        await last.aclose()


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"models": 3}', b'{"models": {"x m": {"protocol": "odd"}}}'])
def test_damaged_file_counts_as_empty(tmp_path: Path, damage: bytes) -> None:
    file = tmp_path / "protocols.json"
    file.write_bytes(damage)
    learned = LearnedProtocols(file)
    assert learned.of("x", "m") is None and learned.every() == {}
    learned.keep("x", "m", "text")
    assert LearnedProtocols(file).of("x", "m") == "text"
    assert json.loads(file.read_text())["version"] == 1


async def test_silent_server_not_awaited(tmp_path: Path) -> None:
    async with FakeProviderServer([], require_key=False) as server:
        url = server.url
    choice = await choose_model(_settings(tmp_path, url))  # nobody listens there
    assert choice.model.provider == "openai-compatible"
    await choice.aclose()


class _Dense:
    """A model whose native requests have a token for a byte, and texts one for `density` bytes: the count of the one
    says little of the other."""

    provider, id = "fake", "m"
    limits = ModelLimits()

    def __init__(self, density: int) -> None:
        self._density = density

    def max_input_tokens(self, request: Request) -> int:
        tools = sum(len(tool.description) for tool in request.tools)
        return len(request.system) + tools + sum(len(message.content) for message in request.messages)

    def tokens(self, request: Request) -> int:
        return self.max_input_tokens(request) // (self._density if request.tools else 1)

    async def stream(self, request: Request) -> AsyncIterator[Reply]:
        usage = Usage(input=self.tokens(request))
        yield Reply(assistant("ok"), usage, (), RequestDigest("0", 0, "m"))


TOOL = ToolSpec("Bash", "Run a command. " * 40, JsonObject())


@given(st.lists(st.tuples(st.integers(0, 900), st.booleans()), min_size=2, max_size=8), st.integers(1, 6))
async def test_token_bound_holds_across_protocols(steps: list[tuple[int, bool]], density: int) -> None:
    meter, history, learned = Meter(), list[Message](), list[None]()
    model = AdaptiveModel(_Dense(density), "native", lambda: learned.append(None))
    for size, writes_text in steps:
        history.append(user("x" * size + "."))
        request = Request("c", list(history), tools=(TOOL,))
        bound = meter.bound(request, model.max_input_tokens(request), model)
        reply = [item async for item in model.stream(request)][-1]
        if writes_text:
            model.wrote_call_as_text()
        assert isinstance(reply, Reply)
        assert reply.usage.input <= bound.tokens
        meter.learn(request, model.max_input_tokens(request), reply.usage.input, model)
        history.append(reply.message)
    assert len(learned) == any(text for _, text in steps)
    assert model.protocol == ("text" if learned else "native")
