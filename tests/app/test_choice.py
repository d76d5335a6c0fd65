"""Which model answers: what was asked for, what there is a key for, what runs on this machine."""

import asyncio
from pathlib import Path

import pytest

from sagent.agent import Agent, RunLimits
from sagent.app import models as choices
from sagent.app.models import choose_model, split_model
from sagent.config import Settings, load
from sagent.errors import UsageError
from sagent.model import ModelInfo, ModelLimits
from sagent.providers.rows import Row
from sagent.testing.server import FakeProviderServer, Listed, Turn
from tests.waiting import SECONDS


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
        ("OpenAI_Compatible/x", None, ("openai-compatible", "x")),
        ("qwen9:8b", None, (None, "qwen9:8b")),
        ("gpt-oss:20b", None, (None, "gpt-oss:20b")),
    ],
)
def test_names(name: str, provider: str | None, expected: tuple[str | None, str]) -> None:
    assert split_model(name, provider, {"mine": Row("mine")}) == expected


async def test_unknown_provider_says_how_to_name_it(tmp_path: Path) -> None:
    settings = load({"model": "nobody-knows"}, {"HOME": str(tmp_path)}, tmp_path)
    with pytest.raises(UsageError, match="provider/model"):
        await choose_model(settings)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gemini/gemini-9", "Did you mean google/gemini-9?"),
        ("antropic/claude-9", "Did you mean anthropic/claude-9?"),
        ("together_ai/x", "Did you mean together?"),
        ("openai:gpt-9", "give openai/gpt-9."),
        ("qwen9:8b", "as in ollama/qwen9:8b."),
        ("terra", "as in openai/gpt-"),
        ("anthropic", "give anthropic/MODEL, or --provider anthropic"),
    ],
)
async def test_foreign_names_are_told_as_ours(name: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        await choose_model(load({"model": name}, {"HOME": str(tmp_path)}, tmp_path))
    assert says in str(caught.value)


async def test_local_server_gets_no_makers_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASHSCOPE_API_KEY", "for-dashscope")
    async with FakeProviderServer([Turn(text="ok")] * 3, require_key=False) as server:
        choice = await choose_model(_place(tmp_path, server.url, model="qwen3"))
        models = [choice.model, choice.resolve("qwen3:8b"), choice.resolve("llama3")]
        assert [f"{model.provider}/{model.id}" for model in models] == [
            "openai-compatible/qwen3",
            "openai-compatible/qwen3:8b",
            "openai-compatible/llama3",
        ]
        for model in models:
            assert (await Agent(model).run("hi")).content == "ok"
        assert not [sent for sent in server.requests if "for-dashscope" in str(sent.headers)]
        with pytest.raises(UsageError, match="a provider, not a model"):
            choice.resolve("anthropic")
        named = await choose_model(_place(tmp_path, server.url, model="dashscope/qwen3"))
        assert named.model.provider == "dashscope"
        await named.aclose()
        await choice.aclose()


async def test_provider_key_by_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text('[providers.openai]\nkey = "WORK_KEY"\ndefault = "gpt-mine"\n')
    monkeypatch.setenv("WORK_KEY", "k" * 8)
    choice = await choose_model(load({}, {"HOME": str(tmp_path)}, tmp_path, file=tmp_path / "mine.toml"))
    assert (choice.model.provider, choice.model.id) == ("openai", "gpt-mine")
    await choice.aclose()


async def test_wrong_key_is_looked_for_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-good-one")
    (tmp_path / "mine.toml").write_text('[providers.openai]\napi_key = "not one"\n')
    settings = load({"model": "gpt-9"}, {"HOME": str(tmp_path)}, tmp_path, file=tmp_path / "mine.toml")
    with pytest.raises(UsageError, match=r"^api_key in \[providers\.openai\] for openai has characters"):
        await choose_model(settings)


async def test_unusable_compactor_is_named(tmp_path: Path) -> None:
    choice = choices.Choice(load({"compactor": "sonnet"}, {"HOME": str(tmp_path)}, tmp_path))
    with pytest.raises(UsageError, match=r"^compactor = 'sonnet': "):
        choice.compactor()


async def test_disallowed_session_model_says_next_step(tmp_path: Path) -> None:
    settings = load({"allow_providers": "openai"}, {"HOME": str(tmp_path)}, tmp_path)
    with pytest.raises(UsageError, match=r"last used anthropic/claude-x: .*Or choose another model with --model\."):
        await choose_model(settings, "anthropic/claude-x")


@pytest.mark.parametrize(("allowed", "says"), [("", "allows no provider"), ("ollama", "Give --model")])
async def test_no_allowed_provider_has_a_key(allowed: str, says: str, tmp_path: Path) -> None:
    settings = load({"allow_providers": allowed}, {"HOME": str(tmp_path)}, tmp_path)
    with pytest.raises(UsageError, match=says) as caught:
        await choose_model(settings)
    assert "OLLAMA_API_KEY" not in str(caught.value)


async def test_project_may_only_rule_out_providers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "k")
    (tmp_path / "tree/.sagent").mkdir(parents=True)
    (tmp_path / "tree/.sagent/config.toml").write_text('allow_providers = ["openai"]')
    for given, usual in (({}, ""), ({"allow_providers": "openai"}, "openai"), ({"provider": "openai"}, "openai")):
        settings = load(given, {"HOME": str(tmp_path)}, tmp_path / "tree")
        if usual:
            choice = await choose_model(settings)
            assert choice.model.provider == usual
            await choice.aclose()
        else:
            with pytest.raises(UsageError, match=r"config\.toml does not allow anthropic, .* with --model"):
                await choose_model(settings)


