"""The Read tool: text with line numbers, images, PDF pages, notebooks."""

from dataclasses import replace

from sagent.errors import ToolError
from sagent.lib.json import JsonObject, as_str
from sagent.tool import Effect, RunContext, ToolOutput, Workspace, arguments_schema


class Read:
    """Shows a file, a limited part at a time, and remembers it as seen."""

    name = "Read"
    quick = True
    description = (
        "Read a file: text as numbered lines (number, tab, line), up to 2000 at a time from line offset; images; "
        "notebooks as cells; PDFs as text, and with pages as pictures too."
    )
    parameters = arguments_schema(
        "file_path",
        file_path={"type": "string", "description": "absolute, or relative to the working directory"},
        offset={"type": "integer", "minimum": 0, "description": "first line, from 1"},
        limit={"type": "integer", "minimum": 1, "description": "number of lines"},
        pages={"type": "string", "description": 'of a PDF, at most 10: "1-5,8"'},
    )

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        from sagent.lib.regular import stat_real
        from sagent.tools.paths import as_tool_errors, foreseen

        path = workspace.resolve(as_str(arguments["file_path"]))
        effect = foreseen("read", path, workspace)

        def check() -> None:
            with as_tool_errors(path, workspace):
                stat_real(effect.real or path)  # however long the path is

        return replace(effect, check=check)

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Show a file. Raises ToolError if it is missing, not regular, or binary."""
        from sagent.lib.regular import open_regular
        from sagent.tools.paths import as_tool_errors, judged_path, quoted_name
        from sagent.tools.view import show

        path = run.workspace.resolve(as_str(arguments["file_path"]))
        real = judged_path(path, run)
        with as_tool_errors(path, run.workspace):
            try:
                file = open_regular(real)
            except IsADirectoryError:
                raise ToolError(f"{quoted_name(path)} is a directory. Use List or Glob to see what is in it.") from None
            with file:
                return await show(path, real, file, arguments, run.workspace)
