"""A list to choose from, drawn between the panel and the input: narrowed by typing, or with a key for each choice."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Generic, TypeAlias, TypeVar

from sagent.lib.dataclass import dataclass
from sagent.lib.text import count
from sagent.lib.text import cut as shorten
from sagent.repl.terminal.menu import count_hidden, render_menu
from sagent.repl.view.lines import Line, Span, cut_line, line_width, one_line, width_of, wrap

T = TypeVar("T")
Stop: TypeAlias = Callable[[], bool]
Shown: TypeAlias = Callable[[int], Sequence[Line]]
"""Renders a text, for a width, to read before choosing."""
MAX_ROWS = 10
MAX_QUERY_CHARS = 100  # a paste may have a megabyte of them
MAX_ABOUT_ROWS = 7  # about the current option
MIN_ASKER_COLUMNS = 10  # for the asker's name
COUNTED = 6  # for the number of hidden rows
_IN_HINT = 1_000  # worse than any match of a name
_MAX_LETTER_GAP = 5  # characters between two matching letters


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """One choice: its value, its text, and a key that takes it at once ("" for none). `short` is for little room;
    `also` is another name to find it by, and `keywords` a text searched for whole words. The `current` one is marked,
    and a list without keys begins at it."""

    value: T
    label: str
    hint: str = ""
    key: str = ""
    short: str = ""
    also: str = ""
    keywords: str = ""
    current: bool = False


@dataclass(frozen=True, slots=True)
class Lookup(Generic[T]):
    """Searches in a thread while a list is open, until `stop` returns True: `search` returns the options that contain
    the words, each with the text around them; `describe` returns facts about an option, each with a name. With
    `latest`, the options and the facts are looked up again every second."""

    search: Callable[[str, Stop], Mapping[T, str]]
    describe: Callable[[T, Stop], Sequence[tuple[str, str]]]
    latest: Callable[[], Sequence[Option[T]]] | None = None


@dataclass(frozen=True, slots=True)
class SecondKey(Generic[T]):
    """The action of Ctrl-X on the current option, with its label; `act` returns the new options."""

    words: str
    act: Callable[[T], Sequence[Option[T]]]


def matches(query: str, text: str) -> int | None:
    """Score how well a text matches the typed letters, lower is better; None if they do not occur in order or, in a
    sentence, are too far apart."""
    query, text = query.lower(), text.lower()
    if not query:
        return 0
    if (place := text.find(query)) >= 0:
        before = text[place - 1] if place else "/"
        whole = before == "/" and text[place:] == query
        return place // 8 - (8 if before in "/ .-_" else 0) - (8 if whole else 0)
    position, score = -1, 20
    for letter in query:
        found = text.find(letter, position + 1)
        if found < 0:
            return None
        if position >= 0 and found - position > _MAX_LETTER_GAP and " " in text:
            return None
        score += min(found - position - 1, 10)
        position = found
    return score + len(text) // 20


def narrowed(options: Sequence[Option[T]], query: str) -> list[Option[T]]:
    """Return the options that match every word of the query, best first: matches in names before those in hints."""
    scored = ((option, [_score(option, word) for word in query.split()]) for option in options)
    fitting = [(option, sum(score or 0 for score in scores)) for option, scores in scored if None not in scores]
    return [option for option, _ in sorted(fitting, key=lambda item: item[1])]


def _score(option: Option[T], word: str) -> int | None:
    """Score a word's match with an option: letters in order in its name, or the whole word in its hint or text."""
    found = [score for name in (option.label, option.also) if (score := matches(word, name)) is not None]
    if found:
        return min(found)
    return _IN_HINT if any(word.lower() in text.lower() for text in (option.hint, option.keywords)) else None


