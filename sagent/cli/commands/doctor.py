"""`sagent doctor`: what works on this machine and what does not, as `/doctor` shows it."""

import asyncio
import sys
from collections.abc import Sequence

from sagent.cli.flags import Parser
from sagent.cli.render import binary_safe
from sagent.cli.settings import load_settings
from sagent.cli.tables import write
from sagent.lib.text import Table

MARKS = {"good": "✓", "poor": "!", "bad": "✗"}


def run_doctor(argv: Sequence[str]) -> int:
    """Check keys, providers, programs, the terminal and directories; 1 where something does not work."""
    parser = Parser("doctor", run_doctor.__doc__)
    parser.add_cwd()
    parser.add_config()
    settings = load_settings(vars(parser.parse_args(argv)))
    from sagent.repl.doctor import examine

    found = asyncio.run(examine(settings))
    write(binary_safe(sys.stdout), [Table(tuple((f"{MARKS[each.state]} {each.what}", each.detail) for each in found))])
    return 1 if any(each.state == "bad" for each in found) else 0
