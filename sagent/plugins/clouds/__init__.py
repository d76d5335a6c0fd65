"""Models on Amazon Bedrock, Vertex AI, Microsoft Foundry and Azure, and the official SDKs as a transport."""

from importlib import import_module
from typing import TYPE_CHECKING

from sagent.plugin import Extra, Plugin, ProviderRow

if TYPE_CHECKING:
    from sagent.plugins.clouds.bedrock import Bedrock as Bedrock
    from sagent.plugins.clouds.google import Vertex as Vertex
    from sagent.plugins.clouds.google import VertexAnthropic as VertexAnthropic
    from sagent.plugins.clouds.microsoft import Azure as Azure
    from sagent.plugins.clouds.microsoft import Foundry as Foundry

__all__ = ["Azure", "Bedrock", "Foundry", "Vertex", "VertexAnthropic", "plugin"]

_DATA = "./providers.toml"
_HOMES = {
    "Azure": "microsoft",
    "Bedrock": "bedrock",
    "Foundry": "microsoft",
    "Vertex": "google",
    "VertexAnthropic": "google",
}

plugin = Plugin(
    "clouds",
    "models on Amazon Bedrock, Vertex AI, Microsoft Foundry and Azure, and --transport sdk",
    providers=(
        ProviderRow("azure", _DATA, f"{__name__}.microsoft:Azure"),
        ProviderRow("bedrock", _DATA, f"{__name__}.bedrock:Bedrock"),
        ProviderRow("bedrock-mantle", _DATA),
        ProviderRow("foundry", _DATA, f"{__name__}.microsoft:Foundry"),
        ProviderRow("vertex", _DATA, f"{__name__}.google:Vertex"),
        ProviderRow("vertex-anthropic", _DATA, f"{__name__}.google:VertexAnthropic"),
    ),
    extras=(
        Extra("sdk", f"{__name__}.sdk.transport:SdkTransport"),
        Extra("setup", f"{__name__}.offers:find_logins"),
    ),
)


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
