"""`sagent verify`, as a process."""

import json
import subprocess

import pytest

from sagent.messages import user
from sagent.session.contents import MessageEntry, StoredMessage
from sagent.session.store import Session
from tests.depth import later
from tests.session_place import Place


def test_verify_lists_checks_and_succeeds(place: Place):
    path = place.session()
    for words in ((), (path.name,), (path.name[:12],), (str(path),), (str(path / "root.jsonl"),)):
        out, _ = place.run("verify", *words)
        assert f"session {path.name}" in out
        assert "✓ log of root  2 entries" in out
        assert "--head ID" in out
        assert "`lock`" in out
        assert out.splitlines()[-1].startswith("OK: ")


def test_verify_reports_json_and_exit_code(place: Place):
    path = place.session()
    whole = json.loads(place.run("verify", "--json")[0])
    assert (whole["ok"], whole["entries"], whole["problems"], whole["session"]) == (True, 2, [], path.name)
    assert json.loads(place.run("verify", "--json", "--head", whole["head"])[0])["ok"]
    assert "its end is missing" in place.run("verify", "--head", "0" * 64, code=1)[0]
    file = path / "root.jsonl"
    file.write_bytes(file.read_bytes().replace(b"hello", b"hullo"))
    out, _ = place.run("verify", code=1)
    assert "✗ log of root" in out
    assert "NOT OK: 1 problem" in out
    assert f"sagent sessions repair {path}" in out
    found = json.loads(place.run("verify", "--json", code=1)[0])
    assert (found["ok"], len(found["problems"])) == (False, 1)


def test_torn_last_line_reported(place: Place):
    path = place.session()
    with (path / "root.jsonl").open("ab") as file:
        file.write(b'{"id":"ab')
    out, _ = place.run("verify", code=1)
    assert "9 bytes" in out and "unfinished" in out
    assert "sessions repair" not in out  # which would find nothing to repair


def test_verify_of_no_session_refused(place: Place):
    (place.cwd / "notes.md").write_text("# notes")
    for words in (("nope",), ("notes.md",), (".",), ("--frob",), ("--sign", "k", "--check-signature")):
        _, err = place.run("verify", *words, code=2)
        assert err.startswith("sagent: ")
        assert "Traceback" not in err


@later
def test_large_log_damage_located(place: Place):
    with Session.create(place.state, place.cwd) as made:
        for number in range(220):
            text = f"{number} " + "x" * 90_000
            made.log().append(MessageEntry(StoredMessage.of(user(text), None)))
    assert "✓ log of root  220 entries" in place.run("verify")[0]
    file = made.path / "root.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:150], *lines[151:]]))
    assert "line 151: " in place.run("verify", code=1)[0]


@pytest.mark.needs("ssh-keygen")
def test_session_signed_and_checked(place: Place):
    path = place.session()
    key = place.home / "key"
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    (place.home / ".ssh").mkdir()
    signers = place.home / ".ssh" / "allowed_signers"
    assert "Give it with --signers" in place.run("verify", "--check-signature", code=2)[1]
    signers.write_text(f"me {key.with_suffix('.pub').read_text()}")
    assert "is not signed" in place.run("verify", "--check-signature", code=1)[0]
    assert f"signed: {path / 'signed.json.sig'}" in place.run("verify", "--sign", str(key))[0]
    assert "✓ signature    me, ED25519 key SHA256:" in place.run("verify", "--check-signature")[0]
    file = path / "root.jsonl"
    file.write_bytes(file.read_bytes().splitlines(keepends=True)[0])
    assert "which was signed" in place.run("verify", "--check-signature", code=1)[0]
    assert "does not verify" in place.run("verify", "--sign", str(key), code=1)[1]