async def test_local_server_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeProviderServer([], models=[Listed("local-model")], require_key=False) as server:
        monkeypatch.setattr(choices, "LOCAL_SERVERS", {"Dead": "http://127.0.0.1:9/v1", "Live": f"{server.url}/v1"})
        choice = await choose_model(load({}, {"HOME": str(tmp_path)}, tmp_path))
        assert (choice.model.provider, choice.model.id) == ("openai-compatible", "local-model")
        await choice.aclose()


async def test_no_provider_says_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "LOCAL_SERVERS", {"Dead": "http://127.0.0.1:9/v1"})
    with pytest.raises(UsageError, match=r"ANTHROPIC_API_KEY(.|\n)*sagent demo"):
        await choose_model(load({}, {"HOME": str(tmp_path)}, tmp_path))


async def test_resumed_session_keeps_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
async def test_own_provider_of_any_family(tmp_path: Path, family: str, path: str) -> None:
    async with FakeProviderServer([Turn(text="ok")]) as server:
        file = tmp_path / "config.toml"
        file.write_text(f'[providers.acme]\nbase_url = "{server.url}{path}"\napi_key = "k"\nfamily = "{family}"\n')
        choice = await choose_model(
            load({"model": "acme/m"}, {"HOME": str(tmp_path), "SAGENT_CONFIG": str(file)}, tmp_path)
        )
        assert (await Agent(choice.model).run("hi")).content == "ok"
        assert server.requests[0].family == ("chat" if family == "openai" else family)
        await choice.aclose()


async def test_own_provider(tmp_path: Path) -> None:
    async with FakeProviderServer([]) as server:
        path = tmp_path / "config.toml"
        path.write_text(f'[providers.acme]\nbase_url = "{server.url}/v1"\napi_key = "${{ACME}}"\n')
        environ = {"HOME": str(tmp_path), "SAGENT_CONFIG": str(path), "ACME": "secret"}
        choice = await choose_model(load({"model": "acme/large"}, environ, tmp_path))
        assert (choice.model.provider, choice.model.id) == ("acme", "large")
        assert [info.id for info in await choice.provider("acme").models()] == ["fake-model"]
        assert server.requests[0].headers["authorization"] == "Bearer secret"
        await choice.aclose()


