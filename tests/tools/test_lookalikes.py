"""Names and texts that look like others, in the tools of files."""

from unicodedata import normalize

import pytest

from sagent.errors import ToolError
from sagent.tools.edit import Edit
from sagent.tools.glob import Glob
from sagent.tools.grep import Grep
from sagent.tools.list import List
from sagent.tools.read import Read
from sagent.tools.write import Write

NFC, NFD = "café", normalize("NFD", "café")


def text_of(output):
    return output.content[0].text


@pytest.mark.parametrize(("there", "asked"), [(NFD, NFC), (NFC, NFD)])
async def test_name_is_found_in_either_form(call, root, there, asked) -> None:
    (root / there).mkdir()
    (root / there / f"{there}.txt").write_text("word\n")
    assert "word" in text_of(await call(Read(), file_path=f"{asked}/{asked}.txt"))
    assert "word" in text_of(await call(Grep(), pattern="word", path=asked))
    assert "word" in text_of(await call(Grep(), pattern="word", glob=f"{asked}.txt"))
    assert there in text_of(await call(Glob(), pattern=f"{asked}/*"))
    assert there in text_of(await call(Glob(), pattern=f"**/{asked}.*"))
    assert there in text_of(await call(List(), path=asked))
    await call(Edit(), file_path=f"{asked}/{asked}.txt", old_string="word", new_string="words")
    await call(Write(), file_path=f"{asked}/{asked}.txt", content="new\n")
    assert (root / there / f"{there}.txt").read_text() == "new\n"
    assert [each.name for each in (root / there).iterdir()] == [f"{there}.txt"]
    assert [each.name for each in root.iterdir() if each.name != ".git"] == [there]


async def test_two_equal_names_stay_two(call, root) -> None:
    (root / f"{NFC}.txt").write_text("composed\n")
    (root / f"{NFD}.txt").write_text("decomposed\n")
    assert "\tcomposed" in text_of(await call(Read(), file_path=f"{NFC}.txt"))
    assert "\tdecomposed" in text_of(await call(Read(), file_path=f"{NFD}.txt"))


@pytest.mark.parametrize("name", ["c\u043epy.txt", "co\u200bpy.txt", "copy.txt\u00ad"])
async def test_lookalike_name_is_shown_escaped(call, root, name) -> None:
    (root / name).write_text("x\n")
    with pytest.raises(ToolError, match=r"Did you mean \$'[ -~]*'\? It looks like \$'copy.txt'") as raised:
        await call(Read(), file_path="copy.txt")
    quoted = str(raised.value).partition("Did you mean ")[2].partition("? It")[0]
    assert "x" in text_of(await call(Read(), file_path=quoted))
    assert "\\x" in text_of(await call(Glob(), pattern="copy.*"))


async def test_edit_of_decomposed_text_is_said(call, root) -> None:
    (root / "f").write_text(f"a = '{NFD}'\nb = '{NFD}!'\n")
    await call(Read(), file_path="f")
    said = text_of(await call(Edit(), file_path="f", old_string=f"b = '{NFC}!'", new_string=f"b = '{NFC}?'"))
    assert (root / "f").read_text() == f"a = '{NFD}'\nb = '{NFD}?'\n"
    assert "composed otherwise" in said


async def test_edit_of_two_decomposed_is_refused(call, root) -> None:
    (root / "f").write_text(f"{NFD}\n{NFD}\n")
    await call(Read(), file_path="f")
    with pytest.raises(ToolError, match=r"composed, in several places[\s\S]*cafe\\u0301[\s\S]*caf\\u00e9"):
        await call(Edit(), file_path="f", old_string=NFC, new_string="tea")


@pytest.mark.parametrize(
    ("line", "quoted", "escapes"),
    [
        ("name = 'zero\u200bwidth'", "name = 'zerowidth'", ["\\u200b"]),
        ("value = s\u0441ope", "value = scope", ["\\u0441"]),
        ("if admin\u202e:", "if admin:", ["\\u202e"]),
        ("so\u00adft = 1", "soft = 1", ["\\u00ad"]),
    ],
)
async def test_edit_shows_invisible_characters(call, root, line, quoted, escapes) -> None:
    (root / "f").write_text(f"first\n{line}\n")
    await call(Read(), file_path="f")
    with pytest.raises(ToolError, match="look alike or cannot be seen") as raised:
        await call(Edit(), file_path="f", old_string=quoted, new_string="x")
    assert all(escape in str(raised.value) for escape in escapes)


