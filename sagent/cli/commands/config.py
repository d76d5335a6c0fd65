"""`sagent config`: every setting and where it comes from; whether the settings file of a folder is to be used."""

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

DESCRIPTION = """show: every setting, its value and where it comes from. trust: have sagent run use the config.yaml of
its folder, as it is now, each time."""


def run_config(argv: Sequence[str]) -> int:
    parser = Parser("config", DESCRIPTION)
    parser.add_argument("operation", choices=["show", "trust"])
    parser.add_argument("file", nargs="?", metavar="FILE", help="what to trust (config.yaml)")
    parser.add_config()
    given = parser.parse_args(argv)
    if given.operation == "trust":
        return _trust(given)
    if given.file is not None:
        raise UsageError(f"config show takes no {given.file!r}: to see what a file would set, give --config FILE.")
    settings = load_settings({"config": given.config})
    write(binary_safe(sys.stdout), [Table(tuple((row.name, row.value, f"({row.origin})") for row in show(settings)))])
    write(binary_safe(sys.stderr), (f"sagent: warning: {warning}" for warning in settings.warnings))
    return 0


def _trust(given: argparse.Namespace) -> int:
    """Show what a settings file says, and keep that it is the person's."""
    from sagent.config.files import parse_file
    from sagent.config.trust import find_nearby, trust_nearby

    if given.config is not None:
        raise UsageError("config trust takes the file without --config: sagent config trust config.yaml")
    path = Path(given.file or "config.yaml").absolute()
    found = find_nearby(path.parent)
    if found is None or found[0] != path:
        raise UsageError(f"{path} is no file that sagent run would use: it is to be named config.yaml or config.yml, "
                         "and to name an executor or an advisor.")  # fmt: skip
    path, raw = found
    settings = load_settings({"config": parse_file(path, raw)})
    out = binary_safe(sys.stdout)
    write(out, [Table(tuple((row.name, row.value) for row in show(settings) if row.origin.startswith(str(path))))])
    try:
        kept = trust_nearby(path, raw, settings.state_dir)
    except OSError as error:
        raise UsageError(f"Your answer cannot be kept: {error.strerror or error} ({error.filename}).") from error
    write(out, [f"sagent run in {path.parent} uses this from now on, until the file changes. To end that: rm {kept}"])
    return 0
