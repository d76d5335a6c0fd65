"""From calls to results. The steps common to all tools are here: validate, judge, order, bound, record, answer.

A call that is still running when a message arrives, when it is moved to the background, or after a time, becomes a job.
"""

import asyncio
import time
from asyncio import Task
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from sagent.context.calls import bound_output, explain_cut, explain_unfit, fit_arguments
from sagent.engine.state import AgentState, Job, RunningCall, result_message, working_for
from sagent.errors import ToolError
from sagent.events import Denial, Denied, ToolFinished, ToolProgress, ToolStarted
from sagent.lib.dataclass import dataclass
from sagent.lib.json import JsonObject, as_object, valid_text
from sagent.lib.raised import ends
from sagent.lib.text import cut, failure
from sagent.messages import DENIED, Message, Text, ToolCall, ToolResult
from sagent.peer import JobState
from sagent.policy import Allow, Ask, Deny, Postpone, Verdict
from sagent.tool import Answer, Effect, RunContext, Tool, ToolOutput, conflict, foresee

INTERRUPTED = "interrupted before it ended"
MAX_SHOWN_CHARS = 4_000  # of an interrupted call's output to keep in its result
MESSAGE_GRACE_SECONDS = 0.02  # for running calls to end when a message arrives, before they become jobs
MAX_DELAY_SECONDS = 86_400.0

Results: TypeAlias = dict[str, ToolResult]  # by the ids of their calls


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A call that may be made: in the `background` from the start, and after a `delay` in seconds, if requested.
    `effect` is its foreseen effect in the directory `cwd`, and `verdict` the policy's decision about that."""

    call: ToolCall
    tool: Tool
    arguments: JsonObject
    background: bool = False
    delay: float = 0.0
    earlier: "Sequence[PreparedCall]" = ()  # calls before it that are at work
    effect: Effect = Effect("execute")
    cwd: Path | None = None
    verdict: Verdict | None = None


async def run_calls(state: AgentState, reply: Message) -> Message:
    """Run a reply's calls together, those that touch the same thing in order; their results enter the history.

    When cancelled, running tools are stopped, every open call is answered as interrupted, and the history is valid.
    """
    results: Results = {}
    tasks: dict[str, Task[None]] = {}
    ready: list[PreparedCall] = []
    state.requested.take_background()  # requests for earlier calls do not apply
    try:
        for call in reply.calls:
            item = await prepare(state, call, reply, tuple(ready))
            if not isinstance(item, PreparedCall):
                state.journal.emit(ToolStarted(state.path, call))
                _answer(state, call, item, 0.0, results)
                continue
            before = [tasks[other.call.id] for other in ready if conflict(other.effect, item.effect)]
            task = asyncio.create_task(_run_one(state, item, state.run.deps, before, results))
            tasks[call.id] = task
            if item.background or item.delay:
                _go_on(state, call, task, results, "was started in the background")
            else:
                ready.append(item)
        await _until_answered(state, {item.call.id: tasks[item.call.id] for item in ready}, reply, results)
    finally:
        rest = [task for task in tasks.values() if state.jobs.of(task) is None]
        for task in rest:
            task.cancel()
        try:
            await asyncio.gather(*rest, return_exceptions=True)
        finally:
            message = close_calls(state, reply, INTERRUPTED, results)
    return message


async def _until_answered(state: AgentState, tasks: Mapping[str, Task[None]], reply: Message, results: Results) -> None:
    """Wait for the calls; those that become jobs are answered as such."""
    clock, limit = asyncio.get_running_loop().time, state.limits.foreground_seconds
    deadline = None if limit is None else clock() + limit
    while open_calls := {call: task for call, task in tasks.items() if not task.done() and call not in results}:
        arrival = asyncio.create_task(state.inbox.arrival("now"))
        try:
            left = None if deadline is None else max(0.0, deadline - clock())
            once = asyncio.FIRST_COMPLETED
            done, _ = await asyncio.wait({*open_calls.values(), arrival}, timeout=left, return_when=once)
            if arrival in done:
                await asyncio.wait(open_calls.values(), timeout=MESSAGE_GRACE_SECONDS)
        finally:
            arrival.cancel()
        while state.requested.cancelled:
            if task := open_calls.get(state.requested.cancelled.pop()):
                task.cancel()
                await asyncio.wait([task])
        asked = state.requested.take_background()
        why = "goes on in the background" if done else f"has run for {limit:g} s and goes on in the background"
        every = not done or "" in asked or state.inbox.holds("now")
        for call in reply.calls:
            task = open_calls.get(call.id)
            if task is not None and not task.done() and (every or call.id in asked):
                _go_on(state, call, task, results, why)
    for task in tasks.values():
        if state.jobs.of(task) is None and not task.cancelled():
            await task


