"""The Code tool: definitions, references, symbols and renames from a language server."""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.errors import ToolError
from sagent.lib.json import JsonObject, as_int, as_str, json_dump
from sagent.tool import Effect, RunContext, ToolOutput, Workspace, arguments_schema

if TYPE_CHECKING:
    from sagent.plugins.code.lsp.access import CodeAccess
    from sagent.plugins.code.lsp.checks import Checks
    from sagent.plugins.code.lsp.rename import RenamePlan
    from sagent.plugins.code.lsp.server import LanguageServer

_MAX_PLANS = 8
_MAX_TRIES, _PAUSE_SECONDS = 10, 0.5
_MAX_SAMPLED_FILES = 2_000  # files to check for the language of a project


class Code:
    """Asks language servers. `access` is the session's; without it every call fails."""

    name = "Code"
    deferrable = True
    description = (
        "Ask the language server, which knows names better than Grep. definition, references, rename (to new_name, in "
        "all files): of a symbol, written as in file_path, nearest to line. symbols: of file_path, or with symbol "
        "alone those of the project with such a name."
    )
    parameters = arguments_schema(
        "action",
        action={"type": "string", "enum": ["definition", "references", "symbols", "rename"]},
        file_path={"type": "string"},
        symbol={"type": "string"},
        line={"type": "integer", "minimum": 1},
        new_name={"type": "string"},
        changes={"type": "string", "description": "leave out: filled in for the person who is asked"},
    )

    def __init__(self, access: "CodeAccess | None" = None) -> None:
        self.access = access
        self._plans: dict[str, RenamePlan] = {}

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        """Predict the effect: reading; a rename writes the files of its plan, or any files if it has no plan."""
        from sagent.tools.paths import foreseen

        if arguments["action"] == "rename":
            plan = self._plans.get(_plan_key(arguments, workspace))
            return Effect("write", tuple(change.path for change in plan.changes)) if plan else Effect("execute")
        return foreseen("read", workspace.resolve(as_str(arguments.get("file_path"), ".")), workspace, hides=True)

    def is_unplanned(self, arguments: Mapping[str, object], workspace: Workspace) -> bool:
        """Return True if a call is a rename whose `changes` are not those planned here: the person would approve what
        the model wrote there."""
        if arguments.get("action") != "rename":
            return False
        plan = self._plans.get(_plan_key(arguments, workspace))
        return plan is None or arguments.get("changes") != plan.text(workspace)

    async def plan(self, arguments: Mapping[str, object], workspace: Workspace) -> str:
        """Plan a rename and return its changes as a diff. A later call makes them. Raises ToolError."""
        from sagent.plugins.code.lsp.rename import read_plan
        from sagent.plugins.code.lsp.symbols import is_hidden

        new_name, path = as_str(arguments.get("new_name")).strip(), _target_path(arguments, workspace)
        if not new_name:
            raise ToolError("new_name is missing.")
        if not re.fullmatch(r"[\w$?!'@#-]+", new_name):  # allowed in some language; servers accept anything
            raise ToolError(f"new_name {new_name!r} is not one name. Nothing was changed.")
        server, location = await self._locate(arguments, path, workspace)
        answer = await _ask_until_stable(server, "textDocument/rename", {**location, "newName": new_name})
        plan = await asyncio.to_thread(read_plan, answer, server, as_str(arguments["symbol"]).strip())
        if unread := [change.path for change in plan.changes if is_hidden(change.path, self.name, workspace)]:
            raise ToolError(f"The rename would change {unread[0]}, which may not be read.")
        self._plans.pop(_plan_key(arguments, workspace), None)
        self._plans[_plan_key(arguments, workspace)] = plan
        while len(self._plans) > _MAX_PLANS:
            del self._plans[next(iter(self._plans))]
        return plan.text(workspace)

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Ask a server. Raises ToolError if there is none, or it does not answer."""
        from sagent.plugins.code.lsp.symbols import show_outline, show_places

        workspace, action = run.workspace, as_str(arguments["action"])
        if action == "rename":
            return await self._rename(arguments, run)
        if action == "symbols" and not arguments.get("file_path"):
            return await self._search(as_str(arguments.get("symbol")).strip(), workspace)
        path = _target_path(arguments, workspace)
        if action == "symbols":
            server = await self._server(path, workspace)
            params = {"textDocument": {"uri": path.as_uri()}}
            lines = show_outline(await _ask(server, "textDocument/documentSymbol", params))
        else:
            server, location = await self._locate(arguments, path, workspace)
            if action == "references":
                params = {**location, "context": {"includeDeclaration": True}}
                answer = await _ask_until_stable(server, "textDocument/references", params)
            else:
                answer = await _ask(server, "textDocument/definition", location)
            lines = await asyncio.to_thread(show_places, answer, self.name, workspace)
        return _output(lines, server.row.name)

    async def _rename(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        workspace = run.workspace
        if run.effect is None or run.effect.kind != "write":
            await self.plan(arguments, workspace)
        elif self.is_unplanned(arguments, workspace):
            raise ToolError("The rename would differ from what was approved. Call it again.")
        output = await asyncio.to_thread(self._plans.pop(_plan_key(arguments, workspace)).make, workspace)
        if self.access is not None and self.access.started is not None:
            self.access.started.command_ran()
        return output

    async def _search(self, name: str, workspace: Workspace) -> ToolOutput:
        from sagent.plugins.code.lsp.symbols import show_found

        if not name:
            raise ToolError("Give file_path, or in symbol a name to look for in the project.")
        servers = [slot.server for slot in self._checks.servers.running() if slot.server is not None]
        capable = [server for server in servers if server.supports("workspace/symbol")]
        if not capable and (path := await asyncio.to_thread(self._typical_file, workspace)) is not None:
            capable = [await self._server(path, workspace)]
        if not capable:
            raise ToolError("No language server runs here yet. Give a file_path, or use Grep.")
        answers = await asyncio.gather(
            *(_ask_until_stable(server, "workspace/symbol", {"query": name}) for server in capable)
        )
        lines = [line for answer in answers for line in show_found(answer, workspace)]
        return _output(lines, ", ".join(server.row.name for server in capable))

    def _typical_file(self, workspace: Workspace) -> Path | None:
        """Return a file in the project's most frequent language; None if no server knows any."""
        from sagent.tools.walk import walk

        paths = (workspace.cwd / name for name in islice(walk(str(workspace.cwd), lambda: False), _MAX_SAMPLED_FILES))
        first: dict[str, Path] = {}
        suffixes = Counter[str]()
        for path in paths:
            if "types" in self._checks.servers.kinds(path):
                suffixes[path.suffix] += 1
                first.setdefault(path.suffix, path)
        return first[suffixes.most_common(1)[0][0]] if suffixes else None

    async def _locate(
        self, arguments: Mapping[str, object], path: Path, workspace: Workspace
    ) -> "tuple[LanguageServer, dict[str, object]]":
        """Return the server for a file, and the position of the call's symbol as request parameters."""
        from sagent.plugins.code.lsp.text import Lines

        symbol = as_str(arguments.get("symbol")).strip()
        if not symbol:
            raise ToolError("symbol is missing: the name, as it is written in the file.")
        server = await self._server(path, workspace)
        position = Lines(server.documents[path].text).find(symbol, as_int(arguments.get("line")) or None)
        if position is None:
            raise ToolError(f"{symbol!r} does not occur in {path}. Write it as it is written there.")
        return server, {"textDocument": {"uri": path.as_uri()}, "position": position}

    async def _server(self, path: Path, workspace: Workspace) -> "LanguageServer":
        """Return the server for a file, which has its current text. Raises ToolError."""
        from sagent.plugins.code.lsp.checks import read_text
        from sagent.tools.paths import missing_error

        servers = self._checks.servers
        if not servers.kinds(path):
            raise ToolError(f"No language server is known for {path.name}. Use Grep and Read.")
        if not path.is_file():
            raise ToolError(f"{path} is not a file.") if path.exists() else missing_error(path, workspace)
        text = await asyncio.to_thread(read_text, path)
        if text is None:
            raise ToolError(f"{path} is not text, or is too large for a language server.")
        slot = await servers.get("types", path, workspace.roots)
        if slot is None or (server := slot.ready) is None:
            hint = f"none is installed or may run ({servers.hint(path)}), or the file is in no project"
            raise ToolError(f"There is no language server for {path.name}: {hint}. Use Grep.")
        await self._checks.refresh(slot, server)
        if (document := server.documents.get(path)) is None or document.text != text:
            server.send_text(path, text)
        return server

    @property
    def _checks(self) -> "Checks":
        if self.access is None:
            raise ToolError("Language servers are not available here. Use Grep and Read.")
        return self.access.checks


