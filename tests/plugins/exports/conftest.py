"""What tests of exported sessions share."""

from collections.abc import Callable, Iterable

import pytest

from sagent.plugins.exports.report import Report
from sagent.plugins.exports.steps import Step
from tests.recorded_run import recorded
from tests.session_place import place

__all__ = ["place", "recorded", "told"]


@pytest.fixture
def told() -> Callable[[Iterable[Step]], str]:
    """The report of some steps."""
    return lambda steps: "\n".join(Report().show(steps))
