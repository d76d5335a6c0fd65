"""Edit and Write through the client, which can review each change and format saved files."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sagent.errors import ToolError
from sagent.lib.encoding import UTF8
from sagent.lib.json import JsonObject, as_str, valid_text
from sagent.plugins.acp.client import Client
from sagent.plugins.hosting.jsonrpc import RpcError
from sagent.tool import Effect, RunContext, Tool, ToolOutput, Workspace
from sagent.tools.ask import AskUser
from sagent.tools.change import Change, make, plan_edit, plan_write
from sagent.tools.edit import Edit
from sagent.tools.paths import judged_path, short_path
from sagent.tools.replacement import read_replacements
from sagent.tools.textfile import encode
from sagent.tools.write import Write

MAX_FILE_CHARS = 10_000_000  # of a file that are sent to an editor
EDITOR_TIMEOUT_SECONDS = 10.0  # for an editor to return unsaved text


def adapted(tools: Sequence[Tool], client: Client, session: Callable[[], str]) -> Sequence[Tool]:
    """Return the tools for a client: files are written through it if it can, and its person is asked questions if it
    has forms."""
    kept = [tool for tool in tools if client.has_forms or not isinstance(tool, AskUser)]
    if not client.writes_files:
        return kept
    return [ReviewedTool(tool, client, session) if isinstance(tool, Edit | Write) else tool for tool in kept]


class ReviewedTool:
    """Edit or Write through the client. Files outside the workspace's roots, and files that are not UTF-8, are written
    directly."""

    quick = True

    def __init__(self, tool: Edit | Write, client: Client, session: Callable[[], str]) -> None:
        self.name, self.description, self.parameters = tool.name, tool.description, tool.parameters
        self._tool, self._client, self._session = tool, client, session

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        return self._tool.effect(arguments, workspace)

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Change the file. Raises ToolError as Edit and Write do, and if the client cannot write."""
        workspace = run.workspace
        path = workspace.resolve(as_str(arguments["file_path"]))
        real = judged_path(path, run)
        with workspace.changing(real):
            change = await self._planned(path, real, arguments, workspace)
            if change.encoding != UTF8 or len(change.after) > MAX_FILE_CHARS or not _is_inside(real, workspace):
                return make(change, workspace)
            before = _bytes(real)
            try:
                await self._client.write_file(self._session(), real, change.after)
            except RpcError as error:
                raise ToolError(f"{path} could not be written. The editor says: {error}") from error
            return _settled(change, before, workspace)

    async def _planned(self, path: Path, real: Path, arguments: JsonObject, workspace: Workspace) -> Change:
        if isinstance(self._tool, Write):
            return plan_write(path, real, valid_text(as_str(arguments["content"])), workspace)
        replacements = read_replacements(arguments)
        unsaved = await self._unsaved(real)
        if unsaved is not None:
            with suppress(ToolError):  # use the version on disk then
                return plan_edit(path, real, replacements, workspace, unsaved)
        return plan_edit(path, real, replacements, workspace)

    async def _unsaved(self, real: Path) -> str | None:
        """Return the editor's text of a file, if it differs from the file's."""
        data = _bytes(real)
        if not (self._client.reads_files and data):
            return None
        try:
            async with asyncio.timeout(EDITOR_TIMEOUT_SECONDS):
                text = await self._client.read_file(self._session(), real)
        except (RpcError, TimeoutError):
            return None
        disk = data.decode("utf-8", "replace")
        if not text or text.replace("\r\n", "\n") == disk.replace("\r\n", "\n"):
            return None
        return text if "\r\n" in text or "\r\n" not in disk else text.replace("\n", "\r\n")  # as editors give them


def _settled(change: Change, before: bytes | None, workspace: Workspace) -> ToolOutput:
    """Return the result of the call: a client may format a file on saving, or not have saved it yet."""
    written, now = encode(change.after, change.encoding), _bytes(change.real)
    name = short_path(change.path, workspace)
    if now is None or (now == before and now != written):
        if now is not None:
            workspace.saw(change.real, now)
        return replace(change, description=f"{change.description} The editor has it, and has not saved it yet.").output(
            name
        )
    workspace.saw(change.real, now)
    if now == written:
        return change.output(name)
    after = now.decode("utf-8", "replace")
    said = f"{change.description} The editor has formatted it: the lines below are as they are now."
    return replace(change, after=after, description=said, shows=True).output(name)


def _bytes(real: Path) -> bytes | None:
    try:
        return real.read_bytes()
    except OSError:
        return None


def _is_inside(real: Path, workspace: Workspace) -> bool:
    return any(real.is_relative_to(root.resolve()) for root in workspace.roots)
