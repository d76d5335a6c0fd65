"""`sagent attach`, `logs` and `answer` on a background session, and what becomes of its viewers."""

import asyncio
import json
import os
import signal
import socket
from pathlib import Path

import pytest

from sagent.errors import SagentError
from sagent.plugins.background.commands import logs
from sagent.plugins.background.peer import LocalPeer
from sagent.plugins.background.place import ForeignSocketError
from sagent.plugins.background.records import Record, find, write
from sagent.plugins.hosting.questions import Question
from sagent.session.view import LogView
from sagent.testing.server import Call, Turn
from tests.depth import later
from tests.plugins.background.conftest import Place
from tests.waiting import wait_until

WRITE = Turn("I write.", calls=(Call("Write", {"file_path": "made.txt", "content": "x\n"}),))
ASK = ("--permission-mode", "ask")


def record_of(place: Place, session: str) -> tuple[Path, Record]:
    """Return the state directory and the record of a session."""
    state = Path(place.shell.environment["HOME"]) / ".local/state/sagent"
    return state, find(state, session)


@later
def test_question_is_answered_by_command(place: Place) -> None:
    place.shell.serve([WRITE, Turn("All is done.")])
    session = place.start(*ASK, "please work")
    place.until(session, "asking")
    shown = place.run("answer", session)
    assert "wants to call Write" in shown.out and "y, or n and why" in shown.out
    wrong = place.run("answer", session, "perhaps")
    assert wrong.code == 2 and "give y, or n and why" in wrong.err
    assert place.run("answer", session, "y").code == 0
    assert place.run("wait", session).out == "All is done.\n"
    assert (place.shell.cwd / "made.txt").read_text() == "x\n"
    late = place.run("answer", session, "y")
    assert late.code == 2 and "does not run: done" in late.err


@later
def test_logs_follow_to_the_end(place: Place) -> None:
    place.shell.serve([WRITE, Turn("All is done.")])
    session = place.start(*ASK, "please work")
    place.until(session, "asking")
    following = place.shell.start("logs", "-f", session, model="")
    assert following.stdout is not None
    assert following.stdout.readline() == b"\xe2\x80\xba please work\n"
    assert place.run("answer", session, "n", "not", "there").code == 0
    rest = following.stdout.read().decode()
    assert "I write." in rest and "not there" in rest and "All is done." in rest
    assert following.wait() == 0
    assert len(json.loads(place.run("logs", session, "--json").out)["messages"]) == 4


@later
@pytest.mark.parametrize("moment", ["before the log is read", "after the log was read"])
def test_logs_lose_no_event_at_their_start(
    place: Place, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], moment: str
) -> None:
    """A session that goes on and ends while `logs -f` begins is shown whole, and nothing of it twice."""
    again = Turn("I write.", calls=(Call("Write", {"file_path": "other.txt", "content": "y\n"}),))
    place.shell.serve([WRITE, again, Turn("All is done.")])
    session = place.start(*ASK, "I write.")  # the same words as the replies
    place.until(session, "asking")
    for name, value in place.shell.environment.items():
        monkeypatch.setenv(name, value)
    read = logs.read_contents

    def go_on() -> None:
        for file in ("made.txt", "other.txt"):
            wait_until(lambda file=file: file in "".join(place.raw(session)["asks"]))
            assert place.run("answer", session, "n", "not", "there").code == 0
        wait_until(lambda: place.raw(session)["state"] in ("idle", "ended"))

    def read_contents(file: Path) -> LogView:
        if moment == "before the log is read":
            go_on()
        log = read(file)
        if moment == "after the log was read":
            go_on()
        return log

    monkeypatch.setattr(logs, "read_contents", read_contents)
    assert logs.run_logs(["-f", session]) == 0
    shown = capfd.readouterr().out
    assert shown.count("I write.") == 3, shown
    assert shown.count("not there") == 2, shown
    assert shown.count("All is done.") == 1, shown


