"""The text of a whole PDF by page, with its figures and its references. A separate process reads it."""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, cast

from sagent.errors import ToolError
from sagent.lib import isolated
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_object, as_str
from sagent.tools.document import take_apart

if TYPE_CHECKING:
    from sagent.tools.pdf import Pdfium

_MAX_PAGES = 1_000
_MAX_TEXT_CHARS = 5_000_000
_HEADING = re.compile(r"^\s*(?:\d+\.?\s+|[IVX]+\.\s+)?(?:references|bibliography|literature cited)\s*$", re.IGNORECASE)
_ENTRY = re.compile(r"^\s*(?:\[(?:\d{1,3}|[A-Za-z+]{1,6}\d{2}[a-z]?)\]|\d{1,3}\.)\s+\S")
_END = re.compile(r"^\s*(?:[A-Z]\.?\s+)?(?:appendix|appendices|supplementary)\b", re.IGNORECASE)
_CAPTION = re.compile(r"^\s*((?:Figure|Fig\.|Table)\s+[A-Z]?\d{1,3})\s*[.:|]\s*(\S.*)$")
_MAX_LISTED = 400


@dataclass(frozen=True, slots=True)
class PdfText:
    """`pages` in their order; `figures` are captions of figures and tables, as their first lines."""

    pages: tuple[str, ...]
    figures: tuple[str, ...] = ()
    references: tuple[str, ...] = ()


async def read_pdf(data: bytes, name: str) -> PdfText:
    """Read a PDF's text. Raises ToolError if it is damaged, or needs more memory or time than allowed."""
    answered = as_object(json.loads(await take_apart(__name__, data, name)))
    if error := as_str(answered.get("error")):
        raise ToolError(f"{name} cannot be opened as a PDF: {error.rstrip('.')}.")
    pages = tuple(map(as_str, as_array(answered.get("pages"))))
    lines = [line for page in pages for line in page.split("\n")]
    return PdfText(pages, tuple(figures(lines)), tuple(references(lines)))


def answer() -> None:
    """Write the text of the PDF on standard input. This is the main function of the other process."""
    isolated.limit()
    pdfium = cast("Pdfium", import_module("pypdfium2"))
    try:
        document = pdfium.PdfDocument(sys.stdin.buffer.read())
    except pdfium.PdfiumError as error:
        sys.stdout.write(json.dumps({"error": str(error)}))
        return
    pages: list[str] = []
    size = 0
    for number in range(min(len(document), _MAX_PAGES)):
        text = document[number].get_textpage().get_text_bounded().replace("\r\n", "\n").strip()
        size += len(text)
        if size > _MAX_TEXT_CHARS:
            break
        pages.append(text)
    sys.stdout.write(json.dumps({"pages": pages}))


def figures(lines: Sequence[str]) -> Iterator[str]:
    """Yield the captions, each once."""
    seen: dict[str, str] = {}
    for line in lines:
        if match := _CAPTION.match(line):
            seen.setdefault(" ".join(match[1].split()), " ".join(match[2].split())[:200])
    yield from (f"{name}: {caption}" for name, caption in list(seen.items())[:_MAX_LISTED])


def references(lines: Sequence[str]) -> Iterator[str]:
    """Yield the entries below the last heading of that name, to an appendix or the end: by their numbers, else by lines
    that begin after a full stop."""
    start = max((place for place, line in enumerate(lines) if _HEADING.match(line)), default=len(lines)) + 1
    end = next((place for place in range(start, len(lines)) if _END.match(lines[place])), len(lines))
    block = [line.strip() for line in lines[start:end] if line.strip() and not line.strip().isdecimal()]
    numbered = sum(1 for line in block if _ENTRY.match(line)) >= 2
    entry: list[str] = []
    count = 0
    for line in block:
        begins = bool(_ENTRY.match(line)) if numbered else (not entry or entry[-1].endswith("."))
        if begins and entry:
            yield _joined(entry)
            entry, count = [], count + 1
            if count >= _MAX_LISTED:
                return
        entry.append(line)
    if entry:
        yield _joined(entry)


def _joined(lines: Sequence[str]) -> str:
    """Join lines to one, and words that were split at line ends."""
    text = " ".join(lines)
    return re.sub(r"(\w)- (?=[a-z])", r"\1", text)[:600]
