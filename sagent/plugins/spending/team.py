"""The budgets of a team, kept on a bus by the plugin mesh."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from decimal import Decimal
from typing import Literal, Protocol, TypeAlias, cast

from sagent.config import Settings
from sagent.errors import BudgetExceeded, SagentError, UsageError
from sagent.plugin import resolve
from sagent.plugins.spending import TEAM_BUS
from sagent.plugins.spending.book import NANO, Short, nano_down, nano_up
from sagent.plugins.spending.limits import Limit, team_limits_of

_Period: TypeAlias = Literal["day", "month"]


class Money(Protocol):
    """Money that many machines spend, in billionths of a USD. A refused reservation is the period whose budget is too
    small, with what is spent and held of it."""

    async def reserve(self, caps: Mapping[_Period, int], nano: int) -> str | tuple[_Period, int, int]: ...

    def settle(self, hold: str, nano: int) -> None: ...

    def narrow(self, hold: str, nano: int) -> None: ...

    async def left(self, period: _Period) -> tuple[int, int]: ...


class Team:
    """A team's budgets, as one session spends from them."""

    def __init__(self, money: Money, limits: Sequence[Limit]) -> None:
        self._money = money
        self._limits: dict[_Period, Limit] = {cast("_Period", limit.period): limit for limit in limits}

    @property
    def limits(self) -> Sequence[Limit]:
        """The budgets."""
        return list(self._limits.values())

    async def reserve(self, usd: Decimal) -> str | Short:
        """Hold the worst case of a call, and return the hold; or return the budget that does not allow it. Raises
        BudgetExceeded if the bus cannot be reached."""
        caps: dict[_Period, int] = {period: nano_down(limit.usd) for period, limit in self._limits.items()}
        try:
            found = await self._money.reserve(caps, nano_up(usd))
        except SagentError as error:
            raise BudgetExceeded(f"no call is made, as {self.limits[0].setting} cannot be kept: {error}") from error
        return found if isinstance(found, str) else Short(self._limits[found[0]], found[1] / NANO, found[2] / NANO)

    def settle(self, hold: str, usd: Decimal) -> None:
        """Replace a hold by what the call has cost."""
        self._money.settle(hold, nano_up(usd))

    def narrow(self, hold: str, usd: Decimal) -> None:
        """Lower a hold."""
        self._money.narrow(hold, nano_up(usd))

    async def left(self) -> Mapping[Limit, tuple[Decimal, Decimal]]:
        """Return USD spent and held of each budget. Raises SagentError."""
        found = {limit: await self._money.left(period) for period, limit in self._limits.items()}
        return {limit: (spent / NANO, held / NANO) for limit, (spent, held) in found.items()}


@asynccontextmanager
async def open_team(settings: Settings) -> AsyncGenerator[Team | None]:
    """Yield the team's budgets; None if the settings have none. Raises UsageError if they cannot be kept."""
    limits = team_limits_of(settings)
    if not limits:
        yield None
        return
    name, url = limits[0].setting, str(settings.of(TEAM_BUS) or "")
    if not url:
        raise UsageError(f"{name} is kept on a bus: name it with {TEAM_BUS.name}, as in nats://HOST:4222.")
    extra = next((extra for _, extra in settings.plugins.extras("team money")), None)
    if extra is None:
        raise UsageError(f"{name} is kept by the plugin mesh, which is not here. Install it, or remove {name}.")
    opening = cast("Callable[[str], AbstractAsyncContextManager[Money]]", resolve(extra.add))(url)
    try:
        money = await opening.__aenter__()
    except SagentError as error:
        raise UsageError(f"{name} cannot be kept, so nothing is run: {error}") from error
    try:
        yield Team(money, limits)
    finally:
        await opening.__aexit__(None, None, None)
