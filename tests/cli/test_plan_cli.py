"""`--plan`: nothing is written, the plan is the answer, and the exit code says whether there is one."""

import json
from pathlib import Path

from program import Shell

from sagent.testing.server import Call, Turn
from tests.depth import later

PLAN = "1. Write the file.\n2. Test it."
PROPOSE = Turn(text="I have looked.", calls=(Call("ExitPlan", {"plan": PLAN}),))
WRITE = Turn(calls=(Call("Write", {"file_path": "made.txt", "content": "x"}),))


def test_plan_is_printed_nothing_is_written(shell: Shell) -> None:
    server = shell.serve([WRITE, PROPOSE])
    found = shell.run("--plan", "a file, please")
    assert (found.code, found.out) == (0, f"{PLAN}\n")
    assert not (shell.cwd / "made.txt").exists()
    assert len(server.requests) == 2
    assert "call ExitPlan with the plan" in str(server.requests[0].json["messages"])


def test_json_says_it_is_a_plan(shell: Shell) -> None:
    shell.serve([PROPOSE])
    found = shell.run("--plan", "--json", "--tools", "Read", "x")
    assert (found.code, found.json["result"], found.json["stop_reason"]) == (0, PLAN, "planned")


def test_headed_plan_counts_missing_plan_fails(shell: Shell) -> None:
    shell.serve([Turn(text="I looked.\n\n## Plan\n\n1. Do it."), Turn(text="Which file?")])
    found = shell.run("--plan", "x")
    assert (found.code, found.out) == (0, "## Plan\n\n1. Do it.\n")
    found = shell.run("--plan", "--json", "x")
    assert found.code == 6
    assert (found.json["result"], found.json["is_error"]) == ("Which file?", True)
    assert "without a plan" in str(found.json["error"])


def test_other_failures_keep_their_code(shell: Shell) -> None:
    shell.serve([WRITE, PROPOSE])
    assert shell.run("--plan", "--max-turns", "1", "x").code == 4
    schema = shell.cwd / "schema.json"
    schema.write_text('{"type": "object"}')
    found = shell.run("--plan", "--output-schema", str(schema), "x")
    assert (found.code, "--plan" in found.err) == (2, True)


def test_plan_is_done_in_same_prefix_session(shell: Shell) -> None:
    server = shell.serve([PROPOSE, WRITE, PROPOSE, Turn(text="Done.")])
    assert shell.run("--plan", "x").code == 0
    found = shell.run("--continue", "carry it out")
    assert (found.code, found.out) == (0, "Done.\n")
    assert (shell.cwd / "made.txt").read_text() == "x"
    first, *rest = (request.json for request in server.requests)
    for follower in rest:
        assert json.dumps(follower["tools"]) == json.dumps(first["tools"])
        assert str(follower["messages"]).find("carry it out") > 0
    assert "Plan mode is off" in str(rest[-1]["messages"])  # to a call that came too late


@later
def test_end_of_plan_mode_is_told_once(shell: Shell) -> None:
    server = shell.serve([PROPOSE, Turn(text="Done."), Turn(text="Done.")])
    for flags in (("--plan",), ("--continue",), ("--continue",)):
        assert shell.run(*flags, "--permission-mode", "edit", "go on").code == 0
    over = [str(request.json["messages"]).count("Plan mode is off: you may change") for request in server.requests]
    assert over == [0, 1, 1]


@later
def test_unused_plan_tool_costs_no_byte(shell: Shell, tmp_path: Path) -> None:
    server = shell.serve([Turn(text="a"), Turn(text="b")])
    assert shell.run("x").code == shell.run("--permission-mode", "plan", "y").code == 0
    assert not any(b"ExitPlan" in request.body for request in server.requests)
