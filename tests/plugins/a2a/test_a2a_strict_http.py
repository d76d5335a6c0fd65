"""The server of `sagent a2a` on the wire."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from a2a_served import a2a_served

from tests.strict_http import StrictHttp


class TestStrictHttp(StrictHttp):
    @pytest.fixture
    async def port(self, work: Path) -> AsyncIterator[int]:
        async with a2a_served(work) as [peer]:
            yield int(re.findall(r":(\d+)", peer.url)[0])
