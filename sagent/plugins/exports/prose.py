"""Markdown and code of theirs as HTML: CommonMark with tables, code with its parts coloured. Nothing of theirs is
markup, loads or runs; what goes anywhere goes to http, https or mailto."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, takewhile
from typing import TYPE_CHECKING

from sagent.lib.json import valid_text
from sagent.lib.text import count
from sagent.plugins.exports.page import UNSAFE, escape
from sagent.transcript.redaction import Redaction

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from pygments.token import _TokenType

MAX_MARKDOWN_CHARS = 30_000  # of a text to parse as Markdown: some Markdown takes quadratic time
_MAX_CELLS = 20_000  # of a table, including missing ones: each takes 20 microseconds
MAX_CODE_CHARS = 30_000  # of a text to colour
MAX_TOTAL_CODE_CHARS = 400_000
_SLOW = re.compile(r"[^\n]{400}|\s{200}")  # over what lexers go back and forth
_PAST_CUT_CHARS = 4_000  # characters read past a cut, so that a secret at it is whole
_LANGUAGES = frozenset((
    "bash", "c", "console", "cpp", "css", "diff", "dockerfile", "go", "html", "ini", "java", "javascript", "js", "json",
    "jsx", "kotlin", "make", "php", "py", "python", "rb", "rs", "ruby", "rust", "sh", "shell", "sql", "swift", "toml",
    "ts", "tsx", "typescript", "xml", "yaml", "yml",
))  # fmt: skip
"""Names and file suffixes for which pygments is used."""
_ALIASES = {"kt": "kotlin", "pyi": "python", "htm": "html", "h": "c", "mjs": "js", "zsh": "sh"}
_CLASSES = {"Keyword": "k", "String": "s", "Comment": "c", "Number": "n", "Function": "f", "Class": "f", "Tag": "k",
            "Decorator": "f", "Inserted": "i", "Deleted": "d"}  # fmt: skip
_ATTACHED = re.compile(r'\n<(stdin|file|directory)(?: path="([^"\n]{0,4000})")?>\n')  # as a request has it
MAX_OPEN_LINES = 12  # that are not folded
_WORDS = r"[^\\`*_\[\]<>&~|]"
_CODE = r"`[^`\s](?:[^`]*[^`\s])?`"
_PLAIN = re.compile(rf"(?:[^\W\d_]{_WORDS}*(?:{_CODE}(?:{_WORDS}+|$))*(?<! ))?")
"""A line that begins with a letter and is only words and code spans, or is empty."""
_BOXES = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _cells(text: str) -> int:
    """Return an upper bound of a table's cells: as many columns as the widest line."""
    bars = [bars for line in text.splitlines() if (bars := line.count("|"))]
    return max(bars, default=0) * len(bars)


