"""Asks another model a session's prompts, with its settings, in a new session."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import field, replace
from pathlib import Path
from typing import NamedTuple

from sagent.agent import Agent
from sagent.agent.asking import outcome
from sagent.app.assembly import open_agent
from sagent.config import Settings
from sagent.config.values import options_of
from sagent.cost.prices import MAX_CALLS
from sagent.errors import UsageError
from sagent.events import Event, Failure, Result
from sagent.lib.dataclass import dataclass
from sagent.lib.json import JsonObject, canonical_bytes
from sagent.lib.schema import coerce
from sagent.lib.text import count
from sagent.messages import Message, Text, ToolCall, ToolResult
from sagent.model import Effort, Request
from sagent.plugin import ToolEntry
from sagent.plugins.lab.rebuild import Preparing, Rebuilder, adapters, sampling_of
from sagent.plugins.lab.recording import (
    IncomingMessage,
    InheritedMessage,
    Prompt,
    Recording,
    name_of,
    read_logs,
    read_recording,
)
from sagent.plugins.lab.reteam import AskedTeam, read_team
from sagent.plugins.lab.workcopy import Scratch, scratch_of
from sagent.plugins.programs.check import CheckResult, run_check
from sagent.plugins.teams.team import TeamResult
from sagent.policy import Deny, Verdict
from sagent.policy.permissions import PermissionPolicy
from sagent.policy.rules import Rules
from sagent.session.blobs import BlobDirectory
from sagent.session.contents import Environment, PromptEntry
from sagent.session.folds import contents
from sagent.session.store import Session, delete
from sagent.tool import Effect, Harmless, RunContext, Tool, ToolOutput, Workspace

MISSING = (
    "This call is not in the recording: tools are answered from a recorded session here, and nothing is run. Go on "
    "with what the other results say, or end your turn."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The conditions for asking prompts again. `live`: tools run in a copy of the directory, saved at `keep`; otherwise
    the recording answers them. `check` runs in the copy before its removal."""

    live: bool = False
    keep: Path | None = None
    check: str = ""


@dataclass(frozen=True, slots=True)
class Rerun:
    """The outcome of a rerun. `answered` calls had an answer in the recording, `missing` had none; `how` says where
    tools ran, `notes` lists differences from the recording."""

    source: str
    session: Path | None
    result: Result
    answered: int = 0
    missing: int = 0
    directory: str = ""
    how: str = ""
    outcome: CheckResult | None = None
    notes: tuple[str, ...] = ()


class RecordedCall(NamedTuple):
    """A recorded call and its result; `agent` is the path of its caller."""

    agent: str
    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, slots=True)
class RerunSource:
    """A recorded session to ask again: its model, prompts, system prompt, effort and results."""

    session: str
    head: str
    cwd: Path
    commit: str  # "" if there is none, or if it lacks uncommitted changes
    prompt: Prompt
    effort: Effort | None
    options: tuple[str, ...]
    spoken: tuple[Message, ...]
    calls: tuple[RecordedCall, ...] = field(repr=False)
    team: AskedTeam | None = None  # the team that worked on the last prompt, to use instead


async def rerun(
    session: Path,
    settings: Settings,
    conditions: Conditions | None = None,
    *,
    listener: Callable[[Event], None] = lambda event: None,
    begun: Callable[[Agent], None] = lambda agent: None,
) -> Rerun:
    """Ask the model of the settings a session's prompts, one by one, until one fails. Values missing from the recording
    (limits, permissions, prices) come from the settings. `begun` is called with the agent.

    Raises UsageError, SessionCorrupt and OSError; errors of a run are in its result.
    """
    given = conditions or Conditions()
    asked = read_asked(session, settings)
    async with AsyncExitStack() as stack:
        scratch = None
        if given.live:
            scratch = await stack.enter_async_context(scratch_of(asked.cwd, asked.commit, given.keep))
        answers = Answers(asked.prompt, asked.calls)
        result, made, notes = await _ask(asked, settings, scratch, answers, listener, begun)
        outcome = None
        if given.check and scratch is None:
            nowhere = "its tools were answered from the recording: there is no directory to check"
            outcome = CheckResult(given.check, None, nowhere)
        elif given.check and scratch is not None:
            outcome = await run_check(given.check, scratch.directory)
        directory, how = ("", "") if scratch is None else (str(scratch.directory), scratch.how)
        return Rerun(asked.session, made, result, answers.answered, answers.missing, directory, how, outcome, notes)


