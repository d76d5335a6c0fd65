"""`--goal`: a headless run goes on until its goal is reached, and fails if it is not."""

from sagent.testing.server import Call, Turn
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
