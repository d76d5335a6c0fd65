"""`sagent config show`: every setting and where it comes from."""

import sys
from collections.abc import Sequence

from sagent.cli.flags import Parser
from sagent.cli.render import binary_safe
from sagent.cli.settings import load_settings
from sagent.cli.tables import write
from sagent.config.report import show
from sagent.lib.text import Table


def run_config(argv: Sequence[str]) -> int:
    """Show every setting, its value and where it comes from."""
    parser = Parser("config", run_config.__doc__)
    parser.add_argument("operation", choices=["show"])
    parser.add_config()
    settings = load_settings({"config": parser.parse_args(argv).config})
    write(binary_safe(sys.stdout), [Table(tuple((row.name, row.value, f"({row.origin})") for row in show(settings)))])
    write(binary_safe(sys.stderr), (f"sagent: warning: {warning}" for warning in settings.warnings))
    return 0
