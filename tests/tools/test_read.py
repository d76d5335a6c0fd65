"""Reading: bounded, numbered, decoded; what is not text is shown as what it is, or refused by name."""

import asyncio
import base64
import json
import os
import tracemalloc
import zlib
from io import BytesIO
from random import Random

import pytest

from sagent.errors import ToolError
from sagent.lib.image import image_type, measure_image
from sagent.messages import Image
from sagent.repl.project import fit_images
from sagent.tools import Edit, Read, Write
from sagent.tools.media import read_media, show_image
from sagent.tools.pdf import encode_png, parse_pages, show_pdf
from tests.depth import later


def text_of(output):
    return "".join(getattr(part, "text", "") for part in output.content)


def images_of(output):
    return [part for part in output.content if isinstance(part, Image)]


PNG = encode_png(b"\xff\0\0" * 6, 3, 2, 9, 3)


async def read(call, path, **arguments):
    return text_of(await call(Read(), file_path=str(path), **arguments))


async def test_lines_are_numbered_ranges_continue(call, root) -> None:
    (root / "f").write_text("one\ntwo\n\nfour")
    assert await read(call, "f") == "1\tone\n2\ttwo\n3\t\n4\tfour"
    assert await read(call, "f", offset=2, limit=2) == "2\ttwo\n3\t\n\n(Lines 2 to 3 of 4. Go on with offset 4.)"
    with pytest.raises(ToolError, match="only 4 lines"):
        await read(call, "f", offset=9)
    (root / "empty").write_text("")
    assert await read(call, "empty") == "(The file is empty.)"


async def test_paging_shows_every_line_once(call, root) -> None:
    lines = [f"line {number} " + "x" * (number % 120) for number in range(1, 5001)]
    (root / "f").write_text("\n".join(lines) + "\n")
    seen, offset = [], 1
    while True:
        text = await read(call, "f", offset=offset)
        body, _, notice = text.partition("\n\n(")
        seen += [line.partition("\t")[2] for line in body.split("\n")]
        assert len(text) < 60_000
        if not notice:
            break
        offset = int(notice.rstrip(".)").rpartition(" ")[2])
    assert seen == lines


async def test_very_long_line_is_cut_and_said(call, root) -> None:
    (root / "f").write_text("a" * 100_000 + "\nb\n")
    text = await read(call, "f")
    assert "[98000 characters cut]" in text
    assert text.endswith("\n2\tb")


@pytest.mark.parametrize(
    ("data", "note"),
    [
        ("é→\n".encode(), ""),
        ("é→\n".encode("utf-8-sig"), ""),
        ("é→\n".encode("utf-16"), "(utf-16-le with BOM)\n"),
        (b"\xfe\xff" + "é→\n".encode("utf-16-be"), "(utf-16-be with BOM)\n"),
        (("plain text, " * 9 + "é→\n").encode("utf-16-le"), "(utf-16-le)\n"),
        ("é\n".encode("cp1252"), "(perhaps cp1252)\n"),
        ("é→\r\n".encode(), "(CRLF line ends)\n"),
        (b"a\rb\r", ""),
        ("é→".encode() + b"\xff\n", "(utf-8 with invalid bytes)\n"),
    ],
)
async def test_encodings_are_detected(call, root, data, note) -> None:
    (root / "f").write_bytes(data)
    text = await read(call, "f")
    assert text.startswith(note + "1\t")
    assert "é" in text or "b" in text
    text.encode()


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x7fELF\2\1\1" + bytes(90), "an ELF program"),
        (b"PK\x03\x04" + bytes(90), "a ZIP archive"),
        (b"\x1f\x8b" + bytes(range(256)), "gzip"),
        (bytes(range(256)) * 9, "binary data of an unknown kind"),
        (b"SQLite format 3\0" + bytes(90), "an SQLite database"),
    ],
)
async def test_binary_is_refused_and_stays_unread(call, root, data, kind) -> None:
    (root / "f").write_bytes(data)
    with pytest.raises(ToolError, match=kind):
        await read(call, "f")
    with pytest.raises(ToolError, match="was not read"):
        await call(Write(), file_path="f", content="x")
    with pytest.raises(ToolError, match=r"not read|not text"):
        await call(Edit(), file_path="f", old_string="P", new_string="x")


