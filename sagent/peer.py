"""An agent as others see it, and what may be done to it while it runs."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from typing import Literal, Protocol, TypeAlias

from sagent.events import Advice, Result
from sagent.lib.dataclass import dataclass
from sagent.messages import Message
from sagent.usage import Cost

Moment: TypeAlias = Literal["now", "next", "idle"]
"""When a message is read: before the next model call, for which calls that still run go on in the background ("now");
before the next model call, whenever that comes ("next"); when the turn would end ("idle")."""
Scope: TypeAlias = Literal["tree", "self"]
"""What an interruption reaches: an agent and all below it, or it alone."""
JobState: TypeAlias = Literal["running", "done", "failed", "cancelled", "detached"]


@dataclass(frozen=True, slots=True)
class Inject:
    """Put a message into the conversation."""

    message: Message
    moment: Moment = "now"


@dataclass(frozen=True, slots=True)
class Switch:
    """Change what the next model call uses. None leaves a thing as it is; `model` is "provider/id".

    `advisor` is "[name=]provider/id[,options]", or "off", "on", "name=off", "name=on".
    """

    model: str | None = None
    effort: str | None = None
    limits: Mapping[str, int | str] | None = None
    advisor: str | None = None


@dataclass(frozen=True, slots=True)
class Compact:
    """Make the context smaller, keeping the task; `hints` says what matters.

    `drop` names tools whose results give way to stubs, and nothing else changes; "*" is every tool. `clear` forgets the
    conversation but for the person's last request.
    """

    hints: str = ""
    drop: tuple[str, ...] = ()
    clear: bool = False


@dataclass(frozen=True, slots=True)
class Background:
    """Have running calls go on in the background: one, by its id, or all."""

    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Consult:
    """Have an advisor asked, by its name or "" for the first; what it says enters the conversation as a message."""

    question: str = ""
    advisor: str = ""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop one running call, by its id, or the consultation in progress (""), and let the turn go on."""

    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """End the turn before the next model call."""

    reason: str = ""


Action: TypeAlias = Inject | Switch | Compact | Background | Consult | Cancel | Stop


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A call in the background at a glance. `what` is its essential argument; `seconds` it has run."""

    name: str
    tool: str
    what: str
    state: JobState
    seconds: float


@dataclass(frozen=True, slots=True)
class Status:
    """An agent at a glance. `context_tokens` is what its next request would hold, estimated; `window` what it may.

    `holds` is what these tokens are, by kind, and `limits` the bounds that are set. `usd` is its own, `usd_tree` with
    its descendants'; `jobs` are those that run. `advisors` names them, those that are off marked.
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
    holds: Mapping[str, int] = field(default_factory=dict[str, int])
    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    advisors: str = ""


@dataclass(frozen=True, slots=True)
class SpawnRequest:
    """What a new agent is for. None and "" take over what its parent has; it never gets more than that.

    `share` is what it sees of its parent's conversation: nothing, the last hand-offs ("brief"), or all of it ("full").
    A `persistent` agent lives on when it has answered. Its calls are billed to its `role`, and `options` are members of
    their bodies, by default its parent's where both have the same provider.
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


class Peer(Protocol):
    """A local or remote agent: the only thing another agent, a surface or a coordinator may hold."""

    @property
    def path(self) -> str:
        """Its name in the tree: "root", "root/review"."""
        ...

    def send(self, message: Message | str, moment: Moment = "now") -> None:
        """Put a message into its inbox; returns at once."""
        ...

    async def wait(self) -> Result:
        """The result of the run now in progress, or of the last one."""
        ...

    def interrupt(self, scope: Scope = "tree") -> None:
        """Stop its model call and tools, and those of all below it; every history stays valid."""
        ...

    def check(self, action: Action) -> None:
        """Raise UsageError for a change that cannot be made."""
        ...

    def apply(self, action: Action) -> None:
        """Ask for a change; it takes effect between two model calls. Raises UsageError when it cannot be made."""
        ...

    def status(self) -> Status: ...


class Caller(Peer, Protocol):
    """The agent that makes a call, as its tool may use it: what an agent can do to itself and in its tree."""

    async def consult(self, question: str = "", advisor: str = "") -> Sequence[Advice]:
        """Ask an advisor, by its name, or the first; all of a panel. Raises UsageError where there is none."""
        ...

    async def spawn(self, order: SpawnRequest) -> Peer:
        """A new agent below this one, at work on its prompt. Raises UsageError or BudgetExceeded: none was begun."""
        ...

    def peers(self, pattern: str = "*") -> Sequence[Peer]:
        """The other living agents of the tree whose path, or its end, matches; a name means a child before others."""
        ...

    def post(self, path: str, message: Message, seconds: float = 0.0) -> None:
        """Send a message to a living agent, now or later."""
        ...

    def catalog(self) -> str:
        """The models that can be switched to, with windows and prices, for a model to read. May block: use a thread."""
        ...

    def jobs(self) -> Sequence[JobStatus]:
        """Its calls in the background, those that have ended included."""
        ...

    def job_output(self, name: str) -> str:
        """A job's result, or the end of what it has shown so far. Raises UsageError naming the jobs there are."""
        ...

    async def wait_for_job(self, name: str, seconds: float | None = None) -> JobStatus:
        """How a job stands when it has ended or the time is over. Raises UsageError."""
        ...

    async def cancel_job(self, name: str) -> JobStatus: ...

    async def detach_job(self, name: str) -> str:
        """Have a job outlive the session, and say where its output goes. Raises UsageError where its tool cannot."""
        ...

    def cost(self) -> Cost: ...
