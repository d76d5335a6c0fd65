"""Lines and tables that others may read."""

from dataclasses import replace
from typing import TYPE_CHECKING

from sagent.lib.text import Table

if TYPE_CHECKING:
    from sagent.transcript.redaction import Redaction


def without_secrets(block: str | Table, redaction: "Redaction") -> str | Table:
    """A line, or a table, without what looks like a secret."""
    if isinstance(block, str):
        return redaction.text(block)
    return replace(block, rows=tuple(tuple(map(redaction.text, row)) for row in block.rows))
