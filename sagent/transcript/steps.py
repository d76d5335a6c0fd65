"""What is told of a run, step by step, wherever it was read. `at` is UTC, ISO 8601, "" where it is not known."""

from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal
from typing import TypeAlias

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_int, as_object, as_str, json_dump


@dataclass(frozen=True, slots=True)
class Opened:
    agent: str
    session: str
    model: str = ""
    cwd: str = ""
    resumed: bool = False
    at: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """A message to the agent. `sender` is "" for the person."""

    agent: str
    text: str
    sender: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that the model asks for; `arguments` as JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Turn:
    """A model call that was answered."""

    agent: str
    model: str
    text: str
    calls: tuple[Asked, ...] = ()
    stop: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    """A call's result; `what` is its outcome in a line, `seconds` how long it took."""

    agent: str
    call: str
    name: str
    what: str
    failed: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Refused:
    """The policy did not allow a call."""

    agent: str
    call: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Consulted:
    """An advisor was asked, or was not: `status` is "withheld" then."""

    agent: str
    advisor: str
    model: str
    trigger: str
    status: str
    verdict: str = ""
    text: str = ""
    reason: str = ""
    question: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Charged:
    """Tokens read and written in one call, and their price; None where it is not known. `role` is "executor",
    "advisor:NAME", ...; `at_once` tells that the step before is what is paid for."""

    agent: str
    role: str
    model: str
    read: int
    written: int
    usd: Decimal | None
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class Remark:
    """Something else that happened, in words."""

    agent: str
    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A run is over. `usd` is what the session has cost by kind ("executor", "advisor", "other"); with `unpriced`
    models it is a minimum."""

    agent: str
    stop: str
    error: str = ""
    turns: int = 0
    seconds: float = 0.0
    usd: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])
    unpriced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Damaged:
    """A line that could not be read; `place` is the file's name where there are several."""

    line: int
    reason: str
    place: str = ""


Step: TypeAlias = Opened | Said | Turn | Answered | Refused | Consulted | Charged | Remark | Ended | Damaged


def consulted(agent: str, told: Mapping[str, object]) -> Consulted:
    """A consultation from its members, as events and logs have them."""
    return Consulted(
        agent,
        as_str(told.get("advisor"), "advisor"),
        as_str(told.get("model")),
        as_str(told.get("trigger")),
        as_str(told.get("status")),
        as_str(told.get("verdict")),
        as_str(told.get("text")),
        as_str(told.get("reason")),
        as_str(told.get("question")),
        as_number(told.get("seconds")),
    )


def charged(agent: str, role: str, model: str, usage: object, usd: object) -> Charged:
    """A charge from the members that events and logs have; `usd` as a number or a text."""
    buckets = as_object(usage)
    read = sum(as_int(buckets.get(name)) for name in ("input", "cache_read", "cache_write", "cache_write_1h"))
    return Charged(agent, role, model, read, as_int(buckets.get("output")), as_usd(usd))


def as_number(value: object) -> float:
    """A number, 0 for anything else, and for one that no float holds."""
    try:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
    except OverflowError:
        return 0.0


def as_usd(value: object) -> Decimal | None:
    """USD from a number or a text; None for anything else."""
    try:
        usd = Decimal(str(value)) if isinstance(value, int | float | str) else None
    except ArithmeticError:
        return None
    return usd if usd is None or usd.is_finite() else None


def as_json(value: object) -> str:
    """A value in one line."""
    try:
        return value if isinstance(value, str) else json_dump(value)
    except (ValueError, RecursionError):  # JSON has no word for an infinite number
        return str(value)
