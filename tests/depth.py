"""How often the costliest tests look: by `make test` as often as minutes allow, by `make test-all` as was promised."""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")
EXPLORE = os.environ.get("DEPTH") == "explore"  # property tests at whole depth, with new examples
WHOLE = os.environ.get("DEPTH") == "whole" or EXPLORE
QUICK = os.environ.get("DEPTH") == "quick"  # a run of all tests by `make test`
SAME_EXAMPLES = QUICK or (WHOLE and not EXPLORE)  # a change is judged by what it changes, not by what was drawn
MAX_CASES = 2  # of one test function in a quick run

# A test that works or waits for seconds by its nature: for a rarer case of what a faster one promises, or for what
# `make check` finds too.
slow = pytest.mark.skipif(not WHOLE, reason="takes long; make test-all runs it")

# The same for what is done at length in a quick run alone: by itself, or with its package, such a test is run.
later = pytest.mark.skipif(QUICK, reason="takes long; make test-all runs it")


def deep(usual: int, whole: int) -> int:
    """Return a number of examples or kills, or how far apart they are, which is less for a whole run. A quick run takes
    a third of the usual number, but at least three, or three times the usual distance."""
    fewer = min(usual, max(3, usual // 3)) if usual < whole else 3 * usual
    return whole if WHOLE else fewer if QUICK else usual


def few(items: Sequence[T]) -> Sequence[T]:
    """Return all of a test's items, and of many only the first and the last in a quick run."""
    return [items[0], items[-1]] if QUICK and len(items) > 2 else items


def spread(cases: Sequence[T], marks: Callable[[T], Iterable[pytest.Mark]], most: int = MAX_CASES) -> Sequence[T]:
    """Return the cases of one test function in a quick run: at most so many, at even distances among those that are not
    slow."""
    found = [case for case in cases if slow.mark not in marks(case)] or cases
    number = min(len(found), most)
    return [found[place * (len(found) - 1) // max(number - 1, 1)] for place in range(number)]
