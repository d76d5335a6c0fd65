"""Keys as terminals send them, words at the ends of rows, and what is new since a version."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.keys import Keys

from sagent.repl.greeting import take_news
from sagent.repl.terminal.key_codes import read_key
from sagent.repl.terminal.wrapping import gaps
from sagent.repl.view.lines import width_of
from sagent.version import __version__


@pytest.mark.parametrize(
    ("sequence", "keys"),
    [
        ("\x1b[13;2u", [Keys.ControlJ]),
        ("\x1b[27;2;13~", [Keys.ControlJ]),
        ("\x1b[13u", [Keys.ControlM]),
        ("\x1b[13;3u", [Keys.Escape, Keys.ControlM]),
        ("\x1b[27u", [Keys.Escape]),
        ("\x1b[99;5u", [Keys.ControlC]),
        ("\x1b[99;69u", [Keys.ControlC]),  # with Caps Lock
        ("\x1b[98;3u", [Keys.Escape, "b"]),
        ("\x1b[9;2u", [Keys.BackTab]),
        ("\x1b[127;5u", [Keys.Escape, Keys.ControlH]),
        ("\x1b[45;6u", [Keys.ControlUnderscore]),
        ("\x1b[228;1u", ["ä"]),
        ("\x1b[57414u", [Keys.ControlM]),  # of the keypad
        ("\x1b[57419;129u", [Keys.Up]),
        ("\x1b[1;129A", [Keys.Up]),  # with Num Lock
        ("\x1b[1;133C", [Keys.ControlRight]),
        ("\x1b[97;9u", [Keys.Ignore]),  # with Super
        ("\x1b[9999999u", [Keys.Ignore]),
        ("\x1b[12;40R", None),
        ("\x1b[A", None),
    ],
)
def test_keys_told_apart_are_those_of_other_terminals(sequence: str, keys: Sequence[Keys | str] | None) -> None:
    found = read_key(sequence)
    assert (list(found) if isinstance(found, tuple) else found if found is None else [found]) == keys


@given(st.text(st.sampled_from("ab宽 "), max_size=60), st.integers(4, 20))
def test_rows_end_between_words_and_no_word_that_fits_is_broken(text: str, room: int) -> None:
    found = gaps(text, room)
    shown = "".join(
        "" if found.get(number) == -1 else " " * found.get(number, 0) + letter for number, letter in enumerate(text)
    )
    rows: list[str] = [""]
    for letter in shown:  # as a terminal's window breaks them
        if width_of(rows[-1] + letter) > room:
            rows.append("")
        rows[-1] += letter
    assert "".join(shown.split()) == "".join(text.split())
    whole = [word for row in rows for word in row.split()]
    assert [word for word in text.split() if width_of(word) <= room and word not in whole] == []


def test_what_is_new_is_told_once_and_not_to_who_is_new(tmp_path: Path) -> None:
    assert take_news(tmp_path / "state") == ()
    assert (tmp_path / "state" / "version").read_text() == __version__
    (tmp_path / "state" / "version").write_text("0.0.9")
    assert 0 < len(take_news(tmp_path / "state")) < 6
    assert take_news(tmp_path / "state") == ()
