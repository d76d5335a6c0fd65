"""Changes as rows: numbers, changed words, the code's colours, and how much of it is shown."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import CALL, DIFF, EDIT, answer

from sagent.cli.render import TextRenderer, Transcript
from sagent.events import Failure, Finished, Result, TextDelta, ToolFinished
from sagent.lib.diff import unified
from sagent.repl.view.blocks import render_block
from sagent.repl.view.diff import changes, diff_rows, render_diff, render_whole_diff
from sagent.repl.view.lines import FILL, line_width, plain
from sagent.repl.view.markdown import colour


def changed(old: str, new: str, path: str = "a.py") -> list[tuple[str, str]]:
    """The sign and the marked words of each changed row."""
    found: list[tuple[str, str]] = []
    for sign, _, line in diff_rows(unified(old.split("\n"), new.split("\n")), path=path):
        if sign in ("+", "-"):
            found.append((sign, "".join(text for style, text in line if "word-" in style)))
    return found


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("x = one(2)", "x = two(2)", [("-", "one"), ("+", "two")]),
        ("return a", "return a or b", [("-", ""), ("+", " or b")]),
        ("nothing alike", "x = 1", [("-", ""), ("+", "")]),
        ("first\nreturn f(a)", "return f(b)", [("-", ""), ("-", "a"), ("+", "b")]),
        ("return f(a)", "new line\nreturn f(b)", [("-", "a"), ("+", ""), ("+", "b")]),
        ("a = 1\nb = 2", "a = 3\nb = 4", [("-", "1"), ("-", "2"), ("+", "3"), ("+", "4")]),
        ("a " * 500 + "x", "a " * 500 + "y", [("-", ""), ("+", "")]),  # compared up to a limit
    ],
)
def test_changed_words_are_marked(old: str, new: str, words: list[tuple[str, str]]) -> None:
    assert changed(old, new) == words


TEXTS = st.lists(st.text("ab =(\t⟨漢", max_size=30), min_size=1, max_size=12)


@given(TEXTS, TEXTS, st.integers(20, 90))
def test_diff_rows_hold_every_line(old: list[str], new: list[str], width: int) -> None:
    diff = unified(old, new)
    rows = list(diff_rows(diff, str, "a.py"))
    for sign, lines in (("-", old), ("+", new)):
        texts = ["".join(text for _, text in line) for mark, _, line in rows if mark == sign]
        numbers = [number for mark, number, _ in rows if mark == sign]
        assert texts == [lines[number - 1].replace("\t", "    ") for number in numbers]
    assert changes(diff)[1:3] == tuple(sum(mark == sign for mark, _, _ in rows) for sign in "+-")
    for lines in (render_diff(diff, width), render_whole_diff(diff, width, "a.py")):
        assert all(line_width(line) <= width for line in lines)


def test_rows_reach_the_edge_in_their_colour() -> None:
    diff = unified(["a"], ["b"])
    assert [line[-1] for line in render_diff(diff, 20)] == [
        (f"class:line-{what} {FILL}", "") for what in ("removed", "added")
    ]
    assert [line_width(line) for line in render_whole_diff(diff, 20)] == [20, 20]


def test_code_has_its_language_colours() -> None:
    diff = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-# one\n+return 1\n--- a/y.txt\n+++ b/y.txt\n@@ -1 +1 @@\n+return 1\n"
    styles = [[style.split()[0] for style, _ in line] for _, _, line in diff_rows(diff)]
    assert styles == [
        ["class:code.comment"],
        ["class:code.word", "class:code", "class:code.number"],
        ["class:dim"],
        ["class:code"],
    ]


def test_long_diff_is_counted_not_coloured() -> None:
    diff = unified([], [f"line {number}" for number in range(300)])
    *_, last = render_diff(diff, 80, max_lines=10)
    assert "290 more" in plain([last])


def test_progress_has_cards_of_the_repl() -> None:
    calls = (
        ToolFinished("root", CALL, answer(CALL, "1 failed", failed=True), 3.2, "exit 1"),
        ToolFinished("root", EDIT, answer(EDIT), 0.1, "Edited a.py", DIFF),
        ToolFinished("root/review", EDIT, answer(EDIT), 0.1, "Edited a.py", DIFF),
    )
    shown = io.StringIO()
    transcript = Transcript(shown)
    for event in calls:
        transcript.on_event(event)
    assert shown.getvalue() == "".join(f"{plain([row])}\n" for event in calls for row in render_block(event, 160))


def test_end_of_progress_begins_a_line() -> None:
    shown = io.StringIO()
    renderer = TextRenderer(io.StringIO(), shown, Transcript(shown))
    ended = Result("", (), "interrupted", Failure("interrupted", "the run was interrupted"))
    renderer.on_event(TextDelta("root", "def merge"))
    renderer.on_event(Finished("root", ended))
    renderer.on_result(ended)
    assert shown.getvalue().splitlines() == ["def merge", "sagent: the run was interrupted"]


def test_file_names_in_a_block_are_no_changes() -> None:
    lines = ("--- a/x.sql", "+++ b/x.sql", "--- /dev/null", "@@ -1 +1 @@", "--- words", "+++ words", "-x")
    styles = [colour(line, "diff")[0][0] for line in lines]
    assert styles == ["class:diff.place"] * 4 + ["class:line-removed", "class:line-added", "class:line-removed"]
