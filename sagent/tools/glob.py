"""The Glob tool: files by the pattern of their names."""

import asyncio
import re
import stat
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.errors import ToolError
from sagent.lib.json import JsonObject, as_str
from sagent.lib.names import find_path, quote_path
from sagent.messages import Text
from sagent.tool import Effect, RunContext, ToolOutput, Workspace, arguments_schema

if TYPE_CHECKING:
    from sagent.tools.listing import Listing

_MAX_PATHS = 200


class Glob:
    """Finds files, including hidden ones, except files that git ignores."""

    name = "Glob"
    quick = True
    description = (
        'Find files by name, sorted by path: "src/**/*.{ts,tsx}" at any depth below src, "*.py" only right in path. '
        "Files that git ignores are left out."
    )
    parameters = arguments_schema(
        "pattern",
        pattern={"type": "string", "minLength": 1},
        path={"type": "string", "description": "directory; default: working directory"},
    )

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        from sagent.tools.paths import foreseen

        return foreseen("read", _split(arguments, workspace)[0], workspace, hides=True)

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """List the files. Raises ToolError if the directory does not exist."""
        from sagent.lib.regular import stat_real
        from sagent.tools.listing import list_files, list_ignored
        from sagent.tools.paths import as_tool_errors, hidden_filter, judged_path, made_by_commands, prefix, quoted_name

        root, pattern = _split(arguments, run.workspace)
        real = judged_path(root, run)
        with as_tool_errors(root, run.workspace):
            if not stat.S_ISDIR(stat_real(real).st_mode):
                raise ToolError(f"{quoted_name(root)} is not a directory.")
        listing = await list_files(str(real))
        is_hidden = hidden_filter(self.name, root, real, run.workspace)
        label, notes = prefix(root, run.workspace), made_by_commands(real, run.workspace)
        output = await asyncio.to_thread(_select, listing, real, pattern, label, notes, is_hidden)
        if output.summary != "no files":
            return output
        ignored = await list_ignored(str(real), listing)
        return await asyncio.to_thread(_with_ignored, output, ignored, pattern, is_hidden)


def _split(arguments: JsonObject, workspace: Workspace) -> tuple[Path, str]:
    """Split a pattern into the directory to start in, and the rest."""
    root = workspace.resolve(as_str(arguments.get("path")) or ".")
    pattern = as_str(arguments["pattern"])
    if pattern.startswith(("/", "~")):
        anchor, _, pattern = pattern.partition("/")
        root = workspace.resolve(anchor or "/")
        pattern = pattern.lstrip("/")
    parts = pattern.split("/")
    while len(parts) > 1 and not re.search(r"[*?\[{\\]", parts[0]):
        root = find_path(root / parts.pop(0))
    return root, "/".join(parts)


def _with_ignored(output: ToolOutput, ignored: list[str], pattern: str, is_hidden: Callable[[str], bool]) -> ToolOutput:
    """Return the answer of an unsuccessful search, with the number of matching files that git ignores."""
    from sagent.lib.lookalike import canonical
    from sagent.lib.text import count
    from sagent.tools.globs import glob_regex

    regex = re.compile(glob_regex(canonical(_whole(pattern))), re.DOTALL)
    found = sorted(path for path in ignored if regex.fullmatch(canonical(path)) and not is_hidden(path))
    if not found:
        return output
    match, those = ("matches", "It was") if len(found) == 1 else ("match", "They were")
    note = (
        f"({count(len(found), 'file')} that git ignores {match}, as {quote_path(found[0])}. {those} skipped: use List.)"
    )
    return ToolOutput.of(
        f"{''.join(part.text for part in output.content if isinstance(part, Text))}\n{note}", summary=output.summary
    )


def _whole(pattern: str) -> str:
    """Return the pattern, extended to everything below if it names a directory."""
    return f"{pattern}**" if not pattern or pattern.endswith("/") else pattern


def _select(
    listing: "Listing", root: Path, pattern: str, label: str, notes: list[str], is_hidden: Callable[[str], bool]
) -> ToolOutput:
    from sagent.lib.lookalike import canonical, skeleton
    from sagent.lib.names import quote_exactly
    from sagent.lib.regular import is_regular
    from sagent.tools.globs import glob_regex
    from sagent.tools.search import INCOMPLETE_NOTE, left_out_note

    pattern = _whole(pattern)
    regex = re.compile(glob_regex(canonical(pattern)), re.DOTALL)
    matching = sorted(path for path in listing.files if regex.fullmatch(path) or regex.fullmatch(canonical(path)))
    found = [path for path in matching if not is_hidden(path)]
    # a directory may have become a link while its names were read
    there = islice((path for path in found if is_regular(f"{root}/{path}")), _MAX_PATHS)
    lines = [quote_path(label + path) for path in there]
    if len(lines) < min(len(found), _MAX_PATHS):
        lines.append("(Files that cannot be looked at are not shown.)")
    if not found:
        hint, name = "", pattern.removeprefix("**/")
        for wider in (f"**/{name}/**", f"**/{name}"):
            deeper = re.compile(glob_regex(wider), re.DOTALL)
            count = sum(1 for path in listing.files if deeper.fullmatch(path) and not is_hidden(path))
            hint = f' "{wider}" would match {count}.' if count else hint
        alike = re.compile(glob_regex(skeleton(pattern)), re.DOTALL)
        likely = [path for path in listing.files if alike.fullmatch(skeleton(path)) and not is_hidden(path)][:5]
        if likely:
            hint = f" These look like it, and have other characters: {', '.join(map(quote_exactly, likely))}"
        lines.append(f"No files match.{hint}")
    if len(found) > _MAX_PATHS:
        lines.append(f"(And {len(found) - _MAX_PATHS} more. Narrow the pattern or the path.)")
    if len(found) < len(matching):
        lines.append(left_out_note(len(matching) - len(found), "not shown"))
    closed = [quote_path(label + directory) for directory in listing.closed if not is_hidden(directory)]
    if closed:
        more = f" and {len(closed) - 5} more" if len(closed) > 5 else ""
        lines.append(f"(Not listed, because they could not be read: {', '.join(closed[:5])}{more}.)")
    if listing.cut:
        lines.append(INCOMPLETE_NOTE)
    return ToolOutput.of("\n".join([*lines, *notes]), summary=f"{len(found)} files" if found else "no files")
