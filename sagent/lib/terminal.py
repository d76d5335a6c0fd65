"""Output to a terminal that nothing in it can drive."""

import re
from io import TextIOWrapper
from typing import TextIO

# Control characters but tabs and ends of lines, those of 8 bits too, and what turns the direction of a text around.
# Bold and six colours that are seen on any ground are for tables and what Python writes itself (--help, from 3.14).
_DRIVING = re.compile(r"\x1b\[(?:[01]|(?:1;)?3[1-6])?m|\r\n|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def neutral(text: str) -> str:
    r"""Return text with each such character as JSON writes it, `\u001b`: it is seen, and JSON remains the same JSON."""
    return text if text.isascii() and text.isprintable() else _DRIVING.sub(_shown, text)


def _shown(match: re.Match[str]) -> str:
    found = match[0]
    if found == "\r\n":
        return "\n"
    return found if len(found) > 1 else f"\\u{ord(found):04x}"


class _Terminal(TextIOWrapper):
    """A terminal's stream that writes only neutral text."""

    def write(self, s: str, /) -> int:
        super().write(neutral(s))
        return len(s)


def neutralized(stream: TextIO) -> TextIO:
    """Return a standard stream that neutralizes what it writes to a terminal; any other stream stays as it is."""
    if not stream.isatty():
        return stream
    stream.flush()
    binary = open(stream.fileno(), "wb", closefd=False)  # noqa: SIM115 -- it lives as long as the process
    return _Terminal(binary, encoding="utf-8", errors="backslashreplace", line_buffering=True)


def replace_line(stream: TextIO, text: str, before: str) -> None:
    """Write a text in the place of `before`, which is all that the cursor's line has."""
    line = f"\r{' ' * len(before)}\r{neutral(text)}"
    if isinstance(stream, _Terminal):
        TextIOWrapper.write(stream, line)
    else:
        stream.write(line)
    stream.flush()
