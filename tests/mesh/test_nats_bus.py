"""The bus over JetStream keeps what a bus promises, with a server that is killed too."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest
from buses import Broker, options

from sagent.mesh.buses.nats import NatsBus, nats_bus
from sagent.testing.bus_suite import BusSuite


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(options(tmp_path_factory.mktemp("bus"))) as found:
        yield found


class TestNatsBus(BusSuite):
    @pytest.fixture
    async def bus(self, broker: Broker) -> AsyncIterator[NatsBus]:
        async with nats_bus(broker.url) as found:
            yield found

    @pytest.fixture
    async def other(self, broker: Broker) -> AsyncIterator[NatsBus]:
        async with nats_bus(broker.url) as found:
            yield found

    @pytest.fixture
    def disrupt(self, broker: Broker) -> Callable[[], Awaitable[None]]:
        async def disrupt() -> None:
            await asyncio.to_thread(broker.restart)

        return disrupt
