"""Undoing a content encoding in pieces that have a bound: few compressed bytes may stand for very many."""

import zlib
from collections.abc import Iterator

PIECE = 1024 * 1024  # bytes that are inflated at a time
ENCODINGS = ("gzip", "x-gzip", "deflate")


class Inflater:
    """For one body of an encoding in ENCODINGS. What is damaged raises zlib.error."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._inflater: zlib._Decompress | None = None

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """What some more bytes stand for. Who has seen enough stops asking."""
        if self._inflater is None and chunk:  # zlib or gzip, by its header; some send "deflate" without one
            headed = self._encoding != "deflate" or chunk[0] & 15 == 8
            self._inflater = zlib.decompressobj(zlib.MAX_WBITS | 32 if headed else -zlib.MAX_WBITS)
        while chunk and self._inflater is not None and not self._inflater.eof:
            if plain := self._inflater.decompress(chunk, PIECE):
                yield plain
            chunk = self._inflater.unconsumed_tail

    def finish(self) -> tuple[bytes, bool]:
        """What is left at the end, and whether the body is whole."""
        rest = self._inflater.flush() if self._inflater is not None else b""
        return rest, self._inflater is not None and self._inflater.eof
