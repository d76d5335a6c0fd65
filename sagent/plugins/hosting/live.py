"""Sessions open in this process for clients of some protocol, each with its agent in a separate task."""

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from typing import Protocol, TypeAlias, TypeVar, cast

from sagent.agent.agent import Agent
from sagent.agent.resources import Asker
from sagent.errors import SagentError, SessionNotFound, UsageError
from sagent.events import Denied, Event, Notice, Result, Retrying, ToolStarted
from sagent.lib.dataclass import dataclass
from sagent.lib.names import quote_path
from sagent.lib.text import one_line, printable, spelled
from sagent.messages import Message, ToolCall, user
from sagent.peer import Moment
from sagent.plugins.hosting.asking import call_text
from sagent.policy import Ask
from sagent.policy.permissions import PermissionPolicy
from sagent.policy.rules import EDITS
from sagent.tool import Workspace
from sagent.tools.ask import Answerer
from sagent.tools.ask import Question as Inquiry

T = TypeVar("T")
_Waiting: TypeAlias = "tuple[Callable[[Agent], Awaitable[object]], asyncio.Future[object]]"


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """The wishes of a client; None for the server's defaults."""

    session: str | None = None  # to continue
    cwd: str | None = None
    model: str | None = None
    max_budget_usd: float | None = None
    permission_mode: str | None = None
    effort: str | None = None


class OpenSession(Protocol):
    """A session that is open. `policy` judges its agents' calls: its mode may be changed."""

    @property
    def agent(self) -> Agent: ...

    @property
    def policy(self) -> PermissionPolicy: ...


Opening: TypeAlias = Callable[
    [ClientOptions, Callable[[Event], None], Asker, Answerer], AbstractAsyncContextManager[OpenSession]
]
"""Opens the session that a client wants. Raises SagentError and OSError."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question for a person: may a call be made (`ask` has the reason), or a question of an agent. An answer counts
    for this question only: None allows the call, or leaves the question open. `change` is the call's change of a file,
    if known: its path, and the whole diff for the person."""

    id: str
    agent: str
    about: tuple[ToolCall, Ask] | Inquiry
    change: tuple[str, str] | None = None
    answer: "asyncio.Future[str | None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class LiveSession:
    """A session, open until `aclose`. Its prompts are answered one after another; `changed` is called when a run or a
    question begins or ends."""

    def __init__(
        self, opening: Opening, options: ClientOptions, on_event: Callable[[Event], None], changed: Callable[[], None]
    ) -> None:
        self._opening, self._wanted, self._on_event, self._changed = opening, options, on_event, changed
        self._waiting: asyncio.Queue[_Waiting | None] = asyncio.Queue()
        self._ready: asyncio.Future[OpenSession] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live())
        self.questions: dict[str, Question] = {}
        self._run: asyncio.Task[object] | None = None

    async def opened(self) -> OpenSession:
        """Return the session, once it is open. Raises what opening it has raised: then it is closed."""
        try:
            return await asyncio.shield(self._ready)
        except asyncio.CancelledError:
            if not self._ready.done():
                await self.aclose()
            raise

    @property
    def agent(self) -> Agent:
        return self._ready.result().agent

    @property
    def policy(self) -> PermissionPolicy:
        return self._ready.result().policy

    @property
    def busy(self) -> bool:
        """True if a prompt is being answered, or waits for that."""
        return self._run is not None or not self._waiting.empty()

    @property
    def closed(self) -> bool:
        return self._task.done()

    def prompt(self, message: Message | str) -> "asyncio.Future[Result]":
        """Answer a prompt after earlier ones. Return the run's result, or raise its error."""
        said = user(message) if isinstance(message, str) else message
        return self.do(lambda agent: self.answer(agent, said))

    def do(self, work: Callable[[Agent], Awaitable[T]]) -> "asyncio.Future[T]":
        """Run a function with the agent after earlier prompts. Return its result, or raise its error. Raises
        UsageError."""
        if self.closed:
            raise UsageError("The session is closed.")
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait((work, cast("asyncio.Future[object]", result)))
        return result

    def send(self, message: Message | str, moment: Moment = "now") -> None:
        """Pass a message to the current run, or begin one with it. Errors are in its events."""
        if self.agent.running and self._waiting.empty():
            self.agent.send(message, moment)
        else:
            self.prompt(message).add_done_callback(lambda run: run.cancelled() or run.exception())

    def interrupt(self) -> None:
        """Stop the current run and agents below it, and cancel waiting prompts."""
        self._forget()
        self.stop()

    def stop(self) -> None:
        """Stop only the current run, and agents below it."""
        if self._run is not None and not self.agent.running:
            self._run.cancel()  # it is about to begin, or does something else
        else:
            self.agent.interrupt()

    async def aclose(self) -> None:
        """Interrupt current work, and wait until the session is closed: it can be resumed."""
        self._forget()
        self._waiting.put_nowait(None)
        if self._run is not None:
            self._run.cancel()
        elif not self._ready.done():
            self._task.cancel()
        await asyncio.wait([self._task])

    async def _live(self) -> None:
        try:
            async with self._opening(self._wanted, self._on_event, self._approve, self._inquire) as opened:
                self._ready.set_result(opened)
                while (waiting := await self._waiting.get()) is not None:
                    if not waiting[1].done():  # its caller may have withdrawn it
                        await self._take(opened.agent, *waiting)
        except BaseException as error:
            if self._ready.done():
                if not isinstance(error, SagentError | OSError):
                    raise
                self._on_event(Notice("root", "error", f"The session was not closed well: {failure_of(error)}"))
            elif isinstance(error, asyncio.CancelledError):
                self._ready.cancel()
            else:
                self._ready.set_exception(error)
        finally:
            self._forget()
            self._changed()

    def _forget(self) -> None:
        """Cancel waiting work, except a request to close."""
        closing = False
        while not self._waiting.empty():
            if (waiting := self._waiting.get_nowait()) is None:
                closing = True
            else:
                waiting[1].cancel()
        if closing:
            self._waiting.put_nowait(None)

    async def _take(
        self, agent: Agent, work: Callable[[Agent], Awaitable[object]], result: "asyncio.Future[object]"
    ) -> None:
        if (path := agent.log.path) and not os.path.lexists(
            f"{path}/root.jsonl"
        ):  # nothing of it could be resumed, shown or checked
            lost = f"The session {path} was deleted while it was open: begin another."
            self._on_event(Notice(agent.path, "error", lost))
            result.set_exception(SessionNotFound(lost))
            return
        self._run = asyncio.ensure_future(work(agent))
        self._changed()
        await asyncio.wait([self._run])
        run, self._run = self._run, None
        if not result.done():
            if run.cancelled():
                result.cancel()
            elif (error := run.exception()) is not None:
                result.set_exception(error)
            else:
                result.set_result(run.result())
        self._changed()

    async def answer(self, agent: Agent, message: Message) -> Result:
        """Answer a prompt, and what reached the agent too late for that run."""
        result = await agent.run(message)
        while not result.is_error and agent.state.inbox.holds("now", "idle"):
            result = await agent.continue_run()
        return result

    async def _approve(self, call: ToolCall, ask: Ask) -> str | None:
        agent = ask.agent or "root"
        node = self.agent.tree.get(agent)
        shown = await asyncio.to_thread(_change, call, node.state.workspace) if node and call.name in EDITS else None
        return await self._put(Question(secrets.token_hex(8), agent, (call, ask), shown))

    async def _inquire(self, inquiry: Inquiry) -> str | None:
        return await self._put(Question(secrets.token_hex(8), inquiry.agent, inquiry))

    async def _put(self, question: Question) -> str | None:
        self.questions[question.id] = question
        self._changed()
        try:
            return await question.answer
        finally:
            del self.questions[question.id]
            self._changed()


