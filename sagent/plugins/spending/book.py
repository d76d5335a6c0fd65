"""The book of standing budgets: money that calls of all processes hold, and what they have spent.

It is an SQLite database in the state directory. A call's worst case is held in one transaction that sums what is spent
and held, so no number of processes can exceed a budget together. A process that ended without a bill, as by `kill -9`,
leaves its holds: they count as spent at their worst, unless the session's log has the bill.
"""

import os
import sqlite3
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path
from typing import NamedTuple

from sagent.errors import SagentError, UsageError
from sagent.lib import flock
from sagent.lib.money import EXACT, ZERO
from sagent.plugins.spending.charges import paid
from sagent.plugins.spending.limits import Limit
from sagent.session.contents import ChargeEntry
from sagent.session.lock import in_use
from sagent.session.log import read_log
from sagent.session.store import log_files
from sagent.usage import Charge

FOLDER = "budgets"
"""Folder of the state directory with the book, and a locked file for each process that has it open."""
ASIDE = "set aside"
"""Role of money that is set aside for a task: its calls draw from it."""
BUSY_TIMEOUT_SECONDS = 60.0
LOG_DELAY_SECONDS = 5.0
"""Seconds after its bill by which a call is in its session's log."""
NANO = Decimal(10**9)  # of a USD: sums are exact whole numbers
_SCHEMA = """
CREATE TABLE IF NOT EXISTS charges (at REAL, project TEXT, nano INTEGER, run TEXT, entry TEXT UNIQUE);
CREATE INDEX IF NOT EXISTS charges_at ON charges (at);
CREATE TABLE IF NOT EXISTS holds (
    id INTEGER PRIMARY KEY, run TEXT, at REAL, project TEXT, nano INTEGER, log TEXT, agent TEXT, role TEXT, model TEXT
);
CREATE TABLE IF NOT EXISTS runs (run TEXT PRIMARY KEY, session TEXT, began REAL, ended REAL);
CREATE TABLE IF NOT EXISTS read (at REAL);
"""


class Asked(NamedTuple):
    """A call that needs money. `log` is the directory of its session."""

    project: str
    agent: str
    role: str
    model: str
    log: str = ""


class Short(NamedTuple):
    """The budget that a call does not fit into, with USD spent and held."""

    limit: Limit
    spent: Decimal
    held: Decimal


