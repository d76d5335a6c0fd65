"""Descriptions of errors in third-party code."""

import os
from contextlib import suppress
from pathlib import Path

from sagent.lib.text import one_line


def reason(error: BaseException) -> str:
    """Describe an error of a plugin: its class, its text in one line, and its place."""
    from traceback import extract_tb

    package = Path(__file__).parents[1]
    core, ours, library = (f"{path}{os.sep}" for path in (package, package / "plugins", Path(os.__file__).parent))

    def is_own(file: str) -> bool:
        within = not file.startswith(library) or "site-packages" in file  # where sagent itself may be installed
        return file.startswith(ours) or (within and not file.startswith((core, "<")))

    text = one_line(str(error), 300).rstrip(".")
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    frames = [frame for frame in extract_tb(error.__traceback__) if is_own(frame.filename)]
    return f"{said} ({frames[-1].filename}:{frames[-1].lineno})" if frames else said


def ends(error: BaseException) -> bool:
    """Return True for an error from outside the code that raised it: Ctrl-C, or the cancellation of its task."""
    from asyncio import CancelledError, current_task

    if isinstance(error, CancelledError):
        with suppress(RuntimeError):  # there is no loop
            return (task := current_task()) is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | GeneratorExit)


def as_exception(error: BaseException) -> BaseException:
    """Return an error that only ends the raising code: this one, or a substitute for SystemExit."""
    if isinstance(error, Exception) or ends(error):
        return error
    return RuntimeError(repr(error)).with_traceback(error.__traceback__)


def advice(plugin: str) -> str:
    """Return advice for a person about a plugin's left-out part."""
    return f"`sagent plugin test {plugin}` shows what is wrong, and `--no-plugins` starts without it."
