"""`sagent schedule`: runs are added, listed, carried out once, and removed."""

import json
import signal
from datetime import timedelta
from pathlib import Path

import pytest

from sagent.lib.json import as_array, as_object
from sagent.plugins.schedules.cron import local_now
from sagent.testing.server import Call, Turn
from tests.cli.program import Shell
from tests.depth import later
from tests.waiting import wait_until
from tests.worktrees import made_repositories, project

__all__ = ["made_repositories", "project"]
MODEL, YEARLY = "anthropic/claude-sonnet-4-6", "0 0 1 1 *"


def test_schedule_is_carried_out_once(shell: Shell) -> None:
    server = shell.serve([Turn(text="good morning")])
    added = shell.run("schedule", "add", "hello", YEARLY, "--model", MODEL, "greet me", model="")
    assert added.code == 0 and "runs first at" in added.err
    assert shell.run("schedule", "run", "hello", model="").code == 0
    assert server.requests == []
    _begin(shell, "hello", days=3 * 366)
    listed = shell.run("schedule", "list", "--json", model="").json
    (row,) = as_array(listed["schedules"])
    assert as_object(row)["missed"] in ("3", "4")
    done = shell.run("schedule", "run", "hello", model="")
    assert done.code == 0 and done.out == "" and "were missed" in done.err
    shell.run("schedule", "run", "hello", model="")
    assert len(server.requests) == 1
    assert json.loads((_folder(shell) / "results/hello.json").read_text())["result"] == "good morning"
    again = shell.run("schedule", "list", model="")
    assert "(exit 0)" in again.out
    (row,) = as_array(shell.run("schedule", "list", "--json", model="").json["schedules"])
    assert float(str(as_object(row)["usd"])) > 0 and as_object(row)["session"]
    assert shell.run("schedule", "remove", "hello", model="").code == 0
    assert shell.run("schedule", "list", model="").out.strip() == "There are no schedules."


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("add", "a"), "add NAME CRON"),
        (("add", "A b", "* * * * *", "hi"), "small letters"),
        (("add", "a", "* * *", "hi"), "five fields"),
        (("add", "a", "0 0 30 2 *", "hi"), "cron line"),
        (("add", "a", "* * * * *"), "add NAME CRON"),
        (("add", "a", "* * * * *", "--model"), "--model"),
        (("add", "a", "* * * * *", "--bg", "hi"), "--bg does not go with a schedule"),
        (("add", "a", "* * * * *", "--no-such-flag", "hi"), "no-such-flag"),
        (("run",), "needs a name"),
        (("run", "a"), "There is no schedule"),
        (("remove", "a"), "There is no schedule"),
        (("often",), "often"),
    ],
)
def test_faulty_schedule_is_explained(argv: tuple[str, ...], said: str, shell: Shell) -> None:
    done = shell.run("schedule", *argv, model="")
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert not list(_folder(shell).glob("*.json"))


@pytest.mark.plugin("worktrees")
def test_scheduled_run_in_a_worktree(project: Shell) -> None:
    write = Call("Write", {"file_path": "new.txt", "content": "x"})
    project.serve([Turn(calls=(write,)), Turn(text="Done.")])
    flags = ("--worktree", "--permission-mode", "full", "--sandbox", "off", "--model", MODEL)
    assert project.run("schedule", "add", "tidy", YEARLY, *flags, "tidy up", model="").code == 0
    done = project.run("schedule", "run", "tidy", "--now", model="")
    assert done.code == 0 and "is kept: 1 file" in done.err
    assert not (project.cwd / "new.txt").exists()


def test_damaged_schedule_can_be_removed(shell: Shell) -> None:
    _folder(shell).mkdir(parents=True)
    (_folder(shell) / "one.json").write_text("{")
    assert "is damaged" in shell.run("schedule", "list", model="").err
    assert shell.run("schedule", "remove", "one", model="").code == 0


def test_lost_directory_is_named(shell: Shell) -> None:
    place = shell.cwd / "gone"
    place.mkdir()
    shell.run("schedule", "add", "one", "* * * * *", "--cwd", str(place), "--model", MODEL, "hi", model="")
    file = _folder(shell) / "one.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "cwd": str(place)}))
    place.rmdir()
    done = shell.run("schedule", "run", "one", "--now", model="")
    assert done.code == 2 and str(place) in done.err


@later
def test_serve_carries_out_what_is_due(shell: Shell) -> None:
    server = shell.serve([Turn(text="good morning")])
    shell.run("schedule", "add", "one", YEARLY, "--model", MODEL, "greet me", model="")
    _begin(shell, "one", days=400)
    child = shell.start("schedule", "serve", model="")
    assert child.stderr is not None
    while b"one began" not in child.stderr.readline():
        pass
    wait_until(lambda: len(server.requests) == 1, "the request of a scheduled run")
    child.send_signal(signal.SIGTERM)
    assert child.wait() == 128 + signal.SIGTERM


def _folder(shell: Shell) -> Path:
    return Path(shell.environment["HOME"], ".local/state/sagent/schedules")


def _begin(shell: Shell, name: str, days: int) -> None:
    """Let a schedule be so many days old."""
    file = _folder(shell) / f"{name}.json"
    since = (local_now() - timedelta(days=days)).isoformat(timespec="seconds")
    file.write_text(json.dumps({**json.loads(file.read_text()), "since": since}))
