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
def test_model_class_follows_its_name(model: str, found: str) -> None:
    assert strength(model) == found


@pytest.mark.parametrize("model", ["claude-haiku-4-5", "llama-3.1-70b", "claude-sonnet-4-6", "claude-opus-4-6", ""])
def test_set_thresholds_hold_for_every_model(model: str) -> None:
    """So that a threshold that somebody sets works, whatever model does the work."""
    assert {"need_advice", "failures", "confidence", "stagnation"} <= set(Rules().fired_by(model))


def test_only_small_executors_have_checkpoint() -> None:
    assert "first_write" in Rules().fired_by("claude-haiku-4-5")
    assert "first_write" not in Rules().fired_by("claude-sonnet-4-6")


def test_text_executor_is_asked_at_the_end() -> None:
    found = Rules().fired_by("qwen2.5-coder-1.5b", text=True)
    assert {"done", "no_change", "no_calls"} <= {*found}
    assert "first_write" not in found
    assert Rules(triggers=("first_write",)).fired_by("qwen2.5-coder-1.5b", text=True) == ("first_write",)


def test_set_triggers_hold_for_all() -> None:
    assert Rules(triggers=("done",)).fired_by("claude-haiku-4-5") == ("done",)
    assert Rules(triggers=()).fired_by("claude-haiku-4-5") == ()
