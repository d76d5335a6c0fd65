"""The agents of a session: the living ones, their relations, their limits and their allowances."""

import asyncio
import re
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Never

from sagent.agent.asking import Prompt, shorten
from sagent.agent.conversation import Conversation
from sagent.cost.ledger import Ledger
from sagent.engine.context import Prompts
from sagent.engine.state import AgentState
from sagent.errors import UsageError
from sagent.events import Event, Received, Result
from sagent.lib.dataclass import dataclass
from sagent.lib.money import TOO_MUCH
from sagent.messages import Message, user
from sagent.peer import Scope, SpawnRequest, Stop
from sagent.session.contents import MessageDelivered, MessagePosted, StoredMessage
from sagent.session.entries import Entry
from sagent.session.folds import on_their_way

if TYPE_CHECKING:
    from sagent.agent.preparation import Preparation
    from sagent.usage import Saving

MAX_NAME_CHARS = 40
END_SECONDS = 5.0  # for ending agents; slower ones are abandoned


@dataclass(frozen=True, slots=True)
class TreeLimits:
    """Limits of a tree: generations below the root, agents alive at a time, and agents in a session; and how many
    messages its agents may read from each other without a message from a person in between, None for no limit."""

    max_depth: int = 5
    max_live: int = 32
    max_spawns: int = 256
    max_exchanges: int | None = 1_000


class Node(Conversation):
    """An agent, as seen by others of its tree."""

    tree: "Tree"  # all agents of its session
    preparation: "Preparation[Never]"  # preparation of each of its runs

    @property
    @abstractmethod
    def last(self) -> Result | None:
        """The result of its last run."""

    @property
    @abstractmethod
    def busy(self) -> bool:
        """True while it works, or has something to read or to wait for, after which it will continue."""

    @property
    @abstractmethod
    def hears(self) -> bool:
        """True if messages sent to it now will be read."""

    @abstractmethod
    def reopen(self) -> None:
        """Save its conversation in its session, even after it was closed. Raises UsageError and SessionBusy."""

    @abstractmethod
    async def answer(self, prompt: Prompt, deps: object) -> Result:
        """Answer one prompt, as `run` does."""

    @abstractmethod
    async def resume(self) -> None:
        """Resume unfinished work from the log of an earlier process."""

    @abstractmethod
    def spawn_like(
        self, model: "Node", name: str, prompt: Message, messages: Sequence[Message] | None, deps: object
    ) -> "Node":
        """Return a copy of another agent below this one, working on a prompt with these dependencies; `messages` is its
        earlier conversation, by default the other's own. Raises UsageError; then none was started."""

    @abstractmethod
    async def spawn_with(self, request: SpawnRequest, deps: Callable[[], object] | None = None) -> "Node":
        """Spawn like `spawn`. `deps` returns each turn's dependencies, by default those of this agent's current run."""

    @abstractmethod
    def end(self) -> "asyncio.Task[None] | None":
        """Begin to end a spawned agent and those below it; the task is done when it has ended."""

    @abstractmethod
    async def aclose(self) -> None:
        """End everything in progress, and the agents below it."""


