"""Long logs: read by page, with little memory, and nothing comes out other than by reading them whole."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.codec import encode_message, encode_result_part
from sagent.errors import SessionCorrupt
from sagent.lib.json import JsonObject
from sagent.messages import Message, Text, ToolCall, ToolResult, assistant, user
from sagent.session.blobs import BlobDirectory
from sagent.session.contents import Compacted, MessageEntry, StoredMessage, Unknown
from sagent.session.entries import Entry, encode, read_body
from sagent.session.folds import history, last_job, lost_jobs, points, spend, title, unread
from sagent.session.log import FileLog, MemoryLog, read_contents, read_log
from sagent.session.store import Session
from sagent.session.view import LogView, MemoryLogView, branch
from tests.depth import deep, later

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(0, 9)),
        st.tuples(st.just("reply"), st.integers(0, 3)),
        st.tuples(st.just("results"), st.integers(0, 3)),
        st.tuples(st.just("compact"), st.integers(0, 31)),
        st.tuples(st.just("receive"), st.integers(0, 1)),
        st.tuples(st.just("job"), st.integers(0, 3)),
        st.tuples(st.just("fork"), st.integers(0, 99)),
    ),
    max_size=30,
)


def play(log: FileLog, steps: list[tuple[str, int]]) -> None:
    """Entries as sessions have them, in any order."""
    asked: list[ToolCall] = []
    ids: list[str] = []

    def add(kind: str, body: object) -> None:
        ids.append(log.append(Unknown(kind, body)).id)  # pyright: ignore[reportArgumentType]

    for serial, (what, number) in enumerate(steps):
        match what:
            case "ask":
                add("message", encode_message(user(f"ask {serial}", sender="root/a" if number > 7 else ""), None))
            case "reply":
                asked = [
                    ToolCall(f'c"{serial}-{each}' if each == 2 else f"c{serial}-{each}", "Read")
                    for each in range(number)
                ]
                add("message", encode_message(assistant(f"reply {serial}", *asked, stop="end"), None))
            case "results":
                for call in [*asked[:number], ToolCall("nobody", "Read")][:number]:
                    result = ToolResult(call.id, (Text(f"result {serial} of {call.id}"),))
                    add("result", {"result": encode_result_part(result, None), "seconds": 0.1})
            case "compact":
                kept = tuple(place for place in range(12) if number >> place % 5 & 1)
                stubs = tuple((place, call.id, "stub") for place in range(6) for call in asked)
                summary = (min(number % 3, len(kept)), f"summary {serial}") if number % 2 else None
                add(*encode(Compacted(stubs, 9, 5, "full", kept if number % 4 else None, summary)))
            case "receive":
                add("received", {"message": encode_message(user(f"letter {serial}"), None), "moment": "next"})
                if number:
                    add("message", {**encode_message(user(f"letter {serial}"), None), "received": ids[-1]})
            case "job":
                add("job", {"job": f"job:{number}", "state": "running" if serial % 2 else "done"})
            case _:
                if ids:
                    ids.append(log.fork(ids[number % len(ids)]).id)


@settings(max_examples=deep(60, 150), deadline=None)
@given(STEPS)
def test_contents_tell_what_entries_do(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]) -> None:
    session = tmp_path_factory.mktemp("s")
    log = FileLog(session, blobs=BlobDirectory())
    play(log, steps)
    entries = list(log.entries())
    here = branch(entries)
    kinds = ("message", "job", "nothing like it")
    for contents in (log.contents(), read_contents(log.file), MemoryLogView(entries)):
        assert list(contents) == list(contents.of()) == entries
        assert list(contents.branch()) == list(here)
        assert list(contents.of(*kinds)) == [entry for entry in entries if entry.kind in kinds]
        assert list(contents.branch(*kinds)) == [entry for entry in here if entry.kind in kinds]
        assert list(contents.latest("message")) == [entry for entry in entries[::-1] if entry.kind == "message"]
        assert _folds(contents) == _folds(entries)
    log.close()


def _folds(entries: list[Entry] | LogView) -> tuple[object, ...]:
    def fetch(_: str) -> None:
        return None

    return (
        history(entries, fetch), points(entries), unread(entries, fetch), spend(entries), title(entries),
        lost_jobs(entries), last_job(entries), tuple(read_body(each) for each in entries if each.kind == "job"),
    )  # fmt: skip


def test_history_equals_messages_one_by_one(tmp_path: Path) -> None:
    """What gave way is not read, and what is left is as if it had been."""
    log = FileLog(tmp_path, blobs=BlobDirectory())
    call, other = ToolCall("1", "Read"), ToolCall("2", "Bash", JsonObject({"command": "ls"}))
    log.append(Unknown("message", {"role": "of another version", "parts": []}))  # cannot be read, and need not be
    log.append(MessageEntry(StoredMessage.of(user("go"), None)))
    log.append(MessageEntry(StoredMessage.of(assistant("", call, other, stop="tool_use"), None)))
    for each in (other, call):
        found = ToolResult(each.id, (Text(f"found by {each.id}"),))
        log.append(Unknown("result", {"result": encode_result_part(found, None), "seconds": 0.1}))
    log.append(Compacted(((3, "1", "gone"),), 9, 5, "full", kept=(1, 2, 3), summary=(1, "so far")))
    results = Message("user", (ToolResult("1", (Text("gone"),)), ToolResult("2", (Text("found by 2"),))))
    assert history(log.contents(), lambda _: None) == (
        user("go"), user("so far", sender="sagent"), assistant("", call, other, stop="tool_use"), results,
    )  # fmt: skip
    log.close()


def test_contents_are_those_when_asked_for(tmp_path: Path) -> None:
    for log in (FileLog(tmp_path, blobs=BlobDirectory()), MemoryLog()):
        first = log.append(Unknown("message", {"n": 1}))
        contents = log.contents()
        log.append(Unknown("message", {"n": 2}))
        log.fork(first.id)
        assert list(contents) == list(contents.branch()) == [first]
        assert len(list(log.contents())) == 3
        log.close()


def test_changed_contents_are_refused(tmp_path: Path) -> None:
    log = FileLog(tmp_path, blobs=BlobDirectory())
    for number in range(3):
        log.append(Unknown("message", {"n": number}))
    contents = log.contents()
    log.file.write_bytes(log.file.read_bytes().replace(b'"n":1', b'"n":7'))
    with pytest.raises(SessionCorrupt, match=r"root\.jsonl, line 2: "):
        list(contents)
    log.file.unlink()
    with pytest.raises(FileNotFoundError):
        list(contents)
    log.close()


def long_log(session: Path, entries: int) -> int:
    """A log of so many entries; its bytes."""
    with Session.create_at(session) as made:
        log = made.log()
        live = 0
        for number in range(entries // 4):
            call = ToolCall(f"c{number}", "Bash", JsonObject({"command": f"pytest tests/test_{number}.py"}))
            log.append(MessageEntry(StoredMessage.of(assistant("x" * 300, call, stop="tool_use"), None)))
            log.append(Unknown("spent", {"agent": "root", "role": "executor", "usd": "0.01", "usage": {"input": 9}}))
            answer = ToolResult(call.id, (Text("y" * 900),))
            log.append(Unknown("result", {"result": encode_result_part(answer, None), "seconds": 1.0}))
            live += 2
            if live > 200:
                kept = tuple(range(live - 20, live))
                log.append(Compacted((), 9, 5, "full", kept=kept, summary=(0, "so far")))
                live = 21
            else:
                log.append(Unknown("notice", {"text": "n"}))
        return log.file.stat().st_size


RESUME = """
import sys, tracemalloc
from pathlib import Path
from sagent.session.folds import charges, history, points, unread
from sagent.session.store import Session
from sagent.session.summary import summarize, summarize

