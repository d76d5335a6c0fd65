"""What is known of a model's eyes and thoughts."""

import pytest

from sagent.providers.abilities import accepts_images, can_converse, can_reason
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
def test_model_abilities_by_name(name: str, sight: bool | None, thought: bool) -> None:
    provider, _, model = name.partition("/")
    row = row_named(provider)
    assert (accepts_images(row, model), can_reason(row, model)) == (sight, thought)


@pytest.mark.parametrize(
    ("name", "talks"),
    [
        *((name, True) for name in ("claude-sonnet-4-6", "gpt-5.6-terra", "gemini-3-pro-preview", "o3", "grok-4.20")),
        *((name, True) for name in ("mistralai/mistral-7b-instruct", "qwen3-vl-plus", "gpt-4o-2024-08-06", "o1")),
        *((name, True) for name in ("openai/gpt-oss-20b", "llama-3.2-11b-text-preview", "canada-1", "gpt-live2")),
        *((name, False) for name in ("text-embedding-3-small", "gpt-4o-mini-tts", "whisper-1", "dall-e-3", "ada")),
        *((name, False) for name in ("google/gemini-2.5-flash-image", "llama-guard-3-8b", "omni-moderation-latest")),
        *((name, False) for name in ("gpt-4o-audio-preview", "qwen3-embedding:0.6b", "ft:gpt-4o-", "mistral-ocr")),
    ],
)
def test_models_that_can_converse(name: str, talks: bool) -> None:
    assert can_converse(name) is talks
