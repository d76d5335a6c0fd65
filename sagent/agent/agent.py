"""The Agent: one conversation with one model at a time, its tools, its log and its purse."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

from sagent.agent import children
from sagent.agent.holdings import holdings
from sagent.agent.inbox import Arrived
from sagent.agent.loop import take_turn
from sagent.agent.state import Bounds, Resources, Run, State, limits_of, specs_of
from sagent.agent.tree import Tree
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import BudgetExceeded, ModelError, SagentError, UsageError
from sagent.events import Event, Failure, Finished, Notice, Result, SessionOpened
from sagent.lib.json import as_str
from sagent.messages import Message, Text, user
from sagent.model import Effort, Model
from sagent.peer import Action, Background, Inject, JobStatus, Moment, Order, Scope, Status
from sagent.policy import AllowAll, Policy
from sagent.session.entries import opened, returned
from sagent.session.folds import bodies, history, last_job, lost_jobs, unread
from sagent.session.log import Log, MemoryLog
from sagent.tool import Tool, Workspace
from sagent.usage import Cost

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
            listed=given.limits,
            fallbacks=list(given.fallbacks),
            catalog=given.catalog,
            finish=given.finish,
            specs=specs_of(tools),
            caller=self,
        )
        self._owns_log = given.log is None
        self._tree = given.tree or Tree()
        self._above: State | None = None  # of the agent that spawned it
        self._order: Order | None = None  # what it was spawned for
        self._deepest: int | None = None  # generation that agents below it may be of, as those above ordered
        self._life: asyncio.Task[None] | None = None  # of an agent that was spawned
        self._at_work = False  # it is in a turn of that life, or has not told of it yet
        self._state.busy = lambda: any(agent.busy for agent in self._tree.below(self.path))
        self._tree.add(self)
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
    def busy(self) -> bool:
        """Whether it is at work, or has something to read that it will be."""
        return self.running or self._at_work or (self._life is not None and len(self._state.inbox) > 0)

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation so far."""
        return tuple(self._state.history)

    @property
    def tree(self) -> Tree:
        """All agents of its session, itself among them."""
        return self._tree

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
        result, error = await self._run(to_message(prompt))
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
        message = to_message(prompt)
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        forget = self.listen(events.put_nowait)
        task = asyncio.create_task(self._run(message))
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
        """Put a message into the inbox; the run in progress reads it, or the next one.

        What an agent of the tree sends is answered: the last words of the turn that reads it go back to the sender.
        """
        said = user(message) if isinstance(message, str) else message
        answer = said.sender != self.path and any(agent.path == said.sender for agent in self._tree.living)
        self._state.receive(said, moment, answer=answer)

    def inform(self, message: Message) -> None:
        """The same for what wants no answer, and is read when there is a pause."""
        self._state.receive(message, "next")

    def check(self, action: Action) -> None:
        """Raise UsageError for a change that cannot be made."""
        self._state.check(action)

    def apply(self, action: Action) -> None:
        """Change model, effort, limits or context, or stop. It takes effect between two model calls.

        Raises UsageError when it cannot be done; then nothing has changed.
        """
        match action:
            case Inject(message, moment):
                self.send(message, moment)
            case Background():
                self._state.apply(action)
            case _:
                self._state.check(action)
                if self.running:
                    self._state.pending.append(action)
                else:
                    self._state.apply(action)

    def interrupt(self, scope: Scope = "tree") -> None:
        """Stop the model call and the tools of the run in progress, and those of all agents below, unless told "self".

        Its `run` returns with error kind "interrupted". Calls in the background go on.
        """
        if self._task is not None and not self._interrupted:
            self._interrupted = True
            self._task.cancel()
        if scope == "tree":
            for agent in self._tree.below(self.path):
                agent.interrupt("self")

    async def spawn(self, order: Order | str) -> "Agent":
        """A new agent below this one, at work on its prompt; `wait()` gives its answer.

        It inherits whatever the order leaves open. Raises UsageError for an order that cannot be met and BudgetExceeded
        for an allowance that cannot be had: nothing was begun.
        """
        order = Order(order) if isinstance(order, str) else order
        state = self._state
        model, effort = children.model_for(state, order)
        tools, system = children.tools_for(state, order), children.system_for(state, order)
        path = self._tree.reserve(self.path, order.name, self._deepest)
        if order.budget_usd is not None:
            await asyncio.to_thread(state.ledger.prices.warm)
            state.ledger.allow(path, order.budget_usd)
        child = self._child(path, order, model, effort, tools, system)
        child.restore(children.history_for(state, order))
        child.begin(state, order, self._deepest, children.prompt_for(state, order, path))
        return child

    async def recall(self) -> None:
        """Take up what an earlier process left in the log, after `restore`: messages nobody has read, jobs that were
        lost, agents that live on, each with what it holds."""
        state = self._state
        entries = tuple(state.log.entries())
        for found in unread(entries, state.log.blobs.get):
            moment: Moment = "idle" if found.moment == "idle" else "next"
            state.inbox.put(Arrived(found.message, found.entry, found.answer), moment)
        state.jobs.last = last_job(entries)
        for body in lost_jobs(entries):
            state.record("job", {**body, "state": "lost"})
            text = f"{as_str(body.get('job'))}, a call of {as_str(body.get('tool'))}, was lost: the process ended."
            state.receive(user(text, sender="sagent"), "next")
        for body in bodies(entries, "spawned"):
            self._tree.recall(as_str(body.get("agent")))
            if body.get("persistent") is True:
                try:
                    await self._revive(body)
                except (SagentError, OSError, ValueError) as error:
                    state.emit(
                        Notice(state.path, "warning", f"{as_str(body.get('agent'))} is not there again: {error}")
                    )

    async def _revive(self, body: Mapping[str, object]) -> None:
        """Bring a child back that lives on."""
        state, path, order = self._state, as_str(body.get("agent")), children.order_of(body)
        model, effort = children.model_for(state, order)
        tools = children.tools_for(state, order)
        entries = tuple(state.log.child(path).entries())
        prompts = bodies(entries, "prompt")
        system = as_str(prompts[-1].get("system")) if prompts else state.system
        if order.budget_usd is not None:
            await asyncio.to_thread(state.ledger.prices.warm)
            state.ledger.allow(path, max(order.budget_usd - state.ledger.spent_below(path), Decimal(0)))
        child = self._child(path, order, model, effort, tools, system)
        child.restore(history(entries, state.log.blobs.get))
        child.begin(state, order, self._deepest)
        await child.recall()

    def _child(
        self, path: str, order: Order, model: Model, effort: Effort | None, tools: Sequence[Tool], system: str
    ) -> "Agent":
        state = self._state
        return Agent(
            model,
            system=system,
            tools=tools,
            policy=state.policy,
            bounds=children.bounds_for(state, order),
            effort=effort,
            resources=Resources(
                log=state.log.child(path),
                ledger=state.ledger,
                workspace=children.workspace_for(state, order),
                ask=state.ask,
                path=path,
                resolve=state.resolve,
                limits=state.listed,
                fallbacks=tuple(state.fallbacks),
                catalog=state.catalog,
                tree=self._tree,
            ),
        )

    def peers(self, pattern: str = "*") -> "Sequence[Agent]":
        """The other living agents of the tree that a name or a pattern means; "*" is all of them."""
        return self._tree.find(pattern, self.path)

    def post(self, path: str, message: Message, seconds: float = 0.0) -> None:
        """Send a message to a living agent, now or in some seconds. One that has ended by then gets it no more."""
        if seconds > 0:
            self._tree.later(seconds, lambda: self.post(path, message))
        elif agent := self._tree.get(path):
            self._state.record("sent", {"to": path, "text": message.content})
            agent.send(message)

    def catalog(self) -> str:
        """The models that can be switched to, for a model to read."""
        state = self._state
        return state.catalog() if state.catalog else f"Only {state.model.provider}/{state.model.id} can be used here."

    def jobs(self) -> Sequence[JobStatus]:
        """Its calls in the background, those that have ended included."""
        return tuple(job.status() for job in self._state.jobs.all())

    def job_output(self, name: str) -> str:
        """A job's result, or the end of what it has shown so far. Raises UsageError naming the jobs there are."""
        job = self._state.jobs.require(name)
        if job.output is None:
            return job.tail
        return "".join(part.text for part in job.output.content if isinstance(part, Text))

    async def wait_for_job(self, name: str, seconds: float | None = None) -> JobStatus:
        """How a job stands when it has ended or the time is over. Raises UsageError."""
        job = self._state.jobs.require(name)
        await asyncio.wait([job.task], timeout=seconds)
        return job.status()

    async def cancel_job(self, name: str) -> JobStatus:
        """Stop a job; what it had is lost. Raises UsageError."""
        job = self._state.jobs.require(name)
        job.task.cancel()
        await asyncio.wait([job.task])
        return job.status()

    def detach_job(self, name: str) -> str:
        """Have a job outlive this process, and say where its output goes. Raises UsageError where its tool cannot."""
        return self._state.jobs.detach(name)

    def cost(self) -> Cost:
        """What the whole tree has spent."""
        return self._state.ledger.totals()

    def wake(self) -> None:
        """Have a run that waits for others look again whether it still must."""
        self._state.inbox.nudge("next")

    def end(self) -> "asyncio.Task[None] | None":
        """Begin to end an agent that was spawned, and what is below it; the task is done when it has ended."""
        if self._life is not None:
            self._life.cancel()
        return self._life

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
        ended = self._life is not None and self._life.done()
        return Status(
            state.path,
            "ended" if ended else "working" if self._task else "idle",
            f"{state.model.provider}/{state.model.id}",
            state.run.turns,
            state.meter.estimate(state.model.weigh(state.request())),
            state.effort or "",
            state.limits.window,
            state.ledger.spent(state.path),
            state.ledger.spent_below(state.path),
            tuple(job.status() for job in state.jobs.running()),
            holdings(state),
            limits_of(state.bounds),
        )

    def restore(self, history: Sequence[Message]) -> None:
        """Take over an earlier conversation, before the first run."""
        self._state.history = list(history)

    async def aclose(self) -> None:
        """End the agents below it, its jobs and what its tools left running; close its log when it made it itself."""
        self._tree.close()
        await self._tree.end_below(self.path)
        await self._state.jobs.stop()
        for tool in self._state.tools.values():
            close = getattr(tool, "aclose", None)
            if close is not None:
                await close()
        if self._owns_log:
            self._state.log.close()

    def begin(self, above: State, order: Order, deepest: int | None, prompt: Message | None = None) -> None:
        """Begin the life of an agent that was spawned: what happens here is told above too. Without a prompt it is
        one of an earlier process, that goes on."""
        self._above, self._order = above, order
        own = None if order.max_depth is None else self.path.count("/") + order.max_depth
        self._deepest = min((most for most in (own, deepest) if most is not None), default=None)
        self.listen(above.emit)
        state = self._state
        if prompt is not None:
            first = state.record("opened", opened(state.log.session_id, self.path, str(state.workspace.cwd), {}))
            above.record("spawned", children.spawned_body(state, first, order))
            state.inbox.put(Arrived(prompt))
            self._ended = asyncio.Event()
        self._life = asyncio.get_running_loop().create_task(self._live(above, order), name=self.path)

    async def _live(self, above: State, order: Order) -> None:
        """A spawned agent's life: one turn, or for one that persists a turn for whatever arrives, until it is ended."""
        state = self._state
        try:
            while True:
                await state.inbox.arrival()
                self._at_work = True
                result = await self._turn()
                above.record("returned", returned(self.path, state.log.head))
                children.remember(above, self.path, order.prompt, result)
                if not order.persistent:
                    return
                news = children.ended(self.path, result)
                for path in dict.fromkeys([above.path, *state.run.askers]):
                    if agent := self._tree.get(path):
                        agent.inform(news)
                self._at_work = False
                self._tree.nudge(self.path)
        finally:
            await self._leave(above)

    async def _turn(self) -> Result:
        """One run on what is in the inbox. Whatever goes wrong, there is a result that says so."""
        try:
            return (await self._run(None))[0]
        except Exception as error:  # a child's defect is its parent's to read, not its end
            self._last = Result("", (), "error", Failure("crashed", f"{type(error).__name__}: {error}"))
            self._state.emit(Finished(self.path, self._last))
            return self._last

    async def _leave(self, above: State) -> None:
        """What is left to do when it ends, also by a cancellation."""
        state = self._state
        try:
            await self._tree.end_below(self.path)
            await state.jobs.stop()
        finally:
            self._at_work = False
            self._tree.remove(self)
            state.ledger.take_back(self.path)
            if self._last is None:
                self._last = Result("", (), "interrupted", Failure("interrupted", "it was ended before it began"))
            if self._ended is not None:
                self._ended.set()
            state.log.close()
            above.inbox.nudge("next")

    async def _run(self, message: Message | None) -> tuple[Result, SagentError | None]:
        """A run on a prompt, or only on what is in the inbox."""
        await self._let_go()
        self._task, self._interrupted = asyncio.current_task(), False
        if self._ended is None or self._ended.is_set():
            self._ended = asyncio.Event()
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
            self._state.apply_pending()
            self._ended.set()
            self._tree.nudge(self.path)

    async def _work(self, message: Message | None) -> tuple[str, Failure | None, SagentError | None]:
        """Take the turn: why it ended, and what went wrong."""
        state = self._state
        try:
            self._announce()
            if message is not None:
                state.inbox.put(Arrived(message))
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