async def test_own_provider_follows_its_row(tmp_path: Path) -> None:
    async with FakeProviderServer([Turn(text="ok")]) as server:
        file = tmp_path / "config.toml"
        file.write_text(
            f'[providers.acme]\nbase_url = "{server.url}/v1"\nkey = "ACME_TOKEN"\nmodels = ["big-"]\n'
            'max_tokens = "max_completion_tokens"\nstream_usage = false\nbody = { top_k = 3 }\n'
        )
        environ = {"HOME": str(tmp_path), "SAGENT_CONFIG": str(file)}
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ACME_TOKEN", "secret")
            choice = await choose_model(load({"model": "big-one", "max_response_tokens": 99}, environ, tmp_path))
        assert (choice.model.provider, choice.model.id) == ("acme", "big-one")
        assert (await Agent(choice.model, limits=RunLimits(max_response_tokens=99)).run("hi")).content == "ok"
        sent = server.requests[0]
        assert (sent.json["max_completion_tokens"], sent.json["top_k"]) == (99, 3)
        assert "stream_options" not in sent.json
        assert sent.headers["authorization"] == "Bearer secret"
        await choice.aclose()


# ----------------------------------------------------------------------------------------------------------------------
# Sizes, and models that take over


def _place(tmp_path: Path, url: str, **flags: object) -> Settings:
    return load(
        {"base_url": f"{url}/v1", "state_dir": str(tmp_path / "state"), **flags}, {"HOME": str(tmp_path)}, tmp_path
    )


async def test_listing_is_fetched_once(tmp_path: Path) -> None:
    listed = [Listed("m", window=9_000), Listed("other")]
    async with FakeProviderServer([], models=listed, require_key=False) as server:
        choice = await choose_model(_place(tmp_path, server.url, model="m"))
        assert choice.limits(choice.model) == ModelLimits(9_000)
        assert not choice.wants_listing(choice.model)
        await choice.aclose()
        later = await choose_model(_place(tmp_path, server.url, model="m"))
        assert later.limits(later.model) == ModelLimits(9_000)
        assert not later.wants_listing(later.model), "it is fresh"
        await later.aclose()
        assert len(server.requests) == 1
    async with FakeProviderServer([], require_key=False) as elsewhere:
        choice = await choose_model(_place(tmp_path, elsewhere.url, model="m"))
        assert choice.limits(choice.model) == ModelLimits(), "another server is another place"
        await choice.aclose()


async def test_other_address_has_no_shared_sizes(tmp_path: Path) -> None:
    async with FakeProviderServer([], models=[Listed("m", window=9_000)], require_key=False) as server:
        choice = await choose_model(_place(tmp_path, server.url, model="m"))
        await choice.study(choice.model.provider)
        replica = choice.resolve_at(f"{choice.model.provider}/m", "http://127.0.0.1:9/v1", None)
        assert choice.limits(choice.model) == ModelLimits(9_000)
        assert choice.limits(replica) == ModelLimits()
        await choice.aclose()


async def test_listing_beats_data(tmp_path: Path) -> None:
    async with FakeProviderServer([], models=[Listed("gpt-4o", window=9_000)], require_key=False) as server:
        choice = await choose_model(_place(tmp_path, server.url, model="gpt-4o", provider="openai"))
        assert choice.model.limits == ModelLimits(128_000, 16_384, 16) == choice.limits(choice.model)
        await choice.study("openai")
        assert choice.limits(choice.model) == ModelLimits(9_000, 16_384, 16), "what is not told stays"
        await choice.aclose()


async def test_failed_listing_is_not_retried(tmp_path: Path) -> None:
    choice = await choose_model(_place(tmp_path, "http://127.0.0.1:9", model="m"))
    await choice.study(choice.model.provider)
    assert choice.limits(choice.model) == ModelLimits() and not choice.wants_listing(choice.model)
    assert not (tmp_path / "state").exists()
    await choice.aclose()


async def test_known_models_need_no_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    choice = await choose_model(load({"model": "claude-sonnet-4-6"}, {"HOME": str(tmp_path)}, tmp_path))
    assert not choice.wants_listing(choice.model)
    assert choice.wants_listing(choice.resolve("anthropic/claude-nobody-knows"))
    await choice.aclose()


async def test_ephemeral_run_keeps_no_listing(tmp_path: Path) -> None:
    async with FakeProviderServer([], models=[Listed("m", window=9_000)], require_key=False) as server:
        choice = await choose_model(_place(tmp_path, server.url, model="m", ephemeral=True))
        await choice.study(choice.model.provider)
        assert choice.limits(choice.model) == ModelLimits(9_000)
        assert not (tmp_path / "state").exists()
        await choice.aclose()


