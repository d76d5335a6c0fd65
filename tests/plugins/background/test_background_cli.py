"""`sagent --bg`, `ps`, `wait` and `stop`, with the processes and sockets that they have."""

import errno
import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from sagent.plugins.background.records import Record, find, folder, write, write_end
from sagent.session.log import make_directory
from sagent.testing.server import Call, Fail, Turn
from tests.cli.test_asked_for import PNG
from tests.depth import later
from tests.plugins.background.conftest import Place
from tests.waiting import wait_until

PROPOSE = Turn("", calls=(Call("ExitPlan", {"plan": "# Plan\n\nWrite it."}),))
WRITE = Turn("I write.", calls=(Call("Write", {"file_path": "made.txt", "content": "x\n"}),))


def test_background_result_is_waited_for(place: Place) -> None:
    place.shell.serve([Turn("All is done.")])
    session = place.start("--output-format", "json", "please work")
    found = json.loads(session)
    done = place.run("wait", found["session_id"])
    assert (done.code, done.out) == (0, "All is done.\n")
    record = place.record(found["session_id"])
    assert (record["state"], record["code"], record["title"]) == ("ended", 0, "please work")
    assert record["usd"] > 0
    assert json.loads(place.run("wait", record["id"], "--json").out)["result"] == "All is done."


@later
def test_process_is_detached(place: Place) -> None:
    place.shell.serve([WRITE])
    session = place.start("--permission-mode", "ask", "please work")
    pid = place.until(session, "asking")["pid"]
    assert os.getsid(pid) == pid != os.getsid(0)
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    assert fields[4] == "0"  # no controlling terminal
    assert os.readlink(f"/proc/{pid}/fd/0") == os.devnull
    assert os.readlink(f"/proc/{pid}/fd/1").endswith(f"background/{session}.log")
    os.kill(pid, signal.SIGHUP)
    assert place.run("stop", session).code == 0
    assert place.record(session)["code"] == 130


@later
def test_open_question_is_listed(place: Place) -> None:
    place.shell.serve([WRITE])
    session = place.start("--permission-mode", "ask", "please work")
    place.until(session, "asking")
    assert "asks: Write" in place.run("ps").out
    waited = place.run("wait", session, "--timeout", "0")
    assert waited.code == 124 and f"sagent attach {session}" in waited.err
    stopped = place.run("stop")
    assert (stopped.code, stopped.out) == (0, f"{session}\n")
    assert place.run("wait", session).code == 130
    assert not (place.shell.cwd / "made.txt").exists()
    again = place.run("stop", session)
    assert again.code == 0 and "does not run: stopped" in again.err


@later
def test_killed_session_is_told_apart(place: Place) -> None:
    place.shell.serve([WRITE, Turn("Later.")])
    session = place.start("--permission-mode", "ask", "please work")
    place.until(session, "asking")
    place.kill(session)
    assert place.record(session)["state"] == "lost"
    assert f"ended by the system; sagent --resume {session}" in place.run("ps").out
    waited = place.run("wait", session)
    assert waited.code == 1 and "ended by the system" in waited.err
    assert place.shell.run("--resume", session, "-p", "go on").out == "Later.\n"


@later
def test_second_start_of_a_session_fails(place: Place) -> None:
    place.shell.serve([WRITE])
    session = place.start("--permission-mode", "ask", "please work")
    place.until(session, "asking")
    again = place.shell.run("--bg", "--resume", session, "and more")
    assert again.code == 1 and "is in use by process" in again.err
    place.run("stop", session)


def test_bad_settings_do_not_hide_sessions(place: Place) -> None:
    config = Path(place.shell.environment["HOME"]) / ".config/sagent"
    config.mkdir(parents=True, exist_ok=True)
    (config / "config.toml").write_text("no_such_setting = 1\n")
    listed = place.run("ps")
    assert listed.code == 0 and "No session runs" in listed.out
    assert "no_such_setting" in listed.err