def read_asked(session: Path, settings: Settings) -> RerunSource:
    """Read the prompts to ask again. Raises UsageError for a session without prompts."""
    fetch = BlobDirectory(session / "blobs").get
    every = read_logs(session)
    logs = {agent: read_recording(agent, entries, fetch) for agent, entries in every.items()}
    calls = [
        RecordedCall(agent, *each) for agent, log in logs.items() for turn in log.turns for each in turn.answered_calls
    ]
    root = logs["root"]
    git = next((content for content in contents(every["root"], Environment) if content.commit), Environment({}))
    find = adapters(settings.rows)
    team = read_team(every["root"], logs, lambda log: effort_of(log, find))
    prompt = _prompt_of([root] if team is None else [logs[agent] for agent in team.agents])
    if prompt is None or not (root.spoken or team):
        raise UsageError(f"session {session.name} has no prompt that was answered: there is nothing to ask again.")
    commit = git.commit if git.dirty is False else ""
    name = name_of(session, root.origin)
    cwd, effort = Path(root.origin.cwd), effort_of(root, find)
    first = next((turn.sent for turn in root.turns if turn.sent is not None), None)
    sampled = JsonObject() if first is None else sampling_of(first.parameters)
    options = options_of({name: value for name, value in sampled.items() if name not in ("tools", MAX_CALLS)})
    return RerunSource(name, root.head, cwd, commit, prompt, effort, options, root.spoken, tuple(calls), team)


def _prompt_of(logs: Sequence[Recording]) -> Prompt | None:
    """Return the first system prompt of some agents, and the tools of all of them."""
    prompts = [turn.prompt for log in logs for turn in log.turns if turn.prompt is not None]
    if not prompts:
        return None
    tools = {tool.name: tool for prompt in reversed(prompts) for tool in prompt.tools}
    known = tuple(tools[name] for name in dict.fromkeys(tool.name for prompt in prompts for tool in prompt.tools))
    return Prompt(prompts[0].system, known, frozenset(name for prompt in prompts for name in prompt.ordered))


def effort_of(recording: Recording, find: Callable[[str], object]) -> Effort | None:
    """Return the effort of the first request, which no entry has: the one that gives it the recorded parameters."""
    turn = next((turn for turn in recording.turns if turn.sent is not None and turn.reply is not None), None)
    if turn is None or turn.prompt is None or turn.sent is None or turn.reply is None or turn.number != 1:
        return None
    model = find(turn.reply.model)
    if not isinstance(model, Preparing):
        return None
    said = [step.message for step in turn.before if isinstance(step, InheritedMessage | IncomingMessage)]
    rebuilder = Rebuilder(recording.agent, turn.prompt, (recording.origin.session,))
    return rebuilder.effort_of(model, Request("", said, turn.prompt.system), turn.sent)


# -- the run -----------------------------------------------------------------------------------------------------------


async def _ask(
    source: RerunSource,
    settings: Settings,
    scratch: Scratch | None,
    answers: "Answers",
    listener: Callable[[Event], None],
    begun: Callable[[Agent], None],
) -> tuple[Result, Path | None, tuple[str, ...]]:
    """Ask prompt by prompt in a new session. Return the last result, the session's directory, and the differences from
    the recording."""
    names = [tool.name for tool in source.prompt.tools if tool.name != "advisor"]
    notes, policy = list[str](), None
    own = replace(
        settings.without("hooks"),  # their additions are in the prompts
        effort=settings.effort if settings.origins.get("effort", "").startswith("--") else source.effort,
        options=settings.options if "--option" in settings.origins.get("options", "") else source.options,
        system=None,
        append_system="",
        continue_session=False,
        fork=None,
        ephemeral=False,
        session=_begin(source, settings, scratch),
    )
    if scratch is None:
        own, more = replace(own.without("mcp"), tools=()), answers.tools
    else:
        names = [name for name in names if name not in ("find_tools", "call_tool")]  # they come by themselves
        known = {tool.name for tool in settings.plugins.every(ToolEntry) if tool.tool}
        builtin, more = tuple(name for name in names if name in known), ()
        own = replace(own, cwd=scratch.directory, add_dirs=(), tools=builtin)
        policy = _Fenced(own, source.cwd)
        strangers = [name for name in names if name not in builtin and not settings.rows_of("mcp")]
        notes += [f"{name} is not one of sagent's own tools, so it was not offered." for name in strangers]
    result = Result("", (), "error", Failure("error", "nothing was asked"))
    try:
        async with open_agent(own, listener, None, policy, more) as agent:
            begun(agent)
            if source.team is not None:
                found = await source.team.ask(agent, lambda text: _moved(text, source, scratch))
                notes.append(_roles_of(source.team, found))
                result = found
            for message in source.spoken if source.team is None else ():
                parts = tuple(
                    replace(part, text=_moved(part.text, source, scratch)) if isinstance(part, Text) else part
                    for part in message.parts
                )
                result = await outcome(agent.run(replace(message, parts=parts)), agent.wait)
                if result.error is not None:
                    break
    except UsageError:  # unknown model or no key: nothing was asked
        if own.session is not None:
            delete(own.session)
        raise
    return result, own.session, tuple(notes)


