"""The server of `sagent serve` on the wire."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from served import served

from tests.strict_http import StrictHttp


class TestStrictHttp(StrictHttp):
    @pytest.fixture
    async def port(self, work: Path) -> AsyncIterator[int]:
        async with served(work) as client:
            yield int(client.url.rpartition(":")[2])
