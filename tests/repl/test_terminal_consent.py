"""Whoever types consents to nothing by it: drafts, pastes, notes and answers, in a real terminal."""

import os
import signal
import time
from pathlib import Path

import pytest
from console import Console, last_text
from samples import PNG

from sagent.repl.terminal.questions import QUIET_SECONDS
from sagent.testing.server import Call, ErrorEvent, Received, Stall, Step, Turn
from tests.depth import later, slow
from tests.waiting import stop, wait_until

pytestmark = pytest.mark.needs("tmux")


def paste(console: Console, text: str) -> None:
    """Paste, as a terminal marks it."""
    console.tmux("set-buffer", text)
    console.tmux("paste-buffer", "-p")


@later
def test_typing_for_other_things_answers_nothing(console: Console) -> None:
    turns = [Turn(calls=(Call("Bash", {"command": "touch a.txt"}),)), Turn(text="Understood."), Turn(text="Hello.")]
    server = console.serve(turns)
    console.start("--sandbox", "off")
    console.tmux("send-keys", "-l", "go")
    console.keys("Enter")
    console.tmux("send-keys", "-l", "name it b")
    console.until("? Run this command?", "› name it b", "Tab: answer this", "Esc interrupts")
    console.keys("Enter")
    console.until("sent, not read yet", "y once")
    paste(console, "y")
    console.until("› y", "Tab: answer this", gone="y once")
    console.keys("BSpace")
    console.until("y once")
    console.keys("Enter")
    console.keys("n")
    console.until("? No to Bash touch a.txt", "Why not?")
    console.keys("Escape")
    console.until("Understood.", gone="Esc interrupts")
    assert not (console.cwd / "a.txt").exists()
    told = str(server.requests[1].json["messages"])
    assert "The person said no." in told
    assert "name it b" in told
    console.type("hello")
    console.until("Hello.")
    assert "hello" in last_text(server.requests[2])


@later
def test_pastes_stay_text_and_note_is_confirmed(console: Console, tmp_path: Path) -> None:
    (tmp_path / "a shot.png").write_bytes(PNG)
    server = console.serve(lambda request: Turn(text=f"Read {len(server.requests)}."))
    console.start()
    paste(console, "# a heading")
    console.until("› # a heading")
    console.keys("Enter")
    console.until("Read 1.")
    assert "# a heading" in last_text(server.requests[0])
    paste(console, "!touch pasted\n/quit")
    console.until("/quit")
    console.keys("Enter")
    console.until("Read 2.")
    console.keys("Up")  # neither is it a command when it is recalled
    console.until("›  !touch pasted")
    console.keys("Enter")
    console.until("Read 3.")
    assert not (console.cwd / "pasted").exists()
    paste(console, "word " * 500)
    console.until("› [Pasted text #1]")
    console.keys("BSpace")
    console.until("› ", gone="[Pasted")
    paste(console, f"'{tmp_path}/a shot.png'")
    console.until("› [Image #2]")
    console.type("see @typo")
    console.until("Read 4.", "@typo is not a file here")
    assert "image/png" in last_text(server.requests[3])
    assert "word" not in last_text(server.requests[3])
    console.type("#slow tests")
    console.until("? Write into AGENTS.md, for every session to come: slow tests", "y Yes, write it there")
    console.keys("n")
    console.until("› #slow tests", gone="y Yes, write it there")
    assert not (console.cwd / "AGENTS.md").exists()


@later
def test_interrupted_turn_returns_unread_message(console: Console) -> None:
    def step(request: Received) -> Step:
        if "start" in last_text(request):
            return Stall(Turn(text="word " * 20, pieces=10), after_events=8)
        return Turn(text="Read on.")

    server = console.serve(step)
    console.start()
    console.type("start")
    console.until("word word")
    console.type("and then this")
    console.until("sent, not read yet")
    console.tmux("send-keys", "-l", "draft")
    console.until("› draft")
    console.keys("Escape")
    console.until("Interrupted.", "› and then this", "  draft", gone="sent, not read yet")
    console.keys("C-c")
    console.until("Interrupted.", gone="draft")
    console.type("go on")
    console.until("Read on.")
    assert "and then this" not in str(server.requests[-1].json["messages"])
    console.type("/quit")
    console.until("ended 0")
    console.leave()
    console.start("--continue")
    console.type("once more")
    console.until("› once more", "Read on.")
    assert "and then this" not in str(server.requests[-1].json["messages"])


