"""The whole, in a real terminal: keys go in, and what a person sees comes out."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from console import Console, last_text

from sagent.testing.server import Call, Cut, Stall, Turn
from tests.depth import later, slow
from tests.waiting import wait_until

pytestmark = pytest.mark.needs("tmux")

LONG = "".join(f"Paragraph {number} has some words in it.\n\n" for number in range(60))


def test_answer_streams_while_typing(console: Console) -> None:
    console.serve([Turn(text=LONG, pieces=20, gap=0.005), Turn(text="The second answer.")])
    console.start()
    console.type("hello")
    console.until("Paragraph 2 has", "Writing")
    console.keys("typed meanwhile")
    screen = console.until("Paragraph 59 has", "› typed meanwhile", gone="Writing")
    assert [screen.count(f"Paragraph {number} has") for number in range(60)] == [1] * 60
    console.keys("C-u")
    console.type("again")
    screen = console.until("The second answer.")
    assert screen.count("› hello") == screen.count("› again") == 1


@later
def test_message_read_during_command(console: Console) -> None:
    server = console.serve(
        [
            Turn(calls=(Call("Bash", {"command": "sleep 30"}),)),
            Turn(text="I read you."),
            Turn(text="It was stopped."),
        ]
    )
    console.start("--permission-mode", "full")
    console.type("run it")
    console.until("◌ Bash sleep 30")
    console.type("never mind")
    console.until("I read you.", "goes on as job")
    assert "never mind" in last_text(server.requests[1])
    console.keys("Escape")
    console.until("Interrupted.")


@later
def test_queued_message_can_be_taken_back(console: Console) -> None:
    server = console.serve(
        [
            Turn(calls=(Call("Bash", {"command": "sleep 2"}),)),
            Turn(text="First is done."),
            Turn(text="Second is done."),
        ]
    )
    console.start("--permission-mode", "full")
    console.type("first")
    console.until("◌ Bash")
    console.keys("sekond", "Tab")
    console.until("▸ sekond", "when idle")
    console.keys("Up")
    console.until("› sekond", gone="▸")
    console.keys("C-u", "second", "Tab")
    console.until("▸ second")
    screen = console.until("Second is done.", gone="▸")
    assert screen.index("First is done.") < screen.index("› second") < screen.index("Second is done.")
    assert len(server.requests) == 3


def test_escape_keeps_streamed_text(console: Console) -> None:
    console.serve([Turn(text=LONG, pieces=20, gap=0.02), Turn(text="Fine.")])
    console.start()
    console.type("go")
    console.until("Paragraph 1 has")
    console.keys("Escape")
    screen = console.until("Interrupted.", gone="Writing")
    assert "Paragraph 1 has" in screen
    console.type("go on")
    console.until("Fine.")


@later
def test_ctrl_b_moves_command_behind(console: Console) -> None:
    console.serve(
        [Turn(calls=(Call("Bash", {"command": "sleep 1; echo slept"}),)), Turn(text="Ok."), Turn(text="Woke up.")]
    )
    console.start("--permission-mode", "full")
    console.type("go")
    console.until("◌ Bash")
    console.keys("C-b")
    console.until("goes on as job", "Ok.")
    console.until("Woke up.")


def test_approvals_once_no_and_always(console: Console) -> None:
    def call(name: str) -> Turn:
        return Turn(calls=(Call("Bash", {"command": f"touch {name}.txt"}, id=f"call_{name}"),))

    server = console.serve([call("a"), call("b"), call("c"), call("c"), Turn(text="All told.")])
    console.start("--sandbox", "off")
    console.type("go")
    console.until("touch a.txt", "y once")
    console.keys("y")
    console.until("touch b.txt", "y once")
    assert (console.cwd / "a.txt").exists()
    console.keys("n")
    console.until("Why not?")
    console.type("wrong name")
    console.until("touch c.txt", "y once")
    assert "wrong name" in last_text(server.requests[2])
    assert not (console.cwd / "b.txt").exists()
    console.keys("a")
    screen = console.until("All told.", "is allowed from now on")
    config = Path(console.environment["HOME"]) / ".config" / "sagent" / "config.toml"
    assert "Bash(touch c.txt" in config.read_text()
    assert screen.count("wrong name") == 1
    assert "✗ Bash touch b.txt · was denied" in screen


@later
def test_message_letters_allow_nothing(console: Console) -> None:
    server = console.serve([Turn(calls=(Call("Bash", {"command": "touch a.txt"}),)), Turn(text="Understood.")])
    console.start("--sandbox", "off")
    console.type("go")
    console.until("y once")
    console.type("yes but call it b.txt")
    console.until("sent, not read yet", "n no, because …")
    console.keys("n")
    console.until("Why not?")
    console.keys("C-d")  # which closes what is open, and quits where nothing is
    console.until("Understood.")
    assert not (console.cwd / "a.txt").exists()
    assert "yes but call it b.txt" in str(server.requests[1].json["messages"])
    assert "said no: yes" not in str(server.requests[1].json["messages"])  # a message is not the reason


@later
@pytest.mark.plugin("branches")
def test_switch_provider_and_fork(console: Console) -> None:
    server = console.serve([Turn(text="One."), Turn(text="Two."), Turn(text="Three."), Turn(text="Four.")])
    console.start()
    console.type("first")
    console.until("One.")
    console.type("/model openai/gpt-5.5")
    console.until("model openai/gpt-5.5")
    console.type("second")
    console.until("Two.")
    console.type("/fork")  # by the settings it is with the first model
    screen = console.until("a copy of this session.", "original: /resume", "gpt-5.5 │")
    assert screen.count("One.") == screen.count("Two.") == 1  # they are on the screen already
    console.type("third")
    console.until("Three.")
    console.type("/model anthropic/claude-sonnet-4-6")
    console.until("model anthropic/claude-sonnet-4-6")
    console.type("fourth")
    console.until("Four.")
    assert [request.family for request in server.requests] == ["anthropic", "responses", "responses", "anthropic"]
    console.type("/model openai/gpt-5.5")
    console.until("gpt-5.5 │")
    console.keys("C-d")
    console.until("To continue:  sagent --resume ")
    console.leave()
    del console.environment["SAGENT_MODEL"]
    console.start("--continue", ready="gpt-5.5 │")  # which has not answered since, and was chosen


@pytest.mark.plugin("overview")
def test_quit_and_resume(console: Console) -> None:
    console.serve([Turn(text="The **first** answer."), Turn(text="Still here.")])
    console.start()
    console.type("remember me")
    console.until("The first answer.")
    console.keys("C-d")
    screen = console.until("To continue:  sagent --resume ", "ended 0")
    cost = screen.rpartition("Session ")[2].split("\n")[0].split(", ")[1]
    assert cost.startswith("$0.00")
    console.leave()
    console.start("--resume", ready="Which session?")
    console.until("❯ remember me", "said   The **first** answer.", "1 of 1")
    console.tmux("send-keys", "-l", "first xy")
    console.until("0 of 1")
    console.keys("BSpace", "BSpace", "BSpace", "C-u")
    console.tmux("send-keys", "-l", "first ans")
    console.until("found  The **first** answer.")
    console.keys("Enter")
    console.until("› remember me", "The first answer.", "Session resumed.", f"│ {cost}")
    console.type("/earlier 1")
    assert console.until("Those were the last 1 of 2 messages.").count("The first answer.") == 2
    console.type("and now?")
    console.until("Still here.")


@later
def test_quit_in_answer_bills_the_part(console: Console) -> None:
    console.serve([Stall(Turn(text="word " * 40), after_events=6, seconds=60.0)])
    console.start("--max-budget-usd", "1")
    console.type("go")
    console.until("word word")
    console.keys("C-d")
    screen = console.until("Session ", "ended 0")
    unbilled = screen.rpartition("Session ")[2].split("+$")[1].partition("?")[0]
    assert 0 < float(unbilled) < 0.1  # and not all that was reserved, half a dollar


@later
def test_broken_reply_is_retried(console: Console) -> None:
    console.serve([Cut(Turn(text="Half of it\n\nis here", pieces=4), after_events=6), Turn(text="Whole.")])
    console.start()
    console.type("go")
    console.until("The reply starts again", "Whole.")


@later
def test_failed_provider_leaves_session_usable(console: Console) -> None:
    broken = [Cut(Turn(text="Half of it\n\nis here", pieces=4), after_events=6)] * 2
    console.serve([*broken, Turn(text="Back again.")])
    console.environment["SAGENT_MAX_RETRIES"] = "1"
    console.start()
    console.type("go")
    console.until("The reply starts again", "✗ ", gone="Esc interrupts")
    console.type("and now?")
    console.until("Back again.")


@later
def test_long_expansion_goes_to_pager(console: Console) -> None:
    console.environment["PAGER"] = "wc -l"
    console.serve([Turn(text="Yes.")])
    console.start()
    console.type("!seq 1000")
    console.until("940 lines before")
    console.keys("C-o")
    console.until("1001")
    console.type("hello")
    assert console.until("Yes.").count("seq 1000") == 1


@later
@pytest.mark.plugin("setup")
def test_theme_changes_while_running(console: Console) -> None:
    console.serve([Turn(text="One."), Turn(text="Two.")])
    console.start()
    console.type("hello")
    console.until("One.")
    console.type("/theme light")
    console.until("› /theme light")
    console.tmux("resize-window", "-x", "44", "-y", "30")
    console.type("again")
    screen = console.until("Two.")
    assert screen.count("One.") == 1
    assert "starting" not in screen
    console.type("/theme pink")
    console.until("There is no theme 'pink'")


@later
def test_output_flood_is_bounded(console: Console) -> None:
    flood = "yes 'a line of the flood' | head -c 100000000"
    console.serve([Turn(calls=(Call("Bash", {"command": flood}),)), Turn(text="That was a lot.")])
    console.start("--permission-mode", "full")
    console.type("go")
    console.until("That was a lot.", patience=60)
    console.type("/quit")
    console.until("ended 0")


@later
@pytest.mark.parametrize("theme", ["auto", pytest.param("dark", marks=slow)])
def test_resize_keeps_one_prompt_and_lines(console: Console, theme: str) -> None:
    console.environment["SAGENT_THEME"] = theme
    console.serve([Turn(text=LONG[:400])])
    console.start(width=100)
    console.type("hello")
    console.until("Paragraph 5 has", gone="Writing")
    for width in ("44", "120", "60"):
        console.tmux("resize-window", "-x", width, "-y", "30")
        time.sleep(0.2)
    console.keys("x")
    screen = console.until("› x")
    assert screen.count("› ") == 2  # what was said, and the input
    assert all(f"Paragraph {number} has" in screen for number in range(6))


@later
def test_megabyte_paste_is_sent_whole(console: Console, tmp_path: Path) -> None:
    server = console.serve([Turn(text="Read.")])
    console.start()
    text = "".join(f"line {number} of it\n" for number in range(60_000))
    (tmp_path / "paste").write_text(text)
    console.tmux("load-buffer", str(tmp_path / "paste"))
    console.tmux("paste-buffer", "-p")
    console.until("[Pasted text #1, 60000 lines]")
    console.keys("Enter")
    console.until("Read.")
    assert "line 59999 of it" in last_text(server.requests[0])


def test_file_completion_attaches(console: Console) -> None:
    server = console.serve([Turn(text="Seen.")])
    (console.cwd / "notes").mkdir()
    (console.cwd / "notes" / "plan.txt").write_text("the secret is 42")
    console.start()
    console.keys("look at @pla")
    console.until("notes/plan.txt")
    console.keys("Tab", "Space", "Enter")
    console.until("Seen.", "[1 attachment]")
    assert "the secret is 42" in last_text(server.requests[0])


def test_shell_line_is_run_and_shared(console: Console) -> None:
    server = console.serve([Turn(text="I saw it."), Turn(text="And that.")])
    console.start()
    console.type("!echo from the shell; printf '10%%\\r20%%\\n'; sleep 0.5")
    console.until("◌ ! echo", "│ 20%")
    console.until("│ from the shell", gone="◌ !")
    console.type("what was that?")
    screen = console.until("I saw it.")
    assert screen.count("│ from the shell") == 1
    assert "10%\n" not in screen
    assert "from the shell" in str(server.requests[0].json["messages"])
    console.type("!echo has begun; sleep 60")
    console.until("│ has begun", "◌ !")
    console.keys("Escape")
    console.until("! echo has begun", "│ has begun", "exit 130", gone="◌ !")
    console.type("and this?")
    console.until("And that.")
    assert "(exit 130):\\nhas begun" in str(server.requests[1].json["messages"])


@later
@pytest.mark.plugin("setup")
def test_line_edited_in_editor_and_vi(console: Console, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\necho 'from the editor' > \"$1\"\n")
    editor.chmod(0o755)
    console.environment["EDITOR"] = str(editor)
    server = console.serve([Turn(text="One."), Turn(text="Two."), Turn(text="Three.")])
    console.start()
    console.keys("C-x", "C-e")
    console.until("› from the editor")
    console.keys("Enter")
    console.until("One.")
    console.keys("C-r")
    console.tmux("send-keys", "-l", "the edi")
    console.until("search: the edi", "Esc leaves the search")
    console.keys("Enter", "Enter")
    console.until("Two.")
    console.type("/vim on")
    console.until("vi keys")
    console.tmux("send-keys", "-l", "not whole words")
    console.keys("Escape")
    console.until("› not whole words", "NAVIGATION │")
    time.sleep(0.3)  # a lone Esc is one only when no key follows it
    console.tmux("send-keys", "-l", "0dw")
    console.until("› whole words")
    console.keys("Enter")
    console.until("Three.")
    console.type("/vim off")  # after a message one types again
    console.until("emacs keys")
    assert "from the editor" in last_text(server.requests[1])
    assert "whole words" in last_text(server.requests[2])
    assert "not" not in last_text(server.requests[2])


@later
def test_folded_shown_whole_and_note_kept(console: Console) -> None:
    console.serve([Turn(thinking="A long thought.", calls=(Call("Bash", {"command": "seq 3"}),)), Turn(text="Done.")])
    console.start("--permission-mode", "full")
    console.type("go")
    console.until("Done.", gone="  │ 1")
    console.keys("C-o")
    console.until("command: seq 3", "│ 1")
    console.keys("C-o")
    console.until("  A long thought.")
    console.type("#the tests are slow")
    console.until("Write into AGENTS.md", "y Yes, write it there")
    console.keys("y")
    console.until("Noted in")
    assert "- the tests are slow" in (console.cwd / "AGENTS.md").read_text()


def test_terminal_hangup(console: Console) -> None:
    sleep, home = f"sleep 47.{os.getpid()}", str(console.environment["HOME"])
    console.serve([Turn(calls=(Call("Bash", {"command": sleep}),))])
    console.start("--permission-mode", "full")
    console.type("go")
    console.until("◌ Bash")
    console.tmux("kill-server")
    wait_until(lambda: not (_processes(sleep) or _processes(home)), "the end of the command and the program")


def _processes(text: str) -> list[int]:
    done = subprocess.run(["pgrep", "-f", text], capture_output=True, text=True, check=False)
    return [int(line) for line in done.stdout.split() if int(line) != os.getpid()]


@pytest.mark.needs("bash")
def test_stop_and_resume(console: Console) -> None:
    console.serve([Turn(text="Here again.")])
    console.start(shell=True)
    console.keys("C-z")
    console.until("Stopped")
    console.type("fg")
    console.until("│ edit")
    console.type("hello")
    console.until("Here again.")


def test_guide_without_a_key(console: Console) -> None:
    del console.environment["SAGENT_MODEL"]
    console.start(ready="Welcome to sagent.")
    console.type("/quit")
    console.until("ended 0")


@pytest.mark.needs("bash")
def test_stop_signal_and_resume_keep_keys(console: Console) -> None:
    console.serve([Turn(text="One."), Turn(text="Here again.")])
    console.start(shell=True)
    console.type("hello")
    console.until("One.")
    shell = console.tmux("display-message", "-p", "#{pane_pid}").strip()
    child = subprocess.run(["pgrep", "-P", shell], capture_output=True, text=True, check=True).stdout
    os.kill(int(child.split()[0]), signal.SIGTSTP)
    console.until("Stopped")
    console.type("fg")
    console.until("│ edit")
    console.keys("x", "C-u")
    console.type("hello again")
    console.until("Here again.")


@pytest.mark.needs("bash")
@slow
def test_stop_in_answer_and_resume(console: Console) -> None:
    console.serve([Turn(text=LONG, pieces=20, gap=0.01)])
    console.start(shell=True)
    console.type("hello")
    console.until("Paragraph 3 has")
    console.keys("C-z")
    console.until("Stopped")
    console.type("fg")
    screen = console.until("Paragraph 59 has", gone="Writing")
    assert all(f"Paragraph {number} has" in screen for number in range(60))


@pytest.mark.needs("bash")
@slow
def test_stop_in_question_and_resume(console: Console) -> None:
    console.serve([Turn(calls=(Call("Write", {"file_path": "a.txt", "content": "x"}),)), Turn(text="It is written.")])
    console.start("--permission-mode", "ask", shell=True)
    console.type("hello")
    console.until("y once")
    console.keys("C-z")
    console.until("Stopped", gone="y once")
    console.type("fg")
    console.until("y once")
    console.keys("C-l", "y")
    console.until("It is written.")


def test_wrong_settings_exit_with_reason(console: Console) -> None:
    console.environment["SAGENT_EFFORT"] = "enormous"
    console.start(ready="ended 2")
    assert "SAGENT_EFFORT" in console.screen


@later
@pytest.mark.plugin("overview")
def test_early_typing_is_kept(console: Console) -> None:
    server = console.serve([Turn(text="First answer."), Turn(text="Second answer.")])
    console.start(ready="›")
    console.type("first")
    console.type("second")
    console.until("First answer.", "Second answer.")
    console.type("/context")  # every key means what it does afterwards
    console.until("About ", " tokens")
    console.keys("C-c")
    console.until("Ctrl-C again quits")
    assert len(server.requests) == 2


def test_typing_resets_double_escape(console: Console) -> None:
    console.serve([Turn(text="Here.")])
    console.start()
    console.keys("C-c", "x", "BSpace", "C-c")
    console.until("Ctrl-C again quits")
    console.keys("h", "i")
    console.until("› hi", "│ $0", gone="again")
    console.keys("Escape")
    console.until("Esc again clears the input")
    console.keys("!")
    console.until("› hi!", gone="again")
    console.keys("Escape")
    console.until("› hi!", "Esc again clears the input")


@slow
def test_early_draft_is_kept(console: Console) -> None:
    console.serve([Turn(text="First answer."), Turn(text="Second answer.")])
    console.start(ready="›")
    console.raw(b"first\rsec")
    console.until("First answer.", "› sec")
    console.type("ond")
    console.until("› second", "Second answer.")


@pytest.mark.plugin("plain")
def test_dumb_terminal_works(console: Console) -> None:
    console.serve([Turn(text="Plain words.")])
    console.environment["TERM"] = "dumb"
    console.start(ready=">")
    console.type("/resume nothing")
    console.until("no session")  # which ends the command alone
    console.type("hello")
    console.until("Plain words.")


@later
def test_copied_code_is_the_code(console: Console) -> None:
    code = f"names = [{', '.join(map(str, range(400)))}]"
    console.serve(
        [Turn(text=f"Look:\n\n```python\nif True:\n    {code}\n```\n\n> quoted\n> ```\n> ls -l\n> ```\n", pieces=9)]
    )
    console.start(width=60, height=20)
    console.type("go")
    screen = console.until("ls -l", gone="Esc interrupts")
    assert f"\nif True:\n    {code}\n" in screen  # tmux joins rows that go on by themselves
    assert "\nls -l\n" in screen


@later
def test_new_session_keeps_always_rules(console: Console) -> None:
    touch = Call("Bash", {"command": "touch made"})
    server = console.serve([Turn(calls=(touch,)), Turn(text="Done one."), Turn(calls=(touch,)), Turn(text="Done two.")])
    console.start("--permission-mode", "ask", "--sandbox", "off")
    console.type("first words")
    console.until("a always")
    time.sleep(0.6)  # a question takes keys when it has been there for a moment
    console.keys("a")
    console.until("Done one.", gone="Esc interrupts")
    console.type("/new")
    screen = console.until("This is a new session. To go back: /resume ")
    first = screen.partition("To go back: /resume ")[2].split()[0]
    console.type("second words")
    console.until("Done two.", gone="Esc interrupts")
    assert "first words" not in str(server.requests[-1].json["messages"])
    console.type(f"/resume {first}")
    console.until("Session resumed.")
    console.keys("C-l")
    console.tmux("clear-history")
    console.type("/new")
    console.until(f"This is a new session. To go back: /resume {first}")
    console.keys("C-d")  # nothing was said in it: one goes on with the one before
    console.until(f"sagent --resume {first}", "ended 0")
