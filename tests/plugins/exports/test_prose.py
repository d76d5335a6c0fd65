"""Markdown and code of theirs, as a page shows them."""

import html
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.plugins.exports.page import UNSAFE
from sagent.plugins.exports.prose import MAX_MARKDOWN_CHARS, Prose
from sagent.transcript.redaction import Redaction
from tests.depth import deep

TAGS = {"a", "blockquote", "br", "code", "div", "em", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s", "span",
        "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"}  # fmt: skip
ATTRIBUTES = {"aria-label", "class", "href", "rel", "role", "scope", "start", "tabindex", "title"}
PIECES = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "[a](javascript:alert(1))", "[a](https://e.org 't')",
    "![b](https://e.org/x.png)", "![](data:image/png;base64,AA)", "[](https://e.org)", '<https://e.org/"x>', "&#x202e;",
    "# ", "### ", "#\n", "```python\n", "```\n", '~~~">\n', "> ", "- ", "- [x] ", "1. ", "7) ",
    "\n| a | |\n|:-:|-|\n| b | c |\n",
    "`", "**", "_", "~~", "<!--", "-->", "]]>", "&lt;", "\\", "\n", "\n\n", "    ", "\t", "\x00", "\x1b[31m", "\ud800",
    "[r]: javascript:x\n", "[r]", "===\n", "---\n", '"', "'",
]  # fmt: skip
CODE = ["def f(x):", "'", '"""', "# c", "\n", "  ", "<b>", "&", "/*", "1.5", "$("]


