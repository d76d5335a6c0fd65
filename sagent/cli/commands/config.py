"""`sagent config`: shows every setting with its source; decides whether to trust a folder's settings file."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from sagent.cli.flags import Parser
from sagent.cli.render import binary_safe
from sagent.cli.settings import load_settings
from sagent.cli.tables import write
from sagent.config.report import show
from sagent.errors import UsageError
from sagent.lib.text import Table

DESCRIPTION = """show: print every setting, its value and where it comes from. trust: let sagent run use the config.yaml
of its folder, until the file changes."""


def run_config(argv: Sequence[str]) -> int:
    parser = Parser("config", DESCRIPTION)
    parser.add_argument("operation", nargs="?", default="show", choices=["show", "trust"], help="default: show")
    parser.add_argument("file", nargs="?", metavar="FILE", help="the file to trust (config.yaml)")
    parser.add_config()
    given = parser.parse_args(argv)
    if given.operation == "trust":
        return _trust(given)
    if given.file is not None:
        raise UsageError(
            f"config show takes no argument {given.file!r}: to see what a file would set, give --config FILE."
        )
    settings = load_settings({"config": given.config})
    write(binary_safe(sys.stdout), [Table(tuple((row.name, row.value, f"({row.origin})") for row in show(settings)))])
    write(binary_safe(sys.stderr), (f"sagent: warning: {warning}" for warning in settings.warnings))
    return 0


def _trust(args: argparse.Namespace) -> int:
    """Show a settings file, and save that the person trusts it."""
    from sagent.config.files import parse_file
    from sagent.config.trust import find_nearby, trust_nearby

    if args.config is not None:
        raise UsageError("config trust takes the file as an argument: sagent config trust config.yaml")
    path = Path(args.file or "config.yaml").absolute()
    found = find_nearby(path.parent)
    if found is None or found[0] != path:
        raise UsageError(f"{path} is not a file that sagent run would use: it must be called config.yaml or "
                         "config.yml, and set an executor or an advisor.")  # fmt: skip
    path, raw = found
    settings = load_settings({"config": parse_file(path, raw)})
    out = binary_safe(sys.stdout)
    write(out, [Table(tuple((row.name, row.value) for row in show(settings) if row.origin.startswith(str(path))))])
    try:
        kept = trust_nearby(path, raw, settings.state_dir)
    except OSError as error:
        raise UsageError(f"Your answer cannot be saved: {error.strerror or error} ({error.filename}).") from error
    write(out, [f"sagent run in {path.parent} uses this from now on, until the file changes. To undo this: rm {kept}"])
    return 0
