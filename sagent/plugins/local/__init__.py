"""Models on this machine: llama.cpp as our own server, weights in this process, a demo with a small model."""

from importlib import import_module
from typing import TYPE_CHECKING

from sagent.plugin import Extra, Flag, Plugin, ProviderRow

if TYPE_CHECKING:
    from sagent.plugins.local.llamacpp import LlamaCpp as LlamaCpp
    from sagent.plugins.local.selfhosted import SelfHosted as SelfHosted

__all__ = ["LlamaCpp", "SelfHosted", "plugin"]

PACKAGES = "torch transformers"
"""Packages of the extra selfhosted."""
plugin = Plugin(
    "local",
    "models on this machine: llama.cpp, and weights in this process",
    providers=(
        ProviderRow("llamacpp", "./providers.toml", "sagent.plugins.local.llamacpp:LlamaCpp"),
        ProviderRow("selfhosted", "./providers.toml", "sagent.plugins.local.selfhosted:SelfHosted"),
    ),
    needs=("programs", "textcalls"),
    flags=(
        Flag(
            "local",
            "use a small model on this machine, without a key: fetched once, 1.2 GB, and offline afterwards",
            of="demo",
        ),
    ),
    extras=(Extra("demo", "sagent.plugins.local.demo:run_local"),),
)


def __getattr__(name: str) -> object:
    if name in ("LlamaCpp", "SelfHosted"):
        return getattr(import_module(f"{__name__}.{name.lower()}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
