"""Times of cron lines, what was missed of them, and the timers made from them."""

import re
import shutil
import subprocess
import time
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.errors import UsageError
from sagent.plugins.schedules.cron import checked, due_times, fields_of, latest_due, local_now
from sagent.plugins.schedules.store import Schedule, ScheduledRun, ScheduleStore
from sagent.plugins.schedules.timers import calendar_lines, launchd_job, service_text
from tests.depth import deep, later, slow

NOW = datetime(2026, 12, 1, 12, 0, 30)


def field(least: int, most: int) -> st.SearchStrategy[str]:
    value = st.integers(least, most)
    several = st.lists(value, min_size=1, max_size=3, unique=True).map(lambda each: ",".join(map(str, sorted(each))))
    span = st.tuples(value, value).map(lambda pair: f"{min(pair)}-{max(pair)}")
    return st.one_of(st.just("*"), st.sampled_from(["*/2", "*/5"]), several, span)


LINES = st.tuples(field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 6)).map(" ".join)
TIMES = st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1))


@given(LINES, TIMES)
def test_latest_time_is_the_one_before_the_next(line: str, now: datetime) -> None:
    latest = latest_due(line, now)
    assert latest is not None and latest <= now
    (following,) = due_times(line, latest, None, 1)
    assert following > now
    assert following == due_times(line, now, None, 1)[0]


@given(LINES, TIMES, st.integers(0, 5))
def test_missed_times_are_counted_once(line: str, since: datetime, number: int) -> None:
    store = ScheduleStore(Path("/nonexistent"))
    times = due_times(line, since, None, number + 1)
    schedule = Schedule("one", line, "/", ("x",), since.isoformat())
    assert store.missed(schedule, times[-1] + timedelta(seconds=30)) == (times[-1].astimezone(), number)
    assert store.missed(schedule, since) in ((None, 0), (since.astimezone(), 0))


def test_lines_that_are_none_are_refused() -> None:
    for line in ("", "* * * *", "* * * * * *", "61 * * * *", "0 0 30 2 *", "every day", "@often"):
        with pytest.raises(UsageError, match=r"cron line|never comes"):
            checked(line)
    assert checked("@daily") == "0 0 * * *"


def test_named_and_ranged_fields() -> None:
    fields = fields_of("0 9 * * mon-fri")
    assert fields is not None and fields.weekdays == frozenset(range(1, 6))
    assert fields_of("0 9 L * *") is None and fields_of("0 9 * * 1#2") is None
    assert (sunday := fields_of("0 9 * * 7")) is not None and sunday.weekdays == frozenset({0})


def test_either_day_gives_two_calendar_lines() -> None:
    fields = fields_of("5 9 13 * 5")
    assert fields is not None
    assert calendar_lines(fields) == ["*-*-13 09:05:00", "Fri *-*-* 09:05:00"]
    job = launchd_job(Schedule("one", "", "/", (), ""), fields, ("sagent",))
    assert job is not None
    assert job["StartCalendarInterval"] == [
        {"Weekday": 5, "Hour": 9, "Minute": 5}, {"Day": 13, "Hour": 9, "Minute": 5},
    ]  # fmt: skip


def test_unit_quotes_what_systemd_would_read() -> None:
    text = service_text(Schedule("one", "", "/", (), ""), ("/a b/py$thon", 'say "100%"'))
    assert 'ExecStart="/a b/py$$thon" "say \\"100%%\\"" "schedule" "run" "one"\n' in text


@slow
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_has_the_times_of_cron() -> None:
    for line in ("0 9 * * 1-5", "*/15 8-17 1,15 * *", "30 0 1 1,7 *", "5 9 13 * 5", "0 0 * * 0")[: deep(3, 5)]:
        fields = fields_of(line)
        assert fields is not None
        found = set[datetime]()
        for calendar in calendar_lines(fields):
            words = ["systemd-analyze", "calendar", "--iterations=40", f"--base-time={NOW}", calendar]
            said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
            found |= {
                datetime.fromisoformat(time) for time in re.findall(r"\w{3} (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", said)
            }
        assert set(due_times(line, NOW, None, 10)) <= found


