"""An image from the clipboard of a terminal that answers as https://sw.kovidgoyal.net/kitty/clipboard/ documents."""

import asyncio
import base64
import itertools
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.key_binding.key_processor import KeyPress

from sagent.errors import ToolError
from sagent.repl.project import images_at
from sagent.repl.terminal import clipboard
from sagent.repl.terminal.clipboard import TerminalClipboard
from sagent.repl.terminal.parser import InputParser
from tests.depth import later
from tests.repl.samples import PNG

BOUND = 30.0  # seconds


def coded(data: bytes | str) -> str:
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


def parts(data: bytes, size: int = 20, mime: str = "image/png") -> list[str]:
    """An answer in parts, as a terminal sends them."""
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    told = [f"type=read:status=DATA:mime={coded(mime)};{coded(chunk)}" for chunk in chunks]
    return ["type=read:status=OK", *told, "type=read:status=DONE"]


def received(answer: Sequence[str], can_ask: bool = True) -> bytes | None:
    """The image that a clipboard gets from a terminal's answer."""

    async def paste() -> bytes | None:
        asked = list[str]()

        def ask(question: str) -> bool:
            asked.append(question)
            for part in answer:
                asyncio.get_running_loop().call_soon(found.take, part)
            return can_ask

        found = TerminalClipboard(ask)
        found.take(answer[-1] if answer else "")  # was not asked for
        image = await found.image()
        assert asked
        return image and image.data

    return asyncio.run(paste())


def test_image_comes_in_parts() -> None:
    assert received(parts(PNG)) == PNG
    assert received(parts(PNG, 4096)) == PNG
    assert received([*parts(PNG, mime="text/plain")[:0], "type=read:status=OK", "type=read:status=DONE"]) is None
    assert received([], can_ask=False) is None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (["type=read:status=EPERM"], "may not give it away"),
        (["type=read:status=OK", "type=read:status=EIO"], "EIO"),
        (["type=read:status=OK", "type=read:status=DATA:mime=eA==;a"], "broken"),
        (parts(PNG[:40]), "broken or incomplete"),
    ],
)
def test_refusal_is_told(answer: list[str], said: str) -> None:
    with pytest.raises(ToolError, match=said):
        received(answer)


def test_silent_or_endless_terminal_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clipboard, "TERMINAL_TIMEOUT_SECONDS", 0.01)
    assert received(parts(PNG)[:-1]) is None
    monkeypatch.setattr(clipboard, "MAX_IMAGE_BYTES", 50)
    with pytest.raises(ToolError, match="more than 50 bytes"):
        received(parts(bytes(100)))


@given(st.lists(st.integers(0, 400), max_size=8), st.sampled_from(["\x1b\\", "\x07"]))
def test_answer_is_no_typing(cuts: list[int], end: str) -> None:
    answer = parts(PNG)
    sent = "a" + "".join(f"\x1b]5522;{part}{end}" for part in answer) + "b"
    typed, found = list[KeyPress](), list[str]()
    parser = InputParser(typed.append, bool, bool, lambda: True, lambda *_: None, bool)
    parser.on_clipboard = found.append
    places = sorted({0, len(sent), *(cut % len(sent) for cut in cuts)})
    for start, stop in itertools.pairwise(places):
        parser.feed(sent[start:stop])
    assert found == answer
    assert "".join(press.data for press in typed) == "ab"


def test_data_address_is_an_image(tmp_path: Path) -> None:
    [image] = images_at(f" data:image/png;base64,{coded(PNG)}\n", tmp_path)
    assert image.data == PNG
    assert images_at("data:image/png;base64,AAAA", tmp_path) == ()
    assert images_at(f"see data:image/png;base64,{coded(PNG)}", tmp_path) == ()


def on_pty(folder: Path, answer: Callable[[bytes], bytes], until: bytes) -> bytes:
    """What the REPL draws on a terminal after Ctrl-V; `answer` is given the question, and returns what is sent."""
    (programs := folder / "none").mkdir()
    environment = {"PATH": str(programs), "HOME": str(folder), "TERM": "xterm-kitty", "SAGENT_MODEL": "openai/gpt-5.5"}
    environment |= {"OPENAI_API_KEY": "k", "LANG": "C.UTF-8", "PYTHONPATH": os.pathsep.join(sys.path)}
    ours, theirs = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "-m", "sagent.bin.cli"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
        cwd=folder, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    seen, asked, pressed, end = b"", False, False, time.monotonic() + BOUND
    try:
        while until not in seen and time.monotonic() < end:
            if select.select([ours], [], [], 0.1)[0]:
                seen += os.read(ours, 65536)
            if not pressed and b"$0" in seen:
                pressed = bool(os.write(ours, b"\x16"))
            if not asked and (question := re.search(rb"\x1b\]5522;type=read;(\S+?)\x1b\\", seen)):
                asked, sent = True, answer(base64.b64decode(question[1]))
                for at in range(0, len(sent), 100):  # as it comes over a slow line
                    os.write(ours, sent[at : at + 100])
        return seen
    finally:
        program.kill()
        program.wait()
        os.close(ours)


@later
@pytest.mark.parametrize("refused", [False, True])
def test_terminal_far_away_gives_its_image(tmp_path: Path, refused: bool) -> None:
    def answer(kinds: bytes) -> bytes:
        assert b"image/png" in kinds.split()
        told = ["type=read:status=EPERM"] if refused else parts(PNG, 30)
        return "".join(f"\x1b]5522;{part}\x1b\\" for part in told).encode()

    until = b"may not give it away" if refused else b"[Image"
    seen = on_pty(tmp_path, answer, until)
    assert until in seen
    assert b"status" not in seen  # the answer is no typing
