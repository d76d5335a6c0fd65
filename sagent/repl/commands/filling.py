"""Expansion of a command's file when a person uses it: arguments, output of commands, files.

Each command and file is judged like a model's call, because a stranger may have written the command's file.
"""

import os
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import assert_never

from sagent.agent import Agent
from sagent.errors import ToolError, UsageError
from sagent.lib.encoding import Binary, decode
from sagent.lib.json import JsonObject, json_freeze_object, valid_text
from sagent.lib.names import find_path, path_of
from sagent.lib.regular import read_regular
from sagent.lib.text import why_unread
from sagent.messages import Text, ToolCall
from sagent.policy import Allow, Ask, Deny, Postpone
from sagent.tool import Effect, RunContext, Tool, ToolOutput, foresee

MAX_TEXT_CHARS = 200_000  # of a file that is put in
_SHELL = re.compile(r"!`([^`\n]+)`|!\{([^{}\n]+)\}")
_FILE = re.compile(r"(?:^|(?<=[\s(]))@(?:\{([^{}\n]+)\}|\"([^\"\n]+)\"|([^\s\"@`{}()]+))")


_EDGE = "\0"
"""Marks typed text, which must not become part of a command that is run: it may be a stranger's words."""


def fill_placeholders(body: str, arguments: str, edge: str = "") -> str:
    """Return the text with its placeholders replaced; arguments without a placeholder are appended."""
    try:
        words = shlex.split(arguments)
    except ValueError:
        words = arguments.split()

    def word(match: re.Match[str]) -> str:
        if not match[1]:
            return typed(arguments)
        return typed(words[int(match[1]) - 1]) if int(match[1]) <= len(words) else ""

    def typed(text: str) -> str:
        return f"{edge}{text.replace('!', f'!{edge}')}{edge}"

    text, asked = re.subn(r"\$ARGUMENTS|\{\{args\}\}|\$([1-9])", word, body)
    return text if asked or not arguments else f"{text}\n\n{typed(arguments)}"


async def expand_command(body: str, arguments: str, agent: Agent) -> str:
    """Return the text filled in: commands in it are replaced by their output, and mentioned files follow it. Raises
    UsageError for a command or file that is not allowed."""
    text = fill_placeholders(body.replace(_EDGE, ""), arguments.replace(_EDGE, ""), _EDGE)
    pieces: list[str] = []
    end = 0
    for match in _SHELL.finditer(text):
        command = (match[1] or match[2]).replace(_EDGE, "")
        pieces += [text[end : match.start()].replace(_EDGE, ""), await _output(command, agent)]
        end = match.end()
    pieces.append(text[end:].replace(_EDGE, ""))
    found = _FILE.finditer(text.replace(_EDGE, ""))
    names = dict.fromkeys(match[1] or match[2] or match[3].rstrip(".,;:!?)") for match in found)
    files = [await _file(name, agent) for name in names]
    return "".join(pieces) + "".join(files)


async def _output(command: str, agent: Agent) -> str:
    state = agent.state
    tool = state.tools.get("Bash")
    if tool is None:
        raise UsageError(f"`{command}` cannot be run: there is no Bash in this session.")
    call = ToolCall(f"command-{os.urandom(6).hex()}", "Bash", json_freeze_object({"command": command}))
    call, effect = await _judged(call, agent, lambda arguments: foresee(tool, arguments, state.workspace), command)
    return await _called(tool, call, effect, agent)


async def _called(tool: Tool, call: ToolCall, effect: Effect, agent: Agent) -> str:
    state = agent.state
    run = RunContext(state.path, call.id, state.workspace, state.log.blobs, lambda _: None, effect=effect)
    try:
        output = await tool(call.arguments, run)
    except ToolError as error:
        raise UsageError(f"{call.name}: {error}") from error
    content = ToolOutput.of(output).content
    return "".join(part.text for part in content if isinstance(part, Text)).strip()


async def _file(name: str, agent: Agent) -> str:
    """Return a file as it is inserted; "" if it is no file but perhaps somebody's name."""
    try:
        path = find_path(Path(agent.state.workspace.cwd, path_of(name)))
        if not path.is_file():
            return ""
        call = ToolCall(f"command-{os.urandom(6).hex()}", "Read", json_freeze_object({"file_path": str(path)}))
        await _judged(call, agent, lambda _: Effect("read", (path,)), f"@{name}")
        data = read_regular(path, max_bytes=MAX_TEXT_CHARS, cut=True)
    except (OSError, ValueError) as error:
        raise UsageError(f"@{name} could not be read: {why_unread(error)}") from error
    decoded = decode(data)
    if isinstance(decoded, Binary):
        raise UsageError(f"@{name} could not be read: it is not text, but {decoded.kind}")
    guess = f' encoding="{decoded.encoding.guess}"' if decoded.encoding.guess else ""
    return f'\n\n<file path="{name}"{guess}>\n{valid_text(decoded.text)}\n</file>'


async def _judged(
    call: ToolCall, agent: Agent, effect_of: Callable[[JsonObject], Effect], label: str
) -> tuple[ToolCall, Effect]:
    """Return the call with the arguments allowed. Raises UsageError if the policy or the person denies it."""
    state = agent.state
    while True:
        effect = effect_of(call.arguments)
        verdict = await state.judge.before_tool(call, effect, state.workspace)
        match verdict:
            case Allow(None):
                return call, effect
            case Allow(arguments):
                call = replace(call, arguments=arguments)
            case Deny(reason) | Postpone(reason):
                raise UsageError(f"{label} is not allowed: {reason}")
            case Ask(reason, remedy):
                ask = state.neighbours.ask
                refusal = f"{reason} There is nobody to ask here. {remedy}".rstrip()
                if ask is not None:
                    refusal = await ask(call, replace(verdict, agent=state.path))
                if refusal is not None:
                    raise UsageError(f"{label} is not allowed: {refusal}")
                return call, effect
            case _:
                assert_never(verdict)
