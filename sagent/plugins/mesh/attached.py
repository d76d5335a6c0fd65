"""The root agent of a session on a bus, for a client that talks to it. The conversation is read from its log, and
actions are requested from its node. The client does not know where the agent runs."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Literal, Self

from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import SagentError, UsageError
from sagent.events import (
    Event,
    Failure,
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
from sagent.lib.json import as_str
from sagent.messages import Message
from sagent.peer import Action, JobStatus, Moment, Scope, Status, Switch
from sagent.plugins.mesh import names
from sagent.plugins.mesh.errors import Fenced, MeshError, NobodyThere, Unavailable
from sagent.plugins.mesh.jetstream import JetStream
from sagent.plugins.mesh.logstream import SessionStream
from sagent.plugins.mesh.rebuild import LogCopy
from sagent.plugins.mesh.records import Records, SessionRecord
from sagent.plugins.mesh.remote import RemotePeer
from sagent.plugins.mesh.tasks import end
from sagent.policy.permissions import Mode
from sagent.policy.rules import Rules
from sagent.sandbox.profile import Profile
from sagent.sandbox.scratch import temporary
from sagent.session.contents import PromptEntry, StoredTool
from sagent.session.folds import charges, contents, history
from sagent.session.log import read_contents, read_log
from sagent.session.names import log_file
from sagent.session.store import named_logs
from sagent.session.view import LogView, MemoryLogView
from sagent.tool import Workspace
from sagent.usage import Cost

_CHECK_INTERVAL_SECONDS = 1.0  # seconds between checks of who holds the session
_SILENT = 3  # checks after which a node without the lease counts as stopped, or all nodes as full
_READ_INTERVAL_SECONDS = 0.5  # seconds between two times that the log is read
_ANSWER_TIMEOUT_SECONDS = 5.0  # for an answer to another thread
_RESTS = "No node is running this session now. Send a message first, or include this in one."


class RemoteAgent:
    """The root agent of a session. Events are passed to the listener once `begin` was called, because a client first
    has to show the conversation so far."""

    path = "root"

    def __init__(self, bus: JetStream, peer: RemotePeer, copy: LogCopy, listener: Callable[[Event], None]) -> None:
        self._bus, self.peer, self._copy, self._listener = bus, peer, copy, listener
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
        peer.on_end, peer.on_record = self._on_end, self._on_record

    @classmethod
    @asynccontextmanager
    async def followed(
        cls, bus: JetStream, peer: RemotePeer, listener: Callable[[Event], None]
    ) -> AsyncGenerator[Self]:
        """Follow a session while the block lasts. Raises SessionCorrupt, Unavailable and OSError."""
        with temporary() as place:
            copy = LogCopy(SessionStream(bus, peer.record.id), place / peer.record.id)
            agent = cls(bus, peer, copy, listener)
            try:
                await agent._take_new()
                with suppress(MeshError):  # no node works on it
                    await peer.fetch_figures()
                agent._from_its_start = not agent.running or bool(agent._open_calls())
                tasks = [asyncio.create_task(agent._keep_up()), asyncio.create_task(agent._watch())]
                try:
                    yield agent
                finally:
                    await end(*tasks)
            finally:
                copy.close()

    def begin(self, changed: Callable[[], None]) -> None:
        """Pass on events from now on, once the conversation so far is shown; call `changed` when figures change."""
        held, self._held = self._held or [], None
        self._changed = changed
        if self.running:
            self._listener(_STARTED)
            for call in self._open_calls():
                self._listener(call)
        for event in held[_after_known(held, self._read) :]:
            self._listener(event)

    def _open_calls(self) -> list[ToolStarted]:
        last = self._read[-1] if self._read else None
        return [ToolStarted("root", call) for call in last.calls] if last is not None else []

    # -- what is known of it

    @property
    def where(self) -> str:
        """The node that works on it; "" if none does."""
        return self.peer.record.node if self.running else ""

    @property
    def running(self) -> bool:
        return self._live or self.peer.record.state != "idle"

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation, as of the last reading of its log."""
        return self._read

    @property
    def log(self) -> "RemoteLog":
        return RemoteLog(self.peer.path, self._copy)

    @property
    def ledger(self) -> Ledger:
        """A ledger of the charges in the log. Raises OSError and SessionCorrupt."""
        figures = self.peer.figures
        ledger = Ledger(figures.cap if figures else None, PriceBook())
        for file in named_logs(self._copy.directory) if self._copy.found.lines else ():
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
    def tree(self) -> "RemoteTree":
        return RemoteTree(self)

    @property
    def agents(self) -> Sequence[Status]:
        """The living agents, root first, as last reported by its node."""
        figures = self.peer.figures
        return figures.agents if figures and self.running else (self.status(),)

    def status(self) -> Status:
        state: Literal["idle", "working"] = "working" if self.running else "idle"
        record, figures = self.peer.record, self.peer.figures
        if figures and figures.agents:
            known = figures.agents[0]
            return replace(known, state=state, jobs=known.jobs if self.running else ())
        model = self.peer.status().model or (record.result.model if record.result else record.flags.get("model", ""))
        return Status("root", state, model, 0, 0, usd_tree=self.cost().total)

    def cost(self) -> Cost:
        if (figures := self.peer.figures) is not None:
            return figures.cost
        return self.peer.record.result.cost if self.peer.record.result else Cost()

    def jobs(self) -> Sequence[JobStatus]:
        return self.status().jobs

    def catalog(self) -> str:
        """Return the models that its node can switch to; "" if unknown. Blocks: for a thread."""
        if not self._catalog and self.running:
            with suppress(MeshError, TimeoutError):
                asking = asyncio.run_coroutine_threadsafe(self.peer.ask(op="catalog"), self._loop)
                self._catalog = as_str(asking.result(_ANSWER_TIMEOUT_SECONDS).get("catalog"))
        return self._catalog

    def messages_of(self, agent: str) -> Sequence[Message]:
        """Return the conversation of an agent of the tree. Raises OSError and SessionCorrupt."""
        file = log_file(self._copy.directory, agent)
        return history(read_contents(file), self._copy.blobs.get) if file.exists() else ()

    # -- what is done to it

    async def run(self, prompt: Message) -> Result:
        """Send a message and wait for the result. Raises MeshError."""
        self.send(prompt)
        self._emit(_STARTED)
        return await self.continue_run()

    async def continue_run(self) -> Result:
        """Wait for the end of the current run. Raises MeshError."""
        self.peer.follow_on()
        try:
            return await self.peer.wait()
        except MeshError as error:
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
        elif isinstance(action, Switch) and action.limits is None and action.advisor is None:
            self.peer.start(self._report(self._switch_at_rest(action)))
        else:
            raise UsageError(_RESTS)

    async def _switch_at_rest(self, action: Switch) -> None:
        """Have the next node open it with another model or effort."""
        chosen = {"model": action.model, "effort": action.effort}
        records = Records(self._bus)
        record, revision = await records.get(self.peer.path)
        flags = {**record.flags, **{name: text for name, text in chosen.items() if text}}
        try:
            await records.change(record, revision, flags=flags)
        except Fenced:
            await self.peer.change(action)
        words = " and ".join(f"{name} {text}" for name, text in chosen.items() if text)
        self._emit(Notice("root", "info", f"It continues with {words}."))

    async def compact(self, hints: str = "") -> None:
        del hints
        raise UsageError(_RESTS)

    def peers(self, pattern: str = "*") -> "Sequence[RemoteNode]":
        """Return the other living agents whose path, or its last part, matches."""
        nodes = [node for node in self.tree.living if node.path != "root"]
        return [node for node in nodes if any(fnmatchcase(node.path, f) for f in (pattern, f"*/{pattern}"))]

    async def cancel_job(self, name: str) -> object:
        return await self.peer.ask(op="cancel_job", agent="root", job=name)

    async def detach_job(self, name: str) -> str:
        raise UsageError(f"{name} runs on {self.where or 'a node'}: it can be stopped, but not detached.")

    def request(self, **asked: object) -> None:
        """Send a request to its node; errors become events."""

        async def ask() -> None:
            await self.peer.ask(**asked)
            await self._look()

        self.peer.start(self._report(ask()))

    async def _report(self, work: Awaitable[object]) -> None:
        try:
            await work
        except NobodyThere:
            self._emit(Notice("root", "warning", _RESTS))
        except SagentError as error:
            self._emit(Notice("root", "error", str(error)))

    # -- what is heard of it

    def _hear(self, event: Event) -> None:
        if event.agent != "root":
            (self._working.discard if isinstance(event, Finished) else self._working.add)(event.agent)
            self._emit(event)
            return
        self._live = True
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

    def _on_moved(self) -> None:
        """End open replies and calls: another node has the session now."""
        self.peer.end_waits()
        if self._writing:
            self._writing = False
            self._emit(Retrying("root", "The node that wrote it has stopped", "node", 1, 0.0, "…"))
        for agent in sorted(self._working):
            lost = Result("", (), "interrupted", Failure("interrupted", "Its node has stopped."))
            self._emit(Finished(agent, lost))
        self._working.clear()

    async def _look(self) -> None:
        with suppress(NobodyThere):
            await self.peer.fetch_figures()
        self._changed()

    def _on_end(self) -> None:
        self._live = False
        self._stale.set()

    def _on_record(self, before: SessionRecord) -> None:
        now = self.peer.record
        if now.state == "idle":
            self._live = False
            self._stale.set()
        elif before.node and now.node != before.node and now.state == "working" and before.state != "idle":
            text = f"Node {now.node} continues this session, which ran on {before.node} before."
            self._emit(Notice("root", "info", text))
            self._on_moved()
        self._changed()

    async def _keep_up(self) -> None:
        """Read new log entries when an event was received."""
        while True:
            await self._stale.wait()
            self._stale.clear()
            with suppress(Unavailable):
                await self._take_new()
            await asyncio.sleep(_READ_INTERVAL_SECONDS)

    async def _take_new(self) -> None:
        await self._copy.read()
        if self._copy.found.lines:
            self._read = await asyncio.to_thread(lambda: tuple(self.messages_of("root")))

    async def _watch(self) -> None:
        """Report when nobody holds a session that has work, and when the bus is away."""
        leases, silent, away = self._bus.bucket(names.LEASES), 0, False
        while True:
            await asyncio.sleep(_CHECK_INTERVAL_SECONDS)
            if self._bus.is_up == away:
                away = not away
                text = "The bus cannot be reached." if away else "The bus is back. To see messages since then: /earlier"
                self._emit(Notice("root", "warning" if away else "info", text))
                self._stale.set()
            if away or not self.running:
                silent = 0
                continue
            figures = self.peer.figures
            if figures is None or figures.node != self.peer.record.node:
                with suppress(MeshError):
                    await self._look()
            with suppress(Unavailable):
                silent = 0 if await leases.get(names.token(self.peer.path)) is not None else silent + 1
            if silent == _SILENT and self.running:
                self._emit(Notice("root", "warning", self._silence()))

    def _silence(self) -> str:
        record = self.peer.record
        if record.state == "queued" or not record.node:
            return (
                f"This session is waiting for a node with a free "
                f"slot{f' and the label {record.label}' * bool(record.label)}."
            )
        return f"Node {record.node} no longer answers. The next node with a free slot continues this session."


