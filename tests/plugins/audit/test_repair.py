"""What is kept of a session whose files were damaged."""

import os
import random
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sagent.plugins.audit.repair as repair_module
from sagent.errors import SessionBusy, SessionCorrupt, SessionNotFound
from sagent.lib.json import JsonObject
from sagent.messages import Image, Message, Text, ToolCall, ToolResult, user
from sagent.plugins.audit.repair import repair
from sagent.plugins.audit.verify import verify
from sagent.plugins.exports.export import export_lines, export_text
from sagent.session.contents import (
    ChargeEntry,
    Compacted,
    Content,
    Forked,
    MessageEntry,
    MessageReceived,
    NoticeEntry,
    Opened,
    Repaired,
    Reserved,
    ResultEntry,
    Returned,
    Spawned,
    StoredMessage,
    StoredResult,
)
from sagent.session.entries import Entry, read_body, seal
from sagent.session.folds import contents, history, spend, waiting
from sagent.session.log import FileLog, read_log
from sagent.session.store import Session, log_files, named_logs
from sagent.session.summary import summarize
from sagent.transcript.redaction import Redaction
from sagent.usage import Charge, Usage
from tests.depth import deep, later


def charge(usd: str, agent: str = "root") -> Charge:
    return Charge("m", Usage(9, 9), usd=Decimal(usd), role="executor", provider="p", agent=agent)


def turn(log: FileLog, number: int) -> None:
    """A call of a tool and what it costs, as a run under a cap logs it."""
    held = log.append(Reserved(charge("1", log.agent)))
    call = ToolCall(f"c{number}", "Bash", JsonObject({"command": f"make {number}"}))
    said = Message("assistant", (Text(f"step {number}"), call), model="p/m", stop="tool_use")
    log.append(MessageEntry(StoredMessage.of(said, None)))
    log.append(ChargeEntry(charge("0.01", log.agent), held.id))
    answer = ToolResult(call.id, (Text(f"made {number}"),))
    log.append(ResultEntry(StoredResult.of(answer, None), 1.0))
    log.append(MessageEntry(StoredMessage.of(Message("user", (answer,)), None)))


def write(path: Path) -> Path:
    """A session with what names other entries: calls under a cap, a message that was received, a summary, a branch, and
    two children, of which one has a child."""
    with Session.create_at(path) as made:
        log = made.log()
        log.append(Opened(made.id, "root", "/work", {}))
        image = Image("image/png", b"pixels")
        log.append(MessageEntry(StoredMessage.of(user("go", image), lambda data: log.blobs.put(data).name)))
        for number in range(3):
            turn(log, number)
        said = StoredMessage.of(user("and this"), None)
        received = log.append(MessageReceived(said, "next"))
        log.append(MessageEntry(said, received.id))
        for name in ("root/a", "root/b", "root/a/x"):
            above, child = made.log(name.rpartition("/")[0]), made.log(name)
            above.append(Spawned(name, child.append(Opened(made.id, name, "/work", {})).id))
            turn(child, 7)
            above.append(Returned(name, child.head))
        made.log().append(Returned("root/a", made.log("root/a").head))
        turn(log, 3)
        log.append(Compacted((), 9, 5, "full", (0, 5, 6, 7, 8, 9), (1, "a summary")))
        at = log.head
        turn(log, 4)
        log.append(NoticeEntry("tried"))
        log.fork(at)
        turn(log, 5)
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("whole") / "session")


@pytest.fixture
def session(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "session"))


def said(entries: Iterator[Entry]) -> Counter[str]:
    """What entries say, but for what a repair adds, and but for the ids of others."""
    names = {"received", "of", "reserved", "entry", "left"}
    added = b'"sender":"sagent"'
    every = ((each, read_body(each)) for each in entries if each.kind != "repaired" and added not in each.line)
    return Counter(
        repr((entry.at, entry.kind, sorted((name, value) for name, value in body.items() if name not in names)))
        for entry, body in every
    )


