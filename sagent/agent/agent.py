"""The Agent: one conversation with one model at a time, its tools, its log and its ledger."""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, TypeVar, overload

from sagent.agent import spawn
from sagent.agent.asking import Prompt, events_of, to_message, wait_for
from sagent.agent.child import ChildTask
from sagent.agent.neighbours import TreeNeighbours
from sagent.agent.resources import Amount, GivenTool, Resources, ledger_of, model_of, tools_of
from sagent.agent.runs import Runner, warn_of_own_ledger
from sagent.agent.spawn import AgentParts
from sagent.agent.tree import DelayedMail, Node, Tree, allowance
from sagent.engine.context import Context
from sagent.engine.journal import Journal
from sagent.engine.limits import RunLimits
from sagent.engine.state import AgentState
from sagent.errors import SagentError, UsageError
from sagent.events import Denied, Event, Result
from sagent.lib.json import JsonObject
from sagent.messages import Message, user
from sagent.model import Effort, Model
from sagent.peer import Moment, Scope, SpawnRequest, Stop
from sagent.policy import AllowAll, Policy
from sagent.session.contents import MessageSent, MessageWithdrawn
from sagent.session.log import MemoryLog
from sagent.tool import Tool, Workspace

if TYPE_CHECKING:
    from sagent.rewind.restore import FileChanges

D = TypeVar("D")


