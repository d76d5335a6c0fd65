"""The person's pager, for texts that are too long for the scrollback."""

import os
import shlex
import subprocess
from collections.abc import Sequence

from sagent.repl.view.lines import Line
from sagent.repl.view.sgr import styled


def show_in_pager(lines: Sequence[Line], theme: str) -> bool:
    """Show lines in $PAGER or less, until the person leaves it; return False if there is none. Blocks: for a thread."""
    text = "".join(f"{styled(line, theme)}\n" for line in lines)
    try:
        argv = shlex.split(os.environ.get("PAGER", "")) or ["less"]
        environment = {"LESS": "-R", "LESSSECURE": "1", **os.environ}  # no commands from within
        return subprocess.run(argv, input=text.encode(errors="replace"), env=environment, check=False).returncode != 127
    except (OSError, ValueError):
        return False
