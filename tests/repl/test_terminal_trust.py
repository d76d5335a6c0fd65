"""A folder that wants to set the model: asked once, before a session is opened."""

import json
import shutil
from pathlib import Path

import pytest
from console import Console

from sagent.testing.server import Turn
from tests.depth import later
from tests.waiting import wait_until

pytestmark = pytest.mark.needs("tmux")
ASKED = "? Trust this folder?"


@pytest.fixture
def folder(console: Console) -> Path:
    """A project's file; the console's provider says which model a request is for."""
    console.serve(lambda request: Turn(text=f"I am {request.json['model']}."))
    del console.environment["SAGENT_MODEL"]
    file = console.cwd / ".sagent" / "config.toml"
    file.parent.mkdir()
    file.write_text('# ours\nmodel = "openai/gpt-5.5"\n')
    return file


def say(console: Console, answer: str) -> None:
    console.type("who are you?")
    console.until(answer)


@later
def test_trust_no_is_kept(console: Console, folder: Path) -> None:
    console.start(ready=ASKED)
    screen = console.until("n No", "s Yes, for this session", "a Yes, always")
    assert "model = openai/gpt-5.5  (line 2)" in screen
    assert str(folder) in "".join(line.strip() for line in screen.splitlines())
    console.keys("Enter")  # nothing is selected
    console.keys("n")
    console.until("to be asked again, delete", "│ $0", gone="n No")
    say(console, "I am claude")
    console.leave()
    console.start()
    assert ASKED not in console.screen
    say(console, "I am claude")
    console.type("/config model")
    console.until("you declined it")


@later
def test_trust_always_until_wish_changes(console: Console, folder: Path) -> None:
    console.start(ready=ASKED)
    console.until("a Yes, always")
    console.keys("a")
    console.until("to be asked again, delete", "gpt-5.5")
    say(console, "I am gpt-5.5.")
    console.leave()
    console.start()
    assert ASKED not in console.screen
    say(console, "I am gpt-5.5.")
    console.leave()
    folder.write_text('model = "openai/gpt-6"\n')
    console.start(ready=ASKED)
    console.until("openai/gpt-6", "n No")
    console.keys("Escape")
    console.until("│ $0", gone="n No")
    say(console, "I am claude")


def test_typed_draft_answers_no_trust_question(console: Console, folder: Path) -> None:
    console.start(ready=ASKED)
    console.type("say hello")
    console.until("say hello  ", "n No")
    console.keys("Escape")
    console.until("I am claude")
    state = Path(console.environment["HOME"]) / ".local" / "state" / "sagent"
    assert not (state / "trust").exists()


@later
def test_session_trust_is_not_kept(console: Console, folder: Path) -> None:
    state = Path(console.environment["HOME"]) / ".local" / "state"
    shutil.rmtree(state)
    state.write_text("a file")
    console.start(ready=ASKED)
    console.until("a Yes, always")
    console.keys("a")
    console.until("is for this session only", "gpt-5.5")
    say(console, "I am gpt-5.5.")
    console.leave()
    console.start(ready=ASKED)
    console.until("s Yes")
    console.keys("s")
    console.until("gpt-5.5 │", gone="n No")
    say(console, "I am gpt-5.5.")


def test_small_terminal_shows_whole_trust(console: Console, folder: Path) -> None:
    wanted = [f"{name}/{name[0] * 90}" for name in ("openai", "google")]
    folder.write_text(f'effort = "max"\nmodel = "openai/{"x" * 190}"\nfallback = {json.dumps(wanted)}\n')
    console.start(ready=ASKED, width=30, height=10)
    told = (f"model = openai/{'x' * 190}", ",".join(wanted), "effort = max", str(folder))
    for text in told:  # which lines it is broken into is another question
        wait_until(lambda text=text: text.replace(" ", "") in "".join(console.screen.split()), text)


@later
@pytest.mark.plugin("plain")
def test_print_only_terminal_asks_for_trust(console: Console, folder: Path) -> None:
    console.environment["TERM"] = "dumb"
    console.start(ready="wants to set:")
    console.until("1 or n: No", "2 or s: Yes, for this session", "Number")
    console.type("")
    console.until("\nYou> ")
    say(console, "I am claude")
    console.leave()
    console.start(ready="Number")
    console.type("2")
    console.until("\nYou> ")
    say(console, "I am gpt-5.5.")
