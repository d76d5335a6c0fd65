"""Advisors: a stronger model as a tool. Requests, visible context, automatic triggers, and limits."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sagent.advisor.advisor import Advisor, parse_advisor
    from sagent.advisor.advisory import Setup
    from sagent.advisor.extension import advise
    from sagent.advisor.policy import AdvisorPolicy
    from sagent.advisor.rules import Rules

__all__ = ["Advisor", "AdvisorPolicy", "Rules", "Setup", "advise", "parse_advisor"]


_HOMES = {
    "Advisor": "advisor",
    "AdvisorPolicy": "policy",
    "Rules": "rules",
    "Setup": "advisory",
    "advise": "extension",
    "parse_advisor": "advisor",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
