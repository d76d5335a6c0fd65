"""What a shell's `export -p` lists, read as variables."""

import os
import re


def parse_exports(listing: bytes) -> dict[str, str]:
    """The variables of an `export -p`, as bash and POSIX shells write it; those without a value left out."""
    pairs = (match.groups() for match in re.finditer(_EXPORT, listing, re.DOTALL | re.MULTILINE))
    return {name.decode(): os.fsdecode(_unquoted(value)) for name, value in pairs if value is not None}


_WORD = rb"""'[^']*'|\$'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"|\\.|[^\s'"\\]"""
_EXPORT = rb"^(?:declare -\w+|export) ([A-Za-z_]\w*)(?:=((?:" + _WORD + rb")*))?$"
_ANSI_C = {
    b"a": b"\a", b"b": b"\b", b"e": b"\x1b", b"E": b"\x1b", b"f": b"\f",
    b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v",
}  # fmt: skip


def _unquoted(value: bytes) -> bytes:
    if value[:1] in (b'"', b"'") and value.find(value[:1], 1) == len(value) - 1 and b"\\" not in value:
        return value[1:-1]  # nearly all of them
    return b"".join(_plain(match[0]) for match in re.finditer(_WORD, value, re.DOTALL))


def _plain(word: bytes) -> bytes:
    if word.startswith(b"'"):
        return word[1:-1]
    if word.startswith(b"$'"):
        return re.sub(rb"\\([0-7]{1,3}|.)", _escaped, word[2:-1], flags=re.DOTALL)
    if word.startswith(b'"'):
        return re.sub(rb'\\([$`"\\])', rb"\1", word[1:-1])
    return word.removeprefix(b"\\") or b"\\"


def _escaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8) & 255]) if code.isdigit() and code < b"8" else _ANSI_C.get(code, code)