class Tree:
    """Every living agent of a session by its path. A path is never used twice, not even with other capitals, because on
    some systems that would be the same file. `post` is set by the agent at its root."""

    def __init__(self, limits: TreeLimits | None = None) -> None:
        self.limits = limits or TreeLimits()
        self._living: dict[str, Node] = {}
        self._used: set[str] = set()
        self._spawns = 0
        self._exchanges = 0  # messages between agents since a person's last message
        self._numbers: dict[str, int] = {}  # last given, by the beginning of the path
        self._detached: list[str] = []  # by agents that have ended
        self.prompts = Prompts()
        self.savings: dict[str, Saving] = {}  # of compactions, by path, as of the last run of each
        self.post: DelayedMail | None = None

    @property
    def living(self) -> Sequence[Node]:
        """The agents that can be sent a message, root first."""
        return tuple(self._living[path] for path in sorted(self._living))

    def get(self, path: str) -> Node | None:
        """Return a living agent by its whole path."""
        return self._living.get(path)

    def add(self, agent: Node) -> None:
        """Add an agent that now lives."""
        self._living[agent.path] = agent
        self.register(agent.path)

    def remove(self, agent: Node) -> None:
        """Remove an agent that has ended."""
        if self._living.get(agent.path) is agent:
            del self._living[agent.path]
            self._detached += _detached_jobs(agent)

    def attend(self, event: Event) -> None:
        """Count the messages that agents read from each other and from jobs, and stop all agents if there are too many:
        two agents that answer each other would never end by themselves, and neither would one that starts a job at the
        end of each turn."""
        if not isinstance(event, Received):
            return
        sender, most = event.message.sender, self.limits.max_exchanges
        if sender.lower() not in self._used and not sender.startswith("job:"):
            self._exchanges = 0 if not sender else self._exchanges
            return
        self._exchanges += 1
        if most is None or self._exchanges <= most:
            return
        living = self.living
        for agent in living:  # again, in case one has written before it was stopped
            if "/" in agent.path:
                agent.interrupt("self")
            elif agent.running:
                agent.apply(Stop("max_exchanges"))
        if living and self._exchanges == most + 1:
            text = (
                f"All agents were stopped: they have read {most} messages from each other or from jobs, without a "
                "message"
            )
            more = "from you. Write to continue; max_exchanges (--max-exchanges) changes the limit."
            living[0].state.journal.notify("warning", f"{text} {more}")

    @property
    def detached(self) -> Sequence[str]:
        """The jobs that outlive the session, each with its output's path and the way to end it."""
        return (*self._detached, *(job for agent in self.living for job in _detached_jobs(agent)))

    def interrupt(self, path: str, scope: Scope = "tree") -> None:
        """Interrupt an agent by its path, as its own `interrupt` does. Raises UsageError that names living agents."""
        if (agent := self._living.get(path)) is None:
            raise UsageError(f"No living agent is called {path!r}. There are: {', '.join(sorted(self._living))}.")
        agent.interrupt(scope)

    def reserve(self, parent: str, name: str, max_depth: int | None = None) -> str:
        """Return a path for a new agent below another, which is taken once the agent is added: nothing may be awaited
        before that. Raises UsageError if there are too many agents. An agent without a name gets a number; one whose
        name is taken gets a number after it."""
        depth, limits = parent.count("/") + 1, self.limits
        most = limits.max_depth if max_depth is None else min(max_depth, limits.max_depth)
        if depth > most:
            raise UsageError(f"{parent} cannot spawn: agents may be at most {most} deep. Do the work yourself.")
        if len(self._living) - 1 >= limits.max_live:
            raise UsageError(
                f"no more than {limits.max_live} agents may run at a time (max_live_agents), and {limits.max_spawns} "
                f"be spawned in a session (max_spawns), {self._spawns} so far. Wait for one of them to end: "
                f"{', '.join(sorted(self._living))}."
            )
        if self._spawns >= limits.max_spawns:
            raise UsageError(f"this session has reached its limit of spawned agents, {self._spawns} (max_spawns).")
        path = f"{parent}/{_segment(name)}" if name else self._numbered(f"{parent}/")
        if path.lower() in self._used:
            path = self._numbered(f"{path}-", 2)
        return path

    def register(self, path: str) -> None:
        """Count an agent of this session, from this run or an earlier one, once."""
        if path.lower() not in self._used:
            self._used.add(path.lower())
            self._spawns += "/" in path

    def find(self, pattern: str, near: str) -> Sequence[Node]:
        """Return the living agents that a name or pattern means, as seen from the agent that uses it.

        A complete path first; then a child, a sibling, any other agent with that name or end of a path; "*" and "?"
        match as in file names, and "*" alone means all others. "parent" is the agent above.
        """
        wanted = pattern.strip().strip("/")
        above = near.rpartition("/")[0]
        hearing = {path: agent for path, agent in sorted(self._living.items()) if agent.hears}
        others = {path: agent for path, agent in hearing.items() if path != near}
        if wanted == "parent" and above:
            return (hearing[above],) if above in hearing else ()
        if any(sign in wanted for sign in "*?["):
            forms = (wanted, f"*/{wanted}")
            return tuple(agent for path, agent in others.items() if any(fnmatchcase(path, form) for form in forms))
        if wanted in hearing:
            return (hearing[wanted],)
        for path in (f"{near}/{wanted}", f"{above}/{wanted}"):
            if path in others:
                return (others[path],)
        return tuple(agent for path, agent in others.items() if path.endswith(f"/{wanted}"))

    def below(self, path: str) -> Sequence[Node]:
        """Return the living descendants of an agent, the deepest first."""
        found = [agent for name, agent in self._living.items() if name.startswith(f"{path}/")]
        return sorted(found, key=lambda agent: -agent.path.count("/"))

    def deliver(self, path: str, message: Message) -> None:
        """Let an agent read something in its next pause, if it still reads."""
        if (agent := self._living.get(path)) is not None and agent.hears:
            agent.inform(message)

    def deliver_late(self, path: str, message: Message) -> None:
        """Send an agent a delayed message; its sender is informed if it cannot be delivered."""
        agent = self._living.get(path)
        if agent is not None and agent.hears:
            agent.send(message)
            return
        said = shorten(message.content)
        text = f"{path} has ended, so your message did not reach it: {said}"
        self.deliver(message.sender, user(text, sender="sagent"))

    def wake_above(self, path: str) -> None:
        """Wake the agents above one that has ended a run, because they may wait for it."""
        while path:
            path = path.rpartition("/")[0]
            if agent := self._living.get(path):
                agent.wake()

    async def end_below(self, path: str) -> None:
        """End the descendants of an agent; returns when they have ended, or after a few seconds."""
        tasks = [task for agent in self.below(path) if (task := agent.end()) is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=END_SECONDS)

    def _numbered(self, stem: str, first: int = 1) -> str:
        number = self._numbers.get(stem, first)
        while f"{stem}{number}".lower() in self._used:
            number += 1
        self._numbers[stem] = number  # not one more: nobody may take it
        return f"{stem}{number}"


