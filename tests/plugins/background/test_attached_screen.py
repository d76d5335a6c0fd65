"""Background sessions in the REPL, in real terminals."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sagent.testing.server import Call, Turn
from tests.depth import later
from tests.plugins.background.conftest import Place
from tests.repl.console import Console, last_text
from tests.waiting import wait_until

pytestmark = pytest.mark.needs("tmux")
WRITE = Turn("I write.", calls=(Call("Write", {"file_path": "made.txt", "content": "one\n"}),))
MODEL = ("--model", "anthropic/claude-sonnet-4-6")


@pytest.fixture
def terminal(place: Place, tmp_path: Path) -> Iterator[Console]:
    """Return a terminal in the place of background sessions."""
    console = Console(tmp_path / "tmux", place.shell.cwd, place.shell.environment)
    yield console
    console.close()


@later
def test_attached_screen_answers_and_leaves(place: Place, terminal: Console) -> None:
    place.shell.serve([WRITE, Turn("All is **done**."), Turn("And more.")])
    session = place.start("--permission-mode", "ask", "please work")
    place.until(session, "asking")
    terminal.environment = place.shell.environment
    terminal.start("attach", ready="y once")
    shown = terminal.until("› please work", "I write.", "1 + one", "on process")
    assert "has no result" not in shown
    terminal.keys("y")
    terminal.until("All is done.")
    terminal.type("go on")
    terminal.until("And more.")
    terminal.type("/diff")
    terminal.until("/diff works only where the session runs: process")
    terminal.keys("C-d")
    terminal.until(f"To come back:  sagent attach {session}", "ended 0")
    assert place.until(session, "ended")["code"] == 0
    assert place.run("wait", session).out == "And more.\n"


@later
@pytest.mark.plugin("overview")
def test_repl_attaches_and_leaves(place: Place, terminal: Console) -> None:
    place.shell.serve([WRITE, Turn("All is done.")])
    session = place.start("--permission-mode", "ask", "please work")
    place.until(session, "asking")
    terminal.environment = place.shell.environment
    terminal.start(*MODEL, ready="/ commands")
    terminal.type(f"/attach {session[:-2]}")
    terminal.until("1 + one", "y once", "on process")
    terminal.type("/bg")
    terminal.until(f"{session} goes on", gone="on process")
    assert place.record(session)["state"] == "asking"
    terminal.type("/attach")
    terminal.until("asks   Write")
    terminal.keys("Enter")
    terminal.until("y once", "on process")
    terminal.keys("y")
    terminal.until("All is done.")
    terminal.keys("C-d")
    terminal.until("ended 0")
    assert place.until(session, "ended")["code"] == 0


@later
def test_turn_goes_on_in_the_background(place: Place, terminal: Console) -> None:
    place.shell.serve([WRITE, WRITE, Turn("All is done.")])
    terminal.environment = place.shell.environment
    terminal.start(*MODEL, "--permission-mode", "ask", ready="/ commands")
    terminal.type("please work")
    terminal.until("y once")
    terminal.type("/bg")
    terminal.until("To continue:", "ended 0")
    state = Path(place.shell.environment["HOME"]) / ".local/state/sagent/background"
    (path,) = wait_until(lambda: [*state.glob("*.json")])
    assert place.until(path.stem, "asking")["title"] == "please work"
    assert place.run("answer", path.stem, "y").code == 0
    assert place.run("wait", path.stem).out == "All is done.\n"
    assert os.listdir(place.shell.cwd) == ["made.txt"]


@later
@pytest.mark.plugin("plain")
def test_attached_in_plain_lines(place: Place, terminal: Console) -> None:
    place.shell.serve([WRITE, Turn("All is done.")])
    session = place.start("--permission-mode", "ask", "please work")
    place.until(session, "asking")
    terminal.environment = {**place.shell.environment, "SAGENT_PLAIN": "1"}
    terminal.start("attach", session, ready="or why not: ")
    terminal.type("y")
    terminal.until("All is done.", "End of turn")
    terminal.type("/quit")
    terminal.until(f"To come back:  sagent attach {session}", "ended 0")


@pytest.mark.plugin("overview")
def test_live_list_answers_and_stops(place: Place, terminal: Console) -> None:
    # each session asks, whichever is quicker; the one that is answered ends
    place.shell.serve(lambda request: Turn("All is done.") if "tool_result" in last_text(request) else WRITE)
    first = place.start("--permission-mode", "ask", "the first task")
    place.until(first, "asking")
    terminal.environment = place.shell.environment
    terminal.start(*MODEL, ready="/ commands")
    terminal.type("/sessions")
    terminal.until("the first task", "asks   Write", "1 of 1")
    second = place.start("--permission-mode", "ask", "the second task")
    place.until(second, "asking")  # as it will be when it is chosen
    terminal.until("the second task", "2 of 2")  # it came by itself
    terminal.keys("Up", "Up")  # the first one stays chosen while others come
    terminal.keys("Enter")
    terminal.until("wants to call Write", "y yes, once", "s stop it")
    assert place.run("answer", first, "n").code == 0
    terminal.keys("y")
    terminal.until(f"· {first}: ")  # somebody else was faster
    place.until(first, "ended")
    terminal.until("2 of 2", "done")
    terminal.keys("Enter")
    terminal.until("y yes, once")
    terminal.keys("s")
    place.until(second, "ended")
    # before that, Escape would end the wait for its process, or not yet be meant for the list
    terminal.until("2 of 2", "stopped", "Esc closes the list")
    terminal.keys("Escape")
    terminal.until(gone="2 of 2")


def test_key_takes_the_turn_away(place: Place, terminal: Console) -> None:
    place.shell.serve([WRITE, WRITE, Turn("All is done.")])
    terminal.environment = {**place.shell.environment, "SAGENT_KEYS": "/bg=ctrl-x ctrl-z"}
    terminal.start(*MODEL, "--permission-mode", "ask", ready="/ commands")
    terminal.keys("C-x", "C-z")
    terminal.until("Nothing is in progress")
    terminal.type("please work")
    terminal.until("y once")
    terminal.keys("C-\\")
    terminal.until("It goes on in the background", "ended 0")
    state = Path(place.shell.environment["HOME"]) / ".local/state/sagent/background"
    (path,) = wait_until(lambda: [*state.glob("*.json")])
    place.until(path.stem, "asking")
    terminal.start("attach", ready="y once")
    terminal.keys("C-\\")  # also while it asks
    terminal.until("To come back:", "ended 0")
    assert place.record(path.stem)["state"] == "asking"
