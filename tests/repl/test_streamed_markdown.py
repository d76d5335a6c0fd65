"""Markdown that streams in any pieces onto a terminal of any size: each word is there once, in order and aligned."""

import asyncio
import itertools
import re
from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from sagent.events import ReplyFinished, TextDelta
from sagent.messages import assistant
from sagent.repl.terminal.painter import Painter
from sagent.repl.terminal.printed import Printed
from sagent.repl.terminal.surface import Surface
from sagent.repl.view.lines import GOES_ON, Line, line_width, plain
from sagent.usage import Usage


class Paper(Surface):
    """Rows as they come above the input of a terminal of this size, and stay."""

    def __init__(self, width: int, reach: int) -> None:
        self._columns, self._room = width, reach
        self.open_rows: list[Line] = []
        self.printed = Printed()
        self.rows: list[Line] = []
        self._unsettled = False
        self.fits = lambda: True

    @property
    def width(self) -> int:
        return self._columns

    @property
    def reach(self) -> int:
        return self._room

    @property
    def _is_full(self) -> bool:
        return False

    def resize(self, width: int, reach: int, gone: int) -> None:
        """Make the first unfinished rows final, which are above the terminal's edge now."""
        self.rows += self.open_rows[:gone]
        self._settle(min(gone, len(self.open_rows)))
        self._columns, self._room = width, reach

    def _paint(self, final: list[Line], rows: list[Line]) -> None:
        self.rows += final
        self.open_rows = rows
        assert len(rows) <= self.reach


Resizes = dict[int, tuple[int, int, int]]
"""By the number of a piece, the change of the terminal before it: `Paper.resize` takes it."""


def printed(text: str, width: int, reach: int, cuts: Sequence[int] = (), resizes: Resizes | None = None) -> list[Line]:
    """The rows of a text that streams in pieces, each of them painted."""

    async def stream() -> list[Line]:
        paper = Paper(width, reach)
        painter = Painter(paper, lambda: None)
        places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
        for number, (start, end) in enumerate(itertools.pairwise(places)):
            if resizes and number in resizes:
                paper.resize(*resizes[number])
                painter.paint()
            painter.show(TextDelta("root", text[start:end]))
            painter.paint()
        if resizes and -1 in resizes:  # before the last painting
            paper.resize(*resizes[-1])
        painter.show(ReplyFinished("root", assistant(text), Usage(), None))
        painter.paint()
        assert not paper.open_rows
        return paper.rows

    return asyncio.run(stream())


CUTS = st.lists(st.integers(0, 2_000), max_size=15)
SIZES = st.tuples(st.integers(20, 110), st.integers(1, 40))


def numbered(shapes: Sequence[Sequence[int]]) -> list[list[str]]:
    """Cells of so many words each, no two of them the same."""
    count = itertools.count(100)
    return [[" ".join(f"w{next(count)}" for _ in range(words)) for words in shape] for shape in shapes]


TABLES = st.integers(1, 4).flatmap(
    lambda columns: st.tuples(
        st.lists(st.sampled_from(["---", ":-:", "--:"]), min_size=columns, max_size=columns),
        st.lists(st.lists(st.integers(0, 9), min_size=columns, max_size=columns), min_size=1, max_size=15),
    )
)