@dataclass(slots=True)
class Picker(Generic[T]):
    """An open list. Its future gets the choice, or None if the person leaves it. Its title is lines, or a function of
    the width; if it does not fit, `scroll` is how far it is scrolled. Its `foot` stays visible, at least its beginning.
    `leaving` describes Esc.

    With `keys`, letters choose at once; otherwise they narrow the list. With keys, nothing is selected at first,
    `words` allows any other text as an answer, and a `held` list does not take keys yet, says so, and shows no choices.
    If several options may be chosen, `ticked` is the initial set: letters and space tick, and it ends with the numbers
    of the chosen ones.

    With a `lookup`, every word must be in a name or hint, or all of them in the looked-up text, `found` for the words
    `sought`; `about` has facts on options.
    """

    title: Sequence[Line] | Shown
    options: Sequence[Option[T]]
    foot: Line = ()  # its first span precedes each of its rows
    keys: bool = False
    row: bool = False  # its options with keys stand on one line, or as few as they need
    ticked: set[int] | None = None
    words: bool = False
    held: str = ""
    listed: bool = False  # the options of a held one are shown too, without their keys
    leaving: str = "closes the list"
    query: str = ""
    at: int = -1
    scroll: int = 0
    page: int = 1  # rows of the scrolled title shown last
    lookup: Lookup[T] | None = None
    second: SecondKey[T] | None = None
    sought: str = ""
    found: Mapping[T, str] = field(default_factory=dict[T, str])
    about: dict[T, Sequence[tuple[str, str]]] = field(default_factory=dict[T, Sequence[tuple[str, str]]])
    _titles: dict[int, list[Line]] = field(default_factory=dict[int, list[Line]])  # by their width
    chosen: "asyncio.Future[T | None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def __post_init__(self) -> None:
        if wrong := [option for option in self.options if not hasattr(option, "label")]:
            raise TypeError(f"a list has {wrong[0]!r:.60} among its options, which is not an Option")
        self.begin()
        self.options = [replace(each, label=f"{each.label} ✓") if each.current else each for each in self.options]

    def begin(self) -> None:
        """Select the current option, or none if the options have keys."""
        self.at = -1 if self.keys else next((at for at, each in enumerate(self.options) if each.current), 0)

    @property
    def shown(self) -> list[Option[T]]:
        if self.keys:
            return list(self.options)
        if self.lookup is None:
            return narrowed(self.options, self.query)
        words = self.query.lower().split()
        named = [one for one in self.options if all(word in f"{one.label} {one.hint}".lower() for word in words)]
        known = {one.value for one in named}
        rest = (option for option in self.options if self.excerpt(option) and option.value not in known)
        return [*named, *(replace(one, hint=f"{one.hint}  {self.excerpt(one)}") for one in rest)]

    def excerpt(self, option: Option[T]) -> str:
        """Return the text around the typed words; "" if they were not found in it."""
        return self.found.get(option.value, "") if self.sought == self.query else ""

    @property
    def at_hand(self) -> Option[T] | None:
        """The option that Enter chooses."""
        shown = self.shown
        return shown[min(self.at, len(shown) - 1)] if shown and self.at >= 0 else None

    def title_for(self, width: int) -> list[Line]:
        """Return the title and its foot. A long one is rendered once per width, because it is drawn with every key."""
        if width not in self._titles:
            title = [*(self.title(width) if callable(self.title) else self.title), *self.foot_for(width)]
            self._titles[width] = [cut_line(line, width) for line in title]
        return self._titles[width]

    def whole(self, width: int) -> list[Line]:
        """Return all to read before a choice, including facts on the current option and options longer than a row."""
        rows = [_option(self, option, number, width) for number, option in enumerate(self.options)] if self.keys else []
        long = [line for option in rows for line in option] if any(len(option) > 1 for option in rows) else []
        return [*self.title_for(width), *(self.preview(width, 1000) if self.lookup else ()), *long]

    def foot_for(self, width: int) -> list[Line]:
        return wrap(self.foot[1:], width, self.foot[:1]) if self.foot else []

    def preview(self, width: int, room: int) -> list[Line]:
        """Render the facts on the current option in at most `room` rows; if there are few, each is cut."""
        if (option := self.at_hand) is None:
            return []
        about = self.about.get(option.value, (("", "…"),))
        if said := self.excerpt(option):
            about = (*about[:1], ("found", said), *about[1:])
        rows: list[Line] = []
        for name, text in about:
            line: Line = (("class:dim", f"  {name:7}"), ("", one_line(text)))
            most = 2 if len(about) < room <= MAX_ABOUT_ROWS else room
            rows += [cut_line(line, width)] if room <= len(about) else wrap(line[1:], width, line[:1])[:most]
        return rows[:room]

    def move(self, step: int) -> None:
        """Select another option, wrapping around at the ends."""
        count = len(self.shown)
        self.at = (max(self.at, 0 if step < 0 else -1) + step) % count if count else 0

    def type(self, text: str) -> bool:
        """Handle a letter, which chooses or narrows; return False if it is neither."""
        if not self.keys:
            self.query, self.at = (self.query + text)[:MAX_QUERY_CHARS], 0
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

    def act(self) -> None:
        """Carry out the second key's action."""
        if self.second is not None and (option := self.at_hand) is not None:
            self.renew(self.second.act(option.value))

    def renew(self, options: Sequence[Option[T]]) -> None:
        """Replace the options; the selected one stays selected."""
        before, self.options = self.at_hand, options
        self.at = next((at for at, one in enumerate(self.shown) if before and one.value == before.value), self.at)

    def rub(self, count: int = 1) -> None:
        self.query, self.at = self.query[:-count], 0

    def enter(self) -> None:
        if (shown := self.shown) and (self.at >= 0 or self.ticked):
            if self.ticked is not None:
                self.ticked = self.ticked or {self.at}
            self.take(shown[min(self.at, len(shown) - 1)].value)

    def read_on(self, step: int) -> None:
        """Scroll a title that does not fit."""
        self.scroll += step * self.page

    def take(self, value: T | None = None) -> None:
        """Close the list with a choice, or None."""
        if not self.chosen.done():
            self.chosen.set_result(value)


