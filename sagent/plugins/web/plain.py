"""HTML read with the standard library alone: its text, headings, items and links; and links made whole."""

import re
from html.parser import HTMLParser
from urllib.parse import urljoin

_SKIPPED = frozenset({"script", "style", "noscript", "template", "svg", "head", "iframe"})
_BLOCKS = frozenset(
    {"p", "div", "section", "article", "main", "ul", "ol", "table", "tr", "pre", "blockquote", "br", "hr", "dl", "dt"}
    | {"dd", "figure", "header", "footer", "nav", "aside", "form", "details", "summary"}
)
_HEADINGS = {f"h{level}": f"\n\n{'#' * level} " for level in range(1, 7)}
_LINK = re.compile(r"(\]\(<?)(?!#|[a-zA-Z][a-zA-Z0-9+.-]*:)([^)\s>]+)")


def plain_text(html: str, base: str) -> str:
    """Return the text of a page."""
    reader = _Reader(base)
    reader.feed(html)
    reader.close()
    text = "".join(reader.pieces)
    return re.sub(r"\n\s*\n\s*", "\n\n", re.sub(r"(?<![ \t])[ \t]+\n", "\n", text)).strip()


def whole_links(markdown: str, base: str) -> str:
    """Markdown with the addresses of its links as they are seen from `base`."""

    def whole(match: re.Match[str]) -> str:
        try:
            return match[1] + urljoin(base, match[2])
        except ValueError:
            return match[0]

    return _LINK.sub(whole, markdown)


class _Reader(HTMLParser):
    def __init__(self, base: str) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._base = base
        self._skipped = 0
        self._verbatim = 0
        self._links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SKIPPED:
            self._skipped += 1
        elif tag == "a":
            self._links.append(dict(attrs).get("href") or "")
        elif tag in _HEADINGS:
            self.pieces.append(_HEADINGS[tag])
        elif tag == "sup":
            self.pieces.append("^")
        elif tag == "li":
            self.pieces.append("\n- ")
        elif tag in ("td", "th"):
            self.pieces.append(" | ")
        elif tag in _BLOCKS:
            self.pieces.append("\n")
        self._verbatim += tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        if tag in _SKIPPED:
            self._skipped = max(0, self._skipped - 1)
        elif tag == "a" and self._links:
            target = self._links.pop()
            if target and not target.startswith(("#", "javascript:", "data:")):
                try:
                    self.pieces.append(f" <{urljoin(self._base, target)}>")
                except ValueError:
                    return
        elif tag in _HEADINGS or tag in _BLOCKS:
            self.pieces.append("\n")
        self._verbatim = max(0, self._verbatim - (tag == "pre"))

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self.pieces.append(data if self._verbatim else re.sub(r"\s+", " ", data))
