"""Messages held against the official SDKs' own types."""

from collections.abc import Callable
from typing import Any

import pytest


def sdk_adapters() -> dict[str, Callable[[object], object]]:
    pytest.importorskip("anthropic")
    pytest.importorskip("openai")
    types = pytest.importorskip("google.genai").types
    from anthropic.types.beta import BetaMessageParam
    from openai.types.chat import ChatCompletionMessageParam
    from openai.types.responses import ResponseInputItemParam
    from pydantic import TypeAdapter

    def strict(kind: Any) -> Callable[[object], object]:
        adapter = TypeAdapter(kind)
        return lambda value: drain(adapter.validate_python(value, extra="forbid"))

    return {
        "anthropic": strict(BetaMessageParam),
        "responses": strict(ResponseInputItemParam),
        "chat": strict(ChatCompletionMessageParam),
        "google": types.Content.model_validate,
    }


def drain(value: Any) -> None:
    """Walk through what was validated: members that are iterables are validated as one walks."""
    if isinstance(value, dict):
        for each in value.values():
            drain(each)
    elif not isinstance(value, str | bytes) and hasattr(value, "__iter__"):
        for each in value:
            drain(each)
