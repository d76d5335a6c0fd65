"""Money that a team spends together: one record on the bus, which is changed by compare-and-set.

A call's worst case is held in the record before it is made, and replaced by what it has cost. Days are those of UTC by
the bus's clock, so neither the clock nor the time zone of a machine matters. What a process holds that was not seen for
`GONE_SECONDS` counts as spent at its worst; if it comes back, its bill replaces that.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_int, as_object, as_str, json_dump, json_load
from sagent.plugins.mesh import names
from sagent.plugins.mesh.connection import CALL_TIMEOUT_SECONDS
from sagent.plugins.mesh.errors import Fenced, MeshError, Unavailable, WrongVersion
from sagent.plugins.mesh.jetstream import JetStream, connected
from sagent.plugins.mesh.lease import clock, spread

T = TypeVar("T")
Period: TypeAlias = Literal["day", "month"]

KEY = "spending"
HEARTBEAT_SECONDS, GONE_SECONDS = 30.0, 150.0
MAX_KEPT_DAYS = 62
"""Days whose sums are kept: a month and the one before it."""
_RETRY_SECONDS = 0.02
_FLUSH_SECONDS = 10.0


class TeamShort(NamedTuple):
    """The budget that a call does not fit into, with billionths of a USD spent and held."""

    period: Period
    spent: int
    held: int


@dataclass(slots=True)
class _Record:
    """State on the bus: billionths of a USD spent by day, held, and held by processes that were not seen any more."""

    days: MutableMapping[str, int]
    holds: MutableMapping[str, int]
    seen: MutableMapping[str, int]  # seconds since 1970 by process
    lost: MutableMapping[str, tuple[str, int]]  # the day they count for
    day: str = ""

    def spent(self, period: Period) -> int:
        """Return what was spent on the day, or in its month."""
        begin = self.day if period == "day" else self.day[:7]
        return sum(nano for day, nano in self.days.items() if day.startswith(begin))

    @property
    def held(self) -> int:
        return sum(self.holds.values())

    def pay(self, hold: str, nano: int) -> None:
        """Replace a hold by a cost. One that is not there was paid before: an answer of the bus was lost."""
        if hold in self.holds:
            del self.holds[hold]
            self.days[self.day] = self.days.get(self.day, 0) + nano
        elif hold in self.lost:
            day, worst = self.lost.pop(hold)
            self.days[day] = self.days.get(day, 0) + nano - worst

    def bury(self, now: float) -> None:
        """Count what is held by processes that are gone as spent; forget what is old."""
        gone = {run for run, seen in self.seen.items() if now - seen > GONE_SECONDS}
        for hold in [each for each in self.holds if each.partition(".")[0] in gone]:
            nano = self.holds.pop(hold)
            self.lost[hold] = (self.day, nano)
            self.days[self.day] = self.days.get(self.day, 0) + nano
        for run in gone:
            del self.seen[run]
        first = (datetime.fromisoformat(self.day) - timedelta(days=MAX_KEPT_DAYS)).date().isoformat()
        self.days = {day: nano for day, nano in self.days.items() if day >= first}
        self.lost = {hold: row for hold, row in self.lost.items() if row[0] >= first}


def _read(data: bytes) -> _Record:
    found = as_object(json_load(data))
    if (version := as_int(found.get("version"))) != names.VERSION:
        raise WrongVersion(
            f"The team's spending on the bus is of version {version}; this sagent knows {names.VERSION}."
        )
    days, holds, seen = (
        {key: as_int(value) for key, value in as_object(found.get(member)).items()}
        for member in ("days", "holds", "seen")
    )
    lost = {key: (as_str(day), as_int(nano)) for key, row in as_object(found.get("lost")).items()
            for day, nano in [as_array(row)]}  # fmt: skip
    return _Record(days, holds, seen, lost)


def _write(record: _Record) -> bytes:
    members = {"days": record.days, "holds": record.holds, "seen": record.seen, "lost": record.lost}
    return json_dump({"version": names.VERSION, **members}).encode()


class TeamMoney:
    """The team's money, as one process spends it. Open it with `team_money`."""

    def __init__(self, bus: JetStream) -> None:
        self._bucket = bus.bucket(names.BUDGETS)
        self._run, self._number = os.urandom(9).hex(), 0
        self._offset: float | None = None  # of the bus's clock: a little less than it is
        self._pending: list[Callable[[_Record], object]] = []
        self._due = asyncio.Event()
        self._mine: set[str] = set()

    async def begin(self) -> None:
        """Learn the bus's time. Raises MeshError."""
        for _ in range(2):  # what was written last says when
            await self._change(lambda _: None)

    async def reserve(self, caps: Mapping[Period, int], nano: int) -> str | TeamShort:
        """Hold the worst case of a call, and return the hold; or return the budget that does not allow it. Raises
        MeshError: then nothing is held for long."""
        self._number += 1
        hold = f"{self._run}.{self._number}"

        def take(record: _Record) -> str | TeamShort:
            if hold in record.holds:  # an answer of the bus was lost
                return hold
            for period, cap in caps.items():
                if record.spent(period) + record.held + nano > cap:
                    return TeamShort(period, record.spent(period), record.held)
            record.holds[hold] = nano
            return hold

        try:
            found = await self._change(take)
        except BaseException:
            self.settle(hold, 0)
            raise
        if found == hold:
            self._mine.add(hold)
        return found

    def settle(self, hold: str, nano: int) -> None:
        """Replace a hold by what the call has cost, as soon as the bus can be reached."""
        self._mine.discard(hold)
        self._later(lambda record: record.pay(hold, nano))

    def narrow(self, hold: str, nano: int) -> None:
        """Lower a hold, as soon as the bus can be reached."""

        def lower(record: _Record) -> None:
            if hold in record.holds:
                record.holds[hold] = min(nano, record.holds[hold])

        self._later(lower)

    async def left(self, period: Period) -> tuple[int, int]:
        """Return what is spent and held. Raises MeshError."""
        return await self._change(lambda record: (record.spent(period), record.held))

    def _later(self, edit: Callable[[_Record], object]) -> None:
        self._pending.append(edit)
        self._due.set()

    async def work(self) -> None:
        """Write what is due, and show that this process lives while it holds money, until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await self._due.wait()
            self._due.clear()
            if not self._pending and not self._mine:
                continue
            try:
                await self.flush()
            except MeshError:
                await asyncio.sleep(spread(1.0))
                self._due.set()

    async def flush(self) -> None:
        """Write what is due. Raises MeshError."""
        edits = tuple(self._pending)
        await self._change(lambda record: [edit(record) for edit in edits])
        del self._pending[: len(edits)]

    async def _change(self, edit: Callable[[_Record], T]) -> T:
        """Change the record, over other writers. Raises MeshError."""
        end = clock() + CALL_TIMEOUT_SECONDS
        while True:
            entry = await self._bucket.get(KEY)
            record = _Record({}, {}, {}, {}) if entry is None else _read(entry.value or b"")
            now = 0.0 if entry is None else self._time(entry.at)
            record.day = max([datetime.fromtimestamp(now, UTC).date().isoformat(), *record.days])
            record.seen[self._run] = int(now)
            record.bury(now)
            result, data = edit(record), _write(record)
            try:
                if entry is None:
                    await self._bucket.create(KEY, data)
                else:
                    await self._bucket.update(KEY, data, entry.revision)
            except Fenced:
                if clock() > end:
                    raise Unavailable("The team's spending on the bus is changed by too many at once.") from None
                await asyncio.sleep(spread(_RETRY_SECONDS))
                continue
            return result

    def _time(self, written: float) -> float:
        """Return the bus's time now, given when it last wrote something: never more than it is."""
        here = clock()
        self._offset = max(written - here, written - here if self._offset is None else self._offset)
        return here + self._offset


@asynccontextmanager
async def team_money(url: str) -> AsyncGenerator[TeamMoney]:
    """Yield the team's money on a bus. Raises UsageError and MeshError."""
    async with connected(url, name="sagent budget") as bus:
        await bus.ensure()
        money = TeamMoney(bus)
        await money.begin()
        task = asyncio.create_task(money.work())
        try:
            yield money
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            with suppress(MeshError, TimeoutError):  # then what is held counts as spent
                async with asyncio.timeout(_FLUSH_SECONDS):
                    await money.flush()
