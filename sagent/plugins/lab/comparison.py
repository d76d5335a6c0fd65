"""A comparison of trials with an advisor and without: figures, differences, and how sure they are."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from statistics import fmean

from sagent.lib.dataclass import dataclass
from sagent.lib.money import number
from sagent.lib.text import Table, count, one_line
from sagent.plugins.lab.stats import LEVEL, PAIRS, Difference, Interval, paired_mean, paired_shares, wilson
from sagent.plugins.lab.trials import ARMS, Arm, Trial, latest_trials

MEASURES: Mapping[str, Callable[[Trial], float | None]] = {
    "usd": lambda trial: number(trial.usd),
    "turns": lambda trial: float(trial.turns),
    "seconds": lambda trial: trial.seconds,
}
UNCLEAR = "no clear difference"
HOW = f"""\
How: intervals at {LEVEL:.0%}, for these tasks and no others. Rates: Wilson's. Differences are of pairs, the same task
and repeat without and with. Solved: Newcombe's interval, clear where McNemar's exact test agrees. Cost, turns, seconds:
Student's t, clear from {PAIRS} pairs on, with few of them where flipped signs (p) agree. Each by itself: where nothing
differs, one in twenty is called clear all the same."""


@dataclass(frozen=True, slots=True)
class Side:
    """The figures of one arm. Means are over the `judged` trials; None if there were none, or for USD if a price is
    unknown. `apart` counts, by outcome, the trials without information about the task; `reasons` explains them."""

    trials: int
    judged: int
    solved: int
    turns: int
    consultations: int
    consulted: int  # trials with a consultation
    answered: int
    declined: int
    failed: int
    withheld: int
    solve_rate: float | None
    solve_rate_interval: Interval
    mean: Mapping[str, float | None]
    consult_rate: float | None  # consultations for each turn
    usd: Decimal | None
    advisor_usd: Decimal | None
    apart: Mapping[str, int]
    reasons: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The two arms, and the differences of "solved", "usd", "turns" and "seconds": with less without. `tasks` has the
    arms of each task that was judged."""

    sides: Mapping[Arm, Side]
    tasks: Mapping[str, Mapping[Arm, Side]]
    differences: Mapping[str, Difference]


def compare(trials: Sequence[Trial]) -> Comparison:
    """Compare the two arms; of trials of the same task and number the last counts."""
    last = latest_trials(trials)
    names = dict.fromkeys(task for task, _, _ in last)
    pairs = [
        (trial, last[task, "with", number])
        for (task, arm, number), trial in last.items()
        if arm == "without" and (task, "with", number) in last
    ]
    judged = [(one, other) for one, other in pairs if one.is_judged and other.is_judged]
    cells = Counter((one.outcome == "solved", other.outcome == "solved") for one, other in judged)
    shares = paired_shares(cells[True, True], cells[False, True], cells[True, False], cells[False, False])
    differences = {"solved": shares}
    for name, measure in MEASURES.items():
        both = [(measure(one), measure(other)) for one, other in judged]
        differences[name] = paired_mean(
            [after - before for before, after in both if before is not None and after is not None]
        )
    every = list(last.values())
    tasks = {name: _sides([trial for trial in every if trial.task == name]) for name in names}
    return Comparison(_sides(every), tasks, differences)


def _sides(trials: Sequence[Trial]) -> Mapping[Arm, Side]:
    return {arm: _side([trial for trial in trials if trial.arm == arm]) for arm in ARMS}


def _side(trials: Sequence[Trial]) -> Side:
    judged = [trial for trial in trials if trial.is_judged]
    apart = [trial for trial in trials if not trial.is_judged]
    solved = sum(trial.outcome == "solved" for trial in judged)
    turns, consultations = sum(trial.turns for trial in judged), sum(trial.consultations for trial in judged)
    mean: dict[str, float | None] = {}
    for name, measure in MEASURES.items():
        known = [value for trial in judged if (value := measure(trial)) is not None]
        mean[name] = fmean(known) if known and len(known) == len(judged) else None
    return Side(
        trials=len(trials),
        judged=len(judged),
        solved=solved,
        turns=turns,
        consultations=consultations,
        consulted=sum(trial.consultations > 0 for trial in judged),
        answered=sum(trial.answered for trial in judged),
        declined=sum(trial.declined for trial in judged),
        failed=sum(trial.undone for trial in judged),
        withheld=sum(trial.withheld for trial in judged),
        solve_rate=solved / len(judged) if judged else None,
        solve_rate_interval=wilson(solved, len(judged)),
        mean=mean,
        consult_rate=consultations / turns if turns else None,
        usd=_sum([trial.usd for trial in judged]),
        advisor_usd=_sum([trial.advisor_usd for trial in judged]),
        apart=dict(Counter(trial.outcome for trial in apart).most_common()),
        reasons=dict(Counter(trial.reason or trial.stop for trial in apart if trial.outcome == "failed").most_common()),
    )


