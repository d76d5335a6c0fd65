"""Files for a model that writes its calls as text: those that a prompt names, and those that it changes unread.

Such a model has no way to read a file but a command, and what it was not shown it makes up.
"""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

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
from sagent.messages import Message, Part, ToolCall
from sagent.messages import Text as MessageText
from sagent.model import Model
from sagent.policy import Allow, Policy
from sagent.tool import Answer, Effect, RunContext, Tool, Workspace, foresee
from sagent.tools import Read
from sagent.tools.wrapped import WrappedTool

if TYPE_CHECKING:
    from sagent.agent import Agent

MAX_FILE_BYTES = 8_000
MAX_TOTAL_BYTES = 24_000
MAX_FILES = 8
MAX_NAMED = 32  # files of one prompt that the policy is asked about
MAX_WORDS = 5_000  # different words of one prompt that may be names
UNSEEN = """It was not written: the file exists, and you have not seen it. It holds:
{shown}
Write the whole new file again, with all of this that is to stay."""
UNREAD = "{path} exists, and you have not seen it. Print it first (cat), or change it with a command (sed)."
_BACKTICKS = re.compile(r"`([^`\n]+)`")
_WORDS = re.compile(r"[\"'](?=([^\"'\n]{1,200})[\"'])|([\w@%+=:,./\\~-]+)")  # in quotation marks, or without spaces
_PLACE = re.compile(r":\d+(?:[:-]\d+)*$")  # a line of a file, as compilers write it
_BEFORE, _AFTER = ",:;", ".,:;"  # what a sentence puts around a name
_ATTACHED = re.compile(r'\n<(?:file|directory) path="([^"\n]*)">\n')


async def add(builder: AgentBuilder) -> None:
    """Enclose what prompts name, and show a file that is written unread."""
    agents: list[Agent] = []
    builder.started.append(agents.append)

    def model() -> Model:
        return agents[0].model if agents else builder.choice.model

    def show(tool: Tool) -> Tool:
        return ShowingWrite(tool, lambda: builder.judge, model) if tool.name == "Write" else tool

    builder.wrap(lambda tools: [show(tool) for tool in tools])
    builder.resources = replace(builder.resources, admit=admitting(builder.resources.admit))


def admitting(before: Admit | None) -> Admit:
    """Return what encloses the files that a prompt names in it, after what `before` makes of it."""

    async def admit(state: AgentState, prompt: Message | None) -> Sequence[Message] | Failure:
        read = (() if prompt is None else (prompt,)) if before is None else await before(state, prompt)
        if isinstance(read, Failure) or prompt is None or prompt.sender or not is_text_model(state.model):
            return read
        files = [file async for file in _readable(state, prompt)]
        named = {name for name, _ in files}
        kept = [part for part in prompt.parts if _attached_name(part) not in named]
        whole = replace(prompt, parts=(*kept, *(enclose(name, text) for name, text in files)))
        return [whole if message is prompt else message for message in read]

    return admit


def is_text_model(model: object) -> bool:
    """Return True for a model that is spoken to in text at this moment."""
    return isinstance(model, AdaptiveModel) and model.protocol == "text"


def _attached_name(part: Part) -> str | None:
    """Return the name of the file or directory that a part is, as somebody attached it with @; None for others."""
    found = _ATTACHED.match(part.text) if isinstance(part, MessageText) else None
    return found and found[1]


def names_in(text: str) -> Iterator[str]:
    """Give what may be names of files in a text, each once, as they stand there.

    A name within a command in backticks does not count: what is to be run is not to be guessed from its source.
    """
    text = _BACKTICKS.sub(lambda found: " " if len(found[1].split()) > 1 else found[0], text)
    seen: set[str] = set()
    for match in _WORDS.finditer(text):
        word = match[1] or match[2] or ""
        word = word.lstrip(_BEFORE).rstrip(_AFTER)
        if not word or word in seen or word.startswith("~") or not any(map(str.isalnum, word)):
            continue
        seen.add(word)
        yield word
        if (bare := _PLACE.sub("", word.removeprefix("@"))) != word and bare not in seen:
            seen.add(bare)
            yield bare


def named_files(text: str, workspace: Workspace) -> Iterator[tuple[str, Path]]:
    """Give the regular files of the workspace that a text names, each once, with the name as it stands there."""
    seen: set[Path] = set()
    roots = [root.resolve() for root in workspace.roots]
    for word in islice(names_in(text), MAX_WORDS):
        try:
            if not os.path.lexists(workspace.cwd / word):  # before names alike are looked for in every directory
                continue
            path = workspace.resolve(word).resolve()
            if path in seen or not path.is_file() or not any(map(path.is_relative_to, roots)):
                continue
        except (ToolError, OSError, ValueError):
            continue
        seen.add(path)
        yield word, path


async def _readable(state: AgentState, prompt: Message) -> AsyncGenerator[tuple[str, str]]:
    """Give the files of a prompt that may be read unasked and are short, with their text."""
    left, count = MAX_TOTAL_BYTES, 0
    texts = [part.text for part in prompt.parts if isinstance(part, MessageText) and _attached_name(part) is None]
    named = await asyncio.to_thread(lambda: [*islice(named_files("\n".join(texts), state.workspace), MAX_NAMED)])
    for name, path in named:
        if count >= MAX_FILES:
            return
        arguments = JsonObject({"file_path": str(path)})
        try:
            effect = foresee(Read(), arguments, state.workspace)
            verdict = await state.policy.before_tool(_reading(arguments), effect, state.workspace)
            if not isinstance(verdict, Allow) or verdict.arguments is not None:
                continue
            shown = read_short(effect.real or path, min(left, MAX_FILE_BYTES), state.workspace)
        except (ToolError, OSError):
            continue
        if shown is not None:
            left, count = left - len(shown), count + 1
            yield name, shown


def _reading(arguments: JsonObject) -> ToolCall:
    """Return a call of Read that no model made, with an id of its own: policies remember what they said of a call."""
    return ToolCall(f"enclosed_{uuid4().hex}", "Read", arguments)


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

    def __init__(self, tool: Tool, policy: Callable[[], Policy], model: Callable[[], Model]) -> None:
        super().__init__(tool)
        self._policy, self._model = policy, model

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        effect, path = super().effect(arguments, workspace), workspace.resolve(as_str(arguments["file_path"]))

        def check() -> None:
            raise ToolError(UNREAD.format(path=path))

        return replace(effect, check=check) if self._is_unseen(path, workspace) else effect

    async def __call__(self, arguments: JsonObject, run: RunContext) -> Answer:
        path = run.workspace.resolve(as_str(arguments["file_path"]))
        if self._is_unseen(path, run.workspace):
            shown = await self._read(path, run.workspace)
            if shown is None:
                raise ToolError(UNREAD.format(path=path))
            if shown.strip():
                raise ToolError(UNSEEN.format(shown=shown))
        return await self.tool(arguments, run)

    def _is_unseen(self, path: Path, workspace: Workspace) -> bool:
        return path.is_file() and path.resolve() not in workspace.seen and is_text_model(self._model())

    async def _read(self, path: Path, workspace: Workspace) -> str | None:
        """Return the text of a file that may be read unasked and is short."""
        arguments = JsonObject({"file_path": str(path)})
        effect = foresee(Read(), arguments, workspace)
        verdict = await self._policy().before_tool(_reading(arguments), effect, workspace)
        if not isinstance(verdict, Allow) or verdict.arguments is not None:
            return None
        with suppress(OSError):
            return read_short(effect.real or path, MAX_FILE_BYTES, workspace)
        return None