class Outline(HTMLParser):
    """What there is, each end with its beginning."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("br", "hr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


def rendered(text: str, *, breaks: bool = False) -> str:
    return Prose(Redaction(), 50_000).markdown(text, breaks=breaks)


@settings(max_examples=deep(150, 3_000), deadline=None)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=25).map("".join), st.booleans())
def test_prose_has_no_active_markup(text: str, breaks: bool):
    page = rendered(text, breaks=breaks)
    outline = Outline(page)
    assert outline.open == []
    assert {tag for tag, _ in outline.tags} <= TAGS
    assert {name for _, given in outline.tags for name in given} <= ATTRIBUTES
    links = [given["href"] or "" for _, given in outline.tags if "href" in given]
    assert all(link.startswith(("http://", "https://", "mailto:")) for link in map(str.lower, links))
    assert not any(ord(letter) in UNSAFE for letter in page)
    page.encode()
    levels = [int(tag[1]) for tag, _ in outline.tags if re.fullmatch(r"h\d", tag)]
    assert all(after <= before + 1 for before, after in pairwise([3, *levels]))
    assert not re.search(r"<(h\d|a|th)(?: [^>]*)?>\s*</\1>", page)


@settings(max_examples=deep(100, 2_000), deadline=None)
@given(
    st.lists(st.sampled_from(CODE) | st.text(max_size=4)).map("".join),
    st.sampled_from(["python", "sh", "json", "html", "diff", "klingon", ""]),
)
def test_code_keeps_every_character(code: str, language: str):
    prose = Prose(Redaction(), 50_000)
    seen = html.unescape(re.sub(r"</?span[^>]*>", "", prose.code(code, language)))
    ends = re.compile("[\n\u240d]+")  # pygments makes one kind of all ends of lines
    assert ends.sub("", seen) == ends.sub("", html.unescape(prose.text(code)))


def test_markdown_rendered_as_meant():
    page = rendered("# A\n\n#### B\n\n- [x] done\n- [ ] open\n\n| n | m |\n|--|-:|\n| 1 | 2 |\n\nx\ny")
    assert "<h4>A</h4>\n<h5>B</h5>" in page
    assert "<li>☑ done</li>\n<li>☐ open</li>" in page
    assert '<td class="right">2</td>' in page
    assert "<p>x\ny</p>" in page
    assert re.search(r"<p>x<br ?/?>\ny</p>", rendered("x\ny", breaks=True))


def test_picture_named_and_bare_link_shown():
    page = rendered("![cat](https://e.org/cat.png) [](https://e.org/a) [![](https://e.org/i.png)](https://e.org/b)")
    assert "<img" not in page
    assert "[picture, not loaded: cat https://e.org/cat.png]" in page
    assert ">https://e.org/a</a>" in page


def test_code_highlighted_with_numbers_too():
    prose = Prose(Redaction(), 50_000)
    assert '<span class="k">def</span>' in prose.markdown("```py\ndef f(): pass\n```")
    assert prose.numbered('9\t"""a\n10\tb"""\n', "py").count('<span class="s">') == 2
    assert prose.numbered("no numbers\t1", "py") == "no numbers\t1"


@pytest.mark.parametrize("language", ['python"><script>', "text", "../x", "python " * 3])
def test_odd_language_tolerated(language: str):
    assert "<script" not in rendered(f"```{language}\nx = 1\n```")


def test_giant_text_shown_plain():
    assert rendered("[" * (MAX_MARKDOWN_CHARS + 1)).startswith('<div class="plain">[[[')
    head = "|a" * 10 + "|\n" + "|-" * 10 + "|\n"
    assert rendered(head + "|b|\n" * 6_000).startswith('<div class="plain">|a')  # filled up to 60,000 cells
    assert "<table>" in rendered(head + "|b|\n" * 500)


def test_secrets_removed_before_rendering():
    redaction = Redaction()
    prose = Prose(redaction, 100)
    page = prose.markdown("x" * 90 + "\nsk-ant-" + "REDACTME0123456789abcdef" + "\n")
    assert "REDACTME" not in page
    assert (redaction.count, prose.left_out) == (1, 1)


def test_cut_shows_no_part_of_secret():
    private = "-----BEGIN PRIVATE KEY-----\n" + "QUJD" * 600 + "\n-----END PRIVATE KEY-----\n"
    before = private * 2
    text = before + "x" * (8_969 - len(before)) + " ghp_" + "Zq7" * 12 + " tail" * 100
    assert "Zq7" not in Prose(Redaction(), 5_000).clean(text)


@pytest.mark.parametrize("start", ["ghp\\_", "gh&#112;_"])
def test_secret_split_by_markdown_removed(start: str):
    redaction = Redaction()
    assert "a1B2" not in Prose(redaction, 5_000).markdown(f"Use {start}{'a1B2' * 9} here, **{start}{'a1B2' * 9}**.")
    assert redaction.count == 2


@pytest.mark.costly
@pytest.mark.parametrize(("language", "code"), [("diff", "+" * 29_000), ("c", "\n" * 29_000), ("make", "a" * 29_000)])
def test_slow_code_shown_plain(language: str, code: str):
    """Where lexers go back and forth in it, this does not end."""
    prose = Prose(Redaction(), 50_000)
    assert all(prose.code(code, language) == prose.text(code.removesuffix("\n")) for _ in range(12))


def test_attachment_folded_as_is():
    piped = "".join(f"# {number} <b> **x** ghp_{'a1B2c3D4e5' * 3}\n" for number in range(40))
    said = f'**Why**?\n\n<stdin>\n{piped}\n</stdin>\n<file path="a b.py">\nx = 1\n</file>\nAnd <stdin> is a word.'
    shown = Prose(Redaction(), 50_000).asked(said)
    tags = Outline(shown)
    assert tags.open == []
    assert [tag for tag, _ in tags.tags].count("details") == 2
    assert '<details class="call"><summary>' in shown
    assert "<code>stdin</code>" in shown
    assert '<span class="quiet">40 lines</span>' in shown
    assert '<details class="call" open><summary><span class="verb">Attached</span> <code>a b.py</code>' in shown
    assert "<strong>Why</strong>" in shown
    assert "<strong>x</strong>" not in shown
    assert "<h4>" not in shown
    assert "# 39 &lt;b&gt; **x** [redacted: token]" in shown
    assert "And &lt;stdin&gt; is a word." in shown
    assert "a1B2" not in shown


@pytest.mark.parametrize("text", ["a\n<stdin>\nno end", "\n<stdin>\n\n</file>", "\n<stdin>\n" * 100_000])
def test_false_attachment_stays_text(text: str):
    shown = Prose(Redaction(), 50_000).asked(text)
    assert "details" not in shown
    assert "&lt;stdin&gt;" in shown


LETTERS = st.text("ab1é  `\n\"'.,:;#!?-+=()&<*_~|\\\t\u00a0\x85$%/é€", max_size=40)
WORDS = st.sampled_from(
    ["words ", "`code`", "`a_b <c>`", "\n", "\n\n", '"', "one.", " ", "- x", "1. ", "` a`", "é", "a"]
)


@settings(max_examples=deep(300, 5_000), deadline=None)
@given(LETTERS | st.lists(WORDS, max_size=12).map("".join), st.booleans())
def test_plain_paragraphs_are_as_parsed(text: str, breaks: bool) -> None:
    class Parsing(Prose):
        def _paragraphs(self, text: str, *, breaks: bool) -> str | None:
            del text, breaks

    told, parsed = (kind(Redaction(), 200_000).markdown(text, breaks=breaks) for kind in (Prose, Parsing))
    assert told == parsed


def test_words_and_code_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    prose = Prose(Redaction(), 200_000)
    monkeypatch.setattr(prose, "_markdown", None)  # it would fail
    text = 'I look at `app.py`.\n\nIt "adds" `a <b`, and more'
    assert prose.markdown(text).count("<code>") == 2
