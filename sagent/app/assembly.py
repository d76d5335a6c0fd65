"""Builds an agent from session, prompt, tools, policy, ledger and model, and closes them again."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import date
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

from sagent.agent import Agent, Asker, Resources, RunLimits, Tree, TreeLimits
from sagent.agent.resources import Admit, ExtensionFactory, tools_of
from sagent.app import background
from sagent.app.builder import AgentBuilder
from sagent.app.models import Choice, catalog, choose_model
from sagent.app.past import Past, SessionMirror, open_log
from sagent.app.toolset import choose_tools, make_tools
from sagent.config import Settings
from sagent.config.declared import CORE
from sagent.config.values import option
from sagent.context.instructions import gather
from sagent.context.places import is_any
from sagent.context.prompt import PLACE, changed_directories, compose
from sagent.context.skills import find_skills, skills_text
from sagent.cost.ledger import Ledger
from sagent.engine.actions import log_switch
from sagent.engine.state import AgentState
from sagent.errors import SagentError, UsageError
from sagent.events import Event, Failure, Notice
from sagent.lib.raised import advice, ends, reason
from sagent.lib.text import nearest
from sagent.messages import Message, user
from sagent.model import full_name
from sagent.plugin import CallForm, Moment, Part, Table, ToolEntry, resolve
from sagent.policy.permissions import PermissionPolicy
from sagent.policy.rules import Rules
from sagent.providers.wire.exchange import OnWaiting, ignore_wait
from sagent.sandbox import Sandbox
from sagent.session.log import Log
from sagent.surface import Surface
from sagent.tool import Tool, Workspace

if TYPE_CHECKING:
    from sagent.providers.wire.collecting import Collecting
    from sagent.tools.ask import Answerer

T = TypeVar("T")
Apart: TypeAlias = Callable[[], AbstractContextManager[None]]


@asynccontextmanager
async def open_agent(
    settings: Settings,
    listener: Callable[[Event], None],
    ask: Asker | None = None,
    policy: PermissionPolicy | None = None,
    more: Sequence[Tool] = (),
    sandbox: Sandbox | None = None,
    answer: "Answerer | None" = None,
    adapt: Callable[[Sequence[Tool]], Sequence[Tool]] = tuple,
    keeper: SessionMirror | None = None,
    batches: "Collecting | None" = None,
    on_waiting: OnWaiting = ignore_wait,
    surface: Surface | None = None,
) -> AsyncGenerator[Agent]:
    """Yield an agent as the settings describe it, with its session open and its events passed to `listener`.

    Questions of its policy (by default the one in the settings) go to `ask`, if given. `more` are additional tools;
    `sandbox` is a shared one; `answer` lets a person decide on plans and answer servers' questions; `adapt` wraps the
    offered tools; `keeper` mirrors the session; requests go out through `batches`; `on_waiting` receives why calls to
    local servers wait ("" when they no longer do); `surface` is the person's, to which parts add. Everything is closed
    at the end. Raises UsageError, and SessionBusy or SessionCorrupt for the session.
    """
    async with AsyncExitStack() as stack:
        sandbox = sandbox or Sandbox(settings.sandbox, cache=settings.state_dir)
        policy, surface = policy or policy_of(settings), surface or Surface()
        builder = AgentBuilder(settings, listener, stack, policy, sandbox, ask, answer, surface)
        stack.enter_context(_reporting(builder))
        stack.push_async_callback(sandbox.aclose)
        sandbox.warn = builder.warn
        builder.tools = [*make_tools(choose_tools(settings), builder), *more]
        await _open_session(builder, keeper, batches, on_waiting)
        background.add(builder)
        await _add_parts(builder, "offer")
        await _add_parts(builder, "offered")
        for adapter in (adapt, *builder.adapters):
            builder.tools = builder.offered = [*adapter(builder.tools)]
        await _add_parts(builder, "around")
        forms, admit = settings.plugins.every(CallForm), _admitting(builder.resources.admit)
        builder.resources = replace(builder.resources, admit=admit, call_forms=lambda: forms)
        if keeper is not None:
            builder.wrap(keeper.tools)
        agent = _make_agent(builder)
        stack.push_async_callback(agent.aclose)
        await _start(agent, builder)
        yield agent


async def _open_session(
    builder: AgentBuilder, keeper: SessionMirror | None, batches: "Collecting | None", on_waiting: OnWaiting
) -> None:
    """Open the session's log, its model and its budget. Raises UsageError."""
    settings, stack, notices = builder.settings, builder.stack, builder.notices
    earlier = settings.continue_session or settings.session is not None or settings.fork is not None
    log, past = await _in_thread(lambda: open_log(settings, stack, notices, keeper), long=earlier)
    choice = await choose_model(settings, past.model, keeper.model if keeper is not None else None, batches, on_waiting)
    stack.push_async_callback(choice.aclose)
    choice.check_address(past.address)
    ledger = await _in_thread(lambda: _open_ledger(settings, choice, past, notices), long=past.resumed)
    builder.log, builder.past, builder.choice = log, past, choice
    builder.workspace = _workspace(settings, builder.policy, builder.sandbox, log)
    builder.resources = _resources(settings, choice, ledger, builder.warn)
    builder.expose()


