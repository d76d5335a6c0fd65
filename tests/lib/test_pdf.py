"""How many pages a PDF is taken for: what a request that shows it may cost depends on it."""

import zlib
from collections.abc import Callable

import pytest

from sagent.lib.pdf import count_pages
from sagent.messages import Document, user
from sagent.model import Model, Request
from sagent.providers import Anthropic, Google, OpenAI
from tests.depth import later


def page(number: int, parent: int = 2) -> bytes:
    return b"<</Type/Page/Parent %d 0 R/MediaBox[0 0 9 9]>>" % parent


def pdf(
    pages: int,
    *,
    told: int | None = None,
    named: bytes = b"/Page",
    packed: bool = True,
    pack: Callable[[bytes], bytes] = zlib.compress,
    filters: bytes = b"/FlateDecode",
) -> bytes:
    """A PDF whose pages lie in object streams of 100, as most writers leave them, and a cross-reference stream."""
    kids = b" ".join(b"%d 0 R" % (3 + number) for number in range(pages))
    objects = {1: b"<</Type/Catalog/Pages 2 0 R>>"}
    objects[2] = b"<</Type/Pages/Count %d/Kids[%s]>>" % (pages if told is None else told, kids)
    objects |= {3 + number: page(number).replace(b"/Page/", named + b"/") for number in range(pages)}
    data, places = bytearray(b"%PDF-1.5\n"), dict[int, tuple[int, int, int]]()
    if not packed:
        for number, body in objects.items():
            places[number] = 1, len(data), 0
            data += b"%d 0 obj%sendobj\n" % (number, body)
    numbers, following = sorted(objects), 3 + pages
    for first in range(0, len(numbers) if packed else 0, 100):
        heads, bodies = b"", b""
        for index, number in enumerate(numbers[first : first + 100]):
            heads += b"%d %d " % (number, len(bodies))
            bodies += objects[number] + b" "
            places[number] = 2, following, index
        stream = pack(heads + bodies)
        places[following] = 1, len(data), 0
        data += b"%d 0 obj<</Type/ObjStm/N %d/First %d/Filter%s/Length %d>>stream\r\n%s\nendstream endobj\n" % (
            following,
            heads.count(b" ") // 2,
            len(heads),
            filters,
            len(stream),
            stream,
        )
        following += 1
    places[following] = 1, len(data), 0
    rows = [(0, 0, 65535), *(places[number] for number in range(1, following + 1))]
    table = zlib.compress(b"".join(bytes([kind, *at.to_bytes(4), *index.to_bytes(2)]) for kind, at, index in rows))
    start = len(data)
    data += (
        b"%d 0 obj<</Type/XRef/W[1 4 2]/Size %d/Root 1 0 R/Filter/FlateDecode/Length %d>>stream\n%s\nendstream endobj\n"
        % (
            *(following, len(rows), len(table)),
            table,
        )
    )
    return bytes(data + b"startxref\n%d\n%%%%EOF\n" % start)


def two(data: bytes) -> bytes:
    """A page in plain sight beside those that are not."""
    return data + b"9999 0 obj<</Type/Page>>endobj\n"


@pytest.mark.costly
@pytest.mark.parametrize(
    ("data", "pages"),
    [
        (pdf(300), 300),
        (two(pdf(300)), 301),
        (pdf(300, packed=False), 300),
        (pdf(300, told=1), 300),
        (pdf(300, named=b"/P#61ge"), 300),
        (pdf(5000), 5000),
        (pdf(300).replace(b"/Filter", b"/Filt#65r"), 300),
        (pdf(300)[:-40], 300),  # cut off
    ],
)
def test_pages_in_object_streams_are_counted(data: bytes, pages: int) -> None:
    assert count_pages(data) == pages


@pytest.mark.costly
@pytest.mark.parametrize(
    "hide",
    [
        lambda data: data.replace(b"/ObjStm", b"/Obj#53tm"),
        lambda data: data.replace(b"/Type/ObjStm", b"/Type/Obj#53tm/More/ObjStm", 1),
    ],
)
def test_hidden_pages_are_counted(hide: Callable[[bytes], bytes]) -> None:
    assert count_pages(two(hide(pdf(300)))) >= 300


