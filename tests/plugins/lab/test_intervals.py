"""Intervals and tests of few runs: known values, and what holds for all."""

from itertools import product
from math import comb, isclose
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.plugins.lab.stats import (
    FLIPPED,
    PAIRS,
    paired_mean,
    paired_shares,
    permutation_test,
    sign_test,
    t_quantile,
    wilson,
)

COUNTS = st.integers(0, 60)
DIFFERENCES = st.lists(st.floats(-1e6, 1e6, allow_nan=False, allow_subnormal=False), min_size=2, max_size=20)


@pytest.mark.parametrize(
    ("freedom", "t"),
    [(1, 12.7062), (2, 4.30265), (3, 3.18245), (4, 2.77645), (5, 2.57058), (9, 2.26216), (30, 2.04227), (999, 1.96234)],
)
def test_student_matches_tables(freedom: int, t: float) -> None:
    assert t_quantile(freedom) == pytest.approx(t, abs=6e-6 * t)


def test_wilson_is_as_published() -> None:
    # Newcombe (1998), Statistics in Medicine 17, 857-872, table I, method 3
    for hits, runs, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ):
        assert wilson(hits, runs) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


def test_paired_shares_are_as_published() -> None:
    # Newcombe (1998), Statistics in Medicine 17, 2635-2650, table III, method 10
    found = paired_shares(36, 12, 2, 0)
    assert found.interval == (pytest.approx(0.0569, abs=5e-5), pytest.approx(0.3404, abs=5e-5))
    assert (found.mean, found.is_clear) == (pytest.approx(0.2), True)
    assert found.p == pytest.approx(2 * sum(comb(14, k) for k in range(3)) / 2**14)


@given(COUNTS, COUNTS)
def test_wilson_contains_share(hits: int, misses: int) -> None:
    low, high = wilson(hits, hits + misses)
    share = hits / (hits + misses) if hits + misses else 0.5
    assert 0 <= low <= share <= high <= 1
    mirrored = wilson(misses, hits + misses)
    assert isclose(mirrored.low, 1 - high, abs_tol=1e-12)
    assert isclose(mirrored.high, 1 - low, abs_tol=1e-12)


@given(COUNTS, COUNTS.filter(bool))
def test_more_data_narrows_wilson(hits: int, misses: int) -> None:
    once, thrice = wilson(hits, hits + misses), wilson(3 * hits, 3 * (hits + misses))
    assert thrice.high - thrice.low < once.high - once.low


@given(DIFFERENCES)
def test_mean_inside_interval_and_mirrored(differences: list[float]) -> None:
    found, turned = paired_mean(differences), paired_mean([-each for each in differences])
    assert found.interval is not None
    assert turned.interval is not None
    assert found.interval.low <= found.mean <= found.interval.high
    assert isclose(found.mean, fmean(differences), rel_tol=1e-9, abs_tol=1e-9)
    assert isclose(found.interval.low, -turned.interval.high, rel_tol=1e-9, abs_tol=1e-6)
    assert (found.is_clear, found.p) == (turned.is_clear, turned.p)
    assert not found.is_clear or (len(differences) >= PAIRS and found.interval.leaves_out_zero)
    assert (found.p is None) == (len(differences) > FLIPPED)


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=12), st.integers(1, 1000))
def test_unit_does_not_matter(differences: list[int], unit: int) -> None:
    small, large = paired_mean(differences), paired_mean([unit * each for each in differences])
    assert (small.is_clear, small.p) == (large.is_clear, large.p)


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_swapped_shares_mirror_difference(both: int, gained: int, lost: int, neither: int) -> None:
    found, turned = paired_shares(both, gained, lost, neither), paired_shares(both, lost, gained, neither)
    assert (found.p, found.is_clear, found.mean) == (turned.p, turned.is_clear, -turned.mean)
    if found.interval is not None and turned.interval is not None:
        assert -1 <= found.interval.low <= found.mean <= found.interval.high <= 1
        assert isclose(found.interval.low, -turned.interval.high, abs_tol=1e-12)


@pytest.mark.parametrize("pairs", range(10))
@pytest.mark.parametrize("differing", [0.1, 0.5, 1.0])
def test_equal_rates_rarely_clear(pairs: int, differing: float) -> None:
    told = 0.0
    for gained in range(pairs + 1):
        for lost in range(pairs + 1 - gained):
            rest = pairs - gained - lost
            ways = comb(pairs, gained) * comb(pairs - gained, lost)
            if paired_shares(rest // 2, gained, lost, rest - rest // 2).is_clear:
                told += ways * (differing / 2) ** (gained + lost) * (1 - differing) ** rest
    assert told <= 0.05


@pytest.mark.costly
@pytest.mark.parametrize(
    ("values", "pairs"),
    [*product([(-1, 1), (-1, 0, 1)], (2, 5, 6, 7, 8)), *product([(-3, -1, 1, 3)], (2, 5, 6))],
)
def test_equal_means_rarely_clear(values: tuple[int, ...], pairs: int) -> None:
    found = [paired_mean(differences).is_clear for differences in product(values, repeat=pairs)]
    assert sum(found) / len(found) <= 0.05
    assert any(found) == (pairs >= PAIRS)


@given(st.integers(0, 40), st.integers(0, 40))
def test_exact_tests_fair_to_coin(heads: int, tails: int) -> None:
    tosses, far = heads + tails, abs(heads - tails)
    fair = sum(comb(tosses, each) for each in range(tosses + 1) if abs(2 * each - tosses) >= far) / 2**tosses
    assert sign_test(heads, tails) == pytest.approx(fair)
    if tosses <= 12:
        assert permutation_test([1.0] * heads + [-1.0] * tails) == pytest.approx(fair)


def test_no_data_no_result() -> None:
    assert wilson(0, 0) == (0, 1)
    assert paired_mean([]).interval is None
    assert (paired_mean([3.0]).mean, paired_mean([3.0]).interval) == (3.0, None)
    assert paired_shares(0, 0, 0, 0).interval is None
    assert not paired_mean([0.0] * 12).is_clear