tracemalloc.start()
with Session.open(Path(sys.argv[1])) as session:
    contents = session.log().contents()
    messages = history(contents, lambda _: None)
    spent = sum(bill.usd for bill in charges(contents))
    unread(contents, lambda _: None), points(contents), summarize(session.path)
    print(len(messages), spent, tracemalloc.get_traced_memory()[1])
"""


@later
def test_long_session_opens_in_little_memory(tmp_path: Path) -> None:
    size = long_log(tmp_path / "s", 8_000)
    done = subprocess.run(
        [sys.executable, "-c", RESUME, str(tmp_path / "s")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    messages, spent, peak = done.stdout.split()
    assert (20 < int(messages) <= 200, spent) == (True, "20.00")
    assert size > 4_000_000
    assert int(peak) < size / 3  # of a million entries a fiftieth: most of this does not grow


@later
def test_log_index_is_small(tmp_path: Path) -> None:
    import tracemalloc

    long_log(tmp_path / "s", 8_000)
    tracemalloc.start()
    try:
        contents = read_contents(tmp_path / "s" / "root.jsonl")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 20 * 8_000
    assert sum(1 for _ in contents) == sum(1 for _ in read_log(tmp_path / "s" / "root.jsonl"))


@pytest.fixture(autouse=True)
def _no_files_left(tmp_path: Path) -> Iterator[None]:
    yield
    assert not list(tmp_path.rglob("scratch-*"))
