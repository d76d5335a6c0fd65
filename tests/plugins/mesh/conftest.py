"""Commands of these tests are forks."""

import pytest

from tests.forks import Forks
from tests.plugins.mesh.places import Place

pytest.register_assert_rewrite("sagent.plugins.mesh.bus_suite")


@pytest.fixture(scope="session", autouse=True)
def _forked(forks: Forks) -> None:
    Place.forks = forks
