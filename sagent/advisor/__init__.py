"""A stronger model as a tool: what it is asked, what it sees, when it is asked unbidden, and what bounds all of it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sagent.advisor.advisor import Advisor, parse_advisor
    from sagent.advisor.advisory import Setup
    from sagent.advisor.extension import advise
    from sagent.advisor.policy import AdvisorPolicy
    from sagent.advisor.rules import Rules

__all__ = ["Advisor", "AdvisorPolicy", "Rules", "Setup", "advise", "parse_advisor"]


def __getattr__(name: str) -> object:
    match name:
        case "Advisor" | "parse_advisor":
            from sagent.advisor import advisor as home
        case "AdvisorPolicy":
            from sagent.advisor import policy as home
        case "Rules":
            from sagent.advisor import rules as home
        case "Setup":
            from sagent.advisor import advisory as home
        case "advise":
            from sagent.advisor import extension as home
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(home, name)
