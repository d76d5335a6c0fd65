"""Settings for the command line, and `sagent config show`."""

import sys
from collections.abc import Mapping, Sequence

from sagent.cli.flags import Parser
from sagent.config import Settings, load, show


def load_settings(flags: Mapping[str, object]) -> Settings:
    """The settings in force under these flags. Raises ConfigError."""
    return load(flags)


def run_config(argv: Sequence[str]) -> int:
    """Show every setting, its value and where it comes from."""
    parser = Parser(prog="sagent config", description=run_config.__doc__, allow_abbrev=False)
    parser.add_argument("operation", choices=["show"])
    parser.parse_args(argv)
    settings = load_settings({})
    rows = show(settings)
    width = max(len(row.name) for row in rows)
    for row in rows:
        sys.stdout.write(f"{row.name:{width}}  {row.value}  ({row.origin})\n")
    for warning in settings.warnings:
        sys.stderr.write(f"sagent: warning: {warning}\n")
    return 0
