"""Editing, the clipboard, and what a terminal tells of itself and is told, in a real one."""

import base64
import re
import time
from pathlib import Path

import pytest
from console import Console
from samples import PNG

from sagent.testing.server import Received, Turn
from tests.depth import later, slow

pytestmark = pytest.mark.needs("tmux")


def echo(request: Received) -> Turn:
    """Repeats the newest message."""
    messages = request.json["messages"]
    assert isinstance(messages, list)
    return Turn(text="Read: " + str(messages[-1]).partition("'text': '")[2].partition("'")[0])


@later
def test_emacs_kill_ring_and_undo(console: Console) -> None:
    console.serve(echo)
    console.start()
    console.keys("one two three")
    console.keys("C-w")
    console.until("› one two", gone="three")
    console.keys("C-a", "M-f", "C-k")  # behind the first word; the rest is cut
    console.until("› one", gone="two")
    console.keys("C-y")
    console.until("› one two")
    console.keys("M-y")  # the text that was cut before the last, in its place
    console.until("› onethree", gone="two")
    console.keys("C-_")
    console.until("› one two", gone="three")
    console.keys("C-x", "C-u")
    console.until("› one", gone="two")
    console.keys("C-e", " second third", "M-b", "M-b", "M-d")
    console.until("› one  third")
    console.keys("M-BSpace")
    console.until("›  third")
    console.keys("Enter")
    console.until("Read:  third")


def test_vi_words_and_undo(console: Console) -> None:
    console.environment["SAGENT_EDITING_MODE"] = "vi"
    console.serve(echo)
    console.start()
    console.keys("one two three")
    console.keys("Escape")
    time.sleep(0.3)  # a lone Esc is one only when no key follows it
    console.keys("b", "b", "dw")
    console.until("› one three")
    console.keys("u")
    console.until("› one two three")
    console.keys("w", "D", "0", "P")
    console.until("› threeone two")
    console.keys("A", ".", "Enter")
    console.until("Read: threeone two .")


@slow
def test_unmarked_pasted_lines_are_one_message(console: Console, tmp_path: Path) -> None:
    server = console.serve(echo)
    console.start()
    (tmp_path / "lines").write_text("one of three\n/quit\n!touch ran\n")
    console.tmux("load-buffer", str(tmp_path / "lines"))
    console.tmux("paste-buffer")  # without -p: as keys
    console.until("› one of three", "  /quit", "  !touch ran")
    assert not server.requests
    console.keys("Enter")
    console.until("Read: one of three")
    assert not (console.cwd / "ran").exists()


def test_cleared_input_comes_back(console: Console) -> None:
    console.serve(echo)
    console.start()
    console.keys("a long thought")
    console.until("› a long thought")
    console.keys("C-c")
    console.until("›", gone="a long thought")
    console.keys("C-_")
    console.until("› a long thought")


@later
def test_enter_sends_only_completion(console: Console) -> None:
    for name in ("alone.txt", "twin-one.txt", "twin-two.txt"):
        (console.cwd / name).write_text(f"in {name}")
    console.serve(echo)
    console.start()
    console.keys("see @alo", "Tab")
    console.until("› see @alone.txt")
    console.keys("Enter")
    console.until("› see @alone.txt", "[1 attachment]")
    console.keys("and @twin", "Tab")
    console.until("› and @twin-one.txt", "twin-two.txt")
    console.keys("Down")
    console.until("› and @twin-two.txt")
    console.keys("Enter", " now", "Enter")
    console.until("› and @twin-two.txt now")


@slow
def test_completion_prefix_is_not_sent(console: Console) -> None:
    server = console.serve(echo)
    console.start()
    for text, hint in (("/", "type a command"), ("!", "a shell command"), ("#", "a note"), ("@", "a file's path")):
        console.type(text)
        console.until(hint, f"› {text}")
        console.keys("C-u")
        console.until("› ", gone=f"› {text}")
    assert not server.requests


@pytest.mark.costly
@pytest.mark.parametrize(
    ("program", "writes", "key"),
    [
        ("wl-paste", PNG, "C-v"),
        ("xclip", PNG, "C-x C-v"),
        ("osascript", b"\xc2\xabdata PNGf" + PNG.hex().upper().encode() + b"\xc2\xbb\n", "C-v"),
        ("powershell.exe", base64.b64encode(PNG) + b"\r\n", "C-v"),
    ],
)
def test_clipboard_image_is_attached(console: Console, tmp_path: Path, program: str, writes: bytes, key: str) -> None:
    (tmp_path / "image").write_bytes(writes)
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("wl-paste", "xclip", "pngpaste", "osascript", "powershell.exe"):
        found = f"/bin/cat {tmp_path / 'image'}" if name == program else "exit 1"
        (programs / name).write_text(f"#!/bin/sh\n{found}\n")
        (programs / name).chmod(0o755)
    console.environment["PATH"] = str(programs)  # of the system none comes first
    server = console.serve([Turn(text="A dot.")])
    console.start()
    console.keys("what is")
    console.keys("Space", *key.split())
    console.until("› what is [Image #1]")
    console.keys("Enter")
    console.until("A dot.", "[1 attachment]")
    assert base64.b64encode(PNG).decode() in str(server.requests[0].json["messages"])


