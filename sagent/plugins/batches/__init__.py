"""The batch APIs of providers, as a transport: half the price, and up to a day for each turn."""

from typing import TYPE_CHECKING

from sagent.plugin import Extra, Flag, Plugin

if TYPE_CHECKING:
    from sagent.plugins.batches.transport import Batches as Batches

__all__ = ["Batches", "plugin"]

plugin = Plugin(
    "batches",
    "runs of a sweep by the batch APIs of Anthropic, OpenAI and Google",
    flags=(
        Flag("batch", "use the providers' batch APIs: half the price, and up to 24 hours for each turn", of="sweep"),
    ),
    extras=(Extra("sweep requests", f"{__name__}.transport:Batches"),),
)


def __getattr__(name: str) -> object:
    if name == "Batches":
        from sagent.plugins.batches.transport import Batches

        return Batches
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
