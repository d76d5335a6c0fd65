"""Who vouches for a session or a bundle: real keys, real ssh-keygen."""

import os
import subprocess
from pathlib import Path

import pytest

from sagent.errors import UsageError
from sagent.messages import user
from sagent.plugins.audit.bundle import write_bundle
from sagent.plugins.audit.signature import SIGNATURE
from sagent.plugins.audit.verify import sign_record, verify
from sagent.session.contents import MessageEntry, Opened, Spawned, StoredMessage, Unknown
from sagent.session.entries import read_body, seal
from sagent.session.log import read_log
from sagent.session.place import Place
from sagent.session.statement import STATEMENT, Statement, read_statement, state
from sagent.session.store import Session, delete
from tests.depth import deep

pytestmark = pytest.mark.needs("ssh-keygen")


@pytest.fixture
def session(tmp_path: Path) -> Path:
    with Session.create_at(tmp_path / "session") as made:
        log = made.log()
        log.append(Opened(made.id, "root", "/work", {}))
        log.append(MessageEntry(StoredMessage.of(user("hello"), None)))
        log.blobs.put(b"an output")
    return made.path


def make_key(directory: Path, name: str) -> Path:
    key = directory / name
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return key


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return make_key(tmp_path, "mine")


@pytest.fixture
def signers(tmp_path: Path, key: Path) -> Path:
    file = tmp_path / "allowed_signers"
    file.write_text(f"me@example.org {key.with_suffix('.pub').read_text()}")
    return file


def test_signed_session_names_signer(session: Path, key: Path, signers: Path):
    proof = verify(session)
    assert sign_record(session, proof, key) == session / SIGNATURE
    signed = verify(session, signers=signers)
    assert signed.problems == ()
    assert signed.signer.startswith("me@example.org, ED25519 key SHA256:")
    assert not any("A chain alone" in note for note in signed.notes)
    with Session.open(session) as made:
        made.log().append(Unknown("label", {"text": "more"}))
    assert verify(session, signers=signers).problems == ()
    assert {path.stat().st_mode & 0o777 for path in session.iterdir() if path.is_file()} == {0o600}


