"""A log on disk: nothing acknowledged is lost, and no byte changes unseen."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.errors import SessionCorrupt
from sagent.lib.json import canonical_bytes, json_freeze, sha256_hex
from sagent.messages import ToolCall, ToolResult, assistant, user
from sagent.session.blobs import BlobDirectory
from sagent.session.contents import ChargeEntry, MessageEntry, Opened, StoredMessage, Unknown
from sagent.session.entries import read_body
from sagent.session.folds import history
from sagent.session.log import FileLog, read_log
from sagent.session.store import Session
from sagent.usage import Charge, Usage
from tests.depth import deep, later


def open_log(session: Path) -> FileLog:
    return FileLog(session, blobs=BlobDirectory(session / "blobs"))


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """A session with a small log."""
    with Session.create_at(tmp_path / "session") as made:
        log = made.log()
        log.append(Opened(made.id, "root", "/work", {"python": "3"}))
        log.append(MessageEntry(StoredMessage.of(user("say \u201chello\u201d\n\t\u00e9"), None)))
        call = ToolCall("1", "Read", json_freeze({"n": [1, 2.5, None, True]}))
        log.append(MessageEntry(StoredMessage.of(assistant("", call, stop="tool_use"), None)))
        log.append(ChargeEntry(Charge("b", Usage(1, 2), role="executor", provider="a", agent="root")))
    return made.path


def test_files_are_for_their_owner_alone(tmp_path: Path):
    with Session.create(tmp_path / "state", tmp_path) as session:
        session.log("root/review").append(Unknown("opened", {}))
        session.log().blobs.put(b"x")
        adopted = session.log().blobs.scratch()
        adopted.write_bytes(b"y")
        adopted.chmod(0o644)
        session.log().blobs.adopt(adopted)
        modes = {path: path.stat().st_mode & 0o777 for path in (tmp_path / "state").rglob("*")}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert len(modes) > 8


def test_each_agent_has_its_file(tmp_path: Path):
    with Session.create_at(tmp_path / "s") as session:
        session.log().child("root/review/2").append(Unknown("opened", {}))
        session.log("root/review/2").append(Unknown("notice", {}))
    assert len(list(read_log(tmp_path / "s" / "root" / "review" / "2.jsonl"))) == 2
    assert (tmp_path / "s" / "root.jsonl").read_bytes() == b""


def test_line_is_canonical_json_behind_its_id(session: Path):
    for line in (session / "root.jsonl").read_bytes().splitlines():
        members = json.loads(line)
        entry_id = members.pop("id")
        assert line == b'{"id":"%b",' % entry_id.encode() + canonical_bytes(members)[1:]
        assert sha256_hex(canonical_bytes(members)) == entry_id


def test_log_cut_anywhere_loses_torn_tail_only(session: Path):
    file = session / "root.jsonl"
    whole = file.read_bytes()
    entries = list(read_log(file))
    ends = [0]
    for line in whole.splitlines(keepends=True):
        ends.append(ends[-1] + len(line))
    for cut in range(len(whole) + 1):
        file.write_bytes(whole[:cut])
        complete = sum(end <= cut for end in ends) - 1
        assert list(read_log(file)) == entries[:complete]
        log = open_log(session)
        assert log.torn == cut - ends[complete]
        assert log.head == (entries[complete - 1].id if complete else "")
        assert file.stat().st_size == ends[complete]
        new = log.append(MessageEntry(StoredMessage.of(user("on"), None)))
        assert list(log.entries()) == [*entries[:complete], new]
        assert history(log.entries(), log.blobs.get)[-1] == user("on")
        log.close()


def test_no_byte_can_change_unseen(session: Path):
    file = session / "root.jsonl"
    whole = file.read_bytes()
    for place in {*range(0, len(whole), deep(5, 1)), len(whole) - 1}:
        for flip in (0x01, 0x20, whole[place] ^ 0x0A, whole[place] ^ ord(" ")):
            if flip == 0:
                continue
            changed = bytearray(whole)
            changed[place] ^= flip
            file.write_bytes(changed)
            if place == len(whole) - 1:  # the last line has lost its end: cut off, and reported
                log = open_log(session)
                assert log.torn > 0
                log.close()
                continue
            with pytest.raises(SessionCorrupt, match=r"root\.jsonl, line \d"):
                open_log(session)
            assert file.read_bytes() == changed  # what is damaged is left as it is


def test_added_or_removed_bytes_are_seen(session: Path):
    file = session / "root.jsonl"
    whole = file.read_bytes()
    for place in range(0, len(whole) - 1, deep(5, 1)):
        for changed in (
            whole[:place] + whole[place + 1 :],
            whole[:place] + b" " + whole[place:],
            whole[:place] + b"\n" + whole[place:],
        ):
            file.write_bytes(changed)
            with pytest.raises(SessionCorrupt):
                list(read_log(file))


@pytest.mark.parametrize(
    "edit",
    [
        lambda lines: [lines[0], lines[2], lines[3]],
        lambda lines: lines[1:],
        lambda lines: [lines[0], lines[1], lines[1], *lines[2:]],
        lambda lines: [lines[0], lines[2], lines[1], lines[3]],
        lambda lines: [*lines, lines[0]],
    ],
    ids=["dropped", "beheaded", "doubled", "swapped", "repeated"],
)
def test_whole_lines_cannot_be_moved_unseen(session: Path, edit: Callable[[list[bytes]], list[bytes]]):
    file = session / "root.jsonl"
    file.write_bytes(b"".join(edit(file.read_bytes().splitlines(keepends=True))))
    with pytest.raises(SessionCorrupt, match="does not follow"):
        open_log(session)


def test_dropped_branch_end_is_seen(session: Path):
    log = open_log(session)
    first = next(log.entries())
    log.append(MessageEntry(StoredMessage.of(user("left behind"), None)))
    log.fork(first.id)
    log.append(MessageEntry(StoredMessage.of(user("taken up"), None)))
    log.close()
    lines = log.file.read_bytes().splitlines(keepends=True)
    log.file.write_bytes(b"".join(line for line in lines if b"left behind" not in line))
    with pytest.raises(SessionCorrupt, match=r"line 5.*does not follow"):
        list(log.entries())


def test_error_names_file_line_and_remedy(session: Path):
    file = session / "root.jsonl"
    file.write_bytes(file.read_bytes().replace(b"hello", b"hullo"))
    with pytest.raises(SessionCorrupt) as caught:
        open_log(session)
    assert f"{file}, line 2: " in str(caught.value)
    assert f"`sagent sessions repair {session}`" in str(caught.value)
    assert "every entry that is intact" in str(caught.value)


bodies = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=5,
    ),
    max_size=4,
)


@settings(max_examples=deep(12, 40), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["message", "notice", "x_1"]), bodies, st.booleans()), max_size=8))
def test_appended_entries_survive_reopening(steps: list[tuple[str, dict[str, object], bool]]):
    with tempfile.TemporaryDirectory() as directory:
        log = open_log(Path(directory))
        entries: list[object] = []
        for kind, body, reopen in steps:
            entries.append(log.append(Unknown(kind, body)))
            if reopen:
                head = log.head
                log.close()
                log = open_log(Path(directory))
                assert (log.head, log.torn) == (head, 0)
        found = list(log.entries())
        assert found == entries
        assert [(entry.kind, read_body(entry)) for entry in found] == [(kind, body) for kind, body, _ in steps]
        log.close()


WRITER = """
import sys
from pathlib import Path
from sagent.session.contents import Unknown
from sagent.session.store import Session

