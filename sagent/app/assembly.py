"""Putting an agent together: session, prompt, tools, policy, ledger, model; and taking it apart again."""

import asyncio
import os
import subprocess
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from sagent import tools
from sagent.agent import Agent, Asker, Resources, RunLimits, Tree, TreeLimits
from sagent.app.advisors import advisors_of, remember_advisors
from sagent.app.models import Choice, catalog, choose_model
from sagent.app.servers import announce_to, bill_to, open_remotes, open_servers, pinned
from sagent.config import Settings
from sagent.config.values import option
from sagent.context.instructions import gather, repository_root
from sagent.context.places import places, plugin_folders
from sagent.context.prompt import compose
from sagent.context.skills import find_skills, skills_text
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.engine.actions import log_switch
from sagent.errors import SagentError, SessionNotFound, UsageError
from sagent.events import Event, Finished, Notice, Received, Switched
from sagent.lib.dataclass import dataclass
from sagent.lib.git import git_call
from sagent.messages import Message
from sagent.model import Model, full_name
from sagent.peer import Switch
from sagent.policy import Policy
from sagent.policy.permissions import PermissionPolicy
from sagent.policy.rules import Rules
from sagent.sandbox import Sandbox
from sagent.session.contents import Environment, MessageEntry, PromptEntry, SwitchedEntry
from sagent.session.entries import Entry
from sagent.session.folds import history
from sagent.session.log import FileLog, Log, MemoryLog
from sagent.session.names import agent_of
from sagent.session.store import Session, copy, find, is_session, latest, log_files
from sagent.tool import Tool, Workspace
from sagent.usage import Charge

if TYPE_CHECKING:
    from sagent.bridges.mcp import Servers
    from sagent.tools.ask import Answerer

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Past:
    """What an earlier run left in the log: nothing, for a new session."""

    messages: tuple[Message, ...] = ()
    charges: Iterable[Charge] = ()  # read from the logs as they are asked for
    system: str | None = None
    model: str = ""  # that answered last, or that was switched to since
    agents: tuple[str, ...] = ()
    sandbox: str = ""  # what held commands
    address: str = ""  # where its model was asked, if not at its provider's own address
    advisors: tuple[str, ...] = ()  # what became of who advises, in words, the earliest first
    proposes: bool = False  # plans, by a tool
    resumed: bool = False


