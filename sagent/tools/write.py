"""The Write tool: a whole file, replaced in one step."""

import asyncio
from pathlib import Path

from sagent.errors import ToolError
from sagent.lib.json import JsonObject, as_str, json_freeze_object, valid_text
from sagent.tool import Effect, RunContext, ToolOutput, Workspace

_LARGE = 1_000_000  # bytes; more is handled in a thread
_MOST = 50_000_000  # bytes; what a larger file held is not looked at


class Write:
    """Creates or replaces a file: atomic; mode, encoding, byte order mark and CRLF line ends stay as they were."""

    name = "Write"
    quick = True
    description = (
        "Create a file, or replace the whole of one that you have Read before. Missing directories are created. "
        "To change part of a file use Edit."
    )
    parameters = json_freeze_object(
        {
            "type": "object",
            "properties": {"file_path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["file_path", "content"],
            "additionalProperties": False,
        }
    )

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        return Effect("write", (workspace.resolve(as_str(arguments["file_path"])),))

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Write it. Raises ToolError for a file that was not read, or has changed since."""
        path = run.workspace.resolve(as_str(arguments["file_path"]))
        content = valid_text(as_str(arguments["content"]))
        if len(content) > _LARGE:
            return await asyncio.to_thread(_write, path, content, run.workspace)
        return _write(path, content, run.workspace)


def _write(path: Path, content: str, workspace: Workspace) -> ToolOutput:
    from sagent.tools.change import unified_diff
    from sagent.tools.paths import short, unreadable
    from sagent.tools.textfile import write_atomic

    name = short(path, workspace)
    try:
        before, data, note = _as_before(path, content)
        workspace.check_unchanged(path)
        write_atomic(path, data)
        workspace.saw(path, data)
    except OSError as error:
        raise unreadable(path, error) from None
    lines = _count(content)
    if before is None:
        said = f"Created {name} ({lines} lines).{note}"
    else:
        said = f"Wrote {name} ({lines} lines, before {_count(before)}).{note}"
    return ToolOutput.of(said, summary=said, diff=valid_text(unified_diff(before or "", content, name)))


def _as_before(path: Path, content: str) -> tuple[str | None, bytes, str]:
    """The text that was there, the bytes to write in its set_display, and what to say about that."""
    from sagent.tools.textfile import UTF8, Binary, decode, read_bytes

    try:
        existing = read_bytes(path, _MOST + 1)
    except FileNotFoundError:
        return None, UTF8.encode(content), ""
    decoded = decode(existing)
    if isinstance(decoded, Binary) or len(existing) > _MOST:
        return "", UTF8.encode(content), ""
    old = decoded.text
    note = ""
    if "\r\n" in old and old.count("\n") == old.count("\r\n"):
        content = content.replace("\r\n", "\n").replace("\n", "\r\n")
        note = " Its CRLF line ends were kept."
    try:
        return old, decoded.encoding.encode(content), note
    except ToolError:
        return old, UTF8.encode(content), f"{note} It was {decoded.encoding.name} and is UTF-8 now."


def _count(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n") and text != "")