with Session.open(Path(sys.argv[1])) as session:
    log = session.log()
    number = sum(1 for entry in log.entries() if entry.kind == "message")
    while True:
        entry = log.append(Unknown("message", {"number": number, "padding": "x" * (number * 7919 % 3000)}))
        sys.stdout.write(f"{number} {entry.id}\\n")
        sys.stdout.flush()
        number += 1
"""


@later
def test_killed_writer_keeps_acknowledged(tmp_path: Path):
    Session.create_at(tmp_path / "s").close()
    acknowledged: list[str] = []
    rng = random.Random(7)
    for _ in range(deep(4, 8)):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "s")], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            for _ in range(rng.randrange(1, 400)):
                acknowledged.append(writer.stdout.readline().decode())
            writer.send_signal(signal.SIGKILL)
            acknowledged += [line.decode() for line in writer.stdout if line.endswith(b"\n")]
        with Session.open(tmp_path / "s") as session:
            found = [f"{read_body(entry)['number']} {entry.id}\n" for entry in session.log().entries()]
        assert found[: len(acknowledged)] == acknowledged
        assert len(found) <= len(acknowledged) + 1  # one may have been written and not yet told
        acknowledged = found


FULL_DISK = """
import os, resource, sys
from pathlib import Path
from sagent.session.contents import Unknown
from sagent.session.store import Session