async def _add_parts(builder: AgentBuilder, moment: Moment) -> None:
    """Add the parts wanted at this moment; each part's module is loaded with it. If a plugin's part fails, it is left
    out with all that it added; if something it added fails later, only that is left out."""
    plugins = builder.settings.plugins
    for plugin, part in plugins.owned(Part):
        if part.moment != moment or not any(map(builder.knows, part.when)):
            continue
        guards = moment == "around" or any(table.guards for owner, table in plugins.owned(Table) if owner == plugin)
        apart = partial(_apart, builder, plugin, guards=guards)
        before = builder.contents()
        with apart():
            try:
                await cast("Callable[[AgentBuilder], Awaitable[None]]", resolve(part.add))(builder)
                builder.check(before)
                known = {id(tool) for tool in before["tools"]}
                try:
                    builder.tools = [each if id(each) in known else tools_of([each])[0] for each in builder.tools]
                except UsageError as error:
                    raise TypeError(str(error)) from error
            except BaseException:
                for name, value in before.items():
                    setattr(builder, name, value)
                raise
            new = len(before["sections"])
            builder.sections[new:] = [partial(_section, apart, section) for section in builder.sections[new:]]
            new = len(before["started"])
            builder.started[new:] = [partial(_call, apart, each) for each in builder.started[new:]]


@contextmanager
def _apart(builder: AgentBuilder, plugin: str, *, guards: bool = False) -> Generator[None]:
    """Warn of exceptions that a plugin's code raises in the block. A SagentError is raised, and so is any error of a
    plugin that `guards` runs: one with a table of guards, or that wraps tools or policy."""
    try:
        yield
    except SagentError:
        raise
    except BaseException as error:
        if plugin == CORE.name or ends(error):
            raise
        why = f"A part of the plugin {plugin} is left out: {reason(error)}."
        if guards and not builder.settings.unguarded:
            raise UsageError(f"{why} It may guard what agents do; --unguarded runs without it.") from error
        builder.warn(f"{why} {advice(plugin)}")


def _section(apart: Apart, describe: Callable[[], object]) -> str:
    with apart():
        if isinstance(text := describe(), str):
            return text
        raise TypeError(f"it has {type(text).__name__} as a section of the system prompt")
    return ""


def _call(apart: Apart, follow: Callable[[Agent], object], agent: Agent) -> None:
    with apart():
        follow(agent)


@runtime_checkable
class Admitting(Protocol):
    """A Model that adds to what its agent reads in a run, as files that a prompt names."""

    async def admit(
        self, state: AgentState, prompt: Message | None, read: Sequence[Message] | Failure
    ) -> Sequence[Message] | Failure:
        """Return the messages that the agent reads in place of these."""
        ...


