"""The promises of every Model, kept by each family through its official SDK too."""

import pytest

from sagent.errors import ModelError
from sagent.messages import user
from sagent.model import Request
from sagent.providers import Anthropic, Google, OpenAI, OpenAICompatible
from sagent.testing.model_suite import OpenModel, ServedModelSuite
from sagent.testing.server import FakeProviderServer, Turn
from sagent.usage import Usage
from tests.providers.test_model_suites import opening


def through_sdk(kind: type, model_id: str, path: str = "") -> OpenModel:
    return opening(lambda url: kind.from_key("key-for-tests", base_url=f"{url}{path}", transport="sdk"), model_id)


class TestAnthropic(ServedModelSuite):
    @pytest.fixture
    def open_model(self) -> OpenModel:
        return through_sdk(Anthropic, "claude-sonnet-4-6")


class TestOpenAI(ServedModelSuite):
    @pytest.fixture
    def open_model(self) -> OpenModel:
        return through_sdk(OpenAI, "gpt-5.2", "/v1")


class TestOpenAICompatible(ServedModelSuite):
    @pytest.fixture
    def open_model(self) -> OpenModel:
        return through_sdk(OpenAICompatible, "local", "/v1")


class TestGoogle(ServedModelSuite):
    billed = Usage(input=10, cache_read=200, output=50, reasoning=7)  # the wire has no cache writes

    @pytest.fixture
    def open_model(self) -> OpenModel:
        return through_sdk(Google, "gemini-3.8-flash")


@pytest.mark.parametrize("transport", ["direct", "sdk"])
@pytest.mark.parametrize("kind", [Anthropic, OpenAI, OpenAICompatible, Google])
async def test_redirect_not_followed_with_key(raw_server, kind: type, transport: str) -> None:
    moved = b"HTTP/1.1 307 Moved\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n"
    async with raw_server([moved]) as server:
        provider = kind.from_key("key-for-tests", base_url=f"{server.url}/v1", transport=transport)
        with pytest.raises(ModelError) as caught:
            async for _ in provider.model("m").stream(Request("c", [user("hi")])):
                pass
        await provider.aclose()
        assert (caught.value.kind, caught.value.status, len(server.requests)) == ("not_found", 307, 1)
        assert "/elsewhere" in str(caught.value)


FOREIGN = (
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GOOGLE_API_KEY", "GEMINI_API_KEY"),
    *("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"),
)


@pytest.mark.parametrize("key", ["", "key-for-tests"])
@pytest.mark.parametrize("kind", [Anthropic, OpenAI, OpenAICompatible, Google])
async def test_foreign_environment_not_sent(kind: type, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FOREIGN:
        monkeypatch.setenv(name, f"foreign-{name}")
    for vendor in ("ANTHROPIC", "OPENAI"):
        monkeypatch.setenv(f"{vendor}_CUSTOM_HEADERS", "x-mine: foreign")
    async with FakeProviderServer([Turn(text="hi")], strict=False) as server:
        provider = kind.from_key(key, base_url=f"{server.url}/v1", transport="sdk")
        async for _ in provider.model("m").stream(Request("c", [user("hi")])):
            pass
        await provider.aclose()
        told = {name: value for name, value in server.requests[0].headers.items() if "foreign" in value}
    assert told == {}
