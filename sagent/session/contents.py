"""The contents of log entries: one class for each kind. `entries` encodes and decodes them.

Messages and results stay JSON, with media as blobs by name, until they are needed. `load` decodes all of it and is
strict; properties read without the blobs are lenient, which readers of damaged logs need.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from typing import NamedTuple, TypeAlias

from sagent.codec import (
    VERSION,
    Fetch,
    Keep,
    decode_message,
    decode_result_part,
    encode_message,
    encode_result_part,
    was_denied,
)
from sagent.events import Advice, Failure
from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, JsonObject, as_array, as_object, as_str, json_dump, json_load
from sagent.messages import Message, ToolResult
from sagent.model import RequestDigest, ToolSpec
from sagent.session.touches import Touched
from sagent.usage import Charge

EXECUTOR, COMPACTOR = "executor", "compactor"
"""Roles that calls are billed to: an agent's own model, and the summarizing model."""


class StoredCall(NamedTuple):
    """A tool call; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


class StoredMedia(NamedTuple):
    """An image or document by the name of its blob; "" if it is inside the entry."""

    media_type: str
    blob: str


@dataclass(frozen=True, slots=True)
class _Stored:
    """`encoded` is the JSON of a message or result."""

    encoded: Mapping[str, object]

    @property
    def text(self) -> str:
        """The visible text without results and media."""
        return "".join(self.texts("text"))

    @property
    def media(self) -> tuple[StoredMedia, ...]:
        """Images and documents, those inside results left out."""
        return tuple(
            StoredMedia(as_str(part.get("media_type")), as_str(part.get("blob")))
            for part in self._parts("image", "document")
        )

    @property
    def blobs(self) -> Iterator[str]:
        """The names of all blobs it needs."""
        for outer in self._parts():
            parts = (outer, *map(as_object, as_array(outer.get("content"))))
            yield from (name for part in parts if (name := as_str(part.get("blob"))))

    def texts(self, *kinds: str) -> Sequence[str]:
        """Return the text of each part of some kinds: "text", "thinking", "opaque"."""
        return [as_str(part.get("text")) for part in self._parts(*kinds)]

    def _parts(self, *kinds: str) -> Iterator[Mapping[str, object]]:
        """Return the parts of some kinds; all if none is given."""
        parts = map(as_object, as_array(self.encoded.get("parts") or self.encoded.get("content")))
        return (part for part in parts if not kinds or part.get("type") in kinds)


@dataclass(frozen=True, slots=True)
class StoredMessage(_Stored):
    """A message; `encoded` is its JSON."""

    @classmethod
    def of(cls, message: Message, keep: Keep | None) -> "StoredMessage":
        """Encode a message. Media are stored by `keep`, or inline if it is None."""
        return cls(encode_message(message, keep))

    def load(self, fetch: Fetch | None) -> Message:
        """Return the message with its media. Raises ValueError if it cannot be read, and the errors of `fetch`."""
        return decode_message(self.encoded, fetch)

    @property
    def role(self) -> str:
        """The author's role: "user" or "assistant"."""
        return as_str(self.encoded.get("role"))

    @property
    def sender(self) -> str:
        """Author of an inserted message; "" for the model's and the person's own."""
        return as_str(self.encoded.get("sender"))

    @property
    def model(self) -> str:
        """Model that wrote it, as "provider/id"; "" if no model did."""
        return as_str(self.encoded.get("model"))

    @property
    def stop(self) -> str:
        return as_str(self.encoded.get("stop"))

    @property
    def calls(self) -> tuple[StoredCall, ...]:
        """The tool calls, in order."""
        return tuple(
            StoredCall(as_str(part.get("id")), as_str(part.get("name")), json_text(part.get("arguments")))
            for part in self._parts("tool_call")
        )

    @property
    def has_results(self) -> bool:
        """True if it carries results of calls."""
        return any(self._parts("tool_result"))


