"""The savings kept beside a log say what counting the whole log anew does, whatever became of the file."""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.cost.prices import PriceBook
from sagent.messages import Message, Text, ToolCall, ToolResult, user
from sagent.plugins.audit import kept_savings
from sagent.plugins.audit.kept_savings import NAME, KeptSavings
from sagent.plugins.audit.savings import Savings
from sagent.plugins.audit.verify import verify
from sagent.session.contents import (
    COMPACTOR,
    ChargeEntry,
    Compacted,
    Content,
    MessageEntry,
    RequestSent,
    ResultEntry,
    StoredMessage,
    StoredResult,
)
from sagent.session.log import FileLog
from sagent.session.store import Session, delete
from sagent.usage import Charge, Saving, Usage
from tests.depth import deep

PRICES = PriceBook(
    {"p/a": {"input": "1.25", "cache_read": "0.125", "output": "10"}, "p/b": {"input": "3", "output": "9"}}
)
STEPS = st.lists(st.sampled_from("tttttttuscrkfb"), min_size=1, max_size=40)


def contents(step: str, number: int) -> Sequence[Content]:
    """What a session of one step writes: a turn, a turn of another model, a summary, a compaction, results, advice."""
    model = "b" if step == "u" else "a"
    usage = Usage(1_000 + 37 * number, output=50, cache_read=4_096 if number % 3 else 0)

    def bill(role: str) -> ChargeEntry:
        return ChargeEntry(Charge(model, usage, usd=Decimal("0.01"), role=role, provider="p", agent="root"))

    match step:
        case "t" | "u":
            call = ToolCall(f"c{number}", "Bash")
            said = Message("assistant", (Text("word " * number), call), model=f"p/{model}", stop="tool_use")
            result = ToolResult(call.id, (Text("line\n" * 40 * number),))
            return (RequestSent("0" * 64, 9, model), MessageEntry(StoredMessage.of(said, None)), bill("executor"),
                    ResultEntry(StoredResult.of(result, None)))  # fmt: skip
        case "s":
            return (RequestSent("0" * 64, 9, model, role=COMPACTOR), bill(COMPACTOR))
        case "c":
            return (Compacted((), 900, 200, "full", (0,), (0, "so far")),)
        case "k":
            return (Compacted((), 900, 0, "cleared", ()),)
        case "r":
            return (MessageEntry(StoredMessage.of(user("go on " * number), None)),)
        case "b":
            return (bill("advisor:one"),)
        case _:
            return ()


def whole(log: FileLog) -> Saving:
    return Savings(PRICES.price).follow(log.contents())


@settings(max_examples=deep(40, 300), deadline=None)
@given(STEPS, st.sets(st.integers(0, 39)), st.integers(0, 4000), st.sampled_from(["keep", "flip", "cut", "delete"]))
def test_kept_savings_are_those_of_log(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], ends: set[int], place: int, harm: str
) -> None:
    """Processes end anywhere, and the file is damaged between them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_savings, "MIN_NEW_ENTRIES", 3)
        path = tmp_path_factory.mktemp("s") / "session"
        with Session.create_at(path) as session:
            log, kept = session.log(), KeptSavings(PRICES.price)
            ids = [log.append(content).id for content in contents("r", 1)]
            for number, step in enumerate(steps):
                if step == "f":
                    log.fork(ids[place % len(ids)])
                ids += [log.append(content).id for content in contents(step, number)]
                if number in ends:
                    assert kept.follow(log.contents()) == whole(log)
                    harm_file(path / NAME, harm, place)
                    kept = KeptSavings(PRICES.price)
            assert kept.follow(log.contents()) == KeptSavings(PRICES.price).follow(log.contents()) == whole(log)
        assert verify(path).problems == ()
        delete(path)
        assert not path.exists()


def harm_file(file: Path, harm: str, place: int) -> None:
    if not file.exists() or harm == "keep":
        return
    data = bytearray(file.read_bytes())
    if harm == "flip":
        data[place % len(data)] ^= 1
        file.write_bytes(data)
    elif harm == "cut":
        file.write_bytes(data[: place % len(data)])
    else:
        file.unlink()


def test_long_log_is_not_counted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_savings, "MIN_NEW_ENTRIES", 3)
    asked: list[str] = []

    def price(provider: str, model: str, usage: Usage, *rest: object) -> Decimal | None:
        asked.append(model)
        return PRICES.price(provider, model, usage, *rest)  # pyright: ignore[reportArgumentType]

    with Session.create_at(tmp_path / "s") as session:
        log = session.log()
        for number, step in enumerate("ttct" * 10):
            for content in contents(step, number):
                log.append(content)
        found = KeptSavings(price).follow(log.contents())
        asked.clear()
        assert KeptSavings(price).follow(log.contents()) == found == whole(log)
        assert len(asked) <= 4  # probes
        dearer = PriceBook({"p/a": {"input": "2.5", "cache_read": "0.125", "output": "10"}})
        assert KeptSavings(dearer.price).follow(log.contents()) == Savings(dearer.price).follow(log.contents()) != found


def test_kept_savings_of_another_log_are_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_savings, "MIN_NEW_ENTRIES", 3)
    for name in ("one", "two"):
        with Session.create_at(tmp_path / name) as session:
            for number, step in enumerate("ttct" if name == "one" else "tttctt"):
                for content in contents(step, number):
                    session.log().append(content)
            KeptSavings(PRICES.price).follow(session.log().contents())
    (tmp_path / "two" / NAME).write_bytes((tmp_path / "one" / NAME).read_bytes())
    with Session.open(tmp_path / "two") as session:
        found = KeptSavings(PRICES.price).follow(session.log().contents())
        assert found == whole(session.log())