def predicted(data: bytes) -> bytes:
    """As PNG stores rows that are not filtered, each with the number of its filter first."""
    rows = (data.ljust(-(-len(data) // 9) * 9)[at : at + 9] for at in range(0, len(data), 9))
    return zlib.compress(b"".join(b"\0" + row for row in rows))


@pytest.mark.costly
@pytest.mark.parametrize(
    ("pack", "filters"),
    [
        (lambda data: zlib.compress(zlib.compress(data)), b"[/FlateDecode/FlateDecode]"),
        (predicted, b"/FlateDecode/DecodeParms<</Predictor 10/Columns 9>>"),
    ],
)
def test_packed_or_filtered_streams_are_counted(pack: Callable[[bytes], bytes], filters: bytes) -> None:
    assert count_pages(two(pdf(40, pack=pack, filters=filters))) >= 40


@later
def test_invisible_pages_counted_by_pypdfium2() -> None:
    untyped = pdf(40, named=b"/Leaf", packed=False)
    assert count_pages(untyped) == 40
    assert count_pages(two(pdf(300).replace(b"/Root", b"/Encrypt 1 0 R/Root"))) >= 300


@pytest.mark.costly
@pytest.mark.parametrize(
    "written",
    [b"", b"/Type\0/Page", b"/Type%c\n/Page", b"/Type 99 0 R"],
    ids=["untyped", "nul", "comment", "elsewhere"],
)
def test_oddly_written_pages_are_counted(written: bytes) -> None:
    data = pdf(40, packed=False)
    first = data.index(b"/Type/Page/") + 1
    assert count_pages(data[:first] + data[first:].replace(b"/Type/Page/", written + b"/")) == 40


def test_page_shown_many_times_counts_each() -> None:
    once = pdf(40, packed=False)
    kids = b" ".join(b"%d 0 R" % (3 + number) for number in range(40))
    assert count_pages(once.replace(kids, (b"3 0 R " * 40).ljust(len(kids))[: len(kids)])) == 40


@pytest.mark.costly
@pytest.mark.parametrize(
    ("pack", "filters"),
    [
        (lambda data: data.hex().encode() + b">", b"/ASCIIHexDecode"),
        (lambda data: zlib.compress(zlib.compress(data)), b"[/FlateDecode/FlateDecode]"),
    ],
)
def test_false_count_hides_no_pages(pack: Callable[[bytes], bytes], filters: bytes) -> None:
    assert count_pages(pdf(40, told=1, pack=pack, filters=filters)) == 40


def test_huge_page_tree_counts_as_maximum() -> None:
    node = b"%d 0 obj<</Type/Pages/Count 1/Kids[%s]>>endobj\n"
    parts = b"".join(node % (number, b"%d 0 R " % (number + 1) * 10) for number in range(2, 12))
    data = (
        b"%PDF-1.5\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
        + parts
        + b"12 0 obj<</Type/Page/Parent 2 0 R>>endobj\n"
    )
    assert count_pages(data + b"trailer<</Root 1 0 R/Size 13>>\n%%EOF\n") == 1000


@pytest.mark.parametrize("broken", [lambda data: data[:10], lambda data: b"x" * len(data)])
def test_non_pdf_is_guessed_from_size(broken: Callable[[bytes], bytes]) -> None:
    data = broken(pdf(300))
    assert count_pages(data) == -(-len(data) // 4000)


@pytest.mark.costly
@pytest.mark.parametrize("flood", [b"/ObjStm", b"/ObjStm stream\n", b"/Type "])
def test_unfinished_file_is_given_up_soon(flood: bytes) -> None:
    data = b"%PDF-1.5 1 0 obj" + flood * 400_000  # by the square, this would take hours
    assert count_pages(data) == -(-len(data) // 4000)


@later
def test_over_unpacked_pdf_counts_as_maximum() -> None:
    bomb = zlib.compress(b" " * 60_000_000)
    hidden = pdf(300).replace(
        b"%PDF-1.5\n", b"%%PDF-1.5\n7 0 obj<</Type/ObjStm/Filter/FlateDecode>>stream\n%s\nendstream\n" % bomb
    )
    assert count_pages(hidden) >= 300


@pytest.mark.costly
@pytest.mark.parametrize(
    "model",
    [
        Anthropic.from_key("k" * 8).model("claude-sonnet-4-6"),
        OpenAI.from_key("k" * 8).model("gpt-5.4"),
        Google.from_key("k" * 8).model("gemini-3.5-flash"),
    ],
    ids=lambda model: model.id,
)
def test_request_weighs_all_pdf_pages(model: Model) -> None:
    one, all_of_them = (
        model.max_input_tokens(Request("c", [user("", Document("application/pdf", pdf(pages)))])) for pages in (1, 300)
    )
    assert all_of_them - one > 299 * 3000
