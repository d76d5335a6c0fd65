"""Edits that quote a file nearly do the one sure thing, or are refused with a reason: never the wrong edit."""

import json
from collections import Counter
from difflib import SequenceMatcher, unified_diff
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.errors import ToolError
from sagent.tools import Edit, Read
from sagent.tools.nearmiss import recover_edits
from sagent.tools.replacement import Replacement, replace

CASES = [json.loads(line) for line in Path(__file__).with_name("near_misses.jsonl").read_text("utf-8").splitlines()]
KINDS = sorted({case["kind"] for case in CASES})


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 300
    assert len({case["name"] for case in CASES}) >= 12
    assert all(count >= 8 for count in Counter(case["kind"] for case in CASES).values())


@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind(kind: str, call, root) -> None:
    for number, case in enumerate(each for each in CASES if each["kind"] == kind):
        file = root / str(number) / case["name"]
        file.parent.mkdir()
        file.write_bytes(case["text"].encode())
        await call(Read(), file_path=str(file))
        arguments = {"old_string": case["old"], "new_string": case["new"], "replace_all": case["everywhere"]}
        if case["wanted"] is None:
            with pytest.raises(ToolError) as refused:
                await call(Edit(), file_path=str(file), **arguments)
            assert "was not changed" in str(refused.value)
            assert file.read_bytes() == case["text"].encode(), case
        else:
            await call(Edit(), file_path=str(file), **arguments)
            assert file.read_bytes() == case["wanted"].encode(), case


def block(old: str, new: str) -> str:
    return f"<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n"


@pytest.mark.parametrize(
    ("text", "old", "wanted"),
    [
        pytest.param("a\nb\nc\n", block("b\n", ""), "a\nc\n", id="a block that deletes takes the line along"),
        pytest.param("a\nb", block("b\n", ""), "a", id="at the end of a file without a line end"),
        pytest.param("a\nb\nc\n", block("b\n", "\n"), "a\n\nc\n", id="a block that empties a line"),
        pytest.param("a\nb\nc\n", "@@ -2 +1,0 @@\n-b", "a\nc\n", id="a hunk that deletes takes the line along"),
        pytest.param("a\nb\nc\n", "@@ -2 +2 @@\n-b\n+", "a\n\nc\n", id="a hunk that empties a line"),
        pytest.param("a\n=======\nb\n", block("a\n=======\nb\n", "c\n"), None, id="two middles"),
        pytest.param("a\nb\n", block("a\n", "c\n") + block("", "d\n"), None, id="a block that says no place"),
        pytest.param("a\n", "<<<<<<< SEARCH\na\n" + block("a\n", "b\n"), None, id="a block that is not whole"),
        pytest.param("a\nb\n", "@@ -1 +1 @@\n-a\n+c\n@@ -2,0 +3 @@\n+d", None, id="a hunk that says no place"),
    ],
)
def test_near_miss_is_whole_or_refused(text: str, old: str, wanted: str | None) -> None:
    edit = Replacement(old, "", everywhere=False)
    if wanted is None:
        with pytest.raises(ToolError):
            replace(text, edit)
    else:
        assert replace(text, edit)[0] == wanted


@pytest.mark.parametrize(
    ("text", "old", "new", "wanted"),
    [
        ("a\n    b", "    b\n", "    c\n", "a\n    c"),
        ("a\n    b", "b\n", "c\nd\n", "a\n    c\n    d"),
        ("a\r\nb", "a\nb\n", "a\nc\nb\n", "a\r\nc\r\nb"),
        ("x\nb", "b\n", "", "x"),
        ("a\nb\n", "b\n\n", "b\n", None),
        ("a\nb", "b\n", "c", None),
    ],
)
def test_missing_last_newline_may_be_quoted(text: str, old: str, new: str, wanted: str | None) -> None:
    edit = Replacement(old, new, everywhere=False)
    if wanted is None:
        with pytest.raises(ToolError):
            replace(text, edit)
    else:
        assert replace(text, edit)[0] == wanted


