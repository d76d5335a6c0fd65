"""From calls to results. What all tools need is done here, once: validate, judge, order, bound, record, answer."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from sagent.agent.state import State
from sagent.context.truncation import bound_output
from sagent.errors import ToolError
from sagent.events import Denial, Denied, ToolFinished, ToolProgress, ToolStarted
from sagent.lib.json import JsonObject
from sagent.lib.schema import coerce, violations
from sagent.messages import Message, Text, ToolCall, ToolResult
from sagent.policy import Allow, Ask, Deny
from sagent.tool import Effect, RunContext, Tool, ToolOutput, conflict, foresee

INTERRUPTED = "interrupted before it ended"


@dataclass(frozen=True, slots=True)
class Ready:
    """A call that may be made."""

    call: ToolCall
    tool: Tool
    arguments: JsonObject
    effect: Effect


async def run_calls(state: State, reply: Message) -> Message:
    """Run a reply's calls together, those that touch the same thing in order; their results enter the history.

    When cancelled, running tools are stopped, every open call is answered as interrupted, and the history is valid.
    """
    results: dict[str, ToolResult] = {}
    tasks: list[asyncio.Task[None]] = []
    ready: list[Ready] = []
    try:
        for call in reply.calls:
            item = await _prepare(state, call, reply)
            if isinstance(item, ToolOutput):
                state.emit(ToolStarted(state.path, call))
                _answer(state, call, item, 0.0, results)
                continue
            before = [task for task, other in zip(tasks, ready, strict=True) if conflict(other.effect, item.effect)]
            tasks.append(asyncio.create_task(_run_one(state, item, before, results)))
            ready.append(item)
        for task in tasks:
            await task
    finally:
        try:
            await _stop(tasks)
        finally:
            message = _close(state, reply, results, INTERRUPTED)
    return message


def decline_calls(state: State, reply: Message, reason: str) -> None:
    """Answer every call of a reply with an error result without running it."""
    _close(state, reply, {}, reason)


def _close(state: State, reply: Message, results: dict[str, ToolResult], reason: str) -> Message:
    """Answer the calls that are still open, and let the results enter the history in the order of the calls."""
    for call in reply.calls:
        if call.id not in results:
            _answer(state, call, _error(reason), 0.0, results)
    message = Message("user", tuple(results[call.id] for call in reply.calls))
    state.history.append(message)
    return message


async def _stop(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _prepare(state: State, call: ToolCall, reply: Message) -> Ready | ToolOutput:
    """Check and judge a call: ready to run, or the error result it gets instead."""
    tool = state.tools.get(call.name)
    if tool is None:
        return _error(_unknown_tool(call.name, state.tools))
    if call.malformed is not None:
        cut = " The reply was cut at its length limit." if reply.stop == "max_tokens" else ""
        raw = call.malformed[:500]
        return _error(f"The arguments of {call.name} are not a JSON object: {raw!r}.{cut} Call it again.")
    arguments = coerce(tool.parameters, call.arguments)
    wrong = violations(tool.parameters, arguments)
    if wrong or not isinstance(arguments, JsonObject):
        return _error(f"Invalid arguments for {call.name}: {'; '.join(wrong)}. Call it again with corrected arguments.")
    try:
        effect = foresee(tool, arguments, state.workspace)
        reason = await _judge(state, call, effect)
    except ToolError as error:
        return _error(str(error))
    except Exception as error:  # neither a tool nor a policy may end a run; what cannot be judged is not done
        return _error(f"{call.name} was not run: {type(error).__name__}: {error}")
    if reason is None:
        return Ready(call, tool, arguments, effect)
    denial = Denial(call.name, call.id, reason)
    state.run.denials.append(denial)
    state.emit(Denied(state.path, denial))
    return _error(f"Permission denied: {reason}")


async def _judge(state: State, call: ToolCall, effect: Effect) -> str | None:
    """Why the call may not be made, or None."""
    verdict = await state.policy.before_tool(call, effect, state.workspace)
    match verdict:
        case Allow():
            return None
        case Deny(reason):
            return reason
        case Ask(reason, remedy):
            if state.ask is not None:
                return await state.ask(call, verdict)
            return f"{reason} Nobody can be asked in this run. {remedy}".rstrip()
        case _:
            assert_never(verdict)


async def _run_one(
    state: State, item: Ready, before: Sequence[asyncio.Task[None]], results: dict[str, ToolResult]
) -> None:
    """Run one call after those it must wait for."""
    if before:
        await asyncio.wait(before)
    state.emit(ToolStarted(state.path, item.call))
    started = time.monotonic()
    output = await _invoke(state, item)
    _answer(state, item.call, output, time.monotonic() - started, results)


async def _invoke(state: State, item: Ready) -> ToolOutput:
    """The tool's own output; whatever it raises is an error result, for a failing tool never ends a run."""
    call = item.call

    def progress(text: str) -> None:
        state.emit(ToolProgress(state.path, call.id, text))

    context = RunContext(state.path, call.id, state.workspace, state.log.blobs, progress)
    try:
        output = await item.tool(item.arguments, context)
        output = ToolOutput.of(output) if isinstance(output, str) else output
        return bound_output(output, state.log.blobs)
    except ToolError as error:
        return _error(str(error))
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise
        return _error(f"{call.name} was cancelled from within")
    except (Exception, SystemExit) as error:  # the tool is not ours; its failure is the model's to read
        return _error(f"{call.name} failed: {type(error).__name__}: {error}")


def _answer(state: State, call: ToolCall, output: ToolOutput, seconds: float, results: dict[str, ToolResult]) -> None:
    """Record a call's result and tell of it."""
    result = ToolResult(call.id, output.content, output.is_error)
    results[call.id] = result
    state.add_result(result, seconds)
    state.emit(ToolFinished(state.path, call, result, seconds, output.summary, output.diff))


def _error(text: str) -> ToolOutput:
    line = text.split("\n", 1)[0]
    return ToolOutput((Text(text),), is_error=True, summary=line if len(line) <= 200 else line[:199] + "…")


def _unknown_tool(name: str, tools: Mapping[str, Tool]) -> str:
    import difflib

    near = difflib.get_close_matches(name, tools, 1, 0.5)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"There is no tool named {name!r}.{hint} The tools are: {', '.join(tools) or 'none'}."
