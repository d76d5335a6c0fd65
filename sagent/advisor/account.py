"""Counts advisors' calls and outcomes over a whole session, for all agents of a tree, and enforces their limits."""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import field, replace
from decimal import Decimal

from sagent.advisor.advisor import Advisor
from sagent.advisor.following import MAX_FOLLOWING_TURNS, effect_of, stated_effect
from sagent.advisor.rules import Rules
from sagent.events import Advice, AdvisorTally
from sagent.lib.dataclass import dataclass
from sagent.lib.money import ZERO
from sagent.policy import Turn
from sagent.session.contents import AdviceOutcome
from sagent.usage import Cost


@dataclass(slots=True)
class ConsultationBound:
    """A bound on a consultation in progress, in USD and in estimated tokens. `usd` is 0 if its price is unknown."""

    name: str
    usd: Decimal
    tokens: int


@dataclass(slots=True)
class Account:
    """The account of advisors of one tree of agents. The bound of a consultation is reserved while it runs, so that
    limits hold with several in parallel."""

    tallies: dict[str, AdvisorTally] = field(default_factory=dict[str, AdvisorTally])
    muted: set[str] = field(default_factory=set[str])
    _held: list[ConsultationBound] = field(default_factory=list[ConsultationBound])

    @property
    def calls(self) -> int:
        """Number of consultations of all advisors."""
        return sum(tally.calls for tally in self.tallies.values())

    def refusal(self, advisor: Advisor, rules: Rules, cost: Cost, used: int, ask: tuple[Decimal | None, int]) -> str:
        """Return the reason why an advisor may not be asked again, or "". `used`: tokens so far. `ask`: the request's
        maximum USD (None if unknown) and approximate tokens."""
        reasons = (*self._used_up(advisor, rules, used, ask[1]), *self._too_dear(advisor, rules, cost, ask[0]))
        return next(iter(reasons), "")

    def left(self, advisor: Advisor, rules: Rules, cost: Cost) -> Decimal | None:
        """Return USD that an advisor may still spend, without reserved money; None without a limit."""
        return min((max(most - used, ZERO) for _, most, used in self._budgets(advisor, rules, cost)), default=None)

    @contextmanager
    def asking(self, bound: ConsultationBound) -> Generator[None]:
        """Reserve the maximum cost of a consultation while it runs."""
        self._held.append(bound)
        try:
            yield
        finally:
            self._held = [each for each in self._held if each is not bound]

    def _used_up(self, advisor: Advisor, rules: Rules, used: int, likely: int) -> Iterator[str]:
        """Yield the reasons why calls and tokens do not allow a consultation."""
        own = sum(held.name == advisor.name for held in self._held)
        own += self.tallies.get(advisor.name, AdvisorTally()).calls
        if advisor.max_calls is not None and own >= advisor.max_calls:
            yield f"its {advisor.max_calls} calls of this session are used up"
        if rules.max_session_calls is not None and len(self._held) + self.calls >= rules.max_session_calls:
            yield f"the {rules.max_session_calls} consultations of this session are used up"
        used += sum(held.tokens for held in self._held)
        if rules.max_tokens is not None and used + likely > rules.max_tokens:
            yield (
                f"it would take about {likely} tokens, but {max(rules.max_tokens - used, 0)} are left of the "
                f"{rules.max_tokens} that advisors may use in a session"
            )

    def _too_dear(self, advisor: Advisor, rules: Rules, cost: Cost, worst: Decimal | None) -> Iterator[str]:
        """Yield the reasons why money does not allow a consultation; `worst` is None if the price is unknown."""
        if rules.max_share is not None:
            held = sum((each.usd for each in self._held), ZERO)
            if worst is None:
                yield f"its price is not known, so the limit of {rules.max_share:.0%} of the cost cannot be kept"
            elif cost.advisor + held + worst > Decimal(str(rules.max_share)) * (cost.total + held + worst):
                yield (
                    f"it may cost ${worst:.4f}, which would take advisors beyond their share of "
                    f"{rules.max_share:.0%} of this session's cost"
                )
        for whose, most, used in self._budgets(advisor, rules, cost):
            if worst is None:
                yield f"its price is not known, so {whose} ${most} cannot be kept"
            elif used + worst > most:
                yield f"it may cost ${worst:.4f}, but ${max(most - used, ZERO):.4f} of {whose} ${most} are left"

    def _budgets(self, advisor: Advisor, rules: Rules, cost: Cost) -> Iterator[tuple[str, Decimal, Decimal]]:
        """Yield the limits in USD: the owner, the limit, and its spent or reserved part."""
        if advisor.max_usd is not None:
            own = sum((each.usd for each in self._held if each.name == advisor.name), ZERO)
            yield "its", advisor.max_usd, cost.by_role.get(f"advisor:{advisor.name}", ZERO) + own
        if rules.max_usd is not None:
            yield "the advisors'", rules.max_usd, cost.advisor + sum((each.usd for each in self._held), ZERO)

    def count(self, advice: Advice) -> None:
        """Take a consultation into account."""
        tally = self.tallies.get(advice.advisor, AdvisorTally())
        self.tallies[advice.advisor] = replace(tally, calls=tally.calls + (advice.status != "withheld"))
        self.note(advice.advisor, "answered" if advice.status == "cut" else advice.status)

    def note(self, name: str, outcome: str, number: int = 1) -> None:
        """Take into account how a consultation ended, or what became of advice: "followed", "rejected", "contradicted",
        or how it was "rated"."""
        tally = self.tallies.get(name, AdvisorTally())
        if outcome in ("answered", "declined", "failed", "withheld", "followed", "rejected", "contradicted", "rated"):
            self.tallies[name] = replace(tally, **{outcome: getattr(tally, outcome) + number})


@dataclass(slots=True)
class Outcome:
    """Advice with a still unknown effect, for so many `turns`. A `reconciled` one is not asked about again."""

    entry: str
    advice: Advice
    reconciled: bool = False
    turns: int = 0


class Outcomes:
    """The advice of one agent, from when it is given until the executor's next steps have shown its effect, or too many
    steps have passed."""

    def __init__(self, account: Account, record: Callable[[AdviceOutcome], str]) -> None:
        self._account, self._record = account, record
        self._fresh: list[Outcome] = []
        self._waiting: list[Outcome] = []

    def give(self, outcome: Outcome) -> None:
        """Advice was given."""
        self._fresh.append(outcome)

    def turn_over(self) -> None:
        """Close the turn: the next one judges the advice given in it."""
        self._waiting, self._fresh = [*self._waiting, *self._fresh], []

    def judge(self, turn: Turn) -> tuple[str, str] | None:
        """Record the effect of earlier advice on a turn; if evidence contradicts some, return the advisor and question
        to reconcile it. Only once: an answer in that turn, or now, is final."""
        waiting, self._waiting = self._waiting, []
        word = stated_effect(turn.reply)
        ask: tuple[str, str] | None = None
        for one in waiting:
            name = one.advice.advisor
            outcome, reason = word or effect_of(one.advice, turn)
            one.turns += 1
            if outcome:
                self._record(AdviceOutcome(name, one.entry, outcome, reason))
                self._account.note(name, outcome)
            elif one.turns < MAX_FOLLOWING_TURNS:
                self._waiting.append(one)
            if outcome == "contradicted" and not one.reconciled and ask is None:
                why = f"the executor found evidence against your advice: {reason or 'see above'}. Which is right?"
                ask = (name, why)
        if waiting and word is not None and word[0] == "contradicted":
            for one in self._fresh:
                one.reconciled = True
        return ask
