"""The REPL in a terminal whose size changes: what was printed is there once, and nothing of what was drawn stays."""

import itertools
import re
import time
from contextlib import suppress

import pytest
from console import Console
from test_terminal_asking import ask

from sagent.testing.server import Call, Turn
from tests.depth import deep, later, slow
from tests.waiting import wait_until

pytestmark = pytest.mark.needs("tmux")

SENTENCES = [f"Word{number:02} stands in a sentence that is as wide as many a terminal is." for number in range(60)]
SIZES = [(width, height) for width in (60, 40, 100, 50) for height in (16, 30, 12, 24)]


def resize(console: Console, width: int, height: int) -> None:
    console.tmux("resize-window", "-x", str(width), "-y", str(height))


def counted(screen: str) -> dict[str, int]:
    """How often the words of each sentence that differ are to be seen, where it is not once."""
    words = [sentence.partition(" ")[0] for sentence in SENTENCES]
    return {word: count for word in words if (count := screen.count(word)) != 1}


@later
@pytest.mark.parametrize("between", ["\n\n", " ", "\n- "][: deep(1, 3)])
def test_events_during_resizes_shown_once(console: Console, between: str) -> None:
    text = between.join(SENTENCES)
    console.serve([Turn(text=text, pieces=60, gap=0.04), Turn(text="And that was it.")])
    console.start("--sandbox", "off", width=80, height=24)  # no notice about it comes between
    console.type("go")
    console.until("Word02 stands")
    sizes, end = itertools.cycle(SIZES), time.monotonic() + 240
    while SENTENCES[-1] not in re.sub(r"\s+", " ", screen := console.screen):
        assert time.monotonic() < end, f"the last sentence did not come to be seen:\n{screen}"
        resize(console, *next(sizes))
        time.sleep(0.06)
    resize(console, 80, 24)
    console.type("and?")
    console.until("And that was it.", gone="Esc interrupts")

    def shown() -> tuple[object, bool, list[int]]:
        screen = console.screen
        is_whole = re.sub(r"\W", "", text) in re.sub(r"\W", "", screen)
        return counted(screen), is_whole, [screen.count(text) for text in ("› ", "│ $0", "Writing")]

    with suppress(AssertionError):
        wait_until(lambda: shown() == ({}, True, [3, 1, 0]))  # not while a frame is drawn
    assert shown() == ({}, True, [3, 1, 0]), console.screen


@later
def test_paragraph_goes_on_at_new_width(console: Console) -> None:
    console.serve([Turn(text=" ".join(SENTENCES), pieces=60, gap=0.06)])
    console.start(width=50, height=16)
    console.type("go")
    for word, width in (("Word20", 100), ("Word40", 44)):
        console.until(word)
        resize(console, width, 16)
    console.until("Word59", gone="Writing")
    resize(console, 80, 24)
    assert counted(console.screen) == {}


GROWING = {  # rows with more and more words: a table, a list with inner items, code
    "table": ("| {0} | {1} | {2} {3} |", "| a | b | c |\n|---|---|---|\n{}"),
    "list": ("- {0} {1} {2}\n  - {3}", "{}"),
    "code": ("if {0}:\n    {1} {2} {3}", "```python\n{}\n```"),
}


@later
@pytest.mark.parametrize("sizes", [((80, 24), (50, 20)), ((110, 40), (40, 10)), ((40, 10), (80, 24))])
@pytest.mark.parametrize("kind", GROWING)
def test_resize_within_block_keeps_each_word(console: Console, kind: str, sizes: tuple[tuple[int, int], ...]) -> None:
    row, whole = GROWING[kind]
    numbers = (f"w{number}" for number in itertools.count(100))
    rows = [
        row.format(*(" ".join(itertools.islice(numbers, count)) for count in (1, at % 9, 2, 1))) for at in range(40)
    ]
    console.serve([Turn(text=f"Before.\n\n{whole.format(chr(10).join(rows))}\n\nAfter.", pieces=90, gap=0.02)])
    console.start(width=sizes[0][0], height=sizes[0][1])
    console.type("go")
    console.until("w115")
    resize(console, *sizes[1])
    console.until("After.", gone="Writing")
    found = re.findall(r"w\d{3}", console.tmux("capture-pane", "-p", "-J", "-S", "-3000"))
    assert sorted(found) == sorted(re.findall(r"w\d{3}", "".join(rows)))
    assert found == re.findall(r"w\d{3}", "".join(rows)) or kind == "table"  # whose cells have lines