class Keeper(Protocol):
    """Keeps a session in another place too, and has its agents wait for that before they do what others notice."""

    def follow(self, session: Session) -> None:
        """A session was opened, and nothing has been written to it yet. May be called in another thread."""
        ...

    def model(self, model: Model) -> Model:
        """The model, each call of which waits; the same again for one that does."""
        ...

    def tools(self, tools: Sequence[Tool]) -> list[Tool]:
        """The tools, each call of which waits that may change something."""
        ...


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
    servers: "Servers | None" = None,
    keeper: Keeper | None = None,
) -> AsyncGenerator[Agent]:
    """An agent as the settings describe it, its session open and its events passed to `listener`.

    What its policy (by default that of the settings) leaves to a person is put to `ask`, where there is one. `more` are
    tools in addition to those of the settings, `sandbox` and `servers` (of MCP) ones that are known elsewhere too;
    `answer` has a person decide on plans, and answer what servers ask; `adapt` gives the tools as they are offered;
    `keeper` keeps the session elsewhere. All of it is closed in the end. Raises UsageError, and SessionBusy or
    SessionCorrupt for the session.
    """
    notices = list(settings.warnings)
    workspace = Workspace(settings.cwd, (settings.cwd, *settings.add_dirs))
    policy = policy or policy_of(settings)
    workspace.hidden, workspace.profile = policy.hidden(workspace), policy.profile
    async with AsyncExitStack() as stack:
        stack.enter_context(_reporting(notices, listener))
        trace = _open_trace(settings, stack, listener)  # first, for its file closes last
        sandbox = sandbox or Sandbox(settings.sandbox, cache=settings.state_dir)
        stack.push_async_callback(sandbox.aclose)
        workspace.changing = sandbox.changing
        sandbox.warn = lambda text: listener(Notice("root", "warning", text))
        offered = [*choose_tools(settings, sandbox), *more]
        follow = await _open_telemetry(settings, stack, notices, listener, offered)
        earlier = settings.continue_session or settings.session is not None or settings.fork is not None
        log, past = await _beside(lambda: _open_log(settings, stack, notices, keeper), long=earlier)
        offered += _plan_tools(settings, past, policy, answer)
        workspace.kept = Path(log.path) / "blobs" if log.path else None
        policy.expose(
            settings.config_dir / "skills",
            *plugin_folders(settings.config_dir),
            *((Path(log.path),) if log.path else ()),
            notes=_open_memory(settings, notices),
        )
        settings, off, advised = remember_advisors(settings, past.advisors, notices)
        choice = await choose_model(settings, past.model, keeper.model if keeper is not None else None)
        stack.push_async_callback(choice.aclose)
        choice.check_address(past.address)
        ledger = await _beside(lambda: _open_ledger(settings, choice, past, notices), long=past.resumed)
        aside = Aside(log, settings.cwd, sandbox, past)
        if (bash := next((tool for tool in offered if tool.name == "Bash"), None)) is not None:
            aside.warn = lambda text: listener(Notice("root", "warning", text))
            if isinstance(bash, tools.Bash):
                aside.prepare = partial(bash.prepare, workspace, log.blobs)
        stack.push_async_callback(aside.aclose)
        servers = await open_servers(settings, servers, notices, stack, workspace, sandbox, answer)
        offered += servers.tools if servers else ()
        offered += (remotes := await open_remotes(settings, notices, stack))
        offered = _searchable(offered)
        resources = _resources(settings, choice, ledger, notices)
        judge: Policy = policy
        offered = [*adapt(offered)]
        with_code = _open_code(settings, offered, policy, workspace, sandbox, stack, answer)
        if settings.hooks:
            from sagent.app.hooks import open_hooks
            from sagent.hooks.policy import HookPolicy
            from sagent.hooks.tool import hooked

            opened = open_hooks(settings, listener, policy, workspace, sandbox, log, _withheld(settings))
            hooks = await stack.enter_async_context(opened)
            offered, ask, judge = hooked(offered, hooks), hooks.asker(ask), HookPolicy(hooks, policy)
            resources = replace(resources, admit=hooks.admit, before_compaction=hooks.before_compaction)
        judge = pinned(judge, servers, policy)
        offered, judge = with_code(offered, judge)
        offered = keeper.tools(offered) if keeper is not None else offered
        agent = Agent(
            choice.model,
            system=_system_prompt(settings, workspace, past, notices),
            tools=offered,
            policy=judge,
            limits=_limits(settings),
            effort=settings.effort,
            options=dict(map(option, settings.options)),
            resources=replace(resources, log=log, workspace=workspace, ask=ask, finish=aside.finish),
        )
        stack.push_async_callback(agent.aclose)
        announce_to(agent, servers, stack)
        bill_to(agent, remotes)
        aside.address = lambda: choice.address(agent.model.provider)
        aside.study = lambda: choice.study(agent.model.provider) if choice.wants_listing(agent.model) else None
        await _beside(lambda: _restore(agent, past), long=past.resumed)
        if past.model not in ("", full_name(agent.model)):
            log_switch(agent.state)
        if advised:
            agent.state.journal.record(SwitchedEntry(advisor=advised))
        for name in off:
            agent.apply(Switch(advisor=f"{name}=off"))
        agent.listen(listener)
        if trace is not None:
            agent.listen(trace)
        stack.callback(follow(agent))
        for text in notices:
            listener(Notice(agent.path, "warning", text))
        notices.clear()
        agent.listen(aside.on_event)
        for path in past.agents:
            agent.tree.register(path)
        if past.resumed:
            await agent.resume()
        yield agent


def _resources(settings: Settings, choice: Choice, ledger: Ledger, notices: list[str]) -> Resources:
    """What the agent shares or keeps, as far as the settings say it. Raises UsageError."""
    return Resources(
        ledger=ledger,
        resolve=choice.resolve,
        model_limits=choice.limits,
        fallbacks=choice.fallbacks(),
        tree=Tree(_tree_limits(settings)),
        catalog=lambda: catalog(choice, ledger.prices),
        advisory=advisors_of(settings, choice, notices),
        advised=bool(settings.advisors),
        compactor=choice.compactor(),
    )


