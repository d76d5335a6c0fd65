"""The reducer: events in, blocks for a person out. Pure; `at` is the time in seconds of a monotonic clock."""

from collections.abc import Mapping
from dataclasses import field, replace
from decimal import Decimal
from typing import TypeAlias, assert_never

from sagent.context.prompt import CHANGED, PLACE, SHOWN
from sagent.context.todo import Task, written
from sagent.events import (
    AdviceDelta,
    Advised,
    Denial,
    Denied,
    Event,
    Finished,
    Notice,
    Received,
    ReplyFinished,
    Retrying,
    SessionOpened,
    Switched,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from sagent.lib.dataclass import dataclass
from sagent.messages import Text, ToolCall, ToolResult
from sagent.repl.view.blocks import PLAN_MODE, Block, MessageBlock, Report, Thought, failure_report, shown_file
from sagent.repl.view.calls import argument_line
from sagent.repl.view.markdown import Flow, feed, finish
from sagent.transcript.event_json import provider_tool_lines

ROOT = "root"  # the agent that the person talks to
SPAWN = "AgentSpawn"  # the tool that spawns an agent, which has its own line
MAX_KEPT_CHARS = 100_000  # of a call's output, to show again
SHELL, NOTE = "person's shell", "note"  # senders of messages that the person knows already, like PLAN_MODE
MAX_TAIL_CHARS = 4_000  # of running output or reasoning to show


@dataclass(frozen=True, slots=True)
class Running:
    """A call in progress, and the end of its output; `job` is its name in the background."""

    agent: str
    call: ToolCall
    since: float
    tail: str = ""
    job: str = ""


@dataclass(frozen=True, slots=True)
class Child:
    """An agent below the root. `usd` is None if a price is unknown."""

    path: str
    since: float
    state: str = "working"  # or "done", "stopped", "failed"
    doing: str = ""
    tokens: int = 0
    usd: Decimal | None = Decimal(0)


@dataclass(frozen=True, slots=True)
class Consulting:
    agent: str
    advisor: str
    trigger: str
    since: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """The current activities. `flow` is the unfinished part of the answer, `thinking` of the reasoning.

    `since` is when the current turn began, None if there is none; `said` is True if the last reply had no calls, so
    that a message for the end of the turn is read now. `waiting` has failed model calls and their retry times. `denied`
    has the reasons of calls that are about to end, `ended` the agents and jobs whose end was shown and is still to be
    read.
    """

    since: float | None = None
    said: bool = False
    flow: Flow = field(default_factory=Flow)
    thinking: str = ""
    thought_since: float = 0.0
    running: Mapping[str, Running] = field(default_factory=dict[str, Running])
    jobs: Mapping[str, str] = field(default_factory=dict[str, str])  # names of calls in the background
    children: Mapping[str, Child] = field(default_factory=dict[str, Child])
    waiting: Mapping[str, tuple[Retrying, float]] = field(default_factory=dict[str, tuple[Retrying, float]])
    consulting: Mapping[str, Consulting] = field(default_factory=dict[str, Consulting])
    shells: tuple[Running, ...] = ()  # the person's own commands
    denied: Mapping[str, str] = field(default_factory=dict[str, str])
    ended: frozenset[str] = frozenset()
    waits_for: Mapping[str, str] = field(default_factory=dict[str, str])  # by agent, before a server's first output
    tasks: tuple[Task, ...] = ()  # the root's to-do list


Step: TypeAlias = tuple[View, tuple[Block, ...]]


def reduce(view: View, event: Event, at: float) -> Step:
    """Return the view after an event, and the blocks that the event adds to the transcript."""
    if event.agent != ROOT:
        return _other(view, event, at)
    match event:
        case TextDelta(_, text):
            return _write(view, text, at)
        case ThinkingDelta(_, text):
            thought, since = (view.thinking + text, view.thought_since) if view.thinking else (text, at)
            return replace(_awake(view, ROOT), thinking=thought[-MAX_KEPT_CHARS:], thought_since=since), ()
        case ReplyFinished(_, message):
            view, blocks = _end_reply(view, at)
            return replace(view, said=not message.calls), (*blocks, *map(Report, provider_tool_lines(message)))
        case Received():
            begins = view.since is None and not event.message.sender  # another sender's message may come after a turn
            since = at if begins else view.since
            view, blocks = _end_reply(view, at)
            is_known = event.message.sender in (SHELL, NOTE, PLAN_MODE, PLACE, CHANGED, *view.ended)
            view = replace(view, since=since, ended=view.ended - {event.message.sender})
            return view, (*blocks, *(() if is_known else _received(event)))
        case Retrying():
            return _retry(view, event, at)
        case Finished(_, result):
            view, blocks = _end_reply(view, at)
            running = {key: call for key, call in view.running.items() if call.job}
            children = {path: child for path, child in view.children.items() if child.state == "working"}
            ended: tuple[Block, ...] = ()
            if (error := result.error) is not None:
                ended = (failure_report(error.kind, error.message),)
            view = replace(view, since=None, said=True, running=running, children=children, consulting={})
            return view, (*blocks, *ended)
        case SessionOpened():
            return view, ()
        case _:
            return _shared(view, event, at)


def _write(view: View, text: str, at: float) -> Step:
    blocks: tuple[Block, ...] = ()
    if view.thinking or view.waiting:
        view, blocks = _end_thought(_awake(view, ROOT), at)
    flow, pieces = feed(view.flow, text)
    return replace(view, flow=flow, said=False), (*blocks, *pieces)


def _end_thought(view: View, at: float) -> Step:
    if not view.thinking:
        return view, ()
    thought = Thought(view.thinking.strip(), at - view.thought_since)
    return replace(view, thinking=""), (thought,) if thought.text else ()


def _end_reply(view: View, at: float) -> Step:
    """End a reply: its unfinished part counts as finished."""
    view, blocks = _end_thought(_awake(view, ROOT), at)
    return replace(view, flow=Flow()), (*blocks, *finish(view.flow))


def _awake(view: View, agent: str) -> View:
    """Note that an agent no longer waits for its model."""
    if agent not in view.waiting:
        return view
    return replace(view, waiting={path: wait for path, wait in view.waiting.items() if path != agent})


def _received(event: Received) -> tuple[Block, ...]:
    message = event.message
    if not message.parts or message.results:
        return ()
    if message.sender.startswith(SHOWN):
        return (shown_file(message.sender),)
    if message.sender:  # a heading and the result
        return (MessageBlock(message.content, message.sender),)
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    return (MessageBlock(texts[0] if texts else "", "", len(message.parts) - bool(texts)),)


def _retry(view: View, event: Retrying, at: float) -> Step:
    view = replace(view, waiting={**view.waiting, event.agent: (event, at + event.seconds)})
    if event.agent != ROOT or not (event.discarded or view.thinking):
        return view, ()
    view, blocks = _end_thought(view, at)
    begun = view.flow.begun or view.flow.pending.strip()
    anew = (Report(f"{event.reason}. The reply starts again; the text above is discarded.", "warning"),)
    return replace(view, flow=Flow()), (*blocks, *(anew if begun else ()))


def _shared(view: View, event: Event, at: float) -> Step:
    """Reduce events that are shown in the same way for every agent."""
    match event:
        case ToolStarted(agent, call):
            key = _key(agent, call.id)
            running = Running(agent, call, at, job=view.jobs.get(key, ""))
            return replace(_awake(view, agent), running={**view.running, key: running}), ()
        case ToolProgress(agent, call_id, text):
            key = _key(agent, call_id)
            if (running := view.running.get(key)) is None:
                return view, ()
            return replace(view, running={**view.running, key: replace(running, tail=text[-MAX_TAIL_CHARS:])}), ()
        case ToolFinished():
            return _finished_call(view, event)
        case AdviceDelta(agent, advisor, trigger, text):
            old = view.consulting.get(agent)
            now = replace(old, text=old.text + text) if old else Consulting(agent, advisor, trigger, at, text)
            return replace(view, consulting={**view.consulting, agent: now}), ()
        case Advised(agent):
            left = {path: one for path, one in view.consulting.items() if path != agent}
            return replace(view, consulting=left), (event,)
        case Denied(agent, denial):
            return _denied(view, agent, denial)
        case Switched(agent, what):
            return view, (Report(f"{_who(agent)}{what}"),)
        case Notice(agent, level, text):
            return view, (Report(f"{_who(agent)}{text}", level),)
        case Retrying():
            return _retry(view, event, at)
        case TextDelta() | ThinkingDelta() | ReplyFinished() | Received() | Finished() | SessionOpened():
            return view, ()
        case _:
            assert_never(event)


def _denied(view: View, agent: str, denial: Denial) -> Step:
    if agent == ROOT:  # shown with the call, which is ending
        return replace(view, denied={**view.denied, _key(agent, denial.call_id): denial.reason}), ()
    return view, (Report(f"{_who(agent)}{denial.tool} was denied: {denial.reason}", "warning"),)


def _key(agent: str, call_id: str) -> str:
    """Return a key for a call, because servers give calls of different agents the same ids."""
    return f"{agent} {call_id}"


def _who(agent: str) -> str:
    return "" if agent == ROOT else f"{agent}: "


def _finished_call(view: View, event: ToolFinished) -> Step:
    key = _key(event.agent, event.call.id)
    name = event.job or view.jobs.get(key, "")
    running, jobs = dict(view.running), dict(view.jobs)
    now, _ = running.pop(key, None), jobs.pop(key, None)
    ended = view.ended
    if event.job:
        jobs[key] = event.job
        running = running if now is None else {**view.running, key: replace(now, job=event.job)}
    elif name and event.agent == ROOT:
        ended |= {name}
    view = replace(view, running=running, jobs=jobs, ended=ended)
    if (event.agent != ROOT and not event.diff) or _end_was_shown(view, event):
        return view, ()
    if event.agent == ROOT and (tasks := written(event.call, failed=event.result.is_error)) is not None:
        view = replace(view, tasks=tasks)
    denied = dict(view.denied)
    reason = denied.pop(key, None)
    text, summary = (event.result.text[:MAX_KEPT_CHARS], event.summary) if reason is None else (reason, "was denied")
    shown = ToolResult(event.call.id, (Text(text),), event.result.is_error)
    return replace(view, denied=denied), (replace(event, result=shown, job=name, summary=summary),)


def _end_was_shown(view: View, event: ToolFinished) -> bool:
    """Return True if a call has spawned an agent whose end was shown."""
    if event.call.name != SPAWN or event.job:
        return False
    paths = (event.summary.partition(":")[0], child_of(event.agent, event.call))
    return not view.ended.isdisjoint(paths)


def child_of(agent: str, call: ToolCall) -> str:
    """Return the requested path of a call that spawns an agent; "" if it has none."""
    name = call.arguments.get("name") if call.name == SPAWN else None
    return f"{agent}/{name}" if name and isinstance(name, str) else ""


def _other(view: View, event: Event, at: float) -> Step:
    """Reduce an event of another agent: it has its own line, and only news for the person become blocks."""
    child = view.children.get(event.agent) or Child(event.agent, at)
    blocks: tuple[Block, ...] = ()
    match event:
        case ToolProgress():
            return _shared(view, event, at)
        case TextDelta() | ThinkingDelta():
            doing = "writing" if isinstance(event, TextDelta) else "thinking"
            if event.agent in view.children and (child.state, child.doing) == ("working", doing):
                return _awake(view, event.agent), ()
            child = replace(child, state="working", doing=doing)
        case Received():
            child, view = replace(child, state="working"), replace(view, ended=view.ended - {event.agent})
        case ToolStarted(_, call):
            view, blocks = _shared(view, event, at)
            child = replace(child, state="working", doing=f"{call.name} {argument_line(call)}".strip())
        case ReplyFinished(_, _, usage, usd):
            spent = None if usd is None or child.usd is None else child.usd + usd
            tokens = child.tokens + usage.total_input + usage.output
            child = replace(child, tokens=tokens, usd=spent)
            view = _awake(view, event.agent)
        case Finished(agent, result):
            error = result.error
            state = "done" if error is None else "stopped" if error.kind == "interrupted" else "failed"
            child = replace(child, state=state, doing="")
            running = {key: call for key, call in view.running.items() if call.agent != agent or call.job}
            view, blocks = replace(_awake(view, agent), running=running, ended=view.ended | {agent}), (event,)
            if view.since is None:  # the root's turn has ended and removed all rows
                return replace(view, children={p: c for p, c in view.children.items() if p != agent}), blocks
        case _:
            view, blocks = _shared(view, event, at)
    return replace(view, children={**view.children, child.path: child}), blocks


def plain_text(event: Event) -> str:
    """Return an event as text for a terminal that can only print, and after a failure of the display; "" for nothing. A
    reply's text is passed on as it streams."""
    who = _who(event.agent)
    match event:
        case TextDelta(_, text):
            return "" if who else text
        case ToolFinished(_, call, result, _, summary, diff):
            failed = " failed" if result.is_error else ""
            return f"{who}* {call.name}{failed}: {summary or 'done'}\n{diff}".rstrip("\n")
        case Retrying(_, reason, _, attempt, seconds, discarded):
            anew = discarded and not seconds  # not a retry, but a reply that starts over
            when = "the reply starts again" if anew else f"trying again in {seconds:.1f} s (attempt {attempt + 1})"
            gone = "; the text above is discarded" if discarded and not who else ""
            return f"{who}! {reason.rstrip('.')}; {when}{gone}"
        case Advised(_, advice):
            return f"{who}{advice.advisor} ({advice.trigger}): {advice.verdict or advice.status}\n{advice.text}"
        case Denied(_, denial):
            return f"{who}! {denial.tool} was denied: {denial.reason}"
        case Switched(_, what):
            return f"{who}{what}"
        case Notice(_, _, text):
            return f"{who}! {text}"
        case Finished(_, result):
            return f"{who}! {result.error.message}" if result.error else ""
        case Received(_, message):
            return f"{who}{message.sender}: {message.content}" if message.sender else ""
        case SessionOpened() | ThinkingDelta() | ReplyFinished() | ToolStarted() | ToolProgress() | AdviceDelta():
            return ""
        case _:
            assert_never(event)
