"""Standing budgets: of a day, a month and a project, each with the time from which spending counts."""

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from sagent.config import Settings
from sagent.context.instructions import repository_root
from sagent.lib.money import ZERO, show
from sagent.plugins.spending import DAY, MONTH, PROJECT

Period: TypeAlias = Literal["day", "month", "ever"]


class Limit(NamedTuple):
    """A budget: USD from the beginning of a period, in one project or, with "", in all."""

    setting: str
    usd: Decimal
    period: Period
    project: str = ""

    def begins(self, now: datetime) -> float:
        """Return when the present period began, in seconds since 1970: at midnight of the person's time zone."""
        local = now.astimezone()
        match self.period:
            case "day":
                return _midnight(local.year, local.month, local.day)
            case "month":
                return _midnight(local.year, local.month, 1)
            case "ever":
                return 0.0

    def renews(self, now: datetime) -> datetime | None:
        """Return when the next period begins."""
        local = now.astimezone()
        match self.period:
            case "day":
                following = datetime.fromordinal(local.toordinal() + 1)
            case "month":
                following = datetime(local.year + local.month // 12, local.month % 12 + 1, 1)  # noqa: DTZ001 -- local
            case "ever":
                return None
        return following.astimezone()

    def refusal(self, spent: Decimal, held: Decimal, now: datetime) -> str:
        """Return how much of it is left and when it renews."""
        left = max(self.usd - spent - held, ZERO)
        until = self.renews(now)
        renews = "It does not renew" if until is None else f"It renews at {until:%Y-%m-%d %H:%M %Z}"
        held_too = f", {show(held)} is held by calls in flight" if held else ""
        return (
            f"{self.setting} is {show(self.usd)}, and {show(left)} of it is left ({show(spent)} is spent{held_too}). "
            f"{renews}. To continue, raise {self.setting} in your settings or use a cheaper model"
        )


def _midnight(year: int, month: int, day: int) -> float:
    return datetime(year, month, day).timestamp()  # noqa: DTZ001 -- the person's


def project_at(cwd: str) -> str:
    """Return the project of a session in a directory, which may be gone: its repository, or the directory."""
    return str(repository_root(Path(cwd)) or cwd)


def limits_of(settings: Settings) -> tuple[Limit, ...]:
    """Return the budgets of the settings."""
    project = project_at(str(settings.cwd))
    found = (
        (settings.of(DAY), Limit(DAY.name, ZERO, "day")),
        (settings.of(MONTH), Limit(MONTH.name, ZERO, "month")),
        (settings.of(PROJECT), Limit(PROJECT.name, ZERO, "ever", project)),
    )
    return tuple(limit._replace(usd=usd) for usd, limit in found if isinstance(usd, Decimal))
