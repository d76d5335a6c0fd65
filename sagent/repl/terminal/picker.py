"""A list to choose from, drawn between the panel and the input: narrowed by typing, or with a key for each choice."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Generic, TypeVar

from sagent.lib.dataclass import dataclass
from sagent.repl.terminal.menu import render_menu
from sagent.repl.view.lines import Line, Span, cut_line, line_width, one_line, wrap

T = TypeVar("T")
MOST_ROWS = 10
_IN_HINT = 1_000  # worse than any match of a name


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """One choice: what it stands for, its words, and a key that takes it at once ("" for none). `short` is for where
    there is little room; `also` is another name that it is found by."""

    value: T
    label: str
    hint: str = ""
    key: str = ""
    short: str = ""
    also: str = ""


def matches(query: str, text: str) -> int | None:
    """How well a text fits what was typed, lower is better; None where its letters are not there in that order."""
    query, text = query.lower(), text.lower()
    if not query:
        return 0
    if (place := text.find(query)) >= 0:
        before = text[place - 1] if place else "/"
        return place // 8 - (8 if before in "/ .-_" else 0) - (8 if text[place:] == query else 0)
    position, score = -1, 20
    for letter in query:
        found = text.find(letter, position + 1)
        if found < 0:
            return None
        score += min(found - position - 1, 10)
        position = found
    return score + len(text) // 20


def narrowed(options: Sequence[Option[T]], query: str) -> list[Option[T]]:
    """The options that fit every word of the query, best first: those whose names do before those whose hints do."""
    scored = ((option, [_score(option, word) for word in query.split()]) for option in options)
    fitting = [(option, sum(score or 0 for score in scores)) for option, scores in scored if None not in scores]
    return [option for option, _ in sorted(fitting, key=lambda item: item[1])]


def _score(option: Option[T], word: str) -> int | None:
    """How well a word fits an option: its letters must be in a name of it, or the whole word in the hint."""
    found = [score for name in (option.label, option.also) if (score := matches(word, name)) is not None]
    return min(found) if found else _IN_HINT if word.lower() in option.hint.lower() else None


@dataclass(slots=True)
class Picker(Generic[T]):
    """A list that is open. Its future has the choice, or None when it was left without one. Its title is lines, or what
    gives them for a width; where there is no room for all of it, it begins at `scroll`. `leaving` is what Esc does.

    With `keys` letters choose at once, else they narrow; nothing is selected then at first, `words` says that any other
    text is an answer, and one that is `held` takes no keys yet, says so, and shows no choices. Where several may be
    chosen, `ticked` is a set to begin with: letters and space tick, and in the end it has the numbers of all that are
    chosen.
    """

    title: Sequence[Line] | Callable[[int], Sequence[Line]]
    options: Sequence[Option[T]]
    keys: bool = False
    ticked: set[int] | None = None
    words: bool = False
    held: str = ""
    leaving: str = "leaves the list"
    query: str = ""
    at: int = -1
    scroll: int = 0
    chosen: "asyncio.Future[T | None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def __post_init__(self) -> None:
        self.at = -1 if self.keys else 0

    @property
    def shown(self) -> list[Option[T]]:
        return list(self.options) if self.keys else narrowed(self.options, self.query)

    def title_for(self, width: int) -> Sequence[Line]:
        return self.title(width) if callable(self.title) else self.title

    def move(self, step: int) -> None:
        """Select another option, wrapping around at the ends."""
        count = len(self.shown)
        self.at = (max(self.at, 0 if step < 0 else -1) + step) % count if count else 0

    def type(self, text: str) -> bool:
        """Take a letter: it chooses, or narrows. False where it is not a choice."""
        if not self.keys:
            self.query, self.at = self.query + text, 0
            return True
        if text == " " and self.ticked is not None:
            self._tick(max(self.at, 0))
            return True
        for number, option in enumerate(self.options):
            if text.lower() == (option.key or str(number + 1)):
                if self.ticked is None:
                    self.take(option.value)
                else:
                    self._tick(number)
                return True
        return False

    def _tick(self, number: int) -> None:
        if self.ticked is not None and number < len(self.options):
            self.at = number
            self.ticked ^= {number}

    def rub(self) -> None:
        self.query, self.at = self.query[:-1], 0

    def enter(self) -> None:
        if (shown := self.shown) and (self.at >= 0 or self.ticked):
            if self.ticked is not None:
                self.ticked = self.ticked or {self.at}
            self.take(shown[min(self.at, len(shown) - 1)].value)

    def take(self, value: T | None = None) -> None:
        """Close the list with a choice, or without one."""
        if not self.chosen.done():
            self.chosen.set_result(value)


def render_picker(picker: Picker[T], width: int, height: int) -> list[Line]:
    """An open list in at most `height` lines: as much of its title as there is room for, then the options around the
    one at hand. What is not shown is counted."""
    rows = _rendered_options(picker, width, height)
    query: list[Line] = []
    if not picker.keys:
        found = f"  {len(picker.shown)} of {len(picker.options)}"
        query.append((("class:mark", "  / "), ("", picker.query), ("class:dim", found)))
    room = max(height - len(rows) - len(query), 1)
    title = [cut_line(line, width) for line in picker.title_for(width)]
    if len(title) > room:
        head, body, room = title[: room > 3], title[room > 3 :], max(room - (room > 3) - 1, 0)
        picker.scroll = first = max(min(picker.scroll, len(body) - room), 0)
        counted = f"  ↑ {first} more lines · ↓ {len(body) - room - first} more lines · PgUp PgDn, Ctrl-O shows all"
        if line_width((("", counted),)) > width:
            counted = f"  ↑{first} ↓{len(body) - room - first} lines · PgUp PgDn Ctrl-O"
        if line_width((("", counted),)) > width:
            counted = f" ↑{first} ↓{len(body) - room - first} · Ctrl-O"
        title = [*head, *body[first : first + room], cut_line((("class:warning", counted),), width)]
    return [*title, *query, *rows]


def _rendered_options(picker: Picker[T], width: int, height: int) -> list[Line]:
    """The options, one a line; where the terminal is low, all those with keys on as few lines as they fit on."""
    shown = picker.shown
    if not (picker.keys or picker.held):
        most = max(min(MOST_ROWS, height - 3), 1)
        return render_menu([(option.label, option.hint) for option in shown], picker.at, width, most)
    lines = [cut_line(_option(picker, option, number), width) for number, option in enumerate(shown)]
    if shown and all(option.key for option in shown) and len(shown) + 4 > height:
        low = (
            f"{'❯' if number == picker.at else ''}{one.key} {one.short or one.label}"
            for number, one in enumerate(shown)
        )
        lines = wrap([("", "  ".join(low))], width, (("", " "),))
        if len(lines) > max(height // 2, 1):
            lines = [(("", f" {'  '.join(one.key for one in shown)}"),)]
    if picker.held:
        held = max(min(len(lines), MOST_ROWS, height - 2 - (not picker.keys)), 1)
        said = wrap([("class:dim", picker.held)], width, (("", "  "),))[:held]
        return [*said, *(((),) * (held - len(said)))]
    rows = max(min(len(lines), MOST_ROWS, height - 2), 1)
    first = min(max(picker.at - rows // 2, 0), max(len(lines) - rows, 0))
    return lines[first : first + rows]


def _option(picker: Picker[T], option: Option[T], number: int) -> Line:
    style, mark = ("class:chosen", "❯ ") if number == picker.at else ("", "  ")
    spans: list[Span] = [("class:mark", mark), ("class:dim", f"{option.key or number + 1} ")]
    if picker.ticked is not None:
        spans.append(("class:mark", "☑ " if number in picker.ticked else "☐ "))
    spans.append((style, one_line(option.label)))
    if option.hint:
        spans.append(("class:dim", f"  {one_line(option.hint)}"))
    return tuple(spans)
