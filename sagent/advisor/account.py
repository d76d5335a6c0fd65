"""What is counted of advisors over a whole session, by all agents of a tree, and what its bounds do not allow."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal

from sagent.advisor.advisor import Advisor
from sagent.advisor.rules import Rules
from sagent.events import Advice, AdvisorTally
from sagent.usage import Cost

ZERO = Decimal(0)


@dataclass(slots=True)
class Account:
    """One for a tree of agents. Money that a consultation may cost is held while it runs, so that bounds on USD hold
    whatever runs side by side."""

    tallies: dict[str, AdvisorTally] = field(default_factory=dict[str, AdvisorTally])
    muted: set[str] = field(default_factory=set[str])
    in_flight: Counter[str] = field(default_factory=Counter[str])
    _held: dict[str, Decimal] = field(default_factory=dict[str, Decimal])

    def refusal(self, advisor: Advisor, rules: Rules, cost: Cost, tokens: int, worst: Decimal | None) -> str:
        """Why an advisor may not be asked once more, or "". `worst` is what that may cost, None where nobody knows."""
        made = {name: tally.calls + self.in_flight[name] for name, tally in self.tallies.items()}
        calls, own = sum(made.values()), made.get(advisor.name, self.in_flight[advisor.name])
        if advisor.max_calls is not None and own >= advisor.max_calls:
            return f"its {advisor.max_calls} calls of this session are used up"
        if rules.max_session_calls is not None and calls >= rules.max_session_calls:
            return f"the {rules.max_session_calls} consultations of this session are used up"
        if rules.max_tokens is not None and tokens >= rules.max_tokens:
            return f"advisors have used {tokens} tokens, and may use {rules.max_tokens} in a session"
        if rules.max_share is not None and float(cost.advisor) > rules.max_share * float(cost.total):
            return f"advisors have more than their share of {rules.max_share:.0%} of this session's cost"
        held = sum(self._held.values(), ZERO)
        spent = cost.by_role.get(f"advisor:{advisor.name}", ZERO) + self._held.get(advisor.name, ZERO)
        for whose, most, used in (
            ("its", advisor.max_usd, spent),
            ("the advisors'", rules.max_usd, cost.advisor + held),
        ):
            if most is not None and worst is None:
                return f"its price is not known, so that {whose} {most} USD cannot be kept"
            if most is not None and worst is not None and used + worst > most:
                return f"it may cost {worst:.4f} USD, and of {whose} {most} USD {max(most - used, ZERO):.4f} are left"
        return ""

    @contextmanager
    def asking(self, name: str, worst: Decimal | None) -> Generator[None]:
        """Hold what a consultation may cost while it runs."""
        usd = worst or ZERO
        self._held[name] = self._held.get(name, ZERO) + usd
        self.in_flight[name] += 1
        try:
            yield
        finally:
            self._held[name] -= usd
            self.in_flight[name] -= 1

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
