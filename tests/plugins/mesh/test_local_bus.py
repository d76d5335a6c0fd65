"""The bus in this process keeps what a bus promises."""

import tracemalloc
from contextlib import suppress

import pytest

from sagent.plugins.mesh.bus import message
from sagent.plugins.mesh.bus_suite import BusSuite
from sagent.plugins.mesh.buses.local import LocalBus
from sagent.plugins.mesh.errors import NobodyThere


class TestLocalBus(BusSuite):
    @pytest.fixture
    def bus(self) -> LocalBus:
        return LocalBus()


async def test_abandoned_message_keeps_only_id() -> None:
    bus = LocalBus()
    tracemalloc.start()
    try:
        for number in range(20):
            async with bus.asking(message("nobody", f"{number} {'x' * 1_000_000}")):
                pass
            sent = await bus.send(message("later", f"{number} {'x' * 1_000_000}", keep=0.0))
            with suppress(NobodyThere):
                await sent.taken()
        await bus.send(message("later", "the last one"))
        async with bus.receiving("later") as deliveries:
            assert (await anext(deliveries)).envelope.body == "the last one"
        assert tracemalloc.get_traced_memory()[0] < 5_000_000
    finally:
        tracemalloc.stop()
