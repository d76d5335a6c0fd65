"""`--goal`: a headless run goes on until its goal is reached, and fails if it is not."""

import itertools
import threading

from sagent.testing.server import Call, Received, Turn
from tests.cli.program import Shell
from tests.depth import later

WRITE = Turn(text="Writing.", calls=(Call("Write", {"file_path": "made.txt", "content": "x\n"}),))


def test_run_continues_until_goal(shell: Shell) -> None:
    server = shell.serve([Turn(text="Done."), WRITE, Turn(text="Done now.")])
    done = shell.run("--permission-mode", "edit", "--goal", "!test -e made.txt", "go")
    assert (done.code, done.out.splitlines()[-1]) == (0, "Done now.")
    assert b"test -e made.txt" in server.requests[0].body
    assert len(server.requests) == 3


@later
def test_unmet_goal_fails_the_run(shell: Shell) -> None:
    shell.serve([Turn(text="Done.")] * 9)
    done = shell.run("--goal", "!false", "--goal-attempts", "2", "--output-format", "json", "go")
    assert (done.code, done.json["stop_reason"], done.json["num_turns"]) == (1, "goal_unmet", 2)
    refused = shell.run("--goal", "!", "go")
    assert refused.code == 2 and "words or a command" in refused.err


def test_goal_survives_a_kill(shell: Shell) -> None:
    asked, held, count = threading.Event(), threading.Event(), itertools.count()

    def answer(_: Received) -> Turn:
        match next(count):
            case 1:
                asked.set()
                held.wait(60)
                return Turn(text="Lost.")
            case 2:
                return WRITE
            case _:
                return Turn(text="Done.")

    shell.serve(answer)
    flags = ("--permission-mode", "edit")
    child = shell.start(*flags, "--goal", "!test -e made.txt", "go")
    assert asked.wait(60)
    child.kill()
    child.wait()
    held.set()
    done = shell.run(*flags, "--continue", "go on")
    assert (done.code, done.out.splitlines()[-1]) == (0, "Done.")
    assert "pursued further (1 of 10 attempts)" in done.err
    assert "pursued" not in shell.run(*flags, "--continue", "go on").err


def test_what_is_missing_is_told(shell: Shell) -> None:
    shell.serve([Turn(text="Done."), WRITE, Turn(text="Done now.")])
    check = "!test -e made.txt || { echo made.txt is missing; exit 4; }"
    done = shell.run("--permission-mode", "edit", "--goal", check, "go")
    assert "not reached yet (1 of 10 attempts)" in done.err and "exit 4" in done.err
