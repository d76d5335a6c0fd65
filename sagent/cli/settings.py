"""Settings for the command line."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sagent.config import Settings, load
from sagent.config.files import File
from sagent.errors import SagentError, UsageError

if TYPE_CHECKING:
    from pathlib import Path


def load_settings(flags: Mapping[str, object]) -> Settings:
    """Return the effective settings with these flags, `config` among them; `resume` is `session` for an existing one.
    Raises ConfigError, SessionNotFound, and UsageError for a `resume` without a name."""
    file = flags.get("config")
    given = {name: value for name, value in flags.items() if name not in ("config", "resume")}
    if (name := flags.get("resume")) == "":
        raise UsageError(
            "--resume: there is no terminal to choose a session on. Give one from `sagent sessions list`, or "
            "continue the last one with --continue."
        )
    if name is not None:
        places = {place: flags[place] for place in ("cwd", "config") if place in flags}
        given["session"] = str(session_path(load_settings(places), str(name)))
    return load(given, file=file if file is None or isinstance(file, File) else str(file))


def load_or_report(flags: Mapping[str, object]) -> Settings:
    """Load a run's settings. An error in them is raised, and also reported as a result if JSON was requested."""
    try:
        return with_chosen_model(load_settings(flags))
    except SagentError as error:
        if flags.get("output_format") in ("json", "stream-json"):
            from sagent.cli.headless import failed
            from sagent.cli.render import JsonRenderer, binary_safe
            from sagent.cli.reported import REPORTED

            JsonRenderer(binary_safe(sys.stdout)).on_result(failed(error))
            error.add_note(REPORTED)
        raise


def with_chosen_model(settings: Settings) -> Settings:
    """Return the settings. Raises UsageError if the model of an untrusted project would be replaced by another one that
    nobody chose. Earlier sessions have their own."""
    wish, named = settings.wish, settings.origins.get("model", "").startswith(("--", "SAGENT_"))
    if wish is None or wish.refused or named or settings.continue_session or settings.session or settings.fork:
        return settings
    if (settings.model, settings.provider) != (wish.granted.model, wish.granted.provider):
        from sagent.config.trust import warning

        raise UsageError(f"Nothing was sent. {warning(wish)} --model M runs without it.")
    return settings


def session_path(settings: Settings, name: str | None) -> "Path":
    """Return the path of a session by a path, an id or its beginning; by default the last of the directory."""
    from sagent.session.store import find, latest

    return (
        find(settings.state_dir, name, settings.cwd) if name else latest(settings.state_dir, settings.cwd, empty=True)
    )
