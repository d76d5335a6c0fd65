"""The Read tool: text with line numbers, images, PDF pages, notebooks."""

from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from sagent.errors import ToolError
from sagent.lib.json import JsonObject, as_int, as_str, json_freeze_object
from sagent.tool import Effect, RunContext, ToolOutput, Workspace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader

_SMALL = 1_000_000  # bytes; more is read in a thread
_MOST = 50_000_000  # bytes; of more only the part asked for is read

_MOST_LINE = 1_000_000  # bytes of a line that are kept


class Read:
    """Shows a file, a bounded part at a time, and remembers it as seen."""

    name = "Read"
    quick = True
    description = (
        "Read a file: text as numbered lines (number, tab, line), up to 2000 at a time from line offset; images; "
        "notebooks as cells; PDFs as text, and with pages as pictures too. Several files can be read in one turn."
    )
    parameters = json_freeze_object(
        {
            "type": "object",
            "properties": {
                "file_path": {"type": "string", "description": "absolute, or relative to the working directory"},
                "offset": {"type": "integer", "minimum": 1, "description": "first line, from 1"},
                "limit": {"type": "integer", "minimum": 1, "description": "number of lines"},
                "pages": {"type": "string", "description": 'of a PDF, at most 10: "1-5,8"'},
            },
            "required": ["file_path"],
            "additionalProperties": False,
        }
    )

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        """Reads one file."""
        return Effect("read", (workspace.resolve(as_str(arguments["file_path"])),))

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Show it. Raises ToolError for what is missing, not a regular file, or binary."""
        from sagent.tools.offload import offload
        from sagent.tools.paths import missing, unreadable

        path = run.workspace.resolve(as_str(arguments["file_path"]))
        try:
            size = path.stat().st_size
            if path.is_dir():
                raise ToolError(f"{path} is a directory. Use List or Glob to see what is in it.")
            if size > _MOST:
                return await offload(lambda stop: _show_part(path, arguments, run.workspace, stop))
            if size > _SMALL or path.suffix.lower() in {".pdf", ".ipynb"}:
                return await offload(lambda stop: _show(path, arguments, run.workspace, stop))
            return _show(path, arguments, run.workspace, Event())
        except FileNotFoundError:
            raise missing(path, run.workspace) from None
        except OSError as error:
            raise unreadable(path, error) from None


def _show(path: Path, arguments: JsonObject, workspace: Workspace, stop: Event) -> ToolOutput:
    from sagent.tools.textfile import read_bytes

    data = read_bytes(path)
    output = _view(data, path, arguments, stop)
    workspace.saw(path, data)
    return output


def _view(data: bytes, path: Path, arguments: JsonObject, stop: Event) -> ToolOutput:
    if data.startswith(b"%PDF-"):
        from sagent.tools.pdf import show_pdf

        return show_pdf(data, path.name, as_str(arguments.get("pages")), stop)
    if "pages" in arguments:
        raise ToolError(f"pages is for PDF files, which {path.name} is not. Use offset and limit.")
    if path.suffix == ".ipynb" and not {"offset", "limit"} & set(arguments):
        from sagent.tools.notebook import show_notebook

        if (output := show_notebook(data)) is not None:
            return output
    from sagent.tools.image import show_image

    return show_image(data, path.name) or _show_text(data, path, arguments)


def _show_text(data: bytes, path: Path, arguments: JsonObject) -> ToolOutput:
    from sagent.tools.textfile import Binary, decode
    from sagent.tools.view import number_lines, split_lines

    decoded = decode(data)
    if isinstance(decoded, Binary):
        raise ToolError(f"{path.name} is not text: it is {decoded.kind} ({len(data)} bytes). Use a command on it.")
    if not data:
        return ToolOutput.of("(The file is empty.)", summary="empty")
    lines = split_lines(decoded.text)
    offset, limit = _window(arguments)
    if offset > len(lines):
        raise ToolError(f"{path.name} has only {len(lines)} lines; offset {offset} is beyond its end.")
    view = number_lines(lines[offset - 1 : offset - 1 + limit], offset, len(lines))
    notes = [] if decoded.encoding.codec == "utf-8" and not decoded.encoding.mixed else [decoded.encoding.name]
    if "\r\n" in decoded.text:
        notes.append("CRLF line ends")
    text = (f"({', '.join(notes)})\n" if notes else "") + view.text
    return ToolOutput.of(text, summary=f"{view.shown} of {len(lines)} lines")


def _show_part(path: Path, arguments: JsonObject, workspace: Workspace, stop: Event) -> ToolOutput:
    """A very large text: only the lines asked for are kept."""
    from sagent.tool import Stamp
    from sagent.tools.textfile import Binary, decode, read_bytes
    from sagent.tools.view import number_lines

    head = read_bytes(path, 8192)
    # a multi-byte character may be cut at the end of the head
    decoded = decode(head.rpartition(b"\n")[0] or head[:-3])
    if isinstance(decoded, Binary) or decoded.encoding.codec.startswith(("utf-16", "utf-32")):
        kind = decoded.kind if isinstance(decoded, Binary) else decoded.encoding.name
        raise ToolError(f"{path.name} is larger than {_MOST} bytes and is {kind}. Look into it with a command.")
    offset, limit = _window(arguments)
    lines: list[str] = []
    more = False
    with path.open("rb") as file:
        stat = path.stat()
        for number, line in enumerate(_starts(file), 1):
            if stop.is_set() or number >= offset + limit:
                more = True
                break
            if number >= offset:
                lines.append(line.decode(decoded.encoding.codec, "replace").rstrip("\r\n"))
    if not lines:
        raise ToolError(f"offset {offset} is beyond the end of {path.name}.")
    workspace.seen[path.resolve()] = Stamp(stat.st_mtime_ns, stat.st_size, "")
    view = number_lines(lines, offset, None if more else offset + len(lines) - 1)
    return ToolOutput.of(f"({stat.st_size} bytes)\n{view.text}", summary=f"{view.shown} lines")


def _starts(file: "BufferedReader") -> "Iterator[bytes]":
    """The starts of a file's lines, however long the lines are."""
    while start := file.readline(_MOST_LINE):
        piece = start
        while piece and not piece.endswith(b"\n"):
            piece = file.readline(_MOST_LINE)
        yield start


def _window(arguments: JsonObject) -> tuple[int, int]:
    from sagent.tools.view import MOST_LINES

    return max(1, as_int(arguments.get("offset"), 1)), min(MOST_LINES, as_int(arguments.get("limit"), MOST_LINES))
