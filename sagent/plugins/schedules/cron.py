"""Times of a cron line, in local time: `minute hour day month weekday`, as crontab(5) describes them."""

from datetime import UTC, datetime, timedelta

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.installed import install_command

_NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}


def local_now() -> datetime:
    """Return the local time without a zone, as cron lines mean it."""
    return datetime.now()  # noqa: DTZ005 -- see above


def checked(line: str) -> str:
    """Return a cron line with its name, such as @daily, written out. Raises UsageError."""
    fields = _NAMED.get(line.strip(), line).split()
    if len(fields) != 5:
        raise UsageError(f"{line!r} is no cron line: it has five fields (minute hour day month weekday), or is @daily.")
    line = " ".join(fields)
    due_times(line, local_now(), None, 1)
    return line


def due_times(line: str, after: datetime, until: datetime | None, limit: int) -> list[datetime]:
    """Return at most so many times after one, up to and including another. Times are local and have no zone. Raises
    UsageError for an invalid line, or one that never comes."""
    try:
        from cronsim import CronSim, CronSimError
    except ImportError:
        from sagent.plugins.schedules import PACKAGES

        raise UsageError(f"Schedules need a package: {install_command('schedule', PACKAGES)}") from None
    found: list[datetime] = []
    try:
        for time in CronSim(line, after):
            if len(found) >= limit or (until is not None and time > until):
                break
            found.append(time)
    except CronSimError as error:
        raise UsageError(f"{line!r} is no cron line: {error}") from error
    if not found and until is None:
        raise UsageError(f"{line!r} never comes.")
    return found


def latest_due(line: str, now: datetime) -> datetime | None:
    """Return the latest time up to now; None if it never came."""
    from cronsim import CronSim

    return next(CronSim(line, now.replace(microsecond=0) + timedelta(seconds=1), reverse=True), None)


def moment_of(line: str, time: datetime, now: datetime) -> datetime:
    """Return the moment, with its offset, of a local time of a line that has come by now.

    As in cron, a time that the clock shows twice is the first of both, unless the line repeats by the hour or the
    minute; one that the clock leaves out has come when the clock jumps.
    """
    repeats = any(field.startswith("*") for field in line.split()[:2])
    come = now.astimezone()
    # by timestamps: Python 3.11's `astimezone` reads `fold` the other way round for a time that is left out
    first, second = sorted(time.replace(fold=fold).timestamp() for fold in (0, 1))
    moments = (datetime.fromtimestamp(each, UTC).astimezone() for each in ((second, first) if repeats else (first,)))
    return next((moment for moment in moments if moment <= come), come)


@dataclass(frozen=True, slots=True)
class CronFields:
    """The values of a line's fields. Weekdays are 0 to 6 from Sunday. `days` and `weekdays` must both hold with `both`,
    otherwise one of them."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    both: bool


def fields_of(line: str) -> CronFields | None:
    """Return the fields of a line; None if it says more than values, such as the last day of a month."""
    from cronsim import CronSim

    known = CronSim(line, local_now())
    days, weekdays = set(known.days), [weekday for weekday in known.weekdays if isinstance(weekday, int)]
    if len(weekdays) < len(known.weekdays) or min(days) < 0 or min(weekdays) < 0:
        return None
    return CronFields(
        frozenset(known.minutes),
        frozenset(known.hours),
        frozenset(days),
        frozenset(known.months),
        frozenset(day % 7 for day in weekdays),
        known.day_and,
    )
