"""Conversion of a page's bytes to text for a model, in a separate process, because the parsed data come from
strangers."""

import json
import re
import sys
from contextlib import suppress
from html import unescape
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, cast
from urllib.parse import urljoin

from sagent.errors import ToolError
from sagent.lib import isolated
from sagent.lib.dataclass import dataclass
from sagent.lib.encoding import readable
from sagent.lib.json import as_object, as_str
from sagent.plugins.web.plain import plain_text, whole_links

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Extractor: TypeAlias = Literal["markdown", "article", "raw"]

_TIMEOUT_SECONDS = 4.0  # on the clock
_MAX_ANSWER_BYTES = 40_000_000
_HTML = ("text/html", "application/xhtml+xml")
_CHARSET = re.compile(r"(?:charset|<\?xml [^<>]*encoding)\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_SAMPLE_BYTES = 2048  # bytes of a page that may declare its charset
_WEB_NAMES = {"iso-8859-1": "cp1252", "latin1": "cp1252", "latin-1": "cp1252", "ascii": "cp1252", "us-ascii": "cp1252"}
"""Meaning of charset names in pages: https://encoding.spec.whatwg.org/#names-and-labels"""
_MAIN = ("main", "[role=main]", "article", "#content", "#main-content")
_SHARE = 0.4  # least share of a page's text in its main part
_HEAVY = "script, style, noscript, template, svg, iframe"
_DEEPEST = 500  # levels of elements to convert: no real page has more
_SPACES = re.compile(r"\n{3,}")
_BASE = re.compile(r"<base\s[^<>]{0,500}href\s*=\s*[\"']?([^\"'\s>]+)", re.IGNORECASE)
_MOVED = re.compile(r"<meta\s[^<>]{0,500}refresh[^<>]{0,500}\burl\s*=\s*[\"']?([^\"'\s>]+)", re.IGNORECASE)
_MAX_REDIRECT_CHARS = 500  # characters: a page that sends browsers on has not more text
_TITLE = re.compile(r"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Page:
    """A page as text. `plain`: its HTML was read without the packages of the extra "web"."""

    title: str
    text: str
    plain: bool = False


async def read_page(data: bytes, content_type: str, extractor: Extractor, base: str) -> Page:
    """Return the text of HTML, JSON, XML or plain text; relative links are resolved with `base`. Slow pages are
    converted simply. Raises ToolError."""
    for plain in (False, True):
        if (page := await _ask(data, [content_type, extractor, base, plain])) is not None:
            return page
    raise ToolError(f"{base} takes more memory or time than a page may. It was not read.")


async def _ask(data: bytes, question: list[str | bool]) -> Page | None:
    """Return the answer of the other process; None if it is late or invalid."""
    asked = json.dumps(question).encode() + b"\n" + data
    try:
        done = await isolated.run_isolated(__name__, asked, seconds=_TIMEOUT_SECONDS, max_bytes=_MAX_ANSWER_BYTES)
    except TimeoutError:
        return None
    if done is None:
        raise ToolError("A page is read in a process of its own, which could not be started.")
    if done.code or len(done.output) > _MAX_ANSWER_BYTES:
        return None
    found = as_object(json.loads(done.output))
    return Page(as_str(found["title"]), as_str(found["text"]), bool(found["plain"]))


def answer() -> None:
    """Read the page on standard input, and write its text. Runs in the other process."""
    isolated.limit()
    sys.setrecursionlimit(20_000)
    content_type, extractor, base, plain = json.loads(sys.stdin.buffer.readline())
    page = convert(sys.stdin.buffer.read(), content_type, extractor, base, plain=plain)
    answered = {"title": page.title, "text": page.text, "plain": page.plain}
    sys.stdout.write(json.dumps(answered))  # ASCII: half a surrogate pair passes too


def convert(data: bytes, content_type: str, extractor: Extractor, base: str, *, plain: bool = False) -> Page:
    """Convert a page in this process; `plain`: by the standard library alone."""
    text = decode(data, content_type)
    kind = content_type.partition(";")[0].strip().lower()
    if extractor == "raw":
        return Page("", text)
    if kind in _HTML or (kind in ("", "text/plain") and re.match(r"\s*<(!doctype html|html)\b", text, re.IGNORECASE)):
        return _from_html(text, extractor, base, plain=plain)
    if kind == "application/json" or kind.endswith("+json"):
        return Page("", _indented(text))
    return Page("", text)


def decode(data: bytes, content_type: str) -> str:
    """Decode bytes by their byte order mark, the server's charset, the page's, or as UTF-8; undecodable bytes become
    U+FFFD."""
    for bom, charset in _BOMS:
        if data.startswith(bom):
            return data[len(bom) :].decode(charset, "replace")
    said = _CHARSET.search(content_type) or _CHARSET.search(data[:_SAMPLE_BYTES].decode("latin-1"))
    names = [said[1].lower()] if said else []
    for name in (*names, "utf-8"):
        try:
            return data.decode(_WEB_NAMES.get(name, name))
        except (LookupError, UnicodeDecodeError, ValueError):  # no text encoding, or not this one
            continue
    if not names:
        return readable(data)
    name = names[0]
    try:
        return data.decode(_WEB_NAMES.get(name, name), "replace")
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")


def _indented(text: str) -> str:
    """Return indented JSON; anything else unchanged."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=1)
    except (ValueError, RecursionError):
        return text


class _Node(Protocol):
    """The part of selectolax's elements that is used."""

    html: str | None

    def text(self, *, deep: bool = True) -> str: ...
    def css(self, query: str) -> "list[_Node]": ...
    def decompose(self) -> None: ...


class _Tree(_Node, Protocol):
    body: _Node | None


class _Options(Protocol):
    """The part of html-to-markdown that is used."""

    def __call__(self, **options: object) -> object: ...


class _Converted(Protocol):
    content: str | None


def _from_html(text: str, extractor: Extractor, base: str, *, plain: bool) -> Page:
    start = re.search("<title", text, re.IGNORECASE)  # only the first one: trying each would take quadratic time
    match = _TITLE.match(text, start.start()) if start else None
    title = " ".join(unescape(match[1]).split())[:300] if match else ""
    if stated := _BASE.search(text):
        with suppress(ValueError):
            base = urljoin(base, unescape(stated[1]))
    plain = plain or not has_packages()
    read = plain_text(text, base) if plain else _converted(text, extractor, base)
    if len(read) < _MAX_REDIRECT_CHARS and (moved := _MOVED.search(text)):
        with suppress(ValueError):
            read = f"{read}\n\n(The page sends browsers on to {urljoin(base, unescape(moved[1]))})".lstrip()
    return Page(title, read, plain)


def _converted(text: str, extractor: Extractor, base: str) -> str:
    """HTML as Markdown, by the packages of the extra "web"."""
    tree = cast("Callable[[str], _Tree]", import_module("selectolax.lexbor").LexborHTMLParser)(text)
    for node in tree.css(_HEAVY):
        node.decompose()
    chosen = _main_part(tree, extractor) or tree
    markdown = _markdown(chosen.html or "", extractor)
    return whole_links(_SPACES.sub("\n\n", markdown).strip(), base)


def has_packages() -> bool:
    """Return True if the packages of the extra "web" that read HTML are installed."""
    return find_spec("html_to_markdown") is not None and find_spec("selectolax") is not None


def _main_part(tree: _Tree, extractor: Extractor) -> _Node | None:
    """Return the element with the page's main text; None if none has."""
    if extractor == "article":
        for node in tree.css("nav, header, footer, aside, form, [role=navigation], [role=banner], [aria-hidden=true]"):
            node.decompose()
    body = tree.body
    whole = len(body.text()) if body is not None else 0
    for query in _MAIN:
        nodes = tree.css(query)
        sizes = [len(node.text()) for node in nodes]
        if len(nodes) == 1 and sizes[0] >= whole * (_SHARE if extractor == "markdown" else 0.2):
            return nodes[0]
        if extractor == "article" and nodes and max(sizes) >= whole * 0.2:
            return nodes[sizes.index(max(sizes))]
    return None


def _markdown(html: str, extractor: Extractor) -> str:
    library = import_module("html_to_markdown")
    convert_ = cast("Callable[[str, object], _Converted]", library.convert)
    options, preprocessing = (
        cast("_Options", getattr(library, name)) for name in ("ConversionOptions", "PreprocessingOptions")
    )
    settings: Mapping[str, object] = {
        "extract_metadata": False,
        "compact_tables": True,
        "skip_images": extractor == "article",
        "sup_symbol": "^",  # else 10 to the 6th is read as 106
        "inline_data_media": "alt_text_only",
        "hidden_content": "reachable",
        "max_depth": _DEEPEST,
        "preprocessing": preprocessing(preset="aggressive" if extractor == "article" else "standard"),
    }
    return convert_(html, options(**settings)).content or ""