@given(TABLES, SIZES, CUTS, st.booleans())
@example((["---", "---", "--:"], [[1, at // 3, 1] for at in range(30)]), (79, 19), [*range(0, 2_000, 50)], True)
@example((["---", "---", "--:"], [[1, at // 3, 1] for at in range(20)]), (39, 6), [*range(0, 2_000, 50)], True)
@example((["---", "---"], [[0, 2], [1, 0]]), (20, 1), [52], True)
@example((["---", "---"], [[0, 0]]), (20, 1), [20], False)
@example((["---"], [[1]]), (20, 1), [10, 19], False)
def test_streamed_table_stays_aligned(
    table: tuple[list[str], list[list[int]]], size: tuple[int, int], cuts: list[int], edge: bool
) -> None:
    marks, shapes = table
    head = [f"h{at}" for at in range(len(marks))]
    rows = [head, *numbered(shapes)]
    lines = ["| " * (edge or not row[0]) + " | ".join(row) + " |" for row in (rows[0], marks, *rows[1:])]
    shown = printed("Before.\n\n" + "\n".join(lines) + "\n\nAfter.\n", *size, cuts)
    first, *_, last = [plain([row]) for row in shown if line_width(row)]
    assert (first, last) == ("Before.", "After.")
    assert all(line_width(row) <= size[0] for row in shown)
    text = plain(shown)
    if "│" in text:
        (bars,) = {tuple(found.start() for found in re.finditer("[│┼]", plain([row]))) for row in shown} - {()}
        below = [plain([row]) for row in shown if re.search("[│┼]", plain([row]))]
        # A word is divided where its column's width was final before it came, and is less.
        for column, (start, end) in enumerate(itertools.pairwise([-1, *bars, size[0]])):
            letters = re.sub("[^hw0-9]", "", "".join(row[start + 1 : end] for row in below))
            assert letters == "".join(row[column] for row in rows).replace(" ", "")
    else:  # no grid, but a list, where there are too many columns
        words = [word for row in rows[1:] for cell in row for word in cell.split()]
        assert [word for word in re.findall(r"w\d+", text) if word in words] == words


BLOCKS = st.lists(
    st.sampled_from(["{}", "{}\n{}", "# {}", "- {}", "1. {}\n   - {}\n", "> {}", "```\n{}\n```", "**{}** {}",
                     "`{}` {}", "[{}](http://a/) {}", "{}\n===", "- {}\n\n  ```py\n  {}\n  ```", "*{} {}*",
                     "| {} | {}", "~~{}~~"]),
    min_size=1, max_size=8,
)  # fmt: skip


@given(BLOCKS, st.lists(st.integers(1, 30), min_size=4, max_size=4), SIZES, CUTS)
@example(["```\n{}\n```"], [5] * 4, (20, 1), [26])
def test_streamed_words_are_shown_once(
    blocks: list[str], lengths: list[int], size: tuple[int, int], cuts: list[int]
) -> None:
    count, length = itertools.count(100), itertools.cycle(lengths)
    text = "\n\n".join(
        re.sub(r"\{\}", lambda _: " ".join(f"w{next(count)}" for _ in range(next(length))), block) for block in blocks
    )
    shown = printed(text, *size, cuts)
    # A line of code that is higher than the live area is printed before it is whole; its rows are full then.
    joined = "".join(plain([row]) + ("" if GOES_ON in row or line_width(row) > size[0] else "\n") for row in shown)
    assert re.findall(r"w\d+", joined) == re.findall(r"w\d+", text)


RESIZES = st.dictionaries(
    st.integers(-1, 15),
    st.tuples(st.integers(20, 110), st.integers(1, 40), st.integers(0, 40)),
    max_size=4,
)
SIGNS = st.sampled_from([0x4E00, 0x1E00])  # letters two columns wide, and one: no column divides a word of one letter


@given(TABLES, SIZES, CUTS, RESIZES, SIGNS)
def test_resized_table_shows_each_word_once(
    table: tuple[list[str], list[list[int]]], size: tuple[int, int], cuts: list[int], resizes: Resizes, first: int
) -> None:
    marks, shapes = table
    signs = map(chr, itertools.count(first))
    rows = [[[next(signs) for _ in range(words)] for words in shape] for shape in shapes]
    lines = ["| " + " | ".join(map(" ".join, row)) + " |" for row in rows]
    head = ["| " + " | ".join(f"h{at}" for at in range(len(marks))) + " |", "| " + " | ".join(marks) + " |"]
    text = "Before.\n\n" + "\n".join([*head, *lines]) + "\n\nAfter.\n"
    shown = [sign for sign in plain(printed(text, *size, cuts, resizes)) if ord(sign) >= first and sign.isalpha()]
    sent = [sorted(itertools.chain(*row)) for row in rows]
    assert sorted(shown) == list(itertools.chain(*sent))  # each once
    place = {sign: at for at, sign in enumerate(shown)}
    assert all(sorted(cell, key=place.__getitem__) == cell for row in rows for cell in row)
    ends = [(min(map(place.__getitem__, row)), max(map(place.__getitem__, row))) for row in sent if row]
    assert all(end < begin for (_, end), (begin, _) in itertools.pairwise(ends))


@given(BLOCKS, st.lists(st.integers(1, 30), min_size=4, max_size=4), SIZES, CUTS, RESIZES, SIGNS)
def test_resized_words_are_shown_once(
    blocks: list[str], lengths: list[int], size: tuple[int, int], cuts: list[int], resizes: Resizes, first: int
) -> None:
    signs, length = map(chr, itertools.count(first)), itertools.cycle(lengths)
    text = "\n\n".join(
        re.sub(r"\{\}", lambda _: " ".join(next(signs) for _ in range(next(length))), block) for block in blocks
    )
    shown = [sign for sign in plain(printed(text, *size, cuts, resizes)) if ord(sign) >= first and sign.isalpha()]
    assert shown == [sign for sign in text if ord(sign) >= first]