class DelayedMail:
    """Delivers messages at a given time, while the session is open. A delayed message is in the log of the agent whose
    state is `root` until it is delivered, so it survives the process."""

    def __init__(self, root: AgentState, deliver: Callable[[str, Message], None]) -> None:
        self._root, self._deliver = root, deliver
        self._timers: set[asyncio.TimerHandle] = set()

    @property
    def waiting(self) -> bool:
        """True while any message is undelivered."""
        return bool(self._timers)

    def later(self, path: str, message: Message, seconds: float) -> None:
        """Deliver a message in some seconds."""
        due = datetime.now(UTC) + timedelta(seconds=seconds)
        entry = MessagePosted(path, StoredMessage.of(message, self._root.journal.keep), due.isoformat())
        self._wait(path, message, seconds, self._root.journal.record(entry))

    def resume(self, entries: Iterable[Entry]) -> None:
        """Resume the messages that an earlier process left in the log; overdue ones arrive now."""
        for found in on_their_way(entries, self._root.log.blobs.get):
            seconds = (found.due_at - datetime.now(UTC)).total_seconds()
            self._wait(found.to, found.message, max(0.0, seconds), found.entry)

    def close(self) -> None:
        """Deliver nothing more. Delayed messages stay in the log."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _wait(self, path: str, message: Message, seconds: float, entry: str) -> None:
        def arrive() -> None:
            self._timers.discard(timer)
            self._deliver(path, message)
            self._root.journal.record(MessageDelivered(path, entry))
            self._root.inbox.nudge("next")

        timer = asyncio.get_running_loop().call_later(seconds, arrive)
        self._timers.add(timer)


def check_usd(value: object) -> None:
    """Raise UsageError for an invalid allowance."""
    if not isinstance(value, Decimal):
        raise UsageError(f'budget_usd={value!r:.60}: give USD as a Decimal, as Decimal("0.50")')
    if not value.is_finite() or not 0 <= value < TOO_MUCH:
        raise UsageError(f"budget_usd: give an amount of USD, not {value}")


@contextmanager
def allowance(ledger: Ledger, path: str, usd: Decimal | None) -> Generator[None]:
    """Set an allowance aside, if there is one, for an agent that is started in this block; it is returned if that
    fails. Raises BudgetExceeded, and UsageError for an invalid amount."""
    if usd is not None:
        check_usd(usd)
        ledger.allow(path, usd)
    try:
        yield
    except BaseException:
        ledger.take_back(path)
        raise


def _segment(name: str) -> str:
    """Return a name in the form used in paths. Raises UsageError if nothing of it can be used."""
    segment = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:MAX_NAME_CHARS]
    if not segment or segment == "parent":
        raise UsageError(f"{name!r} is not a valid agent name: use letters, digits, - and _")
    return segment


def _detached_jobs(agent: Node) -> list[str]:
    return [f"{agent.path}: {agent.job_output(job.name)}" for job in agent.jobs() if job.state == "detached"]
