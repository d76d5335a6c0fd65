"""What a person is shown, as it goes to a file."""

from collections.abc import Iterable
from io import StringIO

from sagent.cli.tables import write
from sagent.lib.text import Table


def drawn(blocks: Iterable[str | Table]) -> list[str]:
    """The lines."""
    out = StringIO()
    write(out, blocks)
    return out.getvalue().splitlines()
