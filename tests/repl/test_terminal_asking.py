"""A question from the model, in a real terminal: a list to choose from, or words."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from console import Console

pytestmark = pytest.mark.needs("tmux")

COLOURS = {"question": "Which **colour**?", "options": ["red", "green", "blue"]}


def ask(
    console: Console, *questions: dict[str, object], set_display: str = "screen", width: int = 90, height: int = 30
) -> None:
    """Have the model ask these."""
    console.program = [sys.executable, str(Path(__file__).with_name("asking.py")), set_display, json.dumps(questions)]
    console.start(ready="│ $0" if set_display == "screen" else ">", width=width, height=height)
    console.type("go")


def test_a_question_is_a_list_and_its_choice_the_answer(console: Console) -> None:
    ask(console, COLOURS)
    console.until("? The model asks", "Which colour?", "  1 red", "2 green", "answer ›")
    console.keys("Enter")  # nothing is selected yet
    console.keys("Down", "Down", "Enter")
    console.until("Told: green", "● AskUser Which **colour**? · green", gone="❯")


def test_a_number_chooses_and_words_are_an_answer_too(console: Console) -> None:
    ask(console, COLOURS, {"question": "How many?"})
    console.until("1 red")
    console.keys("3")
    console.until("How many?", "answer ›", gone="1 red")
    console.type("three or so")
    console.until("Told: blue | three or so")


def test_several_are_ticked(console: Console) -> None:
    ask(console, {**COLOURS, "multiple": True})
    console.until("  1 ☐ red")
    console.keys("Space")
    console.until("❯ 1 ☑ red")
    console.keys("3")
    console.until("❯ 3 ☑ blue")
    console.keys("Enter")
    console.until("Told: red", "blue", gone="☑")


def test_all_of_a_long_option_can_be_read(console: Console) -> None:
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


def test_a_question_can_be_left_and_what_was_being_typed_is_kept(console: Console) -> None:
    ask(console, COLOURS)
    console.until("1 red")
    console.keys("Escape")
    console.until("● AskUser Which ", "left unanswered", "Told: The person left the question unanswered")


def test_an_interruption_closes_the_question(console: Console) -> None:
    ask(console, COLOURS, COLOURS)
    console.until("1 red")
    console.keys("Escape")
    console.until("left unanswered", "1 red")
    console.keys("C-c")
    console.until("Told: ", gone="1 red")


def test_where_a_terminal_can_only_print_a_number_or_words_answer(console: Console) -> None:
    console.environment["TERM"] = "dumb"
    ask(console, COLOURS, {"question": "Why?"}, set_display="lines")
    console.until("2 green", "answer:")
    console.type("2")
    console.until("Why?\nanswer:")
    console.type("because")
    console.until("Told: green | because")


def test_neither_what_is_no_text_nor_an_end_within_a_question_keeps_what_can_only_print_waiting(tmp_path: Path) -> None:
    program = [sys.executable, str(Path(__file__).with_name("asking.py")), "lines", json.dumps([COLOURS])]
    done = subprocess.run(program, cwd=tmp_path, input=b"g\xff\n", capture_output=True, timeout=30, check=False)
    assert (done.returncode, b"2 green" in done.stdout) == (0, True), done.stderr


def test_where_a_terminal_can_only_print_ctrl_c_closes_a_list_and_ends_the_program_where_none_is(
    console: Console,
) -> None:
    console.environment["TERM"] = "dumb"
    console.program = [sys.executable, str(Path(__file__).with_name("asking.py")), "lines", "[]"]
    console.start(ready=">")
    console.type("/effort")
    console.until("number:")
    console.keys("C-c")
    console.type("/help")
    console.until("/effort", "/quit")
    console.keys("C-c")
    console.until("ended 130")