async def test_empty_arguments_and_file_urls_work(call, root) -> None:
    (root / "a b#?.txt").write_text("one\ntwo\n")
    for path in (f"file://{root}/a%20b%23%3F.txt", f"file://localhost{root}/a b#?.txt", f"file://{root}/a b#?.txt"):
        assert text_of(await call(Read(), file_path=path, offset=0, limit=1, pages="")).startswith("1\tone\n")


async def test_missing_files_name_what_is_near(call, root) -> None:
    (root / "src").mkdir()
    (root / "src" / "parser.py").write_text("x")
    with pytest.raises(ToolError, match=r"Did you mean src/parser\.py\?"):
        await read(call, "src/parsr.py")
    with pytest.raises(ToolError, match=r"does not\. Did you mean src\?"):
        await read(call, "scr/parser.py")
    with pytest.raises(ToolError, match="working directory is"):
        await read(call, "quite-another")
    with pytest.raises(ToolError, match=r"is a directory\. Use List"):
        await read(call, "src")


async def test_blocking_files_are_refused_at_once(call, root) -> None:
    os.mkfifo(root / "pipe")
    async with asyncio.timeout(60):
        with pytest.raises(ToolError, match="is a FIFO"):
            await read(call, "pipe")
        with pytest.raises(ToolError, match="is a device"):
            await read(call, "/dev/zero")


async def test_huge_file_read_in_part_counts_as_seen(call, root, workspace) -> None:
    with (root / "big.log").open("wb") as file:
        for number in range(70):
            file.write(f"start {number}\n".encode() + b"x" * 1_000_000 + b"\n")
    text = await read(call, "big.log", offset=3, limit=1)
    assert text.startswith("(70")
    assert "3\tstart 1\n\n" in text and "Go on with offset 4" in text
    workspace.check_unchanged(root / "big.log")
    with pytest.raises(ToolError, match="larger than 50 MB"):
        await call(Edit(), file_path="big.log", old_string="start 1", new_string="x")
    (root / "big.bin").write_bytes(b"\x7fELF" + bytes(51_000_000))
    with pytest.raises(ToolError, match="ELF"):
        await read(call, "big.bin")


async def test_images_come_as_images(call, root) -> None:
    (root / "a.dat").write_bytes(PNG)
    output = await call(Read(), file_path="a.dat")
    assert images_of(output) == [Image("image/png", PNG)]
    assert "3x2" in text_of(output)
    for data in (PNG[:-24], PNG[:45] + bytes([PNG[45] ^ 255]) + PNG[46:], PNG[:33] + PNG[-12:], PNG[:8]):
        (root / "b.png").write_bytes(data)
        with pytest.raises(ToolError, match="broken or incomplete"):
            await read(call, "b.png")


def image_file(form: str, size: tuple[int, int], *, frames: int = 1, mode: str = "RGB", **options: object) -> bytes:
    """An image as Pillow writes it."""
    pillow, out = pytest.importorskip("PIL.Image"), BytesIO()
    first, *others = (pillow.new(mode, size, (number * 99, 0, 0) if frames > 1 else 0) for number in range(frames))
    first.save(out, form, **({"save_all": True, "append_images": others} if others else {}), **options)
    return out.getvalue()


