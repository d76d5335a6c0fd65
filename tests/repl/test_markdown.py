"""Streamed markdown: blocks come out once, whatever the pieces it comes in."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.repl.view.lines import GOES_ON, line_width, plain, wrap
from sagent.repl.view.markdown import Flow, Piece, feed, finish, inline, render_piece

SAMPLE = """# Title
A paragraph with **bold** and `code`, and *more*.
Second line.

- item one
- item **two** that is longer than the others are
  - nested
    goes on
1. first

```python
def f(x):  # why
    return "s" + 12
```

| name | n |
|:---|--:|
| a \\| b | 1 |
| long cell | 22 |

> quoted
> more

---
- [ ] open
- [x] done

Setext
======
The end
"""


def pieces_of(text: str, cuts: list[int] | None = None) -> list[Piece]:
    """The blocks of a text that comes in pieces."""
    flow, found = Flow(), []
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts or ())})
    for start, end in itertools.pairwise(places):
        flow, pieces = feed(flow, text[start:end])
        found += pieces
    return [*found, *finish(flow)]


def shown(text: str, width: int = 40) -> str:
    """A text as it is rendered."""
    return plain(line for piece in pieces_of(text) for line in render_piece(piece, width))


def test_sample_is_rendered() -> None:
    assert (
        shown(SAMPLE)
        == """\
Title
A paragraph with bold and code, and
more.
Second line.

• item one
• item two that is longer than the
  others are
  • nested
    goes on
1. first

def f(x):  # why
    return "s" + 12

name      │  n
──────────┼───
a | b     │  1
long cell │ 22

▎ quoted
▎ more

────────────────────────────────────────
• ☐ open
• ☑ done