@later
def test_logs_open_no_session_that_has_ended(
    place: Place, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    place.shell.serve([Turn("All is done.")])
    session = place.start("please work")
    place.until(session, "ended")
    pid = place.raw(session)["pid"]
    for name, value in place.shell.environment.items():
        monkeypatch.setenv(name, value)
    assert logs.run_logs(["-f", session]) == 0
    shown = capfd.readouterr()
    assert shown.out.count("All is done.") == 1 and "done" in shown.err
    assert place.raw(session)["pid"] == pid


@later
def test_two_viewers_share_a_question(place: Place) -> None:
    place.shell.serve([WRITE, Turn("All is done."), Turn("And more.")])
    session = place.start(*ASK, "please work")
    place.until(session, "asking")
    state, record = record_of(place, session)
    ended = list[str]()

    async def allow(question: Question) -> str | None:
        assert question.tool == "Write"
        return None

    async def think(question: Question) -> str | None:
        try:
            return await asyncio.Event().wait() and None
        finally:
            ended.append(question.id)

    async def both() -> None:
        async with LocalPeer.attached(state, record, think) as slow, asyncio.timeout(60):
            async with LocalPeer.attached(state, record, allow) as quick:
                assert (await quick.wait()).content == "All is done."
                assert (await slow.wait()).content == "All is done."
                assert len(ended) == 1
                quick.send("more")
                assert (await quick.wait()).content == "And more."
            assert place.raw(session)["state"] != "ended"  # somebody is attached
            with pytest.raises(SagentError, match="no longer open"):
                await slow.ask(op="answer", question="none", allow=True)

    asyncio.run(both())
    place.until(session, "ended")
    assert place.run("wait", session).out == "And more.\n"


@later
def test_killed_viewer_leaves_the_question(place: Place) -> None:
    place.shell.serve([WRITE, Turn("All is done.")])
    session = place.start(*ASK, "please work")
    place.until(session, "asking")
    viewer = place.shell.start("attach", session, model="")
    assert viewer.stdout is not None
    assert session in viewer.stdout.readline().decode()
    viewer.kill()
    viewer.wait()
    assert place.record(session)["state"] == "asking"
    assert place.run("answer", session, "y").code == 0
    assert place.run("wait", session).out == "All is done.\n"


@later
def test_session_killed_while_attached(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.shell.serve([WRITE, Turn("Opened again.")])
    session = place.start(*ASK, "please work")
    place.until(session, "asking")
    state, record = record_of(place, session)

    for name, value in place.shell.environment.items():
        monkeypatch.setenv(name, value)

    async def follow() -> None:
        async with LocalPeer.attached(state, record) as peer, asyncio.timeout(60):
            os.kill(record.pid, signal.SIGKILL)
            with pytest.raises(SagentError, match="has ended"):
                await peer.wait()
            peer.send("go on")  # another process opens it
            assert (await peer.wait()).content == "Opened again."
            assert peer.record.pid != record.pid

    asyncio.run(follow())
    assert place.until(session, "ended")["code"] == 0


@later
def test_stop_ends_an_attached_viewer(place: Place) -> None:
    place.shell.serve([WRITE])
    session = place.start(*ASK, "please work")
    place.until(session, "asking")
    viewer = place.shell.start("attach", session, model="")
    assert viewer.stdout is not None
    assert session in viewer.stdout.readline().decode()
    assert place.run("stop", session).code == 0
    assert b"interrupted" in viewer.communicate()[1]
    assert viewer.returncode == 130


@later
def test_lost_socket_is_made_again(place: Place) -> None:
    place.shell.serve([WRITE])
    session = place.start(*ASK, "please work")
    path = Path(place.until(session, "asking")["socket"])
    path.unlink()
    wait_until(path.exists)
    assert "wants to call Write" in place.run("answer", session).out
    assert place.run("stop", session).code == 0
    assert not path.exists()


@later
def test_requests_that_are_none(place: Place) -> None:
    place.shell.serve([WRITE])
    session = place.start(*ASK, "please work")
    path = place.until(session, "asking")["socket"]
    for sent in (b"\xff\n", b"[]\n", b'{"op": 1}\n', b'{"op": "prompt"}\n', b"[" * 10_000 + b"\n"):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.sendall(sent)
            assert b'"error"' in client.makefile("rb").readline()
    assert place.run("stop", session).code == 0


def test_record_with_foreign_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind("s.sock")
        record = Record("x", "", "", 1, os.uname().nodename, "s.sock", str(tmp_path / "none"), 0.0)
        (tmp_path / "background").mkdir()
        write(tmp_path, record)
        monkeypatch.setattr(Record, "is_open", True)
        monkeypatch.setattr(os, "getuid", lambda: 12_345)

        async def attach() -> None:
            async with LocalPeer.attached(tmp_path, record):
                pass

        with pytest.raises(ForeignSocketError, match="belongs to another user"):
            asyncio.run(attach())