async def test_no_address_password_is_kept(tmp_path: Path) -> None:
    async with FakeProviderServer([], models=[Listed("m", window=9_000)], require_key=False) as server:
        url = server.url.replace("://", "://me:hidden@")
        choice = await choose_model(_place(tmp_path, url, model="m"))
        choice.keep(choice.model.provider, [ModelInfo("m", ModelLimits(1, 1))])
        assert "hidden" not in (tmp_path / "state" / "listings.json").read_text()
        await choice.aclose()


async def test_fallbacks_are_checked_at_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    environ = {"HOME": str(tmp_path)}

    async def fallbacks(**flags: object) -> list[str]:
        choice = await choose_model(load({"model": "claude-x", **flags}, environ, tmp_path))
        try:
            return [f"{model.provider}/{model.id}" for model in choice.fallbacks()]
        finally:
            await choice.aclose()

    assert await fallbacks(fallback="anthropic/claude-y,claude-z") == ["anthropic/claude-y", "anthropic/claude-z"]
    with pytest.raises(UsageError, match=r"--fallback antropic/x: .*Did you mean anthropic"):
        await fallbacks(fallback="antropic/x")
    with pytest.raises(UsageError, match=r"--fallback openai/gpt-5\.5: No key for openai: set OPENAI_API_KEY"):
        await fallbacks(fallback="openai/gpt-5.5")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with pytest.raises(UsageError, match="openai is not among those allowed"):
        await fallbacks(fallback="openai/gpt-5.5", allow_providers="anthropic")


async def test_other_model_of_named_server_works(tmp_path: Path) -> None:
    async with FakeProviderServer([Turn(text="ok")], require_key=False) as server:
        choice = await choose_model(_place(tmp_path, server.url, model="m", fallback="openai-compatible/n"))
        (other,) = choice.fallbacks()
        assert (await Agent(other).run("hi")).content == "ok"
        assert server.requests[-1].json["model"] == "n"
        await choice.aclose()


@pytest.mark.parametrize(
    ("name", "provider", "model"),
    [
        ("Qwen/Qwen3-0.6B+float16+cuda", "selfhosted", "Qwen/Qwen3-0.6B+float16+cuda"),
        ("./weights", "selfhosted", "./weights"),
        ("Qwen/Qwen3-0.6B", None, "Qwen/Qwen3-0.6B"),
        ("qwen3.6-plus", "dashscope", "qwen3.6-plus"),
        ("openrouter/qwen/qwen3+x", "openrouter", "qwen/qwen3+x"),
    ],
)
def test_weights_are_told_from_services(name: str, provider: str | None, model: str) -> None:
    assert split_model(name, None, {}) == (provider, model)


@pytest.mark.parametrize("provider", [None, "openai-compatible", "anthropic"])
@pytest.mark.parametrize("answered", [b"", b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{"])
async def test_unlisting_server_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answered: bytes, provider: str | None
) -> None:
    monkeypatch.setattr(choices, "LISTING_SECONDS", 0.3)
    told, writers = list[str](), list[asyncio.StreamWriter]()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(answered)
        await reader.read()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    flags = {"base_url": f"http://{address}", **({"provider": provider} if provider else {})}
    async with server:
        with pytest.raises(UsageError, match=r"could not be listed.*--model"):
            await choose_model(
                load(flags, {"HOME": str(tmp_path)}, tmp_path), on_waiting=lambda _, line: told.append(line)
            )
        for writer in writers:
            writer.close()
            await writer.wait_closed()
    assert (address in told[0], told[-1]) == (True, "")


async def test_unchosen_model_closes_connections(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def list_none(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b'{"object": "list", "data": []}'
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
        writer.write(b"content-length: %d\r\n\r\n%s" % (len(body), body))
        await reader.read()
        writer.close()
        await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(list_none, "127.0.0.1", 0)
    flags = {"base_url": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"}
    async with server:
        with pytest.raises(UsageError, match="lists no models"):
            await choose_model(load(flags, {"HOME": str(tmp_path)}, tmp_path))
        async with asyncio.timeout(SECONDS):
            await ended.wait()
