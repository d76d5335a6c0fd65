"""What spans lead to: pages, and files by paths that mean the project's directory."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.repl.view.lines import Span
from sagent.repl.view.links import address, leading_to, leading_to_file, names_file
from sagent.repl.view.markdown import inline


def led(spans: list[Span], directory: Path) -> dict[str, str]:
    return {text: address(style, directory) for style, text in spans if address(style, directory)}


def test_answer_links_existing_files(tmp_path: Path) -> None:
    for name in ("src/a.py", "a b.md", "é.txt", ".env"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    text = (
        "`src/a.py:12:3`, `src/a.py`, `src/b.py`, `os.path`, [notes](a%20b.md), [é](é.txt#top), `.env`, `src`, [x](#y)"
    )
    base = tmp_path.as_uri()
    assert led(list(inline(text)), tmp_path) == {
        "src/a.py:12:3": f"{base}/src/a.py",
        "src/a.py": f"{base}/src/a.py",
        "notes": f"{base}/a%20b.md",
        "é": f"{base}/%C3%A9.txt",
        ".env": f"{base}/.env",
    }


@pytest.mark.parametrize(
    ("reference", "wanted"),
    [
        ("https://x.org/a?b=c#d", "https://x.org/a?b=c#d"),
        ("HTTP://x.org", "HTTP://x.org"),
        ("https://é.org/ a", "https://%C3%A9.org/%20a"),
        ("http://[::1]:80/", "http://[::1]:80/"),
        ("/etc/a%20b:7", "file:///etc/a%20b"),
        ("//host/share", ""),
        ("javascript:alert(1)", ""),
        ("\x1b]52;c;x", ""),
        ("", ""),
    ],
)
def test_only_pages_and_files_are_linked(reference: str, wanted: str, tmp_path: Path) -> None:
    assert address(leading_to("class:link", reference), tmp_path) == wanted


def test_call_path_links_any_file_name(tmp_path: Path) -> None:
    for name in ("a b.py", "50%25 [x].py", "a#b"):
        (tmp_path / name).touch()
        assert address(leading_to_file("class:argument", name), tmp_path) == (tmp_path / name).as_uri()
        assert address(leading_to_file("", str(tmp_path / name)), None) == (tmp_path / name).as_uri()
    assert address(leading_to_file("", "a b.py"), None) == ""


@given(text=st.text())
def test_no_link_text_drives_the_terminal(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.getbasetemp()
    for style in (leading_to("", text), leading_to_file("", text), leading_to_file("", f"/{text}")):
        assert " " not in style
        assert style.isprintable()
        assert address(style, directory).isascii()
        assert address(style, directory).isprintable()


def test_words_are_no_files() -> None:
    assert not any(map(names_file, ("word", "a b.py", "f(x).y", "--flag=a.b", "/compact", "$HOME/a", "x" * 9)))
