"""Providers of models. Nothing is imported before it is named."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sagent.providers.families.anthropic import Anthropic, Bedrock, Foundry, VertexAnthropic
    from sagent.providers.families.chat import ChatProvider, DashScope, MiniMax, Moonshot, OpenAICompatible
    from sagent.providers.families.google import Google, Vertex
    from sagent.providers.families.responses import Azure, OpenAI, ResponsesProvider
    from sagent.providers.local.llamacpp import LlamaCpp
    from sagent.providers.local.selfhosted import SelfHosted
    from sagent.providers.plans.anthropic_cli import AnthropicCLI
    from sagent.providers.plans.openai_subscription import OpenAISubscription
    from sagent.providers.registry import infer, provider_named, row_named
    from sagent.providers.rows import Row, built_in, read_rows
    from sagent.providers.wire.exchange import Timeouts

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
    "Anthropic": "families.anthropic",
    "Bedrock": "families.anthropic",
    "Foundry": "families.anthropic",
    "VertexAnthropic": "families.anthropic",
    "Vertex": "families.google",
    "Azure": "families.responses",
    "AnthropicCLI": "plans.anthropic_cli",
    "LlamaCpp": "local.llamacpp",
    "OpenAISubscription": "plans.openai_subscription",
    "SelfHosted": "local.selfhosted",
    "Google": "families.google",
    "Timeouts": "wire.exchange",
    "OpenAI": "families.responses",
    "ResponsesProvider": "families.responses",
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

    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'families.chat')}"), name)
