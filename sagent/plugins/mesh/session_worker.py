"""A session on a node, from its lease to its end, or until another node takes over."""

import asyncio
import errno
import json
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from sagent.agent import Agent, Asker
from sagent.errors import SagentError, SessionCorrupt, SessionNotFound, UsageError
from sagent.events import (
    Advised,
    Event,
    Failure,
    Finished,
    Notice,
    ReplyFinished,
    Result,
    Switched,
    ToolFinished,
)
from sagent.lib.dataclass import dataclass
from sagent.messages import Document, Image, Message, Text, user
from sagent.peer import Stop
from sagent.plugins.hosting.requests import Requests
from sagent.plugins.mesh import names
from sagent.plugins.mesh.barrier import Barrier
from sagent.plugins.mesh.broadcast import END_LINE, Broadcast
from sagent.plugins.mesh.child import NodeAgent
from sagent.plugins.mesh.control import Answer, Asking
from sagent.plugins.mesh.errors import Failed, Fenced, MeshError, NoRoom, Unavailable, WrongVersion
from sagent.plugins.mesh.jetstream import JetStream
from sagent.plugins.mesh.lease import Lease
from sagent.plugins.mesh.logstream import SessionStream
from sagent.plugins.mesh.mirror import Mirror, take_over
from sagent.plugins.mesh.opencalls import answer_open_calls, is_unfinished
from sagent.plugins.mesh.rebuild import Rebuilt, rebuild
from sagent.plugins.mesh.records import Records, SessionRecord, check_flags
from sagent.plugins.mesh.remote import Mesh
from sagent.plugins.mesh.replies import Replies
from sagent.plugins.mesh.streams import Intake, LeasedMessage
from sagent.plugins.mesh.tasks import drop_error, end, keep_running
from sagent.plugins.mesh.trace import attached_context
from sagent.plugins.mesh.workspace import Files
from sagent.session.contents import FailedEntry
from sagent.session.folds import origin

_MOVED_TO = "This session has moved to another machine. Your working directory is now "
MOVED = "moved"  # stop reason of a turn that another node continues
_CHECK_INTERVAL_SECONDS = 1.0  # seconds between checks for waiting messages
_TELLING = (ReplyFinished, ToolFinished, Advised, Switched, Finished)  # events after which figures have changed
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)  # problems of this disk that another node does not have
_RETRY_DELAY_SECONDS = 0.2  # until the bus is tried again
_ACK_TIMEOUT_SECONDS = 4.0  # until a message of a node that is gone is delivered to the next


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """The options of a node: its `name`, how many sessions it works on at a time, the labels whose work it takes
    besides unlabelled work, where it keeps sessions and their files, and the shared directories in which sessions may
    work."""

    name: str
    slots: int
    labels: tuple[str, ...]
    directory: Path
    shared: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Opening:
    """An agent to open: its session's directory and its working directory; `flags` are among records.remote_flags(),
    and `on_waiting` receives an agent and why its call waits."""

    session: Path
    cwd: Path
    flags: Mapping[str, str]
    on_waiting: Callable[[str, str], None] = lambda agent, line: None


OpenAgent: TypeAlias = Callable[
    [Opening, Callable[[Event], None], Asker, Answer, Barrier], AbstractAsyncContextManager[Agent]
]
"""Opens the agent of a session and asks attached clients its questions. Raises SagentError."""


