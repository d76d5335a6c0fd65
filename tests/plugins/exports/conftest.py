"""What tests of exported sessions share."""

from collections.abc import Callable, Iterable

import pytest

from sagent.plugins.exports.report import Report
from sagent.plugins.exports.steps import Step
from tests.session_place import place
from tests.transcript.conftest import recorded

__all__ = ["place", "recorded", "told"]


@pytest.fixture
def told() -> Callable[[Iterable[Step]], str]:
    """The report of some steps."""
    return lambda steps: "\n".join(Report().show(steps))
