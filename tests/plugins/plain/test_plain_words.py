"""Events in words, and what is in progress."""

import asyncio
import itertools
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.events import ReplyFinished, Retrying, TextDelta, ToolFinished
from sagent.lib.json import json_freeze_object
from sagent.messages import Text, ToolCall, ToolResult, assistant
from sagent.plugins.plain.paper import Paper
from sagent.plugins.plain.terminal import LineTerminal
from sagent.plugins.plain.words import approval_text, block_text, call_text, option_texts, retry_text, working_text
from sagent.policy import Ask
from sagent.repl.terminal.approval import approval_options
from sagent.repl.view.blocks import Report
from sagent.repl.view.markdown import pieces_of
from sagent.repl.view.view import Child, Running, View
from sagent.usage import Usage

DIFF = "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n same\n-old = 1\n+new = 1\n"
SIGNS = set("●○◌✗✓│┃╭╮╰╯─┼▎•›…·↳✻")


def bash(text: str, *, summary: str = "exit 0", failed: bool = False, diff: str = "") -> ToolFinished:
    call = ToolCall("c", "Bash", json_freeze_object({"command": "make all"}))
    return ToolFinished("root", call, ToolResult("c", (Text(text),), failed), 2.0, summary, diff)


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (bash("one\ntwo"), "Bash make all: exit 0 (2.0 s)\n  one\n  two"),
        (bash("one", summary="exit 2", failed=True), "Bash make all failed: exit 2 (2.0 s)\n  one"),
        (bash("not now", summary="was denied", failed=True), "Bash make all was denied: not now (2.0 s)"),
        (
            bash("", diff=DIFF),
            "Bash make all: 1 line added, 1 removed (2.0 s)\n  1: same\n  2 removed: old = 1\n  2 added: new = 1",
        ),
        (Report("It broke.", "error"), "Error: It broke."),
    ],
)
def test_blocks_are_told_in_words(block: ToolFinished | Report, said: str) -> None:
    assert block_text(block) == said


def test_long_output_can_be_shown_whole() -> None:
    block = bash("\n".join(f"w{number}" for number in range(40)))
    assert "w39" in call_text(block)
    assert "w0\n" not in call_text(block)
    assert "30 more lines: /show" in call_text(block)
    assert "w0\n" in call_text(block, whole=True)


def test_endless_line_is_cut() -> None:
    text = call_text(bash("x" * 30_000))
    assert len(text) < 1_200
    assert "29,002 more characters: /show" in text
    assert "x" * 30_000 in call_text(bash("x" * 30_000), whole=True)


@given(
    st.text("ab \n\t\x1b\r", max_size=600),
    st.lists(st.integers(0, 600), max_size=9),
    st.lists(st.integers(0, 9), max_size=3),
)
def test_answer_streams_whole_and_harmless(text: str, cuts: list[int], notices: list[int]) -> None:
    sent = list[str]()

    async def stream() -> None:
        terminal = LineTerminal(sent.append, bool)
        terminal.send = lambda text: sent.append(text)
        paper = Paper(terminal)
        places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
        for number, (start, end) in enumerate(itertools.pairwise(places)):
            paper.show(TextDelta("root", text[start:end]))
            if number in notices:
                terminal.write("NOTICE")
        paper.show(ReplyFinished("root", assistant(text or "a"), Usage(), None))

    asyncio.run(stream())
    written = "".join(sent)
    assert "\x1b" not in written
    assert "\r" not in written
    assert re.sub(r"[^ab]", "", written) == re.sub(r"[^ab]", "", text)
    assert all(line == "NOTICE" for line in written.split("\n") if "NOTICE" in line)


def test_question_has_change_and_choices_in_words(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("same\nold = 1\n")
    edit = json_freeze_object({"file_path": "x.py", "old_string": "old = 1", "new_string": "new = 1"})
    text = approval_text(ToolCall("c", "Edit", edit), Ask("root", "why"), lambda _: "same\nold = 1\n")
    choices = list(option_texts(approval_options(["Edit(x.py)"]), keys=True))
    assert "Edit x.py?" in text.split("\n")[0]
    assert "  2 removed: old = 1\n  2 added: new = 1" in text
    assert [choice.split(":")[0].strip() for choice in choices] == ["y", "s", "a", "n"]
    assert SIGNS.isdisjoint(text + "".join(choices))
    assert all(line == line.rstrip() for line in text.split("\n"))


def test_wait_and_work_in_progress_are_told() -> None:
    wait = retry_text(Retrying("root", "Rate limited", "rate_limit", 1, 42.0, ""))
    assert wait == "Rate limited. Trying again in 42 s, attempt 2; /stop stops."
    call = ToolCall("c", "Bash", json_freeze_object({"command": "make"}))
    view = View(since=0.0, running={"c": Running("root", call, 10.0, "one\ntwo\n")})
    assert working_text(view, 30.0) == "Bash make has been running for 20 s; its last output: two."
    child = View(since=0.0, children={"root/a": Child("root/a", 0.0, doing="writing")})
    assert working_text(child, 9.0) == "root/a is working: writing."
    assert "has not answered yet, 12 s" in working_text(View(since=0.0), 12.0)
    assert not working_text(View(), 12.0)


def test_earlier_answer_keeps_its_source() -> None:
    source = "# Head\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> said"
    assert "\n".join(map(block_text, pieces_of(source))) == source