async def _beside(work: Callable[[], T], *, long: bool) -> T:
    """Do what takes long with a long session in a thread, so that keys are not held; to its end in any case, for it may
    open what is to be closed."""
    if not long:
        return work()
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _restore(agent: Agent, past: Past) -> None:
    agent.restore(past.messages)
    agent.state.context.tokens()  # it is encoded now, and not when the first figures are shown


def _open_ledger(settings: Settings, choice: Choice, past: Past, notices: list[str]) -> Ledger:
    """The session's ledger, what was spent before on it. Raises UsageError for a fallback that cannot be had."""
    ledger = Ledger(settings.max_budget_usd, PriceBook(settings.prices, free=choice.free()))
    ledger.restore(past.charges)
    for model in choice.fallbacks():
        if ledger.cap is not None and ledger.prices.ceiling(model.provider, model.id) is None:
            name = full_name(model)
            notices.append(f"{name} has no known price: under a cap it cannot be a fallback. Give its price.")
    return ledger


@contextmanager
def _reporting(notices: Sequence[str], listener: Callable[[Event], None]) -> Generator[None]:
    """Report what was noticed also where nothing can be opened, for it may be the reason."""
    try:
        yield
    except SagentError:
        for text in notices:
            listener(Notice("root", "warning", text))
        raise


def _open_code(
    settings: Settings,
    offered: Sequence[Tool],
    policy: PermissionPolicy,
    workspace: Workspace,
    sandbox: Sandbox,
    stack: AsyncExitStack,
    answer: "Answerer | None",
) -> Callable[[list[Tool], Policy], tuple[list[Tool], Policy]]:
    """What puts language servers around tools and a policy; by default they check changes where a person is there."""
    checking = settings.diagnostics == "on" or (settings.diagnostics == "auto" and answer is not None)
    asking = any(tool.name in tools.CODE for tool in offered)
    if not (checking or asking):
        return lambda tools, policy: (tools, policy)
    from sagent.app.code import add_code, open_code

    access = open_code(settings, policy, workspace, sandbox, _withheld(settings))
    stack.push_async_callback(access.aclose)
    code = next((tool for tool in offered if isinstance(tool, tools.Code)), None) if asking else None
    if code is not None:
        code.access = access
    return lambda tools, policy: add_code(tools, policy, access, code, checking=checking)


def policy_of(settings: Settings, private: Sequence[Path] = ()) -> PermissionPolicy:
    """The policy that the settings describe; `private` are more directories that hold keys or conversations."""
    rules = Rules.parse(settings.allow, settings.deny)
    private = (settings.config_dir, settings.state_dir, *private)
    return PermissionPolicy(settings.permission_mode, rules, private=private, domains=settings.allow_domains)


def _open_memory(settings: Settings, notices: list[str]) -> Sequence[Path]:
    if not settings.memory:
        return ()
    from sagent.app.memory import has_memory, open_folders

    return open_folders(settings, notices) if has_memory(settings) else ()


def _open_trace(
    settings: Settings, stack: AsyncExitStack, listener: Callable[[Event], None]
) -> Callable[[Event], None] | None:
    """What takes the events for `--trace`, its file closed in the end. Raises UsageError."""
    if settings.trace is None:
        return None
    from sagent.transcript.file import TraceFile

    trace = TraceFile(settings.trace, lambda text: listener(Notice("root", "warning", text)))
    stack.callback(trace.close)
    return trace.on_event


async def _open_telemetry(
    settings: Settings,
    stack: AsyncExitStack,
    notices: list[str],
    listener: Callable[[Event], None],
    offered: Sequence[Tool],
) -> Callable[[Agent], Callable[[], None]]:
    """What follows an agent and returns how to end that. Without what it needs it does nothing, and a notice says so.
    Raises ConfigError."""
    if not settings.telemetry:
        return lambda _: lambda: None
    try:
        from sagent.bridges.otel.export import open_telemetry
    except ImportError:
        from sagent.lib.installed import install_command

        notices.append(f"Telemetry needs a package that is not installed: {install_command('otel')}")
        return lambda _: lambda: None
    opened = open_telemetry(os.environ, lambda text: listener(Notice("root", "warning", text)))
    telemetry = await stack.enter_async_context(opened)
    for bash in offered:
        if isinstance(bash, tools.Bash):
            bash.variables = telemetry.environment
    return telemetry.watch


