"""What else goes wrong: a second process, a full or read-only disk, a clock that goes back, floods, deleted files."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sagent.lib.json import as_object, as_str
from sagent.messages import user
from sagent.session import entries as entries_module
from sagent.session.contents import MessageEntry, StoredMessage, Unknown
from sagent.session.entries import read_body
from sagent.session.folds import history, points
from sagent.session.log import read_log
from sagent.session.retention import glance, glances
from sagent.session.store import Session, latest, log_files, mark_left, sessions
from sagent.session.summary import summarize
from sagent.testing.server import Call, FakeProviderServer, Received, Script, Step, Turn
from tests.depth import later, slow
from tests.forks import Forks
from tests.intact import faults
from tests.walls import without_shortfall
from tests.warm import warm

CHECKOUT = Path(__file__).parents[2]
FLAGS = ["--model", "anthropic/claude-sonnet-4-6", "--permission-mode", "full"]
PROGRAM = [sys.executable, "-m", "sagent.bin.cli", *FLAGS]
# A disk of its own, in a namespace that ends with the command; what is on it is copied to $KEPT in the end.
ON_OWN_DISK = """
mount -t tmpfs -o "size=$SIZE" none "$SAGENT_STATE_DIR" || exit 99
[ -d "$BEFORE" ] && cp -a "$BEFORE/." "$SAGENT_STATE_DIR/"
[ -n "$FILL" ] && head -c "$FILL" /dev/zero > "$SAGENT_STATE_DIR/ballast"
[ -n "$READ_ONLY" ] && mount -o remount,ro none "$SAGENT_STATE_DIR"
"$@"
code=$?
cp -a "$SAGENT_STATE_DIR/." "$KEPT/"
rm -f "$KEPT/ballast"
exit $code
"""


class Place:
    """A home and a working directory, with a provider on loopback."""

    def __init__(self, home: Path, stack: ExitStack, forks: Forks) -> None:
        self.home, self.work, self.state, self.kept = home, home / "work", home / "state", home / "kept"
        for directory in (self.work, self.kept):
            directory.mkdir()
        warm(self.state)
        self.environment = {
            "PATH": os.environ["PATH"], "TMPDIR": os.environ["TMPDIR"], "HOME": str(home), "PYTHONPATH": str(CHECKOUT),
            "SAGENT_STATE_DIR": str(self.state), "ANTHROPIC_API_KEY": "k", "KEPT": str(self.kept),
        }  # fmt: skip
        self._stack, self._forks = stack, forks

    def serve(self, script: Script) -> FakeProviderServer:
        server = self._stack.enter_context(FakeProviderServer(script).in_thread())
        self.environment["ANTHROPIC_BASE_URL"] = server.url
        return server

    def run(self, *argv: str, before: tuple[str, ...] = (), **more: str) -> subprocess.CompletedProcess[str]:
        environment = {**self.environment, **more}
        if not before:
            done = self._forks.run(*FLAGS, *argv, cwd=self.work, environment=environment)
            out, err = done.stdout.decode(), done.stderr.decode()
            return subprocess.CompletedProcess(done.args, done.returncode, out, err)
        return subprocess.run(
            [*before, *PROGRAM, *argv], cwd=self.work, env=environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def run_on_disk(self, size: str, *argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """With a state directory that has a disk of its own."""
        own = ("unshare", "-rm", "sh", "-c", ON_OWN_DISK, "sh")
        done = self.run(*argv, before=own, SIZE=size, **environment)
        assert done.returncode != 99, done.stderr
        return done

    def kept_sessions(self) -> list[Path]:
        return list(sessions(self.kept))


@pytest.fixture
def place(tmp_path: Path, forks: Forks) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(tmp_path, stack, forks)


def warnings(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What is on its stderr, but for where the session is."""
    return [line for line in without_shortfall(done.stderr).splitlines() if not line.startswith("sagent: session ")]


def bash(command: str) -> Turn:
    return Turn(calls=(Call("Bash", {"command": command}),))


