"""Output of a command, collected at a bounded cost and made readable for a model."""

import asyncio
import contextlib
import hashlib
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from sagent.lib.text import count, failure
from sagent.tool import Blobs

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path
    from typing import BinaryIO

HEAD_CHARS = 10_000
TAIL_CHARS = 20_000

_MAX_MEMORY_BYTES = 128 * 1024
_SAMPLE_BYTES = 8_192  # to tell text from binary data
_EDGE_BYTES = 96 * 1024  # on either side; more than the shown characters, because of colour codes and progress bars
_CHUNK_BYTES = 128 * 1024
_CHUNKS_AT_ONCE = 32  # then the event loop gets its turn
_PIPE_BYTES = 512 * 1024

_KINDS = (
    (b"\x7fELF", "ELF program"), (b"\x89PNG", "PNG image"), (b"\xff\xd8\xff", "JPEG image"), (b"GIF8", "GIF image"),
    (b"%PDF", "PDF document"), (b"PK\x03\x04", "zip archive"), (b"\x1f\x8b", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"), (b"SQLite format 3", "SQLite database"),
)  # fmt: skip


class Capture:
    """A pipe's output: in memory while it is small, else in a scratch file of the blob store.

    A pipe, not the file itself, because a script that writes to /dev/stderr would open that file anew and cut it, and
    because the end of a pipe shows that no writer is left.
    """

    def __init__(self, blobs: Blobs, *, limit: int, show: "Callable[[Path], object] | None" = None) -> None:
        """Open it; `show` lets commands read a file, by default as `blobs` does."""
        self.size = 0
        self.flooded = False
        self.trouble = ""  # why the full text could not be saved
        self.finished = asyncio.Event()  # every writer is gone
        self._blobs = blobs
        self._show = show or blobs.show
        self._limit = limit
        self._on_flood: Callable[[], None] | None = None
        self._start = bytearray()
        self._late = b""  # the end of the part that the file could not take
        self._file = -1
        self._hash = hashlib.sha256()  # of the file's contents
        self._path: Path | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.source, self.sink = os.pipe()
        os.set_blocking(self.source, False)
        with contextlib.suppress(AttributeError, ImportError, OSError):  # larger pipes need fewer reads
            import fcntl

            fcntl.fcntl(self.source, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def begin(self, on_flood: Callable[[], None]) -> None:
        """Start to read; `on_flood` is called once, after more than `limit` bytes. The sink is closed here."""
        self._close_sink()
        self._on_flood = on_flood
        self._watch(asyncio.get_running_loop())

    async def settle(self, grace: float) -> None:
        """Read available data; if writers are left, wait `grace` seconds for them to finish."""
        self._pump()
        if not self.finished.is_set() and grace:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self.finished.wait()
        self._pause()

    def recent(self, max_chars: int = 2000) -> str:
        """Return last lines so far, at most `max_chars` of them: by default as many as a screen has use for."""
        return cut_tail(legible(self._tail(4 * max_chars), cut=True), max_chars)

    def whereabouts(self) -> str:
        """Return where all output so far can be read, "" while it is only in memory."""
        if self._path is None:
            return ""
        with contextlib.suppress(OSError):
            self._show(self._path)
        return str(self._path)

    def hand_over(self, take: Callable[[int, int], None]) -> None:
        """Give a descriptor of the pipe and one with the data read so far to another reader, and stop reading here.
        Both are closed here as usual: `take` passes them to a process. Raises OSError: then nothing has changed."""
        if self.trouble:
            raise OSError(self.trouble)
        loop = self._loop
        with self._so_far() as before:
            self._pause()
            os.set_blocking(self.source, True)
            try:
                take(self.source, before.fileno())
            except BaseException:
                os.set_blocking(self.source, False)
                if loop is not None:
                    self._watch(loop)
                raise

    async def excerpt(self) -> str:
        """Return the part for a model. If it is not complete, it names the blob with the whole."""
        head, tail = bytes(self._start), self._tail(min(_EDGE_BYTES, max(self.size - _EDGE_BYTES, 0)))
        complete = self.size == len(head)
        from sagent.lib.encoding import decode_output

        if kind := _binary_kind(head[:_SAMPLE_BYTES], cut=not complete or len(head) > _SAMPLE_BYTES):
            whereabouts = await self._whereabouts("use a command on it")
            return f"[binary output: {self.size:,} bytes, {kind}; {whereabouts}]"
        decoded = decode_output(head if complete else head[:_EDGE_BYTES], cut=not complete)
        text, guesses = _as_left(decoded.text, _ESCAPE), decoded.guesses
        if complete and len(text) <= HEAD_CHARS + TAIL_CHARS:
            return text + _read_as(text, guesses)
        first = cut_head(text, HEAD_CHARS)
        if not complete:
            decoded = decode_output(tail, cut=True)
            text, guesses = _as_left(decoded.text, _ESCAPE), (*guesses, *decoded.guesses)
        last = cut_tail(text, TAIL_CHARS)
        last += _read_as(last, guesses)
        left_out = max(self.size - len(first.encode()) - len(last.encode()), 0)
        line = first.count("\n") + 1
        notice = f"about {left_out:,} of {self.size:,} bytes left out here, from line {line} on"
        whereabouts = await self._whereabouts("Read it with offset and limit, or Grep it")
        return f"{end_line(first)}\n[... {notice}; {whereabouts} ...]\n\n{last}"

    def measure(self) -> str:
        """Describe how much it was: "12 lines", "1 line", "300.0 MB"."""
        if self.size > len(self._start):
            return f"{self.size / 1e6:.1f} MB"
        return count(self._start.count(b"\n") + (not self._start.endswith(b"\n") and self.size > 0), "line")

    def close(self) -> None:
        """Release everything, and remove a scratch file unless it is to be kept."""
        self._pause()
        self._close_sink()
        os.close(self.source)
        self._forget_file()

    async def _whereabouts(self, advice: str) -> str:
        """Save the whole, and return its path with advice."""
        try:
            if self.trouble:
                raise OSError(self.trouble)
            if self._path is None:
                path = self._blobs.put(bytes(self._start))
            else:
                path = self._blobs.adopt(self._path, sha256=self._hash.hexdigest())
                self._path = None
            self._show(path)
        except OSError as error:
            return f"the full text could not be kept: {failure(error)}"
        return f"the full text is in {path}: {advice}"

    @contextlib.contextmanager
    def _so_far(self) -> "Generator[BinaryIO]":
        import tempfile

        with self._path.open("rb") if self._path is not None else tempfile.TemporaryFile() as file:
            if self._path is None:
                file.write(self._start)
                file.seek(0)
            yield file

    def _pump(self) -> None:
        for _ in range(_CHUNKS_AT_ONCE):
            try:
                chunk = os.read(self.source, _CHUNK_BYTES)
            except BlockingIOError:
                return
            if not chunk:
                self._pause()  # an ended pipe is readable for ever
                self.finished.set()
                return
            self._take(chunk)

    def _take(self, chunk: bytes) -> None:
        self.size += len(chunk)
        if self.size > self._limit and not self.flooded:
            self.flooded = True
            if self._on_flood:
                self._on_flood()
        room = _MAX_MEMORY_BYTES - len(self._start)
        self._start += chunk[:room]
        rest = chunk[room:]
        if rest and self.trouble:
            self._late = (self._late + rest)[-_EDGE_BYTES:]
        elif rest:
            self._spill(rest)

    def _spill(self, chunk: bytes) -> None:
        """Write to the file; if that fails (full disk, read-only directory), only the end is kept."""
        try:
            if self._path is None:
                path = self._blobs.scratch()
                self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
                self._path = path
                self._append(self._start)
            self._append(chunk)
        except OSError as error:
            self.trouble = error.strerror or str(error)
            self._late = (self._tail(_EDGE_BYTES) + chunk)[-_EDGE_BYTES:]
            self._forget_file()

    def _append(self, data: bytes | bytearray) -> None:
        self._hash.update(data)
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]

    def _tail(self, count: int) -> bytes:
        if self._file >= 0:
            return os.pread(self._file, count, max(os.fstat(self._file).st_size - count, 0))
        return (self._late or bytes(self._start))[-count:] if count else b""

    def _forget_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        if self._path is not None:
            self._blobs.drop(self._path)
            self._path = None

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        loop.add_reader(self.source, self._pump)

    def _pause(self) -> None:
        if self._loop is not None:
            self._loop.remove_reader(self.source)
            self._loop = None

    def _close_sink(self) -> None:
        if self.sink >= 0:
            os.close(self.sink)
            self.sink = -1


def without_colours(text: str) -> str:
    """Remove colours and cursor movements from terminal output."""
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text) if "\x1b" in text else text