@later
def test_stray_keys_answer_nothing(console: Console) -> None:
    words = [
        Turn(text="Before."),
        Turn(text="w " * 12, pieces=12, gap=0.05, calls=(Call("Bash", {"command": "touch a"}),)),
    ]
    server = console.serve([*words, Turn(text="Understood.")])
    console.start("--sandbox", "off", width=60, height=16)
    console.type("make it")
    console.until("Before.")
    console.type("go")
    console.until("w w w")
    console.keys("C-r")
    console.tmux("send-keys", "-l", "mak")
    console.until("? Run this command?", "search: mak")
    console.tmux("send-keys", "-l", "e")
    console.until("search: make", "when you have stopped typing")
    console.keys("C-c")
    console.until("y once")
    console.keys("Up", "Up", "Enter")  # an earlier message again
    console.until("❯? explain")
    console.keys("y", "C-e")
    console.until("› y", "Tab: answer this")
    console.keys("BSpace")
    console.until(" y once")
    console.keys("n")
    console.until("Why not?")
    paste(console, "not this\n" * 20)
    console.until("Why not? [Pasted text #1")
    console.keys("Enter")
    console.until("Understood.")
    assert not (console.cwd / "a").exists()
    assert last_text(server.requests[-1]).count("not this") == 20


@later
def test_failed_run_returns_unread_words(console: Console) -> None:
    failing = ErrorEvent(Turn(text="Let me see. " * 40, gap=0.15), 18, "invalid_request_error")
    server = console.serve([failing, Turn(text="Fine.")])
    console.start()
    console.type("look at this")
    console.until("Let me see.")
    console.type("and mind the tests")
    console.until("sent, not read yet")
    console.until("› and mind the tests", gone="sent, not read yet")
    console.keys("Enter")
    console.until("Fine.")
    assert "and mind the tests" in last_text(server.requests[-1])


@later
@pytest.mark.parametrize("taking", [True, pytest.param(False, marks=slow)])
def test_keys_to_stopped_process_answer_nothing(console: Console, *, taking: bool) -> None:
    console.serve([Turn(calls=(Call("Bash", {"command": "touch a.txt"}),)), Turn(text="Done.")])
    console.start("--sandbox", "off")
    console.type("go")
    console.until("y once" if taking else "? Run this command?")
    for keys in ("", "y"):
        stop(console.process)
        time.sleep(2 * QUIET_SECONDS)
        console.tmux("send-keys", "-l", keys)
        os.kill(console.process, signal.SIGCONT)
        if not keys:
            console.until("when you have stopped typing", gone="y once")
            console.until("y once")
    console.until("› y", "Tab: answer this", gone="y once")
    assert not (console.cwd / "a.txt").exists()
    console.keys("BSpace")
    console.until("y once")
    console.keys("y")
    console.until("Done.")
    assert (console.cwd / "a.txt").exists()


@pytest.mark.plugin("branches")
@slow
def test_question_takes_keys_again_when_idle(console: Console) -> None:
    server = console.serve(
        [Turn(calls=(Call("Write", {"file_path": "a.txt", "content": "a"}),)), Turn(text="Written.")]
    )
    console.start()
    console.type("go")
    console.until("Written.")
    console.type("/diff a.txt")
    console.until("? a.txt", "b Back")
    console.keys("x")  # no choice: the beginning of a message
    console.until("› x", "Tab: answer this", gone="b Back")
    console.keys("BSpace")
    console.until("b Back", gone="Tab: answer this")
    console.keys("Escape")
    console.until("› ", gone="? a.txt")
    assert len(server.requests) == 2  # no key became a message


@later
def test_returned_words_join_draft_in_editor(console: Console, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text(
        f'#!/bin/sh\necho waiting; while ! [ -e {tmp_path}/go ]; do sleep 0.05; done; echo " it" >> "$1"\n'
    )
    editor.chmod(0o755)
    console.environment["EDITOR"] = str(editor)
    failing = ErrorEvent(Turn(text="Let me see. " * 40, gap=0.15), 18, "invalid_request_error")
    server = console.serve([failing])
    console.start()
    console.type("look at this")
    console.until("Let me see.")
    console.type("and mind the tests")
    console.until("sent, not read yet")
    console.tmux("send-keys", "-l", "draft")
    console.keys("C-x", "C-e")
    console.until("waiting")
    logs = console.cwd.parent / "home"
    wait_until(lambda: any('"kind":"failed"' in log.read_text() for log in logs.rglob("root.jsonl")), "the run to fail")
    (tmp_path / "go").touch()
    console.until("› and mind the tests", "draft it", gone="sent, not read yet")
    assert len(server.requests) == 1  # neither was sent


def test_ctrl_c_ends_only_the_editor(console: Console) -> None:
    console.environment["EDITOR"] = "sh -c 'echo waiting; exec sleep 300'"
    server = console.serve([Turn(text="Read.")])
    console.start()
    console.tmux("send-keys", "-l", "draft")
    console.keys("C-x", "C-e")
    console.until("waiting")
    console.keys("C-c")
    console.until("› draft")
    console.keys("Enter")
    console.until("Read.")
    assert "draft" in last_text(server.requests[0])
