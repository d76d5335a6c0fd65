"""A question from the model, in a real terminal: a list to choose from, or words."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from console import Console

from tests.depth import later, slow

pytestmark = pytest.mark.needs("tmux")

COLOURS = {"question": "Which **colour**?", "options": ["red", "green", "blue"]}


def ask(
    console: Console, *questions: dict[str, object], set_display: str = "screen", width: int = 90, height: int = 30
) -> None:
    """Have the model ask these."""
    console.program = [sys.executable, str(Path(__file__).with_name("asking.py")), set_display, json.dumps(questions)]
    console.start(ready="│ $0" if set_display == "screen" else ">", width=width, height=height)
    console.type("go")


def test_question_list_choice_is_the_answer(console: Console) -> None:
    ask(console, COLOURS)
    console.until("? The model asks", "Which colour?", "  1 red", "2 green", "answer ›")
    console.keys("Enter")  # nothing is selected yet
    console.keys("Down", "Down", "Enter")
    console.until("Told: green", "● AskUser Which **colour**? · green", gone="❯")


def test_number_or_words_answer(console: Console) -> None:
    ask(console, COLOURS, {"question": "How many?"})
    console.until("1 red")
    console.keys("3")
    console.until("How many?", "answer ›", gone="1 red")
    console.type("three or so")
    console.until("Told: blue | three or so")


@slow
def test_several_are_ticked(console: Console) -> None:
    ask(console, {**COLOURS, "multiple": True})
    console.until("  1 ☐ red")
    console.keys("Space")
    console.until("❯ 1 ☑ red")
    console.keys("3")
    console.until("❯ 3 ☑ blue")
    console.keys("Enter")
    console.until("Told: red", "blue", gone="☑")


@slow
def test_long_option_can_be_read(console: Console) -> None:
    words = [" ".join(f"{name}{number}" for number in range(7)) for name in ("red", "green", "blue")]
    longest = " ".join(f"word{number:02}" for number in range(60))
    ask(console, {"question": "Which?", "options": [*words, longest], "multiple": True}, width=40, height=10)
    console.until("1 ☐ red0", "red6", "↓")
    for name in ("red", "green", "blue"):
        console.keys("Down")
        console.until("❯", *(f"{name}{number}" for number in range(7)))
    console.keys("Down")
    console.until("❯ 4 ☐ word00", "Ctrl-O")
    console.keys("C-o")
    console.until("Which?", *(f"word{number:02}" for number in range(60)))
    console.keys("Space")
    console.until("4 ☑ word00")
    console.keys("Enter")
    console.until("Told: word00", gone="☑")


def test_leaving_a_question_keeps_the_draft(console: Console) -> None:
    ask(console, COLOURS)
    console.until("1 red")
    console.keys("Escape")
    console.until("● AskUser Which ", "left unanswered", "Told: The person left the question unanswered")


def test_interruption_closes_question(console: Console) -> None:
    ask(console, COLOURS, COLOURS)
    console.until("1 red")
    console.keys("Escape")
    console.until("left unanswered", "1 red")
    console.keys("C-c")
    console.until("Told: ", gone="1 red")


@pytest.mark.plugin("plain")
def test_print_only_number_or_words_answer(console: Console) -> None:
    console.environment["TERM"] = "dumb"
    ask(console, COLOURS, {"question": "Why?"}, set_display="lines")
    console.until("2: green", "Answer with a number")
    console.type("2")
    console.until("Why?\nYour answer:")
    console.type("because")
    console.until("Told: green | because")


@later
@pytest.mark.plugin("plain")
def test_print_only_bad_bytes_and_eof_in_question(tmp_path: Path) -> None:
    program = [sys.executable, str(Path(__file__).with_name("asking.py")), "lines", json.dumps([COLOURS])]
    done = subprocess.run(program, cwd=tmp_path, input=b"g\xff\n", capture_output=True, timeout=60, check=False)
    assert (done.returncode, b"2: green" in done.stdout) == (0, True), done.stderr


@pytest.mark.plugin("plain")
def test_dumb_terminal_ctrl_c_closes_list(
    console: Console,
) -> None:
    console.environment["TERM"] = "dumb"
    console.program = [sys.executable, str(Path(__file__).with_name("asking.py")), "lines", "[]"]
    console.start(ready=">")
    console.type("/effort")
    console.until("Number")
    console.keys("C-c")
    console.type("/permissions")
    console.until("Mode edit")
    console.keys("C-c")
    console.until("Ctrl-C again quits.")
    console.keys("C-c")
    console.until("ended 130")
