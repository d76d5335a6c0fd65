"""The List tool: shows the contents of one directory."""

import os
from contextlib import ExitStack

from sagent.errors import ToolError
from sagent.lib.json import JsonObject, as_str
from sagent.lib.names import quote_path
from sagent.tool import Effect, RunContext, ToolOutput, Workspace, arguments_schema

_MAX_ENTRIES = 500


class List:
    """Lists names and sizes; directories have a slash."""

    name = "List"
    quick = True
    description = "List one directory, hidden and ignored entries too: directories end with /, files show their bytes."
    parameters = arguments_schema(path={"type": "string", "description": "default: working directory"})

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        from sagent.tools.paths import foreseen

        return foreseen("read", workspace.resolve(as_str(arguments.get("path")) or "."), workspace)

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """List it. Raises ToolError if it does not exist or is not a directory."""
        from sagent.lib.regular import open_real, real_directory
        from sagent.tools.paths import as_tool_errors, judged_path, made_by_commands, quoted_name

        path = run.workspace.resolve(as_str(arguments.get("path")) or ".")
        real = judged_path(path, run)
        with as_tool_errors(path, run.workspace), ExitStack() as held:
            try:
                with real_directory(real) as (above, name):
                    directory = open_real(name, os.O_RDONLY | os.O_DIRECTORY, above)
            except NotADirectoryError:
                raise ToolError(f"{quoted_name(path)} is not a directory. Use Read.") from None
            held.callback(os.close, directory)
            with os.scandir(directory) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
            lines = [_line(entry, directory) for entry in found[:_MAX_ENTRIES]]
        if not found:
            lines.append(f"{quoted_name(path)} is empty.")
        if len(found) > _MAX_ENTRIES:
            lines.append(f"(And {len(found) - _MAX_ENTRIES} more. Use Glob to find some of them.)")
        lines += made_by_commands(real, run.workspace)
        return ToolOutput.of("\n".join(lines), summary=f"{len(found)} entries" if found else "empty")


def _line(entry: "os.DirEntry[str]", directory: int) -> str:
    name = quote_path(entry.name)
    try:
        if entry.is_symlink():
            return f"{name} -> {quote_path(os.readlink(entry.name, dir_fd=directory))}"
        if entry.is_dir(follow_symlinks=False):
            return f"{name}/"
        if entry.is_file(follow_symlinks=False):
            return f"{name}  {entry.stat(follow_symlinks=False).st_size}"
    except OSError:  # gone meanwhile
        return name
    return f"{name}  (not a regular file)"
