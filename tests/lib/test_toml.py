"""What is written as TOML is what tomllib reads."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.lib.toml import toml_members, toml_value

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    TEXTS | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), VALUES, max_size=5))
def test_written_toml_reads_back(table: dict[str, object]) -> None:
    assert tomllib.loads(toml_members(table)) == table


def test_large_numbers_and_lone_surrogates() -> None:
    assert toml_value(1_234_567) == "1234567"
    assert tomllib.loads(f"a = {toml_value(chr(0xD800))}") == {"a": "?"}
    with pytest.raises(ValueError, match="cannot be written"):
        toml_value(None)
