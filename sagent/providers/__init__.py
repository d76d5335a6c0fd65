"""Providers of models. Nothing is imported before it is named."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sagent.providers.families.anthropic.provider import Anthropic, Bedrock, Foundry, VertexAnthropic
    from sagent.providers.families.chat.provider import ChatProvider, DashScope, MiniMax, Moonshot, OpenAICompatible
    from sagent.providers.families.google.provider import Google, Vertex
    from sagent.providers.families.responses.provider import Azure, OpenAI, ResponsesProvider
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


def __getattr__(name: str) -> object:
    match name:
        case "Anthropic" | "Bedrock" | "Foundry" | "VertexAnthropic":
            from sagent.providers.families.anthropic import provider as home
        case "ChatProvider" | "DashScope" | "MiniMax" | "Moonshot" | "OpenAICompatible":
            from sagent.providers.families.chat import provider as home
        case "Google" | "Vertex":
            from sagent.providers.families.google import provider as home
        case "Azure" | "OpenAI" | "ResponsesProvider":
            from sagent.providers.families.responses import provider as home
        case "LlamaCpp":
            from sagent.providers.local import llamacpp as home
        case "SelfHosted":
            from sagent.providers.local import selfhosted as home
        case "AnthropicCLI":
            from sagent.providers.plans import anthropic_cli as home
        case "OpenAISubscription":
            from sagent.providers.plans import openai_subscription as home
        case "infer" | "provider_named" | "row_named":
            from sagent.providers import registry as home
        case "Row" | "built_in" | "read_rows":
            from sagent.providers import rows as home
        case "Timeouts":
            from sagent.providers.wire import exchange as home
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(home, name)
