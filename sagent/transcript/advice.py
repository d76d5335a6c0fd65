"""What a session's logs say of its advisors: what each was asked, what came of it, and what that cost."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from decimal import Decimal

from sagent.events import Advice, AdvisorTally
from sagent.lib.dataclass import dataclass
from sagent.session.contents import AdviceOutcome, AdviceRated, ChargeEntry, ConsultationEntry, RequestSent
from sagent.session.entries import Entry
from sagent.usage import Charge, Usage

ROLE = "advisor:"
OUTCOMES = ("followed", "rejected", "contradicted")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True, slots=True)
class Consultation:
    """One consultation as a log has it. `agent` asked, `at` is when it ended (UTC, ISO 8601), `reason` says why there
    is no advice.

    `outcome` is "followed", "rejected" or "contradicted", "" where nothing tells; `why` is the executor's reason.
    `rated` is the sum of a person's ratings, each 1 or -1.
    """

    entry: str
    agent: str
    at: str
    advisor: str
    model: str
    trigger: str
    status: str
    verdict: str = ""
    next: str = ""
    reason: str = ""
    question: str = ""
    outcome: str = ""
    why: str = ""
    rated: int = 0

    @property
    def is_answer(self) -> bool:
        """Whether there is advice in it."""
        return self.status in ("answered", "cut")


@dataclass(frozen=True, slots=True)
class Standing:
    """What one advisor came to. `triggers` counts the calls made, `verdicts` the answers that name one; `withheld` and
    `unanswered` count reasons, those that differ only in a number as one; the most frequent come first."""

    tally: AdvisorTally
    models: tuple[str, ...] = ()
    cut: int = 0  # of those answered
    triggers: Mapping[str, int] = field(default_factory=dict[str, int])
    verdicts: Mapping[str, int] = field(default_factory=dict[str, int])
    withheld: Mapping[str, int] = field(default_factory=dict[str, int])
    unanswered: Mapping[str, int] = field(default_factory=dict[str, int])
    objections: Mapping[str, int] = field(default_factory=dict[str, int])  # why advice was rejected or contradicted
    good: int = 0
    bad: int = 0

    @property
    def known(self) -> int:
        """Answers whose outcome is known."""
        return self.tally.followed + self.tally.rejected + self.tally.contradicted

    @property
    def hit_rate(self) -> float | None:
        """Which part of those was followed; None where there are none."""
        return self.tally.followed / self.known if self.known else None

    @property
    def usd_per_followed(self) -> Decimal | None:
        """USD for each advice that was followed; None where none was, or where the price of a call is not known."""
        usd, followed = self.tally.usd, self.tally.followed
        return None if usd is None or not followed else usd / followed


@dataclass(frozen=True, slots=True)
class Review:
    """A session's advisors. `turns` are the answered model calls of all agents but the advisors."""

    turns: int
    consultations: tuple[Consultation, ...]
    standings: Mapping[str, Standing]

    @property
    def calls(self) -> int:
        """Consultations that were made."""
        return sum(standing.tally.calls for standing in self.standings.values())

    @property
    def consult_rate(self) -> float | None:
        """Consultations for each turn; None before there is a turn."""
        return self.calls / self.turns if self.turns else None


def review(logs: Mapping[str, Iterable[Entry]]) -> Review:
    """What the logs of a session's agents say, by the agents' paths. What cannot be read counts as not said."""
    found: list[Consultation] = []
    loose: list[AdviceOutcome] = []
    bills: list[Charge] = []
    ratings: list[tuple[str, int]] = []
    turns = 0
    for agent, entries in logs.items():
        reader = _Reader(agent)
        for entry in entries:
            reader.read(entry)
        found += reader.found.values()
        loose += reader.loose
        bills += reader.bills
        ratings += reader.ratings
        turns += 0 if reader.is_advisor else reader.turns
    found.sort(key=lambda one: one.at)
    names = dict.fromkeys(one.advisor for one in found)
    names |= dict.fromkeys(bill.role.removeprefix(ROLE) for bill in bills)
    names |= dict.fromkeys(one.advisor for one in loose) | dict.fromkeys(name for name, _ in ratings)
    standings = {name: _standing(name, found, loose, bills, ratings) for name in names}
    return Review(turns, tuple(found), standings)


