"""Completion in the input: `/command` and its arguments, `@path`."""

import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from sagent.lib.text import printable
from sagent.repl.terminal.picker import matches

MAX_OFFERED = 200  # at once
_BARE = re.compile(r"[^\s@]\S*(?<![.,;:!?)])")  # a path that a mention has without quotes
_PATH = re.compile(r"(?:^|[\s(])@([^\s\"@]*)$")


def nearest(query: str, files: Sequence[str], limit: int = 50) -> list[str]:
    """Return the files whose paths match the typed text, best first."""
    letters = query.lower()
    scored: list[tuple[int, int, str]] = []
    for path in files:
        if (score := matches(letters, path)) is None:
            continue
        name = path.rpartition("/")[2].lower()
        score -= 20 if name.startswith(letters) else 10 if letters in name else 0
        scored.append((score, len(path), path))
    return [path for _, _, path in heapq.nsmallest(limit, scored)]


class InputCompleter(Completer):
    """`commands` lists names with their help; `arguments` completes a command's arguments; `first` lists the commands
    to offer before others, best first."""

    def __init__(
        self,
        files: Callable[[], Sequence[str]],
        commands: Callable[[], Iterable[tuple[str, str]]],
        arguments: Callable[[str, str], Iterable[tuple[str, str]]],
        first: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._files, self._commands, self._arguments, self._first = files, commands, arguments, first

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        del complete_event
        before = document.text_before_cursor
        if before.startswith("/") and "\n" not in before:
            name, space, rest = before[1:].partition(" ")
            if space:
                yield from _ranked(rest, self._arguments(name, rest))
            else:
                places = {one: place for place, one in enumerate(dict.fromkeys(self._first()))}
                commands = sorted(self._commands(), key=lambda row: places.get(row[0], len(places)))
                yield from _ranked(name, commands, "/")
        elif match := _PATH.search(document.current_line_before_cursor):
            for path in nearest(match[1], self._files()):
                if '"' in path or "\n" in path:
                    continue  # no mention can have it
                text = path if _BARE.fullmatch(path) else f'"{path}"'
                yield Completion(text, -len(match[1]), display=printable(path))


def _ranked(typed: str, options: Iterable[tuple[str, str]], mark: str = "") -> Iterator[Completion]:
    """Yield the matching options: by name first, best first, then those whose description contains the text."""
    typed, scored = typed.lower(), list[tuple[tuple[bool, int], str, str]]()
    for text, detail in options:
        if (score := matches(typed, text)) is not None:
            scored.append(((False, score if typed else 0), text, detail))
        elif typed in detail.lower():
            scored.append(((True, 0), text, detail))
    for _, text, detail in sorted(scored, key=lambda each: each[0])[:MAX_OFFERED]:
        yield Completion(text, -len(typed), display=mark + printable(text), display_meta=printable(detail))


def used_commands(lines: Iterable[str]) -> Iterator[str]:
    """Return the names of the commands among lines."""
    return (line[1:].split(maxsplit=1)[0] for line in lines if line.startswith("/") and line[1:2].strip())


def is_completable(text: str) -> bool:
    """Return True if typing on should offer completions."""
    return (text.startswith("/") and "\n" not in text) or _PATH.search(text) is not None