def test_second_process_is_told_the_holder(place: Place) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def answer(_: Received) -> Step:
        begun.set()
        assert go_on.wait(60)
        return Turn(text="done")

    server = place.serve(answer)
    first = subprocess.Popen(
        [*PROGRAM, "go"], cwd=place.work, env=place.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    try:
        assert begun.wait(60)
        second = place.run("--continue", "me too")
    finally:
        go_on.set()
        out, _ = first.communicate(timeout=60)
    assert (second.returncode, second.stdout) == (1, "")
    assert f"is in use by process {first.pid}" in second.stderr
    assert "End that process or wait for it" in second.stderr
    assert (first.returncode, out) == (0, b"done\n")
    assert len(server.requests) == 1
    assert faults(latest(place.state, place.work)) == []


@later
@pytest.mark.needs("netns")  # a user's own namespaces
@pytest.mark.needs("bash")
def test_full_disk_is_told_once_and_keeps_told(place: Place) -> None:
    steps = [bash(f"seq {number} {number + 5000}") for number in range(12)]
    place.serve([*steps, Turn(text="all done")])
    done = place.run_on_disk("256k", "--output-format", "stream-json", "go")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, lines[-1]["result"], lines[-1]["is_error"]) == (0, "all done", False), done.stderr
    (notice,) = [place for place, line in enumerate(lines) if line["type"] == "notice"]
    assert "No space left on device" in lines[notice]["text"]
    assert "nothing more is saved" in lines[notice]["text"]
    told = {line["call_id"] for line in lines[:notice] if line["type"] == "tool_finished"}
    assert 0 < len(told) < len(steps)
    (session,) = place.kept_sessions()
    assert faults(session) == []
    logged = {
        as_str(as_object(read_body(entry).get("result")).get("call_id"))
        for entry in read_log(session / "root.jsonl")
        if entry.kind == "result"
    }
    assert told <= logged
    server = place.serve([Turn(text="went on")])
    again = place.run("--continue", "go on", SAGENT_STATE_DIR=str(place.kept))
    assert (again.returncode, again.stdout, warnings(again)) == (0, "went on\n", [])
    asked = json.dumps(server.requests[0].json["messages"])
    assert all(call in asked for call in told)


@later
@pytest.mark.needs("netns")
@pytest.mark.needs("bash")
def test_full_disk_for_output_keeps_the_log(place: Place) -> None:
    server = place.serve([bash("head -c 3000000 /dev/zero | tr '\\0' x"), Turn(text="did it")])
    done = place.run_on_disk("1m", "go")
    assert (done.returncode, done.stdout) == (0, "did it\n"), done.stderr
    told = json.dumps(server.requests[1].json["messages"])
    assert "No space left on device" in told
    assert "x" * 100 in told  # of what there was, as much as there is room for
    (session,) = place.kept_sessions()
    assert faults(session) == []
    assert history(read_log(session / "root.jsonl"), lambda _: None)[-1].content == "did it"
    assert not list(session.glob("blobs/*"))  # nothing half


@later
@pytest.mark.costly
@pytest.mark.needs("netns")
@pytest.mark.parametrize("how", ["full", "read-only"])
def test_unrecordable_run_goes_on(place: Place, how: str) -> None:
    place.serve([Turn(text="done")])
    done = place.run_on_disk("64k", "go", **({"FILL": "65536"} if how == "full" else {"READ_ONLY": "1"}))
    why = "No space left on device" if how == "full" else "Read-only file system"
    assert (done.returncode, done.stdout) == (0, "done\n")
    (warning,) = warnings(done)
    assert all(part in warning for part in ("cannot be saved", why, "SAGENT_STATE_DIR", "not recorded"))


