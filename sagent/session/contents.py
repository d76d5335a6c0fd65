"""What the entries of a log say: one class for each kind. How they are written and read is in `table`."""

from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal
from typing import NamedTuple, TypeAlias

from sagent.codec import VERSION
from sagent.events import Advice, Failure
from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, JsonObject, as_str, json_dump, json_load
from sagent.model import RequestDigest, ToolSpec
from sagent.session.stored import StoredMessage, StoredResult
from sagent.session.touches import Touched
from sagent.usage import Charge

COMPACTOR = "compactor"
"""The role that summaries are billed to."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The first entry of a log: whose it is. `environment` is what a reader may want to know later: versions, git,
    platform."""

    session: str = ""
    agent: str = ""
    cwd: str = ""
    environment: Mapping[str, object] = field(default_factory=dict[str, object])
    version: int = VERSION

    @property
    def recorded_by(self) -> str:
        """The version of sagent that wrote it."""
        return as_str(self.environment.get("sagent"))


@dataclass(frozen=True, slots=True)
class Environment:
    """What git said of the working directory, what held commands, and where the model was asked."""

    facts: Mapping[str, object]

    @property
    def commit(self) -> str:
        """The commit that was checked out; "" where git said none."""
        return as_str(self.facts.get("git_commit"))

    @property
    def dirty(self) -> bool | None:
        """Whether there were changes that no commit has; None where git did not say."""
        dirty = self.facts.get("git_dirty")
        return dirty if isinstance(dirty, bool) else None

    @property
    def sandbox(self) -> str:
        """What held commands: a means by its name, "none" or "off"; "" where that was not logged."""
        return as_str(self.facts.get("sandbox"))

    @property
    def address(self) -> str | None:
        """Where the model was asked from here on, "PROVIDER at HOST/PATH"; "" for the provider's own address, None
        where nothing says."""
        found = self.facts.get("address")
        return found if isinstance(found, str) else None


class StoredTool(NamedTuple):
    """A tool as the model saw it; `schema` is its parameters as JSON text. `ordered` says that the keys have the order
    in which they were sent: version 1 sorted them. `deferred`: the model had to find it first."""

    name: str
    description: str
    schema: str
    ordered: bool = True
    deferred: bool = False

    @classmethod
    def of(cls, spec: ToolSpec) -> "StoredTool":
        return cls(spec.name, spec.description, json_dump(spec.parameters), deferred=spec.deferred)

    def load(self) -> ToolSpec:
        """As the model saw it. Raises ValueError for a schema that cannot be read."""
        parameters = json_load(self.schema)
        parameters = parameters if isinstance(parameters, JsonObject) else EMPTY
        return ToolSpec(self.name, self.description, parameters, self.deferred)


@dataclass(frozen=True, slots=True)
class PromptEntry:
    """The system prompt and the tools as sent. `system` is None where it cannot be read."""

    system: str | None
    tools: tuple[StoredTool, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageEntry:
    """A message as it entered the history; `received` is the entry by which it had arrived, "" for one that no inbox
    had."""

    message: StoredMessage
    received: str = ""


@dataclass(frozen=True, slots=True)
class RequestSent:
    """A request that was answered: sha256 and size of its exact body, the model's id, the parameters. `role` is who was
    billed for a call outside the conversation; "" for those of the conversation."""

    sha256: str
    size: int
    model: str
    parameters: Mapping[str, object] = field(default_factory=dict[str, object])
    role: str = ""

    @classmethod
    def of(cls, digest: RequestDigest, role: str = "") -> "RequestSent":
        return cls(digest.sha256, digest.size, digest.model, digest.parameters, role)


@dataclass(frozen=True, slots=True)
class ResultEntry:
    """A call's result, the moment it was known; the message that carries it comes later. `diff` is what it changed."""

    result: StoredResult
    seconds: float = 0.0
    diff: str = ""


@dataclass(frozen=True, slots=True)
class SwitchedEntry:
    """Another model, effort or limits, all of them as they are from now on; or what became of an `advisor`. `reason` is
    "" where somebody asked for it."""

    model: str = ""
    effort: str = ""
    limits: Mapping[str, object] = field(default_factory=dict[str, object])
    advisor: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Reserved:
    """A call is about to be made under a budget: its worst case, as the charge that it is where nothing follows."""

    charge: Charge


@dataclass(frozen=True, slots=True)
class Released:
    """Nothing was billed for the call `of` an entry."""

    of: str


@dataclass(frozen=True, slots=True)
class ChargeEntry:
    """One settled charge; the last one of a call under a budget names the entry by which it was `reserved`."""

    charge: Charge
    reserved: str = ""


@dataclass(frozen=True, slots=True)
class ConsultationEntry:
    """An advisor was asked. Where it was sent something: `said` and `system` are the blobs of its message and role,
    `epoch` counts the times its conversation was begun anew, `quoted` the messages of the history it knows then, of
    which `last` marks the last one, `left_out` those that did not fit."""

    advice: Advice
    said: str = ""
    system: str = ""
    epoch: int = 0
    quoted: int = 0
    last: str = ""
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class AdviceOutcome:
    """What became of the advice `of` an entry: "followed", "rejected" or "contradicted", for which reason."""

    advisor: str
    of: str
    outcome: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class AdviceRated:
    """A person's rating of the last advice of an advisor: 1 or -1."""

    advisor: str
    by: int
    outcome: str = "rated"


@dataclass(frozen=True, slots=True)
class Spawned:
    """A child by its path and the id of the first entry of its log, and what it takes to bring it back."""

    agent: str
    entry: str
    persistent: bool = False
    share: str = ""
    model: str = ""
    effort: str = ""
    tools: tuple[str, ...] = ()
    system: str | None = None
    max_turns: int | None = None
    max_depth: int | None = None
    budget_usd: Decimal | None = None
    options: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True)
