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

MAX_SEARCH_SECONDS = 20  # then the results so far are shown
MAX_PROCESS_SECONDS = 30  # of a search in a separate process
INCOMPLETE_NOTE = "(There was not enough time to search the whole directory. Give a narrower path.)"
_BLOCK_BYTES = 4_000_000  # read at once
_MAX_WHOLE_BYTES = 64_000_000  # of a file that must be in memory at once: UTF-16, or a search across lines
_MAX_FILE_BYTES = 1_000_000_000  # of a file that was not named itself
_MAX_TEXT_CHARS = 40_000  # of output
_MAX_LINE_CHARS = 400
_MAX_LINES_PER_HIT = 30
_BOMS = ((b"\xff\xfe\0\0", "utf-32"), (b"\0\0\xfe\xff", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_UNREADABLE, _BINARY = "could not be read", "are binary"  # why files are not searched
_HUGE = f"are larger than {_MAX_FILE_BYTES // 1_000_000_000} GB"
_GONE_ERRNOS = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL)  # or no file any more since it was found
_TOO_LARGE = f"are too large for this search (over {_MAX_WHOLE_BYTES // 1_000_000} MB)"


class Query(NamedTuple):
    """A search: pattern, place, and form of the results. `files` are relative to `root`, a path without links."""

    root: str  # the directory, or the single file
    label: str  # prefix of each shown path
    files: list[str]
    glob: str  # "" means every file
    name_globs: list[str]  # globs for a file's name, one of which must match; none means any
    is_file: bool  # a single file is searched
    pattern: str  # in the syntax of `re`
    strict_pattern: str  # for text with undecodable bytes, which it never matches
    composed_pattern: str  # with composed letters, for composed text; "" for an ASCII pattern
    text_first: bool  # a file whose whole text has no match has no line with one
    ignore_case: bool
    multiline: bool
    mode: str  # "content", "files_with_matches" or "count"
    context: int
    limit: int
    offset: int
    hidden_count: int = 0  # requested files that the policy hides: they are not in `files`
    incomplete: bool = False  # time ran out before all files were listed
    no_candidates: bool = False  # no file fits the globs
    ignored_files: Sequence[str] = ()  # the files that fit the globs, if git ignores all of them
    unreadable: Sequence[str] = ()  # directories that could not be read


class Report(NamedTuple):
    """The result of a search: text for the model, and a short outcome for the person."""

    text: str
    summary: str


def search(query: Query, stop: Callable[[], bool]) -> Report:
    """Run a query, with files in the order of their paths. Return the results so far when `stop` is True."""
    end = monotonic() + MAX_SEARCH_SECONDS
    wanted = name_filter(query.glob, query.name_globs)
    page = _Page(query)
    finder = _Finder(query, lambda: stop() or monotonic() > end)
    for path in sorted(filter(wanted, query.files)):
        if page.full or finder.stopped:
            break
        page.begin(path)
        finder.search_file(path, page)
        finder.note_encoding(path, has_hits=page.found)
        page.end()
    return page.report(finder.notes())


def name_filter(glob: str, name_globs: list[str]) -> Callable[[str], bool]:
    """Return a filter of relative paths: a glob with `/` applies to the path, one without to the name, `!` excludes."""
    glob = canonical(glob)
    negated = glob.startswith("!")
    literal = glob = glob[negated:].removeprefix("./")
    patterns = [pattern.removeprefix("!" * negated) for pattern in glob.replace(",", " ").split()]
    if "{" not in glob and ("," in glob or (patterns[1:] and all("*" in pattern for pattern in patterns))):
        glob = "{" + ",".join(patterns) + "}"
    by_path = "/" in glob
    forms = dict.fromkeys(each.removeprefix("/") for each in (glob, literal))
    regex = re.compile("|".join(map(glob_regex, forms)), re.DOTALL)
    name_regex = re.compile("|".join(map(glob_regex, name_globs)), re.DOTALL)

    def wanted(path: str) -> bool:
        path = path if path.isascii() else canonical(path)
        name = path.rpartition("/")[2]
        if name_globs and not name_regex.fullmatch(name):
            return False
        return not glob or (regex.fullmatch(path if by_path else name) is None) == negated

    return wanted


def left_out_note(count: int, verb: str) -> str:
    """Say that some files were left out because of the policy: `(2 files not searched: ...)`."""
    files, are = (f"{count} files", "they are") if count > 1 else ("1 file", "it is")
    return f"({files} {verb}: {are} denied, or may hold keys.)"


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

    signal.alarm(MAX_PROCESS_SECONDS + 5)
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

    def line(self, number: int, text: str, hit: "re.Match[str] | None", *, is_new: bool) -> bool:
        """Add a line; a hit may span several. Return True if more lines of this file are wanted."""
        if hit is not None:
            if is_new:
                self._hits_here += 1
                self._lines_of_hit = 0
            if self._query.mode == "files_with_matches":
                return False
            if self._query.mode == "count":
                return True
            if is_new and not self._count_entry():
                return False
            if self._entries > self._query.offset:
                self._lines_of_hit += 1
                self._show_hit(number, text, hit)
                return True
        if self._after > 0:
            self._after -= 1
            self._add_line(number, text, "-", 0)
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
            if not self._count_entry():
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

    def _count_entry(self) -> bool:
        """Count an entry and return True, or False if the page is full."""
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
            self._add_line(earlier, line, "-", 0)
        self._before.clear()
        self._add_line(number, text, ":", hit.start() if self._lines_of_hit == 1 and not self._query.multiline else 0)
        self._after = self._query.context

    def _add_line(self, number: int, text: str, mark: str, column: int) -> None:
        if self._query.context and self._out and number != self._last + 1:
            self._out.append("--")
        shown = f"{self._path}{mark}{number}{mark}{_shorten(valid_text(text), column)}"
        self._out.append(shown)
        self._size += len(shown) + 1
        self._last = number


class _Finder:
    """Finds hits in files, and collects the reasons why some could not be searched."""

    def __init__(self, query: Query, stop: Callable[[], bool]) -> None:
        flags = re.MULTILINE | (re.IGNORECASE if query.ignore_case else 0) | (re.DOTALL if query.multiline else 0)
        self._query = query
        self._regex = re.compile(query.pattern, flags)
        self._strict = re.compile(query.strict_pattern, flags)
        self._composed = re.compile(query.composed_pattern, flags) if query.composed_pattern else None
        self._other_form = ""  # matches of the pattern with its letters composed differently
        self._skipped: dict[str, list[str]] = {_UNREADABLE: [*query.unreadable], _TOO_LARGE: [], _HUGE: [], _BINARY: []}
        self._stop = stop
        self._encoding = ""  # of the searched file, if guessed
        self._encodings: dict[str, list[str]] = {}
        self.stopped = ""  # the file at which time ran out

    def search_file(self, path: str, page: _Page) -> None:
        """Add the lines of a file to the page, until it is full."""
        try:
            number = 0
            for text, last in self._blocks(path):
                if not text:  # a byte order mark alone
                    return
                undecoded = not text.isascii() and _has_undecoded(text)
                regex = self._strict if undecoded else self._regex
                if self._query.text_first and number == 0 and last and not self._match(text, regex):
                    return
                lines = text.removesuffix("\n").split("\n")
                if not self._search_lines(text, lines, number, regex, page):
                    return
                number += len(lines)
        except OSError as error:
            if error.errno not in _GONE_ERRNOS:
                self._skipped[_UNREADABLE].append(path)

    def note_encoding(self, path: str, *, has_hits: bool) -> None:
        """Note the encoding of the file just searched if it was guessed, and the file has hits."""
        if has_hits and self._encoding:
            self._encodings.setdefault(self._encoding, []).append(path)
        self._encoding = ""

    def notes(self) -> list[str]:
        notes: list[str] = []
        if self._other_form:
            notes.append(f"(Some have the pattern's letters composed otherwise: {escape(self._other_form)})")
        for encoding, paths in self._encodings.items():
            notes.append(f"(Not UTF-8, read as {encoding}: {_quote_first(paths)}.)")
        for why, paths in self._skipped.items():
            if paths:
                notes.append(f"(Not searched, because they {why}: {_quote_first(paths)}.)")
        if self.stopped:
            where = quote_path(self.stopped)
            notes.append(f"(Stopped after {MAX_SEARCH_SECONDS} s at {where}. Give a narrower path, glob or type.)")
        if self._query.ignored_files:
            those = _quote_first(list(self._query.ignored_files))
            notes.append(
                f"(No file was searched: git ignores those that fit the glob or type: {those}. Give one as path.)"
            )
        elif self._query.no_candidates:
            notes.append("(No file was searched: none there has a name that fits the glob or type.)")
        if self._query.incomplete:
            notes.append(INCOMPLETE_NOTE)
        if self._query.hidden_count:
            notes.append(left_out_note(self._query.hidden_count, "not searched"))
        return notes

    def _search_lines(self, text: str, lines: list[str], number: int, regex: "re.Pattern[str]", page: _Page) -> bool:
        if not self._query.multiline:
            for current, line in enumerate(lines, number + 1):
                if not page.line(current, line, self._match(line, regex), is_new=True):
                    return False
            return True
        if self._composed is not None and canonical(text) != text:
            regex, text = self._composed, canonical(text)
        hits = _match_ranges(regex, text)
        start, end, match = next(hits, (-1, -1, None))
        for index, line in enumerate(lines):
            inside = start <= index <= end
            if not page.line(number + index + 1, line, match if inside else None, is_new=start == index):
                return False
            if index == end:
                start, end, match = next(hits, (-1, -1, None))
        return True

    def _match(self, text: str, regex: "re.Pattern[str]") -> "re.Match[str] | None":
        """Find the pattern in a text whose letters may be composed differently."""
        hit = regex.search(text)
        if hit is None and self._composed is not None and (hit := self._composed.search(canonical(text))):
            forms = (form for form in (normalize("NFD", hit[0]), hit[0], text) if form in text)
            self._other_form = self._other_form or next(forms)[:100]
        return hit

    def _blocks(self, path: str) -> Iterator[tuple[str, bool]]:
        """Yield the file's text in pieces that end with a line, each with True for the last. CRLF is read as LF."""
        if self._should_stop(path):
            return
        with open_regular(self._query.root if self._query.is_file else f"{self._query.root}/{path}") as file:
            data = file.read(_BLOCK_BYTES)
            codec = next((codec for bom, codec in _BOMS if data.startswith(bom)), "utf-8")
            if codec == "utf-8" and (b"\0" in data[:65_536] or SHIFT in data[:65_536]):
                codec = self._detect(data[:65_536])
            if codec == "":
                if self._query.is_file:
                    self._skipped[_BINARY].append(path)
                return
            if not self._query.is_file and os.fstat(file.fileno()).st_size > _MAX_FILE_BYTES:
                self._skipped[_HUGE].append(path)
                return
            data = data.removeprefix(b"\xef\xbb\xbf")
            if codec != "utf-8" or self._query.multiline:
                data += file.read(_MAX_WHOLE_BYTES)
                if len(data) > _MAX_WHOLE_BYTES:
                    self._skipped[_TOO_LARGE].append(path)
                    return
            while data:
                more = file.read(_BLOCK_BYTES) if len(data) >= _BLOCK_BYTES else b""
                end = data.rfind(b"\n") + 1 if more else len(data)
                if end == 0 and len(data) < _MAX_WHOLE_BYTES:
                    data += more
                    continue
                end = end or len(data)
                text = data[:end].decode(
                    codec, "replace" if codec.startswith("utf-") and codec != "utf-8" else "surrogateescape"
                )
                if codec == "utf-8" and not text.isascii() and _has_undecoded(text):
                    codec = self._detect(data[:end])
                    text = data[:end].decode(codec, "surrogateescape")
                text = text.replace("\r\n", "\n")
                yield text, not more and end == len(data)
                data = data[end:] + more
                if data and self._should_stop(path):
                    return

    def _detect(self, data: bytes) -> str:
        """Return the codec of a file's beginning that is not plain UTF-8, as Read decodes it; "" for binary data."""
        from sagent.lib.encoding import Text, decode

        decoded = decode(data)
        if not isinstance(decoded, Text):
            return "utf-8" if b"\0" not in data else ""
        self._encoding = decoded.encoding.guess or (decoded.encoding.codec if b"\0" in data else "")
        return decoded.encoding.codec

    def _should_stop(self, path: str) -> bool:
        if self._stop():
            self.stopped = path
        return self.stopped != ""


def _quote_first(paths: list[str]) -> str:
    more = f" and {len(paths) - 5} more" if len(paths) > 5 else ""
    return ", ".join(map(quote_path, paths[:5])) + more


def _match_ranges(regex: "re.Pattern[str]", text: str) -> Iterator[tuple[int, int, "re.Match[str]"]]:
    """Yield the first and last line of each match, from 0. Matches that share a line are merged."""
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


def _shorten(text: str, column: int) -> str:
    if len(text) <= _MAX_LINE_CHARS:
        return text
    start = max(0, column - _MAX_LINE_CHARS // 4) if column > _MAX_LINE_CHARS * 3 // 4 else 0
    end = start + _MAX_LINE_CHARS
    return f"{'...' if start else ''}{text[start:end]}{'...' if end < len(text) else ''}"
