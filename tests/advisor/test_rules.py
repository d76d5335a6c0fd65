"""What suits an executor follows from its class; what a person sets comes first."""

import pytest

from sagent.advisor.rules import Rules, strength


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("claude-haiku-4-5", "small"),
        ("gpt-5-mini", "small"),
        ("gpt-5.4-nano", "small"),
        ("gemini-3.8-flash", "small"),
        ("qwen3-8b", "small"),
        ("llama-3.1-8b-instruct", "small"),
        ("claude-sonnet-4-6", "middle"),
        ("llama-3.1-70b", "middle"),
        ("kimi-k2.6", "middle"),
        ("claude-opus-4-6", "strong"),
        ("gpt-5.2", "strong"),
        ("o3", "strong"),
    ],
)
def test_a_model_is_of_a_class_by_its_name(model: str, found: str) -> None:
    assert strength(model) == found


def test_small_executors_have_a_checkpoint_and_others_only_what_they_ask_for() -> None:
    assert "first_write" in Rules().fired_by("claude-haiku-4-5")
    assert Rules().fired_by("claude-sonnet-4-6") == Rules().fired_by("claude-opus-4-6") == ("need_advice",)


def test_triggers_that_were_set_hold_for_all() -> None:
    assert Rules(triggers=("done",)).fired_by("claude-haiku-4-5") == ("done",)
    assert Rules(triggers=()).fired_by("claude-haiku-4-5") == ()
