"""Trees of agents in real processes: what is told, what is stopped, and what is there again after `kill -9`."""

import json
import os
import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Shell

from sagent.testing.server import Call, Received, Stall, Step, Turn
from tests.depth import later
from tests.intact import faults
from tests.waiting import wait_until

Player = list[Step | Callable[[Received], Step]]
WHO = re.compile(r"You are (root/[^ ,]+), an agent")


def cast(**players: Player) -> Callable[[Received], Step]:
    """A script in which each agent has its own lines: the name is its path, with __ for the slash."""
    lines = {name.replace("__", "/"): list(steps) for name, steps in players.items()}
    lock = threading.Lock()

    def answer(request: Received) -> Step:
        found = WHO.search(json.dumps(request.json["messages"]))
        with lock:
            step = lines[found[1] if found else "root"].pop(0)
        return step(request) if callable(step) else step

    return answer


def spawn(name: str, **order: object) -> Call:
    return Call("AgentSpawn", {"prompt": f"the task of {name}", "name": name, **order})


def last(request: Received) -> str:
    """The text of a request's last message, results included."""
    messages = request.json["messages"]
    assert isinstance(messages, list)
    return json.dumps(messages[-1])


def echo(request: Received) -> Step:
    return Turn(text=f"heard {last(request)}")


FULL = ("--permission-mode", "full")


def test_only_root_answer_is_printed(shell: Shell) -> None:
    server = shell.serve(
        cast(
            root=[Turn(text="Asking.", calls=(spawn("a"), spawn("b"))), echo],
            root__a=[Turn(text="I am a", calls=(Call("Bash", {"command": "echo from a"}),)), Turn(text="answer of a")],
            root__b=[Turn(text="answer of b")],
        )
    )
    done = shell.run(*FULL, "--log-level", "error", "go")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("heard ")
    assert "answer of a" in done.out
    assert "answer of b" in done.out
    assert "I am a" not in done.out
    heads = {json.dumps([request.json["system"], request.json["tools"]]) for request in server.requests}
    assert len(heads) == 1  # children have the parent's prefix


def test_stream_has_all_agents_by_path(shell: Shell) -> None:
    shell.serve(
        cast(
            root=[Turn(calls=(spawn("a"),)), Turn(text="end")],
            root__a=[Turn(calls=(spawn("deep"),)), Turn(text="answer of a")],
            root__a__deep=[Turn(text="deeper", calls=(Call("Bash", {"command": "echo hello"}),)), Turn(text="answer")],
        )
    )
    done = shell.run(*FULL, "--output-format", "stream-json", "go")
    kinds: dict[str, list[str]] = {}
    for line in done.lines[:-1]:
        kinds.setdefault(str(line["agent"]), []).append(str(line["type"]))
    assert set(kinds) == {"root", "root/a", "root/a/deep"}
    for found in kinds.values():
        assert found[0] == "session"
        assert {"received", "tool_started", "tool_finished"} <= set(found)
    assert [line["agent"] for line in done.lines if line["type"] == "result"] == ["root/a/deep", "root/a", "root"]
    result = done.lines[-1]
    assert (result["type"], result["result"]) == ("result", "end")
    cost = result["cost_usd"]
    assert isinstance(cost, dict)
    by_agent = cost["by_agent"]
    assert set(by_agent) == {"root", "root/a", "root/a/deep"}
    assert sum(by_agent.values()) == pytest.approx(cost["total"])
    assert faults(Path(str(result["session_path"])), str(result["head"])) == []


@pytest.mark.needs("linux")
def test_signal_stops_the_whole_tree(shell: Shell, processes: Callable[[str], list[int]]) -> None:
    marker = f"40.{os.getpid()}"
    sleep = Call("Bash", {"command": f"sleep {marker} & sleep {marker}"})
    server = shell.serve(
        cast(
            root=[Turn(text="Asking.", calls=(spawn("a"), spawn("idle", persistent=True))), Turn(text="never")],
            root__a=[Turn(calls=(sleep, spawn("deep")))],
            root__a__deep=[Turn(text="So far.", calls=(sleep,))],
            root__idle=[Stall(Turn(text="Once upon a time", pieces=4), after_events=4)],
        )
    )
    child = shell.start(*FULL, "--output-format", "json", "go")
    wait_until(lambda: len(processes(f"sleep\0{marker}")) >= 4 and len(server.requests) >= 4)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert not processes(f"sleep\0{marker}")
    found = json.loads(out)
    assert (found["error"]["kind"], found["result"]) == ("interrupted", "Asking.")
    assert faults(Path(found["session_path"]), found["head"]) == []
    shell.serve(cast(root=[Turn(text="Going on.")]))
    assert shell.run(*FULL, "--continue", "go on").out == "Going on.\n"


