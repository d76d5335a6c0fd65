"""The progress of slow work: on a terminal one changing line, elsewhere a line now and then."""

import time
from shutil import get_terminal_size
from textwrap import fill
from typing import TextIO

from sagent.lib.terminal import replace_line
from sagent.lib.text import one_line, printable

_EVERY_SECONDS = 10.0  # between two lines without a terminal


class ProgressLine:
    """Writes the `Progress` of a fetch."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._shown = ""
        self._since = float("-inf")

    def say(self, line: str) -> None:
        """Write a permanent line of prose, wrapped on a terminal."""
        self.show("")
        shown = printable(line)
        if self._out.isatty():
            width = max(get_terminal_size().columns - 1, 20)
            shown = fill(shown, width, break_long_words=False, break_on_hyphens=False)
        self._out.write(f"{shown}\n")
        self._out.flush()

    def show(self, line: str) -> None:
        """Show a line in place of the previous one; "" removes it."""
        if not self._out.isatty():
            if line and time.monotonic() - self._since >= _EVERY_SECONDS:
                self._since = time.monotonic()
                self.say(line)
            return
        text = printable(one_line(line, get_terminal_size().columns - 1))
        if text != self._shown:
            replace_line(self._out, text, self._shown)
        self._shown = text
