"""What the meter promises: no request has more tokens than its bound, whatever became of the conversation."""

from hypothesis import given
from hypothesis import strategies as st

from sagent.engine.context import Meter

TEXTS = st.lists(st.integers(0, 60), min_size=1, max_size=12)


@given(st.lists(st.tuples(TEXTS, st.booleans()), min_size=1, max_size=8), st.integers(1, 7))
def test_no_request_has_more_tokens_than_its_bound(steps: list[tuple[list[int], bool]], density: int) -> None:
    """A text has a token for `density` bytes, rounded down: tiny ones have none."""
    meter, history = Meter(), list[int]()
    for texts, cleared in steps:
        if cleared:
            history, meter.shrunk = [], True
        history += texts
        weight, tokens = 10 + sum(history), 1 + sum(size // density for size in history)
        assert tokens <= meter.bound(weight) <= weight
        meter.learn(weight, tokens)


def test_what_was_counted_tightens_the_bound_of_what_was_added_to_it() -> None:
    meter = Meter()
    assert meter.bound(1_000) == 1_000
    meter.learn(1_000, 100)
    assert (meter.bound(1_000), meter.bound(1_300), meter.bound(900)) == (100, 400, 900)
    meter.shrunk = True
    assert meter.bound(1_300) == 1_300
