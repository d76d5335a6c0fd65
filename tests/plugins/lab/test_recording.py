"""A log as a list of turns."""

import json
from collections.abc import Mapping
from decimal import Decimal

import pytest

from sagent.codec import encode_message, encode_result_part
from sagent.errors import SessionCorrupt
from sagent.messages import Message, Text, ToolResult, assistant, user
from sagent.plugins.lab.recording import (
    InheritedMessage,
    Recording,
    models_of,
    read_recording,
)
from sagent.session.contents import ChargeEntry, Compacted, Forked, Opened, SwitchedEntry, Unknown
from sagent.session.log import MemoryLog
from sagent.usage import Charge, Usage
from tests.messages import call

TWO = Message(
    "assistant",
    (Text("I look."), call("a", "Read", path="x"), call("b", "Bash")),
    model="p/m",
    stop="tool_use",
)


class Script:
    """A log that is written entry by entry."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.log.append(Opened("s", "root", "/w", {"sagent": "0.1.0"}))

    def add(self, kind: str, body: Mapping[str, object]) -> "Script":
        self.log.append(Unknown(kind, body))
        return self

    def message(self, message: Message, **more: object) -> "Script":
        return self.add("message", {**encode_message(message, None), **more})

    def prompt(self, **tool: object) -> "Script":
        return self.add("prompt", {"system": "be", "tools": [tool] if tool else []})

    def request(self, **more: object) -> "Script":
        return self.add("request", {"sha256": "0" * 64, "size": 9, "model": "m", "parameters": {"top": 1}, **more})

    def result(self, call: str) -> "Script":
        result = ToolResult(call, (Text(f"{call}!"),))
        return self.add("result", {"result": encode_result_part(result, None), "seconds": 0.5})

    def spent(self, role: str = "executor") -> "Script":
        self.log.append(ChargeEntry(Charge("m", Usage(input=1), usd=Decimal(1), role=role, provider="p", agent="root")))
        return self

    def read(self) -> Recording:
        try:
            return read_recording("root", tuple(self.log.entries()), lambda _: b"")
        finally:
            self.log.close()


def test_turn_holds_input_and_outcome() -> None:
    script = Script().message(user("go")).prompt().request().message(TWO).spent().result("b").result("a")
    found = script.request().message(assistant("Done.", model="p/m")).spent().read()

    first, second = found.turns
    assert [came.message.content for came in first.came] == ["go"]
    assert first.prompted
    assert not second.prompted
    assert first.sent is not None and first.sent.parameters == {"top": 1}
    assert [answer.call_id for answer in first.answers] == ["b", "a"]
    assert first.results is not None and [part.call_id for part in first.results.results] == ["a", "b"]
    assert (len(first.bills), len(second.bills)) == (1, 1)
    assert first.open_calls == ()
    assert second.reply is not None and second.reply.content == "Done."
    assert list(models_of(found)) == ["p/m"]


def test_calls_without_result_are_open() -> None:
    (turn,) = Script().message(user("go")).prompt().request().message(TWO).result("b").read().turns
    assert turn.open_calls == ("a",)


def test_spoken_messages_told_apart() -> None:
    script = Script().message(user("go")).message(user("news", sender="job:1"), received="e1")
    script.prompt().request().message(assistant("a")).message(user("also"), received="e2")
    found = script.request().message(assistant("b")).message(user("unread")).read()
    assert [message.content for message in found.spoken] == ["go", "also", "unread"]
    assert [turn.prompted for turn in found.turns] == [True, False]
    assert len(found.pending) == 1


def test_failed_run_is_turn_without_request() -> None:
    script = Script().message(user("go")).prompt().add("failed", {"kind": "auth", "message": "no"})
    partial = Message("assistant", (Text("I was"),), model="p/m", stop="interrupted")
    script.message(user("again")).message(partial).add("failed", {"kind": "interrupted", "message": "x"})
    first, second = script.read().turns
    assert (first.sent, first.reply) == (None, None)
    assert first.failed is not None and first.failed.kind == "auth"
    assert second.sent is None
    assert second.reply is not None and second.reply.stop == "interrupted"
    assert second.failed is not None and second.failed.kind == "interrupted"


def test_changes_belong_to_next_turn() -> None:
    script = Script().message(user("go")).prompt().request().message(assistant("a")).spent()
    script.add("switched", {"model": "p/n", "effort": "high", "limits": {}})
    script.add("forked", {"left": "x"}).message(user("b")).request(role="compactor").spent("compactor")
    script.add("compacted", {"reason": "full", "stubs": []})
    _, second = script.request().message(assistant("b")).read().turns
    names = [type(step).__name__ for step in second.before]
    assert names == ["SwitchedEntry", "Forked", "IncomingMessage", "Compacted"]
    assert isinstance(second.before[0], SwitchedEntry) and second.before[0].effort == "high"
    assert isinstance(second.before[1], Forked)
    assert isinstance(second.before[3], Compacted) and second.before[3].reason == "full"
    assert [bill.role for bill in second.bills] == ["compactor"]


def test_inherited_conversation_is_no_turn() -> None:
    script = Script().message(user("theirs")).message(TWO).message(assistant("said"))
    found = script.message(user("mine")).prompt().request().message(assistant("b")).read()
    (turn,) = found.turns
    assert [type(step) for step in turn.before[:3]] == [InheritedMessage] * 3
    assert [came.message.content for came in turn.came] == ["mine"]


def test_text_schema_keeps_key_order() -> None:
    text = '{"type":"object","properties":{"z":{},"a":{}}}'
    sorted_keys = json.loads(text)
    script = Script().message(user("go")).prompt(name="t", description="d", parameters=sorted_keys, schema=text)
    (turn,) = script.request().message(assistant("a")).read().turns
    assert turn.prompt is not None
    assert list(turn.prompt.tools[0].parameters) == ["type", "properties"]
    assert turn.prompt.ordered == {"t"}


def test_later_kinds_ignored() -> None:
    script = Script().message(user("go"), later=1).add("later", {"a": 1}).prompt()
    (turn,) = script.request(later=2).message(assistant("a")).add("job", {"state": "running"}).read().turns
    assert turn.reply is not None


def test_unreadable_message_named() -> None:
    script = Script().add("message", {"role": "nobody", "parts": []})
    with pytest.raises(SessionCorrupt, match=r"entry [0-9a-f]{64} \(message"):
        script.read()


def test_empty_log_has_no_turn() -> None:
    found = read_recording("root", (), lambda _: b"")
    assert (found.turns, found.head, found.spoken) == ((), "", ())
