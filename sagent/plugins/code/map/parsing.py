"""The names that source files define and use, found by tree-sitter in a separate process, because a file may crash or
stall the parser.

A file has two seconds of CPU time. One that takes longer, or ends the process, is skipped; the next process continues
after it.
"""

import json
import re
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

from sagent.lib import isolated
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_int, as_str
from sagent.plugins.code.map.languages import GRAMMARS

if TYPE_CHECKING:
    from tree_sitter import Parser, Query

MAX_CPU_SECONDS = 2.0  # of CPU time, for one file
PARSE_TIMEOUT_SECONDS = 60.0  # by the clock, for all files of one process
MAX_PARSED_BYTES = 500_000  # of a file
MAX_DEFINITIONS = 2_000  # definitions of a file
MAX_USED_NAMES = 1_000  # names used by a file
MAX_LINE_CHARS = 160  # characters of a line
Dumped: TypeAlias = tuple[str, str]
"""Tags as texts."""
_NAME = re.compile(r"[^\W\d]\w{2,}")


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition: its name, its first and last line, and the first as it is written."""

    name: str
    first: int
    last: int
    text: str


@dataclass(frozen=True, slots=True)
class Tags:
    """The definitions of a file in order, and the names in it."""

    defined: tuple[Definition, ...] = ()
    named: tuple[str, ...] = ()

    def dump(self) -> Dumped:
        """Encode the tags as texts to keep."""
        rows = [[each.name, each.first, each.last, each.text] for each in self.defined]
        return json.dumps(rows), " ".join(self.named)

    @classmethod
    def load(cls, defined: str, named: str = "") -> "Tags":
        """Read tags from the output of `dump`."""
        rows = [as_array(row) for row in as_array(json.loads(defined))]
        found = (Definition(as_str(row[0]), as_int(row[1]), as_int(row[2]), as_str(row[3])) for row in rows)
        return cls(tuple(found), tuple(named.split()))


@dataclass(frozen=True, slots=True)
class Source:
    """A file to read."""

    language: str
    data: bytes


async def parse(sources: Sequence[Source]) -> list[Dumped | None]:
    """Parse sources; None for one that ends the parser. Raises OSError if no process can be started, and
    TimeoutError."""
    found: list[Dumped | None] = []
    while len(found) < len(sources):
        read, whole = await _parse(sources[len(found) :])
        found += read
        if not whole:
            found.append(None)  # the one at which the process ended
    return found[: len(sources)]


async def _parse(sources: Sequence[Source]) -> tuple[list[Dumped | None], bool]:
    """Parse sources in one process; return its results, and True if they are complete."""

    head = json.dumps([[source.language, len(source.data)] for source in sources]).encode() + b"\n"
    question = head + b"".join(source.data for source in sources)
    done = await isolated.run_isolated(__name__, question, seconds=PARSE_TIMEOUT_SECONDS)
    if done is None:
        raise OSError("a process to read source files could not be started")
    lines = done.output.split(b"\n")[:-1]
    return [_read(line) for line in lines], len(lines) == len(sources)


def _read(line: bytes) -> Dumped | None:
    defined, named = map(as_str, as_array(json.loads(line)))
    return (defined, named) if defined else None


def answer() -> None:
    """Write a line of JSON for each file in order. Runs in the other process."""
    isolated.limit()
    sizes = [as_array(each) for each in as_array(json.loads(sys.stdin.buffer.readline()))]
    readers: dict[str, tuple[Parser, Query] | None] = {}
    for language, size in ((as_str(each[0]), as_int(each[1])) for each in sizes):
        data = sys.stdin.buffer.read(size)
        signal.setitimer(signal.ITIMER_VIRTUAL, MAX_CPU_SECONDS)  # ends this process in any state
        if language not in readers:
            readers[language] = _reader(language)
        reader = readers[language]
        found = None if reader is None else _tags(data, *reader)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        sys.stdout.write(json.dumps(found.dump() if found else ("", "")) + "\n")
        sys.stdout.flush()


def _reader(language: str) -> "tuple[Parser, Query] | None":
    """Return the parser and the query of a language; None if its grammar is not installed, or has changed."""
    grammar = GRAMMARS[language]
    with suppress(ImportError, AttributeError, ValueError, TypeError):
        from tree_sitter import Language, Parser, Query

        made: object = getattr(import_module(grammar.module), grammar.function)()
        spoken = Language(made)
        return Parser(spoken), Query(spoken, grammar.query)
    return None


def _tags(data: bytes, parser: "Parser", query: "Query") -> Tags:
    from tree_sitter import QueryCursor

    text = data.decode("utf-8", "replace")
    lines = text.split("\n")
    found: dict[tuple[int, str], Definition] = {}
    for _, captured in QueryCursor(query).matches(parser.parse(text.encode("utf-8", "replace")).root_node):
        for node, named in zip(captured.get("definition", ()), captured.get("name", ()), strict=False):
            name = (named.text or b"").decode("utf-8", "replace")[:MAX_LINE_CHARS]
            first, last = named.start_point[0], node.end_point[0]
            written = " ".join(lines[first].split())[:MAX_LINE_CHARS]
            if name.strip():
                found.setdefault((first, name), Definition(name, first + 1, last + 1, written))
    defined = sorted(found.values(), key=lambda each: (each.first, -each.last, each.name))[:MAX_DEFINITIONS]
    named = sorted(set(_NAME.findall(text)))[:MAX_USED_NAMES]
    return Tags(tuple(defined), tuple(name for name in named if len(name) <= MAX_LINE_CHARS))
