"""Statistics of a few runs: intervals for shares and for paired differences, each with its method and its source."""

from collections.abc import Sequence
from math import atan, comb, cos, pi, sin, sqrt
from statistics import NormalDist, fmean, stdev
from typing import NamedTuple

LEVEL = 0.95  # of every interval
PAIRS = 6
"""The fewest pairs for a clear difference. With five, chance alone gives all the same sign once in sixteen times (2 /
2**5); with six, once in 32."""
FLIPPED = 14  # pairs up to which all sign flips are counted; with more, Student's t is good enough
_Z = NormalDist().inv_cdf((1 + LEVEL) / 2)


class Interval(NamedTuple):
    low: float
    high: float

    @property
    def leaves_out_zero(self) -> bool:
        """True if the interval is on one side of 0."""
        return self.low > 0 or self.high < 0

    def times(self, factor: float) -> "Interval":
        return Interval(factor * self.low, factor * self.high)


class Difference(NamedTuple):
    """A mean difference of pairs. `interval` is None if there are too few pairs; `p` is a test's value, if one was
    made; `is_clear` is True if it is more than chance explains."""

    pairs: int
    mean: float
    interval: Interval | None
    is_clear: bool
    p: float | None = None


def wilson(hits: int, runs: int) -> Interval:
    """Return the interval of a share, by Wilson's score (1927), which works for few runs, and for shares of 0 and 1.
    Without runs it is 0 to 1."""
    if not runs:
        return Interval(0.0, 1.0)
    share, z2 = hits / runs, _Z * _Z
    middle = (share + z2 / (2 * runs)) / (1 + z2 / runs)
    half = _Z / (1 + z2 / runs) * sqrt(share * (1 - share) / runs + z2 / (4 * runs * runs))
    return Interval(0.0 if not hits else middle - half, 1.0 if hits == runs else middle + half)


def paired_mean(differences: Sequence[float]) -> Difference:
    """Return the mean of paired differences with the interval of Student's t. It is clear from `PAIRS` pairs on if the
    interval leaves out 0; with few pairs only if Fisher's exact test of flipped signs agrees, because t assumes normal
    differences, and counts of turns are not normal."""
    pairs = len(differences)
    mean = fmean(differences) if pairs else 0.0
    if pairs < 2:
        return Difference(pairs, mean, None, is_clear=False)
    half = t_quantile(pairs - 1) * stdev(differences) / sqrt(pairs)
    interval = Interval(mean - half, mean + half)
    p = permutation_test(differences) if pairs <= FLIPPED else None
    is_clear = pairs >= PAIRS and interval.leaves_out_zero and (p is None or p <= 1 - LEVEL)
    return Difference(pairs, mean, interval, is_clear=is_clear, p=p)


def paired_shares(both: int, gained: int, lost: int, neither: int) -> Difference:
    """Return the difference between two shares of the same pairs: `gained` hit the second time only, `lost` the first
    only.

    The interval is Newcombe's (1998, method 10), the test McNemar's, exact: whether the pairs that differ could be
    tosses of a coin. It is clear if both agree.
    """
    pairs = both + gained + lost + neither
    if not pairs:
        return Difference(0, 0.0, None, is_clear=False)
    first, second = (both + lost) / pairs, (both + gained) / pairs
    mean, p = (gained - lost) / pairs, sign_test(gained, lost)
    before, after = wilson(both + lost, pairs), wilson(both + gained, pairs)
    phi = _phi(both, gained, lost, neither)
    low = _joined(second - after.low, before.high - first, phi)
    high = _joined(after.high - second, first - before.low, phi)
    interval = Interval(max(-1.0, mean - low), min(1.0, mean + high))
    return Difference(pairs, mean, interval, is_clear=p <= 1 - LEVEL and interval.leaves_out_zero, p=p)


def permutation_test(differences: Sequence[float]) -> float:
    """Return the probability that the sum is at least as far from 0 when each difference has either sign as likely."""
    sums = [0.0]
    for difference in differences:
        sums = [total + sign * difference for total in sums for sign in (1, -1)]
    far = abs(sum(differences)) * (1 - 1e-12)
    return sum(abs(total) >= far for total in sums) / len(sums)


def sign_test(heads: int, tails: int) -> float:
    """Return the probability that a fair coin falls at least as unevenly, to either side."""
    tosses = heads + tails
    tail = sum(comb(tosses, count) for count in range(min(heads, tails) + 1))
    return min(1.0, 2 * tail / 2**tosses)


def t_quantile(freedom: int) -> float:
    """Return the t that Student's distribution with whole degrees of freedom is within, at `LEVEL`, to both sides."""
    low, high = 0.0, 1.0
    while _within(high, freedom) < LEVEL:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < LEVEL else (low, middle)
    return high


def _within(t: float, freedom: int) -> float:
    """Return the share of Student's distribution between -t and t: the finite series for whole degrees of freedom
    (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = atan(t / sqrt(freedom))
    c2 = cos(angle) ** 2
    odd = freedom % 2
    term = cos(angle) if odd else 1.0
    total = 0.0
    for step in range(1 + odd, freedom, 2):
        total += term
        term *= c2 * step / (step + 1)
    return 2 / pi * (angle + sin(angle) * total) if odd else sin(angle) * total


def _phi(both: int, gained: int, lost: int, neither: int) -> float:
    """Return the correlation of the two shares, corrected for continuity as Newcombe does."""
    margins = (both + gained) * (lost + neither) * (both + lost) * (gained + neither)
    if not margins:
        return 0.0
    together, half = both * neither - gained * lost, (both + gained + lost + neither) / 2
    together = max(0.0, together - half) if together > 0 else together
    return together / sqrt(margins)


def _joined(own: float, other: float, phi: float) -> float:
    return sqrt(max(0.0, own * own - 2 * phi * own * other + other * other))
