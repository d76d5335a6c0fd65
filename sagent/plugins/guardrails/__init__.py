"""Checks of prompts before a run and of its answers, for programs."""

from typing import TYPE_CHECKING

from sagent.plugin import Plugin

if TYPE_CHECKING:
    from sagent.plugins.guardrails.checks import Check as Check
    from sagent.plugins.guardrails.checks import guarded as guarded

__all__ = ["Check", "guarded", "plugin"]

plugin = Plugin("guardrails", "checks of prompts and answers, for programs")


def __getattr__(name: str) -> object:
    if name not in ("Check", "guarded"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sagent.plugins.guardrails import checks

    return getattr(checks, name)
