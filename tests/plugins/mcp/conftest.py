"""The program of these tests has the SDK loaded that their runs import: it takes half a second."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.forks import Forks


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    with closing(Forks("mcp")) as found:
        yield found