def test_history_survives_a_cut_line(tmp_path: Path) -> None:
    store = ScheduleStore(tmp_path)
    schedule = Schedule("one", "* * * * *", "/", ("x",), NOW.isoformat())
    store.add(schedule)
    first = ScheduledRun("2026-12-01T12:01:00", "2026-12-01T12:01:00")
    store.record("one", first)
    with (tmp_path / "schedules" / "one.runs.jsonl").open("ab") as file:
        file.write(b'{"due": "2026-12-01T12:0')
    store.record("one", ended := ScheduledRun("2026-12-01T12:02:00", "x", ended="y", code=3))
    assert store.runs("one") == [first, ended]


@later
def test_history_stays_short(tmp_path: Path) -> None:
    store = ScheduleStore(tmp_path)
    store.add(Schedule("one", "* * * * *", "/", ("x",), NOW.isoformat()))
    runs = [ScheduledRun(f"{number:06}", "") for number in range(450)]
    for run in runs:
        store.record("one", run)
    kept = store.runs("one")
    assert kept == runs[-len(kept) :] and 100 <= len(kept) <= 202


def test_run_is_claimed_once(tmp_path: Path) -> None:
    store = ScheduleStore(tmp_path)
    schedule = Schedule("one", "* * * * *", "/", ("x",), NOW.isoformat())
    store.add(schedule)
    now = NOW + timedelta(minutes=3)
    with store.claimed(schedule, now) as run, ScheduleStore(tmp_path).claimed(schedule, now) as second:
        assert run is not None and (run.due[:19], run.missed) == ("2026-12-01T12:03:00", 2)
        assert second is None
    with store.claimed(schedule, now) as again:
        assert again is None
    with store.claimed(schedule, now, at_once=True) as forced:
        assert forced is not None


def test_now_has_no_zone() -> None:
    assert all(earlier.tzinfo is None and earlier <= later for earlier, later in pairwise([local_now(), local_now()]))


def _runs_of(line: str, since: str, until: str, store: ScheduleStore) -> list[str]:
    """Return what is run between two moments, looked at every ten minutes of real time, by its local time."""
    at, found = datetime.fromisoformat(since), list[str]()
    schedule = Schedule("one", line, "/", ("x",), at.astimezone().replace(tzinfo=None).isoformat())
    store.add(schedule)
    while (at := at + timedelta(minutes=10)) <= datetime.fromisoformat(until):
        now = at.astimezone().replace(tzinfo=None)
        later_one = datetime.fromtimestamp(at.timestamp())
        with store.claimed(schedule, now.replace(fold=later_one.fold)) as run:
            if run is not None:
                found.append(run.began[11:16])
    return found


@pytest.mark.parametrize(
    ("line", "day", "times"),
    [
        ("30 2 * * *", "2026-10-25", ["02:30"]),  # shown twice
        ("0 * * * *", "2026-10-25", ["01:00", "02:00", "02:00", "03:00", "04:00"]),
        ("30 2 * * *", "2026-03-29", ["03:00"]),  # left out
        ("50 2,3 * * *", "2026-03-29", ["03:00", "03:50"]),
        ("0 * * * *", "2026-03-29", ["01:00", "03:00", "04:00"]),
    ],
)
def test_clocks_of_berlin_change(
    line: str, day: str, times: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        offset = "+02:00" if "-10-" in day else "+01:00"
        end = "+01:00" if "-10-" in day else "+02:00"
        found = _runs_of(line, f"{day}T00:30:00{offset}", f"{day}T04:20:00{end}", ScheduleStore(tmp_path))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found == times


def test_clock_that_was_wrong_ends_no_schedule(tmp_path: Path) -> None:
    store, now = ScheduleStore(tmp_path), datetime(2026, 12, 1, 9)
    schedule = Schedule("one", "0 8 * * *", "/", ("x",), "2031-01-01T00:00:00")
    store.add(schedule)
    store.record("one", ScheduledRun("2031-01-01T08:00:00", "2031-01-01T08:00:00"))
    with store.claimed(schedule, now) as run:
        assert run is not None and run.due.startswith("2026-12-01T08:00:00")
    with store.claimed(schedule, now) as run:
        assert run is None
