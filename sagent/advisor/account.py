"""What is counted of advisors over a whole session, by all agents of a tree, and what its bounds do not allow."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import field, replace
from decimal import Decimal

from sagent.advisor.advisor import Advisor
from sagent.advisor.rules import Rules
from sagent.events import Advice, AdvisorTally
from sagent.lib.dataclass import dataclass
from sagent.usage import Cost

ZERO = Decimal(0)


@dataclass(slots=True)
class Held:
    """What a consultation in progress may come to: USD, and tokens about. `usd` is 0 where nobody knows a price."""

    name: str
    usd: Decimal
    tokens: int


@dataclass(slots=True)
class Account:
    """One for a tree of agents. What a consultation may come to is held while it runs, so that bounds hold whatever
    runs side by side."""

    tallies: dict[str, AdvisorTally] = field(default_factory=dict[str, AdvisorTally])
    muted: set[str] = field(default_factory=set[str])
    _held: list[Held] = field(default_factory=list[Held])

    def refusal(self, advisor: Advisor, rules: Rules, cost: Cost, used: int, ask: tuple[Decimal | None, int]) -> str:
        """Why an advisor may not be asked once more, or "". `used` are the tokens so far; `ask` what it may come to:
        USD at most, None where nobody knows, and tokens about."""
        worst, likely = ask
        return (
            self._too_many_calls(advisor, rules)
            or self._too_many_tokens(rules, used, likely)
            or self._too_large_a_share(rules, cost, worst)
            or self._too_dear(advisor, rules, cost, worst)
        )

    def left(self, advisor: Advisor, rules: Rules, cost: Cost) -> Decimal | None:
        """USD that an advisor may still spend, what is held taken off; None without a bound."""
        return min((max(most - used, ZERO) for _, most, used in self._budgets(advisor, rules, cost)), default=None)

    @contextmanager
    def asking(self, held: Held) -> Generator[None]:
        """Hold what a consultation may come to while it runs."""
        self._held.append(held)
        try:
            yield
        finally:
            self._held = [each for each in self._held if each is not held]

    def _too_many_calls(self, advisor: Advisor, rules: Rules) -> str:
        own = sum(held.name == advisor.name for held in self._held)
        own += self.tallies.get(advisor.name, AdvisorTally()).calls
        if advisor.max_calls is not None and own >= advisor.max_calls:
            return f"its {advisor.max_calls} calls of this session are used up"
        calls = len(self._held) + sum(tally.calls for tally in self.tallies.values())
        if rules.max_session_calls is not None and calls >= rules.max_session_calls:
            return f"the {rules.max_session_calls} consultations of this session are used up"
        return ""

    def _too_many_tokens(self, rules: Rules, used: int, likely: int) -> str:
        used += sum(held.tokens for held in self._held)
        if rules.max_tokens is None or used + likely <= rules.max_tokens:
            return ""
        return (
            f"it would take about {likely} tokens, and of the {rules.max_tokens} that advisors may use in a session "
            f"{max(rules.max_tokens - used, 0)} are left"
        )

    def _too_large_a_share(self, rules: Rules, cost: Cost, worst: Decimal | None) -> str:
        if rules.max_share is None:
            return ""
        if worst is None:
            return f"its price is not known, so that the share of {rules.max_share:.0%} cannot be kept"
        held = sum((each.usd for each in self._held), ZERO)
        if cost.advisor + held > Decimal(str(rules.max_share)) * (cost.total + held):
            return f"advisors have more than their share of {rules.max_share:.0%} of this session's cost"
        return ""

    def _too_dear(self, advisor: Advisor, rules: Rules, cost: Cost, worst: Decimal | None) -> str:
        for whose, most, used in self._budgets(advisor, rules, cost):
            if worst is None:
                return f"its price is not known, so that {whose} {most} USD cannot be kept"
            if used + worst > most:
                return f"it may cost {worst:.4f} USD, and of {whose} {most} USD {max(most - used, ZERO):.4f} are left"
        return ""

    def _budgets(self, advisor: Advisor, rules: Rules, cost: Cost) -> Iterator[tuple[str, Decimal, Decimal]]:
        """Whose each bound on USD is, the bound, and what is spent or held of it."""
        if advisor.max_usd is not None:
            own = sum((each.usd for each in self._held if each.name == advisor.name), ZERO)
            yield "its", advisor.max_usd, cost.by_role.get(f"advisor:{advisor.name}", ZERO) + own
        if rules.max_usd is not None:
            yield "the advisors'", rules.max_usd, cost.advisor + sum((each.usd for each in self._held), ZERO)

    def count(self, advice: Advice) -> None:
        """Take a consultation into account."""
        tally = self.tallies.get(advice.advisor, AdvisorTally())
        calls = tally.calls + (advice.status != "withheld")
        match advice.status:
            case "answered" | "cut":
                tally = replace(tally, calls=calls, answered=tally.answered + 1)
            case "declined":
                tally = replace(tally, calls=calls, declined=tally.declined + 1)
            case "failed":
                tally = replace(tally, calls=calls, failed=tally.failed + 1)
            case "withheld":
                tally = replace(tally, withheld=tally.withheld + 1)
        self.tallies[advice.advisor] = tally

    def note(self, name: str, outcome: str, by: int = 1) -> None:
        """Take into account what became of advice: "followed", "rejected", "contradicted", or how it was "rated"."""
        tally = self.tallies.get(name, AdvisorTally())
        if outcome in ("followed", "rejected", "contradicted", "rated"):
            self.tallies[name] = replace(tally, **{outcome: getattr(tally, outcome) + by})
