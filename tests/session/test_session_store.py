"""Sessions are made, found, locked, listed and deleted."""

import os
import re
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from sagent.codec import VERSION
from sagent.errors import SessionBusy, SessionCorrupt, SessionNotFound, UsageError
from sagent.messages import user
from sagent.session.contents import ChargeEntry, Label, MessageEntry, Opened, Spawned, StoredMessage, Unknown
from sagent.session.lock import Lock
from sagent.session.store import Session, delete, find, latest, sessions
from sagent.session.summary import summarize
from sagent.usage import Charge, Usage
from tests.forks import CHECKOUT

HOLDER = """
import sys
from pathlib import Path
from sagent.session.store import Session

with Session.open(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def make(state: Path, cwd: Path, prompt: str = "do it", label: Label | None = None) -> Path:
    with Session.create(state, cwd) as session:
        log = session.log()
        log.append(Opened(session.id, "root", str(cwd), {}))
        _ = label and log.append(label)
        log.append(MessageEntry(StoredMessage.of(user(prompt), None)))
    return session.path


# -- one writer --------------------------------------------------------------------------------------------------------


def test_second_process_is_told_who_holds(state: Path, tmp_path: Path):
    path = make(state, tmp_path)
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(SessionBusy) as caught:
            Session.open(path)
        assert f"process {holder.pid} " in str(caught.value)
        assert re.search(r"since \d{4}-\d\d-\d\dT", str(caught.value))
        with pytest.raises(SessionBusy):
            delete(path)
        assert [summarize(path).title for path in sessions(state)] == ["do it"]  # reading needs no lock
        holder.kill()
    Session.open(path).close()


def test_process_cannot_open_session_twice(state: Path, tmp_path: Path):
    path = make(state, tmp_path)
    with Session.open(path), pytest.raises(SessionBusy, match=f"process {os.getpid()} "):
        Session.open(path)
    Session.open(path).close()


def test_unopened_session_is_not_held(state: Path, tmp_path: Path):
    path = make(state, tmp_path)
    good = (path / "root.jsonl").read_bytes()
    (path / "root.jsonl").write_bytes(good.replace(b"do it", b"do at"))
    with pytest.raises(SessionCorrupt):
        Session.open(path)
    (path / "root.jsonl").write_bytes(good)
    Session.open(path).close()


def test_unnamed_holder_still_holds(tmp_path: Path):
    lock = Lock(tmp_path)
    (tmp_path / "lock").write_text("")
    with pytest.raises(SessionBusy, match="another process"):
        Lock(tmp_path)
    lock.close()


@pytest.mark.parametrize("name", ["lock", "root.jsonl", "../last-opened"])
def test_nothing_is_written_through_a_link(state: Path, tmp_path: Path, name: str):
    path, precious = make(state, tmp_path), tmp_path / "precious"
    whole = (path / "root.jsonl").read_bytes()[:-1]
    precious.write_bytes(whole)
    (path / name).unlink()
    (path / name).symlink_to(precious)
    with pytest.raises(OSError, match="symbolic links") if ".." not in name else nullcontext():
        Session.open(path).close()
    assert precious.read_bytes() == whole


# -- finding -----------------------------------------------------------------------------------------------------------


def test_ids_sort_by_time_and_directory(state: Path, tmp_path: Path):
    here, there = tmp_path / "a b" / "proj", tmp_path / "a-b" / "proj"
    mine, theirs = make(state, here), make(state, there)
    assert mine.parent != theirs.parent  # the same after slugging, yet not the same
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{6}", mine.name)
    assert mine.parent.parent == state / "sessions"
    assert list(sessions(state, here)) == [mine]
    assert set(sessions(state)) == {mine, theirs}


def test_directory_is_same_through_a_link(state: Path, tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    path = make(state, tmp_path / "real")
    assert latest(state, tmp_path / "link") == path


def test_latest_is_the_last_written(state: Path, tmp_path: Path):
    first, second = make(state, tmp_path), make(state, tmp_path)
    os.utime(first / "root.jsonl", ns=(1, 1))
    assert latest(state, tmp_path) == second
    os.utime(second / "root.jsonl", ns=(0, 0))
    assert latest(state, tmp_path) == first
    with pytest.raises(SessionNotFound, match="--continue"):
        latest(state, tmp_path / "elsewhere")


def test_latest_is_never_held_by_a_command(state: Path, tmp_path: Path) -> None:
    persons = make(state, tmp_path, label=Label("mine"))
    make(state, tmp_path, label=Label("Review", by="review"))
    assert latest(state, tmp_path) == persons


def test_session_is_found_by_path_or_id(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = make(state, tmp_path)
    monkeypatch.chdir(path.parent)
    for name in (str(path), str(path / "root.jsonl"), path.name, path.name[:-3]):
        assert find(state, name) == path
    monkeypatch.chdir("/")
    assert find(state, path.name) == path
    for name in ("", "nope", str(tmp_path)):
        with pytest.raises(SessionNotFound):
            find(state, name)


def test_ambiguous_id_is_refused_unless_local(state: Path, tmp_path: Path):
    here, there = make(state, tmp_path / "here"), make(state, tmp_path / "there")
    with pytest.raises(UsageError) as caught:
        find(state, "2")
    assert here.name in str(caught.value)
    assert there.name in str(caught.value)
    assert find(state, "2", tmp_path / "here") == here


def test_session_may_be_at_any_new_path(tmp_path: Path):
    Session.create_at(tmp_path / "deep" / "here").close()
    Session.open(tmp_path / "deep" / "here").close()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    with pytest.raises(UsageError, match="not empty"):
        Session.create_at(tmp_path / "full")
    with pytest.raises(UsageError, match="not empty"):
        Session.create_at(tmp_path / "full" / "file")
    with pytest.raises(SessionNotFound):
        Session.open(tmp_path / "full")


def test_unusable_state_directory_is_oserror(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        Session.create(tmp_path / "file" / "state", tmp_path)


@pytest.mark.needs("not-root")
def test_read_only_state_directory_is_oserror(tmp_path: Path):
    (tmp_path / "state").mkdir(mode=0o500)
    with pytest.raises(PermissionError):
        Session.create(tmp_path / "state", tmp_path)


def test_session_of_newer_version_is_refused(state: Path, tmp_path: Path):
    with Session.create(state, tmp_path) as session:
        session.log().append(Unknown("opened", {"version": VERSION + 1}))
    with pytest.raises(UsageError, match="newer sagent"):
        Session.open(session.path)


def test_opening_removes_dead_drafts(state: Path, tmp_path: Path):
    path = make(state, tmp_path)
    with Session.open(path) as session:
        left = session.log().blobs.scratch()
        left.write_bytes(b"half")
        kept = session.log().blobs.put(b"whole")
    with Session.open(path):
        assert not left.exists()
        assert kept.exists()


# -- listing and deleting ----------------------------------------------------------------------------------------------


def test_listing_tells_session_topics(state: Path, tmp_path: Path):
    old = make(state, tmp_path, "fix\n the   tests")
    with Session.create(state, tmp_path) as session:
        log = session.log()
        log.append(Opened(session.id, "root", "/work", {}))
        log.append(MessageEntry(StoredMessage.of(user("x" * 200), None)))
        bill = Charge("m", Usage(1), usd=Decimal("0.25"), role="executor", provider="p", agent="root/a")
        log.append(ChargeEntry(replace(bill, agent="root")))
        log.append(Spawned("root/a", log.child("root/a").append(ChargeEntry(bill)).id))
        last = log.child("root/a").append(ChargeEntry(replace(bill, model="n", usd=None)))
        log.blobs.put(b"y" * 1000)
    first, second = summarize(session.path), summarize(old)
    assert (first.path, second.path) == (session.path, old)
    assert (first.cwd, first.entries, first.usd, first.unpriced) == ("/work", 6, Decimal("0.5"), ("p/n",))
    assert (first.last, first.problem) == (last.at, "")
    assert first.size > 1000
    assert first.title == "x" * 79 + "…"
    assert second.title == "fix the tests"


def test_damaged_session_is_listed_with_why(state: Path, tmp_path: Path):
    path = make(state, tmp_path)
    file = path / "root.jsonl"
    file.write_bytes(file.read_bytes() + b"{}\n")
    found = summarize(path)
    assert found.title == "do it"
    assert f"{file}, line 3" in found.problem


def test_deleting_removes_one_session_only(state: Path, tmp_path: Path):
    path, other = make(state, tmp_path), make(state, tmp_path)
    with Session.open(path) as session:
        session.log("root/a/b").append(Unknown("opened", {}))
        session.log().blobs.put(b"x")
    delete(path)
    assert not path.exists()
    assert list(sessions(state)) == [other]
    with pytest.raises(SessionNotFound):
        delete(path)
    with pytest.raises(SessionNotFound):
        delete(tmp_path)
    (other / "notes.txt").write_text("mine")
    delete(other)
    assert [file.name for file in other.iterdir()] == ["notes.txt"]


FORKED = """
import os, sys
from pathlib import Path
from sagent.errors import SessionBusy
from sagent.session.lock import Lock