def _roles_of(team: AskedTeam, result: TeamResult) -> str:
    roles = (f"{role.name} {role.state} ({count(role.turns, 'turn')})" for role in result.roles)
    return f"team {team.name}, {team.mode}: {', '.join(roles)}; all of them were asked of {result.roles[0].model}"


def _begin(source: RerunSource, settings: Settings, scratch: Scratch | None) -> Path:
    """Return a new session with the recorded prompt and a note of the session that it replays."""
    tools = "answered from the recording" if scratch is None else scratch.how
    cwd = settings.cwd if scratch is None else scratch.directory
    with Session.create(settings.state_dir, settings.cwd) as made:
        made.begin(cwd, replay_of=source.session, replay_of_head=source.head, tools=tools)
        made.log().append(PromptEntry(_moved(source.prompt.system, source, scratch)))
    return made.path


def _moved(text: str, source: RerunSource, scratch: Scratch | None) -> str:
    """Return a text with the person's directory replaced by the copy, if there is one."""
    return text if scratch is None else text.replace(str(source.cwd), str(scratch.directory))


class _Fenced(PermissionPolicy):
    """The settings' policy, which also protects the copied directory."""

    def __init__(self, settings: Settings, origin: Path) -> None:
        rules = Rules.parse(settings.allow, settings.deny)
        super().__init__("ask", rules, private=(settings.config_dir, settings.state_dir))
        self.mode = settings.permission_mode
        self._origin = origin.resolve()

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        """Return a denial if a call names that directory, else the policy's verdict."""
        if str(self._origin) in effect.command or any(
            path.resolve().is_relative_to(self._origin) for path in effect.paths
        ):
            return Deny(f"{self._origin} is the person's own directory; work in the copy of it, {workspace.cwd}.")
        return await super().before_tool(call, effect, workspace)


# -- answers from a recording ------------------------------------------------------------------------------------------


class Answers:
    """The results of a recording, each given out once: to the first call of the same tool with the same arguments.
    Results of an agent with the same path come before those of others."""

    def __init__(self, prompt: Prompt, calls: Sequence[RecordedCall]) -> None:
        self.answered = self.missing = 0
        self._specs = {spec.name: spec for spec in Rebuilder("root", prompt, ()).orders[0]}
        self._left: dict[tuple[str, bytes], list[tuple[str, ToolResult]]] = {}
        for agent, call, result in calls:
            spec = self._specs.get(call.name)
            arguments = coerce(spec.parameters, call.arguments) if spec else call.arguments  # as a tool is given
            self._left.setdefault((call.name, canonical_bytes(arguments)), []).append((agent, result))

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Return the prompt's tools, answered from here; advisors are asked anew."""
        return tuple(
            AnsweredTool(self, spec.name, spec.description, spec.parameters, deferrable=spec.deferred)
            for spec in self._specs.values()
            if spec.name != "advisor"
        )

    def take(self, name: str, arguments: JsonObject, agent: str = "root") -> ToolResult | None:
        """Return the first remaining result, preferring this agent's; None if there is none."""
        left = self._left.get((name, canonical_bytes(arguments)))
        if not left:
            self.missing += 1
            return None
        self.answered += 1
        return left.pop(next((place for place, (path, _) in enumerate(left) if path == agent), 0))[1]


@dataclass(frozen=True, slots=True)
class AnsweredTool(Harmless):
    """A tool whose calls are answered from a recording, without any effect."""

    answers: Answers
    name: str
    description: str
    parameters: JsonObject
    quick: bool = True
    deferrable: bool = False

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Return the recorded result, or an error that there is none."""
        found = self.answers.take(self.name, arguments, run.agent)
        if found is None:
            return ToolOutput((Text(MISSING),), is_error=True, summary="not in the recording")
        return ToolOutput(found.content, found.is_error)
