"""`sagent verify`, `sagent export` and `sagent sessions prune`, as processes."""

import json
import os
import subprocess
import time
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pytest

from sagent.messages import user
from sagent.session.contents import ChargeEntry, MessageEntry, Opened, StoredMessage
from sagent.session.store import Session, sessions
from sagent.usage import Charge, Usage
from tests.forks import CHECKOUT, Forks

SECRET = "sk-ant-abcdefghij0123456789"


@dataclass
class Place:
    """A directory to work in, with a state directory of its own."""

    home: Path
    forks: Forks

    @property
    def cwd(self) -> Path:
        return self.home / "work"

    @property
    def state(self) -> Path:
        return self.home / "state"

    def run(self, *argv: str, code: int = 0) -> tuple[str, str]:
        """Run a command; what it said."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "PYTHONPATH": str(CHECKOUT)}
        environment["SAGENT_STATE_DIR"] = str(self.state)
        done = self.forks.run(*argv, cwd=self.cwd, environment=environment)
        assert done.returncode == code, done
        return done.stdout.decode(), done.stderr.decode()

    def session(self, text: str = "hello", days: float = 0) -> Path:
        """A session of this directory."""
        with Session.create(self.state, self.cwd) as made:
            made.log().append(Opened(made.id, "root", str(self.cwd), {}))
            made.log().append(MessageEntry(StoredMessage.of(user(text), None)))
        at = time.time() - days * 86_400
        os.utime(made.path / "root.jsonl", (at, at))
        return made.path


@pytest.fixture
def place(tmp_path: Path, forks: Forks) -> Place:
    (tmp_path / "work").mkdir()
    return Place(tmp_path, forks)


# -- verify ------------------------------------------------------------------------------------------------------------


def test_verify_says_what_it_checked_and_ok_for_that(place: Place):
    path = place.session()
    for words in ((), (path.name,), (path.name[:12],), (str(path),), (str(path / "root.jsonl"),)):
        out, _ = place.run("verify", *words)
        assert f"session {path.name}" in out
        assert "✓ log of root  2 entries" in out
        assert "--head ID" in out
        assert "`lock`" in out
        assert out.endswith("OK: what was checked above is unchanged\n")


def test_verify_finds_and_tells_a_program(place: Place):
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


def test_verify_reports_a_torn_last_line_as_such(place: Place):
    path = place.session()
    with (path / "root.jsonl").open("ab") as file:
        file.write(b'{"id":"ab')
    out, _ = place.run("verify", code=1)
    assert "9 bytes of an unfinished entry at the end: its writer was killed, or is still running" in out
    assert "sessions repair" not in out  # which would find nothing to repair


def test_verify_of_what_is_no_session_is_a_usage_error(place: Place):
    (place.cwd / "notes.md").write_text("# notes")
    for words in (("nope",), ("notes.md",), (".",), ("--frob",), ("--sign", "k", "--check-signature")):
        _, err = place.run("verify", *words, code=2)
        assert err.startswith("sagent: ")
        assert "Traceback" not in err


def test_verify_shares_the_work_of_a_large_log(place: Place):
    with Session.create(place.state, place.cwd) as made:
        for number in range(220):
            text = f"{number} " + "x" * 90_000
            made.log().append(MessageEntry(StoredMessage.of(user(text), None)))
    assert "✓ log of root  220 entries" in place.run("verify")[0]
    file = made.path / "root.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:150], *lines[151:]]))
    assert "line 151: the entry does not follow" in place.run("verify", code=1)[0]


@pytest.mark.needs("ssh-keygen")
def test_a_session_is_signed_and_its_signature_checked(place: Place):
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
    assert "because the session does not verify" in place.run("verify", "--sign", str(key), code=1)[1]


# -- export ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "suffix"), [("bundle", "tar"), ("html", "html"), ("md", "md"), ("jsonl", "jsonl")])
def test_export_writes_every_format_without_secrets(place: Place, kind: str, suffix: str):
    path = place.session(f"my key is {SECRET}")
    _, err = place.run("export", "--format", kind)
    out = place.cwd / f"{path.name}.{suffix}"
    assert SECRET.encode() not in out.read_bytes()
    assert f"exported to {out.name}" in err
    assert "1 secret taken out" in err
    assert out.stat().st_mode & 0o777 == 0o600
    other = place.home / "out"
    _, err = place.run("export", path.name, "--format", kind, "--keep-secrets", "--out", str(other))
    assert SECRET.encode() in other.read_bytes()
    assert "it was not searched for secrets" in err
    assert sorted(each.name for each in place.cwd.iterdir()) == [out.name]


def test_an_exported_bundle_verifies(place: Place):
    path = place.session(f"my key is {SECRET}")
    _, err = place.run("export", "--out", "b.tar")
    out, _ = place.run("verify", "b.tar")
    assert "✓ manifest" in out
    assert out.split("id ")[1].split()[0] in err
    assert out.endswith("OK: what was checked above is unchanged, but for 1 redacted\n")
    head = json.loads(place.run("verify", "--json")[0])["head"]
    assert json.loads(place.run("verify", "--json", "b.tar", "--head", head)[0])["redacted"] == 1
    data = bytearray((place.cwd / "b.tar").read_bytes())
    data[data.index(b"redacted: key")] ^= 1
    (place.cwd / "b.tar").write_bytes(data)
    assert "it is not the file that the manifest lists" in place.run("verify", "b.tar", code=1)[0]
    assert path.is_dir()


def test_a_bundle_has_settings_and_no_key(place: Place):
    place.session()
    config = place.home / ".config" / "sagent"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(
        'model = "mine/m"\n[providers.mine]\nbase_url = "http://localhost:1/v1"\nfamily = "chat"\n'
        'api_key = "k123456789012345678qzxw"\n'
    )
    place.run("export", "--out", "b.tar")
    data = (place.cwd / "b.tar").read_bytes()
    assert b'"model":"mine/m"' in data
    assert b"qzxw" not in data


def test_export_to_stdout_and_what_it_refuses(place: Place):
    place.session()
    out, _ = place.run("export", "--format", "jsonl", "--out", "-")
    assert [json.loads(line)["kind"] for line in out.splitlines()] == ["opened", "message"]
    assert "name one with --out" in place.run("export", "--out", "-", code=2)[1]
    assert "sagent: no/where.tar: No such file" in place.run("export", "--out", "no/where.tar", code=2)[1]
    assert "invalid choice" in place.run("export", "--format", "pdf", code=2)[1]
    assert "no session" in place.run("export", "nope", code=2)[1]


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_a_listing_tells_sizes(place: Place):
    with Session.open(place.session("first")) as made:
        made.log().blobs.put(b"x" * 250_000)
    place.session("second")
    out, _ = place.run("sessions", "list")
    assert "  250." in out
    assert "2 sessions, 25" in out
    assert "USD" not in out
    assert "$0.0000" in place.run("sessions", "list", "--costs")[0]


def test_what_counts_towards_a_cap_and_was_not_billed_is_told(place: Place):
    session = place.session()
    cut = Charge(
        "claude-sonnet-4-6", Usage(input=10), "", Decimal("0.1"), True, "executor", "anthropic", "root", Decimal("0.75")
    )
    with Session.open(session) as made:
        made.log().append(ChargeEntry(cut))
    for flags in ((), ("--costs",)):
        out, _ = place.run("sessions", "show", *flags, str(session))
        assert "cost     0.100000 USD\n         0.650000 USD more count towards a budget (calls that were lost" in out


def test_pruning_needs_a_rule_and_tells_what_went(place: Place):
    old = [place.session(f"old {number}", 100 + number) for number in range(3)]
    new = place.session("new")
    assert "--older-than 90d, --keep 50" in place.run("sessions", "prune", code=2)[1]
    assert "not an age" in place.run("sessions", "prune", "--older-than", "soon", code=2)[1]
    assert "0 or more" in place.run("sessions", "prune", "--keep", "-1", code=2)[1]
    out, _ = place.run("sessions", "prune", "--older-than", "90d", "--keep", "2", "--dry-run")
    assert "2 of 4 sessions would be deleted" in out
    assert len(list(sessions(place.state))) == 4
    out, _ = place.run("sessions", "prune", "--older-than", "90d", "--keep", "2")
    assert "2 of 4 sessions deleted" in out
    assert set(sessions(place.state)) == {new, old[0]}
    with Session.open(old[0]):
        os.utime(old[0] / "root.jsonl", (0, 0))
        out, _ = place.run("sessions", "prune", "--keep", "1", code=1)
        assert "is in use by process" in out
    place.run("sessions", "prune", "--keep", "0")
    assert list(sessions(place.state)) == []
