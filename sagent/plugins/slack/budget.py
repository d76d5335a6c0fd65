"""The budget of a day, in a file: over all processes of the day, and past a kill."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from sagent.lib.atomic import put
from sagent.lib.json import as_object
from sagent.lib.money import ZERO, as_usd, total
from sagent.lib.regular import read_given
from sagent.plugins.slack.rules import ChatRules

DAYS = 40  # that the file remembers


def today() -> str:
    """Return the day, in UTC."""
    return datetime.now(UTC).date().isoformat()


class DayBudget:
    """The budget of a day. Money reserved for a run counts as spent until the run is settled: permanently, if its
    process was killed. One process holds the file."""

    def __init__(self, file: Path, rules: ChatRules, day: Callable[[], str] = today) -> None:
        self._file, self._rules, self._day = file, rules, day
        self._days = self._read()

    def room(self, place: str) -> Decimal:
        """USD that may still be spent in a place today; below 0 after an overrun."""
        spent = self._days.get(self._day(), {})
        own = self._rules.places[place].usd_per_day - spent.get(place, ZERO)
        return min(own, self._rules.usd_per_day - total(spent.values()))

    def spent(self, place: str) -> Decimal:
        """USD spent today, including reserved money."""
        return self._days.get(self._day(), {}).get(place, ZERO)

    def reserve(self, place: str, usd: Decimal) -> Callable[[Decimal], None]:
        """Reserve a sum; call the returned function with the actual cost. Raises OSError: nothing is reserved then."""
        day = self._day()
        self._add(day, place, usd)

        def settle(spent: Decimal) -> None:
            self._add(day, place, spent - usd)

        return settle

    def _add(self, day: str, place: str, usd: Decimal) -> None:
        days = {name: dict(each) for name, each in self._days.items()}
        days.setdefault(day, {})[place] = days.get(day, {}).get(place, ZERO) + usd
        kept = {name: days[name] for name in sorted(days)[-DAYS:]}
        text = {name: {own: str(sum_) for own, sum_ in each.items()} for name, each in kept.items()}
        put(self._file, json.dumps(text).encode())
        self._days = kept

    def _read(self) -> Mapping[str, Mapping[str, Decimal]]:
        try:
            value = as_object(json.loads(read_given(self._file)))
        except FileNotFoundError:
            return {}
        return {
            day: {place: as_usd(usd) or ZERO for place, usd in as_object(each).items()} for day, each in value.items()
        }