def test_signer_not_read_from_work_directory(
    session: Path, key: Path, signers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    sign_record(session, verify(session), key)
    (session / STATEMENT).write_bytes((session / STATEMENT).read_bytes().replace(b"root", b"toor"))
    inside = tmp_path / "work" / ".venv" / "bin"
    inside.mkdir(parents=True)
    (inside / "ssh-keygen").write_text("#!/bin/sh\necho me@example.org with a key\n")
    (inside / "ssh-keygen").chmod(0o755)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("PATH", f"{inside}:{os.environ['PATH']}")
    problems = verify(session, signers=signers).problems
    assert any("not a signature of these bytes" in problem for problem in problems)


def test_ssh_keygen_alone_verifies(session: Path, key: Path, signers: Path):
    sign_record(session, verify(session), key)
    command = ["ssh-keygen", "-Y", "verify", "-n", "sagent", "-f", str(signers), "-I", "me@example.org"]
    done = subprocess.run(
        [*command, "-s", str(session / SIGNATURE)],
        input=(session / STATEMENT).read_bytes(), capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_signature_covers_more_than_chain(session: Path, key: Path, signers: Path):
    sign_record(session, verify(session), key)
    file = session / "root.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole.splitlines(keepends=True)[0])  # the end cut off, whole entries
    assert any("which was signed" in problem for problem in verify(session, signers=signers).problems)
    first, second = list(read_log_of(whole, file))
    file.write_bytes(
        first.line + seal(first.id, Unknown(second.kind, {**read_body(second), "role": "assistant"})).line
    )  # rewritten
    assert any("which was signed" in problem for problem in verify(session, signers=signers).problems)
    file.write_bytes(whole)
    (blob,) = (session / "blobs").iterdir()
    blob.unlink()
    assert any(f"{blob.name}, which was signed, is missing" in each for each in verify(session).problems)


def read_log_of(whole: bytes, file: Path):
    file.write_bytes(whole)
    return read_log(file)


def test_every_signed_byte_counts(session: Path, key: Path, signers: Path):
    sign_record(session, verify(session), key)
    for file, step in ((session / STATEMENT, deep(2, 1)), (session / SIGNATURE, deep(14, 7))):
        whole = file.read_bytes()
        for place in range(0, len(whole), step):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            given = None if file.name == STATEMENT and place % 5 else signers
            assert verify(session, signers=given).problems, (file, place)
        file.write_bytes(whole + b"\n")
        assert verify(session, signers=signers).problems, file
        file.write_bytes(whole)
    assert verify(session, signers=signers).problems == ()


def test_foreign_key_rejected(session: Path, signers: Path, tmp_path: Path):
    sign_record(session, verify(session), make_key(tmp_path, "theirs"))
    (problem,) = verify(session, signers=signers).problems
    assert f"not signed by a key in {signers}" in problem


def test_missing_signature_only_if_asked(session: Path, signers: Path, key: Path):
    assert verify(session).problems == ()
    (problem,) = verify(session, signers=signers).problems
    assert "is not signed" in problem
    sign_record(session, verify(session), key)
    assert any("--check-signature" in note for note in verify(session).notes)
    (session / SIGNATURE).unlink()
    assert any(SIGNATURE in problem for problem in verify(session, signers=signers).problems)


def test_unusable_keys_refused(session: Path, tmp_path: Path, key: Path):
    with pytest.raises(UsageError, match="cannot sign"):
        sign_record(session, verify(session), tmp_path / "nowhere")
    (tmp_path / "text").write_text("no key")
    with pytest.raises(UsageError, match="cannot sign"):
        sign_record(session, verify(session), tmp_path / "text")
    key.chmod(0o644)
    with pytest.raises(UsageError, match="too open"):
        sign_record(session, verify(session), key)
    key.chmod(0o600)
    assert not (session / STATEMENT).exists()
    sign_record(session, verify(session), key)
    with pytest.raises(UsageError, match="allowed signers"):
        verify(session, signers=tmp_path / "nowhere")


def test_missing_ssh_keygen_explained(session: Path, tmp_path: Path, key: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "defpath", str(tmp_path))
    with pytest.raises(UsageError, match="install OpenSSH"):
        sign_record(session, verify(session), key)


def test_bundle_signed_whole_beside_it(session: Path, tmp_path: Path, key: Path, signers: Path):
    bundle = tmp_path / "s.tar"
    file = session / "root.jsonl"
    files = {"session/root.jsonl": Place(file, 0, file.stat().st_size)}
    write_bundle(bundle, {"session": "session"}, files)
    assert verify(bundle, signers=signers).problems == (f"{bundle}:session is not signed.",)
    assert sign_record(bundle, verify(bundle), key) == tmp_path / "s.tar.sig"
    proof = verify(bundle, signers=signers)
    assert (proof.problems, proof.signer[:14]) == ((), "me@example.org")
    other = tmp_path / "t.tar"
    write_bundle(other, {"session": "session", "more": 1}, files)
    (tmp_path / "t.tar.sig").write_bytes((tmp_path / "s.tar.sig").read_bytes())
    assert any("not a signature of these bytes" in problem for problem in verify(other, signers=signers).problems)


def test_signature_not_valid_for_export(session: Path, tmp_path: Path, key: Path, signers: Path):
    """Who exports it says which entries keep their ids without their content, and may have put in anything."""
    sign_record(session, verify(session), key)
    first, second = read_log(session / "root.jsonl")
    files: dict[str, Place | bytes] = {
        f"session/{file.relative_to(session)}": Place(file, 0, file.stat().st_size)
        for file in session.rglob("*")
        if file.is_file()
    }
    files["session/root.jsonl"] = first.line + second.line.replace(b"hello", b"it was me")
    changed = {"session": "session", "redacted": {"entries": {"root.jsonl": {second.id: 1}}, "secrets": 1}}
    bundle = tmp_path / "s.tar"
    write_bundle(bundle, changed, files)
    assert verify(bundle).problems == ()
    checked = verify(bundle, signers=signers)
    (problem,) = checked.problems
    assert "1 redacted" in problem
    assert any("Pages and reports" in note for note in checked.notes)
    sign_record(bundle, verify(bundle), key)
    assert verify(bundle, signers=signers).problems == ()


def test_deleting_session_deletes_signature(session: Path, key: Path):
    sign_record(session, verify(session), key)
    delete(session)
    assert not session.exists()


def test_statement_must_be_canonical():
    written = state(Statement("s", {"root": "a"}, ("b",)))
    assert read_statement(written) == Statement("s", {"root": "a"}, ("b",))
    with pytest.raises(ValueError, match="not a signed statement of sagent"):
        read_statement(written.replace(b":", b": "))


def test_signature_covers_set_of_logs(session: Path, key: Path, signers: Path):
    sign_record(session, verify(session), key)
    (session / "root").mkdir()
    (session / "root" / "mole.jsonl").write_bytes(seal("", Opened("", "root/mole", "", {})).line)
    assert any("was not there" in each and "signed" in each for each in verify(session, signers=signers).problems)
    with Session.open(session) as made:
        made.log().append(Spawned("root/mole", ""))
    assert any("the end of root, root/mole" in note for note in verify(session, signers=signers).notes)
