"""Providers of models. Nothing is imported before it is named."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sagent.providers.anthropic import Anthropic, Bedrock, Foundry, VertexAnthropic
    from sagent.providers.anthropic_cli import AnthropicCLI
    from sagent.providers.chat import ChatProvider, DashScope, MiniMax, Moonshot, OpenAICompatible
    from sagent.providers.exchange import Timeouts
    from sagent.providers.google import Google, Vertex
    from sagent.providers.llamacpp import LlamaCpp
    from sagent.providers.openai_subscription import OpenAISubscription
    from sagent.providers.registry import infer, provider_named, row_named
    from sagent.providers.responses import Azure, OpenAI, ResponsesProvider
    from sagent.providers.rows import Row, built_in, read_rows
    from sagent.providers.selfhosted import SelfHosted

__all__ = [
    "Anthropic",
    "AnthropicCLI",
    "Azure",
    "Bedrock",
    "ChatProvider",
    "DashScope",
    "Foundry",
    "Google",
    "LlamaCpp",
    "MiniMax",
    "Moonshot",
    "OpenAI",
    "OpenAICompatible",
    "OpenAISubscription",
    "ResponsesProvider",
    "Row",
    "SelfHosted",
    "Timeouts",
    "Vertex",
    "VertexAnthropic",
    "built_in",
    "infer",
    "provider_named",
    "read_rows",
    "row_named",
]

_HOMES = {
    "Anthropic": "anthropic",
    "Bedrock": "anthropic",
    "Foundry": "anthropic",
    "VertexAnthropic": "anthropic",
    "Vertex": "google",
    "Azure": "responses",
    "AnthropicCLI": "anthropic_cli",
    "LlamaCpp": "llamacpp",
    "OpenAISubscription": "openai_subscription",
    "SelfHosted": "selfhosted",
    "Google": "google",
    "Timeouts": "exchange",
    "OpenAI": "responses",
    "ResponsesProvider": "responses",
    "infer": "registry",
    "provider_named": "registry",
    "row_named": "registry",
    "Row": "rows",
    "built_in": "rows",
    "read_rows": "rows",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'chat')}"), name)
