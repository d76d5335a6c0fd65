"""Names of files as text: on one line, and read back as they were."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.lib.names import quote_path, unquote_path
from tests.depth import deep

pieces = st.lists(
    st.sampled_from([b"$'", b"'", b"\\", b"n", b"x41", b"\n", b"\xff", "é".encode(), b"/", b" ", b"\x1b"])
)


@settings(max_examples=deep(120, 300))
@given(st.binary(max_size=12) | pieces.map(b"".join))
def test_any_name_is_one_line_and_read_back(raw):
    path = os.fsdecode(raw)
    shown = quote_path(path)
    assert shown.encode().decode() == shown
    assert len(shown.splitlines()) <= 1
    assert unquote_path(shown) == path
    assert unquote_path(f"some/dir/{shown}") == f"some/dir/{path}"
    assert unquote_path(f"{shown}/file") == f"{path}/file"


@pytest.mark.parametrize("path", ["a b.txt", "größe/日本.md", "it's", "C:\\new", "$HOME/x", "$'x'", ""])
def test_ordinary_names_stay_as_they_are(path):
    assert quote_path(path) == path == unquote_path(path)


def test_strange_names_are_quoted_as_in_bash():
    assert quote_path("a\nb\\") == r"$'a\nb\\'"
    assert quote_path(os.fsdecode(b"\xff.txt")) == r"$'\xff.txt'"


@pytest.mark.parametrize("unseen", [*"\u200b\u202e\u2066\ufeff\xad\u200d\xa0\u3000\U000e0041"])
def test_unseen_characters_are_escaped(unseen):
    shown = quote_path(f"dir/a{unseen}b.txt")
    assert shown == "$'dir/a" + "".join(f"\\x{byte:02x}" for byte in unseen.encode()) + "b.txt'"
    assert unquote_path(shown) == f"dir/a{unseen}b.txt"
