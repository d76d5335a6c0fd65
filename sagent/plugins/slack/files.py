"""Files of a chat: attachments of messages, and the tool that sends one."""

import asyncio
from collections.abc import Sequence

from sagent.errors import ToolError
from sagent.lib.encoding import Binary, decode
from sagent.lib.json import JsonObject, as_str, valid_text
from sagent.lib.regular import read_regular
from sagent.messages import Part, Text
from sagent.plugins.slack.surface import Attachment, ChatError, ChatSurface, Thread
from sagent.tool import Effect, RunContext, ToolOutput, Workspace, arguments_schema
from sagent.tools.media import read_media
from sagent.transcript.redaction import Redaction

MAX_FILE_BYTES = 10_000_000  # of a file, in either direction
MAX_TEXT_CHARS = 100_000  # of a text that comes with a message
MAX_FILES = 10  # of a message


async def parts_of(surface: ChatSurface, files: Sequence[Attachment]) -> tuple[list[Part], list[str]]:
    """Return the files of a message for a model, and notes on those that failed."""
    parts: list[Part] = []
    problems = [f"only {MAX_FILES} of {len(files)} files were accepted"] if len(files) > MAX_FILES else []
    for file in files[:MAX_FILES]:
        try:
            data = await surface.download(file, MAX_FILE_BYTES)
            shown = await read_media(data, file.name)
            if shown is None:
                decoded = decode(data)
                if isinstance(decoded, Binary):
                    raise ValueError(f"it is not text, but {decoded.kind}")
                text = valid_text(decoded.text[:MAX_TEXT_CHARS])
                shown = Text(f'\n\n<file name="{file.name}">\n{text}\n</file>')
            parts.append(shown)
        except (ChatError, ValueError) as error:
            problems.append(f"{file.name} could not be read: {error}")
    return parts, problems


class SendFile:
    """Sends a file of the workspace to the thread. Likely secrets are removed from texts."""

    name = "SendFile"
    description = "Send a file of the workspace to the people in this chat thread."
    parameters = arguments_schema("file_path", file_path={"type": "string"})

    def __init__(self, surface: ChatSurface, thread: Thread) -> None:
        self._surface, self._thread = surface, thread

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        return Effect("read", (workspace.resolve(as_str(arguments.get("file_path"))),))

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        path = run.workspace.resolve(as_str(arguments.get("file_path")))
        try:
            data = await asyncio.to_thread(read_regular, path, path.parent, max_bytes=MAX_FILE_BYTES)
        except OSError as error:
            raise ToolError(f"{path} could not be read: {error.strerror or error}") from error
        decoded = decode(data)
        if not isinstance(decoded, Binary):
            data = decoded.encoding.encode(Redaction().text(decoded.text))
        try:
            await self._surface.upload(self._thread, path.name, data)
        except ChatError as error:
            raise ToolError(f"{path.name} was not sent: {error}") from error
        return ToolOutput.of(f"{path.name} was sent, {len(data)} bytes.", summary="sent")
