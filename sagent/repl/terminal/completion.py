"""Completion in the input: `/command` and its arguments, `@path`."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from sagent.repl.files import nearest

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples

_PATH = re.compile(r"(?:^|[\s(])@([^\s\"@]*)$")


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
            if not space:
                yield from _ranked(name, self._commands(), 0 - len(name))
            else:
                yield from _ranked(rest, self._arguments(name, rest), 0 - len(rest))
        elif found := _PATH.search(document.current_line_before_cursor):
            for path in nearest(found[1], self._files()):
                text = f'"{path}"' if " " in path else path
                yield Completion(text, -len(found[1]), display=path)


def _ranked(typed: str, options: Iterable[tuple[str, str]], start: int) -> Iterable[Completion]:
    typed = typed.lower()
    first: list[Completion] = []
    later: list[Completion] = []
    for text, told in options:
        meta: StyleAndTextTuples = [("class:dim", told)]
        completion = Completion(text, start, display=text, display_meta=meta)
        if text.lower().startswith(typed):
            first.append(completion)
        elif typed in text.lower():
            later.append(completion)
    yield from (*first, *later)


def is_completable(text: str) -> bool:
    """Whether typing on should offer completions."""
    return (text.startswith("/") and "\n" not in text) or _PATH.search(text) is not None
