"""Keys as terminals send them, ends of rows, what comes before the prompt, and what is new since a version."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import fragment_list_to_text
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.processors import TransformationInput

from sagent.repl.greeting import take_news
from sagent.repl.terminal.key_codes import read_key
from sagent.repl.terminal.parser import InputParser
from sagent.repl.terminal.wrapping import DrawnInput, gaps
from sagent.repl.view.lines import TAB, one_sign_each, width_of
from sagent.version import __version__
from tests.warm import STATE, warm


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
def test_keys_of_other_terminals(sequence: str, keys: Sequence[Keys | str] | None) -> None:
    found = read_key(sequence)
    assert (list(found) if isinstance(found, tuple) else found if found is None else [found]) == keys


def pressed(*reads: str) -> list[tuple[str, str]]:
    """The keys, each with its text, that a terminal's input is taken for when it comes in these pieces."""
    found: list[KeyPress] = []
    parser = InputParser(found.append, bool, bool, lambda: True, lambda *_: None, bool)
    for data in reads:
        parser.feed(data)
    parser.flush()
    return [(str(getattr(press.key, "value", press.key)), press.data) for press in found]


PASTE, ENTER = "<bracketed-paste>", ("c-m", "\r")


@pytest.mark.parametrize(
    ("reads", "keys"),
    [
        (["first line\rsecond"], [(PASTE, "first line\rsecond")]),
        (["first line\rsecond\r"], [(PASTE, "first line\rsecond\r")]),
        (["first line\nsecond", "\r"], [(PASTE, "first line\nsecond"), ENTER]),
        (["the first line\rsec", "ond\rthird\r"], [(PASTE, "the first line\rsecond\rthird\r")]),
        (["x" * 300, "\r"], [(PASTE, "x" * 300), ENTER]),
        (["first line\rsecond", "\x1b[A"], [(PASTE, "first line\rsecond"), ("up", "\x1b[A")]),
        (["first line\rsecond", "\x03"], [(PASTE, "first line\rsecond"), ("c-c", "\x03")]),
        (["\x1b[200~first line\rsecond\x1b[201~", "\r"], [(PASTE, "first line\rsecond"), ENTER]),
        (["hi\r"], [("h", "h"), ("i", "i"), ENTER]),
        (["h\x1b[?62;22ci\x1b[97:65;2;65u\x1b[13;2:3u\x1b[?2026;2$y\r"], [("h", "h"), ("i", "i"), ENTER]),
        (["h\x1bP>|tmux 3.4\x1b\\\x1b]10;rgb:0/0/0\x07i"], [("h", "h"), ("i", "i")]),
        (["\x1b[200~a\x1b[999;9zb\x1b[201~"], [(PASTE, "a\x1b[999;9zb")]),
        (["y\rn\r"], [("y", "y"), ENTER, ("n", "n"), ENTER]),  # fast hands
        (["\r\r\r"], [ENTER] * 3),
        (["hi", "\rhello\r"], [("h", "h"), ("i", "i"), ENTER, *((one, one) for one in "hello"), ENTER]),
        (["hi", "\rfirst line\rsecond"], [("h", "h"), ("i", "i"), ENTER, (PASTE, "first line\rsecond")]),
        (
            ["hi", "\rthen another message\r"],
            [*((o, o) for o in "hi"), ENTER, *((o, o) for o in "then another message"), ENTER],
        ),
    ],
)
def test_unmarked_paste_is_one_paste(reads: Sequence[str], keys: Sequence[tuple[str, str]]) -> None:
    assert pressed(*reads) == keys


