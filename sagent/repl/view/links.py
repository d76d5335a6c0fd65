"""Links: a span's target is in brackets at the end of its style; this module makes terminal links of it."""

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # neither is loaded before the prompt
    from pathlib import Path

_REFERENCE = re.compile(r"\[([!-~]+)\]$")
_SAFE = "%/:?#[]@!$&'()*+,;=~"  # in a URL, as it is
_PAGE = re.compile(r"(?:https?|file)://", re.IGNORECASE)
_FILE = re.compile(r"(?:[\w.+@-]+/)*[\w.+@-]+?(?::\d+){0,2}")
_PLACE = re.compile(r"(?::\d+){1,2}$")  # a line, and a column


def leading_to(style: str, reference: str) -> str:
    """Return the style of a text that links to a URL or a named file."""
    from urllib.parse import quote

    return f"{style} [{quote(reference, _SAFE, errors='replace')}]".strip()


def leading_to_file(style: str, path: str) -> str:
    """Return the style of a text that links to a file; one with an absolute path need not exist."""
    from urllib.parse import quote

    return leading_to(style, quote(path, errors="replace"))


def names_file(text: str) -> bool:
    """Return True if a word may be the relative path of a file, with or without line and column."""
    return ("." in text or "/" in text) and _FILE.fullmatch(text) is not None


def address(style: str, directory: "Path | None") -> str:
    """Return the URI of a style's target; "" if it is neither a page nor a file. Relative paths are below a directory;
    missing files get no link, because any word may look like a path."""
    if (match := _REFERENCE.search(style)) is None:
        return ""
    reference = match[1]
    if _PAGE.match(reference):
        return reference
    path = _PLACE.sub("", reference.partition("#")[0])
    if path.startswith("/"):
        return "" if path.startswith("//") else f"file://{path}"
    if not path or directory is None:
        return ""
    from urllib.parse import unquote

    place = directory / unquote(path)
    return place.as_uri() if os.path.exists(place) else ""  # noqa: PTH110 -- raises nothing for any name