class Agent(Node):
    """An agent. Its conversation goes on from run to run; one run at a time.

    `model` answers: a Model, or "provider/id", whose key is taken from the environment. `tools` are offered to it, and
    functions, of which tools are made. `policy` judges their calls (default: allow), `limits` bound a run,
    `max_budget_usd` caps what it and all below it spend, and `resources` are what it shares or keeps: log, ledger,
    workspace. Without them it keeps its log in memory, has no cap and works in the current directory. `async with`
    closes it.

    `options` are members of its requests to this provider, such as {"temperature": 0.2}. Raises UsageError for those
    that sagent sets itself, and for those that might cost more than a cap holds.
    """

    def __init__(
        self,
        model: Model | str,
        *,
        system: str = "",
        tools: Sequence[GivenTool] = (),
        policy: Policy | None = None,
        limits: RunLimits | None = None,
        effort: Effort | None = None,
        options: Mapping[str, object] | None = None,
        max_budget_usd: Amount | None = None,
        resources: Resources | None = None,
    ) -> None:
        given = resources or Resources()
        ledger = ledger_of(given.ledger, max_budget_usd)
        own_tools = tools_of(tools)
        by_name = _by_name(own_tools)
        model, self._opened = model_of(model)
        judge, log = policy or AllowAll(), given.log or MemoryLog()
        self._given, self.tree = given, given.tree or Tree()
        self.handoffs, self.neighbours = [], TreeNeighbours(self, given)
        specs, sent = self.tree.prompts.specs(own_tools), dict[str, JsonObject]()
        if options:
            from sagent.agent.options import read_options

            sent[model.provider] = read_options(options, capped=ledger.cap_of(given.path) is not None)
        self.state = AgentState(
            path=given.path,
            context=Context(
                f"{log.session_id}:{given.path}", model, system, limits or RunLimits(), effort, sent, specs
            ),
            journal=Journal(given.path, log),
            tools=by_name,
            judge=judge,
            policy=judge,
            ledger=ledger,
            workspace=given.workspace or Workspace(Path.cwd()),
            neighbours=self.neighbours,
            prompts=self.tree.prompts,
            caller=self,
            role=given.role,
            fallbacks=list(given.fallbacks),
            compactor=given.compactor,
        )
        self._runs = Runner(self.state, self.tree, given.finish)
        self._life: ChildTask | None = None  # of an agent that was spawned
        self.tree.post = self.tree.post or DelayedMail(self.state, self.tree.deliver_late)
        if given.advised and (extension := self.neighbours.extension()) is not None:
            extension.resume(())
        self.tree.add(self)
        if "/" not in self.path:
            self.listen(self.tree.attend)  # those below pass their events on to it

    @property
    def _doing(self) -> Literal["idle", "working", "ended"]:
        ended = self._life is not None and self._life.left
        return "ended" if ended else "working" if self._runs.running else "idle"

    @property
    def busy(self) -> bool:
        return self.running or (self._life is not None and self._life.busy)

    @property
    def hears(self) -> bool:
        return self._life is None or self._life.hears

    @property
    def last(self) -> Result | None:
        return self._runs.last

    @property
    def resources(self) -> Resources:
        """What it was given."""
        return replace(self._given, fallbacks=tuple(self.state.fallbacks))

    @overload
    async def run(self, prompt: Prompt, *, output: None = None) -> Result: ...
    @overload
    async def run(self, prompt: Prompt, *, output: type[D]) -> Result[D]: ...
    @overload
    async def run(self, prompt: Prompt, *, output: object) -> Result: ...
    async def run(self, prompt: Prompt, *, output: object = None) -> Result:
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

    @overload
    def run_sync(self, prompt: Prompt, *, output: None = None) -> Result: ...
    @overload
    def run_sync(self, prompt: Prompt, *, output: type[D]) -> Result[D]: ...
    @overload
    def run_sync(self, prompt: Prompt, *, output: object) -> Result: ...
    def run_sync(self, prompt: Prompt, *, output: object = None) -> Result:
        """`run` for code that is not async; must not be called inside a running event loop."""
        return wait_for(lambda: self.run(prompt, output=output), self.aclose)

    def stream(self, prompt: Prompt, *, output: object = None) -> AsyncGenerator[Event, None]:
        """The same as events, as they happen; the last is Finished with the result. Errors are in it, not raised.

        Closing the iterator early interrupts the run.
        """

        async def once() -> None:
            await self._run(to_message(prompt), output)

        return events_of(once, self.listen)

    async def go_on(self) -> Result:
        """A run on what is in the inbox, without a prompt. What went wrong is in the result. Raises UsageError."""
        return (await self._run(None, None))[0]

    async def _run(self, message: Message | None, form: object) -> tuple[Result, SagentError | None]:
        if self._life is not None:
            raise UsageError(f"{self.path} was spawned and runs by itself: send() it the message, then wait()")
        self._warn()
        return await self._runs.take(message, form)

    def _warn(self) -> None:
        if self._given.ledger is None:
            warn_of_own_ledger(self.ledger)

    def send(self, message: Message | str, moment: Moment = "now") -> None:
        """Put a message into the inbox; the run in progress reads it, or the next one. Raises UsageError when there
        will be none.

        What an agent of the tree sends is answered: the last words of the turn that reads it go back to the sender.
        """
        said = user(message) if isinstance(message, str) else message
        if not self.hears:
            raise UsageError(f"{self.path} has ended: nothing can be sent to it")
        self.state.receive(said, moment, answer=said.sender != self.path and self.tree.get(said.sender) is not None)

    def withdraw(self, message: Message) -> bool:
        """Take back a message that was sent and not read yet; whether it could be."""
        entries = self.state.inbox.withdraw(message)
        for entry in entries:
            self.state.journal.record(MessageWithdrawn(entry))
        return bool(entries)

    def interrupt(self, scope: Scope = "tree") -> None:
        """Stop the model call and the tools of the run in progress, and those of all agents below, unless told "self".

        Its `run` returns with error kind "interrupted". Calls in the background go on.
        """
        if self._life is not None:
            self._life.interrupt()
        else:
            self._runs.interrupt()
        if scope == "tree":
            for agent in self.tree.below(self.path):
                agent.interrupt("self")

    async def spawn(self, order: SpawnRequest | str) -> "Agent":
        """A new agent below this one, at work on its prompt; `wait()` gives its answer.

        It inherits whatever the request leaves open. Raises UsageError for a request that cannot be met, BudgetExceeded
        for an allowance that cannot be had and OSError where its log cannot be written: nothing was begun.
        """
        request = SpawnRequest(order) if isinstance(order, str) else order
        if not request.prompt.strip():
            raise UsageError("an agent needs a prompt: what is it to do?")
        state, path = self.state, self.tree.reserve(self.path, request.name, self.neighbours.deepest)
        with allowance(state.ledger, path, request.budget_usd):
            parts = spawn.parts_for(self, self.resources, path, request)
            history = spawn.shared_history(state) if request.share == "full" else ()
            return self._begin(parts, history, request, spawn.prompt_for(state, request, path, self.handoffs))

    def spawn_like(self, model: Node, name: str, prompt: Message, messages: Sequence[Message] | None) -> "Agent":
        assert isinstance(model, Agent)
        if model.ledger is not self.ledger and model.ledger.cap is not None:
            raise UsageError(
                f"{model.path} has a cap of its own, which cannot be kept on the ledger of {self.path}: "
                "give both the same ledger, or that agent none"
            )
        path = self.tree.reserve(self.path, name, self.neighbours.deepest)
        given = replace(model.resources, ask=self._given.ask or model.resources.ask)
        history = spawn.shared_history(model.state) if messages is None else messages
        parts = spawn.parts_like(model, given, self, path)
        return self._begin(parts, history, SpawnRequest(prompt.content, name), prompt)

    def _begin(
        self, parts: AgentParts, history: Sequence[Message], request: SpawnRequest, prompt: Message | None = None
    ) -> "Agent":
        """A new agent below this one, at the beginning of its life: its events are passed on here. Without a prompt it
        is one of an earlier process, that goes on."""
        self._warn()
        child = Agent(**parts)
        child.restore(history)
        child.listen(self._pass_on)
        child.neighbours.settle_below(self.neighbours, request)
        if prompt is not None:
            spawn.record_birth(child.state, self.state, request, prompt)
        child._life = ChildTask(child, child._runs, self, request)
        return child

    def _pass_on(self, event: Event) -> None:
        """What an agent below says is said here; a call of its that was denied is one of this run."""
        if isinstance(event, Denied):
            self.state.run.denials.append(event.denial)
        self.state.journal.emit(event)

    def as_tool(self, name: str, description: str) -> Tool:
        """A tool by which another agent asks this one. Each call is a conversation of its own, below the calling agent,
        which begins where this one's stands."""
        from sagent.agent.agent_tool import AgentTool

        return AgentTool(self, name, description)

    async def resume(self) -> None:
        """Take up what an earlier process left in the log, after `restore`: messages nobody has read or that are to
        arrive later, jobs that were lost, agents that live on, each with what it holds."""
        from sagent.agent.resume import resume

        entries = await resume(self, self.resources, self._begin)
        if self._life is None and self.tree.post is not None:
            self.tree.post.resume(entries)

    def peers(self, pattern: str = "*") -> Sequence[Node]:
        """The other living agents of the tree that a name or a pattern means; "*" is all of them."""
        return self.tree.find(pattern, self.path)

    def post(self, path: str, message: Message, seconds: float = 0.0) -> None:
        """Send a message to a living agent, now or in some seconds. The sender learns of one that did not reach it."""
        post = self.tree.post
        if seconds > 0 and post is not None:
            post.later(path, message, seconds)
        elif agent := self.tree.get(path):
            agent.send(message)
            self.state.journal.record(MessageSent(path, message.content))

    def catalog(self) -> str:
        """The models that can be switched to, for a model to read."""
        if self._given.catalog is not None:
            return self._given.catalog()
        return f"Only {self.model.provider}/{self.model.id} can be used here."

    def end(self) -> "asyncio.Task[None] | None":
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

    async def rewind_files(self, entry: str, path: str = "") -> "FileChanges":
        """Have files, or the one at an absolute `path`, as they were when an entry of the log was written ("" is its
        beginning), as far as this agent and those below it have changed them since, on whatever branch; returns what
        was done. It can be undone in the same way.

        A file that somebody else has changed since stays as it is. Raises UsageError while a run is in progress, for an
        entry that is not there, and for a path that was not changed since.
        """
        self._check_idle()
        from sagent.rewind.restore import restore_files

        return await restore_files(self.state, self.neighbours.checkpoints(), entry, path)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End what is in progress, the agents below it, its jobs and what its tools left running; close its log when it
        made it itself. One that was spawned only ends: tools and session are those of the agent above."""
        if (life := self.end()) is not None:
            await asyncio.wait([life])
            return
        if self.tree.post is not None:
            self.tree.post.close()
        self._runs.interrupt()
        if self.advisory is not None:
            self.advisory.plan(Stop())()
        await self._runs.released()
        await self.state.jobs.stop()  # before what they may have spawned
        await self.tree.end_below(self.path)
        for tool in self.state.tools.values():
            close = getattr(tool, "aclose", None)
            if close is not None:
                await close()
        if self._opened is not None:
            await self._opened.aclose()
        self.neighbours.close()
        if self._given.log is None:
            self.state.log.close()


def _by_name(tools: Sequence[Tool]) -> Mapping[str, Tool]:
    """Tools by their names. Raises UsageError for a name that cannot be, or is there twice."""
    by_name = {tool.name: tool for tool in tools}
    for name in by_name:
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name):
            raise UsageError(f"{name!r} cannot be a tool's name: providers take 1 to 64 letters, digits, _ and -")
    if len(by_name) != len(tools):
        raise UsageError(f"two tools have the same name: {', '.join(tool.name for tool in tools)}")
    return by_name