ANSWERS = [
    "\x1b]11;rgb:1a1a/1b1b/2626\x1b\\",
    "\x1b]10;rgb:ff/ff/ff\x07",
    "\x1b[?62;22c",
    "\x1b[>84;0;0c",
    "\x1b[<0;9;9M",
    "\x1b[M yy",
    "\x1b[?2026;2$y",
    "\x1bP>|tmux 3.4\x1b\\",
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_split_answer_is_not_typed(answer: str) -> None:
    for at in range(len(answer)):
        assert pressed("h" + answer[:at], answer[at:] + "i") == [("h", "h"), ("i", "i")], at


def test_late_answer_swallows_no_key() -> None:
    found: list[KeyPress] = []
    lights: list[bool] = []
    parser = InputParser(found.append, bool, lights.append, lambda: True, lambda *_: None, bool)
    for data in ("\x1b]11;rgb:ffff/ff", "ff/ffff\x1b", "\\", "\x1b]11;rgb:ff", "a", "\x1b", "]", "P", "1"):
        parser.feed(data)
        parser.flush()
    assert [press.data for press in found] == ["a", "\x1b", "]", "P", "1"]
    assert lights == [True]


@pytest.mark.parametrize("text", ["\x1bPlease stop", "\x1b]", "\x1b[", "\x1bP1 first", "\x1b\x1b", "\x1b_G", "\x1bXy"])
def test_typing_after_esc_is_kept(text: str) -> None:
    assert "".join(data for _, data in pressed(*text)) == text
    assert "".join(data for _, data in pressed(text)) == text


@given(st.lists(st.text(st.sampled_from("aé宽\t "), min_size=8), min_size=2, max_size=30), st.integers(17, 1024))
def test_unmarked_paste_sends_no_line(lines: Sequence[str], size: int) -> None:
    text = "\r".join(lines)
    reads = [text[at : at + size] for at in range(0, len(text), size)]
    assume("\r" in reads[0][:-1] and "\r" not in reads[1:])
    assert pressed(*reads) == [(PASTE, text)]


@given(st.text(st.sampled_from("ab宽 "), max_size=60), st.integers(4, 20))
def test_rows_break_between_words(text: str, room: int) -> None:
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


@given(st.text(st.sampled_from("ab宽 \t\u200d\ufe0f👩❤🏽🇨1\u20e3"), max_size=60), st.integers(8, 20))
def test_input_drawn_in_agreed_columns(text: str, width: int) -> None:
    asked = TransformationInput(
        BufferControl(), Document(text), 0, lambda place: place, [("", text)], width, 1, lambda number: [("", text)]
    )
    done = DrawnInput(lambda: 2).apply_transformation(asked)
    drawn = fragment_list_to_text(done.fragments)
    assert not {*drawn} & {*"\t\u200d\ufe0f🏽🇨\u20e3"}
    assert "".join(drawn.split()) == "".join(one_sign_each(text).split())
    for place, letter in enumerate(text):
        if one_sign_each(letter) and (at := done.source_to_display(place)) < len(drawn):
            assert letter.isspace() or (drawn[at] == one_sign_each(letter) and done.display_to_source(at) == place)
    assert done.source_to_display(len(text)) == len(drawn)
    assert "\t" not in text or " " * len(TAB) in drawn or width_of(drawn) >= width - 2


def test_news_told_once_not_to_new_users(tmp_path: Path) -> None:
    assert take_news(tmp_path / "state") == ()
    assert (tmp_path / "state" / "version").read_text() == __version__
    (tmp_path / "state" / "version").write_text("0.0.9")
    assert 0 < len(take_news(tmp_path / "state")) < 6
    assert take_news(tmp_path / "state") == ()


def test_prompt_imports_little() -> None:
    code = (
        "import asyncio, prompt_toolkit.shortcuts, sys; bare = {*sys.modules}\n"
        "import sagent.cli.main, sagent.cli.interactive, sagent.repl.front, sagent.repl.view.theme\n"
        "sagent.cli.interactive.plain_lines({}, None); sagent.repl.view.theme.rules_of('auto')\n"
        "print(*{*sys.modules} - bare)"
    )
    terminal = {**os.environ, "TERM": "xterm"}
    done = subprocess.run([sys.executable, "-c", code], env=terminal, capture_output=True, text=True, check=True)
    found = done.stdout.split()
    assert {name for name in found if not name.startswith("sagent")} <= {"dataclasses", "gc"}
    assert len(found) < 30


def test_commands_import_when_run(tmp_path: Path) -> None:
    """What only one of them needs is not in the memory of every session."""
    code = (
        "import sys; from pathlib import Path; from sagent.config import load\n"
        "from sagent.repl.commands.registry import all_commands; place = Path(sys.argv[1])\n"
        "found = all_commands(load({}, {'HOME': str(place)}, place)); before = ' '.join(sys.modules)\n"
        "all(one.summary for one in found.values()); print(before, *sys.modules, sep='\\n')"
    )
    warm(tmp_path / STATE)
    argv = [sys.executable, "-c", code, str(tmp_path)]
    before, *after = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    found = {*after}
    assert "slash" not in before  # until they are listed
    late = {"argparse", "difflib", "email", "html.entities", "importlib.metadata", "platform", "tarfile"}
    late |= {"zipfile", "sagent.advisor.extension", "sagent.cli.headless", "sagent.plugins.mcp.servers"}
    late |= {"sagent.plugins.exports.formats", "sagent.plugins.review.reviewer", "sagent.plugins.setup.doctor"}
    assert late & found == set()
    assert "sagent.plugins.setup.slash" in found