def lines(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines(keepends=True)


def lose(file: Path, *numbers: int) -> list[Entry]:
    """Have zeros in the place of some lines, counted from 0; the entries of the others."""
    entries = list(read_log(file))
    found = lines(file)
    for number in numbers:
        found[number] = bytes(len(found[number]) - 1) + b"\n"
    file.write_bytes(b"".join(found))
    return [entry for number, entry in enumerate(entries) if number not in numbers]


def find(file: Path, kind: str, which: int = 0) -> int:
    """The number of the line of an entry."""
    return [number for number, entry in enumerate(read_log(file)) if entry.kind == kind][which]


def talk(session: Path, agent: str = "root") -> list[str]:
    """The conversation, in words."""
    messages = history(read_log(session / f"{agent}.jsonl"), lambda _: b"")
    return [message.content or " ".join(result.text for result in message.results) for message in messages]


def works(session: Path) -> None:
    """It verifies, goes on and is exported."""
    proof = verify(session)
    assert proof.problems == ()
    assert list(export_lines(session, Redaction()))
    with Session.open(session) as opened:
        log = opened.log()
        history(log.contents(), log.blobs.get)
        log.append(MessageEntry(StoredMessage.of(user("go on"), None)))
        for agent in proof.heads:
            opened.log(agent)
    assert verify(session).problems == ()


@later
@settings(max_examples=deep(40, 200), deadline=None)
@given(st.data())
def test_flipped_bit_restored(whole: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject):
    session = Path(shutil.copytree(whole, tmp_path_factory.mktemp("flipped") / "session"))
    before, entries = verify(session), {file: list(read_log(file)) for file in log_files(session)}
    file = data.draw(st.sampled_from(log_files(session)))
    text = bytearray(file.read_bytes())
    place = data.draw(st.integers(0, len(text) - 2))  # the last one is the end of the last line
    text[place] ^= 1 << data.draw(st.integers(0, 7))
    file.write_bytes(text)
    (done,) = repair(session)
    assert (done.file, done.mended, done.gaps, done.original.read_bytes()) == (file, 1, 0, bytes(text))
    for each, had in entries.items():
        assert list(read_log(each))[: len(had)] == had
    after = verify(session, before.heads["root"])
    assert (after.problems, after.gaps) == ((), 0)
    works(session)
    shutil.rmtree(session.parent)


@later
@settings(max_examples=deep(40, 200), deadline=None)
@given(st.randoms(use_true_random=False))
def test_intact_entries_kept(whole: Path, tmp_path_factory: pytest.TempPathFactory, chance: random.Random):
    session = Path(shutil.copytree(whole, tmp_path_factory.mktemp("damaged") / "session"))
    kept: dict[Path, Counter[str]] = {}
    for file in log_files(session):
        entries, text = list(read_log(file)), bytearray(file.read_bytes())
        hit: set[int] = set()
        for _ in range(chance.choice((0, 1, 1, 2))):
            start = chance.randrange(len(text) - 1)
            stop = min(len(text) - 1, start + chance.choice((2, 60, 700)))
            text[start:stop] = chance.choice((bytes(stop - start), chance.randbytes(stop - start)))
            hit |= {*range(start, stop)}
        file.write_bytes(text)
        end, intact = 0, list[Entry]()
        for entry in entries:
            start, end = end, end + len(entry.line)
            if hit.isdisjoint(range(start, end)):
                intact.append(entry)
        kept[file] = said(iter(intact))
    damaged = {file: file.read_bytes() for file in log_files(session)}
    done = repair(session)
    for each in done:
        assert each.original.read_bytes() == damaged[each.file]
    for file, had in kept.items():
        assert said(read_log(file)) >= had
    works(session)
    assert repair(session) == ()
    shutil.rmtree(session.parent)


def test_gaps_marked_and_reported(session: Path):
    file = session / "root.jsonl"
    spent, notice = find(file, "spent"), find(file, "notice")
    good = lose(file, spent, notice)
    (done,) = repair(session)
    assert (done.file, done.kept, done.mended, done.gaps) == (file, len(good), 0, 2)
    marks = [content for content in contents(read_log(file), Repaired) if content.is_gap]
    assert [mark.kept for mark in marks] == [spent, notice - 1]
    assert {mark.aside for mark in marks} == {done.original.name}
    assert done.dropped == sum(mark.dropped_bytes for mark in marks) > 0
    proof = verify(session)
    assert (proof.problems, proof.gaps) == ((), 2)
    assert sum("a gap" in note for note in proof.notes) == 2
    assert any(done.original.name in note and "not checked" in note for note in proof.notes)
    page, _ = export_text(session, "md", Redaction())
    assert "The log was repaired" in page.decode()


def test_lost_cost_unknown_rest_counted(session: Path):
    file = session / "root.jsonl"
    before = summarize(session)
    assert before.unpriced == ()
    lose(file, find(file, "spent"))
    repair(session)
    after = summarize(session)
    assert after.unpriced == ("lost/in a damaged log",)
    assert after.usd > before.usd  # the call that was reserved counts with its worst case
    lose(session / "root" / "b.jsonl", 0)
    repair(session)
    for agent in ("root", "root/b"):
        assert "at least" in export_text(session, "md", Redaction())[0].decode(), agent


def test_entries_after_gap_get_new_ids(session: Path):
    file = session / "root.jsonl"
    lose(file, 1)
    repair(session)
    ids = {entry.id for entry in read_log(file)}
    for content in contents(read_log(file), ChargeEntry, Forked, MessageEntry):
        match content:
            case ChargeEntry(reserved=name) | Forked(name) | MessageEntry(received=name):
                assert not name or name in ids
    assert waiting(read_log(file)) == ()
    assert spend(read_log(file)).cost().unbilled == 0
    entries = list(read_log(file))
    (fork,) = [number for number, entry in enumerate(entries) if entry.kind == "forked"]
    taken_up = next(entry for entry in entries if entry.id == entries[fork].parent)
    assert taken_up.kind == "compacted"


@pytest.mark.parametrize("which", [0, 1, 4, 6])
def test_summary_after_lost_message_same(session: Path, which: int):
    file, before = session / "root.jsonl", talk(session)
    lose(file, find(file, "message", which))
    repair(session)
    after = talk(session)
    assert [text for text in after if not text.startswith("[From sagent")] == [text for text in before if text in after]
    assert after[1] == "a summary"
    assert len(after) == len(before)
    assert len([text for text in before if text not in after]) <= 1


def test_summary_after_lost_summary_same_end(session: Path):
    file = session / "root.jsonl"
    with Session.open(session) as opened:
        count = len(talk(session))
        opened.log().append(Compacted((), 9, 5, "full", (0, *range(count - 3, count)), (1, "another")))
        turn(opened.log(), 6)
    before = talk(session)
    lose(file, find(file, "compacted"))
    repair(session)
    after = talk(session)
    assert after[1:] == before[1:]
    works(session)


def test_oversized_summary_stays(session: Path):
    file = session / "root.jsonl"
    with Session.open(session) as opened:
        opened.log().append(Compacted((), 9, 5, "full", (0, 10**9), (1, "of very many")))
        turn(opened.log(), 6)
    lose(file, find(file, "compacted"))
    repair(session)
    assert "of very many" in talk(session)
    assert file.stat().st_size < 100_000
    works(session)


def test_burst_damage_skips_bit_search(session: Path, monkeypatch: pytest.MonkeyPatch):
    file = session / "root.jsonl"
    monkeypatch.setattr(repair_module, "BURST", 8)
    whole = lines(file)
    broken = [line.replace(b'"id":"', b'"id":"zz', 1) for line in whole[4:20]]
    file.write_bytes(b"".join((*whole[:4], *broken, *whole[20:24], whole[24].replace(b'"at"', b'"au"'), *whole[25:])))
    monkeypatch.setattr(repair_module, "MAX_HASHED_BYTES", sum(4 * len(line) ** 2 for line in (*broken[:4], whole[24])))
    (done,) = [each for each in repair(session) if each.file == file]
    assert (done.mended, done.gaps, done.kept) == (1, 1, len(whole) - 16)
    works(session)


def test_first_entries_may_be_lost(session: Path):
    kept = {file: lose(file, 0) for file in log_files(session)}
    assert len(repair(session)) == len(kept)
    for file, entries in kept.items():
        assert said(read_log(file)) >= said(iter(entries))
    works(session)


def test_unnamed_child_stays_child(session: Path):
    file = session / "root" / "a.jsonl"
    lose(file, find(file, "spawned"), find(file, "returned"))
    repair(session)
    assert session / "root" / "a" / "x.jsonl" in named_logs(session)
    works(session)


def test_unknown_log_not_adopted(session: Path):
    planted = session / "root" / "planted.jsonl"
    with Session.create_at(session.parent / "other") as other:
        log = other.log("root/planted")
        log.append(Opened("x", "root/planted", "/", {}))
        log.append(MessageEntry(StoredMessage.of(user("never said"), None)))
    shutil.copy(log.file, planted)
    file = session / "root.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"tried"', b'"fried"'))  # two bits
    (done,) = repair(session)
    assert [content.lost for content in contents(read_log(file), Repaired) if content.is_gap] == [("notice",)]
    assert (done.gaps, verify(session).gaps) == (1, 1)
    assert planted not in named_logs(session)
    (problem,) = verify(session).problems
    assert "no other log names this one" in problem


def test_child_damage_changes_its_parents(session: Path):
    before = {file: list(read_log(file)) for file in log_files(session)}
    lose(session / "root" / "a" / "x.jsonl", 1)
    done = {each.file: each for each in repair(session)}
    assert set(done) == {session / f"{name}.jsonl" for name in ("root", "root/a", "root/a/x")}
    assert {file.name for file, each in done.items() if each.gaps} == {"x.jsonl"}
    for file, entries in before.items():
        assert file.name == "x.jsonl" or said(read_log(file)) == said(iter(entries))
    for each in done.values():
        assert each.original.is_file()
    works(session)


@pytest.mark.parametrize("torn", [0, 30])
def test_lost_child_end_is_gap(session: Path, torn: int):
    file = session / "root" / "a" / "x.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]) + lines[-1][:torn])
    assert verify(session).problems
    done = repair(session)
    assert {(each.file.name, each.gaps) for each in done} == {("x.jsonl", 1), ("a.jsonl", 0), ("root.jsonl", 0)}
    proof = verify(session)
    assert (proof.problems, proof.gaps) == ((), 1)
    assert [entry.line for entry in read_log(file)][: len(lines) - 1] == lines[:-1]
    assert file in named_logs(session)
    assert repair(session) == ()
    works(session)


def test_replaced_child_log_not_adopted(session: Path):
    file = session / "root" / "a" / "x.jsonl"
    first = seal("", Opened("another", "root/a/x", "/elsewhere", {}))
    file.write_bytes(first.line)
    before = (session / "root.jsonl").read_bytes()
    assert repair(session) == ()
    assert (file.read_bytes(), (session / "root.jsonl").read_bytes()) == (first.line, before)
    assert verify(session).problems


def test_missing_or_doubled_lines(session: Path):
    file = session / "root.jsonl"
    found = lines(file)
    file.write_bytes(b"".join([*found[:4], *found[6:9], *found[7:]]))
    (done,) = repair(session)
    assert (done.kept, done.gaps) == (len(found) - 2, 1)
    works(session)


def test_lost_line_end_costs_nothing(session: Path):
    file = session / "root.jsonl"
    before, found = list(read_log(file)), lines(file)
    file.write_bytes(b"".join([*found[:4], found[4][:-1], *found[5:]]))
    (done,) = repair(session)
    assert (done.mended, done.gaps) == (1, 0)
    assert list(read_log(file))[:-1] == before


def test_foreign_line_ends_cost_nothing(session: Path):
    heads = {file: list(read_log(file)) for file in log_files(session)}
    for file in heads:
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    done = repair(session)
    assert {each.file: (each.mended, each.gaps, each.dropped) for each in done} == {
        file: (len(entries), 0, 0) for file, entries in heads.items()
    }
    assert all(list(read_log(file))[:-1] == entries for file, entries in heads.items())
    works(session)


def test_torn_last_line_needs_no_repair(session: Path):
    file = session / "root.jsonl"
    file.write_bytes(file.read_bytes()[:-9])
    assert repair(session) == ()
    with Session.open(session):
        pass
    assert verify(session).problems == ()


def test_missing_blob_stays_missing(session: Path):
    for blob in (session / "blobs").iterdir():
        blob.unlink()
    assert repair(session) == ()
    lose(session / "root.jsonl", find(session / "root.jsonl", "notice"))
    repair(session)
    (problem,) = verify(session).problems
    assert "is missing" in problem


def test_log_with_nothing_left(session: Path):
    file = session / "root.jsonl"
    file.write_bytes(b"\0" * 50_000 + b"\n")
    (done,) = repair(session)
    assert (done.kept, done.gaps) == (0, 1)
    assert {file.name for file in named_logs(session)} == {"root.jsonl", "a.jsonl", "b.jsonl", "x.jsonl"}
    works(session)


def test_signature_before_gap_set_aside(session: Path):
    (session / "signed.json").write_text("what was signed")
    lose(session / "root.jsonl", 3)
    repair(session)
    assert not (session / "signed.json").exists()
    works(session)


@later
def test_killed_repair_is_all_or_nothing(whole: Path, tmp_path: Path):
    damaged = Path(shutil.copytree(whole, tmp_path / "damaged"))
    lose(damaged / "root" / "a.jsonl", 2)
    chained = read_files(damaged)
    repair(Path(shutil.copytree(damaged, tmp_path / "done")))
    done = {file: said(read_log(file)) for file in log_files(tmp_path / "done")}
    step, killed = 0, True
    while killed:
        step += deep(3, 1)
        session = Path(shutil.copytree(damaged, tmp_path / f"{step}"))
        killed = repair_and_die(session, step)
        files = read_files(session)
        for name, text in chained.items():
            beside = [each for path, each in files.items() if path.startswith(f"{name}.damaged-")]
            assert text in (files[name], *beside)
        if any(path.name.startswith("repaired-2") for path in session.iterdir()):
            with pytest.raises(SessionCorrupt, match="was interrupted"):
                Session.open(session)
        repair(session)
        for file, had in done.items():
            assert said(read_log(session / file.relative_to(tmp_path / "done"))) == had
        works(session)
    assert step > 20


def read_files(session: Path) -> Mapping[str, bytes]:
    return {str(file.relative_to(session)): file.read_bytes() for file in session.rglob("*.jsonl*") if file.is_file()}


def repair_and_die(session: Path, step: int) -> bool:
    """Repair in a process that is killed when it opens, renames, links or removes a file for so many times; False where
    it was done before."""
    child = os.fork()
    if child == 0:
        left = [step]

        def count(event: str, _arguments: Sequence[object]) -> None:
            if event in ("open", "os.rename", "os.link", "os.remove", "os.rmdir", "os.mkdir"):
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        try:
            repair(session)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def test_repair_waits_for_nobody(session: Path):
    with Session.open(session), pytest.raises(SessionBusy):
        repair(session)


def test_repair_without_session_refused(tmp_path: Path):
    with pytest.raises(SessionNotFound):
        repair(tmp_path)


def test_earlier_cut_repair_is_gap(session: Path):
    with Session.open(session) as opened:
        content: Content = Repaired(3, 99, "root.jsonl.damaged-1", "damaged")
        opened.log().append(content)
        (opened.path / "root.jsonl.damaged-1").write_text("x")
    assert verify(session).gaps == 1
    assert contents(read_log(session / "root.jsonl"), Repaired) == (content,)
    assert summarize(session).unpriced
