"""Text from elsewhere, as people see it: it drives nothing, and looks like nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.lib.text import printable


@pytest.mark.parametrize("unseen", [*"\x1b\r\x9b\u200b\u200f\u202e\u2060\ufeff\xad\U000e0041"])
def test_what_is_not_seen_is_shown_to_be_there(unseen) -> None:
    assert printable(f"git{unseen} status") == "git� status"


@pytest.mark.parametrize("joiner", ["\u200c", "\u200d"])
def test_joiners_are_for_the_scripts_that_need_them(joiner) -> None:
    assert printable(f"gi{joiner}t") == "gi�t"
    for text in (f"👩{joiner}💻", f"می{joiner}خواهم"):
        assert printable(text) == text


@given(st.text())
def test_text_keeps_its_length_and_what_is_plainly_seen(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    assert all(now in (before, "�") for before, now in zip(text, shown, strict=True))
    assert all(now == before for before, now in zip(text, shown, strict=True) if before.isprintable())
    assert printable(shown) == shown
