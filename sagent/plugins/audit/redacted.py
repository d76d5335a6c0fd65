"""Lines and tables without secrets, and a report of the removed ones."""

from dataclasses import replace

from sagent.cli.render import report
from sagent.lib.text import Table
from sagent.transcript.redaction import Redaction


def without_secrets(block: str | Table, redaction: Redaction) -> str | Table:
    """Return a line, or a table, without what looks like a secret."""
    if isinstance(block, str):
        return redaction.text(block)
    return replace(block, rows=tuple(tuple(map(redaction.text, row)) for row in block.rows))


def report_secrets(redaction: Redaction) -> None:
    """Report on standard error the kinds of removed secrets, if any."""
    if redaction.count:
        report(f"secrets taken out, recognized by their form: {redaction.kinds}; read the rest before you share it")
