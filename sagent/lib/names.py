"""File names as text on one line that can be read back.

A name may contain line breaks, control characters, invisible characters, unusual spaces, and bytes that are not UTF-8.
Such a path is written in bash's form, `$'a\\nb\\xff'`; all others are unchanged.
"""

import os
import re
from collections.abc import Set as AbstractSet
from pathlib import Path

_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "'": "\\'"}


def path_of(text: str) -> Path:
    """Return a path from a person's text: `~` is their home; a path of an unknown user is unchanged."""
    return Path(os.path.expanduser(text))  # noqa: PTH111 -- Path's own raises RuntimeError then


def lies_in(path: str, roots: AbstractSet[str]) -> bool:
    """Return True if an absolute path is one of many directories or below one of them."""
    while path not in roots:
        if not path.strip("/"):
            return False
        path = path.rpartition("/")[0] or "/"
    return True


def find_path(path: Path) -> Path:
    """Return the path as in the file system: if a name does not exist and exactly one canonically equal name does (é as
    one character or as two), that is used."""
    if str(path).isascii() or os.path.lexists(path):
        return path
    from sagent.lib.lookalike import canonical

    found = Path(path.anchor)
    for part in path.parts[1:] if path.anchor else path.parts:
        if not part.isascii() and not os.path.lexists(found / part):
            try:
                alike = [each for each in found.iterdir() if canonical(each.name) == canonical(part)]
            except OSError:
                return path
            found = alike[0] if len(alike) == 1 else found / part
        else:
            found /= part
    return found


def why_no_path(path: str) -> str:
    """Return why a text cannot name a file, "" if it can."""
    if not path:
        return "it is empty"
    if "\0" in path:
        return "it has a zero byte"
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return "it has half a character"
    return ""


def quote_exactly(path: str) -> str:
    """Return the path in `$'...'` with everything beyond ASCII escaped, for names that look like others."""
    return "$'" + "".join(_written(one) if one.isascii() else _bytes_of(one) for one in path) + "'"


def quote_path(path: str) -> str:
    """Return the path unchanged, or in `$'...'` if it would not be read back as the same."""
    if path.isprintable() and ("$'" not in path or unquote_path(path) == path):
        return path
    return "$'" + "".join(map(_written, path)) + "'"


def _written(character: str) -> str:
    if character in _SHORT or character.isprintable():
        return _SHORT.get(character, character)
    return _bytes_of(character)


def _bytes_of(character: str) -> str:
    data = character.encode("utf-8", "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in data)


def unquote_path(text: str) -> str:
    """Parse a path written by `quote_path`, also with a directory or a further name joined to it by a slash; or in a
    `file://` URL."""
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
