"""Commands of these tests are forks."""

import pytest

from tests.forks import Forks
from tests.mesh.places import Place


@pytest.fixture(scope="session", autouse=True)
def _forked(forks: Forks) -> None:
    Place.forks = forks