def _sum(usd: Sequence[Decimal | None]) -> Decimal | None:
    known = [each for each in usd if each is not None]
    return sum(known, Decimal(0)) if len(known) == len(usd) else None


# -- as lines ----------------------------------------------------------------------------------------------------------


def show(comparison: Comparison) -> Iterator[str | Table]:
    """Yield the tables. They hold names and reasons from outside: make them safe to print."""
    yield _by_task(comparison)
    yield ""
    shares = comparison.differences["solved"]
    points = shares._replace(mean=100 * shares.mean, interval=shares.interval and shares.interval.times(100))
    rows = [("solved", *(_rate(comparison.sides[arm]) for arm in ARMS), _difference(points, 0, " points", "no pairs"))]
    columns = [_means(comparison.sides[arm]) for arm in ARMS]
    for place, (name, digits) in enumerate((("usd", 6), ("turns", 1), ("seconds", 1))):
        unknown = name == "usd" and any(side.usd is None for side in comparison.sides.values())
        shown = "unknown" if unknown else _difference(comparison.differences[name], digits)
        rows.append(("cost, $" if name == "usd" else name, *(means[place] for means in columns), shown))
    yield Table(tuple(rows), ("", *ARMS, "difference"))
    yield ""
    advised = comparison.sides["with"]
    rate = "" if advised.consult_rate is None else f", {advised.consult_rate:.2f} per turn"
    usd = "unknown" if advised.advisor_usd is None else f"${advised.advisor_usd:.6f}"
    yield (
        f"consultations  {advised.consultations} in {advised.consulted} of {count(advised.judged, 'run')}{rate}: "
        f"{advised.answered} answered, {advised.declined} declined, {advised.failed} failed; {advised.withheld} "
        f"withheld; {usd}"
    )
    yield from _apart(comparison)
    yield from HOW.splitlines()


def _by_task(comparison: Comparison) -> Table:
    titles = ("task", "arm", "solved", "cost, $", "turns", "seconds", "consultations per turn")
    rows: list[tuple[str, ...]] = []
    for name, sides in comparison.tasks.items():
        for arm, side in sides.items():
            asked = "-" if arm == "without" or side.consult_rate is None else f"{side.consult_rate:.2f}"
            rows.append((name, arm, f"{side.solved}/{side.judged}", *_means(side), asked))
    return Table(tuple(rows), titles, right=(3, 4, 5, 6))


def _means(side: Side) -> tuple[str, str, str]:
    usd, turns, seconds = (side.mean[name] for name in MEASURES)
    return _figure(usd, 6, "unknown" if side.judged else "-"), _figure(turns, 1), _figure(seconds, 1)


def _figure(value: float | None, digits: int, none: str = "-") -> str:
    return none if value is None else f"{value:.{digits}f}"


def _rate(side: Side) -> str:
    low, high = side.solve_rate_interval
    share = side.solve_rate
    return "-" if share is None else f"{side.solved}/{side.judged}, {share:.0%} ({low:.0%} to {high:.0%})"


def _difference(difference: Difference, digits: int, unit: str = "", none: str = "") -> str:
    """Return a difference with its interval; if there is none, `none` says why, or how many pairs there are."""
    pairs = count(difference.pairs, "pair")
    if difference.interval is None:
        return f"{UNCLEAR}: {none or pairs}"
    low, high = difference.interval
    unclear = "" if difference.is_clear else f": {UNCLEAR}"
    p = "" if difference.p is None else f", p = {difference.p:.2g}"
    return f"{difference.mean:+.{digits}f}{unit} ({low:+.{digits}f} to {high:+.{digits}f}), {pairs}{p}{unclear}"


def _apart(comparison: Comparison) -> Iterator[str]:
    for arm, side in comparison.sides.items():
        if side.apart:
            counts = ", ".join(f"{count} {_WORDS.get(name, name)}" for name, count in side.apart.items())
            yield f"apart          {arm}: {counts}; counted neither as solved nor as unsolved"
        for reason, times in list(side.reasons.items())[:3]:
            yield f"               {times} × {one_line(reason, 160)}"
    ended = {arm: side.apart.get("budget", 0) for arm, side in comparison.sides.items()}
    if any(ended.values()):
        counts = ", ".join(f"{arm} {side.solved}/{side.judged + ended[arm]}" for arm, side in comparison.sides.items())
        yield f"               Counting runs that the budget ended as unsolved: {counts} solved."


_WORDS = {"failed": "failed (not the task's doing)", "budget": "ended by the budget"}
