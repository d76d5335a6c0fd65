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
    """Check keys and who may read them, providers, plugins, extras, the network, programs, the sandbox, the terminal
    and directories, and say what to do next. Returns 1 if something does not work."""
    parser = Parser("doctor", run_doctor.__doc__)
    parser.add_cwd()
    parser.add_config()
    flags = vars(parser.parse_args(argv))
    from sagent.plugins.setup.doctor import Finding, examine
    from sagent.plugins.setup.machine import next_step

    wrong: list[Finding] = []
    try:
        settings = load_settings(flags)
    except SagentError as error:  # the rest is looked at without any
        wrong = [Finding("bad", "settings", str(error))]
        plain = {name: value for name, value in os.environ.items() if not name.startswith("SAGENT_")}
        settings = load(environ=plain, cwd=Path("/"), file=File(Path(os.devnull), "", {}))
    found = [*wrong, *asyncio.run(examine(settings, "sagent login"))]
    rows = tuple((f"{MARKS[each.state]} {each.what}", each.detail) for each in found)
    write(binary_safe(sys.stdout), [Table(rows), "", next_step(found, "`sagent login`")])
    return 1 if any(each.state == "bad" for each in found) else 0