@later
@pytest.mark.costly
@pytest.mark.needs("netns")
@pytest.mark.parametrize("flags", [["--continue"], ["--session", "NAME"]])
def test_unwritable_session_is_not_continued(place: Place, flags: list[str]) -> None:
    server = place.serve([Turn(text="done")])
    assert place.run("remember this").returncode == 0
    name = str(latest(place.state, place.work))
    argv = [name if flag == "NAME" else flag for flag in flags]
    before = place.home / "before"
    shutil.move(place.state, before)
    place.state.mkdir()
    done = place.run_on_disk("1m", *argv, "go on", BEFORE=str(before), READ_ONLY="1")
    assert (done.returncode, done.stdout) == (2, "")
    assert all(part in done.stderr for part in ("cannot be opened for writing", "Read-only file system"))
    assert len(server.requests) == 1


@later
@pytest.mark.needs("netns")
def test_read_only_workspace_is_for_the_model(place: Place) -> None:
    server = place.serve(
        [Turn(calls=(Call("Write", {"file_path": "a.txt", "content": "x"}),)), Turn(text="I could not")]
    )
    script = 'mount -t tmpfs none "$PWD" && cd "$PWD" && mount -o remount,ro none "$PWD" && exec "$@"'
    done = place.run("go", before=("unshare", "-rm", "sh", "-c", script, "sh"))
    assert (done.returncode, done.stdout, warnings(done)) == (0, "I could not\n", [])
    assert "Read-only file system" in json.dumps(server.requests[1].json["messages"])
    assert faults(latest(place.state, place.work)) == []


def test_clock_going_back_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Backwards(datetime):
        hours = 0

        @classmethod
        def now(cls, tz: object = None) -> datetime:
            cls.hours += 1
            return datetime(2026, 11, 21, 3, tzinfo=UTC) - timedelta(hours=cls.hours)

    monkeypatch.setattr(entries_module, "datetime", Backwards)
    with Session.create(tmp_path / "state", tmp_path) as session:
        log = session.log()
        first = log.append(MessageEntry(StoredMessage.of(user("first"), None)))
        log.append(MessageEntry(StoredMessage.of(user("second"), None)))
        log.child("root/a").append(Unknown("opened", {}))
        log.append(Unknown("spawned", {"agent": "root/a", "entry": log.child("root/a").head}))
    with Session.open(session.path) as again:
        last = again.log().append(MessageEntry(StoredMessage.of(user("third"), None)))
        assert last.at > first.at
        assert [message.content for message in history(again.log().contents(), again.log().blobs.get)] == [
            "first", "second", "third",
        ]  # fmt: skip
        assert [point.text for point in points(again.log().contents())] == ["first", "second", "third"]
    assert faults(session.path, last.id) == []
    assert summarize(session.path).problem == ""
    assert glance(session.path).title == "first"


def test_last_opened_is_last_despite_clock(tmp_path: Path) -> None:
    state = tmp_path / "state"
    made: list[Path] = []
    for number in range(3):
        with Session.create(state, tmp_path) as session:
            session.log().append(MessageEntry(StoredMessage.of(user(f"{number}"), None)))
        made.append(session.path)
        os.utime(session.path / "root.jsonl", (1e9 + number, 1e9 + number))
    assert latest(state, tmp_path) == made[2]
    mark_left(made[0])  # by a person, after others have ended beside it
    assert latest(state, tmp_path) == made[0]
    ahead = datetime.now(UTC).timestamp() + 3600
    os.utime(made[0] / "root.jsonl", (ahead, ahead))  # written before the clock was set back
    assert latest(state, tmp_path) == made[2]
    with Session.open(made[1]):
        pass
    assert latest(state, tmp_path) == made[1]
    assert len(glances(state, tmp_path)) == 3