class SessionWorker:
    """Works on a session until no message waits for it. If it loses the lease, or meets another writer, it stops its
    agent and all its processes before another node may begin."""

    def __init__(
        self,
        bus: JetStream,
        node: NodeOptions,
        session: str,
        lease: Lease,
        on_event: Callable[[Event], None] = lambda event: None,
    ) -> None:
        self._on_event = on_event
        self._bus, self._own, self._session, self._lease = bus, node, session, lease
        self._node, self._place = node.name, node.directory
        self._records, self._stream = Records(bus), SessionStream(bus, session)
        self._broadcast, self._asking = Broadcast(bus, session, lease.revision), Asking(bus, session, node.name)
        self._moving, self._lost = asyncio.Event(), asyncio.Event()
        self._mirror: Mirror | None = None
        self._done = False
        self._failure: BaseException | None = None  # of a task that the work needs
        self._taken, self._acks = set[int](), set[asyncio.Task[None]]()
        self._replies = Replies()
        self._requests: Requests | None = None
        self._changing = asyncio.Lock()
        self._record: tuple[SessionRecord, int] | None = None

    def move(self) -> None:
        """Release the session between two model calls, so that another node continues it."""
        self._moving.set()

    async def work(self, open_agent: OpenAgent) -> bool:
        """Return True if the session is finished, False if another node has to continue. Raises SagentError."""
        keeping, working = asyncio.create_task(self._lease.keep()), asyncio.create_task(self._work(open_agent))
        lost = asyncio.create_task(self._lost.wait())
        try:
            await asyncio.wait([keeping, working, lost], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._fence()  # first, because the interruption must not be logged
            await end(keeping, working, lost)
        if not working.cancelled() and (error := working.exception()) and not isinstance(error, Fenced):
            raise error
        if not self._done and isinstance(self._lease.problem, NoRoom):
            raise self._lease.problem
        if not self._done and isinstance(self._failure, Exception):
            raise self._failure
        return self._done

    def _fence(self) -> None:
        """Publish nothing from here on, because the session may be another node's."""
        self._lost.set()
        if self._mirror is not None:
            self._mirror.fence()

    def _needed(self, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        """Start a task that the work needs; if it fails or ends by itself, the session is released."""
        task = asyncio.create_task(work)
        task.add_done_callback(self._give_up_after)
        return task

    def _give_up_after(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled():
            self._failure = self._failure or task.exception()
            self._fence()

    async def _work(self, open_agent: OpenAgent) -> None:
        try:
            self._record = await self._records.get(self._session)
        except SessionNotFound:
            self._done = True
            return
        before = self._record[0]
        self._taken = set(before.answered)
        after = await take_over(self._stream, f"{self._node} {self._lease.revision}")
        directory = self._place / "sessions" / self._session
        try:
            rebuilt = await rebuild(self._stream, directory, after)
            if not rebuilt.lines and before.result is not None and before.result.turns:
                raise SessionCorrupt(f"The bus has lost the log of session {self._session}: begin another session.")
        except SessionCorrupt as error:  # no node can work on it, and the waiting clients learn why
            await self._finish(before, await self._give_up(error))
            return
        files = Files(
            self._bus.store(names.BLOBS), before.files, self._place / "files" / self._session, self._own.shared
        )
        await self._change(state="working", node=self._node)
        mirror = self._mirror = Mirror(self._stream, after, rebuilt.files)
        tasks = [self._needed(mirror.run()), asyncio.create_task(self._broadcast.run())]
        try:
            try:
                cwd = await files.restore(rebuilt.files or before.base)
                check_flags(before.flags)
                opening = Opening(directory, cwd, before.flags, self._tell)
                with attached_context(before.trace):
                    result = await self._run(open_agent, opening, mirror, files, rebuilt, before)
                await mirror.settled()  # including entries logged during closing
            except MeshError:
                raise
            except Exception as error:  # the requester learns of it, and nodes do not retry for ever
                if isinstance(error, OSError) and error.errno in _FULL:
                    raise
                result = await self._give_up(error)
            if result is None:
                await self._change(state="queued")
            else:
                await self._finish(before, result, now=mirror.files)
        finally:
            self._fence()
            await end(*tasks, *self._acks)

    async def _finish(self, before: SessionRecord, result: Result, **changes: object) -> None:
        """Report the results to all waiting messages."""
        await self._broadcast.flush(END_LINE)
        await self._change(state="idle", **changes, **self._replies.changes(before, self._taken, result))
        self._done = True  # from here on, though the rest is cancelled

    async def _change(self, **changes: object) -> None:
        """Change the session's record. Raises Fenced if another writer has, Unavailable."""
        async with self._changing:
            assert self._record is not None
            self._record = await self._records.change(*self._record, **changes)

    async def _keep_chosen(self, requests: Requests) -> None:
        """Have the next node, too, open the agent as it was switched."""
        record = self._record[0] if self._record else None
        if record is not None and not requests.chosen.items() <= record.flags.items():
            # not cancelled halfway: the next change must know of it
            changing = asyncio.create_task(self._change(flags={**record.flags, **requests.chosen}))
            changing.add_done_callback(drop_error)
            await asyncio.shield(changing)

    async def _run(
        self,
        open_agent: OpenAgent,
        opening: Opening,
        mirror: Mirror,
        files: Files,
        rebuilt: Rebuilt,
        before: SessionRecord,
    ) -> Result | None:
        """Work on waiting messages; return the result, or None if another node has to continue."""
        self._taken |= rebuilt.taken
        opened: list[Agent] = []
        child = NodeAgent(self._session, Mesh(self._bus).child, lambda: opened[0], mirror.settled)
        barrier = Barrier(mirror, self._lease, partial(self._keep_files, mirror, files), (child,))
        self._asking.cwd = opening.cwd
        async with open_agent(opening, self._hear, self._asking.ask, self._asking.answer, barrier) as agent:
            opened.append(agent)
            requests = self._requests = Requests(agent, self._node, barrier.judgement)
            requests.on_watched = self._asking.put_again
            barrier.is_lost = lambda: any(each.state.journal.lost for each in agent.tree.living)
            tasks = [
                self._needed(keep_running(lambda: self._feed(agent, mirror))),
                self._needed(keep_running(lambda: self._listen(requests))),
                asyncio.create_task(self._stop_to_move(agent)),
            ]
            try:
                result = await self._turns(agent, opening, before, rebuilt)
            finally:
                await end(*tasks)
        if result is None:
            return None
        # what still ran in the background was ended with the agent, and is billed by now
        return self._replies.restate(result, replace(result, cost=opened[0].ledger.cost()))

    def _hear(self, event: Event) -> None:
        if self._lost.is_set():  # a forced stop is no result of the session
            return
        self._on_event(event)
        self._replies.on_event(event)
        if self._requests is not None and self._requests.watched and isinstance(event, _TELLING):
            self._broadcast.show(self._requests.figures())  # first: clients that see the event need them
        self._broadcast.on_event(event)

    def _tell(self, agent: str, line: str) -> None:
        if not self._lost.is_set():
            self._broadcast.tell(agent, line)

    async def _keep_files(self, mirror: Mirror, files: Files) -> None:
        while not self._lost.is_set():
            try:
                mirror.files = await files.keep() or mirror.files
            except Unavailable:
                await asyncio.sleep(_RETRY_DELAY_SECONDS)
            except UsageError as error:
                self._broadcast.on_event(
                    Notice("root", "warning", f"The files in their present state cannot be sent: {error}")
                )
                return
            else:
                return

    async def _turns(self, agent: Agent, opening: Opening, before: SessionRecord, rebuilt: Rebuilt) -> Result | None:
        result: Result | None = None
        if is_unfinished(agent):
            _say_where(agent, opening)
            await answer_open_calls(agent, before.node, rebuilt.may_have_run)
            result = await agent.continue_run()
            self._replies.settle(result)
        while True:
            if result is not None and result.stop_reason == MOVED:
                return None
            if agent.state.inbox.holds():
                _say_where(agent, opening)
                result = await agent.continue_run()
                self._replies.settle(result)
            elif await self._is_empty():
                break
            else:  # a message of another node, soon delivered to us or just acknowledged
                with suppress(TimeoutError):
                    async with asyncio.timeout(_CHECK_INTERVAL_SECONDS):
                        await agent.state.inbox.arrival()
        oldest = min(before.answered, default=0)
        if result is None and all(number < oldest or number in before.answered for number in self._taken):
            result = before.result  # there was nothing to do
        return result or _as_before(agent)

    async def _is_empty(self) -> bool:
        """Return True if no message waits. Taken messages are acknowledged first; a later message makes a node check
        the session again."""
        if self._acks:
            await asyncio.wait(self._acks)
        return await self._bus.last_message(names.INBOX, self._inbox) is None

    @property
    def _inbox(self) -> str:
        return names.inbox_subject(f"session.{self._session}")

    def _taking(self) -> AbstractAsyncContextManager[Intake]:
        name = f"session-{self._session}"
        return self._bus.taking(names.INBOX, self._inbox, name, ack_wait=_ACK_TIMEOUT_SECONDS, limit=1_000, idle=0)

    async def _feed(self, agent: Agent, mirror: Mirror) -> None:
        """Pass messages to the agent, each once, even if other nodes had them before."""
        async with self._taking() as intake:
            while True:
                if (taken := await intake.next()) is None:
                    continue
                number = taken.message.sequence
                if number not in self._taken:
                    await self._give(agent, mirror, taken)
                task = asyncio.create_task(self._acknowledge(taken, mirror))
                self._acks.add(task)
                task.add_done_callback(self._acks.discard)

    async def _give(self, agent: Agent, mirror: Mirror, leased: LeasedMessage) -> None:
        number = leased.message.sequence
        try:
            said = await self._records.unpack(leased.message.data, leased.message.headers)
        except (WrongVersion, Failed) as error:
            self._taken.add(number)
            self._replies.refuse(number, _failure_of(error))
            self._broadcast.on_event(Notice(agent.path, "warning", f"A message could not be read. {error}"))
            return
        self._taken.add(number)
        message, mirror.taking = _as_said(said.message), number
        self._replies.expect(message, number)
        try:
            agent.send(message, said.moment)
        finally:
            mirror.taking = 0

    async def _acknowledge(self, leased: LeasedMessage, mirror: Mirror) -> None:
        """Acknowledge a message once it is in the log on the bus."""
        await mirror.settled()
        if await leased.ack():
            await self._records.drop_body(leased.message.headers)

    async def _listen(self, answering: Requests) -> None:
        async with self._bus.listening(names.control_subject(self._session)) as requests:
            async for request in requests:
                answer = await answering.answer(request.message.data)
                with suppress(MeshError):
                    await self._keep_chosen(answering)
                    await request.respond(json.dumps(answer).encode())

    async def _stop_to_move(self, agent: Agent) -> None:
        """Stop the agent when the session is to move, once no background call runs, which would be lost."""
        await self._moving.wait()
        while any(job.state == "running" for job in agent.jobs()):  # noqa: ASYNC110 -- the agent alone is told of ends
            await asyncio.sleep(1.0)
        agent.apply(Stop(MOVED))

    async def _give_up(self, error: Exception) -> Result:
        """Answer the messages of a session that cannot be opened with an error, so that they do not wait any longer."""
        result = Result("", (), "error", _failure_of(error), session_id=self._session)
        self._broadcast.on_event(Finished("root", result))
        async with self._taking() as intake:
            while await self._bus.last_message(names.INBOX, self._inbox) is not None:
                if (taken := await intake.next()) is not None:
                    self._taken.add(taken.message.sequence)
                    await taken.ack()
        return result


def _as_said(message: Message) -> Message:
    """Return a message from the bus as one from a person or remote agent, whatever role it claims."""
    parts = tuple(part for part in message.parts if isinstance(part, Text | Image | Document))
    return Message("user", parts or (Text("(an empty message)"),), f"bus:{message.sender}" if message.sender else "")


def _say_where(agent: Agent, opening: Opening) -> None:
    """Tell the agent where it runs now, if that has changed."""
    history, now = agent.state.context.history, str(opening.cwd)
    moves = (
        message.content.removeprefix(_MOVED_TO)
        for message in reversed(history)
        if message.sender == "sagent" and message.content.startswith(_MOVED_TO)
    )
    was = next(moves, origin(agent.state.log.contents()).cwd)
    if history and was != now:
        agent.send(user(f"{_MOVED_TO}{now}", sender="sagent"), "next")


def _failure_of(error: Exception) -> Failure:
    """Return the public part of an error: no traceback, and only the kind of an internal error."""
    if isinstance(error, SagentError):
        return Failure(error.kind, str(error))
    return Failure("crashed", f"The node could not work on the session: {type(error).__name__}.")


def _as_before(agent: Agent) -> Result:
    """Return the result of the last turn, by the log: the node that took it has stopped before it could report it."""
    history = agent.state.context.history
    last = next((message for message in reversed(history) if message.role == "assistant"), None)
    end = next(agent.state.log.contents().latest("failed", "message"), None)
    failed = None if end is None else end.content
    failure = Failure(failed.kind, failed.message) if isinstance(failed, FailedEntry) else None
    result = Result(
        last.content if last else "",
        last.parts if last else (),
        (last.stop or "end") if last else "end",
        failure,
        cost=agent.ledger.cost(),
        model=last.model if last else "",
        session_id=agent.state.log.session_id,
        session_path=agent.state.log.path,
        head=agent.state.log.head,
    )
    agent.state.journal.emit(Finished(agent.path, result))
    return result
