"""Both families keep the promises of every Model, against the scripted server."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager

import pytest

from sagent.model import Model, Provider
from sagent.providers import Anthropic, OpenAI, OpenAICompatible, provider_named
from sagent.testing.model_suite import OpenModel, ServedModelSuite


def opening(make: Callable[[str], Provider], model_id: str) -> OpenModel:
    """Opens a model of a provider that is made for the server's address."""

    @asynccontextmanager
    async def opened(url: str) -> AsyncGenerator[Model]:
        async with aclosing(make(url)) as provider:
            yield provider.model(model_id)

    return opened


class TestAnthropic(ServedModelSuite):
    @pytest.fixture
    def open_model(self) -> OpenModel:
        return opening(lambda url: Anthropic.from_key("key-for-tests", base_url=url), "claude-sonnet-4-6")


class TestOpenAI(ServedModelSuite):
    @pytest.fixture
    def open_model(self) -> OpenModel:
        return opening(lambda url: OpenAI.from_key("key-for-tests", base_url=f"{url}/v1"), "gpt-5.2")


class TestOpenAICompatible(ServedModelSuite):
    @pytest.fixture
    def open_model(self) -> OpenModel:
        return opening(lambda url: OpenAICompatible.from_env(base_url=url, environ={}), "local")


class TestMoonshot(ServedModelSuite):
    @pytest.fixture
    def open_model(self) -> OpenModel:
        return opening(lambda url: provider_named("moonshot", key="key", base_url=f"{url}/v1"), "kimi-k2.6")