@pytest.mark.parametrize("second", [1, 3, 5])
def test_skipping_line_numbers_are_refused(second: int) -> None:
    with pytest.raises(ToolError, match="line numbers"):
        replace("a\nb\nc\n", Replacement(f"     1\ta\n     {second}\tb", "     1\tx", everywhere=False))


def test_untouched_lines_keep_line_ends() -> None:
    after, _ = replace("a\r\nb\nc\r\nd\r\n", Replacement("a\nb\nc\nd", "a\nnew\nc\nd", everywhere=False))
    assert after == "a\r\nnew\r\nc\r\nd\r\n"
    after, _ = replace("a\r\nb\nc\nd\n", Replacement("a\nb\nc", "a\nb\nmore\nc", everywhere=False))
    assert after == "a\r\nb\nmore\nc\nd\n"


WORDS = st.sampled_from(["a", "b = 1", "if x:", "  y('z')", "    return 1", "\tdone", "", "}", "  end  ", "‘so’"])
MISSES = {
    "ends": lambda line: f"{line} \t",
    "indents": lambda line: f"  {line}" if line.strip() else line,
    "tabs": lambda line: line.replace("  ", "\t"),
    "quotes": lambda line: line.replace("'", "’").replace("‘", "'"),
}


def dedent(lines):
    """What takes the indent away that all of some lines have."""
    size = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return lambda line: line[size:]


@given(st.lists(WORDS, min_size=1, max_size=9), st.data(), st.sampled_from([*sorted(MISSES), "dedent"]))
def test_accepted_edit_is_the_meant_one(lines, data, kind) -> None:
    line = data.draw(st.sampled_from(["", "new", "k(1)"]))
    first = data.draw(st.integers(0, len(lines) - 1))
    end = data.draw(st.integers(first + 1, len(lines)))
    changed = data.draw(st.integers(first, end - 1))
    indent = lines[changed][: len(lines[changed]) - len(lines[changed].lstrip())]
    indent += "" if kind == "tabs" else data.draw(st.sampled_from(["", "    ", "\t"]))
    becomes = f"{indent}{line}" if line else ""
    miss = MISSES.get(kind, dedent([*lines[first:end], becomes]))
    old = "\n".join(map(miss, lines[first:end]))
    made = becomes if kind == "ends" else miss(becomes)
    new = "\n".join([*map(miss, lines[first:changed]), made, *map(miss, lines[changed + 1 : end])])
    text = "\n".join(lines)
    if old in text:
        return
    try:
        after, _ = replace(text, Replacement(old, new, everywhere=False))
    except ToolError:
        return
    own = [*lines[:changed], becomes, *lines[changed + 1 :]]
    assert after == "\n".join(own)


@given(
    st.lists(WORDS, min_size=1, max_size=9), st.lists(WORDS, min_size=1, max_size=9), st.integers(0, 3), st.booleans()
)
def test_diff_is_exact_or_refused(lines, wanted, context, blocks) -> None:
    text = "".join(f"{line}\n" for line in lines)
    if blocks:
        groups = SequenceMatcher(None, lines, wanted, autojunk=False).get_grouped_opcodes(context)
        spans = [(group[0], group[-1]) for group in groups]
        quoted = [(lines[a[1] : b[2]], wanted[a[3] : b[4]]) for a, b in spans]
        old = "".join(
            block("".join(f"{line}\n" for line in one), "".join(f"{line}\n" for line in other)) for one, other in quoted
        )
    else:
        old = "\n".join(unified_diff(lines, wanted, "a/f", "b/f", n=context, lineterm=""))
    if not old:
        return
    try:
        after, _ = replace(text, Replacement(old, "", everywhere=False), "f")
    except ToolError:
        return
    assert after == "".join(f"{line}\n" for line in wanted)


@given(st.lists(WORDS, min_size=1, max_size=4), st.sampled_from(sorted(MISSES)))
def test_ambiguous_near_miss_is_refused(lines, kind) -> None:
    text = "\n".join([*lines, "between", *lines])
    old = "\n".join(map(MISSES[kind], lines))
    if old not in text:
        assert recover_edits(text, old, f"{old}x") == []
