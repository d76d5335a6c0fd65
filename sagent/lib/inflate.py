"""Decoding of content encodings in bounded pieces, because a few compressed bytes may expand to very many."""

import zlib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Protocol, cast

PIECE_BYTES = 1024 * 1024  # bytes that are inflated at a time
_ALWAYS = ("gzip", "x-gzip", "deflate")


class _Decompressor(Protocol):
    def process(self, data: bytes, output_buffer_limit: int) -> bytes: ...
    def can_accept_more_data(self) -> bool: ...
    def is_finished(self) -> bool: ...


class _Brotli(Protocol):
    """The package, which has no types."""

    error: type[Exception]
    Decompressor: type[_Decompressor]


@cache
def encodings() -> tuple[str, ...]:
    """Return the content encodings that can be decoded: "br" only if brotli 1.2 or later is installed (the extra of
    that name), since earlier ones cannot bound their output."""
    try:
        package = cast("_Brotli", import_module("brotli"))
    except ImportError:
        return _ALWAYS
    return (*_ALWAYS, "br") if hasattr(package.Decompressor, "can_accept_more_data") else _ALWAYS


class Inflater:
    """Decodes one body in one of the `encodings`. Raises zlib.error for damaged data."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._inflater: zlib._Decompress | None = None
        self._brotli: _Decompressor | None = None
        self._error: type[Exception] = zlib.error
        if encoding == "br":
            package = cast("_Brotli", import_module("brotli"))
            self._brotli, self._error = package.Decompressor(), package.error

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the decoded bytes of a chunk, in pieces. The caller may stop early."""
        if self._brotli is not None:
            yield from self._feed_brotli(self._brotli, chunk)
            return
        if self._inflater is None and chunk:  # zlib or gzip, by its header; some servers send "deflate" without one
            headed = self._encoding != "deflate" or chunk[0] & 15 == 8
            self._inflater = zlib.decompressobj(zlib.MAX_WBITS | 32 if headed else -zlib.MAX_WBITS)
        while chunk and self._inflater is not None and not self._inflater.eof:
            if plain := self._inflater.decompress(chunk, PIECE_BYTES):
                yield plain
            chunk = self._inflater.unconsumed_tail

    def _feed_brotli(self, inflater: _Decompressor, chunk: bytes) -> Iterator[bytes]:
        while not inflater.is_finished():
            try:
                plain = inflater.process(chunk, PIECE_BYTES // 2)  # it may go beyond, up to twice as far
            except self._error as error:
                raise zlib.error(str(error)) from error
            if plain:
                yield plain
            if not plain and inflater.can_accept_more_data():  # it may accept more before its input is used up
                return
            chunk = b""

    def finish(self) -> tuple[bytes, bool]:
        """Return the bytes left at the end, and whether the body is complete."""
        if self._brotli is not None:
            return b"", self._brotli.is_finished()
        rest = self._inflater.flush() if self._inflater is not None else b""
        return rest, self._inflater is not None and self._inflater.eof