def choose_tools(settings: Settings, sandbox: Sandbox | None = None) -> tuple[Tool, ...]:
    """The tools asked for, by name or group; by default the built-in ones. Raises UsageError with the nearest names."""
    by_name = {name.lower(): (name,) for name in tools.EVERY} | dict(tools.GROUPS)
    chosen: dict[str, None] = {}
    for name in ("default",) if settings.tools is None else settings.tools:
        if not (known := by_name.get(name.lower(), ())):
            import difflib

            near = difflib.get_close_matches(name.lower(), by_name, 1, 0.4)
            hint = f" Did you mean {', '.join(by_name[near[0]])}?" if near else ""
            raise UsageError(f"--tools: there is no tool {name!r}.{hint} The tools are {', '.join(tools.EVERY)}.")
        chosen |= dict.fromkeys(known)
    online = (*tools.WEB, *tools.PAPERS)
    web = None if set(chosen).isdisjoint(online) else tools.WebAccess((), settings.state_dir / "web", settings.web)
    return tuple(_make_tool(name, settings, sandbox, web) for name in chosen)


def _make_tool(name: str, settings: Settings, sandbox: Sandbox | None, web: "tools.WebAccess | None") -> Tool:
    if name in (*tools.WEB, *tools.PAPERS):
        return getattr(tools, name)(web)
    if name == "RepoMap":
        return tools.RepoMap(settings.state_dir / "maps")
    if name == "AgentSpawn" and any(places("agents", settings.cwd, settings.config_dir)):
        from sagent.context.agents import find_agents

        return tools.AgentSpawn(find_agents(settings.cwd, settings.config_dir))
    if name not in ("Bash", "Notebook"):
        return getattr(tools, name)()
    runner = tools.Bash if name == "Bash" else tools.Notebook
    return runner(keep_keys=settings.env_pass, withheld=_withheld(settings), sandbox=sandbox)


def _searchable(offered: list[Tool]) -> list[Tool]:
    """The tools, and what finds those that are too many to be sent with every request."""
    if not any(getattr(tool, "deferrable", False) for tool in offered):
        return offered
    from sagent.tools.find import with_search

    return [*with_search(offered)]


def _withheld(settings: Settings) -> set[str]:
    """Variables that hold keys of providers."""
    described = settings.providers.values()
    keys = {each.api_key for each in described if each.api_key}
    names = {variable for each in described for variable in each.row.key.split()}
    names |= {name for name in os.environ if name.startswith("OTEL_EXPORTER_") and name.endswith("_HEADERS")}
    return names | {variable for variable, value in os.environ.items() if value in keys}  # as in api_key = "${CORP}"


def _plan_tools(settings: Settings, past: Past, policy: PermissionPolicy, answer: "Answerer | None") -> Sequence[Tool]:
    """The tool that proposes a plan, where a session begins in plan mode; it stays for as long as the session lives,
    whatever its mode, so that what is cached of its requests stays good."""
    wanted = settings.plan or (answer is not None and settings.permission_mode == "plan")
    if not (wanted or past.proposes):
        return ()
    from sagent.tools.plan import ExitPlan

    return (ExitPlan(answer, lambda: policy.mode == "plan"),)


def _tree_limits(settings: Settings) -> TreeLimits:
    return TreeLimits(settings.max_agent_depth, settings.max_live_agents, settings.max_spawns, settings.max_exchanges)


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


def _open_log(settings: Settings, stack: AsyncExitStack, notices: list[str], keeper: Keeper | None) -> tuple[Log, Past]:
    """The session's log and what is in it. A new session that cannot be written becomes one in memory, and says so; to
    go on with an earlier one without what was said in it would be another conversation. Raises UsageError."""
    if not settings.ephemeral:
        try:
            return _open_file_log(settings, stack, notices, keeper)
        except OSError as error:
            where = error.filename or settings.state_dir
            named = settings.session is not None and is_session(settings.session)
            if settings.continue_session or settings.fork is not None or named or keeper is not None:
                raise UsageError(
                    f"The session cannot be opened for writing: {error.strerror or error} ({where}). Free space or fix "
                    "the directory, then go on; or start without --continue, --session and --fork."
                ) from error
            notices.append(
                f"The session cannot be kept: {error.strerror or error} ({where}). Nothing of this run stays."
            )
    log = MemoryLog()
    stack.callback(log.close)
    return log, Past()