def last_answer(consultations: Sequence[Consultation], name: str = "") -> Consultation | None:
    """The latest consultation with advice in it, of one advisor where it is named."""
    answers = [one for one in consultations if one.is_answer and name in ("", one.advisor)]
    return answers[-1] if answers else None


class _Reader:
    """Reads one agent's log."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self.found: dict[str, Consultation] = {}
        self.loose: list[AdviceOutcome] = []  # outcomes of consultations that are not in this log
        self.bills: list[Charge] = []
        self.ratings: list[tuple[str, int]] = []
        self.turns = 0
        self._roles: set[str] = set()

    @property
    def is_advisor(self) -> bool:
        """Whether the agent is itself an advisor: all that it calls is billed as one."""
        return bool(self._roles) and all(role.startswith(ROLE) for role in self._roles)

    def read(self, entry: Entry) -> None:
        """Take an entry into account."""
        if entry.kind not in ("advice", "request", "spent"):
            return
        match entry.content:
            case AdviceRated(name, by):
                self._rate(name, by)
            case AdviceOutcome() as outcome:
                if (of := self.found.get(outcome.of)) is None:
                    self.loose.append(outcome)
                else:
                    self.found[of.entry] = replace(of, outcome=outcome.outcome, why=outcome.reason)
            case ConsultationEntry(advice):
                self.found[entry.id] = self._consultation(entry, advice)
            case RequestSent(role=role):
                self.turns += not role  # that of a call outside the conversation has one
            case ChargeEntry(bill):
                self._roles.add(bill.role)
                if bill.role.startswith(ROLE):
                    self.bills.append(bill)
            case _:
                pass

    def _consultation(self, entry: Entry, advice: Advice) -> Consultation:
        return Consultation(
            entry.id,
            self._agent,
            entry.at,
            advice.advisor,
            advice.model,
            advice.trigger,
            advice.status,
            advice.verdict,
            advice.next,
            advice.reason,
            advice.question,
        )

    def _rate(self, name: str, by: int) -> None:
        self.ratings.append((name, by))
        if (last := last_answer(tuple(self.found.values()), name)) is not None:
            self.found[last.entry] = replace(last, rated=last.rated + by)


def _standing(
    name: str,
    found: Sequence[Consultation],
    loose: Sequence[AdviceOutcome],
    bills: Sequence[Charge],
    ratings: Sequence[tuple[str, int]],
) -> Standing:
    own = [one for one in found if one.advisor == name]
    made = [one for one in own if one.status != "withheld"]
    charges = [bill for bill in bills if bill.role == ROLE + name]
    prices = [bill.usd for bill in charges if bill.usd is not None]
    outcomes = [(one.outcome, one.why) for one in own if one.outcome]
    outcomes += [(one.outcome, one.reason) for one in loose if one.advisor == name]
    became, by = Counter(outcome for outcome, _ in outcomes), [by for rated, by in ratings if rated == name]
    tally = AdvisorTally(
        calls=len(made),
        answered=sum(one.is_answer for one in made),
        declined=sum(one.status == "declined" for one in made),
        failed=sum(one.status not in ("answered", "cut", "declined") for one in made),
        withheld=len(own) - len(made),
        followed=became["followed"],
        rejected=became["rejected"],
        contradicted=became["contradicted"],
        rated=sum(by),
        usage=sum((bill.usage for bill in charges), Usage()),
        usd=sum(prices, Decimal(0)) if len(prices) == len(charges) else None,
    )
    return Standing(
        tally,
        tuple(dict.fromkeys(one.model for one in own if one.model)),
        sum(one.status == "cut" for one in made),
        _counted(one.trigger for one in made),
        _counted(one.verdict for one in made if one.verdict),
        _counted(one.reason or "no reason told" for one in own if one.status == "withheld"),
        _counted(one.reason or "no reason told" for one in made if not one.is_answer),
        _counted(why or f"{outcome}, no reason told" for outcome, why in outcomes if outcome in OUTCOMES[1:]),
        sum(1 for each in by if each > 0),
        sum(1 for each in by if each < 0),
    )


def _counted(texts: Iterable[str]) -> Mapping[str, int]:
    """How often each was said, the most frequent first; those alike but for their numbers under the first of them."""
    first: dict[str, str] = {}
    counted = Counter(first.setdefault(_NUMBER.sub("#", text), text) for text in texts)
    return dict(counted.most_common())