def _change(call: ToolCall, workspace: Workspace) -> tuple[str, str] | None:
    from sagent.plugins.hosting.proposal import proposal_of

    found = proposal_of(call, workspace)
    diff = found.diff() if found is not None else ""
    return (spelled(quote_path(found.path)), spelled(diff)) if found is not None and diff else None


def show_question(question: Question) -> dict[str, object]:
    """Return a complete question as JSON."""
    shown: dict[str, object] = {"id": question.id, "agent": question.agent}
    match question.about:
        case Inquiry(_, text, options, multiple, plan):
            kind = "plan" if plan else "inquiry"
            return {
                **shown, "kind": kind, "text": printable(text), "options": list(map(printable, options)),
                "multiple": multiple, "plan": printable(plan),
            }  # fmt: skip
        case (call, ask):
            reason, wants = printable(ask.reason), list(map(printable, ask.wants))
            path, diff = question.change or ("", "")
            return {
                **shown, "kind": "approval", "tool": call.name, "call_id": call.id, "text": call_text(call),
                **({"path": path, "diff": diff} if diff else {}),
                "reason": reason, "wants": wants,
            }  # fmt: skip


def progress_of(event: Event) -> str:
    """Describe an event in a line for a waiting client; "" if it is no news to them."""
    match event:
        case ToolStarted():
            said = f"{event.agent}: {event.call.name} {one_line(call_text(event.call), 160)}"
        case Denied():
            said = f"{event.agent}: denied {event.denial.tool}: {one_line(event.denial.reason, 160)}"
        case Retrying():
            said = f"{event.agent}: the model call is repeated: {one_line(event.reason, 160)}"
        case Notice(level="warning"):
            said = one_line(event.text if event.agent == "root" else f"{event.agent}: {event.text}", 500)
        case _:
            return ""
    return printable(said)


def failure_of(error: BaseException) -> str:
    """Describe an error for a person."""
    if isinstance(error, OSError) and not isinstance(error, SagentError):
        return f"{error.filename or 'A file could not be used'}: {error.strerror or error}"
    return str(error) or type(error).__name__