async def test_grep_finds_either_form_and_says_so(call, root) -> None:
    (root / "f").write_text(f"my {NFD} here\n")
    found = text_of(await call(Grep(), pattern=f"{NFC} here"))
    assert found.startswith("f:1:my ")
    assert "composed otherwise: cafe\\u0301" in found
    assert text_of(await call(Grep(), pattern="thé")) == "No matches."


@pytest.mark.parametrize(
    ("line", "quoted", "escaped"),
    [
        ("foo\x07bar = 1", "foobar = 1", "foo\\x07bar"),
        ("foo\x7fbar = 1", "foobar = 1", "foo\\x7fbar"),
        ("葛\U000e0100城 = 1", "葛城 = 1", "\\U000e0100"),
        ("\u0433un() = 1", "run() = 1", "\\u0433un"),
        ("\u0585pen = 1", "open = 1", "\\u0585pen"),
        ("f\u0131le = 1", "file = 1", "f\\u0131le"),
        ("a \u2215 b = 1", "a / b = 1", "a \\u2215 b"),
        ("it\u2032s = 1", "it's = 1", "it\\u2032s"),
        ("a \u01c0 b = 1", "a | b = 1", "a \\u01c0 b"),
        ("\u015firket = 1", "\u0219irket = 1", "\\u015firket"),
    ],
)
async def test_edit_escapes_ambiguous_letters(call, root, line, quoted, escaped) -> None:
    (root / "f").write_text(f"first\n{line}\n")
    await call(Read(), file_path="f")
    with pytest.raises(ToolError, match="what differs is escaped") as raised:
        await call(Edit(), file_path="f", old_string=quoted, new_string="x")
    assert escaped in str(raised.value)


@pytest.mark.parametrize(("line", "quoted"), [("value = 1", "velue = 1"), ("caf\u00e9 = 1", "cafe = 1")])
async def test_edit_escapes_nothing_visible(call, root, line, quoted) -> None:
    (root / "f").write_text(f"first\n{line}\n")
    await call(Read(), file_path="f")
    with pytest.raises(ToolError, match="nearest lines") as raised:
        await call(Edit(), file_path="f", old_string=quoted, new_string="x")
    assert line in str(raised.value)
    assert "escaped" not in str(raised.value)


@pytest.mark.parametrize("name", ["c\u043epy.txt", "co\u200bpy.txt", "copy.txt ", "co\x07py.txt", "c\u0585py.txt"])
async def test_lookalike_new_file_is_said(call, root, name) -> None:
    (root / name).write_text("x\n")
    said = text_of(await call(Write(), file_path="copy.txt", content="y\n"))
    assert "looks like it" in said
    assert "\\x" in said or "copy.txt '" in said
    (root / "copy.txt").unlink()
    made = await call(Edit(), file_path="copy.txt", old_string="", new_string="y\n")
    assert "looks like it" in text_of(made)
    assert "looks like it" not in text_of(await call(Write(), file_path="other.txt", content="y\n"))


@pytest.mark.parametrize("multiline", [False, True])
async def test_grep_finds_both_forms_at_once(call, root, multiline) -> None:
    (root / "one").write_text(f"{NFC} 1\n{NFD} 2\n")
    (root / "two").write_text(f"{NFD} 3\n")
    (root / "sign").write_text("10 \u212b\n")
    found = text_of(await call(Grep(), pattern=f"{NFC} [0-9]", multiline=multiline))
    assert [line[:5] for line in found.split("\n") if not line.startswith("(")] == ["one:1", "one:2", "two:1"]
    assert text_of(await call(Grep(), pattern="\u00c5", multiline=multiline)).startswith("sign:1:10 \u212b")


async def test_edit_of_all_takes_both_forms(call, root) -> None:
    (root / "f").write_text(f"{NFC} 1\n{NFD} 2\nx {NFD}\n")
    await call(Read(), file_path="f")
    said = text_of(await call(Edit(), file_path="f", old_string=NFC, new_string="tea", replace_all=True))
    assert (root / "f").read_text() == "tea 1\ntea 2\nx tea\n"
    assert "3 replacements" in said
    assert "composed otherwise" in said


async def test_edit_of_equal_sign_forms_is_said(call, root) -> None:
    (root / "f").write_text("x = 1\u037e\n")  # a Greek question mark, canonically a semicolon
    await call(Read(), file_path="f")
    assert "composed otherwise" in text_of(await call(Edit(), file_path="f", old_string="x = 1;", new_string="y"))
