"""A session on some node of a bus, as a Peer: its holder does not know where it runs."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict
from decimal import Decimal
from functools import partial
from os import urandom
from pathlib import Path
from typing import Literal, Self

from sagent.errors import SessionNotFound, UsageError
from sagent.events import Failure, Result
from sagent.lib.json import EMPTY, JsonObject, as_object, as_str, json_freeze_object, json_load, json_thaw
from sagent.messages import Message, user
from sagent.peer import Action, Inject, Moment, Scope, Status
from sagent.plugins.hosting.figures import Figures, read_figures
from sagent.plugins.hosting.followed import Follower
from sagent.plugins.hosting.requests import ACTIONS
from sagent.plugins.mesh import names
from sagent.plugins.mesh.broadcast import ServerWait, lease_of, read_lines
from sagent.plugins.mesh.cards import decode_card
from sagent.plugins.mesh.connection import Message as BusMessage
from sagent.plugins.mesh.connection import Request
from sagent.plugins.mesh.control import Answer, Question, Reply, encode_answer, read_question
from sagent.plugins.mesh.errors import Failed, Fenced, MeshError, Missing, NobodyThere, Unavailable, WrongVersion
from sagent.plugins.mesh.jetstream import JetStream, connected
from sagent.plugins.mesh.logstream import SessionStream
from sagent.plugins.mesh.rebuild import rebuild
from sagent.plugins.mesh.records import (
    EncodedMessage,
    FilesKind,
    InboxMessage,
    Records,
    SessionRecord,
    check_flags,
    check_label,
    decode,
)
from sagent.plugins.mesh.spending import cost_of, counted_usd
from sagent.plugins.mesh.tasks import end
from sagent.session.names import new_session_id
from sagent.tools.plan import PlanDecision
from sagent.usage import Cost

MAX_BEGINNING = 64
"""Sessions that one Mesh sends to its bus at a time."""
_REPEAT_INTERVAL_SECONDS = 0.5  # seconds until a request is repeated
_STOP_TIMEOUT_SECONDS = 4.0  # seconds for the bus to answer when stopping
_LABEL_CHECK_DELAY_SECONDS = 30.0  # seconds after which to check that some node has the label
_UNBEGUN = "it was interrupted before a node had begun"
_LAST_EVENTS_SECONDS = 1.0  # seconds for the last events of a run, which are not stored


class RemotePeer(Follower):
    """A session on a bus, during the block of `attached`. `wait` raises the errors of failed sends."""

    def __init__(self, bus: JetStream, record: SessionRecord) -> None:
        super().__init__()
        self._bus, self._records = bus, Records(bus)
        self.record = record
        self._changed, self._over = asyncio.Event(), asyncio.Event()
        self._sending: asyncio.Task[None] | None = None
        self._problem: MeshError | None = None  # why it can no longer be followed
        self._last = 0  # the number of the last message that was sent
        self._known = False  # its record was on the bus
        self._lease = 0  # the latest lease in events
        self.on_record: Callable[[SessionRecord], object] = lambda before: None  # its record is another than before
        self._asked: dict[str, _PendingQuestion] = {}

    @classmethod
    @asynccontextmanager
    async def attached(
        cls, bus: JetStream, record: SessionRecord, reply: Reply | None = None, answer: Answer | None = None
    ) -> AsyncGenerator[Self]:
        """Follow a session. With `reply` a person here is asked about calls, with `answer` about its agents' questions;
        the first answer from anywhere counts."""
        peer = cls(bus, record)
        async with (
            bus.listening(names.events_subject(record.id)) as events,
            bus.bucket(names.SESSIONS).watching(names.token(record.id)) as changes,
            bus.listening(names.asking_subject(record.id) if reply else "") as calls,
            bus.listening(names.inquiry_subject(record.id) if answer else "") as inquiries,
        ):

            async def follow() -> None:
                try:
                    async for entry in changes:
                        if entry is not None and entry.value is not None:
                            before, peer.record = peer.record, decode(SessionRecord, entry.value)
                            peer._known = True
                            if peer.record.node != before.node:
                                peer._forget_others(peer.record.node)
                            peer.on_record(before)
                            peer._changed.set()
                except Unavailable as error:
                    peer._fail(f"{error} Session {record.id} may be at work; ")
                except MeshError as error:
                    peer._problem = error
                    peer._changed.set()

            async def listen() -> None:
                async for request in events:
                    peer._hear(request.message)

            async def respond(requests: AsyncIterator[Request]) -> None:
                async for request in requests:
                    peer._put(request, reply, answer)

            def look() -> None:
                peer.start(peer._look_again())

            work = (follow(), listen(), respond(calls), respond(inquiries))
            tasks = [asyncio.create_task(each) for each in work]
            bus.on_reconnect.add(look)
            try:
                yield peer
            finally:
                bus.on_reconnect.discard(look)
                await end(*tasks, *peer._tasks)

    @property
    def path(self) -> str:
        """The session's id."""
        return self.record.id

    @property
    def place(self) -> str:
        """The node that works on it; "" if none does."""
        return self.record.node

    @property
    def rests(self) -> bool:
        """True while no message waits for an answer."""
        return self.record.state == "idle"

    @property
    def result(self) -> Result | None:
        """The result of its last turn."""
        return self.record.result

    @property
    def model(self) -> str:
        """The model, as events have told it, or else the last result or its flags."""
        return self._model or (self.record.result.model if self.record.result else self.record.flags.get("model", ""))

    def send(self, message: Message | str, moment: Moment = "now") -> None:
        said, before = InboxMessage(user(message) if isinstance(message, str) else message, moment), self._sending

        async def deliver() -> None:
            if before is not None:
                await before
            self._last = await self._records.send(self.record, said)

        self._sending = asyncio.create_task(deliver())

    async def begin(self, letter: EncodedMessage) -> None:
        """Tell nodes about a new session and its first message. Raises MeshError. If this is cancelled, no node may
        begin it, because the requester has not even seen its id."""

        async def post() -> int:
            await self._records.create(self.record)
            return await self._records.post(self.record, letter)

        posting = asyncio.create_task(post())
        try:
            self.expect(await asyncio.shield(posting))
        except asyncio.CancelledError:
            with suppress(MeshError, TimeoutError):
                async with asyncio.timeout(_STOP_TIMEOUT_SECONDS):
                    self.expect(await posting)
                    await self.withdraw(Failure("interrupted", _UNBEGUN))
            raise

    def expect(self, number: int) -> None:
        """Make `wait` wait for the answer to a message that was sent elsewhere; 0: until the session rests."""
        self._last = number

    def follow_on(self) -> None:
        """Make `wait` wait for the answer to the last message, or if that exists, until the session rests."""
        if (self._sending is None or self._sending.done()) and self._rests:
            self._last = 0

    async def fetch_figures(self) -> Figures:
        """Ask for the figures, and subscribe to changes. Raises NobodyThere, Failed, Unavailable."""
        answer = await self.ask(op="status")
        try:
            self.figures = read_figures(json_thaw(answer.get("figures")))
        except ValueError as error:
            raise Failed(f"Node {answer.get('node')} does not report its status: update it.") from error
        return self.figures

    async def wait(self) -> Result:
        """Return the result of the last message that was sent here, or else of the last turn. Raises MeshError."""
        if (sending := self._sending) is not None:
            try:
                await sending
            except asyncio.CancelledError:
                if self._problem is not None and sending.cancelled():
                    raise self._problem from None
                raise
        while not self._rests:
            self._changed.clear()
            if self._problem is not None:
                raise self._problem
            await self._changed.wait()
        if self.record.result is None:
            raise UsageError(f"session {self.record.id} has not run yet")
        result = self.record.answers.get(self._last, self.record.result)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_EVENTS_SECONDS):
                await self._over.wait()
        return result

    async def close_budget(self) -> Cost | None:
        """End the session once it rests, and return its cost by its log, None if that is unknown. From then on nobody
        can make it spend more. Raises SessionNotFound and MeshError."""
        while True:
            record, revision = await self._records.get(self.path)
            if record.state != "idle":
                await asyncio.sleep(_REPEAT_INTERVAL_SECONDS)
                continue
            if (cost := await cost_of(SessionStream(self._bus, record.id))) is None:
                return None
            with suppress(Fenced):  # it has been continued meanwhile
                flags = {**record.flags, "max_budget_usd": f"{counted_usd(cost):f}"}
                await self._records.change(record, revision, flags=flags)
                return cost

    def interrupt(self, scope: Scope = "tree") -> None:
        self.start(self._stop(scope))

    @property
    def _rests(self) -> bool:
        return self._last in self.record.answered if self._last else self.record.state == "idle"

    async def _stop(self, scope: Scope) -> None:
        """Request a stop until a node receives it, because a session may be moving between nodes. If the bus is away,
        `wait` raises that."""
        while not self._rests or (self._sending is not None and not self._sending.done()):
            try:
                async with asyncio.timeout(_STOP_TIMEOUT_SECONDS):
                    if await self.withdraw(Failure("interrupted", _UNBEGUN)):
                        return
            except (TimeoutError, Unavailable):
                self._fail(f"The bus cannot be reached. Session {self.path} was not interrupted and may be at work; ")
                if self._sending is not None:
                    self._sending.cancel()
                return
            with suppress(NobodyThere, Unavailable, TimeoutError):
                async with asyncio.timeout(_STOP_TIMEOUT_SECONDS):
                    await self.ask(op="interrupt", scope=scope)
                return
            await asyncio.sleep(_REPEAT_INTERVAL_SECONDS)

    def _fail(self, reason: str) -> None:
        """Make `wait` raise that the session cannot be followed, and say how to look at it."""
        self._problem = Unavailable(f"{reason}to look: sagent attach {self.path}")
        self._changed.set()

    async def withdraw(self, failure: Failure) -> bool:
        """Withdraw a session that no node has begun; return True if possible. Raises Unavailable."""
        try:
            record, revision = await self._records.get(self.path)
            if record.state != "queued" or record.node or not self._last:
                return False
            result = Result("", (), "error", failure, session_id=record.id)
            await self._records.change(record, revision, state="idle", answered=(self._last,), result=result)
        except Fenced:
            return False
        return True

    def check(self, action: Action) -> None:
        """Raise UsageError for an action that is impossible over a bus. The other side checks the rest."""
        if not isinstance(action, Inject) and type(action).__name__ not in ACTIONS:
            raise UsageError(f"{type(action).__name__} is not possible over a bus.")

    def apply(self, action: Action) -> None:
        self.check(action)
        if isinstance(action, Inject):
            self.send(action.message, action.moment)
            return
        self.start(self._change(action))

    async def change(self, action: Action) -> None:
        """Apply an action, and return True if it succeeded. Raises NobodyThere if no node works on it, Failed,
        Unavailable."""
        await self.ask(op="apply", action=type(action).__name__, of=asdict(action))

    def status(self) -> Status:
        """Return the status that events have told so far: its model and turns since this process attached."""
        state: Literal["idle", "working"] = "idle" if self.record.state == "idle" else "working"
        return Status(self.path, state, self._model, self.turns, 0)

    async def ask(self, **request: object) -> JsonObject:
        """Ask the node that works on it. Raises NobodyThere if none does, Failed, Unavailable."""
        data = json.dumps(request, default=str).encode()
        said = await self._bus.request(names.control_subject(self.path), data)
        try:
            answer = json_freeze_object(as_object(json_load(said)))
        except ValueError as error:
            raise Failed(f"The answer of the node of session {self.path} cannot be read: {error}.") from error
        if error := as_str(answer.get("error")):
            raise Failed(error)
        return answer

    async def _change(self, action: Action) -> None:
        with suppress(NobodyThere):  # it is not running: nothing to stop or change
            await self.change(action)

    def _hear(self, message: BusMessage) -> None:
        lease = lease_of(message.headers)
        if lease is not None and lease < self._lease:  # a stopped node that woke after another got the session
            return
        self._lease = lease or self._lease
        for event in read_lines(message.data):
            if event is None:
                self._over.set()
            elif not isinstance(event, Figures | ServerWait):
                self._over.clear()
            self.hear(event)

    async def _look_again(self) -> None:
        """Make `wait` raise an error if the bus returns without the session."""
        try:
            await self._records.get(self.path)
        except SessionNotFound:
            if self._known:
                self._problem = Missing(f"The bus does not have session {self.path} any more: its data was lost.")
                self._changed.set()
        except MeshError:
            return

    def _forget_others(self, node: str) -> None:
        """Withdraw the questions of all nodes but one: nobody waits for their answers. A question may arrive before the
        record that names its node."""
        for asked in [each for each in self._asked.values() if each.question.node != node]:
            self._asked.pop(asked.question.id).task.cancel()

    def _put(self, request: Request, reply: Reply | None, answer: Answer | None) -> None:
        """Have a person answer a question, unless they are at it, or it is over."""
        try:
            question = read_question(request.message.data)
        except ValueError:
            return
        if question.over:
            if (asked := self._asked.pop(question.id, None)) is not None:
                asked.task.cancel()
        elif (asked := self._asked.get(question.id)) is not None:
            asked.request = request
            self.start(asked.respond())  # an existing answer may not have arrived
        elif question.inquiry is not None and answer is not None:
            self._begin(_PendingQuestion(request, question), partial(answer, question.inquiry))
        elif question.inquiry is None and reply is not None:
            self._begin(_PendingQuestion(request, question), partial(reply, question))

    def _begin(self, pending: "_PendingQuestion", ask: Callable[[], Awaitable[str | PlanDecision | None]]) -> None:
        self._asked[pending.question.id] = pending
        pending.task = self.start(pending.have(ask))