@later
def test_killed_agents_jobs_messages_return(shell: Shell) -> None:
    letter = Call("AgentSend", {"to": "aide", "content": "the late letter", "delay": 3})
    server = shell.serve(
        cast(
            root=[
                Turn(calls=(spawn("aide", persistent=True), spawn("worker", background=True))),
                Turn(calls=(letter, Call("Bash", {"command": "sleep 50", "background": True}))),
                *[Stall(Turn(text="busy"))] * 4,
            ],
            root__aide=[Turn(text="ready"), Stall(Turn(text="x"))],
            root__worker=[Stall(Turn(text="x"))],
        )
    )
    child = shell.start(*FULL, "--output-format", "stream-json", "go")
    assert child.stdout is not None
    seen: list[dict[str, object]] = []
    for line in child.stdout:
        seen.append(json.loads(line))
        if seen[-1]["type"] == "tool_finished" and seen[-1]["name"] == "Bash":
            break
    wait_until(lambda: len(server.requests) >= 5)
    child.kill()
    child.wait()
    session = Path(str(seen[0]["session_path"]))
    assert [problem for problem in faults(session) if "unfinished" not in problem] == []

    server = shell.serve(
        cast(
            root=[Turn(calls=(Call("AgentSend", {"to": "aide", "content": "and now?"}),)), *[echo] * 8],
            root__aide=[echo] * 3,
        )
    )
    done = shell.run(*FULL, "--continue", "--output-format", "stream-json", "what is left?")
    assert done.code == 0, done.err
    first = json.dumps(server.requests[0].json["messages"])
    root = "".join(
        json.dumps(request.json["messages"])
        for request in server.requests
        if not WHO.search(str(request.json["messages"]))
    )
    assert "a call of AgentSpawn, was lost" in root
    assert "job:2, a call of Bash, was lost" in root
    aide = [
        json.dumps(request.json["messages"])
        for request in server.requests
        if "You are root/aide" in str(request.json["messages"])
    ]
    assert "the task of aide" in aide[0]  # it knows what it knew
    assert "and now?" in aide[-1]
    assert "the late letter" in aide[-1]
    assert aide[-1].count("the late letter") == 1
    assert "root/aide has answered" in root
    assert "what is left?" in first or "what is left?" in root
    assert not any(line.get("agent") == "root/worker" for line in done.lines)
    assert faults(session) == []


@later
def test_run_waits_for_jobs_unless_told(shell: Shell, processes: Callable[[str], list[int]]) -> None:
    marker = f"0.5{os.getpid()}"
    job = Call("Bash", {"command": f"sleep {marker}; echo slept", "background": True})
    shell.serve(cast(root=[Turn(calls=(job,)), Turn(text="for now"), echo]))
    assert "slept" in shell.run(*FULL, "go").out
    long = Call("Bash", {"command": f"sleep 60{marker}", "background": True})
    shell.serve(cast(root=[Turn(calls=(long,)), Turn(text="for now")]))
    done = shell.run(*FULL, "--no-wait", "--output-format", "stream-json", "go")
    assert (done.code, done.lines[-1]["type"], done.lines[-1]["result"]) == (0, "result", "for now")
    assert not processes(f"60{marker}")
    shell.serve(cast(root=[echo]))
    assert "job:1, the call of Bash" in shell.run(*FULL, "--continue", "and?").out