def _admitting(before: Admit | None) -> Admit:
    """Return an `admit` that also asks each agent's model, or a model that may replace it, if it is Admitting, and that
    tells the root's model of directories that it does not know, as after a resumption elsewhere or a rewind."""

    async def admit(state: AgentState, prompt: Message | None) -> Sequence[Message] | Failure:
        read = (() if prompt is None else (prompt,)) if before is None else await before(state, prompt)
        if not isinstance(read, Failure) and not state.above:
            place = changed_directories(state.workspace, state.context.system, state.context.history)
            read = (*([user(place, sender=PLACE)] if place else ()), *read)
        for model in (state.model, *state.fallbacks):
            if isinstance(model, Admitting):
                return await model.admit(state, prompt, read)
        return read

    return admit


def _make_agent(builder: AgentBuilder) -> Agent:
    settings = builder.settings
    return Agent(
        builder.choice.model,
        system=_system_prompt(builder),
        tools=builder.tools,
        policy=builder.judge,
        limits=_limits(settings),
        effort=settings.effort,
        options=dict(map(option, settings.options)),
        resources=replace(builder.resources, log=builder.log, workspace=builder.workspace, ask=builder.ask),
    )


async def _start(agent: Agent, builder: AgentBuilder) -> None:
    """Give the agent its earlier conversation, then its listeners, then the messages it had not read yet."""
    past = builder.past
    await _in_thread(lambda: _restore(agent, past, shown=builder.ask is not None), long=past.resumed)
    if past.model not in ("", full_name(agent.model)):
        log_switch(agent.state)
    for follow in builder.started:
        follow(agent)
    agent.listen(builder.listener)
    for text in map(str, builder.notices):
        builder.listener(Notice(agent.path, "warning", text))
    builder.notices.clear()
    for path in past.agents:
        agent.tree.register(path)
    if past.resumed:
        await agent.resume()


def _workspace(settings: Settings, policy: PermissionPolicy, sandbox: Sandbox, log: Log) -> Workspace:
    workspace = Workspace(settings.cwd, (settings.cwd, *settings.add_dirs), changing=sandbox.changing)
    workspace.hidden, workspace.profile = policy.hidden(workspace), policy.profile
    workspace.blob_dir = Path(log.path) / "blobs" if log.path else None
    return workspace


def _resources(settings: Settings, choice: Choice, ledger: Ledger, warn: Callable[[str], object]) -> Resources:
    """Build the agent's resources from the settings. Raises UsageError."""

    @cache
    def advisory() -> ExtensionFactory:
        from sagent.app.parts.advisors import advisors_of

        return advisors_of(settings, choice, [], warn)

    return Resources(
        ledger=ledger,
        resolve=choice.resolve,
        model_limits=choice.limits,
        fallbacks=choice.fallbacks(),
        tree=Tree(
            TreeLimits(settings.max_agent_depth, settings.max_live_agents, settings.max_spawns, settings.max_exchanges)
        ),
        catalog=lambda: catalog(choice, ledger.prices),
        advisory=lambda agent, above: advisory()(agent, above),  # noqa: PLW0108 -- made when first switched to
        advised=False,
        compactor=choice.compactor(),
    )


async def _in_thread(work: Callable[[], T], *, long: bool) -> T:
    """Run slow work on a long session in a thread, so that typing stays responsive. It always runs to its end, because
    it may open files that have to be closed."""
    if not long:
        return work()
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _restore(agent: Agent, past: Past, *, shown: bool) -> None:
    """Restore the conversation. If a person is `shown` its figures, encode it now rather than on first use."""
    agent.restore(past.messages)
    if shown:
        agent.state.context.tokens()


