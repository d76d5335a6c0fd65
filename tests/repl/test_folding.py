"""Code is folded at the edge: nothing of it is lost, no row is too wide, and a line without end takes no time."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.events import ToolFinished
from sagent.lib.json import json_freeze_object
from sagent.messages import Text, ToolCall, ToolResult
from sagent.repl.terminal.pager import show_in_pager
from sagent.repl.view.blocks import Block, MessageBlock, Page, Shell, expand, expandable, render_block
from sagent.repl.view.lines import GOES_ON, Line, fold, line_width, plain
from sagent.repl.view.markdown import Piece, render_piece

SPANS = st.lists(st.tuples(st.sampled_from(["", "class:x"]), st.text("ab é世\t", max_size=12)), max_size=6).map(tuple)


@given(line=SPANS, width=st.integers(2, 9))
def test_folded_rows_keep_all_text(line: Line, width: int) -> None:
    rows = list(fold(line, width, joined=True))
    assert plain(rows).replace("\n", "") == plain([line])
    assert all(line_width(row) <= width for row in rows)
    assert all(row[-1] is GOES_ON and line_width(row) >= width - 1 for row in rows[:-1])
    assert rows[-1][-1:] != (GOES_ON,)


def test_path_folds_as_one_link() -> None:
    link = "class:link [file:///x]"
    path = f"/home/me/{'folder/' * 9}a page.html"
    rows = render_block(Page((((link, path),), (("", "told"),))), 29)
    assert plain(rows).split("\n") == [path[:30], path[30:60], path[60:], "told"]
    assert [row[-1] is GOES_ON for row in rows] == [True, True, False, False]
    assert {row[0][0] for row in rows} == {link, ""}


def test_long_line_is_walked_once() -> None:
    looks = 0

    class Span(str):
        __slots__ = ()

        def __len__(self) -> int:
            nonlocal looks
            looks += 1
            return super().__len__()

    line = tuple(("", Span("é" * 10)) for _ in range(2_000))
    assert len(list(fold(line, 80, joined=False))) == 250
    assert looks < 20 * len(line)


LONG = "x" * 30_000
CALL = ToolCall("a", "Bash", json_freeze_object({"command": "dump"}))


@pytest.mark.parametrize("width", [39, 109])
@pytest.mark.parametrize(
    "block",
    [
        MessageBlock(f"Look:\n{LONG}\nWell?"),
        MessageBlock(LONG, "root/a"),
        Piece("paragraph", LONG),
        Piece("code", f"short\n{LONG}\nshort", mark="json"),
        Shell("dump", LONG, 0),
        ToolFinished("root", CALL, ToolResult("a", (Text(f"first\n{LONG}\nlast"),)), 0.1, "done", ""),
        ToolFinished("root", CALL, ToolResult("a", (Text(LONG),), is_error=True), 0.1, "failed", ""),
    ],
    ids=["message", "agent", "paragraph", "code", "shell", "call", "failure"],
)
def test_endless_line_is_folded(block: Block, width: int) -> None:
    rows = render_block(block, width)
    shown = " ".join(plain(rows).replace("│", "").split())
    assert len(rows) * width < 10_000
    counted = re.search(r"… ([\d,]+) more characters · Ctrl-O|… 2 more lines · Ctrl-O", shown)
    assert counted
    if counted[1]:
        assert int(counted[1].replace(",", "")) + sum(map(len, re.findall("x+(?=[ x]|$)", shown))) == 30_000
    assert all(line_width(row) <= width + 1 for row in rows)
    assert expandable(block)
    assert plain(expand(block, width)).count("x") >= 30_000


def test_growing_line_keeps_its_rows() -> None:
    before: list[Line] = []
    for size in range(5_000, 9_000, 500):
        rows = render_piece(Piece("paragraph", "word " * (size // 5)), 80, live=True)
        assert rows[: len(before)] == before
        before = rows[:-2]


@pytest.mark.parametrize(("pager", "shown"), [("cat", True), ("no-such-pager-here", False), ("'", False)])
def test_pager_is_the_persons(
    *, pager: str, shown: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PAGER", pager)
    assert show_in_pager([(("", "one"),), (("class:dim", "two"),)], "plain") == shown
    assert ("one\n" in capfd.readouterr().out) == shown
