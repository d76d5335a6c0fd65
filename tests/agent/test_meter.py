"""What the meter promises: no request has more tokens than its bound, whatever became of the conversation."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sagent.cost.budget import InputBound, Meter
from sagent.messages import Message, user
from sagent.model import Request

TEXTS = st.lists(st.integers(0, 60), min_size=1, max_size=12)
HEADS = st.sampled_from([("", 1), ("Say little.", 3), ("x" * 90, 1)])  # a system prompt, and its bytes for a token


def request(messages: Sequence[Message], system: str = "") -> Request:
    return Request("c", tuple(messages), system)


@given(st.lists(st.tuples(TEXTS, st.booleans(), HEADS), min_size=1, max_size=8), st.integers(1, 7))
def test_requests_stay_within_token_bound(steps: list[tuple[list[int], bool, tuple[str, int]]], density: int) -> None:
    """A text has a token for `density` bytes, rounded down; prompts change, and conversations are cleared unseen."""
    meter, history = Meter(), list[Message]()
    for texts, cleared, (system, each) in steps:
        if cleared:
            history = []
        history += [user("x" * size) for size in texts]
        sizes = [len(message.content) for message in history]
        weight = 10 + len(system) + sum(sizes)
        tokens = 1 + len(system) // each + sum(size // density for size in sizes)
        sent = request(history, system)
        assert tokens <= meter.bound(sent, weight).tokens <= weight
        meter.learn(sent, weight, tokens)


def test_count_tightens_later_bounds() -> None:
    meter, first, second = Meter(), request([user("a")]), request([user("a"), user("b")])
    assert meter.bound(first, 1_000) == InputBound(1_000, "bytes")
    meter.learn(first, 1_000, 100)
    assert meter.bound(first, 1_000) == InputBound(100, "provider")
    assert meter.bound(second, 1_300) == InputBound(400, "provider")
    assert meter.bound(first, 900) == InputBound(900, "bytes")


def test_count_bounds_no_other_request() -> None:
    meter, first = Meter(), request([user("a"), user("b")], "Say little.")
    meter.learn(first, 1_000, 100)
    others = [
        request([user("a")], "Say little."),
        request([user("a"), user("c"), user("d")], "Say little."),
        request([user("a"), user("b"), user("c")], "Say much."),
        replace(first, output_schema={"type": "object"}),
    ]
    assert [meter.bound(other, 1_300) for other in others] == [InputBound(1_300, "bytes")] * 4


def test_no_count_is_learnt_from_nothing() -> None:
    meter, first = Meter(), request([user("a")])
    meter.learn(first, 1_000, 0)
    assert (meter.bound(first, 1_000), meter.estimate(1_000)) == (InputBound(1_000, "bytes"), 333)
