"""The Write tool: replaces a whole file in one step."""

from dataclasses import replace

from sagent.lib.json import JsonObject, as_str, valid_text
from sagent.tool import Effect, RunContext, ToolOutput, Workspace, arguments_schema

_MAX_INLINE_CHARS = 1_000_000  # more is handled in a thread


class Write:
    """Creates or replaces a file atomically; mode, encoding, byte order mark and CRLF line ends are kept."""

    name = "Write"
    quick = True
    description = (
        "Create a file, with missing directories, or replace the whole of one that you have Read. To change part of it "
        "use Edit."
    )
    parameters = arguments_schema("file_path", "content", file_path={"type": "string"}, content={"type": "string"})

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        from sagent.tools.paths import as_tool_errors, foreseen

        path = workspace.resolve(as_str(arguments["file_path"]))
        effect = foreseen("write", path, workspace)

        def check() -> None:
            with as_tool_errors(path):
                workspace.check_unchanged(effect.real or path)

        return replace(effect, check=check)

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Write a file. Raises ToolError if it was not read, or has changed since."""
        from sagent.lib.pace import offload
        from sagent.tools.change import make, plan_write
        from sagent.tools.paths import judged_path

        path = run.workspace.resolve(as_str(arguments["file_path"]))
        real = judged_path(path, run)
        content = valid_text(as_str(arguments["content"]))
        with run.workspace.changing(real):
            return await offload(
                lambda _: make(plan_write(path, real, content, run.workspace), run.workspace),
                small=len(content) <= _MAX_INLINE_CHARS,
            )
