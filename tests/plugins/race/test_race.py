"""`sagent race`: the winner is merged, the others stop, and nothing is left."""

import json
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sagent.testing.server import Call, Received, Turn
from tests.cli.program import Shell
from tests.depth import later
from tests.worktrees import assert_nothing_left, git, worktrees_of

FAST, SLOW = "anthropic/claude-haiku-4-5", "anthropic/claude-sonnet-4-6"
FREE = ("--permission-mode", "full", "--sandbox", "off", "--max-budget-usd", "2")
RACE = ("race", "write new.txt", "--models", f"{FAST},{SLOW}", *FREE)


def by_model(fast: Sequence[Turn], slow: Sequence[Turn]) -> Callable[[Received], Turn]:
    """Answer each model by its own turns."""

    def answer(request: Received) -> Turn:
        body = json.loads(request.body)
        turns = fast if "haiku" in body["model"] else slow
        return turns[sum(each["role"] == "assistant" for each in body["messages"])]

    return answer


def bash(command: str) -> Turn:
    return Turn(calls=(Call("Bash", {"command": command}),))


DONE = Turn(text="Done.")
LATE = Turn(text="Late.", delay=60)


def test_first_that_passes_is_merged(project: Shell) -> None:
    project.serve(by_model([bash("echo x > new.txt"), DONE], [LATE]))
    done = project.run(*RACE, "--check", "test -e new.txt", "--json", model="")
    found = done.json
    assert (done.code, found["winner"], found["merged"]) == (0, "claude-haiku-4-5", True)
    assert (project.cwd / "new.txt").read_text() == "x\n"
    racers = found["racers"]
    assert isinstance(racers, list)
    assert [each["standing"] for each in racers] == ["won", "stopped"]
    assert racers[0]["cost_usd"] > 0
    assert_nothing_left(project)


@later
def test_failed_check_is_told_and_tried_again(project: Shell) -> None:
    server = project.serve(by_model([DONE, bash("echo x > new.txt"), DONE], [LATE]))
    done = project.run(*RACE, "--check", "cat new.txt", model="")
    assert done.code == 0 and "attempt 1 of 3" in done.err
    assert any(b"No such file" in request.body for request in server.requests)
    assert "won" in done.out and "stopped" in done.out
    assert_nothing_left(project)


@later
def test_none_passes(project: Shell) -> None:
    project.serve(by_model([bash("echo x > new.txt"), DONE], [DONE]))
    done = project.run(*RACE, "--check", "echo no; exit 3", "--attempts", "1", model="")
    assert done.code == 1 and done.out.count("the check exits with 3") == 2
    (kept,) = worktrees_of(project)  # the other has no changes
    assert kept.name == "claude-haiku-4-5-1" and not (project.cwd / "new.txt").exists()
    project.run("worktree", "drop", kept.name, model="")
    assert_nothing_left(project)


@later
def test_check_that_hangs_is_ended(project: Shell, processes: Callable[[str], list[int]]) -> None:
    project.serve(by_model([DONE], [DONE]))
    limits = ("--check", "sleep 4173", "--check-timeout", "0.5", "--attempts", "1")
    done = project.run(*RACE, *limits, model="")
    assert done.code == 1 and "the check did not end within 0.5 s" in done.out
    assert processes("sleep\x004173") == []
    assert_nothing_left(project)


def test_loser_and_its_processes_stop(project: Shell, processes: Callable[[str], list[int]]) -> None:
    started = project.cwd.parent / "started"
    slow = [bash(f"touch '{started}'; sleep 4174"), DONE]
    project.serve(by_model([bash(f"until test -e '{started}'; do sleep 0.1; done; echo x > new.txt"), DONE], slow))
    done = project.run(*RACE, "--check", "test -e new.txt", model="")
    assert done.code == 0
    assert processes("sleep\x004174") == []
    assert_nothing_left(project)


@later
def test_conflict_with_dirty_tree_is_kept(project: Shell) -> None:
    (project.cwd / "a.txt").write_text("one\nmine\nthree\n")
    project.serve(by_model([bash("sed -i s/two/agent/ a.txt"), DONE], [LATE]))
    done = project.run(*RACE, "--check", "grep agent a.txt", model="")
    assert done.code == 1 and "conflicts with changes here in a.txt" in done.err
    assert (project.cwd / "a.txt").read_text() == "one\nmine\nthree\n"
    assert [each.name for each in worktrees_of(project)] == ["claude-haiku-4-5-1"]


REFUSED = {
    "one model": (("race", "x", "--models", FAST, "--check", "true"), "two models or more"),
    "no price": (("race", "x", "--models", f"{FAST},anthropic/dear-1", "--check", "true", *FREE), "no known price"),
    "unknown model": (("race", "x", "--models", f"{FAST},nobody/x", "--check", "true"), "nobody"),
    "model flag": ((*RACE, "--check", "true", "--model", FAST), "--model"),
    "no check": (("race", "x", "--models", f"{FAST},{SLOW}", "--check", " "), "a check that decides"),
}


@later
@pytest.mark.parametrize("case", REFUSED)
def test_refusal_spends_nothing(project: Shell, case: str) -> None:
    words, said = REFUSED[case]
    server = project.serve([])
    done = project.run(*words, model="")
    assert done.code == 2 and said in done.err and server.requests == []
    assert_nothing_left(project)


@later
def test_same_model_twice(project: Shell) -> None:
    project.serve(lambda request: DONE)
    twice = ("race", "x", "--models", f"{FAST},{FAST}", *FREE, "--check", "true", "--json")
    racers = project.run(*twice, model="").json["racers"]
    assert isinstance(racers, list)
    assert [each["name"] for each in racers] == ["claude-haiku-4-5-1", "claude-haiku-4-5-2"]
    assert_nothing_left(project)


def wait_until(true: Callable[[], bool]) -> None:
    while not true():
        time.sleep(0.02)


@later
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_all(project: Shell, number: signal.Signals) -> None:
    server = project.serve(by_model([LATE], [LATE]))
    child = project.start(*RACE, "--check", "true", model="")
    wait_until(lambda: len(server.requests) == 2 or child.poll() is not None)
    child.send_signal(number)
    out, _ = child.communicate()
    assert child.returncode == 128 + number and out.count(b"stopped") == 2
    assert_nothing_left(project)


@later
def test_killed_race_is_repaired(project: Shell) -> None:
    server = project.serve(by_model([bash("echo x > new.txt"), LATE], [LATE]))
    child = project.start(*RACE, "--check", "true", model="")
    wait_until(lambda: len(server.requests) == 3 or child.poll() is not None)
    child.kill()
    child.wait()
    said = project.run("worktree", "list", model="").err
    assert said.count("left by a process that was killed") == 2 and "is removed" in said and "1 file +1 -0" in said
    (kept,) = worktrees_of(project)
    project.run("worktree", "drop", kept.name, model="")
    assert_nothing_left(project)


@later
def test_race_in_a_folder(project: Shell) -> None:
    root, project.cwd = project.cwd, project.cwd / "folder"
    project.serve(by_model([bash("echo x > new.txt"), DONE], [LATE]))
    assert project.run(*RACE, "--check", "test -e new.txt && test -e c.txt", model="").code == 0
    assert Path(root, "folder/new.txt").exists()
    project.cwd = root
    assert git(root, "status", "--short") == "?? folder/new.txt"
    assert_nothing_left(project)
