"""Review of a session's advisors from its logs: questions, outcomes and costs."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from decimal import Decimal

from sagent.events import AdvisorTally
from sagent.lib.dataclass import dataclass
from sagent.plugins.exports.entries import LogReader
from sagent.plugins.exports.steps import Charged, Consulted, Judged, Requested, Step
from sagent.session.contents import AdviceOutcome, AdviceRated
from sagent.session.entries import Entry
from sagent.usage import Sum

ROLE = "advisor:"
KINDS = ("advice", "request", "spent")  # of entries about advisors
OUTCOMES = ("followed", "rejected", "contradicted")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True, slots=True)
class Consultation:
    """One consultation as a log has it. `agent` asked, `at` is when it ended (UTC, ISO 8601), `reason` says why there
    is no advice.

    `outcome` is "followed", "rejected" or "contradicted", "" if unknown; `why` is the executor's reason. `rated` is the
    sum of a person's ratings, each 1 or -1.
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
        return self.status in ("answered", "cut")


@dataclass(frozen=True, slots=True)
class AdvisorRecord:
    """Record of one advisor. `triggers` counts the calls made, `verdicts` the answers with one; `withheld` and
    `unanswered` count reasons, ignoring differences in numbers; the most frequent come first."""

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
        """Answers with a known outcome."""
        return self.tally.followed + self.tally.rejected + self.tally.contradicted

    @property
    def hit_rate(self) -> float | None:
        """The share of known outcomes that were followed; None if there are none."""
        return self.tally.followed / self.known if self.known else None

    @property
    def usd_per_followed(self) -> Decimal | None:
        """USD for each followed advice; None if there is none, or if the price of a call is unknown."""
        usd, followed = self.tally.usd, self.tally.followed
        return None if usd is None or not followed else usd / followed


@dataclass(frozen=True, slots=True)
class Review:
    """A session's advisors. `turns` are the answered model calls of all agents but the advisors."""

    turns: int
    consultations: tuple[Consultation, ...]
    standings: Mapping[str, AdvisorRecord]

    @property
    def calls(self) -> int:
        return sum(standing.tally.calls for standing in self.standings.values())

    @property
    def consult_rate(self) -> float | None:
        """Consultations per turn; None before the first turn."""
        return self.calls / self.turns if self.turns else None


def review(logs: Mapping[str, Iterable[Entry]]) -> Review:
    """Review the logs of a session's agents, given by path. Entries that cannot be read are skipped."""
    found: list[Consultation] = []
    judged: list[AdviceOutcome | AdviceRated] = []  # outcomes of consultations that are in no log
    spent: dict[str, Sum] = {}
    turns = 0
    for agent, entries in logs.items():
        reader, log = LogReader(agent), _Log(spent)
        for entry in entries:
            for step in reader.read(entry) if entry.kind in KINDS else ():
                log.add(step)
        found += log.found.values()
        judged += log.judged
        turns += 0 if log.is_advisor else log.turns
    found.sort(key=lambda one: one.at)
    names = dict.fromkeys((*(one.advisor for one in found), *spent, *(one.advisor for one in judged)))
    standings = {name: _standing(name, found, judged, spent.get(name, Sum())) for name in names}
    return Review(turns, tuple(found), standings)


def last_answer(consultations: Sequence[Consultation], name: str = "") -> Consultation | None:
    answers = [one for one in consultations if one.is_answer and name in ("", one.advisor)]
    return answers[-1] if answers else None


class _Log:
    """Consultations in one agent's log. The cost of advisors is added to `spent`."""

    def __init__(self, spent: dict[str, Sum]) -> None:
        self.found: dict[str, Consultation] = {}
        self.judged: list[AdviceOutcome | AdviceRated] = []
        self.turns = 0
        self._spent = spent
        self._roles: set[str] = set()

    @property
    def is_advisor(self) -> bool:
        """True if the agent is itself an advisor: all its calls are billed as one."""
        return bool(self._roles) and all(role.startswith(ROLE) for role in self._roles)

    def add(self, step: Step) -> None:
        match step:
            case Judged(_, AdviceRated(name, by) as rating):
                self.judged.append(rating)
                if (last := last_answer(tuple(self.found.values()), name)) is not None:
                    self.found[last.entry] = replace(last, rated=last.rated + by)
            case Judged(_, AdviceOutcome() as outcome):
                if (of := self.found.get(outcome.of)) is None:
                    self.judged.append(outcome)
                else:
                    self.found[of.entry] = replace(of, outcome=outcome.outcome, why=outcome.reason)
            case Consulted():
                self.found[step.entry] = _consultation(step)
            case Requested(role=role):
                self.turns += not role
            case Charged(_, charge):
                self._roles.add(charge.role)
                if charge.role.startswith(ROLE):
                    self._spent.setdefault(charge.role.removeprefix(ROLE), Sum()).add(charge)
            case _:
                pass


def _consultation(step: Consulted) -> Consultation:
    advice = step.advice
    asked = (advice.advisor, advice.model, advice.trigger)
    came = (advice.status, advice.verdict, advice.next, advice.reason, advice.question)
    return Consultation(step.entry, step.agent, step.at, *asked, *came)


def _standing(
    name: str, consultations: Sequence[Consultation], judged: Sequence[AdviceOutcome | AdviceRated], spent: Sum
) -> AdvisorRecord:
    own = [consultation for consultation in consultations if consultation.advisor == name]
    made = [one for one in own if one.status != "withheld"]
    outcomes = [(one.outcome, one.why) for one in own if one.outcome]
    outcomes += [(one.outcome, one.reason) for one in judged if isinstance(one, AdviceOutcome) and one.advisor == name]
    became = Counter(outcome for outcome, _ in outcomes)
    by = [one.by for one in judged if isinstance(one, AdviceRated) and one.advisor == name]
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
        usage=spent.usage,
        usd=spent.price,
    )
    return AdvisorRecord(
        tally,
        tuple(dict.fromkeys(one.model for one in own if one.model)),
        sum(one.status == "cut" for one in made),
        _counted(one.trigger for one in made),
        _counted(one.verdict for one in made if one.verdict),
        _counted(one.reason or "no reason given" for one in own if one.status == "withheld"),
        _counted(one.reason or "no reason given" for one in made if not one.is_answer),
        _counted(why or f"{outcome}, no reason given" for outcome, why in outcomes if outcome in OUTCOMES[1:]),
        sum(1 for each in by if each > 0),
        sum(1 for each in by if each < 0),
    )


def _counted(texts: Iterable[str]) -> Mapping[str, int]:
    """Count the texts, most frequent first; texts that differ only in numbers count as the first of them."""
    first: dict[str, str] = {}
    counted = Counter(first.setdefault(_NUMBER.sub("#", text), text) for text in texts)
    return dict(counted.most_common())
