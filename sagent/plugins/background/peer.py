"""A background session of this machine as its clients have it: its events, its questions, and requests to it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Self, cast, get_args

from sagent.codec import encode_message
from sagent.errors import SagentError, UsageError
from sagent.events import Event, Notice, Result
from sagent.lib.json import JsonObject, as_str, json_dump, json_load, json_thaw
from sagent.messages import Message, user
from sagent.peer import Action, Inject, Moment, Scope
from sagent.plugins.background.asked import settle
from sagent.plugins.background.connection import Connection
from sagent.plugins.background.place import UnreachableError
from sagent.plugins.background.records import Record, State, find
from sagent.plugins.background.starting import reopen
from sagent.plugins.hosting.figures import Figures, read_figures
from sagent.plugins.hosting.followed import Follower
from sagent.plugins.hosting.lines import ServerWait, read_lines
from sagent.plugins.hosting.questions import Answer, Question, Reply, read_question
from sagent.plugins.hosting.requests import ACTIONS
from sagent.plugins.hosting.typed import adapter
from sagent.tools.plan import PlanDecision

_MAX_CONNECTS, _CONNECT_DELAY_SECONDS = 20, 0.2
_ENDED = "The process of this session has ended. Your next message opens the session again."


class LocalPeer(Follower):
    """A session in another process of this machine, while the block of `attached` lasts. When that process has ended,
    the next message starts another."""

    def __init__(self, state_dir: Path, record: Record, reply: Reply | None, answer: Answer | None) -> None:
        super().__init__(record.model)
        self.record = record
        self._state_dir, self._reply, self._answer = state_dir, reply, answer
        self._stack = AsyncExitStack()
        self._connection: Connection | None = None
        self._left = False
        self._changed, self._opening = asyncio.Event(), asyncio.Lock()
        self._sending: asyncio.Task[None] | None = None
        self._state, self._settled = record.state, False
        self.result: Result | None = None
        self.head = ""
        """The last entry of the root agent's log when this began to follow; "" if its process does not tell."""
        self._early: list[Event] | None = []
        self._asked: dict[str, asyncio.Task[None]] = {}

    @classmethod
    @asynccontextmanager
    async def attached(
        cls, state_dir: Path, record: Record, reply: Reply | None = None, answer: Answer | None = None
    ) -> AsyncGenerator[Self]:
        """Follow a session, which is opened if it is not. With `reply` a person here is asked about calls, with
        `answer` about its agents' questions; the first answer from anywhere counts. Raises SagentError."""
        peer = cls(state_dir, record, reply, answer)
        async with peer._stack:
            await peer._connected()
            try:
                yield peer
            finally:
                for task in (*peer._tasks, *peer._asked.values()):
                    task.cancel()

    async def _connected(self) -> Connection:
        """Return the connection; open the session again if its process has ended. Raises SagentError."""
        async with self._opening:
            if self._connection is not None and not self._connection.closed.is_set():
                return self._connection
            for _ in range(_MAX_CONNECTS):
                self.record = await asyncio.to_thread(self._open_record)
                with suppress(UnreachableError):  # it is just ending
                    connection = await self._stack.enter_async_context(Connection.to(self.record))
                    connection.on_line = self._on_line
                    self._connection = connection  # first: open questions come before the answer
                    await connection.ask(op="follow")
                    return connection
                await asyncio.sleep(_CONNECT_DELAY_SECONDS)
            raise UnreachableError(f"The process {self.record.pid} of session {self.path} does not answer.")

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Pass every event to a function from now on, to the first one also those since `head`."""
        early, self._early = self._early or (), None
        for event in early:
            listener(event)
        return super().listen(listener)

    def _open_record(self) -> Record:
        """Return the record of a process that has the session open; start one if there is none. Raises SagentError."""
        record = find(self._state_dir, self.record.id)
        return record if record.is_open else reopen(self._state_dir, record)

    # -- what is known of it

    @property
    def path(self) -> str:
        """The session's id."""
        return self.record.id

    @property
    def place(self) -> str:
        return f"process {self.record.pid}"

    @property
    def is_connected(self) -> bool:
        """True while its process has it open."""
        return self._connection is not None and not self._connection.closed.is_set()

    @property
    def rests(self) -> bool:
        return self._state in ("idle", "ended")

    async def fetch_figures(self) -> Figures:
        """Ask for the figures, and subscribe to changes. Raises SagentError."""
        answer = await self.ask(op="status")
        try:
            self.figures = read_figures(json_thaw(answer.get("figures")))
        except ValueError as error:
            raise SagentError("The process of the session is of another version of sagent.") from error
        return self.figures

    # -- what is done to it

    def send(self, message: Message | str, moment: Moment = "now") -> None:
        said, before = user(message) if isinstance(message, str) else message, self._sending

        async def deliver() -> None:
            if before is not None:
                await asyncio.wait([before])
            connection = await self._connected()
            # not after the wait: a quick run may have ended by then
            await connection.ask(self._on_prompted, op="prompt", message=encode_message(said, None), moment=moment)

        self._sending = asyncio.create_task(deliver())

    def leave(self) -> None:
        """Follow it no more: `wait` raises, and no more events are passed on. The session goes on."""
        self._left = True
        self._forget_asked()
        self._changed.set()

    def follow_on(self) -> None:
        """Do nothing: `wait` waits until the session rests."""

    async def wait(self) -> Result:
        """Return the result of the last run, once the session rests. Raises SagentError."""
        self._early = None  # events that nobody has asked for
        if self._sending is not None:
            await self._sending
        while not self.rests:
            if self._left:
                raise UnreachableError(f"Session {self.path} was left.")
            self._changed.clear()
            await self._changed.wait()
        if self.result is None or not self._settled:
            raise UnreachableError(_ENDED)
        return self.result

    def interrupt(self, scope: Scope = "tree") -> None:
        async def stop() -> None:
            with suppress(SagentError):
                await self.ask(op="interrupt", scope=scope)

        self.start(stop())

    def check(self, action: Action) -> None:
        """Raise UsageError for an action that is impossible in another process. The other side checks the rest."""
        if not isinstance(action, Inject) and type(action).__name__ not in ACTIONS:
            raise UsageError(f"{type(action).__name__} is not possible in another process.")

    async def change(self, action: Action) -> None:
        """Apply an action. Raises SagentError."""
        await self.ask(op="apply", action=type(action).__name__, of=asdict(action))

    async def ask(self, **request: object) -> JsonObject:
        """Return the answer to a request. Raises RequestError, and UnreachableError if the process has ended."""
        if self._connection is None or self._connection.closed.is_set():
            raise UnreachableError(_ENDED)
        return await self._connection.ask(**request)

    # -- what is heard of it

    def _on_line(self, line: bytes | None, message: Mapping[str, object]) -> None:
        match message.get("kind"):
            case _ if self._left:
                return
            case None if line is None:
                self._on_closed()
            case "state":
                self._on_state(message)
            case "question":
                with suppress(ValueError):
                    self._put(read_question(json_dump(message.get("question")).encode("utf-8", "replace")))
            case _:
                for event in read_lines(line or b""):
                    if self._early is not None and not isinstance(event, Figures | ServerWait | None):
                        self._early.append(event)
                    self.hear(event)

    def _on_state(self, message: Mapping[str, object]) -> None:
        self.head = as_str(message.get("head")) or self.head
        if (state := message.get("state")) in get_args(State):
            self._state, self._settled = cast("State", state), state == "idle"
        if typed := message.get("result"):
            with suppress(ValueError):
                self.result = cast("Result", adapter(Result).validate_python(json_thaw(json_load(json_dump(typed)))))
        self._changed.set()

    def _on_prompted(self) -> None:
        self._state, self._settled = "working", False

    def _on_closed(self) -> None:
        self._state = "ended"
        self._forget_asked()
        self.end_waits()
        self.on_end()
        self._changed.set()
        for listener in tuple(self._listeners):
            listener(Notice("root", "warning", _ENDED))

    def _forget_asked(self) -> None:
        for task in self._asked.values():
            task.cancel()
        self._asked.clear()

    def _put(self, question: Question) -> None:
        """Have a person answer a question, unless it is over."""
        if question.over:
            if (task := self._asked.pop(question.id, None)) is not None:
                task.cancel()
            return
        say: Callable[[], Awaitable[str | PlanDecision | None]]
        if question.inquiry is not None and self._answer is not None:
            say = partial(self._answer, question.inquiry)
        elif question.inquiry is None and self._reply is not None:
            say = partial(self._reply, question)
        else:
            return
        if question.id not in self._asked:
            self._asked[question.id] = asyncio.create_task(self._have_answered(question, say))

    async def _have_answered(self, question: Question, say: Callable[[], Awaitable[str | PlanDecision | None]]) -> None:
        said = await say()
        with suppress(SagentError):  # somebody else was faster, or its process has ended
            if self._connection is not None:
                await settle(self._connection, question, said)


class Viewer(LocalPeer):
    """A session that is only watched: one whose process has ended is not opened again."""

    def _open_record(self) -> Record:
        record = find(self._state_dir, self.record.id)
        if not record.is_open:
            raise UnreachableError(_ENDED)
        return record