def _open_ledger(settings: Settings, choice: Choice, past: Past, notices: list[str]) -> Ledger:
    """Return the session's ledger with earlier charges. Raises UsageError for an unavailable fallback."""
    ledger = Ledger(settings.max_budget_usd, choice.prices())
    ledger.restore(past.charges)
    for model in choice.fallbacks():
        if ledger.cap is not None and ledger.prices.ceiling(model.provider, model.id) is None:
            why = "has no known price, so it cannot be a fallback while there is a budget"
            notices.append(f"{full_name(model)} {why}. Set its price, or leave out one of them.")
    return ledger


@contextmanager
def _reporting(builder: AgentBuilder) -> Generator[None]:
    """Report the notices even if the agent cannot be opened: they may be the reason."""
    try:
        yield
    except SagentError:
        for text in builder.notices:
            builder.warn(text)
        raise


def policy_of(settings: Settings, private: Sequence[Path] = ()) -> PermissionPolicy:
    """Return the policy that the settings describe; `private` are more directories that hold keys or conversations."""
    rules = Rules.parse(settings.allow, settings.deny)
    private, file = (settings.config_dir, settings.state_dir, *private), settings.user_file
    obeyed = () if file.is_relative_to(settings.config_dir) else (file,)
    policy = PermissionPolicy("ask", rules, private=private, obeyed=obeyed, domains=settings.allow_domains)
    policy.mode = settings.permission_mode  # perhaps a plugin's
    return policy


def _limits(settings: Settings) -> RunLimits:
    return RunLimits(
        max_turns=settings.max_turns,
        max_tool_call_rounds=settings.max_tool_call_rounds,
        max_request_tokens=settings.max_request_tokens,
        max_response_tokens=settings.max_response_tokens,
        max_retries=settings.max_retries,
        fallback_after=settings.max_retries if settings.fallback_after is None else settings.fallback_after,
        compact_at=settings.compact_at,
        foreground_seconds=settings.background_after,
        wait_for_jobs=settings.wait_for_jobs,
    )


def _system_prompt(builder: AgentBuilder) -> str:
    """Return the system prompt, fixed at the start. A resumed session keeps its own unless another is given."""
    settings, past, notices = builder.settings, builder.past, builder.notices
    system, append = settings.system, settings.append_system
    if past.system is not None and system is None and not append:
        return past.system
    found = _instructions(settings, notices) if settings.instructions else ""
    _check_definitions(settings, notices)
    added = "\n\n".join(filter(None, (found, *(describe() for describe in builder.sections))))
    if settings.output_style:
        from sagent.context.styles import find_style

        style = find_style(settings.output_style, settings.cwd, settings.config_dir, notices)
        if style.replaces and system is None:
            system = style.text
        else:
            append = "\n\n".join(filter(None, (append, style.text)))
    return compose(builder.workspace, date.today(), added, system, append)  # noqa: DTZ011 -- the person's day


def _check_definitions(settings: Settings, notices: list[str]) -> None:
    """Report which existing agents and commands are left out."""
    cwd, config_dir = settings.cwd, settings.config_dir
    if is_any("agents", cwd, config_dir):
        from sagent.context.agents import find_agents

        every, served = [*settings.plugins.named(ToolEntry)], settings.plugins.served_tools
        for kind in find_agents(cwd, config_dir, notices):
            named = (*(kind.tools or ()), *kind.without)
            if strange := [name for name in named if name not in every and not name.startswith(served)]:
                hint = nearest(strange[0], every) or "."
                notices.append(f"{kind.path} names tools that there are not, {', '.join(strange)}{hint}")
    if is_any("commands", cwd, config_dir):
        from sagent.context.commands import find_commands

        find_commands(cwd, config_dir, notices)


def _instructions(settings: Settings, notices: list[str]) -> str:
    """Gather the instructions of the project and of the person, and the names of skills."""
    found = gather(settings.cwd, settings.config_dir, settings.add_dirs)
    notices.extend(found.notices)
    skills = skills_text(find_skills(settings.cwd, settings.config_dir, notices))
    return "\n\n".join(filter(None, (found.text, skills)))