class Prose:
    """Brings a session's texts to a page: cut to `cap` characters, without secrets. `left_out` counts the cut texts."""

    def __init__(self, redaction: Redaction, cap: int) -> None:
        self.left_out = 0
        self._redaction = redaction
        self._cap = cap
        self._room = MAX_TOTAL_CODE_CHARS
        self._markdown = _parser(lambda code, info, _: f"<pre>{self._marked(code, info.strip())}</pre>")

    def text(self, text: str) -> str:
        """Return the text as it is, escaped."""
        return escape(self.clean(text))

    def code(self, code: str, language: str) -> str:
        """Code in a language, by its name or by what its files end in."""
        return self._marked(self.clean(code), language)

    def numbered(self, text: str, language: str) -> str:
        """Code as the tool Read shows it: number, tab, line."""
        clean = self.clean(text)
        rows = [line.partition("\t") for line in clean.removesuffix("\n").split("\n")]
        if not all(number.strip().isdecimal() for number, _, _ in rows):
            return escape(clean)
        marked = self._lines("\n".join(line for _, _, line in rows), language)
        lines = zip((number.strip() for number, _, _ in rows), marked, strict=True)
        return "\n".join(f'<span class="at">{number:>4}</span> {line}' for number, line in lines)

    def markdown(self, text: str, *, breaks: bool = False, top: int = 4) -> str:
        """Render Markdown; with `breaks`, line breaks are kept, as in prompts. `top` is the level of its highest
        heading."""
        clean = self.clean(text)
        if len(clean) > MAX_MARKDOWN_CHARS or _cells(clean) > _MAX_CELLS:
            return f'<div class="plain">{escape(clean)}</div>'
        if (plain := self._paragraphs(valid_text(clean), breaks=breaks)) is not None:
            return f'<div class="prose">{valid_text(plain).translate(UNSAFE)}</div>'
        markdown = self._markdown
        markdown.options["breaks"] = breaks
        tokens = markdown.parse(valid_text(clean))
        for each in (child for token in tokens for child in token.children or () if child.type == "text"):
            each.content = self._redaction.text(each.content)  # `ghp\_...` had another shape
        html = markdown.renderer.render(list(_safe(tokens, top)), markdown.options, {})
        return f'<div class="prose">{valid_text(html).translate(UNSAFE)}</div>'

    def _paragraphs(self, text: str, *, breaks: bool) -> str | None:
        """Return paragraphs of words and code spans as HTML, as the parser would; None for a text with more in it."""
        stripped = text.strip("\n")
        lines = stripped.split("\n")
        if not stripped or not all(line.isprintable() and _PLAIN.fullmatch(line) for line in lines):
            return None
        ends, shown = "<br />\n" if breaks else "\n", list[str]()
        for filled, paragraph in groupby(lines, key=bool):
            if filled:
                shown.append(f"<p>{ends.join(map(self._words_and_code, paragraph))}</p>\n")
        return "".join(shown)

    def _words_and_code(self, line: str) -> str:
        pieces = line.split("`")
        pieces[::2] = (_escaped(self._redaction.text(words)) for words in pieces[::2])
        pieces[1::2] = (f"<code>{_escaped(code)}</code>" for code in pieces[1::2])
        return "".join(pieces)

    def asked(self, text: str) -> str:
        """Render a person's message: their text, with the attachments folded."""
        shown: list[str] = []
        place = 0
        while start := _ATTACHED.search(text, place):
            if (end := text.find(f"</{start[1]}>", start.end())) < 0:
                break
            shown += (self._words(text[place : start.start()]), self._attached(start, text[start.end() : end]))
            place = end + len(f"</{start[1]}>")
        return "".join((*shown, self._words(text[place:])))

    def _words(self, text: str) -> str:
        return self.markdown(text, breaks=True) if text.strip() else ""

    def _attached(self, start: re.Match[str], text: str) -> str:
        text = text.rstrip("\n")
        lines = text.count("\n") + 1
        opened = " open" if lines <= MAX_OPEN_LINES else ""
        name, size = self.text(start[2] or start[1]), count(lines, "line")
        return (
            f'<details class="call"{opened}><summary><span class="verb">Attached</span> <code>{name}</code> '
            f'<span class="quiet">{size}</span></summary><pre>{self.text(text)}</pre></details>\n'
        )

    def clean(self, text: str) -> str:
        """Return a text redacted and cut, not yet escaped."""
        clean = self._redaction.text(text[: self._cap + _PAST_CUT_CHARS])
        if len(text) <= self._cap:
            return clean
        self.left_out += 1
        whole = len(clean) if len(text) <= self._cap + _PAST_CUT_CHARS else max(len(clean) - _PAST_CUT_CHARS, 0)
        return f"{clean[: min(self._cap, whole)]}\n[... cut: {len(text)} characters in all, the rest is in the log ...]"

    def _marked(self, code: str, language: str) -> str:
        return "\n".join(self._lines(code.removesuffix("\n"), language))

    def _lines(self, code: str, language: str) -> Sequence[str]:
        """Return the lines of code, one for one, coloured if the language is known."""
        name = language.lower().partition(" ")[0]
        name = _ALIASES.get(name, name)
        if name not in _LANGUAGES or len(code) > min(MAX_CODE_CHARS, self._room) or _SLOW.search(code):
            return escape(code).split("\n")
        from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType] -- its options

        self._room -= len(code)
        lines = [""]
        for kind, piece in get_lexer_by_name(name, stripnl=False, ensurenl=False).get_tokens(code):
            mark = _class_of(kind)
            first, *others = (f'<span class="{mark}">{part}</span>' if mark and part.strip() else part
                              for part in escape(piece).split("\n"))  # fmt: skip
            lines[-1] += first
            lines += others
        return lines


