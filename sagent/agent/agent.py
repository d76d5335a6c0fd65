"""The Agent: one conversation with one model at a time, its tools, its log and its ledger."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, Never, Self, TypeVar, cast, overload

from sagent.agent.asking import Form, Prompt, events_of, to_message, wait_for
from sagent.agent.named_models import NamedModels
from sagent.agent.neighbours import TreeNeighbours
from sagent.agent.preparation import PolicyOf, Preparation, PromptOf, ToolsOf
from sagent.agent.resources import (
    Amount,
    ExtensionFactory,
    GivenTool,
    Resources,
    check_kind,
    check_limits,
    check_resources,
    check_type,
    ledger_of,
    session_at,
    tools_of,
)
from sagent.agent.runs import Runner, warn_of_own_ledger
from sagent.agent.tree import DelayedMail, Node, Tree, allowance
from sagent.engine.context import Context, RunLimits
from sagent.engine.state import AgentState, Journal
from sagent.errors import UsageError
from sagent.events import Denied, Event, Result
from sagent.lib.dataclass import Deps, Deps_contra, Hinting, hinting, refuse_keywords
from sagent.lib.json import JsonObject
from sagent.lib.money import show
from sagent.messages import Message
from sagent.model import EFFORTS, Effort, Model, full_name, is_same_model
from sagent.peer import Moment, Scope, SpawnRequest, Stop
from sagent.plugin import resolve
from sagent.policy import Policy
from sagent.session.contents import MessageSent
from sagent.session.log import MemoryLog
from sagent.tool import RunContext, Tool, Workspace

if TYPE_CHECKING:
    from sagent.agent.child import ChildTask
    from sagent.agent.saved_session import SavedSession
    from sagent.agent.spawn import AgentParts
    from sagent.rewind.restore import FileChanges

D = TypeVar("D")


class Agent(Node, Hinting, Generic[Deps_contra]):
    """An agent. Its conversation continues from run to run; one run at a time.

    `model` is a Model, or "provider/id", whose key is taken from the environment. `tools` are tools, or functions that
    are made into tools. `policy` judges their calls (default: allow all), `limits` limit a run, `max_budget_usd` is
    the budget of the agent and all its subagents, and `resources` are what it shares or keeps: log, ledger, workspace.
    Without them, its log is in memory, it has no budget, and it works in the current directory. `session` is the
    directory of its log: a new session is started there, or an existing one continued, whose earlier cost counts
    towards the budget. `advisor` are models that it can ask, `fallbacks` those that replace an unreachable one, in this
    order; short names such as "opus" are the newest model with a key. `async with` closes the agent.

    `options` are fields of its requests to this provider, such as {"temperature": 0.2}. Raises UsageError for those
    that sagent sets itself, and for those that might cost more than the budget allows.
    """

    @hinting
    def __init__(
        self,
        model: Model | str,
        *,
        system: str | PromptOf[Deps_contra] = "",
        tools: Sequence[GivenTool[Deps_contra]] | None = None,  # pyright makes Unknown of ()
        policy: Policy | PolicyOf[Deps_contra] | None = None,
        prepare_tools: ToolsOf[Deps_contra] | None = None,
        deps_type: type[Deps_contra] | None = None,
        limits: RunLimits | None = None,
        effort: Effort | None = None,
        options: Mapping[str, object] | None = None,
        max_budget_usd: Amount | None = None,
        session: str | Path | None = None,
        advisor: Model | str | Sequence[str] = (),
        fallbacks: Sequence[Model | str] = (),
        resources: Resources | None = None,
    ) -> None:
        check_limits(limits)
        check_kind("resources", resources, Resources, "Resources(...)")
        check_type(deps_type)
        check_kind("options", options, Mapping, 'a mapping, as in options={"temperature": 0.2}')
        if effort not in (None, *EFFORTS):
            raise UsageError(f"effort={effort!r}: give one of {', '.join(EFFORTS)}")
        given = resources or Resources()
        check_resources(given)
        self._models = NamedModels()
        model = self._models.resolve(self._models.add(model))
        given = _with_models(given, self._models, model, advisor, fallbacks)
        ledger = ledger_of(given.ledger, given.path, max_budget_usd)
        own_tools = tools_of(tools or ())
        by_name = _by_name(own_tools)
        self.preparation = Preparation(system, policy, prepare_tools)
        sent = dict[str, JsonObject]()
        if options:
            from sagent.agent.options import read_options

            sent[model.provider] = read_options(options, capped=ledger.cap_of(given.path) is not None)
        self._kept = None if session is None else _open_session(session, given)
        given = given if self._kept is None else replace(given, log=self._kept.log)
        judge, log, prompt = self.preparation.judge, given.log or MemoryLog(), system if isinstance(system, str) else ""
        self._given, self.tree = given, given.tree or Tree()
        self.handoffs, self.neighbours = [], TreeNeighbours(self, given)
        specs = self.tree.prompts.specs(own_tools)
        self.state = AgentState(
            path=given.path,
            context=Context(
                f"{log.session_id}:{given.path}", model, prompt, limits or RunLimits(), effort, sent, specs
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
            fallbacks=cast("list[Model]", list(given.fallbacks)),
            compactor=cast("Model | None", given.compactor),
            call_forms=given.call_forms,
        )
        self._runs = Runner(self.state, self.tree, given.finish, self.preparation.prepare, given.admit)
        self._life: ChildTask | None = None  # of an agent that was spawned
        self.tree.post = self.tree.post or DelayedMail(self.state, self.tree.deliver_late)
        if given.advised and (extension := self.neighbours.extension()) is not None:
            extension.resume(())
        self.tree.add(self)
        if "/" not in self.path:
            self.listen(self.tree.attend)  # those below pass their events on to it
        self._unresumed = self._kept is not None and self._kept.resumed
        if self._kept is not None and self._unresumed:
            self._kept.restore(self)

    @staticmethod
    def open(
        session: str | Path,
        model: Model | str = "",
        *,
        system: str | PromptOf[Deps] = "",
        tools: Sequence[GivenTool[Deps]] | None = None,
        policy: Policy | PolicyOf[Deps] | None = None,
        max_budget_usd: Amount | None = None,
        resources: Resources | None = None,
    ) -> "Agent[Deps]":
        """Continue an existing session, with another model or the one that it had. Raises SessionNotFound if there is
        none, SessionBusy, SessionCorrupt, and UsageError if its log names no model."""
        from sagent.agent.saved_session import model_named

        return Agent(
            model or model_named(session_at(session)),
            system=system,
            tools=tools,
            policy=policy,
            max_budget_usd=max_budget_usd,
            session=session,
            resources=resources,
        )

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
        """The resources that it was given."""
        return replace(self._given, fallbacks=tuple(self.state.fallbacks))

    @overload
    async def run(
        self,
        prompt: Prompt,
        *,
        output: Form[D],
        deps: Deps_contra = ...,
        tools: Sequence[GivenTool[Deps_contra]] | None = None,
    ) -> Result[D]: ...
    @overload
    async def run(
        self,
        prompt: Prompt,
        *,
        output: object = None,
        deps: Deps_contra = ...,
        tools: Sequence[GivenTool[Deps_contra]] | None = None,
    ) -> Result: ...
    async def run(
        self,
        prompt: Prompt,
        *,
        output: object = None,
        deps: object = None,
        tools: Sequence[GivenTool[Never]] | None = None,
        **unknown: object,
    ) -> Result:
        """Answer one prompt: a string, a mapping with "prompt", or a Message.

        With `output`, the answer is data, in the result's `data`: a pydantic model, a dataclass, a TypedDict, another
        type that pydantic knows, or a JSON Schema as a mapping. An answer that does not match is requested once more.

        `deps` are the `run.deps` of its tools, and of functions that make its prompt, policy and tools; they stay in
        memory. `tools` are offered in this run in addition to the agent's.

        Raises ModelError, BudgetExceeded and UsageError. A run that was interrupted, stopped by a limit, or whose
        answer does not match ("invalid_output") returns a result whose `error` says so.
        """
        refuse_keywords("Agent.run", unknown)
        message = to_message(prompt)
        await self._begin_run()
        result, error = await self._runs.take(message, output, deps, _offered(tools))
        if error is not None:
            raise error
        return result

    @overload
    def run_sync(
        self,
        prompt: Prompt,
        *,
        output: Form[D],
        deps: Deps_contra = ...,
        tools: Sequence[GivenTool[Deps_contra]] | None = None,
    ) -> Result[D]: ...
    @overload
    def run_sync(
        self,
        prompt: Prompt,
        *,
        output: object = None,
        deps: Deps_contra = ...,
        tools: Sequence[GivenTool[Deps_contra]] | None = None,
    ) -> Result: ...
    def run_sync(
        self,
        prompt: Prompt,
        *,
        output: object = None,
        deps: object = None,
        tools: Sequence[GivenTool[Never]] | None = None,
        **unknown: object,
    ) -> Result:
        """`run` for code that is not async; must not be called inside a running event loop."""
        refuse_keywords("Agent.run_sync", unknown)
        own, more = cast("Deps_contra", deps), cast("Sequence[GivenTool[Deps_contra]] | None", tools)
        return wait_for(lambda: self.run(prompt, output=output, deps=own, tools=more), self.aclose)

    async def answer(self, prompt: Prompt, deps: object) -> Result:
        return await self.run(prompt, deps=cast("Deps_contra", deps))

    @hinting
    def stream(
        self,
        prompt: Prompt,
        *,
        output: object = None,
        deps: Deps_contra | None = None,
        tools: Sequence[GivenTool[Deps_contra]] | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Run like `run`, yielding events as they happen; the last is Finished. Its result has errors; none is raised.

        Closing the iterator early interrupts the run.
        """

        async def once() -> None:
            message = to_message(prompt)
            await self._begin_run()
            await self._runs.take(message, output, deps, _offered(tools))

        return events_of(once, self.listen)

    async def continue_run(self, *, deps: Deps_contra | None = None) -> Result:
        """Run on the messages in the inbox, without a prompt. Errors are in the result. Raises UsageError."""
        await self._begin_run()
        return (await self._runs.take(None, None, deps))[0]

    async def go_on(self, *, deps: Deps_contra | None = None) -> Result:
        """Old name of `continue_run`."""
        from sagent.lib.renamed import warn_renamed

        warn_renamed("Agent.go_on", "Agent.continue_run", "0.3")
        return await self.continue_run(deps=deps)

    async def _begin_run(self) -> None:
        """Open the log again if it was closed, and resume what an earlier process left. Raises UsageError."""
        if self._life is not None:
            raise UsageError(f"{self.path} was spawned and runs by itself: send() it the message, then wait()")
        self._warn()
        self.reopen()
        if self._unresumed:
            self._unresumed = False
            for text in self._kept.losses() if self._kept is not None else ():
                self.state.journal.notify("warning", text)
            await self.resume()
            from sagent.agent.resume import answer_lost_calls

            answer_lost_calls(self.state)

    def reopen(self) -> None:
        if self._kept is not None and self._kept.closed:
            self._kept.reopen(self)
            self._given = replace(self._given, log=self._kept.log)

    def _warn(self) -> None:
        if self._given.ledger is None:
            warn_of_own_ledger(self.ledger)

    def send(self, message: Message | str, moment: Moment = "now") -> None:
        """Put a message into the inbox; the run in progress reads it, or the next one. Raises UsageError if the agent
        has ended.

        It may be called from any thread. The answer to a message from an agent of the tree, the last text of the turn
        that reads it, goes back to the sender.
        """
        said = to_message(message)
        if not self.hears:
            raise UsageError(f"{self.path} has ended, so it cannot receive messages")
        if (loop := self._runs.loop_elsewhere()) is not None:
            loop.call_soon_threadsafe(self.send, said, moment)
            return
        self.state.receive(said, moment, answer=said.sender != self.path and self.tree.get(said.sender) is not None)

    def interrupt(self, scope: Scope = "tree") -> None:
        """Stop the model call and the tools of the run in progress, and with "tree" those of all agents below.

        Its `run` returns with error kind "interrupted". Background calls continue.
        """
        if self._life is not None:
            self._life.interrupt()
        else:
            self._runs.interrupt()
        if scope == "tree":
            for agent in self.tree.below(self.path):
                agent.interrupt("self")

    async def spawn(self, order: SpawnRequest | str) -> "Agent[Never]":
        """Start a subagent on a prompt; its `wait()` returns the answer.

        It inherits whatever the request leaves open. Raises UsageError for an invalid request, BudgetExceeded if less
        than its allowance is left, and OSError if its log cannot be written; then nothing was started.
        """
        request = SpawnRequest(order) if isinstance(order, str) else order
        check_kind("order", request, SpawnRequest, "a string or SpawnRequest(...)")
        return await self.spawn_with(request)

    async def spawn_with(self, request: SpawnRequest, deps: Callable[[], object] | None = None) -> "Agent[Never]":
        if not request.prompt.strip():
            raise UsageError("an agent needs a prompt: what is it to do?")
        state, path = self.state, self.tree.reserve(self.path, request.name, self.neighbours.deepest)
        from sagent.agent import spawn

        with allowance(state.ledger, path, request.budget_usd):
            parts = spawn.parts_for(self, self.resources, path, request)
            history = spawn.shared_history(state) if request.share == "full" else ()
            return self._begin(parts, history, request, spawn.prompt_for(state, request, path, self.handoffs), deps)

    def spawn_like(
        self, model: Node, name: str, prompt: Message, messages: Sequence[Message] | None, deps: object
    ) -> "Agent[Never]":
        if not model.ledger.shares_budget(self.ledger) and model.ledger.cap is not None:
            raise UsageError(
                f"{model.path} has its own budget, which cannot be kept on the ledger of {self.path}: give both "
                "agents the same ledger, or that agent none"
            )
        path = self.tree.reserve(self.path, name, self.neighbours.deepest)
        resources = cast("Agent[Never]", model).resources
        given = replace(resources, ask=self._given.ask or resources.ask)
        from sagent.agent import spawn

        history = spawn.shared_history(model.state) if messages is None else messages
        parts = spawn.parts_like(model, given, self, path)
        return self._begin(parts, history, SpawnRequest(prompt.content, name), prompt, lambda: deps)

    def _begin(
        self,
        parts: "AgentParts",
        history: Sequence[Message],
        request: SpawnRequest,
        prompt: Message | None = None,
        deps: Callable[[], object] | None = None,
    ) -> "Agent[Never]":
        """Return a new agent below this one, at the start of its life: its events are passed on here. Without a prompt,
        it continues one of an earlier process. By default each of its turns has the dependencies that this agent's run
        has when the turn begins."""
        from sagent.agent.child import ChildTask

        self._warn()
        child = Agent[Never](**parts)
        child.restore(history)
        child.listen(self._pass_on)
        child.neighbours.settle_below(self.neighbours, request)
        if prompt is not None:
            from sagent.agent.spawn import record_birth

            record_birth(child.state, self.state, request, prompt)
        child._life = ChildTask(child, child._runs, self, request, deps or (lambda: self.state.run.deps))
        return child

    def _pass_on(self, event: Event) -> None:
        """Pass on an event of an agent below; its denied calls count as denials of this run."""
        if isinstance(event, Denied):
            self.state.run.denials.append(event.denial)
        self.state.journal.emit(event)

    @hinting
    def as_tool(
        self, name: str, description: str, *, deps: Callable[[RunContext[Deps]], Deps_contra] | None = None
    ) -> Tool[Deps]:
        """Return a tool for another agent to ask this one. Each call is a separate conversation below the calling
        agent, which begins with a copy of this one's. `deps` chooses which of the caller's dependencies it gets: none
        by default, all with `lambda run: run.deps`."""
        from sagent.agent.agent_tool import AgentTool

        return AgentTool(self, name, description, deps)

    async def resume(self) -> None:
        """Resume unfinished work from the log of an earlier process, after `restore`: unread and delayed messages, lost
        jobs, and persistent agents with theirs."""
        from sagent.agent.resume import resume

        entries = await resume(self, self.resources, self._begin)
        if self._life is None and self.tree.post is not None:
            self.tree.post.resume(entries)

    def peers(self, pattern: str = "*") -> Sequence[Node]:
        """Return the other living agents of the tree that match a name or a pattern; "*" is all of them."""
        return self.tree.find(pattern, self.path)

    def post(self, path: str, message: Message, seconds: float = 0.0) -> None:
        """Send a message to a living agent, now or in some seconds. The sender is informed if it was not delivered."""
        post = self.tree.post
        if seconds > 0 and post is not None:
            post.later(path, message, seconds)
        elif agent := self.tree.get(path):
            agent.send(message)
            self.state.journal.record(MessageSent(path, message.content))

    def catalog(self) -> str:
        """Return the models to switch to, as text for a model."""
        if self._given.catalog is not None:
            return self._given.catalog()
        return f"Only {self.model.provider}/{self.model.id} can be used here."

    def end(self) -> "asyncio.Task[None] | None":
        return self._life.end() if self._life is not None else None

    async def wait(self) -> Result:
        """Return the result of the current run or the last one; of a spawned agent, once it has read its messages."""
        if self._life is not None:
            await asyncio.sleep(0)  # for messages from another thread
            await self._life.rested()
        else:
            await self._runs.ended()
        if self._runs.last is None:
            raise UsageError(f"agent {self.path} has not run yet")
        return self._runs.last

    async def rewind_files(self, entry: str, path: str = "") -> "FileChanges":
        """Restore files, or one at an absolute `path`, to their state when an entry of the log was written ("" is its
        beginning), where this agent or its subagents have changed them since, on any branch; returns what was
        done. It can be undone in the same way.

        A file that someone else has changed since is left alone. Raises UsageError while a run is in progress, for an
        unknown entry, and for a path that was not changed since.
        """
        self._check_idle()
        from sagent.rewind.restore import restore_files

        return await restore_files(self.state, self.neighbours.checkpoints(), entry, path)

    def __reduce_ex__(self, _protocol: object) -> Never:
        raise TypeError(
            f"agent {self.path} cannot be copied or pickled, because it has a log: make another with the same "
            "arguments, and give it the conversation with restore(agent.messages)"
        )

    def __repr__(self) -> str:
        return f"<Agent {self.path}: {full_name(self.model)}, {self._doing}, {show(self.ledger.cost(self.path).total)}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the run in progress, its subagents, its jobs and what its tools left running; close its log if the agent
        opened it. A spawned agent only ends: its tools and session belong to the agent above."""
        if (life := self.end()) is not None:
            await asyncio.wait([life])
            return
        self._runs.check_here()
        if self.tree.post is not None:
            self.tree.post.close()
        self._runs.interrupt()
        if self.advisory is not None:
            self.advisory.plan(Stop())()
        await self._runs.released()
        await self.state.jobs.stop()  # before the agents that they may have spawned
        await self.tree.end_below(self.path)
        for tool in self.preparation.own_tools(self.state.tools):
            close = getattr(tool, "aclose", None)
            if close is not None:
                await close()
        await self._models.aclose()
        self.neighbours.close()
        if self._kept is not None:
            self._kept.close()
        elif self._given.log is None:
            self.state.log.close()


def _with_models(
    given: Resources, names: NamedModels, own: Model, advisor: Model | str | Sequence[str], more: Sequence[Model | str]
) -> Resources:
    """Add advisors and fallbacks to the resources. The agent can use these models and no others, unless it resolves
    names itself."""
    if advisor:
        if given.advisory is not None:
            raise UsageError("advisor and the advisory of resources are two places for advisors: give only one")
        several = not isinstance(advisor, str) and isinstance(advisor, Sequence)
        advise = cast("Callable[[object], ExtensionFactory]", resolve("sagent.advisor:advise"))
        given = replace(given, advisory=advise(advisor if several else [advisor]))
    if given.resolve is None:
        for each in getattr(given.advisory, "models", ()):
            if (name := names.add(each)) == full_name(own) and not (isinstance(each, str) or is_same_model(each, own)):
                raise UsageError(f"the agent and its advisor are two models named {name!r:.60}: give one another name")
    ahead = tuple(names.resolve(names.add(each)) for each in (*given.fallbacks, *more))
    compactor = None if given.compactor is None else names.resolve(names.add(given.compactor))
    return replace(given, fallbacks=ahead, compactor=compactor, resolve=given.resolve or names.resolve)


def _open_session(path: str | Path, parts: Resources) -> "SavedSession":
    if parts.log is not None:
        raise UsageError("session and the log of resources are two places for the log: give only one")
    if parts.path != "root":
        raise UsageError(f"Resources(path={parts.path!r:.60}): leave it out, for with session= an agent is called root")
    from sagent.agent.saved_session import SavedSession

    return SavedSession(session_at(path), parts.workspace.cwd if parts.workspace is not None else Path.cwd())


def _offered(tools: Sequence[GivenTool[Never]] | None) -> Sequence[Tool]:
    """Return the tools of one run. Raises UsageError for an invalid or repeated name."""
    return list(_by_name(tools_of(tools)).values()) if tools else ()


def _by_name(tools: Sequence[Tool]) -> Mapping[str, Tool]:
    """Tools by their names. Raises UsageError for an invalid or repeated name."""
    by_name = {tool.name: tool for tool in tools}
    for name in by_name:
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name):
            raise UsageError(f"{name!r} is not a valid tool name: use 1 to 64 letters, digits, _ and -")
    if twice := sorted({name for name in by_name if sum(tool.name == name for tool in tools) > 1}):
        raise UsageError(f"two tools are called {twice[0]!r}: give one another name, tool(function, name=...)")
    return by_name
