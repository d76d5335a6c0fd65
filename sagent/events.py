"""Events of an agent while it works: one closed union, read by every surface. `agent` is that agent's path."""

from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal
from typing import Generic, Literal, TypeAlias

from sagent.lib.dataclass import Data_co, Hinting, dataclass
from sagent.lib.money import ZERO
from sagent.messages import Message, Part, ToolCall, ToolResult
from sagent.usage import Cost, Saving, Usage


@dataclass(frozen=True, slots=True)
class Denial:
    """A call that was not made, and why."""

    tool: str
    call_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run failed: `kind` is the error's stable machine name, `message` is for a person."""

    kind: str
    message: str


AdviceStatus: TypeAlias = Literal["answered", "cut", "declined", "failed", "withheld"]
AdviceVerdict: TypeAlias = Literal["proceed", "adjust", "stop", ""]


@dataclass(frozen=True, slots=True)
class Advice:
    """One consultation of an advisor, by its name. `trigger` is the reason: "asked" by the executor, "person", or the
    name of a rule.

    "answered" has a text, and so has "cut", which ended at its length limit. "declined" is a refusal or an empty
    answer, "failed" a call that failed, "withheld" one that a limit did not allow: `reason` says why. An answer is read
    as a verdict ("" if it has none), at most three gaps, what to do next, and a command that settles a doubt. `usd` is
    None if the model has no known price.
    """

    advisor: str
    model: str
    trigger: str
    status: AdviceStatus
    text: str = ""
    verdict: AdviceVerdict = ""
    gaps: tuple[str, ...] = ()
    next: str = ""
    check: str = ""
    reason: str = ""
    question: str = ""
    usage: Usage = field(default_factory=Usage)
    usd: Decimal | None = Decimal(0)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class AdvisorTally:
    """Totals for one advisor in a session. `usd` is None if any of its calls has no known price.

    `followed`, `rejected` and `contradicted` count the executor's reactions to its advice; `rated` is the sum of a
    person's ratings, each 1 or -1."""

    calls: int = 0
    answered: int = 0  # those cut at their length limit included
    declined: int = 0
    failed: int = 0
    withheld: int = 0  # not made because of a limit; not in `calls`
    followed: int = 0
    rejected: int = 0
    contradicted: int = 0
    rated: int = 0
    usage: Usage = field(default_factory=Usage)
    usd: Decimal | None = Decimal(0)


@dataclass(frozen=True, slots=True)
class Result(Hinting, Generic[Data_co]):
    """The result of one run. `content` is the final text; `parts` the final message's parts.

    `stop_reason` is the last reply's stop reason, or "max_turns", "max_tool_call_rounds", "budget", "interrupted",
    "advisor_stop", "error". `turns` counts model calls; `duration` is in seconds; `head` is the id of the log's last
    entry. `usage` and `run_usd` are the run's, the latter including agents below; `cost` is the session's. `data` is
    the answer as the type that was requested (`run(..., output=)`), None if it does not match. `advisors` are the
    session's, by name; their tokens are not in `usage`. `sandbox` names the sandbox of its commands, or is "none" or
    "off"; "" if unknown."""

    content: str
    parts: tuple[Part, ...]
    stop_reason: str
    error: Failure | None = None
    usage: Usage = field(default_factory=Usage)
    cost: Cost = field(default_factory=Cost)
    run_usd: Decimal = ZERO
    turns: int = 0
    duration: float = 0.0
    model: str = ""
    session_id: str = ""
    session_path: str = ""
    head: str = ""
    denials: tuple[Denial, ...] = ()
    data: Data_co | None = None
    advisors: Mapping[str, AdvisorTally] = field(default_factory=dict[str, AdvisorTally])
    saving: Saving = field(default_factory=Saving)
    sandbox: str = ""

    @property
    def is_error(self) -> bool:
        """True if the run failed, was stopped by a limit or was interrupted."""
        return self.error is not None


@dataclass(frozen=True, slots=True)
class SessionOpened:
    agent: str
    session_id: str
    session_path: str  # "" if it is not saved
    model: str
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class Received:
    """A message entered the conversation."""

    agent: str
    message: Message


@dataclass(frozen=True, slots=True)
class TextDelta:
    agent: str
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    agent: str
    text: str


@dataclass(frozen=True, slots=True)
class ReplyFinished:
    """A model call succeeded and its reply is in the log. `usd` is None if the model has no known price."""

    agent: str
    message: Message
    usage: Usage
    usd: Decimal | None


@dataclass(frozen=True, slots=True)
class Retrying:
    """A model call failed and will be repeated in `seconds`. `discarded` is streamed text that no longer counts."""

    agent: str
    reason: str
    kind: str
    attempt: int
    seconds: float
    discarded: str = ""


@dataclass(frozen=True, slots=True)
class ToolStarted:
    agent: str
    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolProgress:
    agent: str
    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A call was answered. `summary` is a short outcome, `diff` its change as a unified diff.

    If it has a `job`, it continues under that name, and is reported again when that ends.
    """

    agent: str
    call: ToolCall
    result: ToolResult
    seconds: float
    summary: str = ""
    diff: str = ""
    job: str = ""


@dataclass(frozen=True, slots=True)
class AdviceDelta:
    """Advice as it streams. The first piece of a consultation is "" and marks its beginning."""

    agent: str
    advisor: str
    trigger: str
    text: str


@dataclass(frozen=True, slots=True)
class Advised:
    """A consultation has ended, well or not."""

    agent: str
    advice: Advice


@dataclass(frozen=True, slots=True)
class Denied:
    agent: str
    denial: Denial


@dataclass(frozen=True, slots=True)
class Switched:
    """Model, effort or limits changed; `what` describes the change."""

    agent: str
    what: str


@dataclass(frozen=True, slots=True)
class Notice:
    agent: str
    level: Literal["info", "warning", "error"]
    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    agent: str
    result: Result


Event: TypeAlias = (
    SessionOpened
    | Received
    | TextDelta
    | ThinkingDelta
    | ReplyFinished
    | Retrying
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | AdviceDelta
    | Advised
    | Denied
    | Switched
    | Notice
    | Finished
)
