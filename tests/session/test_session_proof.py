"""A session that was tampered with does not verify, wherever it was; a damaged one keeps its good prefix."""

from pathlib import Path

import pytest

from sagent.codec import encode_message
from sagent.errors import SessionBusy, SessionCorrupt, SessionNotFound
from sagent.messages import Image, user
from sagent.session.entries import opened, returned, seal, spawned
from sagent.session.folds import history
from sagent.session.log import read_log
from sagent.session.proof import repair, verify
from sagent.session.store import Session, summarize


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """A root that saw an image and spawned a child."""
    with Session.create_at(tmp_path / "session") as made:
        log, child = made.log(), made.log("root/review")
        log.append("opened", opened(made.id, "root", "/work", {}))
        first = child.append("opened", opened(made.id, "root/review", "/work", {}))
        log.append("spawned", spawned("root/review", first.id))
        image = Image("image/png", b"pixels")
        log.append("message", encode_message(user("look", image), lambda data: log.blobs.put(data).name))
        log.blobs.put(b"output of a command")
        child.append("message", encode_message(user("done"), None))
        log.append("returned", returned("root/review", child.head))
    return made.path


def test_an_untouched_session_verifies(session: Path):
    proof = verify(session)
    assert proof.problems == ()
    assert (proof.entries, proof.blobs) == (6, 2)
    assert set(proof.heads) == {"root", "root/review"}
    assert verify(session, proof.heads["root"]) == proof


def test_a_changed_byte_in_any_file_shows(session: Path):
    for file in [path for path in session.rglob("*") if path.is_file() and path.name != "lock"]:
        whole = file.read_bytes()
        for place in range(0, len(whole), 11):
            changed = bytearray(whole)
            changed[place] ^= 0x20
            file.write_bytes(changed)
            assert verify(session).problems, (file, place)
        file.write_bytes(whole)
    assert verify(session).problems == ()


def test_a_blob_that_is_gone_shows_at_the_entry_that_names_it(session: Path):
    (entry,) = [entry for entry in read_log(session / "root.jsonl") if entry.kind == "message"]
    for blob in (session / "blobs").iterdir():
        if blob.read_bytes() == b"pixels":
            blob.unlink()
    (problem,) = verify(session).problems
    assert entry.id in problem
    assert "missing" in problem


def test_a_child_whose_end_was_cut_off_shows(session: Path):
    file = session / "root" / "review.jsonl"
    file.write_bytes(file.read_bytes().splitlines(keepends=True)[0])
    (problem,) = verify(session).problems
    assert "the log of root/review has no entry" in problem


def test_a_root_whose_end_was_cut_off_shows_against_a_head_kept_elsewhere(session: Path):
    head = verify(session).heads["root"]
    file = session / "root.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))
    assert verify(session).problems == ()
    (problem,) = verify(session, head).problems
    assert head in problem


def test_a_torn_end_and_a_stranger_show(session: Path):
    with (session / "root.jsonl").open("ab") as file:
        file.write(b'{"id":"')
    (session / "final_output.txt").write_text("edited")
    unfinished, stranger = verify(session).problems
    assert "7 bytes of an unfinished entry" in unfinished
    assert "final_output.txt" in stranger
    assert "not checked" in stranger


def test_an_entry_hashed_over_other_than_canonical_json_shows(session: Path):
    head = verify(session).heads["root"]
    body = seal(head, "message", encode_message(user("x"), None)).line
    # Spaces written into a body, and the line hashed as it is: the chain is whole, the id is not the definition's.
    from sagent.session.entries import _hash

    rest = body[73:].replace(b'"role":"user"', b'"role": "user"')
    with (session / "root.jsonl").open("ab") as file:
        file.write(b'{"id":"%b",' % _hash(rest).encode() + rest)
    (problem,) = verify(session).problems
    assert "canonical" in problem


def test_what_is_no_session_is_not_found(tmp_path: Path):
    with pytest.raises(SessionNotFound):
        verify(tmp_path)
    with pytest.raises(SessionNotFound):
        repair(tmp_path)


def test_repair_keeps_the_good_prefix_and_the_damaged_file(session: Path):
    file = session / "root.jsonl"
    good = list(read_log(file))
    damaged = file.read_bytes().replace(b'"text":"look"', b'"text":"kool"')
    file.write_bytes(damaged)
    (done,) = repair(session)
    assert (done.file, done.kept) == (file, 2)
    assert done.dropped == sum(len(entry.line) for entry in good[2:])
    assert done.aside.read_bytes() == damaged
    *kept, note = read_log(file)
    assert kept == good[:2]
    assert (note.kind, note.parent) == ("repaired", good[1].id)
    assert note.body["aside"] == done.aside.name
    assert summarize(session).problem == ""
    with Session.open(session) as again:
        assert history(again.log().entries(), again.log().blobs.get) == ()
    assert repair(session) == ()


def test_repair_of_a_first_line_leaves_an_empty_conversation(session: Path):
    file = session / "root" / "review.jsonl"
    file.write_bytes(b"\n" + file.read_bytes())
    (done,) = repair(file)
    assert (done.file, done.kept) == (file, 0)
    assert [entry.kind for entry in read_log(file)] == ["repaired"]
    assert done.aside.stat().st_mode & 0o777 == file.stat().st_mode & 0o777 == 0o600


def test_repair_waits_for_nobody(session: Path):
    with Session.open(session), pytest.raises(SessionBusy):
        repair(session)


def test_a_damaged_blob_is_not_given_out(session: Path):
    with Session.open(session) as made:
        path = made.log().blobs.put(b"pixels")
        path.write_bytes(b"pixelz")
        with pytest.raises(SessionCorrupt, match="changed"):
            history(made.log().entries(), made.log().blobs.get)
        assert history(made.log().entries(), lambda _: None)[0].content.startswith("look[image/png is lost")
        path.write_bytes(b"pix")  # one that was cut short is written again
        assert made.log().blobs.put(b"pixels").read_bytes() == b"pixels"
