"""The List tool: what is in one directory."""

import os
from pathlib import Path

from sagent.errors import ToolError
from sagent.lib.json import JsonObject, as_str
from sagent.lib.names import quote_path
from sagent.tool import Effect, RunContext, ToolOutput, Workspace, arguments_schema

_MOST = 500  # entries


class List:
    """Names and sizes, directories with a slash."""

    name = "List"
    quick = True
    description = "List one directory, hidden and ignored entries too: directories end with /, files show their bytes."
    parameters = arguments_schema(path={"type": "string", "description": "default: the working directory"}, closed=True)

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        return Effect("read", (workspace.resolve(as_str(arguments.get("path")) or "."),))

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """List it. Raises ToolError when it is not there, or no directory."""
        from sagent.tools.paths import explained

        path = run.workspace.resolve(as_str(arguments.get("path")) or ".")
        with explained(path, run.workspace):
            try:
                with os.scandir(path) as entries:
                    found = sorted(entries, key=lambda entry: entry.name)
            except NotADirectoryError:
                raise ToolError(f"{path} is not a directory. Use Read.") from None
        if not found:
            return ToolOutput.of(f"{path} is empty.", summary="empty")
        lines = [_line(entry) for entry in found[:_MOST]]
        if len(found) > _MOST:
            lines.append(f"(And {len(found) - _MOST} more. Use Glob to find some of them.)")
        return ToolOutput.of("\n".join(lines), summary=f"{len(found)} entries")


def _line(entry: "os.DirEntry[str]") -> str:
    name = quote_path(entry.name)
    try:
        if entry.is_symlink():
            return f"{name} -> {quote_path(str(Path(entry.path).readlink()))}"
        if entry.is_dir(follow_symlinks=False):
            return f"{name}/"
        if entry.is_file(follow_symlinks=False):
            return f"{name}  {entry.stat(follow_symlinks=False).st_size}"
    except OSError:  # gone meanwhile
        return name
    return f"{name}  (no regular file)"
