"""A session that was tampered with does not verify, wherever it was."""

import json
import os
import re
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sagent.plugins.audit.segment as segment
import sagent.plugins.audit.verify as proof_module
from sagent.codec import encode_message
from sagent.context.compaction import compose
from sagent.errors import SessionCorrupt, SessionNotFound
from sagent.lib.json import canonical_bytes, sha256_hex
from sagent.messages import Image, user
from sagent.plugins.audit.canonical import parse
from sagent.plugins.audit.repair import repair
from sagent.plugins.audit.verify import verify
from sagent.plugins.exports.entries import SessionReader
from sagent.plugins.exports.export import export_lines, export_text
from sagent.plugins.exports.steps import Damaged
from sagent.session.contents import (
    Compacted,
    MessageEntry,
    NoticeEntry,
    Opened,
    Returned,
    Spawned,
    StoredMessage,
    Unknown,
)
from sagent.session.entries import parse_line, read_body, seal
from sagent.session.folds import history
from sagent.session.log import read_log
from sagent.session.names import log_file
from sagent.session.statement import Statement, state
from sagent.session.store import Session, copy, log_files, named_logs
from sagent.session.summary import summarize
from sagent.session.view import session_of
from sagent.transcript.redaction import Redaction
from tests.depth import deep


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """A root that saw an image and spawned a child."""
    with Session.create_at(tmp_path / "session") as made:
        log, child = made.log(), made.log("root/review")
        log.append(Opened(made.id, "root", "/work", {}))
        first = child.append(Opened(made.id, "root/review", "/work", {}))
        log.append(Spawned("root/review", first.id))
        image = Image("image/png", b"pixels")
        log.append(MessageEntry(StoredMessage.of(user("look", image), lambda data: log.blobs.put(data).name)))
        log.blobs.put(b"output of a command")
        child.append(MessageEntry(StoredMessage.of(user("done"), None)))
        log.append(Returned("root/review", child.head))
    return made.path


def test_untouched_session_verifies(session: Path):
    proof = verify(session)
    assert proof.problems == ()
    assert (proof.entries, proof.blobs) == (6, 2)
    assert set(proof.heads) == {"root", "root/review"}
    assert verify(session, proof.heads["root"]).problems == ()
    assert [part.name for part in proof.parts] == ["log of root", "log of root/review", "children", "blobs"]
    assert "4 entries" in proof.parts[0].checked
    assert proof.heads["root"] in proof.parts[0].checked
    assert "2 files" in proof.parts[3].checked and "1 of them named by no entry" in proof.parts[3].checked


def files_of(session: Path) -> list[Path]:
    return sorted(path for path in session.rglob("*") if path.is_file() and path.name != "lock")


def test_every_byte_of_every_file_counts(session: Path):
    for file in files_of(session):
        whole = file.read_bytes()
        for place in range(0, len(whole), deep(5, 1)):
            flipped = bytes([whole[place] ^ (1 << place % 8)])
            for changed in (whole[:place] + flipped + whole[place + 1 :], whole[:place] + whole[place + 1 :]):
                file.write_bytes(changed)
                assert verify(session).problems, (file, place)
        file.write_bytes(whole + b"\x00")
        assert verify(session).problems, file
        file.write_bytes(whole)
    assert verify(session).problems == ()


def test_cut_file_detected(session: Path):
    head = verify(session).heads["root"]
    for file in files_of(session):
        whole = file.read_bytes()
        entries = [found.start() + away for found in re.finditer(b"\n", whole[:-1]) for away in (0, 1, 2)]
        for end in sorted({*range(0, len(whole), deep(3, 1)), *entries, len(whole) - 1}):
            file.write_bytes(whole[:end])
            at_an_entry = end == 0 or whole[end - 1 : end] == b"\n"
            known = head if file.name == "root.jsonl" and at_an_entry else ""  # the chain alone cannot show that
            assert verify(session, known).problems, (file, end)
        file.write_bytes(whole)


