"""Settings for the command line."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sagent.config import Settings, load
from sagent.errors import SagentError

if TYPE_CHECKING:
    from pathlib import Path


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


def session_path(settings: Settings, name: str | None) -> "Path":
    """The session of a name: a path, an id or its beginning; the last of the directory without one."""
    from sagent.session.store import find, latest

    return find(settings.state_dir, name, settings.cwd) if name else latest(settings.state_dir, settings.cwd)