@pytest.mark.parametrize(
    ("form", "size", "frames", "mode", "kind", "shown"),
    [
        ("PNG", (2560, 60), 1, "RGBA", "image/png", (2000, 47)),
        ("PNG", (100, 2001), 1, "P", "image/png", (100, 2000)),
        ("JPEG", (4000, 3000), 1, "CMYK", "image/jpeg", (2000, 1500)),
        ("WEBP", (2500, 20), 1, "RGB", "image/png", (2000, 16)),
        ("GIF", (30, 20), 3, "RGB", "image/png", (30, 20)),
        ("PNG", (30, 20), 3, "RGB", "image/png", (30, 20)),
        ("WEBP", (30, 20), 3, "RGB", "image/png", (30, 20)),
        ("PNG", (2000, 10), 1, "RGB", "image/png", (2000, 10)),
    ],
)
async def test_large_or_moving_image_is_fitted(call, root, form, size, frames, mode, kind, shown) -> None:
    (root / "a").write_bytes(image_file(form, size, frames=frames, mode=mode))
    output = await call(Read(), file_path="a")
    (image,) = images_of(output)
    assert image.media_type == kind
    assert measure_image(image.data, kind) == shown
    assert (f"shown as {shown[0]}x{shown[1]}" in text_of(output)) == (size != shown or frames > 1)


@later
async def test_heavy_image_is_fitted(call, root) -> None:
    pytest.importorskip("PIL.Image")
    noise = Random(1).randbytes(1500 * 1500 * 3)
    (root / "a.png").write_bytes(encode_png(noise, 1500, 1500, 4500, 3))
    (image,) = images_of(await call(Read(), file_path="a.png"))
    assert image.media_type == "image/jpeg"
    assert len(image.data) <= 3_900_000


def test_unfittable_image_says_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.tools.media.shrink_image", lambda *_: None)
    with pytest.raises(ToolError, match=r"9000x1 pixels.*Make a smaller copy"):
        show_image(encode_png(b"\0" * 9000, 9000, 1, 9000, 1), "x.png")
    shown = show_image(encode_png(b"\0" * 3000, 3000, 1, 3000, 1), "x.png")  # which providers take, if not many
    assert shown is not None and shown.summary == "x.png: image/png, 3000x1"


