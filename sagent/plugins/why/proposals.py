"""Changes that would have made a session cheaper, each with the sum that its requests would have saved."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from decimal import Decimal
from typing import Literal, TypeAlias

from sagent.lib.dataclass import dataclass
from sagent.lib.figures import count as short_count
from sagent.lib.money import EXACT, ZERO
from sagent.lib.text import count
from sagent.plugins.why.account import Row
from sagent.plugins.why.context import day_of, model_of
from sagent.plugins.why.course import Cause, Course, carried, target_of
from sagent.plugins.why.rates import RateBook
from sagent.plugins.why.reading import LONG_CACHE_SECONDS
from sagent.plugins.why.repricing import Cut, Repriced, by_another, from_cache, kept_an_hour, without

Kind: TypeAlias = Literal["repeated results", "long results", "cache", "longer cache", "advice", "model"]
Basis: TypeAlias = Literal["counted", "estimated"]
"""Where the tokens come from: all from the provider's counts, or some from sizes."""
MAX_PROPOSALS = 3
MAX_RESULT_CHARS = 10_000
"""Length to which long results are cut in a proposal."""
STUB = "(The same result as before: see above.)"
"""Text in place of a repeated result."""
STUB_TOKENS = 15
_USED = ("followed", "")


@dataclass(slots=True)
class Proposal:
    """A change, what it would have saved and how that was found. `usd` is None if a price is unknown; `tokens` were not
    sent, or were read from the cache. `requests` is the number of requests that were priced again, `check` how far they
    were rebuilt. `calls` has, by agent, the calls whose results are cut."""

    kind: Kind
    what: str
    change: str
    usd: Decimal | None = ZERO
    tokens: int = 0
    basis: Basis = "counted"
    requests: int = 0
    check: str = ""
    days: dict[str, Row] = field(default_factory=dict[str, Row])
    calls: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    affected: dict[str, list[Repriced]] = field(default_factory=dict[str, list[Repriced]])

    def add(self, agent: str, repriced: Iterable[Repriced]) -> None:
        """Add the savings of an agent's requests."""
        for each in repriced:
            self.requests += 1
            self.affected.setdefault(agent, []).append(each)
            self.put(day_of(each.request.at), each.usd, each.tokens)

    def put(self, day: str, usd: Decimal | None, tokens: int) -> None:
        """Add a saving on a date."""
        self.usd = None if self.usd is None or usd is None else EXACT.add(self.usd, usd)
        self.tokens += tokens
        self.days.setdefault(day, Row()).add(Row(usd or ZERO, tokens, 1, int(usd is None)))

    @property
    def saves(self) -> bool:
        """True if anything would have been saved."""
        return self.tokens > 0 if self.usd is None else self.usd > 0


def propose(
    courses: Sequence[Course],
    rates: RateBook,
    models: Iterable[str] = (),
    fits: Callable[[str, int], bool] | None = None,
) -> list[Proposal]:
    """Return every change that would have saved something, the best first. `models` are compared, beside those that the
    session itself paid for; `fits` tells whether a request of so many tokens fits a model."""
    found = [_repeated(courses, rates), _long(courses, rates), *_cache(courses, rates), _advice(courses)]
    found += [_longer_cache(courses, rates), _model(courses, rates, models, fits or (lambda _name, _tokens: True))]
    saving = [proposal for proposal in found if proposal is not None and proposal.saves]
    return sorted(saving, key=lambda proposal: (-(proposal.usd or ZERO), -proposal.tokens))


def _repeated(courses: Sequence[Course], rates: RateBook) -> Proposal:
    """Leave out results that the context had already."""
    found = Proposal("repeated results", "", "have the model look back, or name the parts of a file that it needs")
    targets: Counter[str] = Counter()
    for course in courses:
        pieces = [piece for piece in course.pieces if piece.subject.what == "again"]
        targets.update(target_of(piece) for piece in pieces)
        _cut(found, course, [Cut(piece, piece.tokens - STUB_TOKENS) for piece in pieces], rates)
    if targets:
        most, times = targets.most_common(1)[0]
        again = count(targets.total(), "result")
        found.what = f"{again} repeated one that the conversation still held: {times} of {most}"
        if len(targets) == 1:
            found.what = f"{most}: {again} repeated one that the conversation still held"
    return found


def _long(courses: Sequence[Course], rates: RateBook) -> Proposal:
    """Cut results to a length."""
    found = Proposal(
        "long results",
        "",
        f"cut results to {MAX_RESULT_CHARS:,} characters, if the rest was not needed: head, grep, offset",
    )
    pieces = [
        (course, piece)
        for course in courses
        for piece in course.pieces
        if piece.subject.what in ("result", "failed") and piece.size > MAX_RESULT_CHARS and piece.call
    ]
    for course in courses:
        cuts = [
            Cut(piece, piece.tokens * (1 - MAX_RESULT_CHARS / piece.size)) for owner, piece in pieces if owner is course
        ]
        _cut(found, course, cuts, rates)
    if pieces:
        _, longest = max(pieces, key=lambda pair: pair[1].size * carried(pair[1]))
        found.what = (
            f"{count(len(pieces), 'result')} longer than {MAX_RESULT_CHARS:,} characters; that of {target_of(longest)} "
            f"had {longest.size:,} and was sent {count(carried(longest), 'time')}"
        )
    return found


