"""Logs that no run of the program writes: one sentence, sums that add up, and texts that stay texts."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from sagent.cost.prices import PriceBook
from sagent.errors import SessionCorrupt
from sagent.messages import user
from sagent.plugins.why.account import Account, account_of
from sagent.plugins.why.blocks import session_blocks
from sagent.plugins.why.command import explain
from sagent.plugins.why.course import State
from sagent.plugins.why.pages import as_markdown
from sagent.plugins.why.rates import RateBook
from sagent.plugins.why.reading import read_entries
from sagent.session.contents import ChargeEntry, Content, MessageEntry, ResultEntry, StoredMessage, StoredResult
from sagent.session.entries import Entry, seal
from sagent.usage import Usage
from tests.cli.program import Shell
from tests.plugins.why.test_why_command import CHARGE, nasty_account, spend

ASKED = MessageEntry(StoredMessage.of(user("Go."), None))
BASE = datetime(2026, 11, 20, 0, 10).astimezone()


def told(*moments: tuple[datetime, Content]) -> Account:
    """Return the account of entries at these times."""
    entries: list[Entry] = []
    for at, content in moments:
        text = at.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"
        entries.append(replace(seal(entries[-1].id if entries else "", content), at=text))
    return account_of("s", "p", [read_entries("root", entries, RateBook(PriceBook().price))])


def seconds(parts: Sequence[Mapping[State, int]]) -> float:
    return sum(sum(part.values()) for part in parts) / 1_000_000


def test_clock_set_back_over_midnight_makes_no_time() -> None:
    back = BASE - timedelta(hours=6)
    account = told(
        (BASE, ASKED), (BASE + timedelta(minutes=5), ChargeEntry(CHARGE)), (back, ASKED),
        (back + timedelta(minutes=9), ChargeEntry(CHARGE)),
    )  # fmt: skip
    assert seconds([account.time]) == 300
    assert seconds([day.time for day in account.days.values()]) == 300


def test_days_of_a_long_call_add_up_to_it() -> None:
    account = told((BASE, ASKED), (BASE + timedelta(days=4, hours=3), ChargeEntry(CHARGE)))
    assert seconds([day.time for day in account.days.values()]) == seconds([account.time])
    assert len(account.days) == 5


@pytest.mark.parametrize("ran", [1e308, -5.0])
def test_impossible_length_of_a_call(ran: float) -> None:
    result = ResultEntry(StoredResult({"type": "tool_result", "call_id": "c", "content": []}), ran)
    account = told((BASE, ASKED), (BASE + timedelta(seconds=9), result))
    assert seconds([account.time]) == 9
    assert any("in all" in str(block) for block in session_blocks(account, ()))


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z", "2026-13-99", "", "x"])
def test_impossible_time_is_damage(at: str) -> None:
    with pytest.raises(SessionCorrupt, match="time that cannot be"):
        read_entries("root", [replace(seal("", ASKED), at=at)], RateBook(PriceBook().price))


@pytest.mark.parametrize("usage", [Usage(input=10**400), Usage(input=-5), Usage(output=5, reasoning=-7)])
def test_impossible_counts_are_one_sentence(usage: Usage, tmp_path: Path) -> None:
    session = spend(tmp_path / "state", tmp_path / "work", CHARGE, replace(CHARGE, usage=usage))
    account, _ = explain(session, PriceBook())
    assert len(account.problems) == 1
    assert account.whole.whole.usd == sum((row.usd for row in account.whole.subjects.values()), Decimal())
    assert account.whole.whole.usd == CHARGE.usd


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_what_is_no_log_is_one_sentence(kind: str, shell: Shell) -> None:
    whole = spend(Path(shell.environment["HOME"]) / ".local/state/sagent", shell.cwd, CHARGE)
    log = whole.with_name("20261201-000000-000001") / "root.jsonl"
    log.parent.mkdir()
    match kind:
        case "pipe":
            os.mkfifo(log)
        case "folder":
            log.mkdir()
        case _:
            log.symlink_to("/dev/zero")
    one = shell.run("why", log.parent.name, model="")
    assert one.code in (1, 2)
    assert "Traceback" not in one.err
    week = shell.run("why", "--week", model="")
    assert "$0.25" in week.out
    assert "Traceback" not in week.err


def test_markdown_has_no_control_characters() -> None:
    text = "\n".join(as_markdown("t\x1b\u202e", session_blocks(nasty_account(), ())))
    assert not {"\x1b", "\u202e"} & {*text}
