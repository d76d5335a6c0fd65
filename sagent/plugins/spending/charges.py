"""The charges of all sessions in a state directory, each with its time, its project and its person."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from sagent.errors import SagentError
from sagent.lib.money import total
from sagent.session.contents import ChargeEntry
from sagent.session.folds import origin
from sagent.session.log import read_log
from sagent.session.store import log_files, sessions
from sagent.usage import Charge, Sum

Grouping: TypeAlias = Literal["day", "week", "project", "model", "person"]


class Paid(NamedTuple):
    """A settled charge and its log entry. `person` is the account on this machine that owns the log."""

    at: datetime
    project: str
    charge: Charge
    person: str = ""
    session: Path = Path()
    origin: str = ""  # id of the session that the log began as: a copy begins with the entries of its original
    entry: str = ""

    @property
    def day(self) -> date:
        """The date in this machine's time zone."""
        return self.at.astimezone().date()


class Spending(NamedTuple):
    """Sums by name, in order, and the models without a known price, so that the sums are minima."""

    sums: Mapping[str, Sum]
    unpriced: tuple[str, ...]

    @property
    def usd(self) -> Decimal:
        """USD of all of them."""
        return total(each.usd for each in self.sums.values())

    @property
    def unbilled(self) -> Decimal:
        """USD that calls without a certain bill may have cost in addition."""
        return total(each.unbilled for each in self.sums.values())


def paid(state: Path, since: datetime | None = None) -> Iterator[Paid]:
    """Yield every settled charge once, or those of logs that were written `since` then: a copied session begins with
    the charges of its original. Logs that cannot be read, and what follows damage, are left out."""
    seen = set[str]()
    for session in sessions(state):
        project = begun = ""
        with suppress(OSError, SagentError, ValueError):
            for file in log_files(session):
                facts = file.stat()
                if since is not None and facts.st_mtime < since.timestamp():
                    continue
                person = _account(facts.st_uid)
                for entry in read_log(file):
                    if not project:
                        opened = origin([entry])
                        project, begun = opened.cwd or str(session.parent), opened.session
                    if entry.kind != "spent" or entry.id in seen or not isinstance(entry.content, ChargeEntry):
                        continue
                    seen.add(entry.id)
                    at = datetime.fromisoformat(entry.at)
                    if since is None or at >= since:
                        yield Paid(at, project, entry.content.charge, person, session, begun, entry.id)


def _account(uid: int) -> str:
    from pwd import getpwuid

    try:
        return getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def grouped(charges: Iterable[Paid], by: Grouping) -> Spending:
    """Return the sums by day or week, latest first, or by project, model or person, dearest first."""
    sums, unpriced = dict[str, Sum](), dict[str, None]()
    for each in charges:
        charge, name = each.charge, _name(each, by)
        sums.setdefault(name, Sum()).add(charge)
        if charge.usd is None:
            unpriced[f"{charge.provider}/{charge.model}"] = None
    if by in ("day", "week"):
        return Spending(dict(sorted(sums.items(), reverse=True)), tuple(unpriced))
    return Spending(dict(sorted(sums.items(), key=lambda item: -item[1].usd)), tuple(unpriced))


def _name(charge: Paid, by: Grouping) -> str:
    match by:
        case "day":
            return charge.day.isoformat()
        case "week":  # by its Monday
            return (charge.day - timedelta(days=charge.day.weekday())).isoformat()
        case "project":
            return charge.project
        case "model":
            return f"{charge.charge.provider}/{charge.charge.model}"
        case "person":
            return charge.person