def _cut(proposal: Proposal, course: Course, cuts: Sequence[Cut], rates: RateBook) -> None:
    if cuts:
        proposal.calls[course.agent] = {piece.call for piece, _ in cuts}
        proposal.add(course.agent, without(course, cuts, rates))
        if not all(piece.counted for piece, _ in cuts):
            proposal.basis = "estimated"


_CACHE_TEXTS: dict[Cause, tuple[str, str]] = {
    "tools": ("the tools changed", "choose tools and servers before the session begins"),
    "system prompt": ("the system prompt changed", "change instructions between sessions, not within one"),
    "model": ("the model was switched and switched back", "give the other model's work to a subagent or an advisor"),
    "effort": ("the effort changed", "choose the effort before the session begins"),
    "unknown": ("the cache did not answer", "see whether a proxy or another host answers: no change is in the log"),
}


def _cache(courses: Sequence[Course], rates: RateBook) -> Iterator[Proposal]:
    """Read from the cache where something broke it."""
    for cause, (what, change) in _CACHE_TEXTS.items():
        found = Proposal("cache", "", change)
        for course in courses:
            found.add(course.agent, from_cache(course, rates, (cause,)))
        entries = [
            each.request.changed[:12] for some in found.affected.values() for each in some if each.request.changed
        ]
        at = f", at entry {entries[0]}" if len(entries) == 1 else f", first at entry {entries[0]}" if entries else ""
        tokens = f"{short_count(found.tokens)} tokens were not read from it"
        found.what = f"the cache broke {count(found.requests, 'time')} because {what}{at}: {tokens}"
        if cause == "unknown":
            found.what = (
                f"{count(found.requests, 'request')} found nothing in the cache, for no reason in the log: {tokens}"
            )
        yield found


def _longer_cache(courses: Sequence[Course], rates: RateBook) -> Proposal | None:
    """Keep what is cached for an hour, where that can be asked for and pays."""
    change = """keep the cache for an hour: --option 'cache_control={"type": "ephemeral", "ttl": "1h"}'"""
    found = Proposal("longer cache", "", change)
    pauses = 0
    for course in courses:
        paused = [request for request in course.requests if request.cause == "pause" and not request.is_copy]
        if any(request.charge.provider == "anthropic" for request in paused):
            found.add(course.agent, kept_an_hour(course, rates, LONG_CACHE_SECONDS))
            pauses += len(paused)
    found.what = (
        f"the cache had expired {count(pauses, 'time')} after a pause: {short_count(found.tokens)} tokens sent anew"
    )
    return found if pauses and found.usd is not None else None


def _advice(courses: Sequence[Course]) -> Proposal:
    """Leave out advice that was not followed."""
    found = Proposal("advice", "", "narrow the rules that ask: triggers and max_advisor_calls in [advisor_rules]")
    every = [consultation for course in courses for consultation in course.consultations.values()]
    unused = [each for each in every if each.outcome not in _USED and each.trigger not in ("asked", "person")]
    for each in unused:
        found.put(each.day, each.usd, each.tokens)
    sent = short_count(sum(each.tokens for each in unused))
    found.what = (
        f"{len(unused)} of {count(len(every), 'consultation')} came by a rule and were not followed: {sent} tokens, "
        "most of them the conversation's"
    )
    return found


def _model(
    courses: Sequence[Course], rates: RateBook, models: Iterable[str], fits: Callable[[str, int], bool]
) -> Proposal | None:
    """Price the executor's requests as another model's."""
    requests = [request for course in courses for request in course.requests if not request.is_copy]
    largest = max((request.charge.usage.total_input for request in requests), default=0)
    asides = (charge for course in courses for _, _, charge in course.asides)
    own = [model_of(request.charge) for request in requests]
    best: Proposal | None = None
    for name in dict.fromkeys((*models, *own, *map(model_of, asides))):
        provider, _, model = name.partition("/")
        if not fits(name, largest):
            continue
        change = f"try it on this session's prompts: sagent lab replay SESSION --model {name}"
        found = Proposal("model", "", change, basis="estimated")
        for course in courses:
            found.add(course.agent, by_another(course, rates, provider, model))
        found.what = (
            f"as many tokens at the list price of {name}; that it would need as many, and do the work, is not known"
        )
        if found.usd is not None and found.usd > 0 and (best is None or best.usd is None or found.usd > best.usd):
            best = found
    return best
