"""Texts that look the same: told apart in escapes, equal where they are canonically."""

from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.lib.lookalike import canonical, find_canonical, look_alike, reveal


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        ("cafe\u0301", "caf\u00e9", "caf\\u00e9"),
        ("zero\u200bwidth", "zerowidth", "zerowidth"),
        ("a\u00a0b", "a b", "a\\x20b"),
        ("\u202eabc", "abc", "abc"),
        ("\u0441opy", "copy", "\\u0063opy"),
        ("\u039fmega", "Omega", "\\u004fmega"),
        ("x\t= 1", "x = 1", "x\\x20= 1"),
        ("end \r", "end", "end"),
        ("soft\u00adhyphen", "softhyphen", "softhyphen"),
        ("star\ufe0f", "star", "star"),
        ("\ufeffhead", "head", "head"),
        ("a\u2011b", "a-b", "a\\x2db"),
    ],
)
def test_lookalikes_are_told_apart(one: str, other: str, shown: str) -> None:
    assert look_alike(one, other)
    first, second = reveal(one, other)
    assert first != second
    assert first.isascii()
    assert second.isascii()
    assert len(second) >= len(shown.replace("\\u0063", "c").replace("\\u004f", "O").replace("\\x2d", "-"))


def test_what_is_seen_to_differ_does_not_look_alike() -> None:
    assert not look_alike("cafe", "caf\u00e9")
    assert not look_alike("same", "same")


WORDS = st.text(st.sampled_from("aé\u0301\u0323ö\u0308한b \n"), max_size=8)


@given(WORDS, WORDS, WORDS, WORDS)
def test_canonical_place_is_replaced_and_the_rest_kept(before: str, old: str, new: str, after: str) -> None:
    quoted = f"x{old}x"
    text = f"{before}<{normalize('NFD', quoted)}>{after}"
    for place in find_canonical(text, normalize("NFC", quoted), f"y{new}y"):
        assert canonical(text[place.start : place.stop]) == canonical(quoted)
        assert canonical(place.made) == canonical(f"y{new}y")
    assert find_canonical(text, quoted, "z") or (text + quoted).isascii()


def test_unchanged_letters_keep_their_form() -> None:
    text = "title = 'cafe\u0301'\n"
    (place,) = find_canonical(text, "title = 'caf\u00e9'", "title = 'caf\u00e9 caf\u00e9'")
    assert place.made == "title = 'cafe\u0301 caf\u00e9'" or place.made == "title = 'caf\u00e9 cafe\u0301'"