@dataclass(frozen=True, slots=True)
class StoredResult(_Stored):
    """A tool result; `encoded` is its JSON."""

    @classmethod
    def of(cls, result: ToolResult, keep: Keep | None) -> "StoredResult":
        """Encode a result. Media are stored by `keep`, or inline if it is None."""
        return cls(encode_result_part(result, keep))

    def load(self, fetch: Fetch | None) -> ToolResult:
        """Return the result with its media. Raises ValueError for damaged data, and any error of `fetch`."""
        return decode_result_part(self.encoded, fetch)

    @property
    def call_id(self) -> str:
        return as_str(self.encoded.get("call_id"))

    @property
    def is_error(self) -> bool:
        return self.encoded.get("is_error") is True

    @property
    def denied(self) -> bool:
        """True if the policy refused the call."""
        return was_denied(self.encoded)


def json_text(value: object) -> str:
    """Return arguments as text, also those that a log holds as an object."""
    try:
        return value if isinstance(value, str) else json_dump(value)
    except (ValueError, RecursionError):  # JSON cannot express infinite numbers
        return str(value)


@dataclass(frozen=True, slots=True)
class Opened:
    """The first entry of a log: the agent it belongs to. `environment` has facts for later readers: versions, git,
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
    """The state of git in the working directory, the means of the sandbox, and the address of the model."""

    facts: Mapping[str, object]

    @property
    def commit(self) -> str:
        """The checked-out commit; "" if git reported none."""
        return as_str(self.facts.get("git_commit"))

    @property
    def dirty(self) -> bool | None:
        """True if there were uncommitted changes; None if git gave no answer."""
        dirty = self.facts.get("git_dirty")
        return dirty if isinstance(dirty, bool) else None

    @property
    def sandbox(self) -> str:
        """Means of the sandbox; "none" or "off"; "" if not logged."""
        return as_str(self.facts.get("sandbox"))

    @property
    def address(self) -> str | None:
        """The address of the model from here on, "PROVIDER at HOST/PATH"; "" for the provider's own, None if this entry
        has none."""
        found = self.facts.get("address")
        return found if isinstance(found, str) else None


class StoredTool(NamedTuple):
    """A tool as the model saw it; `schema` is its parameters as JSON text. If `ordered`, the keys are in the order sent
    (version 1 sorted them). If `deferred`, the model had to search for the tool first."""

    name: str
    description: str
    schema: str
    ordered: bool = True
    deferred: bool = False

    @classmethod
    def of(cls, spec: ToolSpec) -> "StoredTool":
        return cls(spec.name, spec.description, json_dump(spec.parameters), deferred=spec.deferred)

    def load(self) -> ToolSpec:
        """Return the tool as the model saw it. Raises ValueError if its schema cannot be read."""
        parameters = json_load(self.schema)
        parameters = parameters if isinstance(parameters, JsonObject) else EMPTY
        return ToolSpec(self.name, self.description, parameters, self.deferred)


@dataclass(frozen=True, slots=True)
class PromptEntry:
    """The system prompt and the tools as sent. `system` is None if it cannot be read."""

    system: str | None
    tools: tuple[StoredTool, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageEntry:
    """A message as it entered the history; `received` is the entry of its arrival, "" if it came by no inbox."""

    message: StoredMessage
    received: str = ""


@dataclass(frozen=True, slots=True)
class RequestSent:
    """An answered request: sha256 and size of its exact body, the model's id, the parameters. `role` is billed for a
    call outside the conversation; "" within it."""

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
    """A call's result, logged at once; the message with it follows later. `diff` is the change it made, `summary` its
    outcome in a few words; `made` are its arguments if they are not those that the model gave."""

    result: StoredResult
    seconds: float = 0.0
    diff: str = ""
    summary: str = ""
    made: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True)
class SwitchedEntry:
    """A switch of model, effort or limits, with all values from now on; or a change of an `advisor`. `reason` is "" if
    somebody requested it."""

    model: str = ""
    effort: str = ""
    limits: Mapping[str, object] = field(default_factory=dict[str, object])
    advisor: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Reserved:
    """A call is about to be made under a budget: its worst case, as the charge that counts if no other follows."""

    charge: Charge


@dataclass(frozen=True, slots=True)
class Released:
    """The call reserved by entry `of` was not billed."""

    of: str


@dataclass(frozen=True, slots=True)
class ChargeEntry:
    """One settled charge; the last one of a call under a budget names the entry that `reserved` it."""

    charge: Charge
    reserved: str = ""


@dataclass(frozen=True, slots=True)
class ConsultationEntry:
    """A consultation of an advisor. If a request was sent: `said` and `system` are the blobs of its message and role,
    `epoch` counts restarts of its conversation, `quoted` are the messages of the history that the advisor then knows,
    with `last` the last of them, and `left_out` those that did not fit."""

    advice: Advice
    said: str = ""
    system: str = ""
    epoch: int = 0
    quoted: int = 0
    last: str = ""
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class AdviceOutcome:
    """The outcome of the advice `of` an entry: "followed", "rejected" or "contradicted", and why."""

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
    """A child by its path and the id of its log's first entry, with the data to restore it."""

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
    """A child by its path and its log's head when it returned, so that the parent's hashes cover the child's log."""

    agent: str
    entry: str