Setext
The end"""
    )


@given(st.lists(st.integers(0, 1000), max_size=40))
def test_markdown_cuts_make_no_difference(cuts: list[int]) -> None:
    assert pieces_of(SAMPLE, cuts) == pieces_of(SAMPLE)


@given(st.text(alphabet="ab *_`#|->[](1.)~\n\\:", max_size=200), st.lists(st.integers(0, 300), max_size=20))
def test_cuts_do_not_change_finished_blocks(text: str, cuts: list[int]) -> None:
    assert pieces_of(text, cuts) == pieces_of(text)


@given(st.text(max_size=300), st.integers(10, 120))
def test_rows_fit_terminal_width(text: str, width: int) -> None:
    for piece in pieces_of(text):
        for live in (True, False):
            rows = render_piece(piece, width, live=live)
            assert all(line_width(row) <= max(width, 40) for row in rows), plain(rows)
            assert not any(ord(letter) < 32 for letter in plain(rows).replace("\n", ""))


def test_code_line_finishes_at_newline() -> None:
    flow, first = feed(Flow(), "```py\nx = 1\ny")
    assert [piece.text for piece in first] == ["x = 1"]
    assert flow.pending == "y"
    _, rest = feed(flow, " = 2\n```\nAfter\n\n")
    assert [(piece.kind, piece.text) for piece in rest] == [("code", "y = 2"), ("paragraph", "After")]


@pytest.mark.parametrize(
    ("text", "live", "spans"),
    [
        ("a **b** c", False, [("", "a "), ("class:strong", "b"), ("", " c")]),
        ("a **b", True, [("", "a "), ("class:strong", "b")]),
        ("a **b", False, [("", "a **b")]),
        ("2 * 3 * 4", False, [("", "2 * 3 * 4")]),
        ("snake_case_name", False, [("", "snake_case_name")]),
        ("`a**b**`", False, [("class:inline-code", "a**b**")]),
        ("\\*no\\*", False, [("", "*"), ("", "no"), ("", "*")]),
        ("[x](http://y.z)", False, [("class:link [http://y.z]", "x"), ("class:dim", " (http://y.z)")]),
    ],
)
def test_marks_inside_a_line(text: str, live: bool, spans: list[tuple[str, str]]) -> None:
    assert list(inline(text, live=live)) == spans


def test_unfinished_mark_keeps_shown_text() -> None:
    before = render_piece(Piece("paragraph", "so **it is"), 40, live=True)
    after = render_piece(Piece("paragraph", "so **it is** done"), 40)
    assert plain(after).startswith(plain(before))


@given(st.text(alphabet="ab 漢字é\n", max_size=120), st.integers(8, 40))
def test_wrapping_keeps_every_word(text: str, width: int) -> None:
    rows = wrap([("", text)], width)
    assert all(line_width(row) <= width for row in rows)
    assert plain(rows).replace("\n", "").replace(" ", "") == text.replace("\n", "").replace(" ", "")


def test_wide_table_wraps_cells() -> None:
    text = "| a | b |\n|---|---|\n| " + "word " * 20 + "| short |\n"
    rows = shown(text, 30).split("\n")
    assert max(map(len, rows)) <= 30
    assert len(rows) > 4


@given(st.lists(st.lists(st.text("xy 漢🍎", max_size=20), min_size=9, max_size=9), min_size=1), st.integers(20, 100))
def test_table_of_many_columns_fits(cells: list[list[str]], width: int) -> None:
    text = "\n".join(f"|{'|'.join(row)}|" for row in [["head"] * 9, ["---"] * 9, *cells])
    rows = [row for piece in pieces_of(text) for row in render_piece(piece, width)]
    assert all(line_width(row) <= width for row in rows)
    assert all(plain(rows).count(letter) == text.count(letter) for letter in "xy漢🍎")


def test_too_many_columns_become_a_list() -> None:
    head = "| Name | Size | Kind | Made | Owner |\n|---|--:|---|---|---|\n"
    rows = "| a.py | 12 | file | today | me |\n| b | 3 | | | you |\n"
    first, rule, second = (
        "Name: a.py\nSize: 12\nKind: file\nMade: today\nOwner: me",
        "─" * 24,
        "Name: b\nSize: 3\nOwner: you",
    )
    assert shown(head + rows, 24) == f"{first}\n{rule}\n{second}"
    assert shown(head, 24) == "Name\nSize\nKind\nMade\nOwner"


def test_table_breaks_words_last() -> None:
    text = "| Fruit | Beschreibung | Price |\n|---|---|---|\n| pear | so many words that they do not fit | 12345.67 |\n"
    assert "Beschreibung" in shown(text, 34)
    assert "12345.67" in shown(text, 34)


def test_cell_may_have_lines() -> None:
    assert shown("| a | b |\n|---|---|\n| one<br>two<br/>3 | x |\n") == "a   │ b\n────┼──\none │ x\ntwo │ \n3   │ "


@pytest.mark.parametrize(
    "text", ["2*3*4", "x**2 + y**2", "src/**/*.py and **/test_*.py, tests/** too", "__init__.py, __main__"]
)
@pytest.mark.parametrize("live", [False, True])
def test_operators_are_not_emphasis(text: str, *, live: bool) -> None:
    assert "".join(part for _, part in inline(text, live=live)) == text


@pytest.mark.parametrize(
    "text", ["~~a " * 2_000, "*_" * 450 + "a" + "_*" * 450, "**~~" * 2_000, "`" * 2_000 + "a " * 2_000]
)
@pytest.mark.parametrize("live", [False, True])
def test_marks_without_end_are_read(text: str, *, live: bool) -> None:
    assert "a" in "".join(part for _, part in inline(text, live=live)) or "a" not in text


def test_line_may_end_with_backslash() -> None:
    assert shown("one\\\n**two**\\\nthree\n") == "one\ntwo\nthree"
    assert [span for span in inline("这是**重点**内容") if span[0]] == [("class:strong", "重点")]
    assert [span for span in inline("__two words__") if span[0]] == [("class:strong", "two words")]
    assert [span for span in inline("all **API**s") if span[0]] == [("class:strong", "API")]


def test_nested_quotes_with_code_and_lists() -> None:
    text = "> one\n> > two\n> > ```sh\n> > ls -la\n> > ```\n\n- a\n  - b\n      > c\n"
    assert shown(text) == "▎ one\n▎ ▎ two\n\nls -la\n\n• a\n  • b\n      ▎ c"


def test_bare_address_is_copied_whole() -> None:
    address = "https://example.org/" + "x" * 50
    (piece,) = pieces_of(f"See **this:\nhttps://short**\n{address}\n{address}\nand that.\n")
    first, short, *rows, last = render_piece(piece, 30, edge=31)
    assert (plain([first, short]), plain([last])) == ("See this:\nhttps://short", "and that.")
    assert plain(rows) == "\n".join([address[:31], address[31:62], address[62:]] * 2)
    assert [GOES_ON in row for row in rows] == [True, True, False] * 2


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("1. a:\n\n   ```py\n   x = 1\n     y\n   ```\n", "1. a:\n\n   x = 1\n     y"),
        ("- a\n\n  > b\n  > c\n", "• a\n\n  ▎ b\n  ▎ c"),
        ("- a\n\n  | b | c |\n  |---|---|\n  | 1 | 2 |\n", "• a\n\n  b │ c\n  ──┼──\n  1 │ 2"),
        ("- ```py\n  x\n  ```\n- > b\n- - c\n", "• \n\n  x\n\n• \n  ▎ b\n• \n  • c"),
        ("a\n\n    b\n      c\n", "a\n\nb\n  c"),
        ("- a\n\n    b\n", "• a\n\n    b"),  # a paragraph of the item
        ("a | b\n--|--\n1 | 2\n", "a │ b\n──┼──\n1 │ 2"),
    ],
)
def test_blocks_in_lists_keep_their_indent(text: str, rows: str) -> None:
    assert shown(text) == rows


@pytest.mark.plugin("diagrams")
@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a &lt;b&gt; &amp; &#8364;5&nbsp;&mdash; x", "a <b> & €5 — x"),
        ("`&amp;` &nothing; & &#27;", "&amp; &nothing; & "),
        ("$E = mc^2$ and \\(\\alpha \\le \\beta_{12}\\).", "E = mc² and α ≤ β₁₂."),
        ("$$\n\\frac{a+b}{2} \\cdot \\sqrt{x}\n$$", "(a+b)/2 · √x"),
        ("\\[ \\sum_{i=1}^n x_i^{-2} \\]", "∑ᵢ₌₁ⁿ xᵢ⁻²"),
        ("$\\hat{y} \\in \\mathbb{R}^{ab_c}$", "y\u0302 ∈ ℝ^(ab_c)"),
        ("$$\\begin{pmatrix}a\\end{pmatrix}$$", "$$\\begin{pmatrix}a\\end{pmatrix}$$"),  # as it is
        ("$" + "{" * 250 + "$", "$" + "{" * 250 + "$"),
        ("It costs $5 and $10, or $HOME/$USER.", "It costs $5 and $10, or $HOME/$USER."),
    ],
)
def test_entities_and_formulas_are_drawn(text: str, seen: str) -> None:
    assert "".join(part for _, part in inline(text)) == seen
