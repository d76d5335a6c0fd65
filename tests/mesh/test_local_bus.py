"""The bus in this process keeps what a bus promises."""

import pytest

from sagent.mesh.buses.local import LocalBus
from sagent.testing.bus_suite import BusSuite


class TestLocalBus(BusSuite):
    @pytest.fixture
    def bus(self) -> LocalBus:
        return LocalBus()