def _parser(highlight: Callable[[str, str, str], str]) -> "MarkdownIt":
    from markdown_it import MarkdownIt

    class Parser(MarkdownIt):
        def validateLink(self, url: str) -> bool:  # noqa: N802 -- the name that markdown-it calls
            return url.lower().startswith(("http://", "https://", "mailto:"))

    parser = Parser("commonmark", {"html": False, "highlight": highlight})
    return parser.enable(["table", "strikethrough"])


def _safe(tokens: "Sequence[Token]", top: int) -> "Iterator[Token]":
    """Yield the tokens, with consecutive heading levels, and without styles, empty elements and external resources."""
    from markdown_it.token import Token

    above: list[int] = []
    skipping = False
    for place, token in enumerate(tokens):
        match token.type:
            case "heading_open" if not tokens[place + 1].content.strip():
                skipping = True
            case "heading_open":
                level = int(token.tag[1:])
                above = [*(each for each in above if each < level), level]
                token.tag = tokens[place + 2].tag = f"h{min(top + len(above) - 1, 6)}"
            case "inline":
                token.children = list(_spans(token.children or ()))
                if place > 1 and tokens[place - 2].type == "list_item_open" and token.children:
                    words = token.children[0]
                    words.content = _BOXES.get(words.content[:4], words.content[:4]) + words.content[4:]
            case "th_open" | "td_open":
                _align(token, tokens[place + 1], tokens[place + 2])
            case "table_open":
                yield Token(
                    "html_block", "", 0, content='<div class="wide" tabindex="0" role="group" aria-label="table">'
                )
            case _:
                pass
        if not skipping:
            yield token
        if token.type == "table_close":
            yield Token("html_block", "", 0, content="</div>\n")
        skipping = skipping and token.type != "heading_close"


def _align(start: "Token", inside: "Token", end: "Token") -> None:
    """Align a cell by a class, as the page's policy allows no style. A column without a name gets no header cell."""
    style = str(start.attrs.pop("style", ""))
    if style.endswith(("right", "center")):
        start.attrs["class"] = style.rpartition(":")[2]
    if start.type == "th_open":
        start.attrs["scope"] = "col"
        if not inside.content.strip():
            start.tag = end.tag = "td"
            start.attrs.pop("scope")


def _spans(children: "Sequence[Token]") -> "Iterator[Token]":
    """Yield the tokens within a line: pictures become their names, and a link without text shows its address."""
    from markdown_it.token import Token

    for place, token in enumerate(children):
        if token.type == "image":
            named = " ".join(filter(None, (token.content, str(token.attrs.get("src", "")))))
            yield Token("text", "", 0, content=f"[picture, not loaded: {named}]")
            continue
        yield token
        if token.type == "link_open":
            token.attrs["rel"] = "noopener noreferrer nofollow"
            inside = takewhile(lambda each: each.type != "link_close", children[place + 1 :])
            if not any(each.content.strip() or each.type == "image" for each in inside):
                yield Token("text", "", 0, content=str(token.attrs.get("href", "")))


def _class_of(kind: "_TokenType") -> str:
    return next((_CLASSES[part] for part in reversed(kind) if part in _CLASSES), "")
