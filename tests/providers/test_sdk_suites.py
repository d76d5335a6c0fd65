"""The promises of every Model, kept by each family through its official SDK too."""

import contextlib
from collections.abc import AsyncGenerator, Callable

import pytest

from sagent.model import Model
from sagent.providers import Anthropic, Google, OpenAI, OpenAICompatible
from sagent.testing.model_suite import OpenModel, ServedModelSuite
from sagent.usage import Usage

Opened = Callable[[str], contextlib.AbstractAsyncContextManager[Model]]


def through_sdk(kind: type, model_id: str, path: str = "") -> OpenModel:
    @contextlib.asynccontextmanager
    async def opened(url: str) -> AsyncGenerator[Model]:
        provider = kind.from_key("key-for-tests", base_url=f"{url}{path}", transport="sdk")
        try:
            yield provider.model(model_id)
        finally:
            await provider.aclose()

    return opened


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
