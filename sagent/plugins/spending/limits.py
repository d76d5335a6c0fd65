"""Standing budgets: of a day, a month and a project, each with the time from which spending counts."""

from datetime import UTC, date, datetime, time, tzinfo
from decimal import Decimal
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from sagent.config import Settings
from sagent.context.instructions import repository_root
from sagent.lib.money import ZERO, show
from sagent.plugins.spending import DAY, MONTH, PROJECT, TEAM_DAY, TEAM_MONTH

Period: TypeAlias = Literal["day", "month", "ever"]


class Limit(NamedTuple):
    """A budget: USD from the beginning of a period, in one project or, with "", in all. Without a `zone` its days are
    those of the person's."""

    setting: str
    usd: Decimal
    period: Period
    project: str = ""
    zone: tzinfo | None = None

    def begins(self, now: datetime) -> float:
        """Return when the present period began, in seconds since 1970: at midnight of the person's time zone."""
        local = now.astimezone()
        match self.period:
            case "day":
                return midnight(local).timestamp()
            case "month":
                return midnight(local.replace(day=1)).timestamp()
            case "ever":
                return 0.0

    def renews(self, now: datetime) -> datetime | None:
        """Return when the next period begins."""
        local = now.astimezone(self.zone)
        match self.period:
            case "day":
                following = date.fromordinal(local.toordinal() + 1)
            case "month":
                following = date(local.year + local.month // 12, local.month % 12 + 1, 1)
            case "ever":
                return None
        return datetime.combine(following, time(), self.zone) if self.zone else midnight(following)

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


def midnight(day: date) -> datetime:
    """Return the first moment of a day of the person's: summer time may begin at midnight, or repeat it."""
    found = [datetime(day.year, day.month, day.day, fold=fold).astimezone() for fold in (0, 1)]
    return min((each for each in found if each.day == day.day), default=found[0])


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


def team_limits_of(settings: Settings) -> tuple[Limit, ...]:
    """Return the team's budgets in the settings: those of days and months of UTC."""
    found = (
        (settings.of(TEAM_DAY), Limit(TEAM_DAY.name, ZERO, "day", zone=UTC)),
        (settings.of(TEAM_MONTH), Limit(TEAM_MONTH.name, ZERO, "month", zone=UTC)),
    )
    return tuple(limit._replace(usd=usd) for usd, limit in found if isinstance(usd, Decimal))
