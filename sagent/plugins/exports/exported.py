"""Interface of a format of exported sessions: its input and output."""

import sys
from codecs import iterdecode
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.lib.atomic import atomic_output
from sagent.lib.dataclass import dataclass
from sagent.transcript.redaction import Redaction

if TYPE_CHECKING:
    from sagent.config import Settings


@dataclass(frozen=True, slots=True)
class Exporting:
    """A session to export to `out`, or with None to standard output. All text goes through `redaction`, which removes
    likely secrets."""

    session: Path
    redaction: Redaction
    out: Path | None
    settings: "Settings"

    def put(self, pieces: Iterable[bytes]) -> None:
        """Write to a file whole or not at all, for its owner alone; or to standard output: byte by byte, but as text to
        a terminal. Raises OSError."""
        if self.out is not None:
            with atomic_output(self.out) as file:
                file.writelines(pieces)
        elif sys.stdout.isatty():
            sys.stdout.writelines(iterdecode(pieces, "utf-8", "backslashreplace"))
        else:
            for piece in pieces:
                sys.stdout.buffer.write(piece)


@dataclass(frozen=True, slots=True)
class Exported:
    """Outcome of an export: the number of removed secrets, changed entries and blobs, and problems of the exported
    session. `id` is that of a bundle's manifest; `unsearched` are blobs that are not text."""

    secrets: int = 0
    entries: int = 0
    blobs: int = 0
    unsearched: int = 0
    id: str = ""
    problems: tuple[str, ...] = ()
