"""Number of pages of a PDF, as an upper bound, to estimate the cost of a request."""

import re
import sys
import zlib
from contextlib import suppress
from io import BytesIO

from sagent.lib import isolated

_MAX_PAGES = 1000  # no provider accepts more
_MAX_UNPACKED_BYTES = 50_000_000  # of object streams that are unpacked here
_PAGE_BYTES = 4_000  # of a page, by default
_TIMEOUT_SECONDS = 10  # on the clock
_PAGE = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_ESCAPED = re.compile(rb"#([0-9a-fA-F]{2})")
_COUNT = re.compile(rb"(/Count\s*)(?<=\s)([0-9]+)")
_PLAINLY = 3  # FPDF_REMOVE_SECURITY: saved without encryption, and never in object streams
_MAX_DICTIONARY_BYTES = 2000  # bytes of an object stream's dictionary after its type


def count_pages(data: bytes) -> int:
    """Return the maximum of pypdfium2's count, its count of the page tree without trusting stored counts, and the
    number of visible page objects (also in object streams); a page needs no type, and may be shown repeatedly. If
    pypdfium2 gives no answer, return the provider limit; for anything but a PDF, a guess by size. Runs a separate
    process, about 0.1 s."""
    if b"obj" not in data:  # no object could be a page
        return _seen(data) or -(-len(data) // _PAGE_BYTES)
    found = isolated.answer_of(__name__, data, _TIMEOUT_SECONDS)
    return max(_seen(data), int(found) or -(-len(data) // _PAGE_BYTES)) if found.isdigit() else _MAX_PAGES


def _seen(data: bytes) -> int:
    """Return the page objects that can be seen."""
    seen, left, at = len(_PAGE.findall(_plain(data))), _MAX_UNPACKED_BYTES, 0
    while left > 0 and (at := data.find(b"/ObjStm", at) + 1) > 0:
        start = data.find(b"stream", at, at + _MAX_DICTIONARY_BYTES)
        end = data.find(b"endstream", start) if start >= 0 else -1
        if end < 0:
            break
        packed = data[start + len(b"stream") : end].lstrip(b"\r\n")
        at = end
        with suppress(zlib.error):  # packed in another way
            objects = zlib.decompressobj().decompress(packed, left)
            seen, left = seen + len(_PAGE.findall(_plain(objects))), left - len(objects)
    return seen


def _plain(data: bytes) -> bytes:
    """Decode the names in a PDF: any character of a name may be written as its number."""
    return _ESCAPED.sub(lambda match: bytes([int(match[1], 16)]), data)


def answer() -> None:
    """Write the number of pages of the PDF on standard input, 0 if it cannot be opened. Runs in the other process."""
    isolated.limit()
    import pypdfium2  # pyright: ignore[reportMissingTypeStubs] -- it has none

    try:
        found = pypdfium2.PdfDocument(sys.stdin.buffer.read())
        pages = len(found)
    except pypdfium2.PdfiumError:
        sys.stdout.write("0")
        return
    plain = BytesIO()
    with suppress(pypdfium2.PdfiumError, MemoryError):
        found.save(plain, flags=_PLAINLY)  # pyright: ignore[reportUnknownMemberType] -- it has no types
        try:
            counted = len(pypdfium2.PdfDocument(_COUNT.sub(_uncounted, plain.getvalue())))
        except pypdfium2.PdfiumError:  # so it is with a tree of more than a million
            counted = _MAX_PAGES
        pages = max(pages, counted)
    sys.stdout.write(str(pages))


def _uncounted(count: re.Match[bytes]) -> bytes:
    """Return a useless count of the same length, so that pypdfium2 walks the page tree."""
    return count[1] + b"0".rjust(len(count[2]))