place = Path(sys.argv[1])
lock = Lock(place)
if not (child := os.fork()):
    lock.close()  # what is the other's stays the other's
    os._exit(0)
os.waitpid(child, 0)
try:
    Lock(place)
except SessionBusy:
    print("held")
read, write = os.pipe()
if not os.fork():
    os.close(write)
    os.read(read, 1)  # as long as the other lives
    os._exit(0)
lock.close()
Lock(place).close()
print("free")
"""


def test_fork_neither_holds_nor_frees_lock(tmp_path: Path) -> None:
    argv = [sys.executable, "-W", "error", "-c", FORKED, str(tmp_path)]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "held\nfree\n"


COPY = """
import os, resource, signal, sys
from sagent.session.blobs import link

os.link = lambda source, target: (_ for _ in ()).throw(OSError)  # as a file system without links
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))  # ends it in the middle
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
link(*sys.argv[1:])
"""


def test_copy_that_was_killed_is_no_blob(state: Path, tmp_path: Path) -> None:
    path = make(state, tmp_path)
    source, target = tmp_path / "whole", path / "outputs" / ("0" * 64)
    source.write_bytes(b"x" * 10_000)
    target.parent.mkdir()
    (path / "blobs").mkdir()
    done = subprocess.run([sys.executable, "-c", COPY, source, target], cwd=CHECKOUT, check=False)
    assert done.returncode < 0 and not target.exists()
    assert len([*target.parent.iterdir()]) == 1
    Session.open(path).close()
    assert not [*target.parent.iterdir()]


def test_failed_session_leaves_no_directory(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="too long"):
        Session.create_at(tmp_path / "a/b" / ("x" * 300))
    assert not (tmp_path / "a").exists()
    session = Session.create_at(tmp_path / "kept/b/c")
    (tmp_path / "kept/mine").touch()
    session.close_begun(session.begin(tmp_path))
    assert [each.name for each in tmp_path.rglob("*")] == ["kept", "mine"]
