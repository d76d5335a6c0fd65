"""Runs Python in the sandbox, in which the agent's tools are functions. Each call is judged, logged and shown as one of
the model's."""

import asyncio
import json
import os
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sagent.engine.dispatch import PreparedCall, invoke, prepare
from sagent.engine.state import AgentState, RunningCall
from sagent.errors import ToolError
from sagent.events import Denial, ToolFinished, ToolStarted
from sagent.lib.json import JsonObject, as_object, as_str, json_freeze_object
from sagent.messages import DENIED, Message, Text, ToolCall, ToolResult
from sagent.plugins.scripts.channel import Answer, Channel
from sagent.tool import Effect, RunContext, Tool, ToolOutput, Workspace, arguments_schema

if TYPE_CHECKING:
    from sagent.agent import Agent
    from sagent.app.builder import AgentBuilder

MAX_CALLS = 500
"""Calls of tools by one script."""
NOT_OFFERED = frozenset(
    {"AgentSelf", "AgentSend", "AgentSpawn", "AskUser", "BackgroundTask", "Bash", "ExitPlan", "Notebook", "Script"}
    | {"SendFile", "TodoWrite", "call_tool", "find_tools"}
)
"""Tools that a script cannot call: those for agents, people and processes."""


def make(builder: "AgentBuilder") -> "Script":
    """Make the tool for an agent."""
    del builder
    return Script()


class Script:
    """Runs a Python script whose functions are the agent's tools. What it prints is the result."""

    name = "Script"
    deferrable = True
    description = (
        "Run Python in which your tools are functions that return their text, as in Read(file_path='a.py') or"
        " Grep('TODO'); a failed one raises ToolFailed. Use it for many calls whose results you need only in part: what"
        " you print is all that you see."
    )
    parameters = arguments_schema(
        "code",
        code={"type": "string"},
        timeout={"type": "number", "description": "Seconds, default 120, max 3600"},
    )

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        """Return no effect: the command that runs the script, and each of its calls, are judged by themselves."""
        del arguments, workspace
        return Effect("none")

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        agent = cast("Agent[object] | None", run.caller)  # tools are called by agents
        if agent is None or "Bash" not in (state := agent.state).tools:
            raise ToolError("Scripts are run by Bash, which this agent does not have.")
        made = Calls(state, run)
        channel = Channel(run.workspace, made.answer)
        given: dict[str, object] = {
            "command": command(channel.name, as_str(arguments.get("code")), functions(state.tools))
        }
        if "timeout" in arguments:
            given["timeout"] = arguments["timeout"]
        async with channel.serving():
            output = await made.call("Bash", given)
        count = f"{made.number - 1} calls" if made.number != 2 else "1 call"
        return replace(output, summary=f"{count}, {output.summary}")


def functions(tools: Mapping[str, Tool]) -> Mapping[str, Sequence[str]]:
    """Return the tools that a script may call, with the names of their parameters in order."""
    return {
        name: list(as_object(tool.parameters.get("properties")))
        for name, tool in tools.items()
        if name not in NOT_OFFERED and name.isidentifier()
    }


def command(name: str, code: str, tools: Mapping[str, Sequence[str]]) -> str:
    """Return the command that runs a script, which makes the directory of its channel."""
    stub = Path(__file__).with_name("stub.txt").read_text("utf-8").strip()
    end = f"END_{os.urandom(6).hex()}"
    words = ("python3", "-I", "-B", "-c", stub, name, json.dumps(tools))
    return f"{shlex.join(words)} <<'{end}'\n{code}\n{end}"


class Calls:
    """The calls that a script makes, one after the other: prepared, judged, recorded and shown as the model's own."""

    def __init__(self, state: AgentState, run: RunContext) -> None:
        self.number = 0
        self._state, self._run, self._allowed = state, run, functions(state.tools)

    async def answer(self, name: str, arguments: dict[str, object]) -> Answer:
        """Answer a call of the script."""
        if name not in self._allowed:
            return True, f"{name} cannot be called by a script"
        if self.number > MAX_CALLS:
            return True, f"a script may make {MAX_CALLS} calls"
        output = await self.call(name, arguments)
        rest = len(output.content) - sum(isinstance(part, Text) for part in output.content)
        text = "".join(part.text for part in output.content if isinstance(part, Text))
        return output.is_error, text + f"\n({rest} images or documents are left out)" * bool(rest)

    async def call(self, name: str, arguments: dict[str, object]) -> ToolOutput:
        """Make a call."""
        state, task = self._state, asyncio.current_task()
        assert task is not None
        call = ToolCall(f"{self._run.call_id}-{self.number}", name, json_freeze_object(arguments))
        self.number += 1
        item = await prepare(state, call, Message("assistant", (call,)), ())
        state.journal.emit(ToolStarted(state.path, call))
        started = time.monotonic()
        if isinstance(item, PreparedCall):
            outcome = await invoke(state, item, task, RunningCall(), self._run.deps)
        else:
            outcome = item
        denied = isinstance(outcome, Denial)
        refusal = (Text(f"{DENIED}{outcome.reason}"),) if denied else ()
        output = ToolOutput(refusal, is_error=True, summary=outcome.reason) if denied else outcome
        result, seconds = ToolResult(call.id, output.content, output.is_error, denied), time.monotonic() - started
        state.add_result(call, result, seconds, output.diff, output.summary)
        state.journal.emit(ToolFinished(state.path, call, result, seconds, output.summary, output.diff, ""))
        return output
