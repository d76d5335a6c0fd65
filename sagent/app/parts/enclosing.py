"""Files for a model that writes its calls as text: those that a prompt names, and those that it changes unread.

Such a model has no way to read a file but a command, and what it was not shown it makes up.
"""

import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.agent.resources import Admit
from sagent.app.builder import AgentBuilder
from sagent.app.protocols import AdaptiveModel
from sagent.context.textcalls.writing import enclose
from sagent.engine.state import AgentState
from sagent.errors import ToolError
from sagent.events import Failure
from sagent.lib.encoding import Text, decode
from sagent.lib.json import JsonObject, as_str
from sagent.lib.regular import open_regular
from sagent.messages import Message, ToolCall
from sagent.model import Model
from sagent.policy import Allow, Policy
from sagent.tool import Answer, RunContext, Tool, Workspace, foresee
from sagent.tools import Read
from sagent.tools.wrapped import WrappedTool

if TYPE_CHECKING:
    from sagent.agent import Agent

MAX_FILE_BYTES = 8_000
MAX_TOTAL_BYTES = 24_000
MAX_FILES = 8
UNSEEN = """It was not written: the file exists, and you have not seen it. It holds:
{shown}
Write the whole new file again, with all of this that is to stay."""
_WORD = re.compile(r"[\w@%+=:,./\\~-]+")
_COMMAND = re.compile(r"`[^`\n]*[^`\s][ \t]+[^`\s][^`\n]*`")
_FRAME = ".,:;"  # what a sentence puts after a name


async def add(builder: AgentBuilder) -> None:
    """Enclose what prompts name, and show a file that is written unread."""
    agents: list[Agent] = []
    builder.started.append(agents.append)

    def model() -> Model:
        return agents[0].model if agents else builder.choice.model

    def show(tool: Tool) -> Tool:
        return ShowingWrite(tool, builder.policy, model) if tool.name == "Write" else tool

    builder.wrap(lambda tools: [show(tool) for tool in tools])
    builder.resources = replace(builder.resources, admit=admitting(builder.resources.admit))


def admitting(before: Admit | None) -> Admit:
    """Return what encloses the files that a prompt names in it, after what `before` makes of it."""

    async def admit(state: AgentState, prompt: Message | None) -> Sequence[Message] | Failure:
        read = (() if prompt is None else (prompt,)) if before is None else await before(state, prompt)
        if isinstance(read, Failure) or prompt is None or prompt.sender or not is_text_model(state.model):
            return read
        files = [enclose(name, text) async for name, text in _readable(state, prompt.content)]
        whole = replace(prompt, parts=(*prompt.parts, *files))
        return [whole if message is prompt else message for message in read]

    return admit


def is_text_model(model: object) -> bool:
    """Return True for a model that is spoken to in text at this moment."""
    return isinstance(model, AdaptiveModel) and model.protocol == "text"


def named_files(text: str, workspace: Workspace) -> Iterator[tuple[str, Path]]:
    """Give the regular files of the workspace that a text names, each once, with the name as it stands there.

    A name within a command in backticks does not count: what is to be run is not to be guessed from its source.
    """
    text = _COMMAND.sub(" ", text)
    seen: set[Path] = set()
    roots = [root.resolve() for root in workspace.roots]
    for match in _WORD.finditer(text):
        word = match[0].strip(_FRAME)
        if not word or word.startswith("~") or not any(letter.isalnum() for letter in word):
            continue
        try:
            path = workspace.resolve(word).resolve()
            if path in seen or not path.is_file() or not any(map(path.is_relative_to, roots)):
                continue
        except (ToolError, OSError, ValueError):
            continue
        seen.add(path)
        yield word, path


async def _readable(state: AgentState, text: str) -> AsyncGenerator[tuple[str, str]]:
    """Give the files of a prompt that may be read unasked and are short, with their text."""
    left = MAX_TOTAL_BYTES
    for count, (name, path) in enumerate(named_files(text, state.workspace)):
        if count >= MAX_FILES:
            return
        arguments = JsonObject({"file_path": str(path)})
        call = ToolCall("enclosed", "Read", arguments)
        try:
            effect = foresee(Read(), arguments, state.workspace)
            verdict = await state.policy.before_tool(call, effect, state.workspace)
            if not isinstance(verdict, Allow) or verdict.arguments is not None:
                continue
            shown = read_short(effect.real or path, min(left, MAX_FILE_BYTES), state.workspace)
        except (ToolError, OSError):
            continue
        if shown is not None:
            left -= len(shown)
            yield name, shown


def read_short(real: Path, most: int, workspace: Workspace) -> str | None:
    """Return the text of a file of at most so many bytes, which then counts as seen; None for any other file. Raises
    OSError."""
    with open_regular(real) as file:
        data = file.read(most + 1)
    if len(data) > most or not isinstance(text := decode(data), Text):
        return None
    workspace.saw(real, data)
    return text.text


class ShowingWrite(WrappedTool):
    """The Write tool, which shows a text model the file that it would replace without having seen it."""

    def __init__(self, tool: Tool, policy: Policy, model: Callable[[], Model]) -> None:
        super().__init__(tool)
        self._policy, self._model = policy, model

    async def __call__(self, arguments: JsonObject, run: RunContext) -> Answer:
        path = run.workspace.resolve(as_str(arguments["file_path"]))
        if path.is_file() and path.resolve() not in run.workspace.seen and is_text_model(self._model()):
            seen = JsonObject({"file_path": str(path)})
            effect = foresee(Read(), seen, run.workspace)
            verdict = await self._policy.before_tool(ToolCall("shown", "Read", seen), effect, run.workspace)
            with suppress(OSError):
                shown = read_short(effect.real or path, MAX_FILE_BYTES, run.workspace)
                if isinstance(verdict, Allow) and shown is not None:
                    raise ToolError(UNSEEN.format(shown=shown))
        return await self.tool(arguments, run)