class _PendingQuestion:
    """A question that a person is asked here, and its latest request: nobody waits for the answer to an earlier one."""

    task: asyncio.Task[None]

    def __init__(self, request: Request, question: Question) -> None:
        self.request, self.question = request, question
        self._answer: bytes | None = None

    async def have(self, say: Callable[[], Awaitable[str | PlanDecision | None]]) -> None:
        self._answer = encode_answer(self.question, await say())
        await self.respond()

    async def respond(self) -> None:
        if self._answer is not None:
            with suppress(MeshError):
                await self.request.respond(self._answer)


class Mesh:
    """A bus with nodes that run agents. Open it with `async with Mesh.connect(url) as mesh`.

    Of any number of sessions that are asked for at once, MAX_BEGINNING at a time are sent to the bus. Others wait for
    their turn; `waiting` is how many.
    """

    def __init__(self, bus: JetStream) -> None:
        self.bus = bus
        self.waiting = 0
        self._turns = asyncio.Semaphore(MAX_BEGINNING)

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None]:
        """Wait for the turn to begin a session: no time-out of the bus runs meanwhile."""
        self.waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self.waiting -= 1
        try:
            yield
        finally:
            self._turns.release()

    @classmethod
    @asynccontextmanager
    async def connect(cls, url: str) -> AsyncGenerator[Self]:
        """Connect to a bus by its URL, as `sagent bus` prints it. Raises UsageError, Refused, Unavailable."""
        async with connected(url) as bus:
            await bus.ensure()
            yield cls(bus)

    @asynccontextmanager
    async def spawn(
        self,
        prompt: Message | str,
        *,
        label: str = "",
        files: FilesKind = "none",
        base: str = "",
        flags: Mapping[str, object] = EMPTY,
        reply: Reply | None = None,
        answer: Answer | None = None,
    ) -> AsyncGenerator[RemotePeer]:
        """Yield a new session at work on a prompt, on a node with this label, or on any; `wait()` gives its answer.
        `flags` are of `records.remote_flags()`, such as model and max_budget_usd; the node decides what it allows. The
        session continues when the block ends. `reply` judges its calls, `answer` its agents' questions and plans."""
        record, said = new_record(prompt, label, files, base, flags)
        async with AsyncExitStack() as stack:
            async with self._turn():
                letter = await Records(self.bus).pack(said)  # first, so that a too large message leaves no record
                attached = RemotePeer.attached(self.bus, record, reply, answer)
                peer = await stack.enter_async_context(attached)
                await peer.begin(letter)
            yield peer

    @asynccontextmanager
    async def child(self, session: str, prompt: str, label: str, usd: Decimal | None) -> AsyncGenerator[RemotePeer]:
        """Yield a session with this id, begun if missing; `usd` is its budget."""
        records = Records(self.bus)
        record, said = new_record(prompt, label, "none", "", {"max_budget_usd": usd}, session)
        letter = await records.pack(said)
        try:
            await records.create(record)
        except Fenced:
            record, _ = await records.get(session)
        async with RemotePeer.attached(self.bus, record) as peer:
            if record.state == "queued" and await self.bus.last_message(names.LOG, names.log_subject(session)) is None:
                peer.expect(await records.post(record, letter, f"{session} first"))
            peer.start(self._give_up(peer))
            yield peer

    async def _give_up(self, peer: RemotePeer) -> None:
        """Withdraw a session that no node has begun, if none has its label."""
        while peer.record.state == "queued" and not peer.record.node and (label := peer.record.label):
            await asyncio.sleep(_LABEL_CHECK_DELAY_SECONDS)
            with suppress(Unavailable):
                if label not in (known := await self._labels()):
                    there = f"The labels are: {', '.join(sorted(known))}." if known else "No node has a label."
                    duration = f"{_LABEL_CHECK_DELAY_SECONDS:g} s"
                    text = f"No node takes sessions for the label {label!r}, and none did for {duration}. {there}"
                    await peer.withdraw(Failure(NobodyThere.kind, text))

    async def _labels(self) -> set[str]:
        """Return the labels of the nodes that take work."""
        found = set[str]()
        for entry in await self.bus.bucket(names.CARDS).entries("node.*"):
            with suppress(ValueError, WrongVersion):
                card = decode_card(json_load(entry.value or b""))
                found |= set() if card.details.get("draining") else set(card.labels)
        return found

    async def submit(
        self,
        prompt: Message | str,
        *,
        label: str = "",
        files: FilesKind = "none",
        base: str = "",
        flags: Mapping[str, object] = EMPTY,
    ) -> str:
        """Submit a prompt as `spawn` does, without following the session; return the session's id."""
        record, said = new_record(prompt, label, files, base, flags)
        async with self._turn():
            await RemotePeer(self.bus, record).begin(await Records(self.bus).pack(said))
        return record.id

    async def fetch(self, session: str, directory: Path) -> Path:
        """Return a session's log as the bus has it, as a directory in another; each line is verified. Raises
        SessionNotFound, SessionCorrupt and Unavailable."""
        record = await Records(self.bus).find(session)
        stream = SessionStream(self.bus, record.id)
        if (last := await stream.last()) is None:
            raise SessionNotFound(f"Session {record.id} has no log on this bus: no node has started it.")
        await rebuild(stream, directory / record.id, last.sequence)
        return directory / record.id

    async def sessions(self) -> list[SessionRecord]:
        """Return the sessions of the bus, the latest last."""
        return sorted(await Records(self.bus).all(), key=lambda record: record.id)

    @asynccontextmanager
    async def agent(
        self, address: str, reply: Reply | None = None, answer: Answer | None = None
    ) -> AsyncGenerator[RemotePeer]:
        """Yield a session on the bus, by its id or a prefix; `reply` and `answer` as in `spawn`. Raises
        SessionNotFound."""
        record = await Records(self.bus).find(address)
        async with RemotePeer.attached(self.bus, record, reply, answer) as peer:
            yield peer


def new_record(
    prompt: Message | str, label: str, files: FilesKind, base: str, flags: Mapping[str, object], session: str = ""
) -> tuple[SessionRecord, InboxMessage]:
    """Return a new session and its first message. Raises UsageError."""
    message = user(prompt) if isinstance(prompt, str) else prompt
    check_flags(flags)
    if label:
        check_label(label)
    texts = {name: str(value) for name, value in flags.items() if value is not None}
    title = " ".join(message.content.split())[:80]
    return SessionRecord(
        session or f"{new_session_id()}{urandom(3).hex()}", title, label, texts, files, base
    ), InboxMessage(message)
