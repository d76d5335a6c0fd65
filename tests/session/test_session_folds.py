"""What is read off a log."""

from decimal import Decimal
from pathlib import Path

import pytest

from sagent.codec import encode_result_part
from sagent.errors import SessionCorrupt
from sagent.messages import Image, Message, Text, ToolCall, ToolResult, assistant, user
from sagent.session.contents import ChargeEntry, Compacted, Label, MessageEntry, Opened, StoredMessage, Unknown
from sagent.session.entries import decode
from sagent.session.folds import charges, history, last_messages, origin, spend, title
from sagent.session.log import MemoryLog, read_end
from sagent.session.store import Session
from sagent.session.view import branch
from sagent.usage import Charge, Usage


def say(log: MemoryLog, message: Message) -> None:
    log.append(MessageEntry(StoredMessage.of(message, lambda data: log.blobs.put(data).name)))


@pytest.fixture
def log():
    log = MemoryLog()
    yield log
    log.close()


def test_history_is_the_conversation(log: MemoryLog):
    call = ToolCall("1", "Read")
    result = ToolResult("1", (Text("found"), Image("image/png", b"x")))
    said = (
        user("go"),
        assistant("", call, stop="tool_use"),
        Message("user", (result,)),
        assistant("hm", stop="interrupted"),
        user("on", sender="job:1"),
    )
    log.append(Opened(log.session_id, "root", "/", {}))
    for message in said:
        if message.results:
            body = encode_result_part(result, lambda data: log.blobs.put(data).name)
            log.append(Unknown("result", {"result": body, "seconds": 1.5}))
        log.append(Unknown("invented_later", {"x": 1}))
        say(log, message)
    assert history(log.entries(), log.blobs.get) == said


def test_history_follows_the_branch_taken(log: MemoryLog):
    say(log, user("one"))
    fork = log.head
    say(log, user("not this"))
    log.fork(fork)
    say(log, user("two"))
    assert [message.content for message in history(log.entries(), log.blobs.get)] == ["one", "two"]


def test_last_messages_from_last_bytes(tmp_path: Path):
    with Session.create_at(tmp_path / "s") as session:
        log = session.log()
        for number in range(20):
            log.append(MessageEntry(StoredMessage.of(user(f"{number} " + "x" * 500), None)))
        whole = history(log.entries(), log.blobs.get)
        assert last_messages(read_end(log.file), 3) == whole[-3:]
        assert last_messages(read_end(log.file), 30) == whole  # all there are
        assert last_messages(read_end(log.file, size=3000), 3) == whole[-3:]
        assert last_messages(read_end(log.file, size=3000), 5) == ()  # so many are not in these bytes
        fork = next(log.contents().latest("message"))
        log.append(MessageEntry(StoredMessage.of(user("not this"), None)))
        log.fork(fork.id)
        assert last_messages(read_end(log.file), 3) == whole[-3:]
        assert last_messages(read_end(log.file, size=500), 1) == ()
        log.append(Compacted((), 9, 5, "full", (0,), (0, "summary")))
        assert last_messages(read_end(log.file), 3) == ()


def test_unasked_result_is_left_out(log: MemoryLog):
    say(log, user("go"))
    log.append(Unknown("result", {"result": encode_result_part(ToolResult("9", ()), None)}))
    assert history(log.entries(), log.blobs.get) == (user("go"),)


@pytest.mark.parametrize(("kind", "body"), [("message", {"role": "oracle"}), ("result", {"result": {"call_id": 1}})])
def test_message_of_other_version_is_named(log: MemoryLog, kind: str, body: dict[str, object]):
    say(log, assistant("", ToolCall("", "Read")))
    entry = log.append(Unknown(kind, body))
    with pytest.raises(SessionCorrupt, match=entry.id):
        history(log.entries(), log.blobs.get)


def test_charge_survives_to_the_last_digit(log: MemoryLog):
    every = [
        Charge(
            "m",
            Usage(1, 2, 3, 4, 5, 6),
            "batch",
            Decimal("0.1234567890123456789012345678901"),
            role="executor",
            provider="p",
            agent="root",
        ),
        Charge("n", Usage(), "", None, estimated=True, role="advisor:x", provider="p", agent="root/a"),
    ]
    for bill in every:
        log.append(ChargeEntry(bill))
    assert list(charges(log.entries())) == every
    assert decode("spent", {}) == ChargeEntry(Charge("", Usage()))


