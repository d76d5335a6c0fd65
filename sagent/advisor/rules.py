"""The rules for automatic consultations, and the limits on their number."""

import re
from decimal import Decimal
from typing import Literal, TypeAlias, get_args

from sagent.lib.dataclass import dataclass

Trigger: TypeAlias = Literal[
    "need_advice", "failures", "confidence", "stagnation", "first_write", "destructive", "done", "no_change", "no_calls"
]
TRIGGERS: tuple[Trigger, ...] = get_args(Trigger)
Strength: TypeAlias = Literal["text", "small", "middle", "strong"]

_SMALL = re.compile(
    r"haiku|mini\b|nano|flash|lite|small|\bgemma|ministral|\bphi-?\d|(?<![\d.])(?:\d|1[0-4])(?:\.\d+)?b\b"
)
_STRONG = re.compile(r"opus|fable|mythos|\bo[1-9](?!\d)|gpt-[5-9]|gemini.*\bpro\b|grok-[4-9]|\br1\b|thinking")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Thresholds and limits. None as a limit is none; `triggers` None selects those for the executor, see `preset`.

    A task lasts from a person's request to their next one. `max_share` is the advisors' share of a session's cost, 0 to
    1; `max_tokens` counts their input and output in a session.
    """

    triggers: tuple[str, ...] | None = None
    failure_threshold: int = 2  # consecutive turns with a failed call
    confidence_threshold: float = 0.4  # that the executor reports, 0 to 1
    stagnation_turns: int = 4
    cooldown_turns: int = 2  # between two automatic consultations
    max_advisor_calls: int | None = 5  # in a task
    max_session_calls: int | None = None
    max_usd: Decimal | None = None  # in a session
    max_share: float | None = None
    max_tokens: int | None = None

    def fired_by(self, model: str, *, text: bool = False) -> tuple[str, ...]:
        """Return the triggers for an executor, by its model's id, and whether it uses the text protocol."""
        return preset("text" if text else strength(model)) if self.triggers is None else self.triggers


def strength(model: str) -> Strength:
    """Return the class of a model as an executor, by its name: help that a small one needs slows a strong one down."""
    name = model.lower()
    if _SMALL.search(name):
        return "small"
    return "strong" if _STRONG.search(name) else "middle"


def preset(executor: Strength) -> tuple[Trigger, ...]:
    """Return the default triggers for a class of executors: for all of them, their own questions and signs of being
    stuck. As Anthropic measured (docs of the advisor tool, 2026), a checkpoint before the first change gains small
    models 7.5 points at coding and costs strong ones as much as it gives. A text executor is judged at the end instead:
    docs/advisor.md has the measurements."""
    stuck: tuple[Trigger, ...] = ("need_advice", "failures", "confidence", "stagnation")
    if executor == "text":
        return (*stuck, "done", "no_change", "no_calls")
    return (*stuck, "first_write") if executor == "small" else stuck
