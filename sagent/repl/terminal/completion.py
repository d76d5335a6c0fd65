"""Completion in the input: `/command` and its arguments, `@path`."""

import heapq
import re
from collections.abc import Callable, Iterable, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from sagent.lib.text import printable
from sagent.repl.terminal.picker import matches

_PATH = re.compile(r"(?:^|[\s(])@([^\s\"@]*)$")


def nearest(query: str, files: Sequence[str], most: int = 50) -> list[str]:
    """The files whose paths fit what was typed, best first."""
    letters = query.lower()
    scored: list[tuple[int, int, str]] = []
    for path in files:
        if (score := matches(letters, path)) is None:
            continue
        name = path.rpartition("/")[2].lower()
        score -= 20 if name.startswith(letters) else 10 if letters in name else 0
        scored.append((score, len(path), path))
    return [path for _, _, path in heapq.nsmallest(most, scored)]


class InputCompleter(Completer):
    """`commands` lists names with their help; `arguments` what may follow a command, given what is typed of it."""

    def __init__(
        self,
        files: Callable[[], Sequence[str]],
        commands: Callable[[], Iterable[tuple[str, str]]],
        arguments: Callable[[str, str], Iterable[tuple[str, str]]],
    ) -> None:
        self._files, self._commands, self._arguments = files, commands, arguments

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        del complete_event
        before = document.text_before_cursor
        if before.startswith("/") and "\n" not in before:
            name, space, rest = before[1:].partition(" ")
            yield from _ranked(rest, self._arguments(name, rest)) if space else _ranked(name, self._commands())
        elif found := _PATH.search(document.current_line_before_cursor):
            for path in nearest(found[1], self._files()):
                text = f'"{path}"' if " " in path else path
                yield Completion(text, -len(found[1]), display=printable(path))


def _ranked(typed: str, options: Iterable[tuple[str, str]]) -> Iterable[Completion]:
    start, typed = -len(typed), typed.lower()
    fitting = [(text, told) for text, told in options if typed in text.lower()]
    for text, told in sorted(fitting, key=lambda option: not option[0].lower().startswith(typed)):
        yield Completion(text, start, display=printable(text), display_meta=[("class:dim", printable(told))])


def is_completable(text: str) -> bool:
    """Whether typing on should offer completions."""
    return (text.startswith("/") and "\n" not in text) or _PATH.search(text) is not None
