"""What goes wrong around the REPL, in a real terminal: it goes away, floods come, displays fail."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from console import Console

from sagent.errors import SessionBusy
from sagent.session.store import Session, latest
from sagent.testing.server import Call, Fail, Turn
from tests.depth import deep, later, slow
from tests.waiting import wait_until

pytestmark = pytest.mark.needs("tmux")

BROKEN = """
import sys
from {package} import {module}
from sagent.bin.cli import main
def broken(*_):
    raise ZeroDivisionError("a defect of the display")
{module}.{name} = broken
sys.argv[0] = "sagent"
sys.exit(main())
"""

LONG = " ".join(f"word{number}" for number in range(12_000))  # a reply that says one thing for ever would be cut


def memory(console: Console) -> float:
    """Resident MB of the program in the pane, at its most."""
    line = next(
        line for line in Path(f"/proc/{console.process}/status").read_text().splitlines() if line.startswith("VmHWM")
    )
    return int(line.split()[1]) / 1000


def test_hangup_session_can_be_continued(console: Console) -> None:
    console.forks = None
    calls = Turn(text="I look.", calls=(Call("Bash", {"command": "echo half; sleep 49.17"}),))
    server = console.serve([calls, Turn(text="I see what happened.")])
    console.start("--permission-mode", "full")
    console.type("remember the lighthouse")
    console.until("│ half")
    console.leave()
    state = Path(console.environment["HOME"]) / ".local" / "state" / "sagent"
    session = latest(state, console.cwd)

    def is_free() -> bool:
        try:
            Session.open(session).close()
        except SessionBusy:
            return False
        return True

    wait_until(is_free, "the end of the program")
    console.start("--continue")
    console.until("› remember the lighthouse", "I look.", "Session resumed.")
    console.type("and now?")
    console.until("I see what happened.")
    told = str(server.requests[-1].json["messages"])
    assert "lighthouse" in told
    assert told.count("tool_result") == told.count("tool_use'") == 1
    assert list(state.rglob("*.jsonl"))


@contextmanager
def raw_terminal(console: Console, *flags: str) -> Generator[tuple[subprocess.Popen[bytes], int]]:
    """The program in a terminal that reads when the test does, and its end of that terminal."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {"TERM": "xterm-256color", "LANG": "C.UTF-8", **console.environment}
    with subprocess.Popen(
        [*console.program, *flags], stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=console.cwd,
        start_new_session=True,
    ) as process:  # fmt: skip
        os.close(slave)
        try:
            read_until(master, b"$0")
            yield process, master
        finally:
            process.kill()
            os.close(master)


def children(pid: int) -> set[int]:
    done = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)  # 1 if there is none
    return set(map(int, done.stdout.split()))


def read_until(terminal: int, awaited: bytes) -> None:
    seen = b""
    while awaited not in seen:
        assert select.select([terminal], [], [], 30)[0], seen[-2000:]
        seen += os.read(terminal, 1 << 16)


@later
def test_unread_terminal_can_be_left(console: Console) -> None:
    server = console.serve([Turn(text=f"word word {LONG} {LONG}")])
    with raw_terminal(console) as (process, terminal):
        os.write(terminal, b"go\r")
        read_until(terminal, b"word word")
        wait_until(lambda: len(select.select([terminal], [], [], 0)[0]) == 1)
        os.write(terminal, b"\x04")  # and from here on nobody reads
        assert process.wait(60) == 0
    assert len(server.requests) == 1


@later
def test_unread_terminal_does_not_block_agent(console: Console) -> None:
    calls = (Call("Bash", {"command": "seq 20000; touch done"}),)
    server = console.serve([Turn(text=LONG, calls=calls), Turn(text=f"{LONG}\n\nlastword.")])
    logs = Path(console.environment["HOME"], ".local", "state", "sagent", "sessions")
    with raw_terminal(console, "--sandbox", "off", "--permission-mode", "full") as (_, terminal):
        os.write(terminal, b"go\r")  # and from here on nobody reads
        wait_until(lambda: any("lastword." in path.read_text() for path in logs.glob("*/*/root.jsonl")))
        assert (console.cwd / "done").exists()
        read_until(terminal, b"lastword.")
    assert len(server.requests) == 2


