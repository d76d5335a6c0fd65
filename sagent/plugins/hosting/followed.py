"""The root agent of a session in another process, for a client that talks to it. The conversation is read from its log,
and actions are requested from that process. The client does not know where the agent runs."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import SagentError, UsageError
from sagent.events import (
    Event,
    Finished,
    Notice,
    Received,
    ReplyFinished,
    Result,
    Retrying,
    SessionOpened,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
)
from sagent.lib.json import JsonObject, as_str
from sagent.messages import Message, ToolCall
from sagent.peer import Action, JobStatus, Moment, Scope, Status
from sagent.plugins.hosting.figures import Figures
from sagent.plugins.hosting.lines import ServerWait
from sagent.policy.permissions import Mode
from sagent.policy.rules import Rules
from sagent.sandbox.profile import Profile
from sagent.session.blobs import BlobDirectory
from sagent.session.contents import PromptEntry, StoredTool
from sagent.session.folds import charges, contents, history
from sagent.session.log import read_contents, read_log
from sagent.session.names import log_file
from sagent.session.store import named_logs
from sagent.session.view import LogView, MemoryLogView
from sagent.tool import Workspace
from sagent.usage import Cost

_READ_INTERVAL_SECONDS = 0.5  # seconds between two times that the log is read
_ANSWER_TIMEOUT_SECONDS = 5.0  # for an answer to another thread


class Followed(Protocol):
    """A session elsewhere, by what connects to it. `place` works on it, "" if nothing does; `rests` while it has
    nothing to do; `result` is that of its last run. `on_end` is called when a run has ended and all its events have
    arrived. Requests raise SagentError."""

    on_end: Callable[[], object]
    on_waiting: Callable[[str, str], None]

    @property
    def path(self) -> str: ...
    @property
    def place(self) -> str: ...
    @property
    def rests(self) -> bool: ...
    @property
    def model(self) -> str: ...
    @property
    def result(self) -> Result | None: ...
    @property
    def figures(self) -> Figures | None: ...
    def listen(self, listener: Callable[[Event], None], /) -> Callable[[], None]: ...
    def send(self, message: Message | str, moment: Moment = "now", /) -> None: ...
    def interrupt(self, scope: Scope = "tree", /) -> None: ...
    def follow_on(self) -> None: ...
    async def wait(self) -> Result: ...
    def check(self, action: Action, /) -> None: ...
    async def change(self, action: Action, /) -> None: ...
    async def ask(self, **request: object) -> JsonObject: ...
    async def fetch_figures(self) -> Figures: ...
    def start(self, work: Coroutine[None, None, None], /) -> "asyncio.Task[None]": ...
    def end_waits(self) -> None: ...


class Follower:
    """A connection to a session elsewhere: it knows what events have told, and passes them on to listeners. `turns` are
    those of the root agent since then."""

    def __init__(self, model: str = "") -> None:
        self._model, self.turns = model, 0
        self.figures: Figures | None = None
        """As last reported; None before."""
        self.on_end: Callable[[], object] = lambda: None
        self.on_waiting: Callable[[str, str], None] = lambda agent, line: None  # agent, why its call waits
        self._listeners: list[Callable[[Event], None]] = []
        self._waiting: set[str] = set()  # agents with a reported wait
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def model(self) -> str:
        """The root agent's model, as events have told it; before, the one that was known."""
        return self._model

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Pass every event to a function from now on; call the returned function to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def start(self, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        """Start a task that ends by itself or with the connection."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def hear(self, event: Event | Figures | ServerWait | None) -> None:
        """Take what the session's process says; None says that a run has ended and all its events have arrived."""
        if event is None:
            self.end_waits()
            self.on_end()
        elif isinstance(event, Figures):
            self.figures = event
        elif isinstance(event, ServerWait):
            (self._waiting.add if event.line else self._waiting.discard)(event.agent)
            self.on_waiting(event.agent, event.line)
        else:
            if isinstance(event, SessionOpened) and event.agent == "root":
                self._model = event.model
            if isinstance(event, ReplyFinished) and event.agent == "root":
                self.turns += 1
            for listener in tuple(self._listeners):
                listener(event)

    def end_waits(self) -> None:
        """Say of each agent that no call waits any more: what ran is over, or its process is gone."""
        for agent in sorted(self._waiting):
            self.on_waiting(agent, "")
        self._waiting.clear()


def whole_replies(listener: Callable[[Event], None]) -> Callable[[Event], None]:
    """Return a listener for a session whose current reply may have begun unheard: that is passed on once it is
    complete, later ones as they stream."""
    heard_from_its_start = False

    def on_event(event: Event) -> None:
        nonlocal heard_from_its_start
        if event.agent == "root" and not heard_from_its_start:
            if isinstance(event, TextDelta | ThinkingDelta):
                return
            if isinstance(event, ReplyFinished):
                listener(TextDelta("root", event.message.content))
            heard_from_its_start = isinstance(event, ReplyFinished | Retrying | Finished)
        listener(event)

    return on_event


class ReadableLog(Protocol):
    """The directory of a session's logs, as far as they are here. `read` brings new entries."""

    @property
    def directory(self) -> Path: ...
    @property
    def blobs(self) -> BlobDirectory: ...
    @property
    def has_lines(self) -> bool: ...
    async def read(self) -> object: ...


class FollowedAgent:
    """The root agent of a session. Events are passed to the listener once `begin` was called, because a client first
    has to show the conversation so far. `nobody` are errors of requests while nothing works on it, and `rests` says
    that to the person."""

    path = "root"
    nobody: ClassVar[type[SagentError]] = SagentError
    rests: ClassVar[str] = "This session is not running now."

    def __init__(self, peer: Followed, copy: ReadableLog, listener: Callable[[Event], None]) -> None:
        self.peer, self._copy, self._listener = peer, copy, listener
        self._loop = asyncio.get_running_loop()
        self._held: list[Event] | None = []
        self._live = False  # a run has begun and not ended
        self._mine: deque[Message] = deque(maxlen=100)
        self._writing = False  # a reply has begun
        self._from_its_start = True  # whether the current reply was received from its start
        self._working: set[str] = set()  # agents below
        self._stale = asyncio.Event()
        self._read: tuple[Message, ...] = ()
        self._catalog = ""
        self._changed: Callable[[], None] = lambda: None
        peer.listen(self._hear)
        peer.on_end = self._on_end

    @asynccontextmanager
    async def keeping_up(self) -> AsyncGenerator[None]:
        """Read the log while the block lasts. Raises SessionCorrupt, OSError and errors of the connection."""
        await self._take_new()
        with suppress(SagentError):  # nothing works on it
            await self.peer.fetch_figures()
        self._from_its_start = not self.running or bool(self._open_calls())
        task = asyncio.create_task(self._keep_up())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    def begin(self, changed: Callable[[], None]) -> None:
        """Pass on events from now on, once the conversation so far is shown; call `changed` when figures change."""
        held, self._held = self._held or [], None
        self._changed = changed
        if self.running:
            self._listener(_STARTED)
            for call in self._open_calls():
                self._listener(call)
        for event in held[after_known(held, self._read) :]:
            self._listener(event)

    def _open_calls(self) -> list[ToolStarted]:
        last = self._read[-1] if self._read else None
        return [ToolStarted("root", call) for call in last.calls] if last is not None else []

    # -- what is known of it

    @property
    def where(self) -> str:
        """The place that works on it; "" if none does."""
        return self.peer.place if self.running else ""

    @property
    def running(self) -> bool:
        return self._live or not self.peer.rests

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation, as of the last reading of its log, without calls that are in progress."""
        return without_open_calls(self._read) if self.running else self._read

    @property
    def log(self) -> "FollowedLog":
        return FollowedLog(self.peer.path, self._copy)

    @property
    def ledger(self) -> Ledger:
        """A ledger of the charges in the log. Raises OSError and SessionCorrupt."""
        figures = self.peer.figures
        ledger = Ledger(figures.cap if figures else None, PriceBook())
        for file in named_logs(self._copy.directory) if self._copy.has_lines else ():
            ledger.restore(charges(read_log(file)))
        return ledger

    @property
    def tools(self) -> Sequence[StoredTool]:
        prompts = contents(self.log.contents(), PromptEntry)
        return prompts[-1].tools if prompts else ()

    @property
    def advisory(self) -> object:
        raise UsageError("Advice can only be rated where the session runs.")

    @property
    def tree(self) -> "FollowedTree":
        return FollowedTree(self)

    @property
    def agents(self) -> Sequence[Status]:
        """The living agents, root first, as last reported."""
        figures = self.peer.figures
        return figures.agents if figures and self.running else (self.status(),)

    def status(self) -> Status:
        state: Literal["idle", "working"] = "working" if self.running else "idle"
        figures = self.peer.figures
        if figures and figures.agents:
            known = figures.agents[0]
            return replace(known, state=state, jobs=known.jobs if self.running else ())
        return Status("root", state, self.peer.model, 0, 0, usd_tree=self.cost().total)

    def cost(self) -> Cost:
        if (figures := self.peer.figures) is not None:
            return figures.cost
        return self.peer.result.cost if self.peer.result else Cost()

    def jobs(self) -> Sequence[JobStatus]:
        return self.status().jobs

    def catalog(self) -> str:
        """Return the models that it can switch to; "" if unknown. Blocks: for a thread."""
        if not self._catalog and self.running:
            with suppress(SagentError, TimeoutError):
                asking = asyncio.run_coroutine_threadsafe(self.peer.ask(op="catalog"), self._loop)
                self._catalog = as_str(asking.result(_ANSWER_TIMEOUT_SECONDS).get("catalog"))
        return self._catalog

    def messages_of(self, agent: str) -> Sequence[Message]:
        """Return the conversation of an agent of the tree. Raises OSError and SessionCorrupt."""
        file = log_file(self._copy.directory, agent)
        return history(read_contents(file), self._copy.blobs.get) if file.exists() else ()

    # -- what is done to it

    async def run(self, prompt: Message) -> Result:
        """Send a message and wait for the result. Raises errors of the connection."""
        self.send(prompt)
        self._emit(_STARTED)
        return await self.continue_run()

    async def continue_run(self) -> Result:
        """Wait for the end of the current run. Raises errors of the connection."""
        self.peer.follow_on()
        try:
            return await self.peer.wait()
        except SagentError as error:
            self._emit(Notice("root", "error", str(error)))
            raise

    async def wait(self) -> Result:
        return await self.peer.wait()

    def send(self, message: Message, moment: Moment = "now") -> None:
        self._mine.append(message)
        self.peer.send(message, moment)

    def withdraw(self, message: Message) -> bool:
        """Return False: a message that is on its way cannot be withdrawn."""
        del message
        return False

    def interrupt(self, scope: Scope = "tree") -> None:
        self.peer.interrupt(scope)

    def apply(self, action: Action) -> None:
        """Apply an action. Raises UsageError if it is plainly impossible; any later failure is an event."""
        self.peer.check(action)
        if self.running:
            self.peer.start(self._report(self.peer.change(action)))
        else:
            self.apply_at_rest(action)

    def apply_at_rest(self, action: Action) -> None:
        """Apply an action while nothing works on the session. Raises UsageError if that is impossible."""
        raise UsageError(f"{type(action).__name__}: {self.rests}")

    async def compact(self, hints: str = "") -> None:
        del hints
        raise UsageError(self.rests)

    def peers(self, pattern: str = "*") -> "Sequence[FollowedNode]":
        """Return the other living agents whose path, or its last part, matches."""
        nodes = [node for node in self.tree.living if node.path != "root"]
        return [node for node in nodes if any(fnmatchcase(node.path, f) for f in (pattern, f"*/{pattern}"))]

    async def cancel_job(self, name: str) -> object:
        return await self.peer.ask(op="cancel_job", agent="root", job=name)

    async def detach_job(self, name: str) -> str:
        raise UsageError(f"{name} runs on {self.where or 'another process'}: it can be stopped, but not detached.")

    def request(self, **members: object) -> None:
        """Send a request; errors become events."""

        async def ask() -> None:
            await self.peer.ask(**members)
            await self._look()

        self.peer.start(self._report(ask()))

    async def _report(self, work: Awaitable[object]) -> None:
        try:
            await work
        except SagentError as error:
            gone = isinstance(error, self.nobody)
            self._emit(Notice("root", "warning" if gone else "error", self.rests if gone else str(error)))

    # -- what is heard of it

    def _hear(self, event: Event) -> None:
        if event.agent != "root":
            (self._working.discard if isinstance(event, Finished) else self._working.add)(event.agent)
            self._emit(event)
            return
        self._live = self._live or not isinstance(event, Notice)
        match event:
            case SessionOpened():
                self.peer.start(self._report(self._look()))
            case TextDelta() | ThinkingDelta():
                self._writing = True
                if not self._from_its_start:
                    return  # shown once it is complete
            case ReplyFinished() | Finished() | Retrying():
                if isinstance(event, ReplyFinished) and not self._from_its_start:
                    self._emit(TextDelta("root", event.message.content))
                self._writing, self._from_its_start = False, True
                self._stale.set()
            case Received(_, message):
                event = Received("root", next((each for each in self._mine if each == message), message))
            case _:
                pass
        self._emit(event)

    def _emit(self, event: Event) -> None:
        if self._held is None:
            self._listener(event)
        else:
            self._held.append(event)

    async def _look(self) -> None:
        with suppress(self.nobody):
            await self.peer.fetch_figures()
        self._changed()

    def _on_end(self) -> None:
        self._live = False
        self._stale.set()

    async def _keep_up(self) -> None:
        """Read new log entries when an event was received."""
        while True:
            await self._stale.wait()
            self._stale.clear()
            with suppress(SagentError, OSError):
                await self._take_new()
            await asyncio.sleep(_READ_INTERVAL_SECONDS)

    async def _take_new(self) -> None:
        await self._copy.read()
        if self._copy.has_lines:
            self._read = await asyncio.to_thread(lambda: tuple(self.messages_of("root")))


_STARTED = Received("root", Message("user", ()))
"""Event of a turn in progress, for a client that has missed its beginning."""


def without_open_calls(messages: Sequence[Message]) -> Sequence[Message]:
    """Return a conversation without the calls of its last message: they have no results yet."""
    if not messages or not messages[-1].calls:
        return messages
    parts = tuple(part for part in messages[-1].parts if not isinstance(part, ToolCall))
    return (*messages[:-1], replace(messages[-1], parts=parts))


def after_known(events: Sequence[Event], messages: Sequence[Message]) -> int:
    """Return the number of the first events that the end of the conversation already contains. An equal message that
    stands earlier in it is another one."""
    said = [message for message in messages if not message.results]
    results = [result for message in messages for result in message.results]
    told = list[Message]()
    known, reached = 0, False
    for number, event in enumerate(events, 1):
        match event:
            case ReplyFinished("root", message) | Received("root", message):
                if reached:
                    break
                told.append(message)
            case ToolFinished("root", _, result) if result in results:
                pass
            case _:
                continue
        if said[len(said) - len(told) :] == told:
            known, reached = number, bool(told)
    return known


class FollowedNode:
    """An agent of the tree of a session elsewhere."""

    def __init__(self, root: FollowedAgent, status: Status) -> None:
        self._root, self._status, self.path = root, status, status.path

    @property
    def running(self) -> bool:
        return self._status.state == "working"

    @property
    def messages(self) -> Sequence[Message]:
        return self._root.messages_of(self.path)

    def status(self) -> Status:
        return self._status

    def jobs(self) -> Sequence[JobStatus]:
        return self._status.jobs

    def send(self, message: Message | str, moment: Moment = "now") -> None:
        del moment
        text = message if isinstance(message, str) else message.content
        self._root.request(op="send", agent=self.path, text=text)

    def withdraw(self, message: Message) -> bool:
        """Return False: a message that is on its way cannot be withdrawn."""
        del message
        return False

    def interrupt(self, scope: Scope = "tree") -> None:
        self._root.request(op="interrupt", agent=self.path, scope=scope)

    async def cancel_job(self, name: str) -> object:
        return await self._root.peer.ask(op="cancel_job", agent=self.path, job=name)

    async def detach_job(self, name: str) -> str:
        return await self._root.detach_job(name)


class FollowedTree:
    """The agents of a session elsewhere, as last reported."""

    def __init__(self, root: FollowedAgent) -> None:
        self._root = root

    @property
    def living(self) -> Sequence[FollowedNode]:
        return [FollowedNode(self._root, status) for status in self._root.agents]

    def get(self, path: str) -> FollowedNode | None:
        return next((node for node in self.living if node.path == path), None)


class FollowedLog:
    """The root's log as read so far; `path` is a copy that exists while the session is followed."""

    def __init__(self, session: str, copy: ReadableLog) -> None:
        self.session_id, self.path, self._copy = session, str(copy.directory), copy

    def contents(self) -> LogView:
        file = log_file(self._copy.directory, "root")
        return read_contents(file) if file.exists() else MemoryLogView(())


class FollowedPolicy:
    """The policy by which another process judges the calls of a session. Its mode may be changed, as far as that one
    allows, and rules added."""

    def __init__(self, agent: FollowedAgent) -> None:
        self._agent = agent
        self._rules = Rules()

    @property
    def modes(self) -> Sequence[str]:
        """The available modes; none if nothing works on the session."""
        figures = self._agent.peer.figures
        return figures.modes if figures and self._agent.running else ()

    @property
    def mode(self) -> Mode:
        """The mode last reported; "" if unknown."""
        figures = self._agent.peer.figures
        return figures.mode if figures else ""

    @mode.setter
    def mode(self, mode: Mode) -> None:
        if not self.modes:
            raise UsageError(f"{self._agent.rests} The next process that runs it sets the mode.")
        if mode not in self.modes:
            raise UsageError(f"{self._agent.where} allows the modes {', '.join(self.modes)}, not {mode}.")
        self._agent.request(op="mode", mode=mode)

    @property
    def rules(self) -> Rules:
        """The rules that were added here."""
        return self._rules

    @rules.setter
    def rules(self, rules: Rules) -> None:
        added = [rule for rule in rules.allow if rule not in self._rules.allow]
        self._rules = rules
        self._agent.request(op="allow", rules=list(map(str, added)))

    def profile(self, workspace: Workspace) -> Profile:
        raise UsageError("The sandbox of commands is set where the session runs.")