_STARTED = Received("root", Message("user", ()))
"""Event of a turn in progress, for a client that has missed its beginning."""


def _after_known(events: Sequence[Event], messages: Sequence[Message]) -> int:
    """Return the number of the first events that the conversation already contains."""
    known = 0
    for number, event in enumerate(events, 1):
        match event:
            case ReplyFinished("root", message) | Received("root", message) if message in messages:
                known = number
            case ToolFinished("root", _, result) if any(result in message.results for message in messages):
                known = number
            case _:
                pass
    return known


class RemoteNode:
    """An agent of the tree of a session on a bus."""

    def __init__(self, root: RemoteAgent, status: Status) -> None:
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


class RemoteTree:
    """The agents of a session on a bus, as last reported by its node."""

    def __init__(self, root: RemoteAgent) -> None:
        self._root = root

    @property
    def living(self) -> Sequence[RemoteNode]:
        return [RemoteNode(self._root, status) for status in self._root.agents]

    def get(self, path: str) -> RemoteNode | None:
        return next((node for node in self.living if node.path == path), None)


class RemoteLog:
    """The root's log as read so far; `path` is a copy that exists while the session is followed."""

    def __init__(self, session: str, copy: LogCopy) -> None:
        self.session_id, self.path, self._copy = session, str(copy.directory), copy

    def contents(self) -> LogView:
        file = log_file(self._copy.directory, "root")
        return read_contents(file) if file.exists() else MemoryLogView(())


class RemotePolicy:
    """The policy by which a node judges the calls of a session. Its mode may be changed, up to the node's own, and
    rules added."""

    def __init__(self, agent: RemoteAgent) -> None:
        self._agent = agent
        self._rules = Rules()

    @property
    def modes(self) -> Sequence[str]:
        """The available modes; none if no node works on the session."""
        figures = self._agent.peer.figures
        return figures.modes if figures and self._agent.running else ()

    @property
    def mode(self) -> Mode:
        """The mode last reported by the node; "" if unknown."""
        figures = self._agent.peer.figures
        return figures.mode if figures else ""

    @mode.setter
    def mode(self, mode: Mode) -> None:
        if not self.modes:
            raise UsageError("No node is running this session now; the node that takes it sets the mode.")
        if mode not in self.modes:
            raise UsageError(f"Node {self._agent.where} allows the modes {', '.join(self.modes)}, not {mode}.")
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
        raise UsageError("The sandbox of commands is set by the node.")
