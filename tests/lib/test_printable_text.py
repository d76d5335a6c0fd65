"""Text from elsewhere, as people see it: it drives nothing, and looks like nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.lib.text import printable


@pytest.mark.parametrize("unseen", [*"\x1b\r\x9b\u200b\u200f\u202e\u2060\ufeff\xad\U000e0041"])
def test_invisible_characters_are_shown(unseen) -> None:
    assert printable(f"git{unseen} status") == "git� status"


@pytest.mark.parametrize("joiner", ["\u200c", "\u200d"])
def test_joiners_only_in_scripts_needing_them(joiner) -> None:
    assert printable(f"gi{joiner}t") == "gi�t"
    for text in (f"👩{joiner}💻", f"می{joiner}خواهم"):
        assert printable(text) == text


@given(st.text())
def test_text_keeps_length_and_visible_part(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    assert all(now in (before, "�") for before, now in zip(text, shown, strict=True))
    assert all(now == before for before, now in zip(text, shown, strict=True) if before.isprintable())
    assert printable(shown) == shown