FLOODED = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], capture_output=True)
sys.stderr.buffer.write(done.stderr)
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@later
@pytest.mark.needs("bash")
@pytest.mark.needs("linux")  # where ru_maxrss is in KiB
@pytest.mark.parametrize("line", ["one line", pytest.param("many lines", marks=slow)])
def test_large_output_is_kept_not_held(place: Place, line: str) -> None:
    size, end = 100_000_000, "x" if line == "one line" else "\\n"
    server = place.serve([bash(f"head -c {size} /dev/zero | tr '\\0' '{end}'"), Turn(text="done")])
    done = place.run("go", before=(sys.executable, "-c", FLOODED))
    code, peak = map(int, done.stdout.split())
    assert (code, warnings(done)) == (0, [])
    assert peak < 120 * 1024
    assert len(server.requests[1].body) < 200_000
    session = latest(place.state, place.work)
    (blob,) = session.glob("blobs/*")
    assert blob.stat().st_size == size
    assert str(blob) in json.dumps(server.requests[1].json["messages"])
    assert blob.name == hashlib.sha256(end.encode().decode("unicode_escape").encode() * size).hexdigest()
    assert faults(session) == []


@later
@pytest.mark.needs("bash")
def test_deleted_session_is_told_once(place: Place) -> None:
    def delete(_: Received) -> Step:
        shutil.rmtree(latest(place.state, place.work))
        return bash("echo hello")

    steps: list[object] = [
        bash("echo before"),
        delete,
        bash("head -c 100000 /dev/zero | tr '\\0' x"),
        Turn(text="done"),
    ]

    def answer(request: Received) -> Step:
        step = steps.pop(0)
        return step(request) if callable(step) else step  # pyright: ignore[reportReturnType]

    server = place.serve(answer)
    done = place.run("go")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert done.stderr.count("it was deleted while it was in use") == 1
    assert "Traceback" not in done.stderr
    assert "hello" in json.dumps(server.requests[2].json["messages"])
    assert list(sessions(place.state)) == []
    assert [log_files(path) for path in sessions(place.state)] == []


def spawn_after(text: str) -> Turn:
    return Turn(text=text, calls=(Call("AgentSpawn", {"prompt": "child, do it", "name": "a"}),))


@later
@pytest.mark.costly
@pytest.mark.needs("netns")
@pytest.mark.parametrize("cap", [["--max-budget-usd", "5"], []])
def test_unlogged_child_makes_no_capped_call(place: Place, cap: list[str]) -> None:
    words = "".join(map(str, range(80_000)))
    server = place.serve([spawn_after(words), Turn(text="child's answer"), Turn(text="all done")])
    done = place.run_on_disk("256k", *cap, "go")
    assert (done.returncode, len(server.requests)) == ((3, 1) if cap else (0, 3))
    assert done.stderr.count("nothing more is saved") == 1
    (session,) = place.kept_sessions()
    assert faults(session) == []


def test_deleted_session_is_not_redone_for_child(place: Place) -> None:
    steps = iter([spawn_after("I ask."), Turn(text="child's answer"), Turn(text="done")])

    def answer(_: Received) -> Step:
        for session in list(sessions(place.state)):
            shutil.rmtree(session)
        return next(steps)

    place.serve(answer)
    assert place.run("go").stdout == "done\n"
    assert not list(place.state.rglob("*.jsonl"))


def test_child_of_moved_session_is_refused(place: Place) -> None:
    moved, steps = place.home / "moved", iter([spawn_after("I ask."), Turn(text="done")])

    def answer(_: Received) -> Step:
        for session in list(sessions(place.state)):
            session.rename(moved)
        return next(steps)

    server = place.serve(answer)
    assert place.run("--max-budget-usd", "5", "go").returncode == 0
    assert "No such file or directory" in json.dumps(server.requests[1].json["messages"])
    assert not list(place.state.rglob("*.jsonl"))
    assert faults(moved) == []


def test_latest_prefers_a_free_session(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Session.create(state, tmp_path) as left, Session.create(state, tmp_path) as busy:
        for at, session in enumerate((left, busy)):  # the busy one is written last
            session.log().append(MessageEntry(StoredMessage.of(user("hello"), None)))
            os.utime(session.path / "root.jsonl", (1e9 + at, 1e9 + at))
        left.close()
        assert latest(state, tmp_path) == left.path
        with Session.open(left.path):
            assert latest(state, tmp_path) == busy.path  # who opens it is told who holds it
