"""How far a run may go, and which of its limits can be changed while it runs."""

from collections.abc import Mapping
from dataclasses import replace

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RunLimits:
    """How far one run may go. None is no limit. Tokens are per request and per reply; times are in seconds."""

    max_turns: int | None = None
    max_tool_call_rounds: int | None = None
    max_request_tokens: int | None = None
    max_response_tokens: int | None = None
    max_retries: int = 8
    fallback_after: int = 1_000  # retries after which a fallback takes over, where that is sooner
    longest_wait: float = 120.0  # a provider that asks for more than this is not waited for
    compact_at: float = 0.8  # how full the usable window may be, 0 to 1, before the context is made smaller; 0 is never
    foreground_seconds: float | None = None  # a call that runs longer goes on in the background
    wait_for_jobs: bool = True  # a run does not end before its jobs and the agents below it are done


CHANGEABLE = ("max_turns", "max_tool_call_rounds", "max_request_tokens", "max_response_tokens")
"""The bounds that may be changed while an agent runs."""


def is_reached(limit: int | None, count: int) -> bool:
    """Whether no more is allowed; the limit may have been lowered below the current count."""
    return limit is not None and count >= limit


def limits_of(run: RunLimits) -> Mapping[str, int]:
    """The limits that are set."""
    return {name: value for name in CHANGEABLE if (value := getattr(run, name)) is not None}


def with_limits(run: RunLimits, limits: Mapping[str, int | str]) -> RunLimits:
    """RunLimits with some changed; 0 or "none" takes a limit away. Raises UsageError naming the limits there are."""
    changed: dict[str, int | None] = {}
    for name, value in limits.items():
        if name not in CHANGEABLE:
            raise UsageError(f"there is no limit {name!r}; the limits are {', '.join(CHANGEABLE)}")
        if value != "none" and not (isinstance(value, int) and value >= 0):
            raise UsageError(f"{name}: give a whole number or none, not {value!r}")
        changed[name] = value or None if isinstance(value, int) else None
    return replace(run, **changed)
