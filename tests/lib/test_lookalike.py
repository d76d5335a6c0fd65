"""Texts that look the same: told apart in escapes, equal where they are canonically."""

from pathlib import Path
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.app import choose_model
from sagent.app.toolset import choose_tools
from sagent.config import load
from sagent.errors import SagentError
from sagent.lib.lookalike import canonical, find_canonical, look_alike, reveal
from sagent.lib.text import unlike


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        ("cafe\u0301", "caf\u00e9", "caf\\u00e9"),
        ("zero\u200bwidth", "zerowidth", "zerowidth"),
        ("a\u00a0b", "a b", "a\\x20b"),
        ("\u202eabc", "abc", "abc"),
        ("\u0441opy", "copy", "\\u0063opy"),
        ("\u039fmega", "Omega", "\\u004fmega"),
        ("x\t= 1", "x = 1", "x\\x20= 1"),
        ("end \r", "end", "end"),
        ("soft\u00adhyphen", "softhyphen", "softhyphen"),
        ("star\ufe0f", "star", "star"),
        ("\ufeffhead", "head", "head"),
        ("a\u2011b", "a-b", "a\\x2db"),
    ],
)
def test_lookalikes_are_told_apart(one: str, other: str, shown: str) -> None:
    assert look_alike(one, other)
    first, second = reveal(one, other)
    assert first != second
    assert first.isascii()
    assert second.isascii()
    assert len(second) >= len(shown.replace("\\u0063", "c").replace("\\u004f", "O").replace("\\x2d", "-"))


def test_visible_difference_is_no_lookalike() -> None:
    assert not look_alike("cafe", "caf\u00e9")
    assert not look_alike("same", "same")
    assert not look_alike("e\u0301.txt", "a.txt") and not look_alike("\u00e9.txt", "a.txt")
    assert look_alike("\u0131.py", "i.py") and look_alike("\u0251.txt", "a.txt")


WORDS = st.text(st.sampled_from("aé\u0301\u0323ö\u0308한b \n"), max_size=8)


@given(WORDS, WORDS, WORDS, WORDS)
def test_canonical_place_is_replaced_alone(before: str, old: str, new: str, after: str) -> None:
    quoted = f"x{old}x"
    text = f"{before}<{normalize('NFD', quoted)}>{after}"
    for place in find_canonical(text, normalize("NFC", quoted), f"y{new}y"):
        assert canonical(text[place.start : place.stop]) == canonical(quoted)
        assert canonical(place.made) == canonical(f"y{new}y")
    assert find_canonical(text, quoted, "z") or (text + quoted).isascii()


def test_unchanged_letters_keep_their_form() -> None:
    text = "title = 'cafe\u0301'\n"
    (place,) = find_canonical(text, "title = 'caf\u00e9'", "title = 'caf\u00e9 caf\u00e9'")
    assert place.made == "title = 'cafe\u0301 caf\u00e9'" or place.made == "title = 'caf\u00e9 cafe\u0301'"


@pytest.mark.parametrize(
    ("options", "kind", "shown"),
    [
        ({"model": "anthropi\u0441/x"}, "model", r"Did you mean .*\? It has other characters: anthropi\\u0441"),
        ({"tools": ["R\u0435ad"]}, "tools", r"Did you mean Read\? It has other characters: r\\u0435ad"),
        ({"allow": ["B\u0430sh(ls)"]}, "", r"Did you mean Bash\? It has other characters: B\\u0430sh"),
        ({"deny": ["R\u0435ad(x)"]}, "", r"Did you mean Read\? It has other characters: R\\u0435ad"),
        ({"effort": "h\u0456gh"}, "", r"Did you mean high\? It has other characters: h\\u0456gh"),
    ],
)
async def test_lookalike_of_known_name_is_escaped(
    options: dict[str, object], kind: str, shown: str, tmp_path: Path
) -> None:
    async def use() -> None:
        settings = load(options, {"HOME": str(tmp_path), "ANTHROPIC_API_KEY": "k"}, tmp_path)
        if kind == "tools":
            choose_tools(settings)
        await choose_model(settings, "")

    with pytest.raises(SagentError, match=shown):
        await use()


def test_different_name_gets_no_note() -> None:
    assert unlike("r\u00e9ad", ["Read"]) == ""
    assert unlike("reed", ["Read"]) == ""
    assert unlike("re\u200bad", ["write", "read"]) == " It has other characters: re\\u200bad."


def test_settings_directory_in_either_form(tmp_path: Path) -> None:
    there = tmp_path / normalize("NFD", "caf\u00e9")
    there.mkdir()
    assert load({"cwd": "caf\u00e9"}, {"HOME": str(tmp_path)}, tmp_path).cwd == there
    assert load({"add_dirs": ["caf\u00e9"]}, {"HOME": str(tmp_path)}, tmp_path).add_dirs == (there,)