@later
@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_detached_command_named_twice(shell: Shell, tmp_path: Path, form: str) -> None:
    shell.environment["TMPDIR"] = str(tmp_path)
    command = "echo begun; touch begun; sleep 2; echo ended; touch done"
    job = Call("Bash", {"command": command, "background": True})

    def detach(request: Received) -> Turn:
        wait_until((shell.cwd / "begun").exists)
        return Turn(calls=(Call("BackgroundTask", {"operation": "detach", "id": "job:1"}),))

    server = shell.serve(
        cast(root=[Turn(calls=(spawn("a"),)), Turn(text="end")], root__a=[Turn(calls=(job,)), detach, Turn(text="a")])
    )
    done = shell.run(*FULL, "--output-format", form, "go")
    assert done.code == 0
    line, *head = done.err.splitlines()[::-1] if form == "text" else done.err.splitlines()
    assert [line.startswith("sagent: session ") for line in head] == [True] * (form == "text")
    found = re.fullmatch(
        r"sagent: (root/a: job:1 is detached .* goes to (\S+\.out) .*\. To end it: kill -- -\d+)", line
    )
    assert found
    assert found[1].removeprefix("root/a: ") in last(server.requests[3])
    wait_until((shell.cwd / "done").exists)
    wait_until(lambda: Path(found[2]).read_text() == "begun\nended\n")


def test_unusable_model_change_is_an_error(shell: Shell) -> None:
    def switch(**wish: str) -> Turn:
        return Turn(calls=(Call("AgentSelf", {"switch": wish}),))

    server = shell.serve(
        cast(
            root=[
                switch(model="openai/gpt-5.1"),
                switch(provider="mars", model="rover"),
                switch(model="claude-haiku-4-5"),
                echo,
            ]
        )
    )
    done = shell.run("go")
    assert done.code == 0
    assert [request.json["model"] for request in server.requests] == ["claude-sonnet-4-6"] * 3 + ["claude-haiku-4-5"]
    assert all(part in last(server.requests[1]) for part in ("Nothing was changed", "No key for openai"))
    assert all(part in last(server.requests[2]) for part in ("Nothing was changed", "no provider 'mars'"))
    assert "model claude-haiku-4-5 from the next step on" in done.out


@pytest.mark.parametrize(
    "wish", [{"context": {"clear": True}}, {"context": {"compact": True}}, {"switch": {"effort": "low"}}]
)
def test_model_change_in_run_never_hangs(shell: Shell, wish: dict[str, object]) -> None:
    shell.serve(cast(root=[Turn(calls=(Call("AgentSelf", wish),)), Turn(text="still here")]))
    done = shell.run("the task")
    assert (done.code, done.out) == (0, "still here\n")


def test_tree_cap_and_poor_child(shell: Shell) -> None:
    shell.serve(
        cast(root=[Turn(calls=(spawn("poor", budget_usd=0.0001),)), echo], root__poor=[]),
    )
    done = shell.run(*FULL, "--max-budget-usd", "1", "go")
    assert done.code == 0
    assert "root/poor failed (budget)" in done.out
    assert "allowance of root/poor" in done.out


@later
def test_unpriced_costs_survive_kill_9(shell: Shell) -> None:
    server = shell.serve(cast(root=[Turn(calls=(Call("Bash", {"command": "sleep 30"}),))]))
    child = shell.start(*FULL, "go")
    wait_until(lambda: any('"spent"' in file.read_text() for file in shell.cwd.parent.rglob("root.jsonl")))
    child.kill()
    child.wait()
    assert len(server.requests) == 1


@later
def test_killed_childs_text_is_told_once(shell: Shell) -> None:
    look = Call("BackgroundTask", {"operation": "list"})
    server = shell.serve(
        cast(
            root=[Turn(calls=(spawn("slow"), spawn("done")))],
            root__slow=[Turn(text="half of it", calls=(look,)), Stall(Turn(text="never"))],
            root__done=[Turn(text="all of it")],
        )
    )
    child = shell.start(*FULL, "go")
    wait_until(lambda: len(server.requests) >= 4)
    wait_until(lambda: any('"returned"' in file.read_text() for file in shell.cwd.parent.rglob("root.jsonl")))
    child.kill()
    child.wait()
    server = shell.serve(cast(root=[echo]))
    assert "root/slow was lost" in shell.run(*FULL, "--continue", "and?").out
    told = json.dumps(server.requests[0].json["messages"])
    assert "Its output so far:\\nhalf of it" in told
    assert "root/done was lost" not in told
    server = shell.serve(cast(root=[echo]))
    shell.run(*FULL, "--continue", "and now?")
    assert json.dumps(server.requests[0].json["messages"]).count("root/slow was lost") == 2  # the echo is the second