@pytest.mark.parametrize("moment", ("asking", "working", "suspended", "editing", "idle", "at once")[: deep(2, 6)])
def test_ends_with_its_terminal(console: Console, moment: str) -> None:
    console.forks = None
    console.environment["EDITOR"] = "sh -c 'echo edited; exec sleep 301.7'"
    command = {"asking": "touch x", "working": "echo begun; sleep 301.7"}.get(moment, "true")
    console.serve([Turn(calls=(Call("Bash", {"command": command}),)), Turn(text="Done.")])
    full = () if moment == "asking" else ("--permission-mode", "full")
    flags = ("--sandbox", "off", *full)
    ready = "" if moment == "at once" else "›"
    console.start(*flags, width=20, height=5, ready=ready, shell=moment == "suspended")
    pane = int(console.tmux("display-message", "-p", "#{pane_pid}"))
    below = wait_until(lambda: children(pane), "the start of the program")
    match moment:
        case "working" | "asking":
            console.type("go")
            if moment == "asking":  # and the line of figures is there once, though the question has all five rows
                assert console.until("y  s  a  e  ?  n", "Esc says no").count("no sandbox") == 0
            else:
                console.until("◌ Bash echo")
        case "editing":
            console.until("no sandbox")  # the keys that there are from the start know no editor
            console.keys("C-x", "C-e")
            console.until("edited")
        case "suspended":
            console.until("$0")
            console.keys("C-z")
            console.until("Stopped")
        case _:
            pass
    console.leave()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below))


@later
def test_typing_and_memory_during_flood(console: Console) -> None:
    size = deep(60, 100) * 1_000_000  # bytes
    flood = f"yes 'a line of the flood, which is rather long so that there are fewer of them' | head -c {size}"
    console.serve([Turn(calls=(Call("Bash", {"command": f"{flood}; sleep 1"}),)), Turn(text="That was a lot.")])
    console.start("--permission-mode", "full")
    before = memory(console)
    console.type("go")
    console.until("│ a line of the flood")
    console.keys("typed meanwhile")
    console.until("› typed meanwhile")
    console.until("That was a lot.", patience=60)
    assert memory(console) < before + 40
    console.keys("C-u")
    console.type(f"!{flood}")
    console.until("lines before, Ctrl-O shows them", patience=60)
    console.type("/quit")
    console.until("ended 0")


@pytest.mark.parametrize(
    "name", ["render_block", *(pytest.param(name, marks=slow) for name in ("render_piece", "reduce", "expand"))]
)
def test_failed_display_leaves_plain_text(console: Console, name: str) -> None:
    console.program = [sys.executable, "-c", BROKEN.format(package="sagent.repl.terminal", module="painter", name=name)]
    console.serve([Turn(text="The **first** answer.\n\nIts end.", calls=(Call("Bash", {"command": "echo x"}),)),
                   Turn(text="The second answer.")])  # fmt: skip
    console.start("--permission-mode", "full")
    console.type("hello")
    console.until("first", "second answer", gone="Esc interrupts")
    console.keys("C-o")
    console.type("/cost")
    console.until("tokens read")
    console.type("/quit")
    console.until("ended 0")


@pytest.mark.parametrize("name", ["render_panel", pytest.param("render_status", marks=slow)])
def test_failed_panel_fails_alone(console: Console, name: str) -> None:
    console.program = [sys.executable, "-c", BROKEN.format(package="sagent.repl", module="status", name=name)]
    console.serve([Turn(text="The first answer.", pieces=3, gap=0.05), Turn(text="The second answer.")])
    console.start(ready="›")
    console.type("hello")
    console.until("The first answer.")
    console.type("again")
    console.until("The second answer.")
    console.type("/quit")
    console.until("ended 0")


def test_failed_key_binding_is_told(console: Console) -> None:
    console.program = [
        sys.executable,
        "-c",
        BROKEN.format(package="sagent.repl", module="input", name="InputActions.expand"),
    ]
    console.serve([Turn(text="The first answer."), Turn(text="The second answer.")])
    console.start()
    console.type("hello")
    console.until("The first answer.")
    console.keys("C-o", "C-o")
    console.until("This is a bug in sagent", "ZeroDivisionError: a defect of")
    console.type("again")
    screen = console.until("The second answer.")
    assert screen.count("ZeroDivisionError") == 1
    console.type("/quit")
    console.until("ended 0")


