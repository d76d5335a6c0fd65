"""When an advisor is asked unbidden, and how often it may be asked at all."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias, get_args

Trigger: TypeAlias = Literal[
    "need_advice", "failures", "confidence", "stagnation", "first_write", "destructive", "done"
]
TRIGGERS: tuple[Trigger, ...] = get_args(Trigger)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Thresholds and bounds. None as a bound is none; `triggers` None is what suits the executor, see `preset`.

    A task is what a person asks for until they ask for the next thing. `max_share` is the part of a session's cost
    that advisors may have, 0 to 1; `max_tokens` counts what they read and write in a session.
    """

    triggers: tuple[Trigger, ...] | None = None
    failure_threshold: int = 2  # turns in a row in which a call failed
    confidence_threshold: float = 0.4  # that the executor reports, 0 to 1
    stagnation_turns: int = 4
    cooldown_turns: int = 2  # between two consultations that nobody asked for
    max_advisor_calls: int | None = 5  # in a task
    max_session_calls: int | None = None
    max_usd: Decimal | None = None  # in a session
    max_share: float | None = None
    max_tokens: int | None = None