@later
@pytest.mark.parametrize("image", [PNG[:40], pytest.param(b"", marks=slow)])
def test_unusable_clipboard_image_is_told(console: Console, tmp_path: Path, image: bytes) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (tmp_path / "image").write_bytes(image)
    for name in ("wl-paste", "xclip", "pngpaste", "osascript", "powershell.exe"):
        (programs / name).write_text(f"#!/bin/sh\n/bin/cat {tmp_path / 'image'}\n")
        (programs / name).chmod(0o755)
    console.environment["PATH"] = str(programs)  # of the system none comes first
    console.serve(echo)
    console.start()
    console.keys("C-v")
    console.until("is a broken or incomplete image/png image" if image else "no image in the clipboard", "› ")


IN, OUT = b"\x1b[I", b"\x1b[O"


@later
@pytest.mark.parametrize(
    ("notify", "told", "rings"),
    [
        ("bell", OUT, b"\x07"),
        ("osc9", OUT, b"\x1b]9;sagent has finished\x07"),
        ("off", OUT, b""),
        ("bell", OUT + IN, b""),
    ],
)
def test_unfocused_terminal_told_of_end(
    console: Console, tmp_path: Path, notify: str, told: bytes, rings: bytes
) -> None:
    console.environment["SAGENT_NOTIFY"] = notify
    console.serve([Turn(text="It is done.", pieces=4, gap=0.1), Turn(text="Again.")])
    console.start()
    console.record(tmp_path / "bytes")
    console.type("go")
    console.until("It is")
    console.raw(told)
    console.until("It is done.", gone="Esc interrupts")
    console.raw(IN)
    console.type("once more")  # nothing of what the terminal told is taken for keys
    screen = console.until("Again.", "› once more")
    assert "[I" not in screen
    assert "[O" not in screen
    written = (tmp_path / "bytes").read_bytes()
    assert rings in written
    assert (b"\x07" in written) == bool(rings)


@later
def test_question_rings_and_list_stays_open(console: Console, tmp_path: Path) -> None:
    from sagent.testing.server import Call

    console.serve([Turn(calls=(Call("Bash", {"command": "touch a"}),)), Turn(text="Done.")])
    console.start("--sandbox", "off")
    console.record(tmp_path / "bytes")
    console.raw(OUT)
    console.type("go")
    console.until("y once")
    console.raw(IN)
    console.raw(OUT)
    time.sleep(0.3)
    assert "y once" in console.screen
    assert b"\x07" in (tmp_path / "bytes").read_bytes()
    console.keys("y")
    console.until("Done.")


def test_terminal_is_restored_at_exit(console: Console, tmp_path: Path) -> None:
    console.serve(echo)
    console.start()
    console.record(tmp_path / "bytes")
    console.keys("C-d")
    console.until("ended 0")
    written = (tmp_path / "bytes").read_bytes()
    assert b"\x1b[?1004l" in written
    assert b"\x1b[?2004l" in written


@later
@pytest.mark.parametrize(
    ("answer", "colour"),
    [
        (b"\x1b]11;rgb:ffff/ffff/f0f0\x1b\\", "34m"),
        pytest.param(b"\x1b]11;rgb:1a/1b/26\x07", "36m", marks=slow),
    ],
)
def test_colours_follow_terminal_background(console: Console, answer: bytes, colour: str) -> None:
    console.serve(echo)
    console.start()
    console.raw(answer[:12])
    console.raw(answer[12:])
    console.type("hello")
    screen = console.until("Read: hello")
    assert "rgb" not in screen
    end = time.monotonic() + 10
    while not any(f"{colour}›" in line for line in styled(console)):
        assert time.monotonic() < end, styled(console)
        time.sleep(0.05)


def styled(console: Console) -> list[str]:
    """The rows of the screen with their colours alone: how tmux spells the rest depends on what stands before."""
    rows = console.tmux("capture-pane", "-p", "-e").splitlines()
    return [
        re.sub(r"\x1b\[(?:[\d;]*;)?(3\d(?=m))?[\d;]*m", lambda sgr: f"\x1b[{sgr[1]}m" if sgr[1] else "", row)
        for row in rows
    ]
