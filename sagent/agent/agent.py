"""The Agent: one conversation with one model at a time, its tools, its log and its purse."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

from sagent.agent.loop import take_turn
from sagent.agent.state import Bounds, Resources, Run, State, specs_of
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import BudgetExceeded, ModelError, SagentError, UsageError
from sagent.events import Event, Failure, Finished, Result, SessionOpened
from sagent.messages import Message, user
from sagent.model import Effort, Model
from sagent.peer import Action, Inject, Moment, Status
from sagent.policy import AllowAll, Policy
from sagent.session.log import Log, MemoryLog
from sagent.tool import Tool, Workspace

LIMIT_REASONS = {
    "max_turns": "the limit of {turns} turns is reached; raise max_turns (--max-turns)",
    "max_tool_call_rounds": "the limit of {rounds} tool call rounds is reached; raise max_tool_call_rounds "
    "(--max-tool-call-rounds)",
    "max_tokens": "the answer was cut at its length limit; raise max_response_tokens (--max-response-tokens)",
    "context_overflow": "the model's context window is full",
    "refusal": "the model refused to go on",
    "content_filter": "the provider's content filter stopped the answer",
    "error": "the provider declared its reply broken",
}


class Agent:
    """An agent. Its conversation goes on from run to run; one run at a time.

    `model` answers, `tools` are offered to it, `policy` judges its calls (default: allow), `bounds` limit a run and
    `resources` are what it shares or keeps: log, ledger, workspace. Without them it keeps its log in memory, has no cap
    and works in the current directory.
    """

    def __init__(
        self,
        model: Model,
        *,
        system: str = "",
        tools: Sequence[Tool] = (),
        policy: Policy | None = None,
        bounds: Bounds | None = None,
        effort: Effort | None = None,
        resources: Resources | None = None,
    ) -> None:
        given = resources or Resources()
        by_name = {tool.name: tool for tool in tools}
        for name in by_name:
            if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name):
                raise UsageError(f"{name!r} cannot be a tool's name: providers take 1 to 64 letters, digits, _ and -")
        if len(by_name) != len(tools):
            raise UsageError(f"two tools have the same name: {', '.join(tool.name for tool in tools)}")
        self._state = State(
            path=given.path,
            model=model,
            system=system,
            tools=by_name,
            policy=policy or AllowAll(),
            bounds=bounds or Bounds(),
            effort=effort,
            log=given.log or MemoryLog(),
            ledger=given.ledger or Ledger(None, PriceBook()),
            workspace=given.workspace or Workspace(Path.cwd()),
            ask=given.ask,
            resolve=given.resolve,
            finish=given.finish,
            specs=specs_of(tools),
        )
        self._owns_log = given.log is None
        self._task: asyncio.Task[object] | None = None  # which a run is in
        self._ended: asyncio.Event | None = None  # of the run in progress, or of the last one
        self._interrupted = False
        self._announced = False
        self._last: Result | None = None

    @property
    def path(self) -> str:
        """Its name in the tree."""
        return self._state.path

    @property
    def model(self) -> Model:
        """What answers now."""
        return self._state.model

    @property
    def running(self) -> bool:
        """Whether a run is in progress."""
        return self._task is not None

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation so far."""
        return tuple(self._state.history)

    @property
    def ledger(self) -> Ledger:
        """What it and its tree have spent."""
        return self._state.ledger

    @property
    def log(self) -> Log:
        """What happened."""
        return self._state.log

    async def run(self, prompt: str | Mapping[str, object] | Message) -> Result:
        """Answer one prompt: a string, a mapping with "prompt", or a Message.

        Raises ModelError, BudgetExceeded and UsageError. A run that was interrupted, or stopped by a limit, returns a
        result whose `error` says so.
        """
        result, error = await self._run(prompt)
        if error is not None:
            raise error
        return result

    def run_sync(self, prompt: str | Mapping[str, object] | Message) -> Result:
        """`run` for code that is not async; must not be called inside a running event loop."""

        async def once() -> Result:
            try:
                return await self.run(prompt)
            finally:
                await self.aclose()

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(once())
        raise UsageError("run_sync is for code without an event loop; here, await run() instead")

    async def stream(self, prompt: str | Mapping[str, object] | Message) -> AsyncIterator[Event]:
        """The same as events, as they happen; the last is Finished with the result. Errors are told in it, not raised.

        Closing the iterator early interrupts the run.
        """
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        forget = self.listen(events.put_nowait)
        task = asyncio.create_task(self._run(prompt))
        task.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            task.result()
        finally:
            forget()
            if not task.done():
                task.cancel()
                await asyncio.wait([task])

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Have every event told to a function, at once, in the loop's thread; call what is returned to end it."""
        self._state.listeners.append(listener)
        return lambda: self._state.listeners.remove(listener)

    def send(self, message: Message | str, moment: Moment = "now") -> None:
        """Put a message into the inbox; the run in progress reads it, or the next one."""
        self._state.inbox.put(user(message) if isinstance(message, str) else message, moment)

    def apply(self, action: Action) -> None:
        """Change model, effort or context, or stop. Between two model calls; raises UsageError when it cannot be."""
        match action:
            case Inject(message, moment):
                self.send(message, moment)
            case _:
                self._state.apply(action)

    def interrupt(self) -> None:
        """Stop the model call and the tools of the run in progress. Its `run` returns with error kind "interrupted"."""
        if self._task is not None and not self._interrupted:
            self._interrupted = True
            self._task.cancel()

    async def wait(self) -> Result:
        """The result of the run in progress, or of the last one."""
        if self._ended is not None:
            await self._ended.wait()
        if self._last is None:
            raise UsageError(f"agent {self.path} has not run yet")
        return self._last

    def status(self) -> Status:
        """How it stands."""
        state = self._state
        tokens = state.meter.estimate(state.model.weigh(state.request()))
        model = f"{state.model.provider}/{state.model.id}"
        return Status(state.path, "working" if self._task else "idle", model, state.run.turns, tokens)

    def restore(self, history: Sequence[Message]) -> None:
        """Take over an earlier conversation, before the first run."""
        self._state.history = list(history)

    async def aclose(self) -> None:
        """End what its tools left running, and close its log when it made it itself."""
        for tool in self._state.tools.values():
            close = getattr(tool, "aclose", None)
            if close is not None:
                await close()
        if self._owns_log:
            self._state.log.close()

    async def _run(self, prompt: str | Mapping[str, object] | Message) -> tuple[Result, SagentError | None]:
        message = to_message(prompt)
        await self._let_go()
        self._task, self._interrupted, self._ended = asyncio.current_task(), False, asyncio.Event()
        self._state.run = Run()
        first = len(self._state.history)
        try:
            try:
                reason, failure, error = await self._work(message)
            except asyncio.CancelledError:
                self._interrupted = True
                await self._finish(first, "interrupted", Failure("interrupted", "the run was cancelled"))
                raise
            self._interrupted = True  # nothing is left to interrupt
            return await self._finish(first, reason, failure), error
        finally:
            self._task = None
            self._ended.set()

    async def _work(self, message: Message) -> tuple[str, Failure | None, SagentError | None]:
        """Take the turn: why it ended, and what went wrong."""
        state = self._state
        try:
            self._announce()
            state.inbox.put(message)
            reason = await take_turn(state)
            return reason, _limit_failure(reason, state.run, state.bounds), None
        except (ModelError, BudgetExceeded) as error:
            reason = "budget" if isinstance(error, BudgetExceeded) else "error"
            return reason, Failure(error.kind, str(error)), error
        except asyncio.CancelledError:
            if not self._interrupted or self._task is None:
                raise
            self._task.uncancel()
            return "interrupted", Failure("interrupted", "the run was interrupted"), None

    async def _let_go(self) -> None:
        """Wait for a stream that its reader has left: the loop closes it in its next rounds. Raises UsageError."""
        for _ in range(3):
            if self._task is None:
                return
            await asyncio.sleep(0)
        if self._task is not None and self._ended is not None and self._task.cancelling():
            await self._ended.wait()
        if self._task is not None:
            raise UsageError(f"agent {self.path} is running; send() it the message, or wait")

    def _announce(self) -> None:
        state = self._state
        if not self._announced:
            self._announced = True
            name = f"{state.model.provider}/{state.model.id}"
            resumed = bool(state.history)
            state.emit(SessionOpened(state.path, state.log.session_id, state.log.path, name, resumed))

    async def _finish(self, first: int, reason: str, failure: Failure | None) -> Result:
        """Close the books of a run: make the log durable, tell the result."""
        state = self._state
        if state.finish is not None:
            await state.finish()
        if state.unsettled:
            await asyncio.to_thread(state.ledger.prices.warm)
            state.settle_all()
        if failure is not None:
            state.record("failed", {"kind": failure.kind, "message": failure.message})
        await state.make_durable()
        replies = [m for m in state.history[first:] if m.role == "assistant"]
        last = replies[-1] if replies else None
        self._last = Result(
            content=last.content if last else "",
            parts=last.parts if last else (),
            stop_reason=reason,
            error=failure,
            usage=state.run.usage,
            cost=state.ledger.totals(),
            turns=state.run.turns,
            duration=time.monotonic() - state.run.started,
            model=f"{state.model.provider}/{state.model.id}",
            session_id=state.log.session_id,
            session_path=state.log.path,
            head=state.log.head,
            denials=tuple(state.run.denials),
        )
        state.emit(Finished(state.path, self._last))
        return self._last


def to_message(prompt: str | Mapping[str, object] | Message) -> Message:
    """What a person or program asked, as a message. Raises UsageError for a mapping without a "prompt" string."""
    if isinstance(prompt, Message):
        return prompt
    if isinstance(prompt, str):
        return user(prompt)
    if not isinstance(prompt, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers are not all typed
        raise UsageError(f"a prompt is a string, a mapping with a prompt, or a Message, not {type(prompt).__name__}")
    text = prompt.get("prompt")
    if not isinstance(text, str) or len(prompt) != 1:
        raise UsageError(f'a prompt mapping is {{"prompt": "text"}}, not {dict(prompt)!r:.200}')
    return user(text)


def _limit_failure(reason: str, run: Run, bounds: Bounds) -> Failure | None:
    if reason not in LIMIT_REASONS:
        return None
    return Failure(reason, LIMIT_REASONS[reason].format(turns=run.turns, rounds=run.rounds))