def test_spend_by_role_model_and_agent(log: MemoryLog):
    def charge(agent: str, role: str, model: str, usd: str | None) -> None:
        log.append(
            ChargeEntry(
                Charge(model, Usage(input=1), usd=Decimal(usd) if usd else None, role=role, provider="p", agent=agent)
            )
        )

    charge("root", "executor", "m", "0.1")
    fork = log.head
    charge("root", "advisor:wise", "n", "0.2")
    log.fork(fork)
    charge("root/a", "executor", "m", "0.3")
    charge("root", "compactor", "m", "0.05")
    charge("root", "executor", "new", None)
    found = spend(log.entries())  # the branch that was left was paid too
    assert found.cost().total == Decimal("0.65")
    assert (found.cost().executor, found.cost().advisor, found.cost().other) == (
        Decimal("0.4"),
        Decimal("0.2"),
        Decimal("0.05"),
    )
    assert found.cost().by_model == {"p/m": Decimal("0.45"), "p/n": Decimal("0.2"), "p/new": Decimal(0)}
    assert found.cost().by_agent == {"root": Decimal("0.35"), "root/a": Decimal("0.3")}
    assert found.cost().unpriced == ("p/new",)
    assert (found.whole.charges, found.whole.usage, found.whole.unpriced) == (5, Usage(input=5), 1)


def test_title_is_first_prompt_or_given(log: MemoryLog):
    assert title(log.entries()) == ""
    say(log, user("news", sender="job:1"))
    say(log, assistant("hello"))
    say(log, user("fix  the\ntests", Image("image/png", b"x")))
    say(log, user("and then"))
    assert title(log.entries()) == "fix the tests"
    assert title(log.entries(), 8) == "fix the…"
    log.append(Label("better"))
    log.append(Label("best"))
    say(log, user("more"))
    assert title(log.entries()) == "best"


def test_empty_log_folds_to_nothing(log: MemoryLog):
    assert branch(log.entries()) == ()
    assert history(log.entries(), log.blobs.get) == ()
    assert spend(log.entries()).cost().total == 0
    assert (list(log.entries()), origin(log.entries())) == ([], Opened())


def test_counts_and_origin(log: MemoryLog):
    log.append(Opened("s", "root", "/work", {"git": {"commit": "abc", "dirty": True}}))
    say(log, user("a"))
    say(log, user("b"))
    assert [entry.kind for entry in log.entries()] == ["opened", "message", "message"]
    assert origin(log.entries()).environment == {"git": {"commit": "abc", "dirty": True}}


def test_stubs_replace_results_only(log: MemoryLog):
    call, other = ToolCall("1", "Read"), ToolCall("2", "Read")
    say(log, user("go"))
    say(log, assistant("", call, other, stop="tool_use"))
    results = [ToolResult("1", (Text("long"), Image("image/png", b"x")), is_error=True), ToolResult("2", (Text("b"),))]
    for result in results:  # the message that carries them was not logged when the context was shrunk
        log.append(Unknown("result", {"result": encode_result_part(result, lambda data: log.blobs.put(data).name)}))
    log.append(Compacted([(2, "1", "stub"), (9, "1", "no such message")], 900, 100, "overflow"))  # pyright: ignore[reportArgumentType]
    say(log, assistant("done"))
    assert history(log.entries(), log.blobs.get) == (
        user("go"),
        assistant("", call, other, stop="tool_use"),
        Message("user", (ToolResult("1", (Text("stub"),), is_error=True), results[1])),
        assistant("done"),
    )


def test_branch_before_stubs_has_the_whole(log: MemoryLog):
    say(log, assistant("", ToolCall("1", "Read"), stop="tool_use"))
    say(log, Message("user", (ToolResult("1", (Text("whole"),)),)))
    fork = log.head
    log.append(Compacted([(1, "1", "stub")], 2, 1, "overflow"))  # pyright: ignore[reportArgumentType]
    assert history(log.entries(), log.blobs.get)[1].results[0].text == "stub"
    log.fork(fork)
    assert history(log.entries(), log.blobs.get)[1].results[0].text == "whole"