def render_picker(picker: Picker[T], width: int, height: int) -> list[Line]:
    """Return an open list in at most `height` lines: its title and the options around the current one, as far as they
    fit. Hidden rows are counted."""
    title = [] if picker.lookup is not None else picker.title_for(width)
    beside: Line = (*title[-1], ("class:dim", f"  {picker.held}")) if title and picker.listed and not picker.row else ()
    told = bool(beside and picker.held) and line_width(beside) <= width
    rows = _rendered_options(picker, width, height, len(title), "" if told else picker.held)
    title = [*title[:-1], beside] if told else title
    query: list[Line] = []
    if not picker.keys:
        found = f"  {len(picker.shown)} of {len(picker.options)}"
        if picker.lookup is not None:
            seeking = " …" if picker.sought != picker.query else ""
            found += seeking if picker.query else ": type words from its name or messages"
        if picker.second is not None:
            found += f" · Ctrl-X {picker.second.words}"
        query.append(cut_line((("class:mark", "  / "), ("", picker.query), ("class:dim", found)), width))
    room = max(height - len(rows) - len(query), 0)
    if picker.lookup is not None:
        return [*_previewed(picker, width, height), *query, *rows]
    if picker.row and len(title) == len(rows) == 1 and line_width((*title[0], *rows[0])) <= width:
        return [(*title[0], *rows[0])]
    if len(title) > room:
        title = _scrolled(picker, title, width, room) if room else []
    return [*title, *query, *rows]


