"""Standing budgets: all processes together stay within a day's, a month's and a project's, whatever ends or moves."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from sagent.cost.prices import PriceBook
from sagent.errors import BudgetExceeded, UsageError
from sagent.plugins.spending.book import FOLDER, Asked, Book, Short
from sagent.plugins.spending.ledger import StandingLedger
from sagent.plugins.spending.limits import Limit
from sagent.session.contents import ChargeEntry
from sagent.session.store import Session, copy
from sagent.usage import Charge, Usage
from tests.depth import QUICK

PROCESSES = 5 if QUICK else 20
SPENDER = [sys.executable, str(Path(__file__).with_name("spender.py"))]
DAY = Limit("budget_day", Decimal(5), "day")
MONTH = Limit("budget_month", Decimal(8), "month")
HERE = Asked("/here", "root", "executor", "p/m")
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    yield monkeypatch
    monkeypatch.undo()
    time.tzset()


def go_to(zone: pytest.MonkeyPatch, name: str) -> None:
    zone.setenv("TZ", name)
    time.tzset()


def spend(book: Book, usd: str, *limits: Limit, asked: Asked = HERE) -> bool:
    """Hold and settle USD; False if a budget does not allow it."""
    hold = book.reserve(limits or (DAY,), asked, Decimal(usd))
    if isinstance(hold, Short):
        return False
    book.settle(hold, Decimal(usd))
    return True


def ledger_with(book: Book, *limits: Limit, cap: Decimal | None = None, log: str = "") -> StandingLedger:
    return StandingLedger(cap, PriceBook({"p/m": {"input": 1, "output": 10}}), book, limits, "/here", log)


def test_many_processes_stay_within_a_day(tmp_path: Path) -> None:
    cap = Decimal("0.20")
    running = [
        subprocess.Popen([*SPENDER, str(tmp_path), str(cap)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(PROCESSES)
    ]
    said = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0] * PROCESSES, said
    bill = sum(int(line) for out, _ in said for line in out.split())
    assert bill <= cap * 10**9
    assert bill >= cap * 10**9 - 1_000 * 1_000 - 256 * 10_000  # less is left than the least call may cost
    assert all(b"budget_day is $0.20" in told and b"renews at" in told for _, told in said)


def test_killed_process_leaves_its_hold_as_spent(tmp_path: Path) -> None:
    with subprocess.Popen([*SPENDER, str(tmp_path), "1", "HANG"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        with closing(Book(tmp_path)) as book:
            assert book.left(DAY) == (0, Decimal("0.006"))
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert book.left(DAY) == (Decimal("0.006"), 0)
    with closing(Book(tmp_path)) as book:
        assert book.left(DAY) == (Decimal("0.006"), 0)


def test_hold_of_ended_run_is_corrected_by_log(tmp_path: Path) -> None:
    charge = Charge("m", Usage(input=10), usd=Decimal("0.25"), role="executor", provider="p", agent="root")
    with Session.create(tmp_path, tmp_path) as session:
        session.begin(tmp_path)
        with closing(Book(tmp_path, str(session.path))) as book:
            book.reserve((DAY,), HERE._replace(log=str(session.path)), Decimal(3))
            session.log().append(ChargeEntry(charge))
    with closing(Book(tmp_path)) as book:
        assert book.left(DAY) == (Decimal("0.25"), 0)
        book.take_in()
        assert book.left(DAY) == (Decimal("0.25"), 0)  # and not once more


def test_earlier_sessions_count_once(tmp_path: Path) -> None:
    charge = Charge("m", Usage(input=10), usd=Decimal("0.25"), role="executor", provider="p", agent="root")
    with Session.create(tmp_path, tmp_path) as session:
        session.begin(tmp_path)
        session.log().append(ChargeEntry(charge))
        for _ in range(2):
            with closing(Book(tmp_path)) as book:
                book.take_in()
                assert book.left(DAY) == (Decimal("0.25"), 0)
        session.log().append(ChargeEntry(charge))
        with closing(Book(tmp_path)) as book:
            book.take_in()
            assert book.left(DAY) == (Decimal("0.5"), 0)


def test_copy_of_a_session_counts_once(tmp_path: Path) -> None:
    charge = Charge("m", Usage(input=10), usd=Decimal("0.25"), role="executor", provider="p", agent="root")
    with Session.create(tmp_path, tmp_path) as session:
        session.begin(tmp_path)
        with closing(Book(tmp_path, str(session.path))) as book:
            assert spend(book, "0.25")
            session.log().append(ChargeEntry(charge))
    copy(session.path, tmp_path, tmp_path)
    with closing(Book(tmp_path)) as ephemeral:
        ephemeral.take_in()
        assert ephemeral.left(DAY) == (Decimal("0.25"), 0)


def test_day_begins_at_local_midnight(tmp_path: Path, zone: pytest.MonkeyPatch) -> None:
    go_to(zone, "Asia/Tokyo")
    clock = Clock()
    clock.now = datetime(2026, 11, 30, 14, 59, tzinfo=UTC)  # 23:59
    with closing(Book(tmp_path, now=clock)) as book:
        assert spend(book, "5") and not spend(book, "0.01")
        renews = DAY.renews(clock.now)
        assert renews is not None and renews == datetime(2026, 11, 30, 15, tzinfo=UTC)
        assert "2026-12-01 00:00 JST" in DAY.refusal(Decimal(5), Decimal(0), clock.now)
        clock.now += timedelta(minutes=2)
        assert spend(book, "3") and not spend(book, "3")
        go_to(zone, "America/New_York")  # the same instant is the 30th there: both days' spending is of today
        assert not spend(book, "0.01")
        assert book.left(DAY)[0] == 8


def test_clock_set_back_frees_nothing(tmp_path: Path, zone: pytest.MonkeyPatch) -> None:
    go_to(zone, "UTC")
    clock = Clock()
    with closing(Book(tmp_path, now=clock)) as book:
        assert spend(book, "5")
        for earlier in (timedelta(hours=2), timedelta(days=1), timedelta(days=40)):
            clock.now = NOON - earlier
            assert not spend(book, "0.01")
        clock.now = NOON + timedelta(hours=11)
        assert not spend(book, "0.01")
        clock.now = NOON + timedelta(hours=13)
        assert spend(book, "5")


def test_month_and_project_count_longer(tmp_path: Path, zone: pytest.MonkeyPatch) -> None:
    go_to(zone, "UTC")
    clock, project = Clock(), Limit("budget_project", Decimal(9), "ever", "/here")
    clock.now = datetime(2026, 11, 29, 12, tzinfo=UTC)
    with closing(Book(tmp_path, now=clock)) as book:
        assert spend(book, "5", DAY, MONTH, project)
        clock.now += timedelta(days=1)
        assert not spend(book, "4", DAY, MONTH, project) and spend(book, "3", DAY, MONTH, project)
        assert MONTH.renews(clock.now) == datetime(2026, 12, 1, tzinfo=UTC)
        clock.now += timedelta(days=1)
        assert not spend(book, "2", DAY, MONTH, project)  # the project's
        assert spend(book, "2", DAY, MONTH, project._replace(project="/there"), asked=HERE._replace(project="/there"))
        assert project.renews(clock.now) is None and "does not renew" in project.refusal(Decimal(8), Decimal(0), NOON)


def test_december_renews_in_january() -> None:
    assert MONTH.renews(datetime(2026, 12, 31, 12).astimezone()) == datetime(2027, 1, 1).astimezone()


@pytest.mark.parametrize(
    "name", ["Europe/Berlin", "Asia/Beirut", "Atlantic/Azores", "America/Santiago", "Australia/Lord_Howe", "UTC"]
)
@pytest.mark.parametrize("limit", [DAY, MONTH])
def test_periods_meet_at_local_midnight(zone: pytest.MonkeyPatch, name: str, limit: Limit) -> None:
    go_to(zone, name)  # where summer time begins and ends, at midnight too, and over months of 28 to 31 days
    now, end = datetime(2027, 1, 15, 12).astimezone(), datetime(2028, 4, 1).astimezone()
    while now < end:
        renews = limit.renews(now)
        assert renews is not None
        before, after = renews - timedelta(seconds=1), renews + timedelta(seconds=1)
        assert limit.begins(now) <= now.timestamp() < renews.timestamp() == limit.begins(after)
        assert limit.begins(before) == limit.begins(now) and limit.renews(before) == renews
        assert limit.period == "day" or after.astimezone().day == 1
        now = renews + timedelta(hours=11)


async def test_output_is_lowered_to_what_is_left(tmp_path: Path) -> None:
    with closing(Book(tmp_path)) as book:
        ledger = ledger_with(book, Limit("budget_day", Decimal("0.01"), "day"))
        held = await ledger.reserve("root", "executor", "p", "m", 1_000, 5_000)
        assert held.max_output == 900 and held.held == Decimal("0.01")
        held.settle([Charge("m", Usage(input=1_000, output=400))])
        with pytest.raises(BudgetExceeded, match=r"\$0\.005 of it is left \(\$0\.005 is spent\)\. It renews at "):
            await ledger.reserve("root", "executor", "p", "m", 4_000, 5_000)


async def test_released_call_costs_nothing(tmp_path: Path) -> None:
    with closing(Book(tmp_path)) as book:
        ledger = ledger_with(book, DAY, cap=Decimal(1))
        branch = ledger.branch("root")
        with await branch.reserve("root", "executor", "p", "m", 1_000, 500):
            assert book.left(DAY) == (0, Decimal("0.006"))
        assert book.left(DAY) == (0, 0) and not ledger.held


async def test_stated_cost_frees_the_rest(tmp_path: Path) -> None:
    with closing(Book(tmp_path)) as book:
        held = await ledger_with(book, DAY).reserve("root", "executor", "p", "m", 1_000, 500, likely=100)
        held.take_note([Charge("m", Usage(input=100))], 200)
        assert book.left(DAY) == (0, Decimal("0.0021"))


async def test_call_without_bill_counts_at_its_worst(tmp_path: Path) -> None:
    with closing(Book(tmp_path)) as book:
        held = await ledger_with(book, DAY).reserve("root", "executor", "p", "m", 1_000, 500)
        held.settle([Charge("m", Usage(input=10), estimated=True)])
        assert book.left(DAY) == (Decimal("0.006"), 0)


async def test_unpriced_model_is_refused(tmp_path: Path) -> None:
    with closing(Book(tmp_path)) as book:
        ledger = ledger_with(book, DAY)
        with pytest.raises(BudgetExceeded, match="no known price, so budget_day cannot be kept"):
            await ledger.reserve("root", "executor", "p", "other-model", 1_000, 500)
        assert not ledger.held and book.left(DAY) == (0, 0)


async def test_waits_for_calls_of_others(tmp_path: Path) -> None:
    limit = Limit("budget_day", Decimal("0.01"), "day")
    with closing(Book(tmp_path)) as mine, closing(Book(tmp_path)) as theirs:
        hold = theirs.reserve((limit,), HERE, Decimal("0.009"))
        assert isinstance(hold, int)

        async def count() -> int | None:
            theirs.settle(hold, Decimal("0.001"))  # the other call ends meanwhile
            return None

        held = await ledger_with(mine, limit).reserve("root", "executor", "p", "m", 1_000, 500, count=count)
        assert held.held == Decimal("0.006")


def test_book_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "book.db").write_text("no database " * 100)
    with pytest.raises(UsageError, match="standing budgets"):
        Book(tmp_path)
    assert not list((tmp_path / FOLDER).glob("[0-9]*.lock"))


def test_book_is_private(tmp_path: Path) -> None:
    with closing(Book(tmp_path)):
        modes = {file.name: file.stat().st_mode & 0o077 for file in (tmp_path / FOLDER).iterdir()}
    assert modes and not any(modes.values()), modes
    assert {file.name for file in (tmp_path / FOLDER).iterdir()} == {"book.db", "opening.lock"}, os.getpid()
