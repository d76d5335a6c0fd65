"""Files that a command has printed whole: the agent has seen them as if it had read them."""

import os
import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from sagent.errors import ToolError
from sagent.lib.regular import open_regular
from sagent.tool import Workspace

MAX_NAMED = 20  # files of one command to check


def saw_printed(command: str, shown: str, directories: Iterable[Path], workspace: Workspace) -> None:
    """Record files that a command names and whose whole text is in its output as seen. `directories` are those where it
    may have begun and ended."""
    text, most = f"\n{shown}", 4 * len(shown)
    for real in _named(command, directories, workspace):
        with suppress(OSError, ValueError), open_regular(real) as file:
            stat = os.fstat(file.fileno())
            if stat.st_size > most:
                continue
            data = file.read(most)
            content = data.decode().replace("\r\n", "\n")
            if content.strip() and f"\n{content}{'' if content.endswith(chr(10)) else chr(10)}" in text:
                workspace.saw(real, data, stat)


def _named(command: str, directories: Iterable[Path], workspace: Workspace) -> Iterator[Path]:
    words = shlex.shlex(command[:20_000], posix=True, punctuation_chars=True)  # which is slow
    words.whitespace_split = True
    found: dict[Path, None] = {}
    with suppress(ValueError):  # an unclosed quote at its end: the part before is known
        for word in words:
            for directory in directories:
                with suppress(ToolError, OSError):
                    real = Path(os.path.realpath(workspace.resolve(str(directory / word))))
                    if real.is_file():
                        found[real] = None
            if len(found) >= MAX_NAMED:
                break
    yield from found
