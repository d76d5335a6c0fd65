"""The Glob tool: files by the pattern of their names."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

from sagent.errors import ToolError
from sagent.lib.json import JsonObject, as_str
from sagent.lib.names import quote_path
from sagent.tool import Effect, RunContext, ToolOutput, Workspace, arguments_schema

_MOST = 200  # paths


class Glob:
    """Finds files: hidden ones too, those that git ignores left out."""

    name = "Glob"
    quick = True
    description = (
        'Find files by name, sorted by path: "src/**/*.{ts,tsx}" at any depth below src, "*.py" only right in path. '
        "Files that git ignores are left out."
    )
    parameters = arguments_schema(
        "pattern",
        pattern={"type": "string", "minLength": 1},
        path={"type": "string", "description": "directory; default: the working directory"},
        closed=True,
    )

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        return Effect("read", (_split(arguments, workspace)[0],))

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """List the files. Raises ToolError when the directory is not there."""
        from sagent.tools.listing import list_files
        from sagent.tools.paths import missing, prefix

        root, pattern = _split(arguments, run.workspace)
        if not root.is_dir():
            if root.exists():
                raise ToolError(f"{root} is not a directory.")
            raise missing(root, run.workspace)
        files = await list_files(str(root))
        hidden = run.workspace.hidden and run.workspace.hidden(self.name, root)
        return await asyncio.to_thread(_select, files, pattern, prefix(root, run.workspace), hidden)


def _split(arguments: JsonObject, workspace: Workspace) -> tuple[Path, str]:
    """The directory at which the search can start, and the rest of the pattern."""
    root = workspace.resolve(as_str(arguments.get("path")) or ".")
    pattern = as_str(arguments["pattern"])
    if pattern.startswith(("/", "~")):
        anchor, _, pattern = pattern.partition("/")
        root = workspace.resolve(anchor or "/")
        pattern = pattern.lstrip("/")
    parts = pattern.split("/")
    while len(parts) > 1 and not re.search(r"[*?\[{\\]", parts[0]):
        root = root / parts.pop(0)
    return root, "/".join(parts)


def _select(files: list[str], pattern: str, label: str, hidden: Callable[[str], bool] | None) -> ToolOutput:
    from sagent.tools.globs import glob_regex
    from sagent.tools.search import passed_over

    if not pattern or pattern.endswith("/"):
        pattern += "**"
    regex = re.compile(glob_regex(pattern), re.DOTALL)
    matching = sorted(path for path in files if regex.fullmatch(path))
    found = [path for path in matching if not (hidden and hidden(path))]
    lines = [quote_path(label + path) for path in found[:_MOST]]
    if not found:
        deeper = re.compile(glob_regex(f"**/{pattern}"), re.DOTALL)
        count = sum(1 for path in files if deeper.fullmatch(path) and not (hidden and hidden(path)))
        lines.append("No files match." + (f' "**/{pattern}" would match {count}.' if count else ""))
    if len(found) > _MOST:
        lines.append(f"(And {len(found) - _MOST} more. Narrow the pattern or the path.)")
    if len(found) < len(matching):
        lines.append(passed_over(len(matching) - len(found), "not shown"))
    return ToolOutput.of("\n".join(lines), summary=f"{len(found)} files" if found else "no files")
