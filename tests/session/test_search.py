"""What was said is found by its words, in any session, agent and case; what nobody said is not."""

from decimal import Decimal
from pathlib import Path

import pytest

from sagent.lib.json import EMPTY, sha256_hex
from sagent.messages import Message, Text, ToolCall, ToolResult, user
from sagent.session.contents import ChargeEntry, MessageEntry, Opened, Spawned, StoredMessage
from sagent.session.entries import seal
from sagent.session.search import search
from sagent.session.store import Session
from sagent.session.summary import summarize
from sagent.session.touches import ABSENT, Snapshot, Touch, Touched
from sagent.usage import Charge, Usage


def said(text: str) -> MessageEntry:
    return MessageEntry(StoredMessage.of(user(text), None))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Session.create(tmp_path, tmp_path) as session:
        log = session.log()
        log.append(Opened(session.id, "root", str(tmp_path), {}))
        log.append(said(f'{"a " * 300}Where is the "Größe" of \\n\nthe\tHAYSTACK? {"b " * 300}'))
        answer = Message("assistant", (Text("In the Barn."), ToolCall("1", "needle", EMPTY)))
        log.append(MessageEntry(StoredMessage.of(answer, None)))
        log.append(MessageEntry(StoredMessage.of(Message("user", (ToolResult("1", (Text("needle"),)),)), None)))
        below = session.log("root/child").append(said("the haystack is mine"))
        log.append(Spawned("root/child", below.id))
        session.log("root/planted").append(said("a haystack that nobody named"))
    return session.path


@pytest.mark.parametrize(
    ("words", "agents"),
    [
        (["haystack"], ["root", "root/child"]),
        (["HAYSTACK", "where"], ["root"]),
        (["GRÖSSE"], ["root"]),
        (["größe", "barn"], []),
        (['"Größe"', "\\n"], ["root"]),
        (["barn"], ["root"]),
        (["needle"], []),
        (["planted"], []),
        (["kind", "message"], []),
    ],
)
def test_message_with_all_words_is_found(path: Path, words: list[str], agents: list[str]) -> None:
    found = list(search([path], words))
    assert [each.agent for each in found] == agents
    for each in found:
        assert words[0].casefold() in each.excerpt.casefold()
        assert len(each.excerpt) < 120
        assert "\n" not in each.excerpt


def test_words_outside_text_are_not_found(path: Path) -> None:
    assert list(search([path], ["haystack", b"\xff".decode("utf-8", "surrogateescape")])) == []


def test_summary_shows_no_secret(path: Path) -> None:
    key = f"sk-ant-api03-{'a1B2c3D4' * 11}"
    with Session.open(path) as session:
        session.log().append(said(f"it is {key}"))
    assert "redacted" in summarize(path).said
    assert key not in summarize(path).said


@pytest.mark.parametrize("kind", ["label", "message"])
def test_summary_says_what_is_unreadable(path: Path, kind: str) -> None:
    log = path / "root.jsonl"
    last = log.read_bytes().splitlines()[-1][7:71].decode()
    deep = b'{"role":"assistant","text":%b%b}' % (b"[" * 100_000, b"]" * 100_000)
    rest = b'"at":"2030-01-01T00:00:00.000000Z","body":%b,"kind":"%b","parent":"%b"}' % (
        deep,
        kind.encode(),
        last.encode(),
    )
    log.write_bytes(log.read_bytes() + b'{"id":"%b",%b\n' % (sha256_hex(b"{" + rest).encode(), rest))
    seen = summarize(path)
    assert "cannot be read" in seen.problem
    assert seen.asked.startswith("a a a")


def test_damaged_or_gone_is_skipped(path: Path, tmp_path: Path) -> None:
    log = path / "root.jsonl"
    log.write_bytes(log.read_bytes().replace(b"HAYSTACK", b"haystick"))
    assert [each.agent for each in search([tmp_path / "nothing", path], ["haystick"])] == []
    assert [each.agent for each in search([path], ["haystack"])] == ["root/child"]


def test_injected_log_text_is_not_found(path: Path) -> None:
    log = path / "root.jsonl"
    *lines, last = log.read_bytes().splitlines(keepends=True)
    for parent in ("", "0" * 64, lines[-1][7:71].decode()):
        first = seal(parent, said("a haystack that nobody named"))
        second = seal(first.id, said("nor this haystack"))
        log.write_bytes(b"".join((*lines, first.line, second.line, last)))
        assert [each.agent for each in search([path], ["haystack"])] == []
    log.write_bytes(b"".join((*lines, last, first.line[:-40])))
    assert [each.agent for each in search([path], ["haystack"])] == ["root", "root/child"]


def test_preview_has_words_files_and_cost(path: Path) -> None:
    new, same = Touch("/w/a", Snapshot("absent"), Snapshot("file", "b")), Touch("/w/b", ABSENT, ABSENT)
    with Session.open(path) as session:
        log = session.log()
        log.append(Touched("1", "Write", ended=False, files=(new, same)))
        log.append(Touched("1", "Write", ended=True, files=(new, same)))
        log.append(ChargeEntry(Charge("m", Usage(1), usd=Decimal("0.5"), role="executor", provider="p")))
        log.append(MessageEntry(StoredMessage.of(Message("user", (Text("told"),), sender="agent"), None)))
        answer = Message("assistant", (Text("It\nis done."),), model="p/m")
        log.append(MessageEntry(StoredMessage.of(answer, None)))
        log.append(MessageEntry(StoredMessage.of(Message("user", (ToolResult("1", (Text("x"),)),)), None)))
    before = summarize(path)
    with Session.open(path) as session:
        more = session.log()
        call = Message("assistant", (ToolCall("2", "x", EMPTY),), model="p/n")
        more.append(MessageEntry(StoredMessage.of(call, None)))
        last = more.append(said("and now?"))
    assert (before.said, before.model) == ("It is done.", "p/m")
    seen = summarize(path)
    assert seen.asked.startswith("a a a")
    assert (seen.said, seen.model, list(seen.files), seen.usd) == ("and now?", "p/n", ["/w/a"], Decimal("0.5"))
    assert (seen.last >= last.at, seen.unpriced, seen.problem) == (True, (), "")
    with (path / "root.jsonl").open("ab") as file:
        file.write(b"{}\n")
    damaged = summarize(path)
    assert (damaged.said, damaged.usd) == ("and now?", Decimal("0.5"))
    assert "line " in damaged.problem
    left = iter([False, True])
    assert summarize(path, lambda: next(left)).said == ""  # nobody waits for the rest
    assert summarize(path / "gone").problem
