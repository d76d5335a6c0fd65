"""`sagent sessions repair`: the intact part of damaged logs."""

import sys
from collections.abc import Sequence

from sagent.cli.flags import Parser
from sagent.cli.settings import load_settings, session_path
from sagent.lib.text import count
from sagent.plugins.audit.repair import repair


def run_repair(argv: Sequence[str]) -> int:
    """Repair sessions, and print what was kept and lost. Raises UsageError and SessionCorrupt."""
    parser = Parser("sessions repair", "Keep the intact part of damaged logs. The files as they were are kept too.")
    parser.add_argument("session", nargs="+", help="a path, an id or the beginning of an id")
    parser.add_cwd()
    given = parser.parse_args(argv)
    settings = load_settings({"cwd": given.cwd})
    for name in given.session:
        path = session_path(settings, name)
        repairs = repair(path)
        for done in repairs:
            outcome = [f"kept {count(done.kept, 'entry', 'entries')}"]
            outcome += [f"put {count(done.mended, 'line')} back as written"] if done.mended else []
            outcome += [f"lost {done.dropped} bytes in {count(done.gaps, 'gap')}"] if done.gaps else []
            sys.stdout.write(f"{done.file}: {', '.join(outcome)}; the file as it was is {done.original}\n")
        if not repairs:
            sys.stdout.write(f"{path}: nothing to repair\n")
    return 0
