"""What is new among errors: nothing that only moved, everything that was not there."""

from hypothesis import given
from hypothesis import strategies as st

from sagent.plugins.code.lsp.diagnostics import MAX_ERRORS, Diagnostic, new_errors, read_errors, report
from sagent.plugins.code.lsp.text import Lines, TextEdit, apply_edits

LINES = st.lists(st.sampled_from(["a", "b", "BAD", "BAD too", ""]), max_size=12)


def check(lines: list[str]) -> tuple[str, list[Diagnostic]]:
    found = [Diagnostic(number, 1, line) for number, line in enumerate(lines, 1) if "BAD" in line]
    return "\n".join(lines), found


@given(LINES)
def test_no_change_no_new_errors(lines: list[str]) -> None:
    assert new_errors(check(lines), check(lines)) == []


@given(LINES, LINES, st.data())
def test_moved_errors_not_new(lines: list[str], more: list[str], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(lines)))
    after = check(lines[:place] + more + lines[place:])
    new = new_errors(check(lines), after)
    assert sorted(error.message for error in new) == sorted(line for line in more if "BAD" in line)


@given(LINES, LINES)
def test_new_errors_bounded_by_counts(one: list[str], two: list[str]) -> None:
    before, after = check(one), check(two)
    new = new_errors(before, after)
    assert set(new) <= set(after[1])
    for message in ("BAD", "BAD too"):
        grown = two.count(message) - one.count(message)
        assert sum(error.message == message for error in new) >= grown


def test_name_found_with_any_boundary() -> None:
    lines = Lines("id_map = id_\nx_id_ = a.b! + a.b!c\n")
    assert lines.find("id_", None) == {"line": 0, "character": 9}
    assert lines.find("id_", 2) == {"line": 0, "character": 9}
    assert lines.find("a.b!", 2) == {"line": 1, "character": 8}
    assert lines.find("map", None) is None


def test_lines_end_as_servers_count() -> None:
    before = "a\x0cb\u2028c\nx", [Diagnostic(2, 1, "missing")]
    after = "a\x0cb\u2028c\nnew x\nx", [Diagnostic(2, 1, "missing"), Diagnostic(3, 1, "missing")]
    assert new_errors(before, after) == [Diagnostic(2, 1, "missing")]


def test_only_valid_errors_read() -> None:
    items: list[object] = [
        {"severity": 2, "message": "a warning"},
        {"message": "no severity\nin lines", "code": 12},
        {"severity": 1, "message": ""},
        "nonsense",
        {"severity": 1, "message": "\x1b[31mred", "range": {"start": {"line": "x"}}},
    ]
    assert [str(error) for error in read_errors(items, "s")] == ["1:1 no severity in lines (s 12)", "1:1 �[31mred (s)"]


def test_report_bounded() -> None:
    errors = [Diagnostic(number, 1, "m") for number in range(40)]
    assert len(report([("a.py", errors)]).splitlines()) == MAX_ERRORS + 2
    assert report([("a.py", [])]) == ""


@given(st.text(alphabet="ab\r\n𝕏é ", max_size=30), st.data())
def test_utf_16_positions_round_trip(text: str, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, len(text)))
    lines = Lines(text)
    if "\r\n" not in text[offset - 1 : offset + 1]:
        assert lines.offset(lines.position(offset)) == offset
    assert lines.position(text.index("𝕏") + 1)["character"] >= 2 if "𝕏" in text else True


@given(
    st.text(max_size=20), st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5), st.text(max_size=3)), max_size=4)
)
def test_edits_apply_in_any_order(text: str, given: list[tuple[int, int, str]]) -> None:
    edits, free = list[TextEdit](), 0
    for start, size, new in sorted(given):
        start = max(start, free)
        if start + size <= len(text):
            edits.append(TextEdit(start, start + size, new))
            free = start + size + 1
    made = apply_edits(text, edits)
    assert apply_edits(text, edits[::-1]) == made
    assert len(made) == len(text) + sum(len(edit.new) - (edit.end - edit.start) for edit in edits)
