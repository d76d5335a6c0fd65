"""PDF files: the text of their pages, and pages as pictures."""

import re
import struct
import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Protocol, cast

from sagent.errors import ToolError
from sagent.messages import Image, Text
from sagent.tool import Media, ToolOutput

_MAX_PICTURES = 10  # a call
_MAX_TEXT_PAGES = 20  # a call
_MAX_TEXT_CHARS = 50_000
_SIDE_PIXELS = 1400  # of a picture's longer side: what models see without scaling it down


class TextPage(Protocol):
    def get_text_bounded(self) -> str: ...


class Bitmap(Protocol):
    """A picture: rows of `stride` bytes, `n_channels` bytes a pixel."""

    width: int
    height: int
    stride: int
    n_channels: int
    buffer: bytes  # an array of C bytes


class Page(Protocol):
    """A page; sizes are in points."""

    def get_size(self) -> tuple[float, float]: ...
    def get_textpage(self) -> TextPage: ...
    def render(self, *, scale: float, rev_byteorder: bool) -> Bitmap: ...


class Document(Protocol):
    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> Page: ...


class Pdfium(Protocol):
    """The used part of pypdfium2, which has no types of its own."""

    PdfDocument: Callable[[bytes], Document]
    PdfiumError: type[Exception]


def show_pdf(data: bytes, name: str, pages: str) -> ToolOutput:
    """Return the text of the first pages; of the pages named ("1-5,8") text and pictures. Raises ToolError."""
    pdfium = cast("Pdfium", import_module("pypdfium2"))
    try:
        return _show(pdfium.PdfDocument(data), name, pages)
    except pdfium.PdfiumError as error:
        raise ToolError(f"{name} cannot be opened as a PDF: {error}") from None


def parse_pages(pages: str, total: int) -> list[int]:
    """Parse page numbers, from 1, in "1-5,8", each once. Raises ToolError for an invalid page."""
    numbers: dict[int, None] = {}
    for part in pages.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})\s*(?:-\s*(\d{0,9})\s*)?", part)
        if match is None:
            raise ToolError(f'pages must be like "1-5,8", not {pages[:100]!r}.')
        first = int(match[1])
        last = first if match[2] is None else min(int(match[2] or total), total)
        if not 1 <= first <= last <= total:
            raise ToolError(f"There is no page {part.strip()}: the document has {total} pages.")
        numbers |= dict.fromkeys(range(first, last + 1))
    return list(numbers)


def _show(document: Document, name: str, pages: str) -> ToolOutput:
    total = len(document)
    wanted = parse_pages(pages, total) if pages else list(range(1, total + 1))
    if pages and len(wanted) > _MAX_PICTURES:
        raise ToolError(f"pages names {len(wanted)} pages; at most {_MAX_PICTURES} can be shown in one call.")
    parts: list[Media] = []
    size = shown = 0
    for number in wanted[:_MAX_TEXT_PAGES]:
        page = document[number - 1]
        text = page.get_textpage().get_text_bounded().replace("\r\n", "\n").strip()
        text = text or "(no text on this page; it may be a scan: give pages to see it)"
        size += len(text)
        if size > _MAX_TEXT_CHARS and parts:
            break
        parts.append(Text(f"--- page {number} of {total} ---\n{text[:_MAX_TEXT_CHARS]}\n"))
        if pages:
            parts.append(Image("image/png", _picture(page)))
        shown += 1
    if left := wanted[shown : shown + _MAX_PICTURES]:
        following = ",".join(map(str, left)) if pages else f"{left[0]}-{left[-1]}"
        parts.append(Text(f'(The pages from {left[0]} on are left out. Give pages, as "{following}".)'))
    elif not pages:
        parts.append(Text('(Give pages, as "1-3", to see them as pictures too.)'))
    return ToolOutput(tuple(parts), summary=f"{name}: {total} pages")


def _picture(page: Page) -> bytes:
    """Return a page as PNG."""
    width, height = page.get_size()
    bitmap = page.render(scale=_SIDE_PIXELS / max(width, height, 1), rev_byteorder=True)
    return encode_png(bytes(bitmap.buffer), bitmap.width, bitmap.height, bitmap.stride, bitmap.n_channels)


def encode_png(pixels: bytes, width: int, height: int, stride: int, channels: int) -> bytes:
    """Return a PNG of rows of 8-bit samples: 1 channel is grey, 3 RGB, 4 RGBA; `stride` is bytes from row to row."""
    color = {1: 0, 3: 2, 4: 6}[channels]
    rows = b"".join(b"\0" + pixels[top : top + width * channels] for top in range(0, height * stride, stride))
    header = struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b""))
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body
