"""What the executor made of advice: it followed it, turned it down, or found what contradicts it."""

from collections.abc import Callable

from sagent.advisor.account import Account
from sagent.lib.dataclass import dataclass
from sagent.session.contents import AdviceOutcome


@dataclass(slots=True)
class Outcome:
    """Advice whose effect is not known yet. Of one that was `reconciled` nothing more is asked."""

    entry: str
    advisor: str
    reconciled: bool = False


class Outcomes:
    """The advice of one agent, from when it is given until the executor's next step has shown what it is worth."""

    def __init__(self, account: Account, record: Callable[[AdviceOutcome], str]) -> None:
        self._account, self._record = account, record
        self._fresh: list[Outcome] = []
        self._waiting: list[Outcome] = []

    def give(self, outcome: Outcome) -> None:
        """Advice was given."""
        self._fresh.append(outcome)

    def turn_over(self) -> None:
        """A turn has ended: what was advised in it is judged by the next."""
        self._waiting, self._fresh = [*self._waiting, *self._fresh], []

    def judge(self, objected: tuple[str, str] | None) -> tuple[str, str] | None:
        """Record what a turn made of the advice before it; where evidence contradicts some, whom to ask what. Once:
        what was asked in that turn, or is asked now, is the last word."""
        waiting, self._waiting = self._waiting, []
        outcome, reason = objected or ("followed", "")
        ask: tuple[str, str] | None = None
        for one in waiting:
            self._record(AdviceOutcome(one.advisor, one.entry, outcome, reason))
            self._account.note(one.advisor, outcome)
            if outcome == "contradicted" and not one.reconciled and ask is None:
                why = f"the executor found what contradicts your advice: {reason or 'see above'}. Which holds?"
                ask = (one.advisor, why)
        if waiting and outcome == "contradicted":
            for one in self._fresh:
                one.reconciled = True
        return ask
