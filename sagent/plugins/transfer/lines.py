"""Lenient reading of transcripts: JSON objects line by line, without the damaged ones."""

import os
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Mapping
from contextlib import suppress
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.errors import UsageError
from sagent.lib.json import EMPTY, as_object, json_parse
from sagent.lib.regular import open_given

if TYPE_CHECKING:
    from sagent.plugins.transfer.steps import Draft

MAX_LINE_CHARS = 64 << 20
"""Characters of a line; longer ones are left out."""
MAX_FILE_BYTES = 1 << 30
"""Bytes of a transcript that are read."""
_ZSTD = b"\x28\xb5\x2f\xfd"
_LONE = "\ufffd"


def read_objects(file: Path, draft: "Draft") -> Iterator[Mapping[str, object]]:
    """Yield the JSON objects of a file with one in each line. Damaged, cut and very long lines are left out and
    counted. Raises UsageError if the file cannot be read."""
    try:
        raw = open_given(file)
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: {getattr(error, 'strerror', None) or error}.") from error
    with raw:
        start = raw.peek(4)[:4]
        if start.startswith(_ZSTD):
            raise UsageError(f"{file} is compressed: `zstd -d` makes a file that can be read.")
        if start == b"SQLi":
            raise UsageError(f"{file} is a database: name a session in it by its id, with --from opencode.")
        wide = start.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
        encoding = "utf-16" if wide else "utf-8-sig" if start.startswith(BOM_UTF8) else "utf-8"
        text = TextIOWrapper(raw, encoding, "replace", "\n")
        try:
            yield from _objects(text, draft)
        except OSError as error:
            draft.leave_out(f"the rest of a file that could not be read ({error.strerror or error})")
        beyond = os.fstat(raw.fileno()).st_size - MAX_FILE_BYTES
        if beyond > 0:
            draft.leave_out("a byte beyond the first GiB", beyond)


def _objects(text: TextIOWrapper, draft: "Draft") -> Iterator[Mapping[str, object]]:
    """Yield the objects of the lines within the first bytes."""
    read = 0
    while read < MAX_FILE_BYTES and (line := text.readline(MAX_LINE_CHARS)):
        read += len(line)
        if not line.endswith("\n") and len(line) >= MAX_LINE_CHARS:
            draft.leave_out("a line of more than 64 MiB")
            while (line := text.readline(MAX_LINE_CHARS)) and not line.endswith("\n"):
                read += len(line)
            continue
        if not line.strip():
            continue
        try:
            value = json_parse(line.strip("\ufeff \t\r\n\x00"))
        except (ValueError, RecursionError):
            draft.leave_out("a damaged line" if line.endswith("\n") else "a last line that is cut")
            continue
        if not (members := as_object(value)):
            draft.leave_out("a line that is no object")
            continue
        if _LONE in line and "\\ufffd" not in line:
            draft.leave_out("bytes of a line that are not UTF-8, each replaced by \ufffd")
        yield members


def first_object(file: Path) -> Mapping[str, object]:
    """Return the first object of a file; empty for another file, and for one that cannot be read."""
    return next(first_objects(file), EMPTY)


def first_objects(file: Path, most: int = 50) -> Iterator[Mapping[str, object]]:
    """Yield the first objects of a file; none of one that cannot be read."""
    from sagent.plugins.transfer.steps import Draft

    with suppress(UsageError):
        yield from islice(read_objects(file, Draft("claude", own=False)), most)
