"""What is painted: in a prompt_toolkit application whose terminal is a file. Defects in the display end no session."""

import asyncio
import gc
import io
import os
import pty
import re
import tty
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from weakref import ref

import pytest
from prompt_toolkit.input import create_pipe_input

from sagent.events import Notice, TextDelta
from sagent.repl.terminal import painter as painter_module
from sagent.repl.terminal.history import ProjectHistory
from sagent.repl.terminal.painter import Painter
from sagent.repl.terminal.screen import YOUNG, Screen
from sagent.repl.terminal.surface import SteadyOutput
from sagent.repl.view.blocks import Report
from sagent.repl.view.theme import rules_of


class Terminal(io.StringIO):
    """Takes what is written to it by number."""

    def fileno(self) -> int:
        raise io.UnsupportedOperation


@asynccontextmanager
async def painted(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Painter, list[bytes]]]:
    """A painter on a screen of 80 by 24, and what was written."""
    async with drawn(monkeypatch) as (screen, written):
        yield Painter(screen.surface, screen.redraw), written


@asynccontextmanager
async def drawn(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Screen, list[bytes]]]:
    """A screen of 80 by 24 that was drawn once, and what was written since."""
    written: list[bytes] = []
    monkeypatch.setattr(SteadyOutput, "_write_all", lambda _, data: written.append(data))
    with create_pipe_input() as keys:
        screen = Screen(ProjectHistory(), stdin=keys, stdout=Terminal())
        task = asyncio.create_task(screen.app.run_async(handle_sigint=False))
        while screen.app.renderer.last_rendered_screen is None:
            await asyncio.sleep(0)
        written.clear()
        yield screen, written
        screen.leave()
        await task


async def test_painted_rows_are_not_repainted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with painted(monkeypatch) as (painter, written):
        for text in ("One **bold", " word** here", " and more", ".\n\nThe next"):
            painter.show(TextDelta("root", text))
            painter.paint()
        whole = b"".join(written)
        for word in (b"One", b"bold", b"word", b"here", b"more", b"next"):
            assert whole.count(word) == 1
        assert all(step.startswith(b"\x1b[?2026h") and step.endswith(b"\x1b[?2026l") for step in written)
        assert b"\x1b[J" not in whole


async def test_ambiguous_width_row_written_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with painted(monkeypatch) as (painter, written):
        for text in ("A 漢字", " row", " 🇨🇭", " flag", " 👍", "🏽 and"):
            written.clear()
            painter.show(TextDelta("root", text))
            painter.paint()
            whole = b"".join(written).decode()
            assert ("A 漢字 row" in whole) == (text not in ("A 漢字", " row"))
        assert "\r\x1b[KA 漢字 row 🇨🇭 flag 👍🏽 and" in whole


async def test_garbage_collected_after_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ring:
        def __init__(self) -> None:
            self.own = self

    monkeypatch.setattr(gc, "freeze", lambda: None)
    async with drawn(monkeypatch) as (screen, _):
        gc.disable()
        try:
            rings = [Ring() for _ in range(2 * YOUNG)]
            last = ref(rings[-1])
            del rings
            screen.app._redraw()
            assert last() is not None  # not before all is loaded
            screen.tidy_up()
            screen.app._redraw()
            assert last() is None
        finally:
            gc.enable()


async def test_failed_renderer_gives_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    async with painted(monkeypatch) as (painter, written):
        with monkeypatch.context() as defect:
            defect.setattr(painter_module, "render_block", broken)
            painter.write(Report("this matters"))
            painter.paint()
        with monkeypatch.context() as defect:
            defect.setattr(painter_module, "reduce", broken)
            painter.show(Notice("root", "warning", "and this"))
        painter.paint()
        whole = b"".join(written)
        assert b"this matters" in whole
        assert b"and this" in whole
        assert b"a defect" in whole


async def test_gone_terminal_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    gone: list[bool] = []

    def lost(data: bytes) -> None:
        raise OSError(5, "gone")

    async with painted(monkeypatch) as (painter, _):
        output = painter._surface._output
        output.on_gone = lambda: gone.append(True)
        monkeypatch.setattr(output, "_write_all", lost)
        for number in range(3):
            painter.write(Report(f"news {number}"))
            painter.paint()
    assert gone == [True]


async def test_unread_terminal_stops_drawing_only() -> None:
    master, slave = pty.openpty()
    tty.setraw(slave)
    taken = asyncio.Event()
    with open(slave, "w") as terminal, create_pipe_input() as keys:
        screen = Screen(ProjectHistory(), stdin=keys, stdout=terminal)
        task = asyncio.create_task(screen.app.run_async(handle_sigint=False))
        while screen.app.renderer.last_rendered_screen is None:
            await asyncio.sleep(0)
        painter = Painter(screen.surface, screen.redraw)
        screen.resizing.on_resized = lambda: (painter.paint(), taken.set())[1]
        painter.write(*(Report(f"news {number} is {'x' * 500}") for number in range(400)))
        painter.paint()  # which returns
        assert screen.output.stalled
        unsent = len(screen.output._unsent)
        painter.write(Report("the last of the news"))
        painter.paint()
        screen.redraw()
        await asyncio.sleep(0)
        assert len(screen.output._unsent) == unsent
        read = bytearray()
        loop = asyncio.get_running_loop()
        loop.add_reader(master, lambda: read.extend(os.read(master, 1 << 16)))
        async with asyncio.timeout(60):
            await taken.wait()
            while b"the last of the news" not in read:
                await asyncio.sleep(0.01)
        assert all(read.count(b"news %d is" % number) == 1 for number in range(400))
        screen.leave()
        await task
        screen.close()
        loop.remove_reader(master)
    os.close(master)


async def test_named_file_is_a_terminal_link(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a b.py").touch()
    async with drawn(monkeypatch) as (screen, written):
        screen.surface.directory = lambda: tmp_path
        painter = Painter(screen.surface, screen.redraw)
        painter.show(TextDelta("root", "Read [it](a%20b.py), not `b.py`, or [the page](https://x.org).\n\n"))
        painter.paint()
        links = re.findall(rb"\x1b\]8;;([^\x1b]+)\x1b\\([^\x1b]+)\x1b\]8;;\x1b\\", b"".join(written))
    assert links == [((tmp_path / "a b.py").as_uri().encode(), b"it"), (b"https://x.org", b"the page")]


async def test_rows_are_erased_not_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """rxvt-unicode ignores such a deletion, and showed two status lines after the first answer."""
    async with drawn(monkeypatch) as (screen, written):
        screen.output.erase_down()
        screen.output.flush()
        assert b"M\x1b[J" in b"".join(written)  # tmux keeps a page that is erased, but not an empty one


@pytest.mark.parametrize(
    ("said", "light"),
    [("0;default;15", True), ("15;0", False), ("0;7", True), ("15;default", None), ("", None), ("x", None)],
)
async def test_background_from_environment(said: str, light: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORFGBG", said)
    async with drawn(monkeypatch) as (screen, _):
        assert screen.light is light
        assert screen._rules == rules_of("auto", light=light)
