"""The Edit tool: exact replacements in a file, all of them or none."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.errors import ToolError
from sagent.lib.json import JsonObject, as_str, json_freeze_object, valid_text
from sagent.tool import Effect, RunContext, ToolOutput, Workspace

if TYPE_CHECKING:
    from sagent.tools.replacement import Replacement
    from sagent.tools.textfile import Encoding

_LARGE = 200_000  # bytes; more is handled in a thread
_MOST = 50_000_000  # bytes; more is not text anybody edits by quoting it
_TEXTS = {"old_string": {"type": "string"}, "new_string": {"type": "string"}, "replace_all": {"type": "boolean"}}


class Edit:
    """Replaces exact text. Everything else in the file keeps its bytes: encoding, byte order mark, line ends."""

    name = "Edit"
    quick = True
    description = (
        "Replace text in a file that you have Read. old_string must be copied exactly from the file, without the line "
        "numbers, and occur once (add lines around it) unless replace_all. For several changes in one file give edits "
        "instead of old_string and new_string: applied in order, all or none. An empty old_string creates a new file."
    )
    parameters = json_freeze_object(
        {
            "type": "object",
            "properties": {
                "file_path": {"type": "string"},
                **_TEXTS,
                "edits": {
                    "type": "array",
                    "minItems": 1,
                    "items": {"type": "object", "properties": _TEXTS, "required": ["old_string", "new_string"]},
                },
            },
            "required": ["file_path"],
            "additionalProperties": False,
        }
    )

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        return Effect("write", (workspace.resolve(as_str(arguments["file_path"])),))

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Apply the edits. Raises ToolError when one cannot be, with nothing changed."""
        from sagent.tools.replacement import read_replacements

        path = run.workspace.resolve(as_str(arguments["file_path"]))
        replacements = read_replacements(arguments)
        try:
            large = path.stat().st_size > _LARGE
        except OSError:
            large = False
        if large:
            return await asyncio.to_thread(_edit, path, replacements, run.workspace)
        return _edit(path, replacements, run.workspace)


def _edit(path: Path, replacements: "list[Replacement]", workspace: Workspace) -> ToolOutput:
    from sagent.tools.change import changed_lines, unified_diff
    from sagent.tools.paths import short, unreadable
    from sagent.tools.replacement import replace
    from sagent.tools.textfile import write_atomic

    name = short(path, workspace)
    try:
        before, encoding = _read(path, replacements, workspace)
        after, count = before, 0
        for index, replacement in enumerate(replacements):
            try:
                after, done = replace(after, replacement)
            except ToolError as error:
                which = f"Edit {index + 1} of {len(replacements)}: " if len(replacements) > 1 else ""
                raise ToolError(f"{which}{error} {name} was not changed.") from None
            count += done
        data = encoding.encode(after)
        write_atomic(path, data)
        workspace.saw(path, data)
    except OSError as error:
        raise unreadable(path, error) from None
    said = f"Edited {name}: {count} replacement{'s' if count > 1 else ''}."
    shown = valid_text(changed_lines(before, after))
    return ToolOutput.of(f"{said}\n{shown}", summary=said, diff=valid_text(unified_diff(before, after, name)))


def _read(path: Path, replacements: "list[Replacement]", workspace: Workspace) -> "tuple[str, Encoding]":
    """The text to edit: that of the file, which the agent must have seen as it is; "" for one to be created."""
    from sagent.tools.paths import missing
    from sagent.tools.textfile import UTF8, Binary, decode, read_bytes

    creates = replacements[0].old == ""
    try:
        data = read_bytes(path, _MOST + 1)
    except FileNotFoundError:
        if creates:
            return "", UTF8
        raise missing(path, workspace) from None
    if creates and data:
        raise ToolError(f"{path} exists; an empty old_string creates files. Quote the text to replace, or use Write.")
    if len(data) > _MOST:
        raise ToolError(f"{path} is larger than {_MOST // 1_000_000} MB. Change it with a command.")
    workspace.check_unchanged(path)
    decoded = decode(data)
    if isinstance(decoded, Binary):
        raise ToolError(f"{path} is not text: it is {decoded.kind}. Change it with a command.")
    return decoded.text, decoded.encoding
