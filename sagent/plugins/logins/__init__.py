"""Logins in place of keys: a Claude plan, a ChatGPT plan, GitHub Copilot; and a key of OpenRouter made in a browser."""

from importlib import import_module
from typing import TYPE_CHECKING

from sagent.plugin import Check, Extra, Plugin, ProviderRow

if TYPE_CHECKING:
    from sagent.plugins.logins.anthropic_cli import AnthropicCLI as AnthropicCLI
    from sagent.plugins.logins.copilot import Copilot as Copilot
    from sagent.plugins.logins.openai_subscription import OpenAISubscription as OpenAISubscription

__all__ = ["AnthropicCLI", "Copilot", "OpenAISubscription", "plugin"]

_DATA = "./providers.toml"
_HOMES = {"AnthropicCLI": "anthropic_cli", "Copilot": "copilot", "OpenAISubscription": "openai_subscription"}

plugin = Plugin(
    "logins",
    "subscriptions in place of keys: Claude, ChatGPT and GitHub Copilot",
    needs=("hosting", "programs"),
    providers=(
        ProviderRow("anthropic-cli", _DATA, f"{__name__}.anthropic_cli:AnthropicCLI"),
        ProviderRow(
            "copilot",
            _DATA,
            f"{__name__}.copilot:Copilot",
            f"{__name__}.copilot_login:log_in_here",
            "a GitHub account, in the browser",
        ),
        ProviderRow("openai-subscription", _DATA, f"{__name__}.openai_subscription:OpenAISubscription"),
    ),
    checks=(Check("login", f"{__name__}.offers:check_reserved"),),
    extras=(
        Extra("setup", f"{__name__}.offers:find_logins"),
        Extra("key openrouter", f"{__name__}.openrouter_key:new_key"),
    ),
)


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