with Session.open(Path(sys.argv[1])) as session:
    log = session.log()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2500, hard))
    written = [log.append(Unknown("message", {"n": 0})).id]
    try:
        while True:
            written.append(log.append(Unknown("message", {"padding": "x" * 300})).id)
    except OSError as error:
        print(type(error).__name__, error.strerror)
    size = log.file.stat().st_size
    assert size < 2500 and log.file.read_bytes().endswith(b"\\n"), size
    assert log.head == written[-1]
    try:
        session.log().blobs.put(b"x" * 5000)
    except OSError:
        assert not list(log.file.parent.joinpath("blobs").iterdir())
    else:
        raise AssertionError("the blob was kept")
    small = log.append(Unknown("message", {"n": 1}))  # there is room for a small one
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    last = log.append(Unknown("message", {"padding": "x" * 3000}))
    assert [entry.id for entry in log.entries()] == [*written, small.id, last.id]
"""


def test_full_disk_is_an_error_log_goes_on(tmp_path: Path):
    Session.create_at(tmp_path / "s").close()
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "s")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "OSError" in done.stdout
    assert open_log(tmp_path / "s").torn == 0


def test_interrupted_append_leaves_no_trace(session: Path, monkeypatch: pytest.MonkeyPatch):
    log = open_log(session)
    head, real = log.head, os.write

    def interrupted(fd: int, data: bytes) -> int:
        real(fd, bytes(data)[:50])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.append(Unknown("message", {}))
    assert log.head == head
    assert log.append(Unknown("message", {})).parent == head
    log.close()
    assert len(list(read_log(session / "root.jsonl"))) == 5


def test_closed_log_cannot_be_written(session: Path):
    log = open_log(session)
    log.close()
    with pytest.raises(OSError, match="descriptor"):
        log.append(Unknown("message", {}))


def test_results_before_a_crash_are_kept(tmp_path: Path):
    from sagent.codec import encode_result_part
    from sagent.messages import Message, Text

    call, other = ToolCall("1", "Read"), ToolCall("2", "Bash")
    result = ToolResult("1", (Text("found"),))
    with Session.create_at(tmp_path / "s") as made:
        log = made.log()
        log.append(MessageEntry(StoredMessage.of(user("go"), None)))
        log.append(MessageEntry(StoredMessage.of(assistant("", call, other, stop="tool_use"), None)))
        log.append(Unknown("result", {"result": encode_result_part(result, None), "seconds": 0.1}))
    before = history(read_log(tmp_path / "s" / "root.jsonl"), lambda _: None)
    assert before == (user("go"), assistant("", call, other, stop="tool_use"), Message("user", (result,)))
    with Session.open(tmp_path / "s") as again:
        again.log().append(MessageEntry(StoredMessage.of(user("on"), None)))
    assert history(read_log(tmp_path / "s" / "root.jsonl"), lambda _: None) == (*before, user("on"))