def test_resize_leaves_nothing_of_question(console: Console) -> None:
    question = "\n\n".join(f"Line {number} of what is to be known before this can be answered." for number in range(9))
    ask(console, {"question": question, "options": ["red", "green", "blue"]}, width=80, height=24)
    console.until("Line 0 of", "1 red")
    for _ in range(2):
        for width, height in ((50, 14), (80, 24)):
            resize(console, width, height)
            time.sleep(0.5)
        console.until("Line 0 of", "1 red", once="? The model asks")
    console.keys("2")
    screen = console.until("Told: green", gone="1 red")
    assert screen.count("› go") == 1
    assert screen.count("? The model asks") == 0


@later
@pytest.mark.parametrize("low", [(40, 12), pytest.param((80, 9), marks=slow)])
def test_answered_question_gone_after_growth(console: Console, low: tuple[int, int]) -> None:
    question = "\n\n".join(f"Line {number} of what is to be known before this can be answered." for number in range(6))
    asked = Call("AskUser", {"question": question, "options": ["red", "green", "blue"]})
    answer = Turn(text="\n\n".join(SENTENCES[:3]), pieces=20, gap=0.02)  # rows are drawn before they are final
    console.serve([Turn(calls=(asked,)), answer, Turn(text="And more.")])
    console.start("--sandbox", "off", width=80, height=24)
    console.type("go")
    console.until("Line 0 of", "1 red")
    resize(console, *low)
    time.sleep(1)
    console.keys("Tab")
    console.until("answer ›")
    console.keys("2")
    screen = console.until("● AskUser", "Word02 stands", gone="Esc interrupts")
    assert "Line 1 of" in screen  # beyond the edge, where nothing can be written
    resize(console, 80, 24)
    console.until("Word02 stands", gone="Line 1 of")
    console.type("next")
    screen = console.until("And more.", gone="Esc interrupts")
    assert "? The model asks" not in screen
    once = ("› go", "● AskUser", "Word00", "Word01", "Word02", "› next", "mode edit", "│ $0")
    assert [screen.count(text) for text in once] == [1] * len(once)


@pytest.mark.parametrize(("lines", "narrow"), [(1, (40, 24)), pytest.param(6, (20, 6), marks=slow)])
def test_longer_row_leaves_nothing_after_resize(console: Console, lines: int, narrow: tuple[int, int]) -> None:
    question = "\n\n".join(f"Line {number} of what is to be known." for number in range(lines))
    ask(console, {"question": question, "options": ["red", "green"]}, width=80, height=24)
    console.until("1 red", gone="stopped typing")  # which was in its place
    for width, height in (narrow, (80, 24)):
        resize(console, width, height)
        time.sleep(0.8)
    rows = console.until("? The model asks", "2 green").splitlines()
    below = rows.index("› go") + 1
    assert [row[:9] for row in rows[below : below + 4]] == ["", "◌ AskUser", "◌ Waiting", ""]
    assert "\n".join(rows).count("◌ AskUser") == 1


@slow
def test_question_takes_keys_after_resize(console: Console) -> None:
    console.serve([Turn(calls=(Call("Bash", {"command": "make deploy"}),))])
    console.start("--sandbox", "off", width=80, height=24)
    console.type("go")
    console.until("y once")
    resize(console, 60, 20)
    console.until("(", gone="y once")
    console.until("y once")
