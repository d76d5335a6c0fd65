"""Searching files with a regular expression: the engine of Grep, which also runs as a process of its own.

Python's `re` cannot be stopped and blocks the interpreter while it backtracks; a process can be killed. So this module
imports little, and uses JSON on its standard streams.
"""

import errno
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import NamedTuple
from unicodedata import normalize

from sagent.lib.encoding import SHIFT
from sagent.lib.json import valid_text
from sagent.lib.lookalike import canonical, escape
from sagent.lib.names import quote_path
from sagent.lib.regular import open_regular
from sagent.tools.globs import glob_regex

MAX_SEARCH_SECONDS = 20  # seconds for a search, which then shows its results so far
PROCESS_SECONDS = 30  # for one in a separate process
CUT = "(There was not enough time to search the whole directory. Give a narrower path.)"
_BLOCK_BYTES = 4_000_000  # read at once
_MAX_WHOLE_BYTES = 64_000_000  # of a file that must be in memory at once: UTF-16, or a search across lines
_MAX_FILE_BYTES = 1_000_000_000  # of a file that was not named itself
_MAX_TEXT_CHARS = 40_000  # of output
_MAX_LINE_CHARS = 400
_MAX_LINES_PER_HIT = 30
_BOMS = ((b"\xff\xfe\0\0", "utf-32"), (b"\0\0\xfe\xff", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_UNREADABLE, _BINARY = "could not be read", "are binary"  # why files are not searched
_HUGE = f"are larger than {_MAX_FILE_BYTES // 1_000_000_000} GB"
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL)  # or no file any more since it was found
_TOO_LARGE = f"are too large for this search (over {_MAX_WHOLE_BYTES // 1_000_000} MB)"


class Query(NamedTuple):
    """A search: pattern, place, and form of the results. `files` are relative to `root`, a path without links."""

    root: str  # of a single file its path
    label: str  # prefix of each shown path
    files: list[str]
    glob: str  # "" means every file
    names: list[str]  # globs for a file's name, one of which must match; none means any
    single: bool  # a single file was named
    python: str
    strict: str
    composed: str  # the same with composed letters, for composed text; "" for a pattern of ASCII
    regular: bool  # a match within a line is also one within the text
    ignore_case: bool
    multiline: bool
    mode: str  # "content", "files_with_matches" or "count"
    context: int
    limit: int
    offset: int
    hidden: int = 0  # number of requested files missing in `files` because the policy hides them
    cut: bool = False  # time ran out before all files were listed
    empty: bool = False  # no file fits the globs
    ignored: Sequence[str] = ()  # of the files that fit them, if git ignores them all
    closed: Sequence[str] = ()  # directories that could not be read


class Report(NamedTuple):
    """The text for the model, and a short outcome."""

    text: str
    summary: str


def search(query: Query, stop: Callable[[], bool]) -> Report:
    """Run a query, with files in the order of their paths. Return the results so far when `stop` is True."""
    end = monotonic() + MAX_SEARCH_SECONDS
    wanted = name_filter(query.glob, query.names)
    page = _Page(query)
    finder = _Finder(query, lambda: stop() or monotonic() > end)
    for path in sorted(filter(wanted, query.files)):
        if page.full or finder.stopped:
            break
        page.begin(path)
        finder.feed(path, page)
        finder.note_encoding(path, found=page.found)
        page.end()
    return page.report(finder.notes())


def name_filter(glob: str, names: list[str]) -> Callable[[str], bool]:
    """Return a filter of relative paths: a glob with `/` applies to the path, one without to the name, `!` excludes."""
    glob = canonical(glob)
    negated = glob.startswith("!")
    given = glob = glob[negated:].removeprefix("./")
    several = [one.removeprefix("!" * negated) for one in glob.replace(",", " ").split()]
    if "{" not in glob and ("," in glob or (several[1:] and all("*" in one for one in several))):
        glob = "{" + ",".join(several) + "}"
    by_path = "/" in glob
    forms = dict.fromkeys(each.removeprefix("/") for each in (glob, given))
    regex = re.compile("|".join(map(glob_regex, forms)), re.DOTALL)
    kinds = re.compile("|".join(map(glob_regex, names)), re.DOTALL)

    def wanted(path: str) -> bool:
        path = path if path.isascii() else canonical(path)
        name = path.rpartition("/")[2]
        if names and not kinds.fullmatch(name):
            return False
        return not glob or (regex.fullmatch(path if by_path else name) is None) == negated

    return wanted


def left_out_note(count: int, deed: str) -> str:
    """Say that some files were left out because of the policy: `(2 files not searched: ...)`."""
    files, are = (f"{count} files", "they are") if count > 1 else ("1 file", "it is")
    return f"({files} {deed}: {are} denied, or may hold keys.)"


def serve() -> None:
    """Read a query, one line of JSON, from standard input; write its report to standard output."""
    import json

    line = sys.stdin.buffer.readline()
    _end_with_parent()
    report = search(Query(*json.loads(line)), lambda: False)
    sys.stdout.buffer.write(json.dumps(report).encode())


def _end_with_parent() -> None:
    """Make the kernel end this process when the other end of its input closes, even by SIGKILL.

    It uses a signal that ends a process by default, because no Python code runs while `re` backtracks. If SIGIO does
    not do that (macOS), the alarm does, later.
    """
    import fcntl
    import select
    import signal

    signal.alarm(PROCESS_SECONDS + 5)
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([0], [], [], 0)[0]:  # closed before the request
        sys.exit(1)


class _Page:
    """Page of results: hits or files from `offset` on, at most `limit`, within the text limit for a model."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._out: list[str] = []
        self._size = 0
        self._entries = 0  # hits in content mode, otherwise files
        self._hits = 0
        self._files = 0
        self.full = False
        self.begin("")

    def begin(self, path: str) -> None:
        self._path = quote_path(self._query.label + path)
        self._before: deque[tuple[int, str]] = deque(maxlen=self._query.context)
        self._after = 0
        self._last = -1  # the first lines of a file follow nothing
        self._hits_here = 0
        self._lines_of_hit = 0

    def line(self, number: int, text: str, hit: "re.Match[str] | None", *, fresh: bool) -> bool:
        """Add a line; a hit may span several. Return True if more lines of this file are wanted."""
        if hit is not None:
            if fresh:
                self._hits_here += 1
                self._lines_of_hit = 0
            if self._query.mode == "files_with_matches":
                return False
            if self._query.mode == "count":
                return True
            if fresh and not self._admit():
                return False
            if self._entries > self._query.offset:
                self._lines_of_hit += 1
                self._show_hit(number, text, hit)
                return True
        if self._after > 0:
            self._after -= 1
            self._put(number, text, "-", 0)
        else:
            self._before.append((number, text))
        return True

    @property
    def found(self) -> bool:
        """True if the file has hits."""
        return self._hits_here > 0

    def end(self) -> None:
        if not self._hits_here:
            return
        if self._query.mode != "content":
            if not self._admit():
                return
            if self._entries > self._query.offset:
                count = f":{self._hits_here}" if self._query.mode == "count" else ""
                self._out.append(f"{self._path}{count}")
                self._size += len(self._path) + 8
        self._files += 1
        self._hits += self._hits_here

    def report(self, notes: list[str]) -> Report:
        query = self._query
        unit = "files" if query.mode == "files_with_matches" else "matches"
        if not self._out:
            beyond = f" from offset {query.offset} on; there are {self._entries}" if self._entries else ""
            return Report("\n".join([f"No matches{beyond}.", *notes]), "no matches")
        if self.full:
            notes = [f"(There are more. Go on with offset {self._entries}.)", *notes]
        elif query.mode == "count":
            notes = [f"(In all {self._hits} in {self._files} files.)", *notes]
        total = self._files if unit == "files" else self._hits
        summary = f"{total}{' or more' if self.full else ''} {unit}"
        return Report("\n".join([*self._out, *notes]), summary)

    def _admit(self) -> bool:
        """Count an entry, unless the page is full."""
        if self._entries >= self._query.offset + self._query.limit or self._size > _MAX_TEXT_CHARS:
            self.full = True
            self._hits_here -= self._query.mode == "content"
            return False
        self._entries += 1
        return True

    def _show_hit(self, number: int, text: str, hit: "re.Match[str]") -> None:
        if self._lines_of_hit > _MAX_LINES_PER_HIT:
            if self._lines_of_hit == _MAX_LINES_PER_HIT + 1:
                self._out.append("... (the match continues)")
            self._last = number
            return
        for earlier, line in self._before:
            self._put(earlier, line, "-", 0)
        self._before.clear()
        self._put(number, text, ":", hit.start() if self._lines_of_hit == 1 and not self._query.multiline else 0)
        self._after = self._query.context

    def _put(self, number: int, text: str, mark: str, column: int) -> None:
        if self._query.context and self._out and number != self._last + 1:
            self._out.append("--")
        shown = f"{self._path}{mark}{number}{mark}{_cut(valid_text(text), column)}"
        self._out.append(shown)
        self._size += len(shown) + 1
        self._last = number


class _Finder:
    """Finds hits in files, and remembers what could not be searched."""

    def __init__(self, query: Query, stop: Callable[[], bool]) -> None:
        flags = re.MULTILINE | (re.IGNORECASE if query.ignore_case else 0) | (re.DOTALL if query.multiline else 0)
        self._query = query
        self._regex = re.compile(query.python, flags)
        self._strict = re.compile(query.strict, flags)
        self._composed = re.compile(query.composed, flags) if query.composed else None
        self._otherwise = ""  # matches of the pattern with its letters composed differently
        self._passed_over: dict[str, list[str]] = {_UNREADABLE: [*query.closed], _TOO_LARGE: [], _HUGE: [], _BINARY: []}
        self._stop = stop
        self._encoding = ""  # of the searched file, if guessed
        self._encodings: dict[str, list[str]] = {}
        self.stopped = ""  # the file at which time ran out

    def feed(self, path: str, page: _Page) -> None:
        """Add a file's lines to the page, as far as it wants them."""
        try:
            number = 0
            for text, last in self._blocks(path):
                if not text:  # a byte order mark alone
                    return
                undecoded = not text.isascii() and _has_undecoded(text)
                regex = self._strict if undecoded else self._regex
                if self._query.regular and number == 0 and last and not self._hit(text, regex):
                    return
                lines = text.removesuffix("\n").split("\n")
                if not self._lines(text, lines, number, regex, page):
                    return
                number += len(lines)
        except OSError as error:
            if error.errno not in _GONE:
                self._passed_over[_UNREADABLE].append(path)

    def note_encoding(self, path: str, *, found: bool) -> None:
        """Remember that the file just searched was read in an encoding that was guessed, if it has hits."""
        if found and self._encoding:
            self._encodings.setdefault(self._encoding, []).append(path)
        self._encoding = ""

    def notes(self) -> list[str]:
        notes: list[str] = []
        if self._otherwise:
            notes.append(f"(Some have the pattern's letters composed otherwise: {escape(self._otherwise)})")
        for encoding, paths in self._encodings.items():
            notes.append(f"(Not UTF-8, read as {encoding}: {_listed(paths)}.)")
        for why, paths in self._passed_over.items():
            if paths:
                notes.append(f"(Not searched, because they {why}: {_listed(paths)}.)")
        if self.stopped:
            where = quote_path(self.stopped)
            notes.append(f"(Stopped after {MAX_SEARCH_SECONDS} s at {where}. Give a narrower path, glob or type.)")
        if self._query.ignored:
            those = _listed(list(self._query.ignored))
            notes.append(
                f"(No file was searched: git ignores those that fit the glob or type: {those}. Give one as path.)"
            )
        elif self._query.empty:
            notes.append("(No file was searched: none there has a name that fits the glob or type.)")
        if self._query.cut:
            notes.append(CUT)
        if self._query.hidden:
            notes.append(left_out_note(self._query.hidden, "not searched"))
        return notes

    def _lines(self, text: str, lines: list[str], number: int, regex: "re.Pattern[str]", page: _Page) -> bool:
        if not self._query.multiline:
            for current, line in enumerate(lines, number + 1):
                if not page.line(current, line, self._hit(line, regex), fresh=True):
                    return False
            return True
        if self._composed is not None and canonical(text) != text:
            regex, text = self._composed, canonical(text)
        hits = _spread(regex, text)
        start, end, match = next(hits, (-1, -1, None))
        for index, line in enumerate(lines):
            inside = start <= index <= end
            if not page.line(number + index + 1, line, match if inside else None, fresh=start == index):
                return False
            if index == end:
                start, end, match = next(hits, (-1, -1, None))
        return True

    def _hit(self, text: str, regex: "re.Pattern[str]") -> "re.Match[str] | None":
        """Find the pattern in a text whose letters may be composed differently."""
        hit = regex.search(text)
        if hit is None and self._composed is not None and (hit := self._composed.search(canonical(text))):
            forms = (form for form in (normalize("NFD", hit[0]), hit[0], text) if form in text)
            self._otherwise = self._otherwise or next(forms)[:100]
        return hit

    def _blocks(self, path: str) -> Iterator[tuple[str, bool]]:
        """Yield the file's text in pieces that end with a line, each with True for the last. CRLF is read as LF."""
        if self._is_late(path):
            return
        with open_regular(self._query.root if self._query.single else f"{self._query.root}/{path}") as file:
            data = file.read(_BLOCK_BYTES)
            codec = next((codec for bom, codec in _BOMS if data.startswith(bom)), "utf-8")
            if codec == "utf-8" and (b"\0" in data[:65_536] or SHIFT in data[:65_536]):
                codec = self._detect(data[:65_536])
            if codec == "":
                if self._query.single:
                    self._passed_over[_BINARY].append(path)
                return
            if not self._query.single and os.fstat(file.fileno()).st_size > _MAX_FILE_BYTES:
                self._passed_over[_HUGE].append(path)
                return
            data = data.removeprefix(b"\xef\xbb\xbf")
            if codec != "utf-8" or self._query.multiline:
                data += file.read(_MAX_WHOLE_BYTES)
                if len(data) > _MAX_WHOLE_BYTES:
                    self._passed_over[_TOO_LARGE].append(path)
                    return
            while data:
                more = file.read(_BLOCK_BYTES) if len(data) >= _BLOCK_BYTES else b""
                cut = data.rfind(b"\n") + 1 if more else len(data)
                if cut == 0 and len(data) < _MAX_WHOLE_BYTES:
                    data += more
                    continue
                cut = cut or len(data)
                text = data[:cut].decode(
                    codec, "replace" if codec.startswith("utf-") and codec != "utf-8" else "surrogateescape"
                )
                if codec == "utf-8" and not text.isascii() and _has_undecoded(text):
                    codec = self._detect(data[:cut])
                    text = data[:cut].decode(codec, "surrogateescape")
                text = text.replace("\r\n", "\n")
                yield text, not more and cut == len(data)
                data = data[cut:] + more
                if data and self._is_late(path):
                    return

    def _detect(self, data: bytes) -> str:
        """Return the codec of a file's beginning that is not plain UTF-8, as Read decodes it; "" for binary data."""
        from sagent.lib.encoding import Text, decode

        decoded = decode(data)
        if not isinstance(decoded, Text):
            return "utf-8" if b"\0" not in data else ""
        self._encoding = decoded.encoding.guess or (decoded.encoding.codec if b"\0" in data else "")
        return decoded.encoding.codec

    def _is_late(self, path: str) -> bool:
        if self._stop():
            self.stopped = path
        return self.stopped != ""


def _listed(paths: list[str]) -> str:
    more = f" and {len(paths) - 5} more" if len(paths) > 5 else ""
    return ", ".join(map(quote_path, paths[:5])) + more


def _spread(regex: "re.Pattern[str]", text: str) -> Iterator[tuple[int, int, "re.Match[str]"]]:
    """Return first and last line of each match, from 0; matches that share a line are merged."""
    line = position = 0
    first, last, found = 0, -1, None
    for match in regex.finditer(text):
        if match.start() == len(text) and (not text or text.endswith("\n")):
            break
        line += text.count("\n", position, match.start())
        position = match.start()
        end = line + text.count("\n", match.start(), max(match.start(), match.end() - 1))
        if line <= last:
            last = max(last, end)
            continue
        if found is not None:
            yield first, last, found
        first, last, found = line, end, match
    if found is not None:
        yield first, last, found


def _has_undecoded(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _cut(text: str, column: int) -> str:
    if len(text) <= _MAX_LINE_CHARS:
        return text
    start = max(0, column - _MAX_LINE_CHARS // 4) if column > _MAX_LINE_CHARS * 3 // 4 else 0
    end = start + _MAX_LINE_CHARS
    return f"{'...' if start else ''}{text[start:end]}{'...' if end < len(text) else ''}"