def test_missing_or_swapped_file_detected(session: Path):
    files = files_of(session)
    unnamed = [file for file in files if file.read_bytes() == b"output of a command"]  # no entry tells of it
    for file in files:
        whole = file.read_bytes()
        file.unlink()
        assert bool(verify(session).problems) == (file not in unnamed), file
        file.write_bytes(whole)
        for other in files:
            if other != file:
                theirs = other.read_bytes()
                file.write_bytes(theirs)
                other.write_bytes(whole)
                assert verify(session).problems, (file, other)
                file.write_bytes(whole)
                other.write_bytes(theirs)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several agents, forks, blobs, a few hundred entries."""
    path = tmp_path_factory.mktemp("large") / "session"
    with Session.create_at(path) as made:
        root = made.log()
        ids = [root.append(Opened(made.id, "root", "/work", {})).id]
        for number in range(3):
            agent = f"root/a{number}" + "/b" * (number == 2)
            child = made.log(agent)
            ids.append(root.append(Spawned(agent, child.append(Opened("", agent, "", {})).id)).id)
            for turn in range(60):
                image = Image("image/png", bytes([number, turn]) * 20) if turn % 9 == 0 else None
                parts = ('\u00e9\u2028 "said"\n\\' * turn, *((image,) if image else ()))
                message = encode_message(user(*parts), lambda data: root.blobs.put(data).name)
                ids.append(root.append(Unknown("message", message)).id)
                child.append(Unknown("message", message))
            root.fork(ids[-30])
            root.append(Returned(agent, child.head))
        root.append(Unknown("label", {"text": "the end"}))
    return path


EDIT = st.tuples(
    st.sampled_from(["flip", "drop", "put", "swap", "cut"]), st.floats(0, 1), st.floats(0, 1), st.integers()
)


@settings(max_examples=deep(40, 150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=st.lists(EDIT, min_size=1, max_size=3), which=st.integers(0, 10**6))
def test_any_mutation_detected(large: Path, edits, which):
    head = verify(large).heads["root"]
    file = files_of(large)[which % len(files_of(large))]
    whole = file.read_bytes()
    changed = bytearray(whole)
    for kind, first, second, byte in edits:
        start, end = sorted((int(first * len(changed)), int(second * len(changed))))
        match kind:
            case "flip":
                changed[start : start + 1] = bytes([changed[start] ^ (1 + byte % 255)]) if start < len(changed) else b""
            case "drop":
                del changed[start : start + 1 + byte % 90]
            case "put":
                changed[start:start] = bytes([byte % 256])
            case "swap":
                changed = changed[end:] + changed[start:end] + changed[:start]
            case _:
                del changed[end:]
    try:
        file.write_bytes(changed)
        assert bool(verify(large, head).problems) == (bytes(changed) != whole)
    finally:
        file.write_bytes(whole)


def test_rewrite_fails_against_kept_head(session: Path, tmp_path: Path):
    head = verify(session).heads["root"]
    entries = list(read_log(session / "root.jsonl"))
    parent, lines = "", []
    for entry in entries:
        body = json.loads(json.dumps(read_body(entry)).replace("look", "hook"))
        new = seal(parent, Unknown(entry.kind, body))
        lines.append(new.line)
        parent = new.id
    (session / "root.jsonl").write_bytes(b"".join(lines))
    proof = verify(session)
    assert proof.problems == ()
    assert any("rewritten whole" in note for note in proof.notes)
    (problem,) = verify(session, head).problems
    assert head in problem
    assert not any("rewritten whole" in note for note in verify(session, proof.heads["root"]).notes)


def test_lines_checked_across_segments(large: Path, monkeypatch: pytest.MonkeyPatch):
    whole = verify(large)
    for size in (1, 700, 5000):
        monkeypatch.setattr(proof_module, "split", partial(segment.split, size=size))
        found = verify(large)
        assert (found.problems, found.heads, found.entries) == ((), whole.heads, whole.entries)
        file = large / "root.jsonl"
        good = file.read_bytes()
        lines = good.splitlines(keepends=True)
        try:
            for place in range(5, len(lines) - 1, 37):
                file.write_bytes(b"".join([*lines[:place], *lines[place + 1 :]]))
                assert any(f"line {place + 1}: the entry does not follow" in each for each in verify(large).problems)
        finally:
            file.write_bytes(good)


def test_damage_reported_once_with_line(large: Path):
    file = large / "root" / "a1.jsonl"
    good = file.read_bytes()
    try:
        file.write_bytes(good.replace(b"said", b"sajd"))
        problems = verify(large).problems
        assert f"{file}, line 3: the content does not match its id" in problems
        assert "39 more lines are damaged" in problems[-1] + problems[-2]
    finally:
        file.write_bytes(good)


def test_fork_from_nowhere_detected(session: Path):
    head = verify(session).heads["root"]
    with (session / "root.jsonl").open("ab") as file:
        file.write(seal("0" * 64, Unknown("forked", {"left": head})).line)
    (problem,) = verify(session).problems
    assert "0" * 64 in problem
    assert "continued from" in problem


def test_unspawned_log_detected(session: Path):
    with Session.open(session) as made:
        log = made.log("root/stranger")
        log.append(Unknown("opened", {}))
        assert verify(session).problems == ()  # as a kill between the two leaves it
        log.append(Unknown("notice", {}))
    (problem,) = verify(session).problems
    assert "root/stranger.jsonl:" in problem and "no other log names" in problem
    assert "Move it out of the session" in problem


def test_uncovered_child_end_reported(session: Path):
    with Session.open(session) as made:
        made.log("root/review").append(Unknown("notice", {}))
    proof = verify(session)
    assert proof.problems == ()
    assert any("root/review" in note and "is not covered" in note for note in proof.notes)


def test_missing_spilled_output_detected(tmp_path: Path):
    with Session.create_at(tmp_path / "a b") as made:
        log = made.log()
        log.append(Opened(made.id, "root", "/work", {}))
        path = log.blobs.put(b"all of it")
        for text in (f"[... 9 characters left out; the full text is in {path} ...]", f"see /x/{'y'}/blobs/{'0' * 64}"):
            log.append(Unknown("result", {"result": {"call_id": "1", "content": [{"type": "text", "text": text}]}}))
    assert verify(made.path).problems == ()
    path.unlink()
    (problem,) = verify(made.path).problems
    assert f"{path.name} is missing" in problem


def test_missing_spilled_text_detected(tmp_path: Path):
    with Session.create_at(tmp_path / "s") as made:
        log = made.log()
        log.append(Opened(made.id, "root", "/work", {}))
        cut, cleared = log.blobs.put(b"what was cut"), log.blobs.put(b"what was cleared")
        log.append(Compacted((), 9, 3, "full", (), (0, compose("## Goal", str(cut)))))
        told = user(f"The person cleared it. What went is kept in {cleared}.", sender="sagent")
        log.append(MessageEntry(StoredMessage.of(told, None)))
    assert verify(made.path).problems == ()
    assert not any("named by no entry" in part.checked for part in verify(made.path).parts)
    for path in (cut, cleared):
        path.unlink()
        assert any(f"{path.name} is missing" in problem for problem in verify(made.path).problems)


def test_killed_leftovers_are_no_damage(session: Path):
    (session / "blobs" / "scratch-1-ab").write_bytes(b"half")
    proof = verify(session)
    assert proof.problems == ()
    assert any("scratch-1-ab" in note for note in proof.notes)


def test_missing_root_log_detected(session: Path):
    (session / "root.jsonl").unlink()
    assert any("root.jsonl is missing" in problem for problem in verify(session).problems)


def test_links_are_not_followed(session: Path, tmp_path: Path):
    (tmp_path / "elsewhere").write_bytes(b"x")
    (session / "blobs" / "link").symlink_to(tmp_path / "elsewhere")
    (problem,) = verify(session).problems
    assert "not a plain file" in problem


def test_missing_blob_found_at_its_entry(session: Path):
    (entry,) = [entry for entry in read_log(session / "root.jsonl") if entry.kind == "message"]
    for blob in (session / "blobs").iterdir():
        if blob.read_bytes() == b"pixels":
            blob.unlink()
    (problem,) = verify(session).problems
    assert entry.id in problem
    assert "missing" in problem


def test_cut_child_end_detected(session: Path):
    file = session / "root" / "review.jsonl"
    file.write_bytes(file.read_bytes().splitlines(keepends=True)[0])
    (problem,) = verify(session).problems
    assert "root/review" in problem and "has no entry" in problem


def test_cut_root_fails_against_kept_head(session: Path):
    head = verify(session).heads["root"]
    file = session / "root.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))
    assert verify(session).problems == ()
    (problem,) = verify(session, head).problems
    assert head in problem


def test_torn_end_and_stray_file_reported(session: Path):
    with (session / "root.jsonl").open("ab") as file:
        file.write(b'{"id":"')
    (session / "final_output.txt").write_text("edited")
    unfinished, stranger = verify(session).problems
    assert "7 bytes of an unfinished entry" in unfinished
    assert "final_output.txt" in stranger
    assert "not checked" in stranger


def test_noncanonical_hash_detected(session: Path):
    head = verify(session).heads["root"]
    body = seal(head, MessageEntry(StoredMessage.of(user("x"), None))).line
    # Spaces written into a body, and the line hashed as it is: the chain is whole, the id is not the definition's.
    rest = body[73:].replace(b'"role":"user"', b'"role": "user"')
    with (session / "root.jsonl").open("ab") as file:
        file.write(b'{"id":"%b",' % sha256_hex(b"{" + rest[:-1]).encode() + rest)
    (problem,) = verify(session).problems
    assert "canonical" in problem


def test_non_session_not_found(tmp_path: Path):
    with pytest.raises(SessionNotFound):
        verify(tmp_path)
    with pytest.raises(SessionNotFound):
        repair(tmp_path)


def test_child_may_be_named_root(session: Path):
    with Session.open(session) as made:
        for name in ("root/root", "root/root/root"):
            first = made.log(name).append(Opened(made.id, name, "/work", {}))
            made.log(name.rpartition("/")[0]).append(Spawned(name, first.id))
    assert verify(session).problems == ()
    for file in (session / "root" / "review.jsonl", session / "root" / "root" / "root.jsonl"):
        assert session_of(file) == session
        file.write_bytes(b"\n" + file.read_bytes())
        (done,) = repair(file)
        assert done.file == file
    assert sorted(path.name for path in session.rglob("lock")) == ["lock"]


def test_odd_log_names_reported_unread(session: Path):
    root, review = session / "root", session / "root" / "review.jsonl"
    os.mkfifo(root / "pipe.jsonl")
    (root / "directory.jsonl").mkdir()
    (root / "link.jsonl").symlink_to("nowhere")
    odd = [root / "new\nline.jsonl", root / os.fsdecode(b"\xff.jsonl")]
    for file in odd:
        file.write_bytes(review.read_bytes())
    assert log_files(session) == [session / "root.jsonl", review]
    assert (summarize(session).problem, repair(session)) == ("", ())
    proof = verify(session)
    assert set(proof.heads) == {"root", "root/review"}
    told = [problem for part in proof.parts if part.name == "other files" for problem in part.problems]
    assert sorted(problem.rpartition(": ")[0] for problem in told) == sorted(
        map(str, (root / "pipe.jsonl", root / "link.jsonl", *odd))
    )


def test_damaged_blob_not_returned(session: Path):
    with Session.open(session) as made:
        path = made.log().blobs.put(b"pixels")
        path.write_bytes(b"pixelz")
        with pytest.raises(SessionCorrupt, match="changed"):
            history(made.log().entries(), made.log().blobs.get)
        assert history(made.log().entries(), lambda _: None)[0].content.startswith("look[image/png is lost")
        path.write_bytes(b"pix")  # one that was cut short is written again
        assert made.log().blobs.put(b"pixels").read_bytes() == b"pixels"


def test_only_canonical_form_parsed():
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
    numbers = [0, -1, 10**40, 1.5, -0.0, 1e16, 1e-7, 1.7976931348623157e308, 5e-324]
    for value in ({"a": every, "b": {"": [{}, [], None, True]}}, {"n": numbers}, {every[:99]: 1, every[100:999]: 2}):
        assert parse(canonical_bytes(value)) == value
    for text in (
        b'{"b":1,"a":2}', b'{"a":1,"a":2}', b'{"a": 1}', b'{"a":1} ', b' {"a":1}', b'{"a":1e16}', b'{"a":1.50}',
        b'{"a":-0}', b'{"a":01}', b'{"a":NaN}', b'{"a":1E5}', b'{"a":"\\/"}', b'{"a":"\\u0041"}', b'{"a":"\\u000A"}',
        b'{"a":"\\u000a"}', b'{"a":"\\u001F"}', b'{"a":"\\ud800"}', b'{"a":"\xed\xa0\x80"}', b'{"a":"\xff"}',
        b'[{"b":[{"d":1,"c":2}]}]', b'{"a":"\x01"}', b"{'a':1}", b'{"a":1}{', b"", b'["\\u00e9"]', b"[" * 100_000,
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"canonical|nested"):
            parse(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.booleans(), st.sampled_from([(",", ":"), (", ", ": ")]))
def test_canonical_values_parse_others_fail(value, ascii_only, separators):
    text = canonical_bytes(value)
    assert parse(text) == value
    other = json.dumps(value, ensure_ascii=ascii_only, separators=separators).encode()
    if other != text:
        with pytest.raises(ValueError, match="canonical"):
            parse(other)


def plant(session: Path, agent: str, *contents) -> None:
    file = log_file(session, agent)
    file.parent.mkdir(exist_ok=True, parents=True)
    parent, lines = "", []
    for content in contents:
        entry = seal(parent, content)
        parent = entry.id
        lines.append(entry.line)
    file.write_bytes(b"".join(lines))


def test_planted_log_reported_and_unread(session: Path):
    head = verify(session).heads["root"]
    said = MessageEntry(StoredMessage.of(user("words of nobody"), None))
    plant(session, "root/mole", said)  # one entry, as a kill leaves it, but not the opening one
    (problem,) = verify(session, head).problems
    assert "root/mole.jsonl:" in problem and "no other log names" in problem
    plant(session, "root/mole", Spawned("root/twin", ""), said)
    plant(session, "root/twin", Spawned("root/mole", ""), said)  # two that name each other
    assert sum("no other log names this one" in each for each in verify(session, head).problems) == 2
    assert named_logs(session) == [session / "root.jsonl", session / "root" / "review.jsonl"]
    assert summarize(session).entries == 6
    assert b"of nobody" not in b"".join(export_lines(session, Redaction()))
    assert b"of nobody" not in export_text(session, "html", Redaction())[0]


def test_log_in_place_of_child_unread(session: Path):
    review, said = session / "root" / "review.jsonl", MessageEntry(StoredMessage.of(user("words of nobody"), None))
    whole, opened = review.read_bytes(), Opened(session.name, "root/review", "/work", {})
    first = whole.splitlines(keepends=True)[0]
    plant(session, "root/review", opened, said)
    plants = [review.read_bytes(), first + review.read_bytes(), first.replace(b"work", b"walk") + review.read_bytes()]
    entry = seal(parse_line(first).id, said)
    plants += [first + entry.line]
    for planted in plants:
        review.write_bytes(planted)
        assert verify(session).problems != ()
        assert named_logs(session) == [session / "root.jsonl"]
        assert b"of nobody" not in b"".join(export_lines(session, Redaction()))
        page, _ = export_text(session, "html", Redaction())
        assert b"of nobody" not in page
        assert b"has no entry" in page


def test_unlinked_line_names_no_child(session: Path):
    plant(session, "root/mole", Opened("x", "root/mole"), NoticeEntry("of nobody"))
    mole = session / "root" / "mole.jsonl"
    with (session / "root.jsonl").open("ab") as file:
        file.write(seal("0" * 64, Spawned("root/mole", next(read_log(mole)).id)).line)
    assert mole not in named_logs(session)
    steps = list(SessionReader(session, named_logs(session)).steps())
    assert any(isinstance(step, Damaged) and "does not follow" in step.reason for step in steps)


def test_signed_child_must_be_readable(session: Path):
    with Session.open(session) as made:
        first = made.log("root/open").append(Opened(made.id, "root/open", "/work", {}))
        made.log().append(Spawned("root/open", first.id))
        signed = made.log("root/open").append(NoticeEntry("done")).id
    file = session / "root" / "open.jsonl"
    (session / "signed.json").write_bytes(state(Statement(session.name, {"root/open": signed}, ())))
    assert file in named_logs(session)
    file.write_bytes(first.line + seal(first.id, NoticeEntry("of nobody")).line)
    assert file not in named_logs(session)
    assert b"of nobody" not in b"".join(export_lines(session, Redaction()))


def test_verify_names_what_head_misses(session: Path):
    head = verify(session).heads["root"]
    assert not any("not covered" in note for note in verify(session, head).notes)
    with Session.open(session) as made:
        first = made.log("root/late").append(Opened(made.id, "root/late", "/work", {}))
        made.log().append(Spawned("root/late", first.id))
    (note,) = [note for note in verify(session, head).notes if "not covered" in note]
    assert "root/late" in note
    assert "root/review" not in note


def test_copy_uses_its_own_name(session: Path, tmp_path: Path):
    made = copy(session, tmp_path / "state", tmp_path)
    assert verify(made).session == made.name != session.name
