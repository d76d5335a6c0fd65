"""What of a block is on the terminal for good is known in every width: nothing is written twice, nothing left out."""

from hypothesis import example, given
from hypothesis import strategies as st

from sagent.repl.terminal.printed import HiddenRows, Printed
from sagent.repl.view.lines import GOES_ON, Line, plain
from sagent.repl.view.markdown import Piece, render_piece

PIECES = st.builds(
    Piece,
    st.sampled_from(["paragraph", "item", "heading"]),
    st.lists(
        st.sampled_from(["one", "two,", "(three)", "*four*", "`five six`", "seven.", "eight" * 9]), min_size=1
    ).map(" ".join),
    mark=st.just("1."),
)


def words(*rows: Line) -> str:
    return "".join(character for row in rows for _, text in row for character in text if character.isalnum())


@example(Piece("paragraph", "one"), Piece("paragraph", "one"), [(12, 0, 3), (12, 2, 0)])  # a row ended by its letters
@given(PIECES, PIECES, st.lists(st.tuples(st.integers(12, 90), st.integers(0, 9), st.integers(0, 5)), max_size=4))
def test_every_letter_is_written_once(first: Piece, second: Piece, steps: list[tuple[int, int, int]]) -> None:
    printed, written = Printed(), ""
    for width, rows, letters in (*steps, (40, 0, 0)):
        block = [*render_piece(first, width), (), *render_piece(second, width)]
        rest = printed.rest(block, width)
        rows = min(rows, len(rest))
        more = min(letters, len(words(*rest[rows : rows + 1])))
        printed.add(rows, more)
        written += words(*rest[:rows]) + words(*rest[rows : rows + 1])[:more]
    whole = words(*render_piece(first, 40), *render_piece(second, 40))
    ended = words(*printed.finish(render_piece(first, 66), 66))
    assert written + ended + words(*printed.rest(render_piece(second, 50), 50)) == whole


def test_printed_rows_dug_out_within_height() -> None:
    def buried() -> HiddenRows:
        found = HiddenRows()
        found.add([50, 20, (("", "one"),), 30, (("", "a" * 79), GOES_ON), (("", "bb"),), ()])
        return found

    assert buried().dig(80, 99) == (7, [(("", "one"),), (("", "a" * 79), ("", "b"), GOES_ON), (("", "b"),), ()])
    assert buried().dig(40, 99)[0] == 9
    assert buried().dig(80, 5) == (4, [(("", "a" * 79), ("", "b"), GOES_ON), (("", "b"),), ()])
    assert buried().dig(80, 3) == (0, [])
    partly = buried()
    assert plain(partly.dig(80, 6)[1]).startswith("one\n")
    assert partly.dig(80, 99) == (1, [])  # the first, which was not seen then
    partly.add([(("", "a" * 79), GOES_ON)])  # which nothing is known of yet
    assert partly.dig(80, 99) == (0, [])
