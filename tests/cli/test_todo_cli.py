"""The list of what is to be done, without a terminal."""

from program import Shell

from sagent.testing.server import Call, Turn

TODOS = [{"content": "Look", "status": "in_progress"}, {"content": "Change", "status": "pending"}]


def test_todo_is_off_unless_named(shell: Shell) -> None:
    server = shell.serve([Turn(calls=(Call("TodoWrite", {"todos": TODOS}),)), Turn(text="ok"), Turn(text="ok")])
    found = shell.run("--tools", "Read,todowrite", "--output-format", "stream-json", "x")
    assert found.code == 0, found.err

    (started,) = (event for event in found.lines if event["type"] == "tool_started")
    assert str(TODOS) in str(started)
    assert "0 of 2 done; now: Look" in found.out
    assert shell.run("x").code == 0
    assert "TodoWrite" not in server.requests[-1].body.decode()