class Returned:
    """A child by its path and the head of its log when it returned: the parent's head then vouches for the child's."""

    agent: str
    entry: str


@dataclass(frozen=True, slots=True)
class MessageSent:
    """A message to another agent that arrived at once."""

    to: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class MessagePosted:
    """A message to an agent that is to arrive at a time: UTC, ISO 8601."""

    to: str
    message: StoredMessage
    due: str


@dataclass(frozen=True, slots=True)
class MessageDelivered:
    """The arrival, or return, of the message that was posted by an entry."""

    to: str
    of: str


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """A message in the inbox; the `message` that it becomes when it is read names this entry. `answer` says that its
    sender waits for one."""

    message: StoredMessage
    moment: str
    answer: bool = False


@dataclass(frozen=True, slots=True)
class MessageWithdrawn:
    """Whoever sent the message that was received by an entry has taken it back: it is not read."""

    of: str


@dataclass(frozen=True, slots=True)
class HandoffSaid:
    """What is passed on: by which agent, and how many bytes of which sha256; or why there is nothing."""

    agent: str = ""
    sha256: str = ""
    size: int = 0
    error: Failure | None = None


@dataclass(frozen=True, slots=True)
class HandoffGiven:
    """What a role begins with. `sha256` and `size`, in bytes, are of its prompt; `visible` and `left_out` are the roles
    whose hand-offs are in it and are only named, `shown` has of those that are cut how many bytes it has. `budget` is
    its own, in USD, `cap` the team's; of what it hands on `handoff_tokens` and `handoff_bytes` are shown at most."""

    agent: str
    sha256: str
    size: int
    model: str
    budget: Decimal | None = None
    cap: Decimal | None = None
    visible: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    shown: Mapping[str, object] = field(default_factory=dict[str, object])
    handoff_tokens: int | None = None
    handoff_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Handoff:
    """Work passed on from one role of a team to another; "" is whoever asked the team. `given` is None where the taker
    does not begin yet."""

    team: str
    mode: str
    model: str
    giver: str
    taker: str
    said: HandoffSaid
    given: HandoffGiven | None = None


@dataclass(frozen=True, slots=True)
class JobEntry:
    """A call in the background: that it began ("running"), or how it ended."""

    job: str
    call: str
    tool: str
    state: str


@dataclass(frozen=True, slots=True)
class Compacted:
    """What gave way in the history. `before` and `after` are estimates of the next request, in tokens. Of `stubs`, each
    has the number of a message in the history, the id of the call whose result gave way, and the text in its place.

    A stub without a call takes the place of all that a message says. With `kept`, only the messages of these numbers
    stay; with `summary`, a message of sagent's with that text is put among these, at that place, and after it `notes`,
    which are messages by sender and text.
    """

    stubs: tuple[tuple[int, str, str], ...]
    before: int
    after: int
    reason: str
    kept: tuple[int, ...] | None = None
    summary: tuple[int, str] | None = None
    notes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class NoticeEntry:
    text: str


@dataclass(frozen=True, slots=True)
class FailedEntry:
    """Why a run ended early."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Label:
    """A name that a person gave to the session."""

    text: str


@dataclass(frozen=True, slots=True)
class Forked:
    """An earlier entry, its parent, was taken up again; `left` is the entry that was the last one until then."""

    left: str


@dataclass(frozen=True, slots=True)
class Repaired:
    """The log was damaged; the file as it was is kept as `aside`. So many entries before this one were `kept`. Where it
    stands in the place of what is `lost`, these are the kinds of its lines, "?" where that is not known. `mended`
    lines were put back as they were written."""

    kept: int
    dropped_bytes: int
    aside: str
    reason: str
    lost: tuple[str, ...] | None = None  # in one of an earlier version, which says only how many bytes
    mended: int = 0

    @property
    def is_gap(self) -> bool:
        """Whether something is lost."""
        return bool(self.lost) or (self.lost is None and self.dropped_bytes > 0)

    @property
    def has_lost_cost(self) -> bool:
        """Whether what is lost may have said what something cost."""
        return self.is_gap and (self.lost is None or bool({"?", "reserved", "spent"} & set(self.lost)))


@dataclass(frozen=True, slots=True)
class Unknown:
    """An entry of a kind that is not known here."""

    kind: str
    body: Mapping[str, object]


AdviceContent: TypeAlias = ConsultationEntry | AdviceOutcome | AdviceRated
"""What an `advice` entry may say."""

Content: TypeAlias = (
    Opened
    | Environment
    | PromptEntry
    | MessageEntry
    | RequestSent
    | ResultEntry
    | SwitchedEntry
    | Reserved
    | Released
    | ChargeEntry
    | AdviceContent
    | Spawned
    | Returned
    | MessageSent
    | MessagePosted
    | MessageDelivered
    | MessageReceived
    | MessageWithdrawn
    | Handoff
    | JobEntry
    | Touched
    | Compacted
    | NoticeEntry
    | FailedEntry
    | Label
    | Forked
    | Repaired
    | Unknown
)
"""What an entry may say."""
