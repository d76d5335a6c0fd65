"""Steps of a run, from any source. `at` is UTC, ISO 8601, "" if unknown."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from typing import TypeAlias

from sagent.events import Advice
from sagent.lib.dataclass import dataclass
from sagent.session.contents import AdviceOutcome, AdviceRated, StoredCall, StoredMedia
from sagent.usage import Charge


@dataclass(frozen=True, slots=True)
class Opened:
    agent: str
    session: str
    model: str = ""
    cwd: str = ""
    resumed: bool = False
    at: str = ""
    environment: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True)
class Checkout:
    """State of the working directory in git, and the sandbox of commands."""

    agent: str
    facts: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class MessageStep:
    """A message to the agent. `sender` is "" for the person."""

    agent: str
    text: str
    sender: str = ""
    at: str = ""
    media: tuple[StoredMedia, ...] = ()


@dataclass(frozen=True, slots=True)
class Requested:
    """Request to a model; `role` is "" for the calls of the conversation."""

    agent: str
    role: str
    model: str
    parameters: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Turn:
    """A model call that was answered."""

    agent: str
    model: str
    text: str
    calls: tuple[StoredCall, ...] = ()
    stop: str = ""
    at: str = ""
    thinking: str = ""
    media: tuple[StoredMedia, ...] = ()


@dataclass(frozen=True, slots=True)
class Answered:
    """A call's result: its text, or for an event a one-line outcome. `seconds` is its duration, `diff` its change."""

    agent: str
    call: str
    name: str
    what: str
    failed: bool
    seconds: float
    diff: str = ""
    media: tuple[StoredMedia, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """The policy did not allow a call."""

    agent: str
    call: str
    name: str
    reason: str
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Consulted:
    """An advisor was asked, or not: then its status is "withheld". `entry` is that of the log."""

    agent: str
    advice: Advice
    at: str = ""
    entry: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """Outcome of an advice, or a person's rating of it."""

    agent: str
    judgement: AdviceOutcome | AdviceRated
    at: str = ""


@dataclass(frozen=True, slots=True)
class Charged:
    """A call of a model was paid for; `at_once` says that it is the step before."""

    agent: str
    charge: Charge
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class Remark:
    """Event without a class of its own here, with its known details by name."""

    agent: str
    kind: str
    details: Sequence[tuple[str, str]] = ()
    at: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """A run is over. `usd` is the session's cost by kind ("executor", "advisor", "other"), and the additional amount
    that counts towards a budget ("unbilled"); with `unpriced` models it is a minimum."""

    agent: str
    stop: str
    error: str = ""
    turns: int = 0
    seconds: float = 0.0
    usd: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])
    unpriced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Damaged:
    """An unreadable line; `agent` is the owner of its log, `place` the file's name if there are several."""

    line: int
    reason: str
    place: str = ""
    agent: str = ""


Step: TypeAlias = (
    Opened
    | Checkout
    | MessageStep
    | Requested
    | Turn
    | Answered
    | Refused
    | Consulted
    | Judged
    | Charged
    | Remark
    | Ended
    | Damaged
)


def torn(line: bytes) -> str:
    """Return an addition to the report of a damaged line without an end."""
    return "" if line.endswith(b"\n") else "; it has no end: its writer was killed, or is still at work"