@later
def test_forty_columns_and_resize_in_answer(console: Console) -> None:
    text = "".join(
        f"Word {number} stands in a sentence that is wrapped in a narrow terminal.\n\n" for number in range(40)
    )
    console.environment["NO_COLOR"] = "1"
    console.serve([Turn(text=text, pieces=20, gap=0.03), Turn(text="Done.")])
    console.start(width=40, height=16, ready="$0")
    console.type("hello")
    console.until("Word 3 stands")
    for width, height in (("60", "20"), ("40", "12"), ("100", "30"), ("40", "16")):
        console.tmux("resize-window", "-x", width, "-y", height)
        time.sleep(0.4)  # tmux tells of a second change a quarter of a second after the first at the earliest
    console.until("Word 39 stands", gone="Writing")

    def whole() -> bool:  # not while a frame is being drawn
        screen = console.screen.replace("\n", " ")
        return all(f"Word {number} stands" in screen for number in range(40))

    wait_until(whole, "every sentence to be there after the resizes")
    assert not re.search(r"\x1b\[(?:3[0-7]|9[0-7])m", console.tmux("capture-pane", "-p", "-e", "-S", "-2000"))
    console.type("again")
    screen = console.until("Done.")
    assert screen.count("› again") == 1


@later
def test_reply_at_output_limit_names_next_step(console: Console) -> None:
    console.serve([Turn(text="It begins, and", stop="max_tokens"), Turn(text="goes on.")])
    console.start("--max-response-tokens", "40")
    console.type("tell me")
    console.until("It begins, and", "its output limit of 40 tokens", "ask it to continue")
    console.type("go on")
    console.until("goes on.")


@later
def test_deleted_directory_keeps_session(console: Console) -> None:
    console.serve([Turn(text="Still here.")])
    console.start(width=200)  # the directory's name is on one row
    console.cwd.rmdir()
    console.type("!pwd")
    console.until("work: No such file", "exit 127")
    console.type("hello?")
    console.until("Still here.")
    console.keys("C-d")
    console.until("To continue:  sagent --session ", "ended 0")


@later
def test_session_in_use_offers_new(console: Console) -> None:
    console.serve([Turn(text="Here."), Turn(text="There.")])
    console.start()
    console.type("hello")
    console.until("Here.")
    console.keys("C-d")
    console.until("ended 0")
    console.leave()
    state = Path(console.environment["HOME"]) / ".local" / "state" / "sagent"
    with Session.open(latest(state, console.cwd)):
        console.start("--continue", ready="is in use by process")
        console.until("/new begins another")
        console.type("/new")
        console.until("This is a new session.", "│ $0")
        console.type("hello again")
        console.until("There.")


@later
def test_failed_turn_goes_on_by_a_key(console: Console) -> None:
    refused = Fail(401, message="invalid key")
    server = console.serve([refused, Turn(text="Hello."), refused, Turn(text="Other."), Turn(text="Third.")])
    console.start()
    console.type("hi")
    console.until("l /login anthropic", "r retry")
    console.keys("r")
    console.until("Hello.", gone="r retry")
    console.type("more")
    console.until("r retry")
    console.type("no, this")  # a message withdraws the question
    console.until("Other.", gone="r retry")
    console.type("/cost 0.0001")  # the first budget of this session
    console.until("of $0.0001")
    console.type("third")
    console.until("? Raise to $0.0", "y yes · n no")
    console.keys("y")
    console.until("Third.", "The budget is", gone="y yes")
    assert [str(one.json["messages"]).count("'third'") for one in server.requests] == [0, 0, 0, 0, 1]


@later
def test_farewell_names_what_was_not_saved(console: Console) -> None:
    console.serve([Turn(text="Kept."), Turn(text=" ".join(f"w{number}" for number in range(12_000)))])
    command = 'ulimit -f 64; exec "$0" -m sagent.bin.cli "$@"'  # no file may be larger
    console.program = ["bash", "-c", command, sys.executable]
    console.start()
    console.type("one")
    console.until("Kept.")
    console.type("two")
    console.until("The log cannot be written", "characters · Ctrl-O")
    console.type("/exit")
    console.until("The end of this session was not saved.", "sagent --resume ")
