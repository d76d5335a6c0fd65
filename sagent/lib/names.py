"""Names of files as text that can be shown on one line, and read back.

A name may hold line breaks, control characters, what is not seen or looks like a space, and bytes that are no UTF-8.
Such a path is written as bash writes it, `$'a\\nb\\xff'`; all others stay as they are.
"""

import os
import re
from pathlib import Path

_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "'": "\\'"}


def path_of(text: str) -> Path:
    """The path that a person names: `~` is their home, and of a user that there is not, it stays as it is written."""
    return Path(os.path.expanduser(text))  # noqa: PTH111 -- Path's own raises RuntimeError then


def quote_path(path: str) -> str:
    """The path as it is, or in `$'...'` where it would not be read as the same again."""
    if path.isprintable() and ("$'" not in path or unquote_path(path) == path):
        return path
    return "$'" + "".join(map(_written, path)) + "'"


def _written(character: str) -> str:
    if character in _SHORT or character.isprintable():
        return _SHORT.get(character, character)
    data = character.encode("utf-8", "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in data)


def unquote_path(text: str) -> str:
    """The path that `quote_path` wrote, also where a directory or a further name was joined to it with a slash; or that
    a `file://` address names."""
    if text.startswith("file://"):
        from urllib.parse import unquote, urlsplit

        return unquote(urlsplit(text.replace("?", "%3F").replace("#", "%23")).path, errors="surrogateescape")
    if "$'" not in text or "\\" not in text:
        return text
    quoted = r"(?:(?<=/)|^)\$'((?=[^']*\\)(?:[^'\\]|\\.)*)'(?=/|\Z)"
    return re.sub(quoted, lambda match: _plain(match.group(1)), text, flags=re.DOTALL)


def _plain(quoted: str) -> str:
    short = {written: character for character, written in _SHORT.items()}

    def read(match: "re.Match[str]") -> str:
        found = match.group()
        if found in short:
            return short[found]
        return bytes.fromhex(found.replace("\\x", "")).decode("utf-8", "surrogateescape")

    return re.sub(r"(?:\\x[0-9a-fA-F]{2})+|\\[ntr\\']", read, quoted)
