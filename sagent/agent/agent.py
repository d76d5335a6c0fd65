"""The Agent: one conversation with one model at a time, its tools, its log and its budget."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.agent import spawn
from sagent.agent.advisee import AgentAdvisee
from sagent.agent.child import ChildTask
from sagent.agent.delayed_mail import DelayedMail
from sagent.agent.runs import Runner
from sagent.agent.tree import Tree
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.engine.actions import apply, check, rewound
from sagent.engine.compaction import make_room
from sagent.engine.context_breakdown import context_breakdown
from sagent.engine.inbox import Arrived
from sagent.engine.limits import RunLimits, limits_of, with_limits
from sagent.engine.state import EXECUTOR, AgentState, Resources, begin_checkpoints
from sagent.errors import SagentError, UsageError
from sagent.events import Advice, Event, Notice, Result
from sagent.messages import Message, Text, user
from sagent.model import Effort, Model
from sagent.peer import Action, Background, Cancel, Consult, Inject, JobStatus, Moment, Scope, SpawnRequest, Status
from sagent.policy import AllowAll, Policy
from sagent.policy.advisory import Advisory, AdvisoryFactory
from sagent.session.contents import (
    AdviceOutcome,
    AdviceRated,
    ConsultationEntry,
    MessageSent,
    Opened,
    Returned,
    Spawned,
)
from sagent.session.entries import Entry
from sagent.session.folds import branch_contents, history
from sagent.session.log import Log, MemoryLog
from sagent.tool import Tool, Workspace
from sagent.usage import Cost

if TYPE_CHECKING:
    from sagent.rewind.restore import FileChanges


class Agent:
    """An agent. Its conversation goes on from run to run; one run at a time.

    `model` answers, `tools` are offered to it, `policy` judges its calls (default: allow), `limits` bound a run and
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
        limits: RunLimits | None = None,
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
        judge = policy or AllowAll()
        self._tree = tree = given.tree or Tree()
        self._state = state = AgentState(
            path=given.path,
            model=model,
            system=system,
            tools=by_name,
            judge=judge,
            policy=judge,
            role=given.role,
            compactor=given.compactor,
            limits=limits or RunLimits(),
            effort=effort,
            log=given.log or MemoryLog(),
            ledger=given.ledger or Ledger(None, PriceBook()),
            workspace=given.workspace or Workspace(Path.cwd()),
            ask=given.ask,
            resolve=given.resolve,
            listed=given.model_limits,
            fallbacks=list(given.fallbacks),
            catalog=given.catalog,
            finish=given.finish,
            prompts=tree.prompts,
            specs=tree.prompts.specs(tools),
            checkpoints=cache(partial(begin_checkpoints, looks_around=given.log is not None)),
            caller=self,
            stir=lambda: tree.nudge(given.path),
            tell=tree.tell,
        )
        self._owns_log = given.log is None
        self._runs = Runner(state, tree)
        self._life: ChildTask | None = None  # of an agent that was spawned
        self._consultations: set[asyncio.Task[None]] = set()  # that a person asked for
        self._deepest: int | None = None  # generation that agents below it may be of, as those above ordered
        post = tree.post = tree.post or DelayedMail(tree, state)
        state.busy = lambda: (
            any(agent.busy for agent in tree.below(given.path)) or (self._life is None and post.waiting)
        )
        self._make_advisory = given.advisory
        if given.advisory is not None:
            self._take_advisors(given.advisory, at_once=given.advised)
        tree.add(self)

    def _take_advisors(self, make: AdvisoryFactory, *, at_once: bool) -> None:
        """Have advisors, or be ready to."""
        state, advisee = self._state, AgentAdvisee(self, self._state)
        state.consult = self._consult_for_person
        state.advise = lambda: make(advisee)
        if at_once and (advisory := make(advisee)).tool is not None:
            state.advised_by(advisory)

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
        return self._runs.running

    @property
    def busy(self) -> bool:
        """Whether it is at work, or has something to read or to wait for with which it will go on."""
        return self.running or (self._life is not None and self._life.busy)

    @property
    def hears(self) -> bool:
        """Whether it will read what is sent to it now."""
        return self._life is None or self._life.hears

    @property
    def tools(self) -> Sequence[Tool]:
        """What it can call."""
        return tuple(self._state.tools.values())

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

    @property
    def _last(self) -> Result | None:
        return self._runs.last

    async def run(self, prompt: str | Mapping[str, object] | Message, *, output: object = None) -> Result:
        """Answer one prompt: a string, a mapping with "prompt", or a Message.

        With `output` the answer is data, in the result's `data`: a pydantic model, a dataclass, a TypedDict, another
        type that pydantic knows, or a JSON Schema as a mapping. An answer that does not fit is asked for once more.

        Raises ModelError, BudgetExceeded and UsageError. A run that was interrupted, stopped by a limit, or whose
        answer does not fit ("invalid_output") returns a result whose `error` says so.
        """
        result, error = await self._run(to_message(prompt), output)
        if error is not None:
            raise error
        return result

    def run_sync(self, prompt: str | Mapping[str, object] | Message, *, output: object = None) -> Result:
        """`run` for code that is not async; must not be called inside a running event loop."""

        async def once() -> Result:
            try:
                return await self.run(prompt, output=output)
            finally:
                await self.aclose()

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(once())
        raise UsageError("run_sync is for code without an event loop; here, await run() instead")

    async def stream(
        self, prompt: str | Mapping[str, object] | Message, *, output: object = None
    ) -> AsyncIterator[Event]:
        """The same as events, as they happen; the last is Finished with the result. Errors are told in it, not raised.

        Closing the iterator early interrupts the run.
        """
        message = to_message(prompt)
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        forget = self.listen(events.put_nowait)
        task = asyncio.create_task(self._run(message, output))
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

    async def go_on(self) -> Result:
        """A run on what is in the inbox, without a prompt. What went wrong is in the result. Raises UsageError."""
        return (await self._run(None, None))[0]

    async def _run(self, message: Message | None, form: object) -> tuple[Result, SagentError | None]:
        if self._life is not None:
            raise UsageError(f"{self.path} was spawned and runs by itself: send() it the message, then wait()")
        return await self._runs.take(message, form)

    @property
    def advisory(self) -> Advisory | None:
        """Its advisors, if it has any."""
        return self._state.advisory

    async def consult(self, question: str = "", advisor: str = "") -> Sequence[Advice]:
        """Ask an advisor, by its name, or the first; all of a panel. Raises UsageError where there is none.

        What it says is returned, and is not part of the conversation; `apply(Consult())` puts it there.
        """
        return await self._advisors().consult(question, advisor)

    def _advisors(self) -> Advisory:
        if self._state.advisory is None:
            raise UsageError(f"{self.path} has no advisor: name one with --advisor, or switch to one")
        return self._state.advisory

    def _consult_for_person(self, question: str, advisor: str) -> None:
        """Ask at once and beside whatever goes on; the answer is read when there is a pause."""
        task = asyncio.get_running_loop().create_task(self._ask_for_person(question, advisor))
        self._consultations.add(task)
        task.add_done_callback(self._consultations.discard)

    async def _ask_for_person(self, question: str, advisor: str) -> None:
        advisory = self._advisors()
        try:
            answers = await advisory.consult(question, advisor, "person")
        except UsageError as error:
            self._state.emit(Notice(self.path, "warning", str(error)))
            return
        for message in advisory.messages(answers):
            if self.hears:
                self._state.receive(message, "next")

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Have every event told to a function, at once, in the loop's thread; call what is returned to end it."""
        self._state.listeners.append(listener)
        return lambda: self._state.listeners.remove(listener)

    def send(self, message: Message | str, moment: Moment = "now") -> None:
        """Put a message into the inbox; the run in progress reads it, or the next one. Raises UsageError when there
        will be none.

        What an agent of the tree sends is answered: the last words of the turn that reads it go back to the sender.
        """
        said = user(message) if isinstance(message, str) else message
        if not self.hears:
            raise UsageError(f"{self.path} has ended: nothing can be sent to it")
        self._state.receive(said, moment, answer=said.sender != self.path and self._tree.get(said.sender) is not None)

    def inform(self, message: Message) -> None:
        """The same for what wants no answer, and is read when there is a pause."""
        self._state.receive(message, "next")

    def check(self, action: Action) -> None:
        """Raise UsageError for a change that cannot be made."""
        check(self._state, action)

    def apply(self, action: Action) -> None:
        """Change model, effort, limits or context, or stop. It takes effect between two model calls.

        Raises UsageError when it cannot be done; then nothing has changed.
        """
        match action:
            case Inject(message, moment):
                self.send(message, moment)
            case Background() | Consult() | Cancel():
                check(self._state, action)
                apply(self._state, action)
            case _:
                check(self._state, action)
                if self.running:
                    self._state.pending.append(action)
                    self.wake()
                else:
                    apply(self._state, action)

    async def compact(self, hints: str = "") -> None:
        """Make the context smaller now, keeping the task; a model is asked for a summary. Raises UsageError while a run
        is in progress: then it is `apply(Compact(hints))`."""
        if self.running:
            raise UsageError(f"agent {self.path} is running; apply(Compact()) is done before its next model call")
        await make_room(self._state, "asked for", hints, summarise=True)

    def interrupt(self, scope: Scope = "tree") -> None:
        """Stop the model call and the tools of the run in progress, and those of all agents below, unless told "self".

        Its `run` returns with error kind "interrupted". Calls in the background go on.
        """
        if self._life is not None:
            self._life.interrupt()
        else:
            self._runs.interrupt()
        if scope == "tree":
            for agent in self._tree.below(self.path):
                agent.interrupt("self")

    async def spawn(self, order: SpawnRequest | str) -> "Agent":
        """A new agent below this one, at work on its prompt; `wait()` gives its answer.

        It inherits whatever the order leaves open. Raises UsageError for an order that cannot be met, BudgetExceeded
        for an allowance that cannot be had and OSError where its log cannot be written: nothing was begun.
        """
        order = SpawnRequest(order) if isinstance(order, str) else order
        state = self._state
        if not order.prompt.strip():
            raise UsageError("an agent needs a prompt: what is it to do?")
        path = self._tree.reserve(self.path, order.name, self._deepest)
        with spawn.allowance(state.ledger, path, order.budget_usd):
            child = self._child(path, order)
            child.restore(spawn.history_for(state, order))
            child.begin(state, order, self._deepest, spawn.prompt_for(state, order, path))
        return child

    def _child(self, path: str, order: SpawnRequest, entries: Iterable[Entry] = ()) -> "Agent":
        """An agent below this one; `entries` is its log, where it has one."""
        state = self._state
        model, effort = spawn.model_for(state, order)
        return Agent(
            model,
            system=spawn.system_for(state, order),
            tools=spawn.tools_for(state, order),
            policy=state.judge,
            limits=with_limits(spawn.bounds_for(state, order), spawn.limits_told(entries)),
            effort=effort,
            resources=Resources(
                log=state.log.child(path),
                ledger=state.ledger,
                workspace=spawn.workspace_for(state, order),
                ask=state.ask,
                path=path,
                resolve=state.resolve,
                model_limits=state.listed,
                fallbacks=tuple(state.fallbacks),
                catalog=state.catalog,
                tree=self._tree,
                advisory=self._make_advisory if state.advisory is None else state.advisory.heir,
                advised=state.advisory is not None,
                role=order.role or EXECUTOR,
                compactor=state.compactor,
            ),
        )

    def begin(self, above: AgentState, order: SpawnRequest, deepest: int | None, prompt: Message | None = None) -> None:
        """Begin the life of an agent that was spawned: what happens here is told above too. Without a prompt it is
        one of an earlier process, that goes on."""
        state = self._state
        own = None if order.max_depth is None else self.path.count("/") + order.max_depth
        self._deepest = min((most for most in (own, deepest) if most is not None), default=None)
        self.listen(above.emit)
        state.checkpoints = above.checkpoints  # one past of the files, whoever changed them
        if prompt is not None:
            first = state.record(Opened(state.log.session_id, self.path, str(state.workspace.cwd)))
            above.record(spawn.spawned_entry(state, first, order))
            state.record_history()
            if order.persistent:
                state.receive(prompt, "next")  # which would be given to it again after this process
            else:
                state.inbox.put(Arrived(prompt))
        self._life = ChildTask(self, self._runs, state, above, order)

    def as_tool(self, name: str, description: str) -> Tool:
        """A tool by which another agent asks this one. Each call is a conversation of its own, below the calling agent,
        which begins where this one's stands."""
        from sagent.agent.agent_tool import AgentTool

        return AgentTool(self, name, description)

    async def recall(self) -> None:
        """Take up what an earlier process left in the log, after `restore`: messages nobody has read or that are to
        arrive later, jobs that were lost, agents that live on, each with what it holds."""
        from sagent.agent.resume import recall

        entries = await recall(self._state, self._tree, self._revive)
        if self._life is None and self._tree.post is not None:
            self._tree.post.recall(entries)

    async def _revive(self, born: Spawned, heads: Sequence[str]) -> None:
        """Bring a child back that lives on: as it was, but for the turn that it was in."""
        state, path = self._state, born.agent
        entries = state.log.child(path).contents()
        order = spawn.order_of(born, entries)
        rest = spawn.rest_of(order, state.ledger.spent_below(path))
        with spawn.allowance(state.ledger, path, rest):
            child = self._child(path, order, entries)
            child.restore(history(entries, state.log.blobs.get))
            child.begin(state, order, self._deepest)
        if (text := spawn.left_open(path, entries, heads, child.messages)) is not None:
            state.receive(user(text, sender=path), "next")
            state.record(Returned(path, child.log.head))
        await child.recall()

    def peers(self, pattern: str = "*") -> "Sequence[Agent]":
        """The other living agents of the tree that a name or a pattern means; "*" is all of them."""
        return self._tree.find(pattern, self.path)

    def post(self, path: str, message: Message, seconds: float = 0.0) -> None:
        """Send a message to a living agent, now or in some seconds. The sender is told of one that did not reach it."""
        post = self._tree.post
        if seconds > 0 and post is not None:
            post.later(path, message, seconds)
        elif agent := self._tree.get(path):
            agent.send(message)
            self._state.record(MessageSent(path, message.content))

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
        """How a job stands when it has ended, the time is over or a message has arrived. Raises UsageError."""
        job = self._state.jobs.require(name)
        if not job.task.done():
            arrival = asyncio.create_task(self._state.inbox.arrival("now"))
            try:
                await asyncio.wait([job.task, arrival], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            finally:
                arrival.cancel()
        return job.status()

    async def cancel_job(self, name: str) -> JobStatus:
        """Stop a job; the end of what it showed is kept. Raises UsageError."""
        job = self._state.jobs.require(name)
        if not job.task.done():
            job.task.cancel()
            await asyncio.wait([job.task])
        return job.status()

    def detach_job(self, name: str) -> str:
        """Have a job outlive this process, and say where its output goes. Raises UsageError where its tool cannot."""
        where = self._state.jobs.detach(name)
        self.wake()
        self._state.stir()
        return where

    def cost(self) -> Cost:
        """What the whole tree has spent."""
        return self._state.ledger.cost()

    def wake(self) -> None:
        """Have a run that waits for others look again whether it still must."""
        self._state.inbox.nudge("next")

    def end(self) -> "asyncio.Task[None] | None":
        """Begin to end an agent that was spawned, and what is below it; the task is done when it has ended."""
        return self._life.end() if self._life is not None else None

    async def wait(self) -> Result:
        """The result of the run in progress, or of the last one; of an agent that was spawned, once it has read what
        it was sent."""
        if self._life is not None:
            await self._life.rested()
        else:
            await self._runs.ended()
        if self._runs.last is None:
            raise UsageError(f"agent {self.path} has not run yet")
        return self._runs.last

    def status(self) -> Status:
        """How it stands."""
        state = self._state
        ended = self._life is not None and self._life.left
        return Status(
            state.path,
            "ended" if ended else "working" if self.running else "idle",
            f"{state.model.provider}/{state.model.id}",
            state.run.turns,
            state.meter.estimate(state.model.max_input_tokens(state.request())),
            state.effort or "",
            state.model_limits.window,
            state.ledger.spent(state.path),
            state.ledger.spent_below(state.path),
            tuple(job.status() for job in state.jobs.running()),
            context_breakdown(state),
            limits_of(state.limits),
            "" if state.advisory is None else state.advisory.describe(),
        )

    def restore(self, history: Sequence[Message]) -> None:
        """Take over an earlier conversation, before the first run."""
        state = self._state
        state.history = list(history)
        if state.advisory is not None and state.history:
            advice = branch_contents(state.log.contents(), ConsultationEntry, AdviceOutcome, AdviceRated)
            state.advisory.restore(advice, state.log.blobs.get)

    def rewind(self, entry: str) -> None:
        """Go back to an earlier entry of the log: what came after it stays there, as a branch of its own, to which one
        can go forward again in the same way. Files stay as they are: see `rewind_files`. Raises UsageError while a run
        is in progress, and for an entry that is not there."""
        state = self._state
        if self.running:
            raise UsageError(f"agent {self.path} is running: interrupt it first, then go back")
        try:
            state.log.fork(entry)
        except ValueError as error:
            raise UsageError(str(error)) from error
        state.history = list(history(state.log.contents(), state.log.blobs.get))
        rewound(state)

    async def preview(self, entry: str) -> "FileChanges":
        """What `rewind_files` would change, and what it would leave alone. Raises UsageError for an entry that is not
        there."""
        from sagent.rewind.restore import preview

        return await preview(self._state.log, entry)

    async def rewind_files(self, entry: str) -> "FileChanges":
        """Have files as they were when an entry of the log was written, as far as this agent and those below it have
        changed them since, on whatever branch; tells what was done. It can be undone in the same way.

        A file that somebody else has changed since stays as it is. Raises UsageError while a run is in progress, and
        for an entry that is not there.
        """
        if self.running:
            raise UsageError(f"agent {self.path} is running: interrupt it first, then go back")
        from sagent.rewind.restore import restore_files

        return await restore_files(self._state, self._state.checkpoints(), entry)

    async def aclose(self) -> None:
        """End what is in progress, the agents below it, its jobs and what its tools left running; close its log when it
        made it itself. One that was spawned only ends: tools and session are those of the agent above."""
        if (life := self.end()) is not None:
            await asyncio.wait([life])
            return
        if self._tree.post is not None:
            self._tree.post.close()
        self._runs.interrupt()
        for task in self._consultations:
            task.cancel()
        await self._runs.released()
        await self._state.jobs.stop()  # before what they may have spawned
        await self._tree.end_below(self.path)
        for tool in self._state.tools.values():
            close = getattr(tool, "aclose", None)
            if close is not None:
                await close()
        if self._owns_log:
            self._state.log.close()


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
