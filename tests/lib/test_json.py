"""JSON values from outside, read leniently."""

import pytest

from sagent.lib.json import as_int


@pytest.mark.parametrize(
    ("value", "read"),
    [(3, 3), (3.9, 3), (-2.0, -2), (10**30, 10**30), (True, 7), ("3", 7), (None, 7)]
    + [(float(odd), 7) for odd in ("inf", "-inf", "nan")],
)
def test_a_count_is_a_whole_number_or_none(value: object, read: int) -> None:
    assert as_int(value, 7) == read
