"""Code is folded at the edge: nothing of it is lost, no row is too wide, and a line without end takes no time."""

from hypothesis import given
from hypothesis import strategies as st

from sagent.repl.view.blocks import Page, render_block
from sagent.repl.view.lines import GOES_ON, Line, fold, line_width, plain

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
