"""A session for others: what is in it, what is not, and what its proof says."""

import json
import re
import tarfile
from pathlib import Path

import pytest
from export_story import KEY, PASSWORD, tell
from hypothesis import given
from hypothesis import strategies as st

from sagent.errors import SessionCorrupt
from sagent.plugins.audit.bundle import read_manifest
from sagent.plugins.audit.verify import verify
from sagent.plugins.exports.cast import write_cast
from sagent.plugins.exports.export import export_bundle, export_lines, export_text
from sagent.plugins.exports.folder import SharedFolder
from sagent.plugins.exports.timeline import MAX_TEXT_CHARS, read_timeline
from sagent.session.contents import AdviceOutcome, Content, Opened, SwitchedEntry, Unknown
from sagent.session.entries import parse_line
from sagent.session.log import read_log
from sagent.session.store import Session, named_logs
from sagent.transcript.redaction import Redaction
from tests.depth import later


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return tell(tmp_path / "story")


def members(bundle: Path) -> dict[str, bytes]:
    with tarfile.open(bundle) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}  # pyright: ignore[reportOptionalMemberAccess]


@pytest.fixture
def bundle(session: Path, tmp_path: Path) -> Path:
    export_bundle(session, tmp_path / "b.tar", Redaction(), {"model": "a/b"})
    return tmp_path / "b.tar"


# -- the bundle --------------------------------------------------------------------------------------------------------


def test_bundle_redacts_and_counts_secrets(session: Path, tmp_path: Path):
    redaction = Redaction()
    done = export_bundle(session, tmp_path / "b.tar", redaction, {})
    data = (tmp_path / "b.tar").read_bytes()
    assert KEY.encode() not in data
    assert PASSWORD.encode() not in data
    assert (done.secrets, done.entries, done.blobs, done.unsearched) == (3, 2, 1, 2)
    manifest = read_manifest(members(tmp_path / "b.tar")["manifest.json"])
    assert (manifest.id, manifest.secrets, len(manifest.redacted["root.jsonl"]), len(manifest.blobs)) == (
        done.id,
        3,
        2,
        1,
    )


def test_redacted_bundle_verifies_with_note(session: Path, bundle: Path):
    proof = verify(bundle)
    assert (proof.problems, proof.redacted) == ((), 3)
    assert proof.heads == verify(session).heads
    assert any("no longer match" in note for note in proof.notes)
    for log in ("root.jsonl", "root/review.jsonl"):
        kept = members(bundle)[f"session/{log}"].splitlines(keepends=True)
        ids = [entry.id for entry in read_log(session / log)]
        assert [json.loads(line)["id"] for line in kept] == ids


def test_unredacted_bundle_byte_exact(session: Path, tmp_path: Path):
    export_bundle(session, tmp_path / "b.tar", Redaction(keep=True), {})
    inside = members(tmp_path / "b.tar")
    for path in session.rglob("*"):
        if path.is_file() and path.name != "lock":
            assert inside[f"session/{path.relative_to(session).as_posix()}"] == path.read_bytes()
    assert verify(tmp_path / "b.tar").redacted == 0
    assert json.loads(inside["manifest.json"])["searched"] is False


def test_bundle_reproducible(session: Path, bundle: Path, tmp_path: Path):
    export_bundle(session, tmp_path / "again.tar", Redaction(), {"model": "a/b"})
    assert (tmp_path / "again.tar").read_bytes() == bundle.read_bytes()


def test_manifest_and_report_complete(session: Path, bundle: Path):
    inside = members(bundle)
    manifest = json.loads(inside["manifest.json"])
    assert manifest["environment"] == {"git_commit": "abc1234", "git_dirty": True, "python": "3.11", "sagent": "0.1"}
    assert manifest["settings"] == {"model": "a/b"}
    assert manifest["parameters"] == [{"model": "anthropic/claude-sonnet-4-6", "parameters": {"max_tokens": 4096}}]
    assert manifest["heads"] == verify(session).heads
    report = json.loads(inside["report.json"])
    assert report["telemetry"]["turns"] == 5
    assert report["telemetry"]["tools"]["Write"] == {"calls": 1, "denied": 1, "failed": 0}
    assert [agent["agent"] for agent in report["telemetry"]["agents"]] == ["root", "root/review"]
    assert report["cost"]["total"] == {
        "calls": 5, "usd": "0.04", "unpriced_calls": 1,
        "input": 450, "cache_read": 3600, "cache_write": 0, "output": 80,
    }  # fmt: skip
    assert set(report["cost"]["by_role"]) == {"executor", "advisor:critic"}
    assert [each["verdict"] for each in report["consultations"]] == ["adjust", "withheld"]
    nothing = {"tokens_saved": 0, "usd_saved": "0"}  # no request follows
    assert report["context"] == {"compactions": 1, "tokens_removed": 5000, "cache_read": 3600, **nothing}
    audit = report["audit"]
    assert [denied["reason"] for denied in audit["denied"]] == ["Permission denied: plan only"]
    assert (audit["withheld"], audit["problems"], len(audit["failed"])) == (1, [], 1)
    assert [part["part"] for part in audit["verified"]] == ["log of root", "log of root/review", "children", "blobs"]


def test_torn_end_left_out_and_reported(session: Path, tmp_path: Path):
    with (session / "root.jsonl").open("ab") as file:
        file.write(b'{"id":"half')
    done = export_bundle(session, tmp_path / "b.tar", Redaction(), {})
    assert "unfinished entry" in done.problems[0]
    assert verify(tmp_path / "b.tar").problems == ()


