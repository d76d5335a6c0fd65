"""What was said is found by its words, in any session, agent and case; what nobody said is not."""

from pathlib import Path

import pytest

from sagent.lib.json import EMPTY
from sagent.messages import Message, Text, ToolCall, ToolResult, user
from sagent.session.contents import MessageEntry, Opened, Spawned
from sagent.session.search import search
from sagent.session.store import Session
from sagent.session.stored import StoredMessage


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
def test_a_message_with_all_the_words_is_found(path: Path, words: list[str], agents: list[str]) -> None:
    found = list(search([path], words))
    assert [each.agent for each in found] == agents
    for each in found:
        assert words[0].casefold() in each.excerpt.casefold()
        assert len(each.excerpt) < 120
        assert "\n" not in each.excerpt


def test_what_is_damaged_or_gone_is_passed_over(path: Path, tmp_path: Path) -> None:
    log = path / "root.jsonl"
    log.write_bytes(log.read_bytes().replace(b"HAYSTACK", b"haystick"))
    assert [each.agent for each in search([tmp_path / "nothing", path], ["haystick"])] == []
    assert [each.agent for each in search([path], ["haystack"])] == ["root/child"]
