"""PDF files and notebooks are taken apart by a process with limits; what asks for too much is refused by name."""

import asyncio
import json
import struct
import zlib
from pathlib import Path

import pytest

from sagent.errors import ToolError
from sagent.lib import isolated
from sagent.tool import Workspace
from sagent.tools import Read, document
from sagent.tools.document import show_document
from tests.depth import WHOLE, later, slow
from tests.tools.test_read import PNG, make_pdf, read, text_of

MEMORY = isolated.MAX_MEMORY_BYTES if WHOLE else isolated.MAX_MEMORY_BYTES // 4
"""What a reader may have, in bytes: to fill less takes less time."""


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    less = f"from sagent.lib import isolated; isolated.MAX_MEMORY_BYTES = {MEMORY}"
    monkeypatch.setattr(isolated, "_START", isolated._START.replace("; from", f"; {less}; from"))


def make_bomb(piece: bytes, count: int) -> bytes:
    """A PDF of one page whose content is a piece so many times: compressed twice, a kilobyte or two."""
    inner = zlib.compressobj(9)
    once = b"".join([*(inner.compress(piece * 1000) for _ in range(count // 1000)), inner.flush()])
    stream = zlib.compress(once, 9)
    resources = b"<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 100] /Resources " + resources + b" /Contents 4 0 R >>",
        b"<< /Filter [/FlateDecode /FlateDecode] /Length %d >>\nstream\n" % len(stream) + stream + b"\nendstream",
    )
    body = b"".join(b"%d 0 obj\n%b\nendobj\n" % (number, one) for number, one in enumerate(objects, 1))
    return b"%PDF-1.4\n" + body + b"trailer << /Size 5 /Root 1 0 R >>\n"


@later
@pytest.mark.usefixtures("bounded")
async def test_pdf_bomb_is_refused_with_next_step(call, root) -> None:
    bomb = make_bomb(b"BT /F1 1 Tf (aaaaaaaaaaaaaaaaaaaa) Tj ET ", MEMORY // 250)
    assert len(bomb) < 10_000
    (root / "bomb.pdf").write_bytes(bomb)
    with pytest.raises(
        ToolError, match=r"bomb.pdf (needs more than 1000 MB|takes longer).*Give fewer pages.*pdftotext"
    ):
        await read(call, "bomb.pdf")


@later
async def test_many_and_giant_pages_are_bounded(call, root) -> None:
    one = make_pdf("Hello")
    (root / "many.pdf").write_bytes(one.replace(b"/Count 1", b"/Count 2000000000"))
    assert "page 1 of 1 ---\nHello" in await read(call, "many.pdf")
    (root / "giant.pdf").write_bytes(one.replace(b"[0 0 200 100]", b"[0 0 9999999 99]"))
    assert "Hello" in await read(call, "giant.pdf", pages="1")


@later
async def test_cancelled_or_slow_read_leaves_nothing(call, root, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "slow.pdf").write_bytes(make_bomb(b"q Q ", 50_000_000))
    reading = asyncio.create_task(call(Read(), file_path="slow.pdf"))
    while not _readers():
        assert not reading.done()
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert _readers() == []
    monkeypatch.setattr(document, "_TIMEOUT_SECONDS", 0.5)
    with pytest.raises(ToolError, match=r"slow.pdf takes longer than 0.5 s"):
        await read(call, "slow.pdf")
    assert _readers() == []


def _readers() -> list[str]:
    """The processes of ours that take documents apart."""
    children = Path("/proc/self/task").glob("*/children")
    if not Path("/proc/self").exists():
        pytest.skip("needs /proc to see processes")
    pids = [pid for path in children for pid in path.read_text().split()]
    return [pid for pid in pids if b"sagent.tools.document" in Path(f"/proc/{pid}/cmdline").read_bytes()]


LIMITED = "import os, resource; from sagent.lib import isolated as i; i.MAX_CPU_SECONDS = 1; i.limit()"


@pytest.mark.costly
@pytest.mark.parametrize(
    ("start", "said"),
    [
        (f"{LIMITED}; assert resource.getrlimit(0)[0] == 1; os.kill(os.getpid(), 24)", "20 s of a processor"),
        ("import os; os.abort()", r"damaged \(SIGABRT\)"),
        ("raise SystemExit(3)", r"damaged \(exit code 3\)"),
        pytest.param(f"{LIMITED}\nwhile True: pass", "20 s of a processor", marks=slow),
        ("print('x' * 100_000_001)", "becomes more than 100 MB"),
    ],
)
async def test_reader_failure_is_told(start: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "_START", f"import sys; sys.path[:] = sys.argv[1:]; {start}")
    with pytest.raises(ToolError, match=rf"n.ipynb .*{said}.*; it could not be shown. Read its JSON"):
        await show_document("notebook", b"{}", "n.ipynb")


async def test_reader_has_no_keys_and_works_unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    before = (
        "import sys, os, resource; sys.path[:] = sys.argv[1:]; assert 'sk-secret' not in str(os.environ)\n"
        "def refuse(*_): raise ValueError\n"
        "resource.setrlimit = refuse\n"
    )
    monkeypatch.setattr(isolated, "_START", before + "from sagent.tools.document import answer; answer()")
    shown = await show_document("pdf", make_pdf("Hello"), "d.pdf")
    assert "Hello" in text_of(shown)


async def test_file_changed_in_reading_is_unseen(
    call, root, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = root / "n.ipynb"
    book.write_text('{"cells":[]}')
    change = f"import pathlib; pathlib.Path({str(book)!r}).write_text('{{}}' + ' ' * 10)"
    monkeypatch.setattr(isolated, "_START", f"{change}; {isolated._START}")
    await read(call, "n.ipynb")
    with pytest.raises(ToolError, match="has changed since"):
        workspace.check_unchanged(book)


@later
@pytest.mark.usefixtures("bounded")
async def test_notebooks_are_bounded(call, root) -> None:
    (root / "deep.ipynb").write_text('{"cells":' + "[" * 100_000 + "]" * 100_000 + "}")
    assert (await read(call, "deep.ipynb")).startswith('1\t{"cells":[[')
    (root / "wide.ipynb").write_text('{"cells":[' + "{}," * (MEMORY * 16 // 1000) + "{}]}")
    with pytest.raises(
        ToolError, match=r"wide.ipynb (needs more than 1000 MB|takes longer).*Read its JSON with offset"
    ):
        await read(call, "wide.ipynb")
    with (root / "huge.ipynb").open("w") as file:
        file.writelines(f"{json.dumps({'cells': number})}\n" * 10_000 for number in range(1, MEMORY // 500_000))
    assert (root / "huge.ipynb").stat().st_size > MEMORY / 4
    assert len(await read(call, "huge.ipynb")) < 60_000


async def test_image_larger_than_its_data(call, root) -> None:
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    (root / "big.png").write_bytes(PNG[:16] + header + struct.pack(">I", zlib.crc32(b"IHDR" + header)) + PNG[33:])
    with pytest.raises(ToolError, match="broken or incomplete"):
        await read(call, "big.png")
