"""Both families keep the promises of every Model, against the scripted server."""

import contextlib
from collections.abc import AsyncGenerator

import pytest

from sagent.model import Model
from sagent.providers import Anthropic, OpenAI, OpenAICompatible, provider_named
from sagent.testing.model_suite import OpenModel, ServedModelSuite


class TestAnthropic(ServedModelSuite):
    @pytest.fixture
    def open_model(self) -> OpenModel:
        @contextlib.asynccontextmanager
        async def opened(url: str) -> AsyncGenerator[Model]:
            provider = Anthropic.from_key("key-for-tests", base_url=url)
            try:
                yield provider.model("claude-sonnet-4-6")
            finally:
                await provider.aclose()

        return opened


class TestOpenAI(ServedModelSuite):
    @pytest.fixture
    def open_model(self) -> OpenModel:
        @contextlib.asynccontextmanager
        async def opened(url: str) -> AsyncGenerator[Model]:
            provider = OpenAI.from_key("key-for-tests", base_url=f"{url}/v1")
            try:
                yield provider.model("gpt-5.2")
            finally:
                await provider.aclose()

        return opened


class TestOpenAICompatible(ServedModelSuite):
    @pytest.fixture
    def open_model(self) -> OpenModel:
        @contextlib.asynccontextmanager
        async def opened(url: str) -> AsyncGenerator[Model]:
            provider = OpenAICompatible.from_env(base_url=url, environ={})
            try:
                yield provider.model("local")
            finally:
                await provider.aclose()

        return opened


class TestMoonshot(ServedModelSuite):
    @pytest.fixture
    def open_model(self) -> OpenModel:
        @contextlib.asynccontextmanager
        async def opened(url: str) -> AsyncGenerator[Model]:
            provider = provider_named("moonshot", key="key-for-tests", base_url=f"{url}/v1")
            try:
                yield provider.model("kimi-k2.6")
            finally:
                await provider.aclose()

        return opened
