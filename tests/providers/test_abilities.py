"""What is known of a model's eyes and thoughts."""

import pytest

from sagent.providers.abilities import reasons, sees
from sagent.providers.registry import row_named


@pytest.mark.parametrize(
    ("name", "sight", "thought"),
    [
        ("anthropic/claude-sonnet-4-6", True, True),
        ("anthropic/claude-3-haiku", True, False),
        ("openai/gpt-5.5", True, True),
        ("openai/gpt-4.1", True, False),
        ("openai/gpt-3.5-turbo", False, False),
        ("google/gemini-3.1-pro", True, True),
        ("google/gemini-2.0-flash", True, False),
        ("deepseek/deepseek-v4", False, True),
        ("groq/llama-3.3-70b", None, False),
    ],
)
def test_what_a_model_can_do(name: str, sight: bool | None, thought: bool) -> None:
    provider, _, model = name.partition("/")
    row = row_named(provider)
    assert (sees(row, model), reasons(row, model)) == (sight, thought)
