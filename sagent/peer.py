"""An agent as others see it, and the actions on a running agent."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from typing import Literal, Protocol, TypeAlias

from sagent.events import Advice, Result
from sagent.lib.dataclass import dataclass
from sagent.messages import Message
from sagent.usage import Cost

Moment: TypeAlias = Literal["now", "next", "idle"]
"""When a message is read: before the next model call, with running calls moved to the background ("now"); before the
next model call in the normal course ("next"); at the end of the turn ("idle")."""
Scope: TypeAlias = Literal["tree", "self"]
"""Reach of an interruption: an agent and all below it, or it alone."""
JobState: TypeAlias = Literal["running", "done", "failed", "cancelled", "detached"]


@dataclass(frozen=True, slots=True)
class Inject:
    """Put a message into the conversation."""

    message: Message
    moment: Moment = "now"


@dataclass(frozen=True, slots=True)
class Switch:
    """Change settings of the next model call; None leaves one unchanged. `model` is "provider/id".

    `advisor` is "[name=]provider/id[,options]", or "off", "on", "name=off", "name=on".
    """

    model: str | None = None
    effort: str | None = None
    limits: Mapping[str, int | str] | None = None
    advisor: str | None = None


@dataclass(frozen=True, slots=True)
class Compact:
    """Make the context smaller, keeping the task; `hints` says what matters.

    With `drop`, only results of these tools become stubs ("*": every tool). `clear` keeps the person's last request.
    """

    hints: str = ""
    drop: tuple[str, ...] = ()
    clear: bool = False


@dataclass(frozen=True, slots=True)
class Background:
    """Move running calls to the background: one, by its id, or all."""

    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Consult:
    """Ask an advisor, by its name or "" for the first; its answer enters the conversation as a message."""

    question: str = ""
    advisor: str = ""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop one running call, by its id, or the consultation in progress (""); the turn continues."""

    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """End the turn before the next model call. A `reason` such as "guardrail: why" explains a known reason."""

    reason: str = ""


Action: TypeAlias = Inject | Switch | Compact | Background | Consult | Cancel | Stop


@dataclass(frozen=True, slots=True)
class JobStatus:
    """The state of a background call. `what` is its main argument; `seconds` is how long it has run."""

    name: str
    tool: str
    what: str
    state: JobState
    seconds: float


@dataclass(frozen=True, slots=True)
class Status:
    """The state of an agent. `context_tokens` is an estimate of its next request, `window` the most it can have.

    `tokens_by_kind` splits these tokens, and `limits` has the limits that are set. `usd` is the agent's own cost,
    `usd_tree` includes its descendants'. `jobs` are those running; `advisors` marks those that are off.
    """

    path: str
    state: Literal["idle", "working", "ended"]
    model: str
    turns: int
    context_tokens: int
    effort: str = ""
    window: int | None = None
    usd: Decimal = Decimal(0)
    usd_tree: Decimal = Decimal(0)
    jobs: tuple[JobStatus, ...] = ()
    tokens_by_kind: Mapping[str, int] = field(default_factory=dict[str, int])
    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    advisors: str = ""
    waits: str = ""  # for money: amount, since when, and who holds it; "" if no call waits


@dataclass(frozen=True, slots=True)
class SpawnRequest:
    """Request for a new agent. None and "" inherit from its parent; it never gets more than its parent has.

    `share` is how much it sees of its parent's conversation: nothing, the last hand-offs ("brief"), or all ("full"). A
    `persistent` agent stays alive after its answer. Its calls are billed to `role`, and `options` are members of their
    request bodies, by default the parent's if both use the same provider. It works in `directory`, or its parent's.
    """

    prompt: str
    name: str = ""
    system: str | None = None
    model: str = ""
    effort: str = ""
    tools: tuple[str, ...] | None = None
    max_turns: int | None = None
    max_depth: int | None = None
    budget_usd: Decimal | None = None
    persistent: bool = False
    share: Literal["none", "brief", "full"] = "none"
    role: str = ""
    options: Mapping[str, object] | None = None
    directory: str = ""


class Peer(Protocol):
    """An agent, local or remote: the only reference to it that another agent, a surface or a coordinator may hold."""

    @property
    def path(self) -> str:
        """The agent's name in the tree: "root", "root/review"."""
        ...

    def send(self, message: Message | str, moment: Moment = "now") -> None:
        """Put a message into its inbox; returns at once."""
        ...

    async def wait(self) -> Result:
        """Return the result of the run now in progress, or of the last one."""
        ...

    def interrupt(self, scope: Scope = "tree") -> None:
        """Stop its model call and tools, and those of all agents below it; every history stays valid."""
        ...

    def check(self, action: Action) -> None:
        """Raise UsageError for an impossible change."""
        ...

    def apply(self, action: Action) -> None:
        """Request a change, which takes effect between two model calls. Raises UsageError if it is impossible."""
        ...

    def status(self) -> Status: ...


class Caller(Peer, Protocol):
    """The agent that makes a call, as its tool may use it: actions on itself and in its tree."""

    async def consult(self, question: str = "", advisor: str = "") -> Sequence[Advice]:
        """Ask an advisor by its name, or the first; a panel is asked as a whole. Raises UsageError if there is none."""
        ...

    async def spawn(self, order: SpawnRequest) -> Peer:
        """Start a new agent below this one. Raises UsageError or BudgetExceeded; then none was started."""
        ...

    def peers(self, pattern: str = "*") -> Sequence[Peer]:
        """Return the other living agents of the tree whose path, or its end, matches; children take precedence."""
        ...

    def post(self, path: str, message: Message, seconds: float = 0.0) -> None:
        """Send a message to a living agent, now or later."""
        ...

    def catalog(self) -> str:
        """List the models to switch to, with windows and prices, as text for a model. May block: use a thread."""
        ...

    def jobs(self) -> Sequence[JobStatus]:
        """Return the agent's background calls, including ended ones."""
        ...

    def job_output(self, name: str) -> str:
        """Return a job's result, or the end of its output so far. Raises UsageError that names the existing jobs."""
        ...

    async def wait_for_job(self, name: str, seconds: float | None = None) -> JobStatus:
        """Return the state of a job once it has ended or the time is over. Raises UsageError."""
        ...

    async def cancel_job(self, name: str) -> JobStatus: ...

    async def detach_job(self, name: str) -> str:
        """Let a job outlive the session; return its output's path. Raises UsageError if its tool cannot."""
        ...

    def cost(self) -> Cost: ...