@later
@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP"])
def test_truncated_image_is_refused(form: str) -> None:
    data = image_file(form, (40, 30))
    assert show_image(data, "x") is not None
    with pytest.raises(ToolError, match="broken or incomplete"):
        show_image(data[: len(data) - max(8, len(data) // 3)], "x")


@later
@pytest.mark.parametrize(
    "data",
    [
        encode_png(b"\0" * 90, 30, 3, 90, 3).replace(b"\0\0\0\x03\x08", b"\0\0\0\x04\x08"),  # its sum is wrong
        encode_png(b"\0" * 90, 300, 1, 90, 3),  # fewer pixels than it says
        encode_png(b"\0" * 90, 30, 300, 90, 3),
        b"GIF89a" + bytes(10) + b";",
        b"RIFF\x16\0\0\0WEBPVP8 " + bytes(14),
    ],
)
def test_image_of_missing_pixels_is_refused(data: bytes) -> None:
    with pytest.raises(ToolError, match="broken or incomplete"):
        show_image(data, "x")


@pytest.mark.parametrize("form", ["GIF", "WEBP", "JPEG"])
@pytest.mark.parametrize("lost", [1, 300])
def test_image_of_lost_bytes_is_refused(form: str, lost: int) -> None:
    """Its beginning and its end are whole."""
    data = image_file(form, (400, 300))
    assert measure_image(data, f"image/{form.lower()}") == (400, 300)
    at = len(data) // 2 if form != "JPEG" else data.index(b"\xff\xc4") + 4  # the tables: all of a scan may be pixels
    assert measure_image(data[:at] + data[at + lost :], f"image/{form.lower()}") is None


@pytest.mark.parametrize(
    "options", [{"progressive": True}, {"restart_marker_blocks": 2}, {"icc_profile": b"\xff\xd9" * 40_000}]
)
def test_every_kind_of_jpeg_is_whole(options: dict) -> None:
    data = image_file("JPEG", (70, 50), **options)
    assert measure_image(data, "image/jpeg") == (70, 50)
    assert measure_image(data + b"\0" * 99, "image/jpeg") == (70, 50)
    assert measure_image(data[:-2], "image/jpeg") is None


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_every_kind_of_png_is_whole(mode: str) -> None:
    data = image_file("PNG", (13, 7), mode=mode)
    assert measure_image(data, "image/png") == (13, 7)


@later
def test_png_is_unpacked_in_parts() -> None:
    """A small file may have gigabytes of pixels."""
    data = encode_png(b"\0" * 32_000_000, 8_000, 4_000, 8_000, 1)
    tracemalloc.start()
    assert measure_image(data, "image/png") == (8_000, 4_000)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 8_000_000


@later
@pytest.mark.parametrize("form", ["JPEG", "GIF"])
def test_image_with_trailing_data_is_shown(form: str) -> None:
    shown = show_image(image_file(form, (40, 30)) + b"ftyp" * 5_000, "x")  # as telephones write moving ones
    assert shown is not None
    assert shown.summary.endswith("is shown as 40x30")


@pytest.mark.costly
@pytest.mark.parametrize("door", ["read", "media", "message"])
async def test_fitting_an_image_blocks_nobody(call, root, door) -> None:
    wide = image_file("PNG", (2500, 8))
    (root / "a.png").write_bytes(wide)
    rounds = 0

    async def others() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    if door == "read":
        found = images_of(await call(Read(), file_path="a.png"))
    elif door == "media":
        found = [await read_media(wide, "a.png")]
    else:
        found, _ = await fit_images([Image("image/png", wide)])
    beside.cancel()
    assert [measure_image(image.data, "image/png") for image in found if isinstance(image, Image)] == [(2000, 6)]
    assert rounds > 50


def test_image_kinds_by_their_bytes() -> None:
    jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x0b\x08\0\x05\0\x07\x01\x01\x11\0\xff\xd9"
    gif = b"GIF89a\x07\0\x05\0\0\0\0;"
    webp = b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x06\0\0\x04\0\0"
    for data, kind in ((jpeg, "image/jpeg"), (gif, "image/gif"), (webp, "image/webp")):
        assert image_type(data) == kind
        shown = show_image(data, "x")
        assert shown is not None
        assert shown.summary == f"x: {kind}, 7x5"
    assert show_image(b"hello", "x") is None
    with pytest.raises(ToolError, match="incomplete"):
        show_image(jpeg[:12], "x")


def test_encode_png_drops_row_padding() -> None:
    data = encode_png(b"abcPPdefPP", 3, 2, 5, 1)
    length = int.from_bytes(data[33:37], "big")
    assert zlib.decompress(data[41 : 41 + length]) == b"\0abc\0def"


NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {
            "cell_type": "code",
            "source": "1 + 1",
            "outputs": [
                {"output_type": "stream", "text": ["printed\n"]},
                {"output_type": "execute_result", "data": {"text/plain": ["2"], "text/html": "<b>2</b>"}},
                {
                    "output_type": "display_data",
                    "data": {"text/plain": "<IPython.core.display.JSON object>", "application/json": {"a": [1]}},
                },
                {
                    "output_type": "display_data",
                    "data": {"image/png": base64.b64encode(PNG).decode(), "text/plain": "fig"},
                },
                {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[31mE\x1b[0m: v"]},
            ],
        },
    ],
    "nbformat": 4,
}


async def test_a_notebook_is_shown_as_cells(call, root) -> None:
    (root / "n.ipynb").write_text(json.dumps(NOTEBOOK))
    output = await call(Read(), file_path="n.ipynb")
    text = text_of(output)
    for piece in (
        "cell 1: markdown ---\n# Title\ntext",
        "cell 2: code ---\n1 + 1",
        "printed",
        "---\n2\n",
        '{"a": [1]}',
        "E: v",
    ):
        assert piece in text
    assert "\x1b" not in text
    assert [image.data for image in images_of(output)] == [PNG]
    assert (await read(call, "n.ipynb", offset=1)).startswith('1\t{"cells"')
    (root / "broken.ipynb").write_text("{")
    assert await read(call, "broken.ipynb") == "1\t{"


def make_pdf(*texts: str) -> bytes:
    """A PDF with a page for each text."""
    count = len(texts)
    kids = " ".join(f"{4 + 2 * index} 0 R" for index in range(count))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for index, text in enumerate(texts):
        stream = f"BT /F1 24 Tf 20 50 Td ({text}) Tj ET" if text else ""
        box = "/MediaBox [0 0 200 100] /Resources << /Font << /F1 3 0 R >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R {box} /Contents {5 + 2 * index} 0 R >>")
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    out, places = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n"
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n" + "".join(f"{place:010} 00000 n \n" for place in places)
    out += f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n"
    return out.encode("latin-1")


async def test_pdf_pages_as_text_or_pictures(call, root) -> None:
    (root / "d.pdf").write_bytes(make_pdf("Hello", "", "World"))
    output = await call(Read(), file_path="d.pdf")
    assert "page 1 of 3 ---\nHello" in text_of(output)
    assert "no text on this page" in text_of(output)
    assert images_of(output) == []
    output = await call(Read(), file_path="d.pdf", pages="3,1")
    pictures = images_of(output)
    assert text_of(output).index("World") < text_of(output).index("Hello")
    assert [picture.media_type for picture in pictures] == ["image/png", "image/png"]
    shown = show_image(pictures[0].data, "p")
    assert shown is not None
    assert shown.summary == "p: image/png, 1400x700"
    await asyncio.gather(*(call(Read(), file_path="d.pdf", pages="1-3") for _ in range(3)))


def test_pages_left_out_of_pdf_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.tools.pdf._MAX_TEXT_CHARS", 6)
    for pages, following in (("", "2-3"), ("1-3", "2,3"), ("3,1,2", "1,2")):
        shown = text_of(show_pdf(make_pdf("one", "four", "three"), "d.pdf", pages))
        assert shown.count("--- page") == 1
        assert f'left out. Give pages, as "{following}"' in shown
    assert "left out" not in text_of(show_pdf(make_pdf("one"), "d.pdf", "1"))


@later
async def test_bad_pdfs_and_page_lists_are_told(call, root) -> None:
    (root / "d.pdf").write_bytes(b"%PDF-1.4\nnothing")
    with pytest.raises(ToolError, match="cannot be opened as a PDF"):
        await read(call, "d.pdf")
    (root / "t.txt").write_text("x")
    with pytest.raises(ToolError, match="pages is for PDF"):
        await read(call, "t.txt", pages="1")
    assert parse_pages("1-3, 8,2", 9) == [1, 2, 3, 8]
    assert parse_pages("7-", 9) == [7, 8, 9]
    for pages, said in (
        ("x", "must be like"),
        ("0", "no page 0"),
        ("10", "has 9 pages"),
        ("5-3", "no page"),
        ("1-" + "9" * 5000, "must be like"),
    ):
        with pytest.raises(ToolError, match=said):
            parse_pages(pages, 9)
    (root / "long.pdf").write_bytes(make_pdf(*map(str, range(20))))
    with pytest.raises(ToolError, match="names 11 pages; at most 10"):
        await read(call, "long.pdf", pages="1-11")


async def test_dangling_symlink_is_named(call, root) -> None:
    (root / "dangling").symlink_to("../gone/file")
    for tool, arguments in ((Read(), {"file_path": "dangling"}), (Read(), {"file_path": "dangling/below"})):
        with pytest.raises(ToolError) as raised:
            await call(tool, **arguments)
        said = str(raised.value)
        assert all(part in said for part in (f"{root}/dangling", "leads nowhere", "../gone/file"))
        assert "Did you mean" not in said