def _open_file_log(
    settings: Settings, stack: AsyncExitStack, notices: list[str], keeper: Keeper | None
) -> tuple[Log, Past]:
    session, resumed = _open_session(settings)
    if keeper is not None:
        keeper.follow(session)
    log = session.log()
    if resumed and log.head:
        stack.callback(session.close)
        if log.torn:
            notices.append(f"The last run was killed while writing its log; {log.torn} incomplete bytes were cut off.")
        return log, _read_past(log, session)
    try:
        first = session.begin(settings.cwd)
    except OSError:
        session.close()
        raise
    stack.callback(session.close_begun, first)  # nothing happened in it where no model was found, for instance
    return log, Past()


def _open_session(settings: Settings) -> tuple[Session, bool]:
    """The session to write to, and whether it is an earlier one."""
    if settings.fork is not None:
        name, _, entry = settings.fork.partition("@")
        source = find(settings.state_dir, name, settings.cwd)
        return Session.open(copy(source, settings.state_dir, settings.cwd, entry)), True
    if (path := settings.session) is not None:
        if is_session(path):
            return Session.open(path), True
        name = path.name if path.parent == settings.cwd else str(path)  # one that was taken for a path
        try:
            return Session.open(find(settings.state_dir, name, settings.cwd)), True
        except SessionNotFound:
            return Session.create_at(path), False
    if settings.continue_session:
        return Session.open(latest(settings.state_dir, settings.cwd)), True
    return Session.create(settings.state_dir, settings.cwd), False


def _read_past(log: FileLog, session: Session) -> Past:
    """What a log holds; the charges are those of all its session's agents."""
    contents = log.contents()
    prompt = next(contents.latest("prompt"), None)
    return Past(
        messages=history(contents, log.blobs.get),
        charges=session.charges(),
        agents=tuple(agent_of(session.path, file) for file in log_files(session.path) if file != log.file),
        resumed=True,
        sandbox=next((name for name in map(_sandbox_in, contents.latest("environment")) if name), ""),
        address=next((at for at in map(_address_in, contents.latest("environment")) if at is not None), ""),
        advisors=tuple(text for text in map(_advisor_in, contents.latest("switched")) if text)[::-1],
        system=prompt.content.system if prompt and isinstance(prompt.content, PromptEntry) else None,
        proposes=prompt is not None and _proposes(prompt),
        model=next((name for name in map(_model_in, contents.latest("message", "switched")) if name), ""),
    )


def _proposes(entry: Entry) -> bool:
    content = entry.content
    return isinstance(content, PromptEntry) and any(tool.name == "ExitPlan" for tool in content.tools)


def _model_in(entry: Entry) -> str:
    """The model that answered, or that was switched to."""
    match entry.content:
        case MessageEntry(message):
            return message.model
        case SwitchedEntry(model):
            return model
        case _:
            return ""


def _advisor_in(entry: Entry) -> str:
    return entry.content.advisor if isinstance(entry.content, SwitchedEntry) else ""


def _sandbox_in(entry: Entry) -> str:
    return entry.content.sandbox if isinstance(entry.content, Environment) else ""


def _address_in(entry: Entry) -> str | None:
    return entry.content.address if isinstance(entry.content, Environment) else None


def _system_prompt(settings: Settings, workspace: Workspace, past: Past, notices: list[str]) -> str:
    """Fixed when the session starts: a resumed one keeps its own, unless another is asked for."""
    if past.system is not None and settings.system is None and not settings.append_system:
        return past.system
    told = _instructions(settings, notices) if settings.instructions else ""
    if any(places("agents", settings.cwd, settings.config_dir)):
        from sagent.context.agents import find_agents

        find_agents(settings.cwd, settings.config_dir, notices)  # what could not be read of them
    memory = ""
    if settings.memory:
        from sagent.app.memory import describe, has_memory

        memory = describe(settings) if has_memory(settings) else ""
    added = "\n\n".join(filter(None, (told, memory)))
    system, append = settings.system, settings.append_system
    if settings.output_style:
        from sagent.context.styles import find_style

        style = find_style(settings.output_style, settings.cwd, settings.config_dir)
        if style.replaces and system is None:
            system = style.text
        else:
            append = "\n\n".join(filter(None, (append, style.text)))
    return compose(workspace, date.today(), added, system, append)  # noqa: DTZ011 -- the person's day