def legible(data: bytes, *, cut: bool = False) -> str:
    """Return text as a terminal would have left it: no escape sequences, lines overwritten by a carriage return
    collapsed.

    Lines that are not UTF-8 are decoded by a guess; undecodable bytes become U+FFFD. With `cut` the data may begin or
    end within a character.
    """
    return _as_left(_decoded(data, cut=cut), _ESCAPE)


def legible_in_colour(data: bytes, *, cut: bool = False) -> str:
    """Return readable text with colour sequences, if nothing was overstruck."""
    return _as_left(_decoded(data, cut=cut), _ESCAPE if b"\b" in data else rf"(?!\x1b\[[\d;]*m){_ESCAPE}")


def _decoded(data: bytes, *, cut: bool) -> str:
    from sagent.lib.encoding import decode_output

    return decode_output(data, cut=cut).text


def _read_as(text: str, guesses: tuple[str, ...]) -> str:
    """Return a line that names the encodings, other than UTF-8, in which text was read."""
    if not guesses:
        return ""
    line_end = "" if text.endswith("\n") else "\n"
    return f"{line_end}[text that is not UTF-8 was read as {', and '.join(dict.fromkeys(guesses))}]\n"


def _as_left(text: str, unwanted: str) -> str:
    text = text.replace("\r\n", "\n")
    if "\x1b" in text:
        text = re.sub(unwanted, "", text)
    if "\b" in text:
        text = re.sub(r"[^\n\b]\x08", "", text).replace("\b", "")  # overstrikes and spinners
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return text.replace("\0", "␀")