@later
def test_exit_code_is_that_of_the_run(place: Place) -> None:
    place.shell.serve([Fail(400, message="no such thing")], repeat_last=True)
    session = place.start("please work")
    waited = place.run("wait", session)
    assert waited.code == 1 and "no such thing" in waited.err
    assert place.record(session)["condition"] == "failed (1)"


@later
def test_children_end_with_the_session(place: Place) -> None:
    turn = Turn("I wait.", calls=(Call("Bash", {"command": "echo $$ > pid; sleep 600"}),))
    place.shell.serve([turn])
    session = place.start("--permission-mode", "full", "--sandbox", "off", "please work")
    pid = place.shell.cwd / "pid"
    wait_until(lambda: pid.exists() and bool(pid.read_text().strip()))
    assert place.run("stop", session).code == 0
    wait_until(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists())


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--bg",), "Nothing to do"),
        (("--bg", "--ephemeral", "x"), "--ephemeral does not go with --bg"),
        (("ps", "--output-format", "xml"), "give text or json"),
        (("wait",), "no session runs in the background"),
        (("stop", "nothing"), "no background session 'nothing'"),
    ],
)
def test_wrong_background_command(place: Place, argv: tuple[str, ...], said: str) -> None:
    done = place.run(*argv)
    assert done.code == 2 and said in done.err


@later
def test_session_that_cannot_open_is_told(place: Place) -> None:
    done = place.shell.run("--bg", "please work", model="nobody/none")
    assert done.code == 2 and "nobody" in done.err
    assert json.loads(place.run("ps", "--json").out) == []


def test_image_goes_to_the_background(place: Place) -> None:
    server = place.shell.serve([Turn("A dot.")])
    (place.shell.cwd / "dot.png").write_bytes(PNG)
    session = place.start("-i", "dot.png", "what is this?")
    assert place.run("wait", session).out == "A dot.\n"
    assert b"image/png" in server.requests[0].body
    assert "is no image" in place.shell.run("--bg", "-i", "/etc/passwd", "what is this?").err


@pytest.mark.parametrize("turns", [[PROPOSE], [Turn("# Plan\n\nWrite it.")]])
def test_plan_in_the_background(place: Place, turns: list[Turn]) -> None:
    place.shell.serve([*turns, Turn("Not asked for.")])
    session = place.start("--plan", "plan something")
    done = place.run("wait", session)
    assert (done.code, done.out) == (0, "# Plan\n\nWrite it.\n")
    assert place.record(session)["asks"] == []


def test_background_plan_that_is_none(place: Place) -> None:
    place.shell.serve([Turn("I have none.")])
    done = place.run("wait", place.start("--plan", "plan something"))
    assert done.code == 6 and "without a plan" in done.err


def test_end_is_noted_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = Record("s", "/s", "/", 1, os.uname().nodename, "/s.sock", "/s.log", 1.0, "task", "asking", ("Bash x",))
    make_directory(folder(tmp_path))
    write(tmp_path, record)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sagent.plugins.background.records.put", full)
    ended = replace(record, state="ended", asks=(), code=1, result={"result": "x" * 5_000})
    write_end(tmp_path, ended)
    found = find(tmp_path, "s")
    assert (found.state, found.code, found.result) == ("ended", 1, {}) and "sagent logs s" in found.note


def test_end_after_a_record_was_read_is_not_a_loss(tmp_path: Path) -> None:
    output = str(folder(tmp_path) / "s.log")
    record = Record("s", "/s", "/", 1, os.uname().nodename, "/s.sock", output, 1.0, "task")
    make_directory(folder(tmp_path))
    write(tmp_path, record)
    read = find(tmp_path, "s")
    assert read.is_lost and "--resume s" in read.condition
    write_end(tmp_path, replace(record, state="ended"))
    assert not read.is_lost and "--resume" not in read.condition
