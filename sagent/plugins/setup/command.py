"""`sagent doctor`: show what works on this machine and what does not, as `/doctor` does."""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from sagent.cli.flags import Parser
from sagent.cli.render import binary_safe
from sagent.cli.settings import load_settings
from sagent.cli.tables import write
from sagent.config import load
from sagent.config.files import File
from sagent.errors import SagentError
from sagent.lib.text import Table

MARKS = {"good": "✓", "poor": "!", "bad": "✗"}


def run_doctor(argv: Sequence[str]) -> int:
    """Check keys, providers, programs, the terminal and directories. Returns 1 if something does not work."""
    parser = Parser("doctor", run_doctor.__doc__)
    parser.add_cwd()
    parser.add_config()
    flags = vars(parser.parse_args(argv))
    from sagent.plugins.setup.doctor import Finding, examine

    wrong: list[Finding] = []
    try:
        settings = load_settings(flags)
    except SagentError as error:  # the rest is looked at without any
        wrong = [Finding("bad", "settings", str(error))]
        plain = {name: value for name, value in os.environ.items() if not name.startswith("SAGENT_")}
        settings = load(environ=plain, cwd=Path("/"), file=File(Path(os.devnull), "", {}))
    found = [*wrong, *asyncio.run(examine(settings, "sagent login"))]
    write(binary_safe(sys.stdout), [Table(tuple((f"{MARKS[each.state]} {each.what}", each.detail) for each in found))])
    return 1 if any(each.state == "bad" for each in found) else 0
