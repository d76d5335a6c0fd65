"""Settings for the command line."""

import sys
from collections.abc import Mapping

from sagent.config import Settings, load
from sagent.errors import SagentError


def load_settings(flags: Mapping[str, object]) -> Settings:
    """The settings in force under these flags, `config` among them. Raises ConfigError."""
    file = flags.get("config")
    given = {name: value for name, value in flags.items() if name != "config"}
    return load(given, file=None if file is None else str(file))


def load_or_report(flags: Mapping[str, object]) -> Settings:
    """The settings of a run. What is wrong with them is raised, and reported as a result where JSON was asked for."""
    try:
        return load_settings(flags)
    except SagentError as error:
        if flags.get("output_format") in ("json", "stream-json"):
            from sagent.cli.headless import failed
            from sagent.cli.render import JsonRenderer, binary_safe

            JsonRenderer(binary_safe(sys.stdout)).on_result(failed(error))
        raise
