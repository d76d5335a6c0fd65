"""Jupyter notebooks as cells with their outputs."""

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import groupby

from sagent.lib.json import as_array, as_object, as_str
from sagent.messages import Image, Text
from sagent.tool import Media, ToolOutput
from sagent.tools.capture import without_colours
from sagent.tools.media import media_in

_MAX_OUTPUT_CHARS = 4_000  # of one output
_MAX_TEXT_CHARS = 50_000
_MAX_IMAGES = 10
_WORDY = ("text/markdown", "application/json", "text/latex", "text/html")


def show_notebook(data: bytes) -> ToolOutput | None:
    """Return the cells, or None when the bytes are not a notebook."""
    try:
        notebook = as_object(json.loads(data))
    except (ValueError, RecursionError):
        return None
    if "cells" not in notebook:
        return None
    cells = as_array(notebook["cells"])
    parts: list[Media] = [Text(f"(Notebook of {len(cells)} cells. To edit it, read its JSON with offset and limit.)\n")]
    size = images = 0
    for number, cell in enumerate(cells, 1):
        for part in _cell(as_object(cell), number):
            if isinstance(part, Image):
                images += 1
                if images <= _MAX_IMAGES:
                    parts.append(part)
                continue
            size += len(part.text)
            if size > _MAX_TEXT_CHARS:
                parts.append(Text(f"(Cells from {number} on are left out. Read the JSON with offset and limit.)"))
                return ToolOutput(_joined(parts), summary=f"{number - 1} of {len(cells)} cells")
            parts.append(part)
    if images > _MAX_IMAGES:
        parts.append(Text(f"({images - _MAX_IMAGES} more images are left out.)"))
    return ToolOutput(_joined(parts), summary=f"{len(cells)} cells")


def _joined(parts: list[Media]) -> tuple[Media, ...]:
    """Merge neighbouring texts."""
    joined: list[Media] = []
    for _, group in groupby(parts, type):
        same = list(group)
        texts = [part.text for part in same if isinstance(part, Text)]
        joined += [Text("".join(texts))] if texts else same
    return tuple(joined)


def _cell(cell: Mapping[str, object], number: int) -> Iterator[Text | Image]:
    kind = as_str(cell.get("cell_type"), "unknown")
    yield Text(f"\n--- cell {number}: {kind} ---\n{joined_text(cell.get('source'))}\n")
    for item in as_array(cell.get("outputs")):
        output = as_object(item)
        if "ename" in output:
            trace = "\n".join(map(as_str, as_array(output.get("traceback"))))
            yield _output(without_colours(trace) or f"{output['ename']}: {output.get('evalue')}")
        elif "text" in output:
            yield _output(joined_text(output["text"]))
        yield from _data(as_object(output.get("data")))


def _data(data: Mapping[str, object]) -> Iterator[Text | Image]:
    for kind in ("image/png", "image/jpeg"):
        with suppress(ValueError):  # no image, or none that providers accept
            if isinstance(image := media_in(b64decode(joined_text(data.get(kind))), "output"), Image):
                yield image
                return
    if text := output_text(data):
        yield _output(text)


def output_text(data: Mapping[str, object]) -> str:
    """Return an output as text: Markdown or the like if its plain text only names a class of IPython's."""
    plain = joined_text(data.get("text/plain"))
    kinds = () if plain and not plain.startswith("<IPython.core.display.") else _WORDY
    kind = next((kind for kind in kinds if kind in data), "")
    return json.dumps(data[kind]) if kind == "application/json" else joined_text(data.get(kind)) or plain


def _output(text: str) -> Text:
    cut = f"... [{len(text) - _MAX_OUTPUT_CHARS} characters cut]" if len(text) > _MAX_OUTPUT_CHARS else ""
    return Text(f"--- output ---\n{text[:_MAX_OUTPUT_CHARS].rstrip()}{cut}\n")


def joined_text(value: object) -> str:
    """Return a text of a notebook, which may be stored as a list of lines."""
    return value if isinstance(value, str) else "".join(map(as_str, as_array(value)))