def test_damaged_session_makes_no_bundle(session: Path, tmp_path: Path):
    file = session / "root.jsonl"
    file.write_bytes(file.read_bytes().replace(b"Step 2", b"Step 9"))
    with pytest.raises(SessionCorrupt, match="sagent sessions repair"):
        export_bundle(session, tmp_path / "b.tar", Redaction(), {})
    assert not (tmp_path / "b.tar").exists()


# -- lines, Markdown, page ---------------------------------------------------------------------------------------------


def test_lines_hold_every_entry_in_order(session: Path):
    redaction = Redaction()
    lines = [json.loads(line) for line in export_lines(session, redaction)]
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
    assert len(lines) == verify(session).entries
    assert {line["agent"] for line in lines} == {"root", "root/review"}
    assert sum(line.get("redacted", False) for line in lines) == redaction.count == 2
    assert KEY not in json.dumps(lines)
    whole = [json.loads(line) for line in export_lines(session, Redaction(keep=True))]
    assert KEY in json.dumps(whole)
    for line in whole:
        agent = line.pop("agent")
        entry = next(entry for entry in read_log(session / f"{agent}.jsonl") if entry.id == line["id"])
        assert json.loads(entry.line) == line


def test_markdown_has_no_markup_or_secrets(session: Path):
    page, done = export_text(session, "md", Redaction())
    text = page.decode()
    assert KEY not in text
    assert PASSWORD not in text
    assert done.secrets == 2
    outside = re.sub(r"^(`{3,})\w*\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert "<script" not in outside.replace("\\<", "")
    assert "<img" not in outside.replace("\\<", "")
    for words in ("## root, turn 1", "Call of Edit, done", "-y = 2", "+y = <b>3</b>", "critic advises root: adjust"):
        assert words in text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (AdviceOutcome("reviewer", "a" * 64, "followed", ""), "The advice of reviewer was followed"),
        (AdviceOutcome("reviewer", "a" * 64, "rejected", "slow"), "The advice of reviewer was rejected: slow"),
        (SwitchedEntry("a/b", "high"), "Switched to a/b, effort high"),
        (SwitchedEntry(advisor="advisor reviewer off"), "Switched: advisor reviewer off"),
    ],
)
def test_events_written_as_sentences(tmp_path: Path, content: Content, words: str):
    with Session.create_at(tmp_path / "s") as session:
        session.log().append(Opened(session.id, "root", "/work", {}))
        session.log().append(content)
    assert f"{words}\n".encode() in export_text(tmp_path / "s", "md", Redaction())[0]


def test_damaged_session_shown_to_damage(session: Path):
    file = session / "root.jsonl"
    file.write_bytes(file.read_bytes().replace(b"Step 2", b"Step 9"))
    for kind in ("html", "md"):
        page, done = export_text(session, kind, Redaction())
        assert b"Step 3" in page
        assert b"Step 9" not in page
        assert done.problems
        assert b"does not match its id" in page


@later
def test_page_size_bounded(tmp_path: Path):
    with Session.create_at(tmp_path / "s") as made:
        for number in range(45):
            text = f"{number} " + '<&"\u4e16\u754c' * 12_000
            made.log().append(Unknown("message", {"role": "user", "parts": [{"type": "text", "text": text}]}))
    page, _ = export_text(made.path, "html", Redaction())
    assert 1_000_000 < len(page) < 10_000_000
    assert page.count(b"<article") == 45
    assert b"45 texts cut" in page


# -- redaction ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [70, MAX_TEXT_CHARS - 10])
def test_secret_removed_before_cutting(tmp_path: Path, start: int):
    asked = "look " * (start // 5) + KEY
    with Session.create_at(tmp_path / "s") as made:
        log = made.log()
        log.append(Unknown("message", {"role": "user", "parts": [{"type": "text", "text": asked}]}))
    export_bundle(made.path, tmp_path / "b.tar", Redaction(), {})
    timeline = read_timeline(made.path, named_logs(made.path))
    SharedFolder(tmp_path / "shared").add(timeline, "s", ())
    texts = [export_text(made.path, kind, Redaction())[0] for kind in ("html", "md")]
    texts += [b"".join(write_cast(timeline, Redaction())), (tmp_path / "b.tar").read_bytes()]
    texts += [file.read_bytes() for file in (tmp_path / "shared").rglob("*.json")]
    assert [text for text in texts if KEY[:8].encode() in text] == []


def test_redacted_line_keeps_the_rest(session: Path):
    for entry in read_log(session / "root.jsonl"):
        redaction = Redaction()
        line = redaction.entry(entry)
        if line is entry.line:
            assert redaction.count == 0
            continue
        with pytest.raises(ValueError, match="does not match its id"):
            parse_line(line)
        members = json.loads(line)
        kept = (members["id"], members["at"], members["kind"], members["parent"])
        assert kept == (entry.id, entry.at, entry.kind, entry.parent)
        assert Redaction().value(members["body"]) == members["body"]  # nothing is left to take out


@given(st.text(max_size=30), st.sampled_from(["password", "api_key", "client_secret", "authToken"]))
def test_secrets_in_calls_removed(word: str, name: str):
    secret = "A9" * 12
    body = {
        "parts": [
            {"type": "text", "text": f"{word}\nexport {name.upper()}={secret}\n{word}"},
            {"type": "tool_call", "arguments": json.dumps({"env": {name: secret}, "word": word})},
        ]
    }
    redaction = Redaction()
    clean = redaction.value(body)
    assert secret not in json.dumps(clean)
    assert redaction.count == 2
    assert json.loads(clean["parts"][1]["arguments"])["word"] == word  # pyright: ignore[reportIndexIssue]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_text_without_secret_unchanged(value):
    redaction = Redaction()
    clean = redaction.value(value)
    assert redaction.count or clean == value