def cut_head(text: str, limit: int) -> str:
    """Cut a text to its first `limit` characters, in whole lines if that leaves at least half of them."""
    if len(text) <= limit:
        return text
    border = text.rfind("\n", limit // 2, limit)
    return text[: border + 1] if border >= 0 else text[:limit]


def cut_tail(text: str, limit: int) -> str:
    """Cut a text to its last `limit` characters, in whole lines if that leaves at least half of them."""
    if len(text) <= limit:
        return text
    border = text.find("\n", len(text) - limit - 1, len(text) - limit // 2)
    return text[border + 1 :] if border >= 0 else text[-limit:]


def end_line(text: str) -> str:
    """Add a missing last line end; "" stays ""."""
    return text if not text or text.endswith("\n") else f"{text}\n"


_ESCAPE = (
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # colours, cursor movements
    r"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, hyperlinks and other strings
    r"|[ -/]+[0-~]|[0-Z\\^-~])"  # character sets and the rest
)


def _binary_kind(sample: bytes, *, cut: bool) -> str:
    """Return the kind of binary data, "" for text. A list separated by NULs is text, and so is a little noise."""
    if known := next((kind for magic, kind in _KINDS if sample.startswith(magic)), ""):
        return known
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    text = sample.decode("utf-8", "replace")
    strange = text.count("\ufffd")
    if sample.count(0) * 4 <= len(sample) and (controls + strange) * 10 <= len(sample):
        return ""
    from sagent.lib.encoding import decode_output

    decoded = decode_output(sample, cut=cut)
    read = decoded.text.encode()  # in UTF-16, letters may contain bytes of controls
    controls = len(read) - len(read.translate(None, _CONTROLS))
    is_text = decoded.sure and decoded.guesses and controls * 50 <= len(read) and decoded.text.count("\0") < 2
    return "" if is_text else "binary data"


_CONTROLS = bytes(set(range(1, 32)) - set(b"\a\b\t\n\v\f\r\x1b"))