def _go_on(state: AgentState, call: ToolCall, task: Task[None], results: Results, how: str) -> None:
    """Answer a running call with the name of the job that it has become."""
    job = state.jobs.begin(call, task)
    task.add_done_callback(lambda _: _close_job(state, job))
    state.journal.record(job.entry())
    text = f"{call.name} {how} as {job.name}. Its result arrives as a message; go on with other work, or end your turn."
    _answer(state, call, ToolOutput.of(text, summary=f"goes on as {job.name}"), 0.0, results, job.name)


def close_calls(state: AgentState, reply: Message, reason: str, results: Results | None = None) -> Message:
    """Answer the open calls with an error, because they were not run; all results enter the history in order."""
    results = {} if results is None else results
    for call in reply.calls:
        if call.id not in results:
            _answer(state, call, _error(reason if call.whole else explain_cut(call, reply.stop)), 0.0, results)
    message = Message("user", tuple(results[call.id] for call in reply.calls))
    state.context.history.append(message)
    return message


async def prepare(
    state: AgentState, call: ToolCall, reply: Message, earlier: Sequence[PreparedCall]
) -> PreparedCall | Denial | ToolOutput:
    """Check and judge a call: ready to run, refused, or the error result it gets instead."""
    if (unfit := explain_unfit(call, reply.stop, state.tools)) is not None:
        return _error(unfit)
    tool = state.tools[call.name]
    try:
        given, background, delay = _split_arguments(tool, call.arguments)
        arguments = fit_arguments(tool, given)
    except ToolError as error:
        return _error(f"Invalid arguments for {call.name}: {error}. Call it again with corrected arguments.")
    return await _judge(state, PreparedCall(call, tool, arguments, background, delay, earlier))


async def _judge(state: AgentState, item: PreparedCall) -> PreparedCall | Denial | ToolOutput:
    """Return a call with its present effect, or its result if it is refused; an answered question is not asked
    again."""
    call, cwd = item.call, state.workspace.cwd
    try:
        effect = foresee(item.tool, item.arguments, state.workspace)
        verdict = await state.policy.before_tool(call, effect, state.workspace)
        if isinstance(verdict, Allow) and verdict.arguments is not None:
            return await prepare(state, replace(call, arguments=verdict.arguments), Message("assistant"), item.earlier)
        settled = not any(one.effect.kind == "execute" or conflict(one.effect, effect) for one in item.earlier)
        if settled and effect.check and isinstance(verdict, Ask) and state.neighbours.ask:
            effect.check()  # no question about a call that fails anyway
        known = item.verdict is not None and verdict == item.verdict  # a policy may return None by mistake
        refused = None if known else await _refusal(state, call, verdict)
        if isinstance(refused, Allow) and refused.arguments is not None:  # the person has changed it
            return await prepare(state, replace(call, arguments=refused.arguments), Message("assistant"), item.earlier)
    except ToolError as error:
        return _error(str(error))
    except Exception as error:  # a tool's or policy's error must not end a run; an unjudged call is not made
        return _error(f"{call.name} was not run: {failure(error)}")
    if refused is None or isinstance(refused, Allow):
        return replace(item, effect=effect, cwd=cwd, verdict=verdict)
    if isinstance(refused, Denial):
        state.run.denials.append(refused)
        state.journal.emit(Denied(state.path, refused))
    return refused


async def _refusal(state: AgentState, call: ToolCall, verdict: Verdict) -> Denial | ToolOutput | Allow | None:
    """Return why the call is not made, or None; if it must wait, the model's notice; if it was changed, the change."""
    match verdict:
        case Allow():
            return None
        case Deny(reason):
            refusal = reason
        case Postpone(reason):
            return _error(reason)
        case Ask() if (ask := state.neighbours.ask) is not None:
            refusal = await ask(call, replace(verdict, agent=state.path))
        case Ask(reason, remedy):
            refusal = f"{reason} There is nobody to ask in this run. {remedy}".rstrip()
        case _:
            from sagent.policy.verdict import no_verdict

            raise no_verdict(state.judge, call.name, verdict)
    return Denial(call.name, call.id, refusal) if isinstance(refusal, str) else refusal


def _split_arguments(tool: Tool, arguments: JsonObject) -> tuple[JsonObject, bool, float]:
    """Split a call's arguments into its own and those of every call: `background` and `delay`."""
    own = as_object(tool.parameters.get("properties"))
    extra = {name: arguments[name] for name in ("background", "delay") if name in arguments and name not in own}
    if not extra:
        return arguments, False, 0.0
    delay = extra.get("delay", 0.0)
    if not isinstance(delay, int | float):
        raise ToolError(f"delay: a number of seconds is needed, not {delay!r:.40}")
    rest = JsonObject({name: value for name, value in arguments.items() if name not in extra})
    return rest, extra.get("background") in (True, "true"), float(min(max(delay, 0.0), MAX_DELAY_SECONDS))