@dataclass(frozen=True, slots=True)
class MessageSent:
    """A message to another agent that arrived at once."""

    to: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class MessagePosted:
    """A message to an agent that is due later: UTC, ISO 8601."""

    to: str
    message: StoredMessage
    due: str


@dataclass(frozen=True, slots=True)
class MessageDelivered:
    """The delivery, or return, of the message that was posted by an entry."""

    to: str
    of: str


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """A message in the inbox; the `message` entry written when it is read refers to this one. `answer`: its sender
    waits for an answer."""

    message: StoredMessage
    moment: str
    answer: bool = False


@dataclass(frozen=True, slots=True)
class MessageWithdrawn:
    """The sender took back the message that was received by an entry: it is not read."""

    of: str


@dataclass(frozen=True, slots=True)
class HandoffSaid:
    """An agent's hand-off: the agent, its size in bytes and its sha256; or why there is none."""

    agent: str = ""
    sha256: str = ""
    size: int = 0
    error: Failure | None = None


@dataclass(frozen=True, slots=True)
class HandoffGiven:
    """The start of a role. `sha256` and `size`, in bytes, are those of its prompt; `visible` are the roles whose
    hand-offs it contains, `left_out` those only named, and `shown` has the number of bytes of each shortened one.
    `budget` is its own, in USD, `cap` the team's; at most `handoff_tokens` and `handoff_bytes` of its hand-off are
    shown."""

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
    """Work handed from one role of a team to another; "" is the caller of the team. `given` is None if the receiver
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
    """A background call: its start ("running"), or how it ended."""

    job: str
    call: str
    tool: str
    state: str


@dataclass(frozen=True, slots=True)
class Compacted:
    """A compaction of the history. `before` and `after` are estimates of the next request, in tokens.

    Each of the `stubs` has the number of a message in the history, the id of the call whose result it replaces, and the
    new text. A stub without a call replaces all text of the message. With `kept`, only the messages with these numbers
    stay. With `summary`, a message of sagent's with that text is inserted among them at that place, followed by
    `notes`: messages as sender and text.
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
    """A name that a person gave to the session; or the command `by` which it was held alone, such as a review."""

    text: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class Forked:
    """The session continues from an earlier entry, its parent; `left` was the last entry until then."""

    left: str


@dataclass(frozen=True, slots=True)
class Repaired:
    """The log was damaged and repaired; the original is at `aside`. `kept` entries precede this one. If it replaces
    `lost` lines, these are their kinds, "?" if unknown. `mended` lines were restored exactly."""

    kept: int
    dropped_bytes: int
    aside: str
    reason: str
    lost: tuple[str, ...] | None = None  # None in an earlier version, which only had bytes
    mended: int = 0

    @property
    def is_gap(self) -> bool:
        """True if anything was lost."""
        return bool(self.lost) or (self.lost is None and self.dropped_bytes > 0)

    @property
    def has_lost_cost(self) -> bool:
        """True if a lost line may have been a charge."""
        return self.is_gap and (self.lost is None or bool({"?", "reserved", "spent"} & set(self.lost)))


@dataclass(frozen=True, slots=True)
class Unknown:
    """An entry of an unknown kind."""

    kind: str
    body: Mapping[str, object]


AdviceContent: TypeAlias = ConsultationEntry | AdviceOutcome | AdviceRated
"""Possible contents of an `advice` entry."""

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
"""Possible contents of an entry."""
