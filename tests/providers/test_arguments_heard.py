"""Arguments of calls are no deltas, and yet no silence: they are reported as they come, each byte once."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from sagent.messages import user
from sagent.model import Billed, Delta, Reply, Request
from sagent.testing.server import Call, FakeProviderServer, Stall, Turn
from tests.agent.test_cut_calls import ANTHROPIC, CHAT, CONVERSE, RESPONSES, provider_of, region

__all__ = ["region"]  # a fixture
WRITE = Call("Write", {"file_path": "a", "content": "word " * 400})
SIZE = len(json.dumps(WRITE.arguments))
FAMILIES = [ANTHROPIC, CHAT, RESPONSES, CONVERSE]  # Google's calls come whole


class Heard:
    """What a stream brought."""

    def __init__(self) -> None:
        self.unshown: list[int] = []

    async def read(self, stream: AsyncIterator[Delta | Reply]) -> None:
        async for item in stream:
            if isinstance(item, Billed) and item.unshown:
                self.unshown.append(item.unshown)


@pytest.mark.costly
@pytest.mark.parametrize("family", FAMILIES)
async def test_arguments_are_reported_as_they_come(family: str) -> None:
    heard = Heard()
    async with FakeProviderServer([Turn(calls=[WRITE], pieces=20, gap=0.01)], counts=False) as server:
        provider, name = provider_of(family, server.url)
        await heard.read(provider.model(name).stream(Request("", (user("go"),))))
        await provider.aclose()
    assert 0 < sum(heard.unshown) <= SIZE
    assert min(heard.unshown) >= 128


@pytest.mark.parametrize("family", FAMILIES)
async def test_stopped_call_counts_arguments_once(family: str) -> None:
    heard = Heard()
    async with FakeProviderServer(
        [Stall(Turn(calls=[WRITE], pieces=20, gap=0.01), after_events=12)], counts=False
    ) as server:
        provider, name = provider_of(family, server.url)
        task = asyncio.create_task(heard.read(provider.model(name).stream(Request("", (user("go"),)))))
        async with asyncio.timeout(60):
            while not heard.unshown:
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        await provider.aclose()
    assert 0 < sum(heard.unshown) < SIZE
