"""Output that cannot control a terminal."""

import re
from io import TextIOWrapper
from typing import TextIO

# Control characters, including those of 8 bits, except tabs and line ends; and characters that reverse a text's
# direction. Bold and six colours that are seen on any ground are for tables and what Python writes itself (--help, from
# 3.14).
_DRIVING = re.compile(r"\x1b\[(?:[01]|(?:1;)?3[1-6])?m|\r\n|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def neutral(text: str) -> str:
    r"""Return text with each such character escaped as in JSON, `\u001b`: it is visible, and JSON stays equivalent."""
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
    """Return a standard stream that neutralizes its output to a terminal; any other stream is unchanged."""
    if not stream.isatty():
        return stream
    stream.flush()
    binary = open(stream.fileno(), "wb", closefd=False)  # noqa: SIM115 -- it lives as long as the process
    return _Terminal(binary, encoding="utf-8", errors="backslashreplace", line_buffering=True)


def write_styled(stream: TextIO, text: str) -> None:
    """Write text whose escape sequences are ours: what it shows of others is neutral already."""
    if isinstance(stream, _Terminal):
        TextIOWrapper.write(stream, text)
    else:
        stream.write(text)
    stream.flush()


def replace_line(stream: TextIO, text: str, before: str) -> None:
    """Write a text in place of `before`, which fills the cursor's line."""
    write_styled(stream, f"\r{' ' * len(before)}\r{neutral(text)}")
