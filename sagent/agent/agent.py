"""The Agent: one conversation with one model at a time, its tools, its log and its ledger."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.agent import job_control, likeness, spawn
from sagent.agent.child import ChildTask
from sagent.agent.conversation import go_back, take_over
from sagent.agent.delayed_mail import DelayedMail
from sagent.agent.handoffs import Handoff
from sagent.agent.neighbours import TreeNeighbours
from sagent.agent.prompt import to_message
from sagent.agent.resources import Resources
from sagent.agent.runs import Runner
from sagent.agent.status import status_of
from sagent.agent.tree import Node, Tree, allowance
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.engine.actions import apply, check
from sagent.engine.compaction import make_room
from sagent.engine.context import Context
from sagent.engine.extension import Extension
from sagent.engine.journal import Journal
from sagent.engine.limits import RunLimits
from sagent.engine.state import AgentState
from sagent.errors import SagentError, UsageError
from sagent.events import Advice, Event, Result
from sagent.messages import Message, user
from sagent.model import Effort, Model
from sagent.peer import (
    Action,
    Background,
    Cancel,
    Consult,
    Inject,
    JobStatus,
    Moment,
    Scope,
    SpawnRequest,
    Status,
    Stop,
)
from sagent.policy import AllowAll, Policy
from sagent.session.contents import (
    MessageSent,
    Returned,
    Spawned,
)
from sagent.session.folds import history
from sagent.session.log import Log, MemoryLog
from sagent.tool import Tool, Workspace
from sagent.usage import Cost

if TYPE_CHECKING:
    from sagent.rewind.restore import FileChanges


class Agent(Node):
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
        by_name = _by_name(tools)
        judge, log = policy or AllowAll(), given.log or MemoryLog()
        self._resources, self._tree = given, given.tree or Tree()
        specs = self._tree.prompts.specs(tools)
        self._handoffs: list[Handoff] = []
        self._neighbours = TreeNeighbours(self, given)
        self._state = state = AgentState(
            path=given.path,
            context=Context(f"{log.session_id}:{given.path}", model, system, limits or RunLimits(), effort, specs),
            journal=Journal(given.path, log),
            tools=by_name,
            judge=judge,
            policy=judge,
            ledger=given.ledger or Ledger(None, PriceBook()),
            workspace=given.workspace or Workspace(Path.cwd()),
            neighbours=self._neighbours,
            prompts=self._tree.prompts,
            caller=self,
            role=given.role,
            fallbacks=list(given.fallbacks),
            compactor=given.compactor,
        )
        self._runs = Runner(state, self._tree, given.finish)
        self._life: ChildTask | None = None  # of an agent that was spawned
        self._tree.post = self._tree.post or DelayedMail(state, self._tree.deliver_late)
        if given.advised and (extension := self._neighbours.extension()) is not None:
            extension.resume(())
        self._tree.add(self)

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
        return self._runs.running

    @property
    def busy(self) -> bool:
        return self.running or (self._life is not None and self._life.busy)

    @property
    def hears(self) -> bool:
        return self._life is None or self._life.hears

    @property
    def tools(self) -> Sequence[Tool]:
        """What it can call."""
        return tuple(self._state.tools.values())

    @property
    def messages(self) -> Sequence[Message]:
        return tuple(self._state.context.history)

    @property
    def tree(self) -> Tree:
        return self._tree

    @property
    def ledger(self) -> Ledger:
        return self._state.ledger

    @property
    def log(self) -> Log:
        return self._state.log

    @property
    def state(self) -> AgentState:
        return self._state

    @property
    def resources(self) -> Resources:
        """What it was given."""
        return replace(self._resources, fallbacks=tuple(self._state.fallbacks))

    @property
    def neighbours(self) -> TreeNeighbours:
        """Its surroundings, as its engine uses them."""
        return self._neighbours

    @property
    def handoffs(self) -> list[Handoff]:
        return self._handoffs

    @property
    def last(self) -> Result | None:
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
        """The same as events, as they happen; the last is Finished with the result. Errors are in it, not raised.

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
    def advisory(self) -> Extension | None:
        """Its advisors, if it has any."""
        return self._state.context.extension

    async def consult(self, question: str = "", advisor: str = "") -> Sequence[Advice]:
        """Ask an advisor, by its name, or the first; all of a panel. Raises UsageError where there is none.

        What it says is returned, and is not part of the conversation; `apply(Consult())` puts it there.
        """
        if self.advisory is None:
            raise UsageError(f"{self.path} has no advisor: name one with --advisor, or switch to one")
        return await self.advisory.consult(question, advisor)

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Pass every event to a function, at once, in the loop's thread; call what is returned to end it."""
        return self._state.journal.listen(listener)

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
                    self._state.wishes.actions.append(action)
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

        It inherits whatever the request leaves open. Raises UsageError for a request that cannot be met, BudgetExceeded
        for an allowance that cannot be had and OSError where its log cannot be written: nothing was begun.
        """
        request = SpawnRequest(order) if isinstance(order, str) else order
        state = self._state
        if not request.prompt.strip():
            raise UsageError("an agent needs a prompt: what is it to do?")
        path = self._tree.reserve(self.path, request.name, self._neighbours.deepest)
        with allowance(state.ledger, path, request.budget_usd):
            child = Agent(**spawn.parts_for(self, self.resources, path, request))
            child.restore(spawn.history_for(state, request))
            child._begin(self, request, spawn.prompt_for(state, request, path, self._handoffs))
        return child

    def spawn_like(self, model: Node, name: str, prompt: Message, messages: Sequence[Message] | None) -> "Agent":
        """A likeness of another agent below this one, at work on a prompt; `messages` is its conversation so far, by
        default the other's own. Raises UsageError: none was begun."""
        assert isinstance(model, Agent)
        likeness.check_ledger(model, self)
        own, request = model.state, SpawnRequest(prompt.content, name)
        path = self._tree.reserve(self.path, name, self._neighbours.deepest)
        given = replace(model.resources, ask=self._resources.ask or model.resources.ask)
        child = Agent(**likeness.parts_like(own, given, self, path, request))
        child.restore(spawn.history_for(own, replace(request, share="full")) if messages is None else messages)
        child._begin(self, request, prompt)
        return child

    def _begin(self, above: "Agent", request: SpawnRequest, prompt: Message | None = None) -> None:
        """Begin the life of an agent that was spawned: its events are passed on above. Without a prompt it is one of an
        earlier process, that goes on."""
        self.listen(above.state.journal.emit)
        self._neighbours.settle_below(above.neighbours, request)
        if prompt is not None:
            spawn.record_birth(self._state, above.state, request, prompt)
        self._life = ChildTask(self, self._runs, above, request)

    def as_tool(self, name: str, description: str) -> Tool:
        """A tool by which another agent asks this one. Each call is a conversation of its own, below the calling agent,
        which begins where this one's stands."""
        from sagent.agent.agent_tool import AgentTool

        return AgentTool(self, name, description)

    async def resume(self) -> None:
        """Take up what an earlier process left in the log, after `restore`: messages nobody has read or that are to
        arrive later, jobs that were lost, agents that live on, each with what it holds."""
        from sagent.agent.resume import resume

        entries = await resume(self._state, self._tree, self._revive)
        if self._life is None and self._tree.post is not None:
            self._tree.post.resume(entries)

    async def _revive(self, born: Spawned, heads: Sequence[str]) -> None:
        """Bring a child back that lives on: as it was, but for the turn that it was in."""
        state, path = self._state, born.agent
        entries = state.log.child(path).contents()
        request = spawn.request_of(born, entries)
        rest = spawn.rest_of(request, state.ledger.spent_below(path))
        with allowance(state.ledger, path, rest):
            child = Agent(**spawn.parts_for(self, self.resources, path, request, entries))
            child.restore(history(entries, state.log.blobs.get))
            child._begin(self, request)
        if (text := spawn.left_open(path, entries, heads, child.messages)) is not None:
            state.receive(user(text, sender=path), "next")
            state.journal.record(Returned(path, child.log.head))
        await child.resume()

    def peers(self, pattern: str = "*") -> Sequence[Node]:
        """The other living agents of the tree that a name or a pattern means; "*" is all of them."""
        return self._tree.find(pattern, self.path)

    def post(self, path: str, message: Message, seconds: float = 0.0) -> None:
        """Send a message to a living agent, now or in some seconds. The sender learns of one that did not reach it."""
        post = self._tree.post
        if seconds > 0 and post is not None:
            post.later(path, message, seconds)
        elif agent := self._tree.get(path):
            agent.send(message)
            self._state.journal.record(MessageSent(path, message.content))

    def catalog(self) -> str:
        """The models that can be switched to, for a model to read."""
        if self._resources.catalog is not None:
            return self._resources.catalog()
        return f"Only {self.model.provider}/{self.model.id} can be used here."

    def jobs(self) -> Sequence[JobStatus]:
        """Its calls in the background, those that have ended included."""
        return tuple(job.status() for job in self._state.jobs.all())

    def job_output(self, name: str) -> str:
        """A job's result, or the end of what it has shown so far. Raises UsageError naming the jobs there are."""
        return job_control.output_of(self._state.jobs, name)

    async def wait_for_job(self, name: str, seconds: float | None = None) -> JobStatus:
        """How a job stands when it has ended, the time is over or a message has arrived. Raises UsageError."""
        return await job_control.wait_for(self._state, name, seconds)

    async def cancel_job(self, name: str) -> JobStatus:
        """Stop a job; the end of what it showed is kept. Raises UsageError."""
        return await job_control.cancel(self._state.jobs, name)

    def detach_job(self, name: str) -> str:
        """Have a job outlive this process, and say where its output goes. Raises UsageError where its tool cannot."""
        return job_control.detach(self._state, name)

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
        ended = self._life is not None and self._life.left
        return status_of(self._state, "ended" if ended else "working" if self.running else "idle")

    def restore(self, history: Sequence[Message]) -> None:
        """Take over an earlier conversation, before the first run."""
        take_over(self._state, history)

    def rewind(self, entry: str) -> None:
        """Go back to an earlier entry of the log: what came after it stays there, as a branch of its own, to which one
        can go forward again in the same way. Files stay as they are: see `rewind_files`. Raises UsageError while a run
        is in progress, and for an entry that is not there."""
        self._check_idle()
        go_back(self._state, entry)
        self._handoffs.clear()

    def _check_idle(self) -> None:
        if self.running:
            raise UsageError(f"agent {self.path} is running: interrupt it first, then go back")

    async def preview(self, entry: str) -> "FileChanges":
        """What `rewind_files` would change, and what it would leave alone. Raises UsageError for an entry that is not
        there."""
        from sagent.rewind.restore import preview

        return await preview(self._state.log, entry)

    async def rewind_files(self, entry: str) -> "FileChanges":
        """Have files as they were when an entry of the log was written, as far as this agent and those below it have
        changed them since, on whatever branch; returns what was done. It can be undone in the same way.

        A file that somebody else has changed since stays as it is. Raises UsageError while a run is in progress, and
        for an entry that is not there.
        """
        self._check_idle()
        from sagent.rewind.restore import restore_files

        return await restore_files(self._state, self._neighbours.checkpoints(), entry)

    async def aclose(self) -> None:
        """End what is in progress, the agents below it, its jobs and what its tools left running; close its log when it
        made it itself. One that was spawned only ends: tools and session are those of the agent above."""
        if (life := self.end()) is not None:
            await asyncio.wait([life])
            return
        if self._tree.post is not None:
            self._tree.post.close()
        self._runs.interrupt()
        if self.advisory is not None:
            self.advisory.plan(Stop())()
        await self._runs.released()
        await self._state.jobs.stop()  # before what they may have spawned
        await self._tree.end_below(self.path)
        for tool in self._state.tools.values():
            close = getattr(tool, "aclose", None)
            if close is not None:
                await close()
        if self._resources.log is None:
            self._state.log.close()


def _by_name(tools: Sequence[Tool]) -> Mapping[str, Tool]:
    """Tools by their names. Raises UsageError for a name that cannot be, or is there twice."""
    by_name = {tool.name: tool for tool in tools}
    for name in by_name:
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name):
            raise UsageError(f"{name!r} cannot be a tool's name: providers take 1 to 64 letters, digits, _ and -")
    if len(by_name) != len(tools):
        raise UsageError(f"two tools have the same name: {', '.join(tool.name for tool in tools)}")
    return by_name
