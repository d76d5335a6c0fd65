"""Display of a file by Read: numbered lines, bounded, with a note on how to continue; images, notebooks, PDF pages."""

import os
from collections.abc import Iterator, Sequence
from io import BufferedReader
from itertools import islice
from pathlib import Path
from threading import Event
from time import monotonic

from sagent.errors import ToolError
from sagent.lib.encoding import Binary, decode
from sagent.lib.image import image_type
from sagent.lib.json import JsonObject, as_int, as_str, valid_text
from sagent.lib.pace import offload
from sagent.tool import Stamp, ToolOutput, Workspace

_MAX_INLINE_BYTES = 1_000_000  # more is looked through in a thread
_MAX_FILE_BYTES = 50_000_000  # of a larger one only the requested part is read
_MAX_LINE_BYTES = 1_000_000  # in a file larger than that
_MAX_LINES = 2000
_MAX_TEXT_CHARS = 50_000
_MAX_LINE_CHARS = 2000
_SCAN_SECONDS = 20  # to search a file for the requested lines


async def show(path: Path, real: Path, file: BufferedReader, arguments: JsonObject, workspace: Workspace) -> ToolOutput:
    """Return a file at the real path `real`, or the requested part of it. Raises ToolError and OSError."""
    offset = max(1, as_int(arguments.get("offset"), 1))
    limit = min(_MAX_LINES, as_int(arguments.get("limit"), _MAX_LINES))
    stat = os.fstat(file.fileno())
    if stat.st_size > _MAX_FILE_BYTES:
        output = await offload(lambda stop: _show_part(file, path.name, offset, limit, stop))
        workspace.known_files[real] = Stamp(stat.st_mtime_ns, stat.st_size, "")
        return output
    small = stat.st_size <= _MAX_INLINE_BYTES
    data = await offload(lambda _: file.read(_MAX_FILE_BYTES), small=small)
    output, is_pdf = None, data.startswith(b"%PDF-")
    if arguments.get("pages") and not is_pdf:
        raise ToolError(f"pages is for PDF files, which {path.name} is not. Use offset and limit.")
    if is_pdf or (path.suffix == ".ipynb" and not {"offset", "limit"} & set(arguments)):
        from sagent.tools.document import show_document

        form = "pdf" if is_pdf else "notebook"
        output = await show_document(form, data, path.name, as_str(arguments.get("pages")))
    if output is None and image_type(data):
        from sagent.tools.media import show_image

        output = await offload(lambda _: show_image(data, path.name))
    if output is None:
        output = await offload(lambda _: _show_text(data, path.name, offset, limit), small=small)
    await offload(lambda _: workspace.saw(real, data, stat), small=small)
    return output


def _show_text(data: bytes, name: str, offset: int, limit: int) -> ToolOutput:
    decoded = decode(data)
    if isinstance(decoded, Binary):
        raise ToolError(f"{name} is not text: it is {decoded.kind} ({len(data)} bytes). Use a command on it.")
    if not data:
        return ToolOutput.of("(The file is empty.)", summary="empty")
    lines = _split_lines(decoded.text)
    if offset > len(lines):
        raise ToolError(f"{name} has only {len(lines)} lines; offset {offset} is beyond its end.")
    text, shown = _number_lines(lines[offset - 1 : offset - 1 + limit], offset, len(lines))
    notes = [] if decoded.encoding.codec == "utf-8" and not decoded.encoding.mixed else [decoded.encoding.name]
    if "\r\n" in decoded.text:
        notes.append("CRLF line ends")
    return ToolOutput.of((f"({', '.join(notes)})\n" if notes else "") + text, summary=f"{shown} of {len(lines)} lines")


def _show_part(file: BufferedReader, name: str, offset: int, limit: int, stop: Event) -> ToolOutput:
    """Return the requested lines of a very large text."""
    head = file.read(8192)
    # a multi-byte character may be cut at the end of the head
    decoded = decode(head.rpartition(b"\n")[0] or head[:-3])
    if isinstance(decoded, Binary) or decoded.encoding.codec.startswith(("utf-16", "utf-32")):
        kind = decoded.kind if isinstance(decoded, Binary) else decoded.encoding.name
        raise ToolError(f"{name} is larger than {_MAX_FILE_BYTES} bytes and is {kind}. Look into it with a command.")
    file.seek(0)
    found = list(islice(_starts(file, stop), offset - 1, offset + limit))
    if not found:
        raise ToolError(f"offset {offset} is beyond the end of {name}.")
    lines = [line.decode(decoded.encoding.codec, "replace").rstrip("\r\n") for line in found[:limit]]
    text, shown = _number_lines(lines, offset, None if len(found) > limit else offset + len(lines) - 1)
    return ToolOutput.of(f"({os.fstat(file.fileno()).st_size} bytes)\n{text}", summary=f"{shown} lines")


def _starts(file: BufferedReader, stop: Event) -> Iterator[bytes]:
    """Yield the starts of a file's lines, however long these are. Raises ToolError if that takes too long."""
    end = monotonic() + _SCAN_SECONDS
    while start := file.readline(_MAX_LINE_BYTES):
        piece = start
        while piece:
            if stop.is_set() or monotonic() > end:
                raise ToolError(f"Its lines could not be counted in {_SCAN_SECONDS} s. Look into it with a command.")
            piece = b"" if piece.endswith(b"\n") else file.readline(_MAX_LINE_BYTES)
        yield start


def _split_lines(text: str) -> list[str]:
    """Split lines at LF, CRLF, or CR if there is nothing else."""
    if "\r" in text:
        text = text.replace("\r\n", "\n") if "\n" in text else text.replace("\r", "\n")
    return text.removesuffix("\n").split("\n") if text else []


def _number_lines(lines: Sequence[str], first: int, total: int | None) -> tuple[str, int]:
    """Number as many lines from `first` as fit, and return them with their count. `total` is None if the file's lines
    were not counted."""
    shown: list[str] = []
    size = 0
    for number, line in enumerate(lines, first):
        beyond = len(line) - _MAX_LINE_CHARS
        text = line if beyond <= 0 else f"{line[:_MAX_LINE_CHARS]}... [{beyond} characters cut]"
        size += len(text) + len(str(number)) + 2
        if size > _MAX_TEXT_CHARS and shown:
            break
        shown.append(f"{number}\t{text}")
    last = first + len(shown) - 1
    text = "\n".join(shown)
    if not text.isascii():
        text = valid_text(text)
    if total is None or last < total:
        of = f" of {total}" if total is not None else ""
        text += f"\n\n(Lines {first} to {last}{of}. Go on with offset {last + 1}.)"
    return text, len(shown)
