"""Settings for the command line, and `sagent config show`."""

import sys
from collections.abc import Mapping, Sequence

from sagent.cli.flags import Parser
from sagent.config import Settings, load, show
from sagent.errors import SagentError


def load_settings(flags: Mapping[str, object]) -> Settings:
    """The settings in force under these flags, `config` among them. Raises ConfigError."""
    file = flags.get("config")
    given = {name: value for name, value in flags.items() if name != "config"}
    return load(given, file=None if file is None else str(file))


def load_or_tell(flags: Mapping[str, object]) -> Settings:
    """The settings of a run. What is wrong with them is raised, and told as a result where JSON was asked for."""
    try:
        return load_settings(flags)
    except SagentError as error:
        if flags.get("output_format") in ("json", "stream-json"):
            from sagent.cli.headless import failed
            from sagent.cli.render import JsonRenderer, binary_safe

            JsonRenderer(binary_safe(sys.stdout)).on_result(failed(error))
        raise


def run_config(argv: Sequence[str]) -> int:
    """Show every setting, its value and where it comes from."""
    parser = Parser(prog="sagent config", description=run_config.__doc__, allow_abbrev=False)
    parser.add_argument("operation", choices=["show"])
    parser.add_argument("--config", metavar="FILE", help="as if this were your file")
    settings = load_settings({"config": parser.parse_args(argv).config})
    rows = show(settings)
    width = max(len(row.name) for row in rows)
    for row in rows:
        sys.stdout.write(f"{row.name:{width}}  {row.value}  ({row.origin})\n")
    for warning in settings.warnings:
        sys.stderr.write(f"sagent: warning: {warning}\n")
    return 0