def _instructions(settings: Settings, notices: list[str]) -> str:
    """What lies in the project and with the person for every agent to read, and the names of skills."""
    found = gather(settings.cwd, settings.config_dir, settings.add_dirs)
    notices.extend(found.notices)
    skills = skills_text(find_skills(settings.cwd, settings.config_dir, notices))
    return "\n\n".join(filter(None, (found.text, skills)))


class Aside:
    """Work that may not delay the first request: the state of the git repository, what can hold commands and the box of
    the first one, a model's listing.

    git starts at once, in a process of its own; the sandbox is tried and `prepare`d, and `study` may ask for a listing,
    when the agent has been quiet for a moment, as it is while a model thinks. `warn` gets once what is lacking.
    """

    QUIET = 0.1  # seconds

    def __init__(self, log: Log, cwd: Path, sandbox: Sandbox, past: Past) -> None:
        self._log, self._sandbox = log, sandbox
        self._git = None if past.messages else start_git_status(cwd)
        self._logged, self._known = past.sandbox, past.address
        self._held = ""
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._studying: asyncio.Task[None] | None = None
        self.prepare: Callable[[], Coroutine[None, None, None]] | None = None
        self.study: Callable[[], Coroutine[None, None, None] | None] = lambda: None
        self.address: Callable[[], str] = lambda: ""
        self.warn: Callable[[str], None] = lambda _: None

    def on_event(self, event: Event) -> None:
        if isinstance(event, Received | Switched):  # before the request, for a run may be killed
            self._log_new(self._new_address())
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        if self._timer is None and not isinstance(event, Finished):
            self._timer = loop.call_later(self.QUIET, self._check)

    def _check(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() - self._last < self.QUIET:
            self._timer = loop.call_later(self.QUIET, self._check)
            return
        self._studying = loop.create_task(self._look())

    async def _look(self) -> None:
        await self._find_sandbox()
        if self.prepare is not None:
            await self.prepare()
        if (work := self.study()) is not None:
            await work

    async def _find_sandbox(self) -> str:
        from sagent.sandbox.report import held_by, shortfall

        held = await asyncio.to_thread(held_by, self._sandbox)
        if not self._held and (missing := shortfall(self._sandbox)):
            self.warn(missing)
        self._held = held
        return held

    async def finish(self) -> str:
        """Log what git said, which had the whole run to say it, and what holds commands and where the model was asked,
        where that is new."""
        state: dict[str, object] = {}
        if self._git is not None:
            state, self._git = await asyncio.to_thread(read_git_status, self._git), None
        if (held := await self._find_sandbox()) != self._logged:  # a person may have switched it
            state, self._logged = {**state, "sandbox": held}, held
        self._log_new(state | self._new_address())
        return held

    def _new_address(self) -> dict[str, object]:
        before, self._known = self._known, self.address()
        return {"address": self._known} if self._known != before else {}

    def _log_new(self, state: dict[str, object]) -> None:
        if state:
            with suppress(OSError):
                self._log.append(Environment(state))

    async def aclose(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._studying is not None:
            self._studying.cancel()
            await asyncio.wait([self._studying])
        if self._git is not None:
            self._git.kill()
            self._git.communicate()


def start_git_status(cwd: Path) -> subprocess.Popen[bytes] | None:
    """Ask git for the commit and whether tracked files differ from it; None where there is nobody to ask."""
    if repository_root(cwd) is None or (call := git_call(cwd, "status", "--porcelain=v2", "--branch", "-uno")) is None:
        return None
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    try:
        return subprocess.Popen(
            call.argv, env=call.environment, stdin=null, stdout=pipe, stderr=null, start_new_session=True
        )
    except OSError:
        return None


def read_git_status(git: subprocess.Popen[bytes]) -> dict[str, object]:
    """{"git_commit", "git_dirty"}, or {} when git does not answer within two seconds."""
    try:
        out, _ = git.communicate(timeout=2.0)
    except subprocess.TimeoutExpired:
        git.kill()
        git.communicate()
        return {}
    if git.returncode:
        return {}
    lines = out.decode("utf-8", "replace").splitlines()
    commit = next((line.split()[-1] for line in lines if line.startswith("# branch.oid")), "")
    return {"git_commit": commit, "git_dirty": any(not line.startswith("#") for line in lines)}