async def _ask(server: "LanguageServer", method: str, params: Mapping[str, object]) -> object:
    from sagent.plugins.code.lsp.connection import ServerError

    if not server.supports(method):
        raise ToolError(f"The language server {server.row.name} does not answer {method}. Use Grep.")
    try:
        return await server.ask(method, params)
    except ServerError as error:
        raise ToolError(f"The language server {server.row.name} failed: {error}.") from None


async def _ask_until_stable(server: "LanguageServer", method: str, params: Mapping[str, object]) -> object:
    """Ask as `_ask` does. A server that may still be scanning the project is asked until two answers agree."""
    answer = await _ask(server, method, params)
    for _ in range(_MAX_TRIES):
        if not server.may_be_scanning:
            break
        await asyncio.sleep(_PAUSE_SECONDS)
        before, answer = answer, await _ask(server, method, params)
        if before == answer:
            break
    return answer


def _target_path(arguments: Mapping[str, object], workspace: Workspace) -> Path:
    """Return the file of a call, with links resolved."""
    if not (name := as_str(arguments.get("file_path"))):
        raise ToolError("file_path is missing.")
    return workspace.resolve(name).resolve()


def _plan_key(arguments: Mapping[str, object], workspace: Workspace) -> str:
    names = ("file_path", "symbol", "line", "new_name")
    return json_dump([str(workspace.cwd), *(arguments.get(name) for name in names)])


def _output(lines: list[str], server: str) -> ToolOutput:
    return ToolOutput.of("\n".join(lines) or f"{server} finds nothing.", summary=f"{len(lines)} from {server}")
