"""The contexts of one caller, each a session, and their tasks. Those of other callers are not accessible."""

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from a2a.types.a2a_pb2 import Message, Task, TaskState, TaskStatus
from a2a.utils.errors import (
    InternalError,
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from sagent.agent import Agent
from sagent.errors import SagentError
from sagent.events import Event, Result
from sagent.lib.pace import offload
from sagent.messages import Message as Prompt
from sagent.plugins.a2a.parts import digest_of, kept_message, read_data, read_message, read_text
from sagent.plugins.a2a.past import settle_past, show_past
from sagent.plugins.a2a.records import RecordFile, State, TaskRecord
from sagent.plugins.a2a.task import RunningTask, decision
from sagent.plugins.hosting.live import ClientOptions, LiveSession, Opening, OpenSession, failure_of
from sagent.session.store import sessions

MAX_OPEN = 50  # sessions; an idle one is closed for another
DIRECTORY = "a2a"
_STOPPING = "The server is stopping."
_MAX_ID_CHARS = 200  # of an id that a client chooses
Answer: TypeAlias = Callable[[LiveSession, OpenSession, Prompt], Awaitable[Result]]
"""Has a prompt answered in a session that is open."""


async def answer_alone(live: LiveSession, opened: OpenSession, prompt: Prompt) -> Result:
    """Answer with one agent."""
    return await live.answer(opened.agent, prompt)


class Context:
    """A session of a caller. Its tasks are worked on one after another."""

    def __init__(self, records: RecordFile, path: Path) -> None:
        self.records, self.path = records, path
        self.opening = asyncio.Lock()
        self.live: LiveSession | None = None
        self.running: dict[str, RunningTask] = {}
        self.current: RunningTask | None = None

    @property
    def is_open(self) -> bool:
        return self.live is not None and not self.live.closed

    async def open(self, opening: Opening, options: ClientOptions) -> None:
        """Open it, unless it is. Raises SagentError and OSError."""
        async with self.opening:
            if not self.is_open:
                await asyncio.to_thread(settle_past, self.path, self.records, self.running)
                live = LiveSession(opening, options, self._on_event, self.show_question)
                await live.opened()
                self.live = live

    async def aclose(self) -> None:
        if self.live is not None:
            await self.live.aclose()
        await asyncio.gather(*(task.ended.wait() for task in self.running.values()))

    def _on_event(self, event: Event) -> None:
        if self.current is not None:
            self.current.on_event(event)

    def show_question(self) -> None:
        """Show the present question to the client, after a question or a run has begun or ended."""
        if self.current is not None and self.live is not None and not self.current.ended.is_set():
            self.current.ask(next(iter(self.live.questions.values()), None))


class Contexts:
    """`state` has the caller's sessions, which work in `cwd`. `changed` is called with a task when its state
    changes."""

    def __init__(
        self, opening: Opening, state: Path, cwd: Path, changed: Callable[[Task], None], answer: Answer = answer_alone
    ) -> None:
        self._opening, self._directory, self._changed, self._answer = opening, state / DIRECTORY, changed, answer
        self._contexts: dict[str, Context] = {}
        self._places: dict[str, Context] = {}  # by task
        self._messages: dict[str, tuple[str, str]] = {}  # id -> task and digest
        self._taking: dict[str, asyncio.Task[str]] = {}
        self._naming = asyncio.Lock()  # one name is given to one session
        self._coming = 0  # sessions that are being opened
        self._ends: set[asyncio.Task[None]] = set()
        self.closed = False
        self._gone: set[str] = set()  # contexts with deleted sessions
        paths = {path.name: path for path in sessions(state, cwd)}
        for file in sorted(self._directory.glob("*.jsonl")):
            records = RecordFile.read(file)
            if file.stem in paths:
                self._know(Context(records, paths[file.stem]))
            else:
                self._gone.add(records.context)

    def _know(self, context: Context) -> None:
        self._contexts[context.records.context] = context
        for record in context.records.tasks.values():
            self._index(context, record)

    def _index(self, context: Context, record: TaskRecord) -> None:
        self._places[record.id] = context
        self._messages |= {name: (record.id, digest) for name, digest in record.digests.items()}

    # -- what is asked of tasks

    async def send(self, message: Message) -> str:
        """Handle a message; return the id of the task that it began or belongs to. A repeated one is handled once, also
        after a restart. Raises A2AError."""
        name, digest = message.message_id, digest_of(message)
        while name in self._taking:
            await asyncio.wait([self._taking[name]])
        if name in self._messages:
            task, known = self._messages[name]
            if known != digest or (message.task_id and message.task_id != task):
                raise InvalidParamsError(f"The messageId {name[:100]!r} was used for another message: use a new one.")
            return task
        taking = self._taking[name] = asyncio.ensure_future(self._take(message, digest))
        taking.add_done_callback(lambda done: (self._taking.pop(name, None), done.cancelled() or done.exception()))
        return await asyncio.shield(taking)

    async def show(self, *names: str) -> Mapping[str, Task]:
        """Return tasks with their present state. Raises TaskNotFoundError."""
        found: dict[str, Task] = {}
        past: dict[Context, list[str]] = {}
        for name in names:
            context = self._place(name)
            if name in context.running:
                found[name] = context.running[name].snapshot()
            else:
                past.setdefault(context, []).append(name)
        for context, wanted in past.items():
            async with context.opening:  # it checks whether the session is in use
                found |= await asyncio.to_thread(show_past, context.path, dict(context.records.tasks), wanted)
        return found

    def tasks(self) -> Mapping[str, Collection[str]]:
        """Return the tasks of each session."""
        return {context.path.name: context.records.tasks.keys() for context in self._contexts.values()}

    def session(self, name: str) -> str:
        """Return the session of a task. Raises TaskNotFoundError."""
        return self._place(name).path.name

    def running(self, name: str) -> RunningTask | None:
        """Return the task, if it has not ended. Raises TaskNotFoundError."""
        return self._place(name).running.get(name)

    async def cancel(self, name: str) -> Task:
        """Cancel a task. Raises TaskNotFoundError and TaskNotCancelableError."""
        context = self._place(name)
        if (task := context.running.get(name)) is None:
            raise TaskNotCancelableError(f"Task {name} has ended.")
        task.canceled = True
        if task is context.current and context.live is not None:
            context.live.stop()
        elif task.run is not None:
            task.run.cancel()
        await task.ended.wait()
        if task.state != TaskState.TASK_STATE_CANCELED:
            raise TaskNotCancelableError(f"Task {name} ended before it could be canceled.")
        return task.snapshot()

    async def statuses(self, context: str = "") -> Mapping[str, TaskStatus]:
        """Return the status of every task, or of a context's: only logs of unknown tasks are read."""
        found: dict[str, TaskStatus] = {}
        lost: list[str] = []
        for name, each in self._contexts.items():
            for task, record in each.records.tasks.items() if context in ("", name) else ():
                if task in each.running:
                    found[task] = each.running[task].status
                elif record.state is not None:
                    found[task] = record.status()
                else:
                    lost.append(task)
        return found | {name: task.status for name, task in (await self.show(*lost)).items()}

    async def aclose(self) -> None:
        """Interrupt running tasks, which can be continued."""
        self.closed = True
        await asyncio.gather(*(context.aclose() for context in self._contexts.values()), return_exceptions=True)

    def _place(self, task: str) -> Context:
        if (context := self._places.get(task)) is None:
            raise TaskNotFoundError(f"There is no task {task[:100]!r}.")
        return context

    # -- messages

    async def _take(self, message: Message, digest: str) -> str:
        files = any(part.HasField("raw") for part in message.parts)
        prompt = await offload(lambda _: read_message(message), small=not files)
        if self.closed:
            raise InternalError(_STOPPING)
        if message.task_id:
            return self._follow_up(message, prompt, digest)
        context = await self._opened(message.context_id)
        if self.closed:
            await context.aclose()
            raise InternalError(_STOPPING)
        task, place = secrets.token_hex(16), context.records.context
        record = context.records.accept(task, kept_message(message, task, place), digest)
        self._index(context, record)
        self._start(context, RunningTask(record, self._changed), prompt)
        return task

    def _follow_up(self, message: Message, prompt: Prompt, digest: str) -> str:
        context, name = self._place(message.task_id), message.task_id
        place = context.records.context
        if message.context_id not in ("", place):
            raise InvalidParamsError(f"Task {name} is in the context {place}, not in {message.context_id[:100]!r}.")
        task = context.running.get(name)
        if task is None or (task is not context.current and task.record.after is not None):
            again = f"send the message without taskId, with contextId {place}"
            raise UnsupportedOperationError(f"Task {name} has ended: to continue, {again}.")
        if not os.path.lexists(context.path):
            raise InternalError(f"The session of the context {place} was deleted: send a message with a new contextId.")
        if task is not context.current:
            raise UnsupportedOperationError(
                f"Task {name} waits for earlier tasks: send the message when it is running."
            )
        kept = kept_message(message, name, place)
        self._index(context, context.records.accept(name, kept, digest))
        task.add_message(kept)
        question = task.question
        if question is not None and not question.answer.done():
            text, asks = read_text(message), isinstance(question.about, tuple)
            question.answer.set_result(decision(text, read_data(message)) if asks else text or None)
            task.ask(None)
        elif context.live is not None:
            context.live.agent.send(prompt, "now")
        return name

    async def _opened(self, name: str) -> Context:
        """Return an open context: a new one for "", and for an id that the client has chosen. Raises A2AError."""
        if len(name) > _MAX_ID_CHARS or not name.isprintable():
            raise InvalidParamsError(f"The contextId is longer than {_MAX_ID_CHARS} characters, or not printable.")
        try:
            if not name:
                return await self._begin("")
            async with self._naming:
                context = self._contexts.get(name)
                if context is not None and not os.path.lexists(context.path):
                    self._gone.add(name)
                    await context.aclose()
                if name in self._gone:
                    begin = "send the message without a contextId, or with a new one"
                    raise InvalidParamsError(f"The session of the context {name} no longer exists: {begin}.")
                if context is None:
                    return await self._begin(name)
            await self._open(context, ClientOptions(session=str(context.path)))
        except (SagentError, OSError) as error:
            raise InternalError(failure_of(error)) from error
        return context

    async def _begin(self, name: str) -> Context:
        context = Context(RecordFile(self._directory, ""), Path())
        await self._open(context, ClientOptions())
        assert context.live is not None
        if not (path := context.live.agent.log.path):
            await context.aclose()
            raise InternalError("The session cannot be saved to disk, so the task could not be looked up later.")
        context.path = Path(path)
        context.records = RecordFile(self._directory, context.path.name, name)
        self._know(context)
        return context

    async def _open(self, context: Context, options: ClientOptions) -> None:
        """Open a session, closing an idle one if there are too many. Raises SagentError, OSError and
        UnsupportedOperationError."""
        self._coming += 1
        try:
            while not context.is_open and len(open_ := self._open_ones()) + self._coming > MAX_OPEN:
                if (idle := next((each for each in open_ if not each.running), None)) is None:
                    most = f"{MAX_OPEN} tasks are running, which is the limit"
                    raise UnsupportedOperationError(f"{most}: send it again later.")
                async with idle.opening:
                    if not idle.running:  # still idle: it may have begun meanwhile
                        await idle.aclose()
            await context.open(self._opening, options)
        finally:
            self._coming -= 1

    def _open_ones(self) -> Sequence[Context]:
        return [context for context in self._contexts.values() if context.is_open]

    # -- work

    def _start(self, context: Context, task: RunningTask, prompt: Prompt) -> None:
        assert context.live is not None
        task.run = context.live.do(partial(self._work, context, task, prompt))
        context.running[task.record.id] = task
        end = asyncio.ensure_future(self._see_to_end(context, task, task.run))
        self._ends.add(end)
        end.add_done_callback(self._ends.discard)

    async def _work(self, context: Context, task: RunningTask, prompt: Prompt, agent: Agent) -> Result:
        assert context.live is not None
        context.records.begin(task.record.id, agent.log.head)
        context.current = task
        task.put(TaskState.TASK_STATE_WORKING)
        context.show_question()  # a background agent may have asked before
        try:
            return await self._answer(context.live, await context.live.opened(), prompt)
        finally:  # before the next task begins
            task.head = agent.log.head
            context.current = None

    async def _see_to_end(self, context: Context, task: RunningTask, run: "asyncio.Future[Result]") -> None:
        await asyncio.wait([run])
        state, text = _outcome(run, canceled=task.canceled)
        result = run.result() if not run.cancelled() and run.exception() is None else None
        usage: Mapping[str, object] = _usage(result) if result is not None else {}
        try:
            context.records.end(task.record.id, state, text, task.head, usage)
        finally:
            del context.running[task.record.id]
            task.finish(state, text, result, usage)


def _outcome(run: "asyncio.Future[Result]", *, canceled: bool) -> tuple[State, str]:
    """Return how a task ended, and why; the client may have wished it."""
    if not run.cancelled() and (error := run.exception()) is not None:
        return TaskState.TASK_STATE_FAILED, failure_of(error)
    if run.cancelled() or run.result().stop_reason == "interrupted":
        if canceled:
            return TaskState.TASK_STATE_CANCELED, "Canceled by the client."
        why = "The server stopped" if run.cancelled() else "Interrupted"
        return TaskState.TASK_STATE_FAILED, f"{why}. Send a message with this contextId to continue."
    result = run.result()
    if result.error is None:
        return TaskState.TASK_STATE_COMPLETED, ""
    if result.stop_reason == "budget" and not result.turns:
        return TaskState.TASK_STATE_REJECTED, result.error.message
    return TaskState.TASK_STATE_FAILED, result.error.message


def _usage(result: Result) -> dict[str, object]:
    """Return the usage and cost, for the task's metadata."""
    usage = result.usage
    cost: dict[str, object] = {"usd": float(result.run_usd)}
    if result.cost.unpriced:
        cost["unpriced_models"] = list(result.cost.unpriced)  # then usd is a minimum
    tokens = {"input_tokens": usage.total_input, "output_tokens": usage.output}
    return {"sagent": {**cost, **tokens, "model": result.model, "turns": result.turns}}