def _scrolled(picker: Picker[T], title: Sequence[Line], width: int, room: int) -> list[Line]:
    """Fit a title: its first line, the scrolled part, the number of hidden lines, its foot. In three rows or fewer, the
    asker's name follows that number if it fits. A diff of which three rows are shown begins at its first change."""
    foot = picker.foot_for(width)
    head, body = title[:1] if room > 3 else (), title[1 : len(title) - len(foot)]
    if len(foot) > max((room - 2) // 3, 1):  # the whole foot is at the end of the scrolled text
        body, foot = [*body, *foot], [cut_line(picker.foot, width)]
    foot = foot if room > 3 else []
    room = max(room - len(head) - len(foot) - 1, 0)
    picker.page = max(room, 1)
    changed = (at for at, line in enumerate(body) if any("class:line-" in style for style, _ in line))
    start = next(changed, 0) if room <= 3 else 0
    first = max(min(start + picker.scroll, len(body) - room), 0)
    picker.scroll = first - start
    columns = sum(width_of(text) for _, text in title[0]) + len("  ↑0 ↓99 · Ctrl-O ")
    hidden = not head and columns > width  # at least in part
    above, left = first + (hidden and room > 0), len(body) - room - first + (hidden and not room)
    hidden_rows = [(arrow, rows) for arrow, rows in (("↑", above), ("↓", left)) if rows]
    long = " · ".join(f"{arrow} {count(rows, 'more line')}" for arrow, rows in hidden_rows)
    short = " ".join(f"{arrow}{rows}" for arrow, rows in hidden_rows)
    ways = (f"  {long} · PgUp PgDn, Ctrl-O shows all", f"  {short} lines · PgUp PgDn Ctrl-O", f" {short} · Ctrl-O")
    counted = next((way for way in ways if head and width_of(way) <= width), ways[-1])
    who = () if head or width - width_of(counted) < MIN_ASKER_COLUMNS else (("", "  "), *title[0])
    return [*head, *body[first : first + room], cut_line((("class:warning", counted), *who), width), *foot]


def _previewed(picker: Picker[T], width: int, height: int) -> list[Line]:
    """Return the title, if there is room, and the facts on the current option, always in the same number of rows."""
    room = height - _most_options(height) - 1
    title = picker.title(width) if callable(picker.title) else picker.title
    head = [cut_line(line, width) for line in title[: room > 3]]
    room = max(min(room - len(head), MAX_ABOUT_ROWS), 0)
    about = picker.preview(width, room)
    return [*head, *about, *[()] * (room - len(about))]


def _most_options(height: int) -> int:
    """Return the number of options below a preview."""
    return max(min(MAX_ROWS, (height - 1) // 2), 1)


def _rendered_options(picker: Picker[T], width: int, height: int, above: int, held: str) -> list[Line]:
    """Return the options below a title of so many rows; on a low terminal, options with keys share lines.
    A list that is `held` says so in their place, unless the title does."""
    shown = picker.shown
    most = max(height - above, height // 2) if picker.keys else MAX_ROWS
    least = 2 if picker.keys else 1 + min(above, 2)  # rows kept for the title
    most = max(min(most, height - least), 1) if picker.lookup is None else _most_options(height)
    if not (picker.keys or picker.held):
        return render_menu([(option.label, option.hint) for option in shown], picker.at, width, most)
    room = width * height  # characters: longer options cannot be shown
    shown = [replace(one, label=shorten(one.label, room)) for one in shown]
    options = [_option(picker, option, number, width) for number, option in enumerate(shown)]
    if picker.row or (shown and all(option.key for option in shown) and sum(map(len, options)) + 4 > height):
        options = [_on_few_lines(picker, width, height)]
    elif sum(map(len, options)) > most:
        options = [_option(picker, option, number, width - COUNTED) for number, option in enumerate(shown)]
    lines = [line for option in options for line in option]
    rows = min(len(lines), most)
    if picker.held:
        named = [cut_line((("class:dim", f"    {one.label}  {one.hint}"),), width) for one in shown]
        said = wrap([("class:dim", held)], width, (("", "  "),)) if held else ()
        return [*said, *(named if picker.listed and not picker.row else ()), *(((),) * rows)][:rows]
    start = sum(map(len, options[: max(picker.at, 0)]))
    size = len(options[picker.at]) if 0 <= picker.at < len(options) else 0
    first = min(max(start + size // 2 - rows // 2, start + size - rows, 0), start, len(lines) - rows)
    below, all_by = len(lines) - first - rows, "Ctrl-O" * (size > rows)
    return count_hidden(lines[first : first + rows], first, below, width, all_by=all_by)


def _on_few_lines(picker: Picker[T], width: int, height: int) -> list[Line]:
    if picker.row and len(lines := _keys_row(picker, width, " · ", short=False)) <= min(3, height // 4):
        return lines
    wide, narrow = (_keys_row(picker, width, gap, short=True) for gap in ("  ", " "))
    lines = wide if len(wide) == 1 else narrow
    keys = "  ".join(one.key for one in picker.shown)
    return lines if len(lines) <= max(height // 2, 1) else [(("class:said", f" {keys}"),)]


def _keys_row(picker: Picker[T], width: int, gap: str, *, short: bool) -> list[Line]:
    """Return keys and labels on as few lines as hold them; none is broken."""
    lead: list[Span] = [("", " " if short else "  ")]
    lines = [[*lead]]
    for number, one in enumerate(picker.shown):
        chosen = number == picker.at
        label = (short and one.short) or one.label
        text = f"{'❯' if chosen else ''}{one.key}{f' {label}' if label != one.key else ''}"
        if lines[-1][1:]:
            fits = line_width(tuple(lines[-1])) + width_of(gap + text) <= width
            lines += [] if fits else [[*lead]]
            lines[-1] += [("class:dim", gap)] if fits else []
        lines[-1].append(("class:chosen" if chosen else "class:said", text))
    return [cut_line(tuple(line), width) for line in lines]


def _option(picker: Picker[T], option: Option[T], number: int, width: int) -> list[Line]:
    """Show an option's whole text, and as much of its hint as fits."""
    style, mark = ("class:chosen", "❯ ") if number == picker.at else ("", "  ")
    lead: list[Span] = [("class:mark", mark), ("class:dim", f"{option.key or number + 1} ")]
    if picker.ticked is not None:
        lead.append(("class:mark", "☑ " if number in picker.ticked else "☐ "))
    *rows, last = wrap([(style, one_line(option.label))], width, tuple(lead))
    hint = (("class:dim", f"  {one_line(option.hint)}"),) if option.hint and line_width(last) < width - 3 else ()
    return [cut_line(line, width) for line in (*rows, (*last, *hint))]