class Book:
    """The open book of one session. Raises UsageError if it cannot be used: then no budget could be kept."""

    def __init__(self, state: Path, session: str = "", now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.state, self._now = state, now
        self.run = f"{os.getpid()}-{os.urandom(6).hex()}"
        self._mark, folder = -1, state / FOLDER
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._mark = os.open(folder / f"{self.run}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            flock.lock(self._mark)
            with _alone(folder / "opening.lock"):  # what SQLite does at first, only one may do
                self._database = _connect(folder / "book.db")
            with self._writing():
                row = (self.run, session, self._now().timestamp(), None)
                self._database.execute("INSERT INTO runs VALUES (?, ?, ?, ?)", row)
        except (OSError, sqlite3.Error) as error:
            if self._mark >= 0:
                os.close(self._mark)
                (folder / f"{self.run}.lock").unlink(missing_ok=True)
            raise UsageError(
                f"The book of standing budgets in {folder} cannot be used ({error}), so they cannot be kept. Make "
                "room or mend the folder, or remove budget_day, budget_month and budget_project from your settings."
            ) from error

    def close(self) -> None:
        """End this run. What it still holds is left to the next process, as if it had been killed."""
        with suppress(sqlite3.Error):
            with self._writing():
                self._database.execute("UPDATE runs SET ended = ? WHERE run = ?", (self._now().timestamp(), self.run))
            self._database.close()
        os.close(self._mark)
        with suppress(OSError):
            (self.state / FOLDER / f"{self.run}.lock").unlink()

    def reserve(self, limits: Sequence[Limit], call: Asked, usd: Decimal) -> int | Short:
        """Hold the worst case of a call, and return the hold; or return the budget that does not allow it. Raises
        sqlite3.Error."""
        now = self._now()
        nano = nano_up(usd)
        with self._writing():
            self._bury()
            for limit in limits:
                spent, held = self._sums(limit, now)
                if spent + held + nano > nano_down(limit.usd):
                    return Short(limit, spent / NANO, held / NANO)
            return self._insert(call, nano)

    def draw(self, aside: int, call: Asked, usd: Decimal) -> int | None:
        """Hold the worst case of a call from money that was set aside; None if that is too little. Raises
        sqlite3.Error."""
        nano = nano_up(usd)
        with self._writing():
            lower = "UPDATE holds SET nano = nano - ? WHERE id = ? AND nano >= ?"
            enough = self._database.execute(lower, (nano, aside, nano)).rowcount > 0
            return self._insert(call, nano) if enough else None

    def settle(self, hold: int, usd: Decimal, aside: int = 0) -> None:
        """Replace a hold by what the call has cost, and return the rest to what it was drawn from. Raises
        sqlite3.Error: then the hold remains."""
        with self._writing():
            gone = "DELETE FROM holds WHERE id = ? RETURNING project, nano"
            found = self._database.execute(gone, (hold,)).fetchone()
            if found is None:
                return
            project, nano = found
            if usd:
                row = (self._now().timestamp(), project, nano_up(usd), self.run, None)
                self._database.execute("INSERT INTO charges VALUES (?, ?, ?, ?, ?)", row)
            if aside and (rest := nano - nano_up(usd)) > 0:
                self._database.execute("UPDATE holds SET nano = nano + ? WHERE id = ?", (rest, aside))

    def narrow(self, hold: int, usd: Decimal, aside: int = 0) -> None:
        """Lower a hold, and return the rest to what it was drawn from. Raises sqlite3.Error."""
        with self._writing():
            rest = "UPDATE holds SET nano = nano + (SELECT nano FROM holds WHERE id = ?) - ? WHERE id = ?"
            self._database.execute(rest, (hold, nano_up(usd), aside))
            self._database.execute("UPDATE holds SET nano = ? WHERE id = ?", (nano_up(usd), hold))

    def left(self, limit: Limit) -> tuple[Decimal, Decimal]:
        """Return USD spent and held of a budget now. Raises sqlite3.Error."""
        with self._writing():
            self._bury()
            spent, held = self._sums(limit, self._now())
        return spent / NANO, held / NANO

    def take_in(self, project_of: Callable[[str], str] = str) -> None:
        """Add the charges in logs that no run with the book has made: of earlier sessions, and of those without
        budgets. Raises sqlite3.Error and OSError."""
        found = self._database.execute("SELECT MAX(at) FROM read").fetchone()[0]
        began = self._now().timestamp()
        since = None if found is None else datetime.fromtimestamp(max(found - 60, 0), UTC)
        runs = self._runs()
        rows: list[tuple[float, str, int, str, str]] = []
        for each in paid(self.state, since):
            at = each.at.timestamp()
            own = (run for name in (each.session.name, each.origin) if name for run in runs.get(name, ()))
            if not any(first <= at <= last for first, last in own):
                rows.append((at, project_of(each.project), nano_up(_cost(each.charge)), "", each.entry))
        with self._writing():
            self._database.executemany("INSERT OR IGNORE INTO charges VALUES (?, ?, ?, ?, ?)", rows)
            self._database.execute("DELETE FROM read")
            self._database.execute("INSERT INTO read VALUES (?)", (began,))

    def _runs(self) -> Mapping[str, Sequence[tuple[float, float]]]:
        """Return the runs with the book by their sessions' ids: when each began and ended, or had its last bill."""
        found: dict[str, list[tuple[float, float]]] = {}
        last = "SELECT MAX(at) FROM charges WHERE charges.run = runs.run"
        rows = self._database.execute(f"SELECT run, session, began, ended, ({last}) FROM runs")  # noqa: S608 -- no given text
        for run, session, began, ended, billed in rows.fetchall():
            lives = ended is None and (run == self.run or _is_held(self.state / FOLDER / f"{run}.lock"))
            until = float("inf") if lives else ended or (billed or began) + LOG_DELAY_SECONDS
            found.setdefault(Path(session).name, []).append((began, until))
        return found

    def _insert(self, call: Asked, nano: int) -> int:
        at = self._now().timestamp()
        row = (self.run, at, call.project, nano, call.log, call.agent, call.role, call.model)
        into = "INSERT INTO holds (run, at, project, nano, log, agent, role, model) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        return int(self._database.execute(into, row).lastrowid or 0)

    def _sums(self, limit: Limit, now: datetime) -> tuple[int, int]:
        """Return what is spent and held of a budget. A period also has what a clock that was set back dates later."""
        where, values = ("", ()) if not limit.project else (" AND project = ?", (limit.project,))
        spent = f"SELECT COALESCE(SUM(nano), 0) FROM charges WHERE at >= ?{where}"  # noqa: S608 -- no given text
        held = f"SELECT COALESCE(SUM(nano), 0) FROM holds WHERE 1{where}"  # noqa: S608 -- as above
        begins = limit.begins(now)
        found = self._database.execute(spent, (begins, *values)).fetchone()[0]
        return int(found), int(self._database.execute(held, values).fetchone()[0])

    def _bury(self) -> None:
        """Turn the holds of processes that have ended into charges: at their worst, or by the bill in the log."""
        held = self._database.execute("SELECT DISTINCT run FROM holds WHERE run != ?", (self.run,)).fetchall()
        for (run,) in held:
            mark = self.state / FOLDER / f"{run}.lock"
            if _is_held(mark):
                continue
            rows = self._database.execute("DELETE FROM holds WHERE run = ? RETURNING *", (run,)).fetchall()
            for _, _, at, project, nano, log, agent, role, model in rows:
                if role == ASIDE:
                    continue
                cost = _billed(log, agent, role, model, at)
                row = (at, project, nano if cost is None else nano_up(cost), run, None)
                self._database.execute("INSERT INTO charges VALUES (?, ?, ?, ?, ?)", row)
            with suppress(OSError):
                mark.unlink()

    @contextmanager
    def _writing(self) -> Generator[None]:
        """Begin a transaction that excludes other writers, and commit it."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")


def cost_of(charges: Iterable[Charge]) -> Decimal:
    """Return the most that settled charges may come to."""
    found = ZERO
    for charge in charges:
        found = EXACT.add(found, _cost(charge))
    return found


def _cost(charge: Charge) -> Decimal:
    return charge.at_most or charge.usd or ZERO


def _billed(log: str, agent: str, role: str, model: str, at: float) -> Decimal | None:
    """Return the bill of a call that began at a time, if the log of its session has one."""
    with suppress(OSError, SagentError, ValueError):
        charges = (
            entry.content.charge
            for file in (log_files(Path(log)) if log else ())
            for entry in read_log(file)
            if isinstance(entry.content, ChargeEntry) and datetime.fromisoformat(entry.at).timestamp() >= at
        )
        own = [
            each for each in charges if (each.agent, each.role, f"{each.provider}/{each.model}") == (agent, role, model)
        ]
        return cost_of(own) if own else None
    return None


def _is_held(mark: Path) -> bool:
    """Return True if the process that has locked a file lives."""
    with suppress(OSError):
        return not mark.is_symlink() and in_use(mark.parent, mark.name)
    return False


@contextmanager
def _alone(file: Path) -> Generator[None]:
    """Keep other processes out of the block."""
    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        flock.lock(fd, wait=True)
        yield
    finally:
        os.close(fd)


def _connect(file: Path) -> sqlite3.Connection:
    """Open the database, which only the person may read."""
    os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    database = sqlite3.connect(file, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.executescript(_SCHEMA)
    except sqlite3.Error:
        database.close()
        raise
    return database


def nano_up(usd: Decimal) -> int:
    """Return billionths of a USD, at least."""
    return int((usd * NANO).to_integral_value(ROUND_CEILING))


def nano_down(usd: Decimal) -> int:
    """Return billionths of a USD, at most."""
    return int((usd * NANO).to_integral_value(ROUND_FLOOR))
