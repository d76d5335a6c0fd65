"""Errors of what others wrote, in words."""

import os
from pathlib import Path

from sagent.lib.text import one_line


def reason(error: BaseException) -> str:
    """Return what an error of a plugin says: its class, its text in one line, and where it was raised."""
    from traceback import extract_tb

    package = Path(__file__).parents[1]
    core, ours, library = (f"{path}{os.sep}" for path in (package, package / "plugins", Path(os.__file__).parent))

    def is_own(file: str) -> bool:
        return file.startswith(ours) or "site-packages" in file or not file.startswith((core, library, "<"))

    text = one_line(str(error), 300).rstrip(".")
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    frames = [frame for frame in extract_tb(error.__traceback__) if is_own(frame.filename)]
    return f"{said} ({frames[-1].filename}:{frames[-1].lineno})" if frames else said


def advice(plugin: str) -> str:
    """Return what a person may do about something of a plugin that is left out."""
    return f"`sagent plugin test {plugin}` says what it lacks, and `--no-plugins` starts without."