async def _run_one(
    state: AgentState, item: PreparedCall, deps: object, before: Sequence[Task[None]], results: Results
) -> None:
    """Run one call after those it must wait for; its outcome is the call's answer, or a message when it is a job."""
    started = time.monotonic()
    running: Task[None] | None = asyncio.current_task()
    assert running is not None
    ongoing = state.jobs.ongoing(running)
    try:
        if item.delay:
            await asyncio.sleep(item.delay)
        if before:
            await asyncio.wait(before)
        state.journal.emit(ToolStarted(state.path, item.call))
        started = ongoing.started = time.monotonic()
        judged: PreparedCall | Denial | ToolOutput = await _judge(state, item) if before else item
        while isinstance(judged, PreparedCall) and judged.cwd != state.workspace.cwd:  # a call before it went elsewhere
            judged = await _judge(state, judged)
        output = await invoke(state, judged, running, ongoing, deps) if isinstance(judged, PreparedCall) else judged
    except asyncio.CancelledError:
        shown = f"\nThe end of what it had shown:\n{ongoing.tail[-MAX_SHOWN_CHARS:]}" if ongoing.tail else ""
        if job := state.jobs.of(running):
            _end_job(state, job, _error(f"cancelled{shown}"), "cancelled")
        elif shown:
            _answer(state, item.call, _error(INTERRUPTED + shown), time.monotonic() - started, results)
        raise
    finally:
        ongoing.detach = None
    if job := state.jobs.of(running):
        output = _error(f"{DENIED}{output.reason}") if isinstance(output, Denial) else output
        _end_job(state, job, output, "failed" if output.is_error else "done")
    else:
        _answer(state, item.call, output, time.monotonic() - started, results)


def _end_job(state: AgentState, job: Job, output: ToolOutput, how: JobState) -> None:
    """End a job: its result becomes a message, unless the job was detached and so already reported."""
    if job.state == "detached":
        output, how = job.output or output, "detached"
    job.state, job.output, job.ended = how, output, time.monotonic()
    state.journal.record(job.entry())
    result = ToolResult(job.call.id, output.content, output.is_error)
    state.journal.emit(ToolFinished(state.path, job.call, result, job.ended - job.started, output.summary, output.diff))
    if how == "detached" or (how == "cancelled" and not state.jobs.stopping):
        state.inbox.nudge("next")  # whoever did that knows; a run that waits for it may end
    else:
        state.receive(result_message(job), "next")
    state.neighbours.wake_above()


def _close_job(state: AgentState, job: Job) -> None:
    """End a job that was cancelled before its first step."""
    if job.state == "running":
        _end_job(state, job, _error("cancelled before it began"), "cancelled")


async def invoke(
    state: AgentState, item: PreparedCall, running: Task[None], ongoing: RunningCall, deps: object
) -> ToolOutput:
    """Return the tool's output. Any error becomes an error result, because a failing tool never ends a run."""

    def progress(text: str) -> None:
        ongoing.tail = text = valid_text(text)
        state.journal.emit(ToolProgress(state.path, item.call.id, text))

    def offer_detach(detach: Callable[[], str]) -> None:
        ongoing.detach = detach

    own = (state.path, item.call.id, state.workspace, state.log.blobs, progress, state.caller)
    context = RunContext(*own, lambda: state.jobs.of(running) is not None, offer_detach, item.effect, deps)
    try:
        with working_for(state):
            if item.effect.kind in ("none", "read"):
                output = await item.tool(item.arguments, context)
            else:
                output = await state.neighbours.watch(item.call, item.effect, partial(_begin, state, item, context))
        return bound_output(ToolOutput.of(output), state.log.blobs)
    except ToolError as error:
        return _error(str(error))
    except BaseException as error:  # the tool is not ours; its failure is the model's to read
        if ends(error):
            raise
        return _error(f"{item.call.name} failed: {failure(error)}")


async def _begin(state: AgentState, item: PreparedCall, context: RunContext) -> Answer:
    """Make a call in the directory where it was judged, so that relative paths keep their meaning."""
    if item.cwd != state.workspace.cwd:
        raise ToolError("Another call has just changed the working directory. Call it again.")
    return await item.tool(item.arguments, context)


def _answer(
    state: AgentState, call: ToolCall, outcome: ToolOutput | Denial, seconds: float, results: Results, job: str = ""
) -> None:
    """Record a call's result and report it."""
    denied = isinstance(outcome, Denial)
    output = _error(f"{DENIED}{outcome.reason}") if denied else outcome
    results[call.id] = result = ToolResult(call.id, output.content, output.is_error, denied)
    state.add_result(call, result, seconds, output.diff, output.summary)
    state.journal.emit(ToolFinished(state.path, call, result, seconds, output.summary, output.diff, job))


def _error(text: str) -> ToolOutput:
    text = valid_text(text)
    return ToolOutput((Text(text),), is_error=True, summary=cut(text.split("\n", 1)[0], 200))
