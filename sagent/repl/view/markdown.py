"""Streaming Markdown: text goes in, finished blocks come out, each written once; the rest is shown provisionally.

A finished block never depends on later text. A line of code, a heading, an item and a paragraph are blocks; a whole
table is one, because its widths need all rows, and so is code in a language that a plugin draws, unless it is long.

The common core of CommonMark and of GitHub's tables is supported; line
ends inside a paragraph are kept, as models mean them.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Literal, TypeAlias, cast

from sagent.lib.dataclass import dataclass
from sagent.lib.text import count
from sagent.repl.view.lines import FILL, Line, Span, cut, fold, fold_long, line_width, plain, printable, width_of, wrap
from sagent.repl.view.links import leading_to, names_file

Kind: TypeAlias = Literal["paragraph", "heading", "item", "quote", "code", "table", "rule"]

_MIN_QUOTE_COLUMNS = 16  # of text within bars
MAX_DRAWN_LINES = 60  # of code that is drawn as a whole
MAX_LINE_CHARS = 6_000  # of a block that are shown; the rest is folded
MAX_PROSE_COLUMNS = 110  # longer lines are hard to read
_FENCE = re.compile(r"^( *)(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$")
_HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_ITEM = re.compile(r"^( *)([-*+]|\d{1,9}[.)])( +|$)(.*)$")
_RULE = re.compile(r"^ {0,3}(?:(?:- *){3,}|(?:\* *){3,}|(?:_ *){3,})$")
_QUOTE = re.compile(r"^ *> ?(.*)$")
_DELIMITER = re.compile(r"^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")


@dataclass(frozen=True, slots=True)
class Piece:
    """A block. `level` is a heading's level, else the indentation in columns; `mark` is an item's mark or a code's
    language; `gap` requests an empty line before it. Of a table that is printed while it grows, the first `measured`
    lines set the columns' widths; `wide` ones use the whole line, because longer cells may follow. `earlier` has the
    numbers of the rows, from the first, that began to be printed in another width, and that width."""

    kind: Kind
    text: str = ""
    level: int = 0
    mark: str = ""
    gap: bool = False
    measured: int = 0
    wide: bool = False
    earlier: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Flow:
    """The Markdown so far: the unfinished block's source, and its open containers."""

    pending: str = ""
    fence: str = ""  # the marks that will close the current code block, indented as they were opened
    language: str = ""
    gap: bool = False
    begun: bool = False
    listed: bool = False  # indented lines belong to an item


def feed(flow: Flow, text: str) -> tuple[Flow, tuple[Piece, ...]]:
    """Add text; return the blocks that it finishes, and the rest."""
    if "\n" not in text:
        return replace(flow, pending=flow.pending + text), ()
    source, _, partial = (flow.pending + text).rpartition("\n")
    reader = _Reader(flow)
    for line in source.split("\n"):
        reader.take(line.rstrip("\r"))
    rest = "".join(line + "\n" for line in reader.lines) + partial
    flow = Flow(rest, reader.fence, reader.language, reader.gap, reader.begun, reader.listed)
    return flow, tuple(reader.pieces)


def finish(flow: Flow, *, live: bool = False) -> tuple[Piece, ...]:
    """Return the last blocks, as if nothing followed. In `live` ones, which show the unfinished part, a table has whole
    rows only, and a line that may yet become its dashes is left out."""
    if not flow.pending:
        return ()
    reader, lines = _Reader(flow), flow.pending.removesuffix("\n").split("\n")
    for line in lines[:-1]:
        reader.take(line)
    dashes = "|" in (reader.lines or ("",))[-1] and not lines[-1].strip(" |:-")
    if not (live and (dashes or reader.is_row(lines[-1])) and not flow.pending.endswith("\n")):
        reader.take(lines[-1])
    if not (live and reader.kind == "table" and len(reader.lines) == 1):
        reader.end()
    return tuple(reader.pieces)


def pieces_of(text: str) -> tuple[Piece, ...]:
    """Return the blocks of a whole text."""
    flow, pieces = feed(Flow(), text)
    return (*pieces, *finish(flow))


class _Reader:
    """Parses lines into blocks. `lines` are those of the unfinished block."""

    def __init__(self, flow: Flow) -> None:
        self.pieces: list[Piece] = []
        self.lines: list[str] = []
        self.fence, self.language, self.gap, self.begun = flow.fence, flow.language, flow.gap, flow.begun
        self.kind: Kind = "paragraph"
        self.listed = flow.listed

    def take(self, line: str) -> None:
        if self.fence:
            self._take_code(line)
        elif not line.strip():
            self.end()
            self.gap = self.begun
        elif line.startswith("    ") and not self.lines and not self.listed:
            self._emit(Piece("code", line[4:]))
        elif fence := _FENCE.match(line):
            self.end()
            self.fence = fence[1] + fence[2]
            self.language = fence[3].lower()
            self.gap = self.gap or (self.begun and not (self.pieces and self.pieces[-1].kind == "code"))
        elif heading := _HEADING.match(line):
            self.end()
            self.gap = self.begun
            self._emit(Piece("heading", heading[2], len(heading[1])))
            self.gap = False
        elif self.lines and self.kind == "paragraph" and re.match(r"^ {0,3}(=+|-{2,})\s*$", line):
            text, self.lines = "\n".join(self.lines), []
            self._emit(Piece("heading", text, 1 if "=" in line else 2))
        elif _RULE.match(line):
            self.end()
            self._emit(Piece("rule"))
        else:
            self._take_text(line)

    def _take_code(self, line: str) -> None:
        marks = self.fence.lstrip(" ")
        stripped = line.strip()
        if stripped.startswith(marks) and not stripped.strip(marks[0]):
            self.end()
            self.fence = ""
            self.gap = True
            return
        if drawer(self.language) is None:
            self._emit(self._code([line]))
            return
        self.kind = "code"
        self.lines.append(line)
        if len(self.lines) > MAX_DRAWN_LINES:
            self.language = "text"
            for each in self.lines:
                self._emit(self._code([each]))
            self.lines = []

    def _code(self, lines: Sequence[str]) -> Piece:
        indent = len(self.fence) - len(self.fence.lstrip(" "))
        texts = (line[indent:] if not line[:indent].strip() else line.lstrip(" ") for line in lines)
        return Piece("code", "\n".join(texts), indent, self.language)

    def _take_text(self, line: str) -> None:
        kind: Kind = "paragraph"
        if item := _ITEM.match(line):
            kind = "item"
            if _FENCE.match(item[4]) or _QUOTE.match(item[4]) or _ITEM.match(item[4]):
                self.end()
                self._emit(Piece("item", "", len(item[1]), item[2]))
                self.take(" " * item.start(4) + item[4])
                return
        elif _QUOTE.match(line):
            kind = "quote"
        elif _is_row(line) or (self.kind == "table" and self.lines and "|" in line):
            kind = "table"
        elif self.lines and self.kind == "paragraph" and "|" in line and _DELIMITER.match(line):
            kind, head = "table", self.lines.pop()
            self.end()
            self.lines, self.kind = [head], kind
        goes_on = kind == self.kind != "item" or (kind == "paragraph" and self.kind != "table")
        if self.lines and goes_on:
            self.lines.append(line)
        else:
            self.end()
            self.lines, self.kind = [line], kind

    def is_row(self, line: str) -> bool:
        """Return True if the next line may be a table's row."""
        in_table = self.kind == "table" and bool(self.lines) and not _is_row(self.lines[0])
        return not self.fence and (_is_row(line) or in_table)

    def end(self) -> None:
        if not self.lines:
            return
        lines, self.lines = self.lines, []
        indent = len(lines[0]) - len(lines[0].lstrip(" "))
        match self.kind:
            case "code":
                self._emit(self._code(lines))
            case "item":
                match = _ITEM.match(lines[0])
                assert match is not None
                text = "\n".join((match[4], *(line.strip() for line in lines[1:])))
                self._emit(Piece("item", text, len(match[1]), match[2]))
            case "quote":
                inner = (match[1] if (match := _QUOTE.match(line)) else line for line in lines)
                self._emit(Piece("quote", "\n".join(inner), indent))
            case "table" if len(lines) > 1 and _DELIMITER.match(lines[1]):
                self._emit(Piece("table", "\n".join(lines), indent))
            case _:
                self._emit(Piece("paragraph", "\n".join(line.strip() for line in lines), min(indent, 12)))

    def _emit(self, piece: Piece) -> None:
        self.listed = piece.kind == "item" or (self.listed and piece.level > 0 and piece.kind != "heading")
        self.pieces.append(replace(piece, gap=self.gap and self.begun))
        self.gap, self.begun = False, True


def _is_row(line: str) -> bool:
    return line.lstrip().startswith("|")


def render_piece(
    piece: Piece, width: int, *, live: bool = False, edge: int = 0, most: int = MAX_LINE_CHARS
) -> list[Line]:
    """Return a block as lines of at most `width` columns. In a `live` block, unclosed marks count as closed. Lines of
    code may be `edge` columns wide, if given; longer ones continue in the next row. Of a line, `most` characters are
    shown."""
    if len(piece.text) > most and piece.kind != "table":
        piece = replace(piece, text=fold_long(piece.text, most, most))
    lines = list(_rendered(piece, width, live=live, edge=edge))
    return [(), *lines] if piece.gap else lines


def _rendered(piece: Piece, width: int, *, live: bool, edge: int) -> Iterator[Line]:
    text = printable(piece.text)
    prose = min(width, MAX_PROSE_COLUMNS)
    indent = min(piece.level, width // 3) if piece.kind != "heading" else 0
    lead: Line = (("", " " * indent),) if indent else ()
    match piece.kind:
        case "paragraph":
            # an address alone on a line is meant to be copied
            long = rf"^(https?://\S{{{max(prose - indent - 7, 1)},}})$"
            for number, part in enumerate(re.split(long, text, flags=re.MULTILINE)):
                if number % 2:
                    yield from fold(tuple(inline(part)), edge or width, joined=bool(edge) and not live)
                elif part.strip("\n"):
                    yield from wrap(inline(part.strip("\n"), live=live), prose, lead)
        case "heading":
            style = "class:heading.first" if piece.level == 1 else "class:heading"
            yield from wrap([(f"{style} {extra}".strip(), part) for extra, part in inline(text, live=live)], prose)
        case "item":
            mark = piece.mark if piece.mark[0].isdigit() else "•"
            lead = (("", " " * indent), ("class:mark", mark), ("", " "))
            box: Line = ()
            if re.match(r"\[[ xX]\] ", text):  # to tick
                box, text = (("class:mark", "☐ " if text[1] == " " else "☑ "),), text[4:]
            yield from wrap((*box, *inline(text, live=live)), prose, lead)
        case "quote":
            yield from _quoted(text, width, live=live, edge=edge, outer=lead)
        case "code":  # without signs of ours, and indented in lists only: it is copied from the screen
            yield from _code_rows(piece.mark, text, width, lead, live=live, edge=edge)
        case "table":
            yield from ((*lead, *line) for _, line in table_lines(piece, width))
        case "rule":
            yield (("class:dim", "─" * min(prose, 40)),)


def _code_rows(language: str, text: str, width: int, lead: Line, *, live: bool, edge: int) -> Iterator[Line]:
    """Yield a line of code, or all of a block that is drawn if that is possible."""
    if (draw := drawer(language)) is None:
        yield from fold((*lead, *colour(text, language)), edge or width, joined=bool(edge) and not live)
        return
    room, size = width - line_width(lead), count(text.count("\n") + 1, "line")
    if live:
        yield (*lead, ("class:dim", cut(f"… {language}, {size}", room)))
    elif rows := draw(text, room):
        yield from ((*lead, ("class:code", row)) for row in rows)
    else:
        for part in text.split("\n"):
            yield from fold((*lead, *colour(part, language)), edge or width, joined=bool(edge))
        yield (*lead, ("class:hint", cut(f"({language}: not drawn here)", room)))


def _quoted(text: str, width: int, *, live: bool, edge: int, outer: Line = ()) -> Iterator[Line]:
    """Render a quotation after a bar; code gets none, because it is copied."""
    bars: Line = (*outer, ("class:mark", "▎ "))
    room = min(width, MAX_PROSE_COLUMNS) - line_width(bars)
    for piece in pieces_of(text):
        if piece.kind == "quote" and room > _MIN_QUOTE_COLUMNS:
            yield from [bars] if piece.gap else ()
            yield from _quoted(piece.text, width, live=live, edge=edge, outer=bars)
        elif piece.kind == "code":
            yield from render_piece(piece, width, live=live, edge=edge)
        else:
            for line in render_piece(piece, room, live=live):
                yield (*bars, *((f"class:quote {style}".strip(), part) for style, part in line))


# ----------------------------------------------------------------------------------------------------------------------
# Inside a line

_INLINE = re.compile(  # marks that may also be an operator, a file pattern or a name like __init__ do not count
    r"(?P<sign>\\\((?P<maths>.{1,1000}?)\\\)|\\\[(?P<maths2>.{1,1000}?)\\\]|\$\$(?P<maths3>[^$]{1,1000})\$\$"
    r"|(?<![\\$\w])\$(?=[^\s$])(?P<maths4>[^$\n]{1,300}?)(?<=[^\s\\])\$(?![\w$])"
    r"|(?P<escape>\\[\\`*_{}\[\]()#+.!|<>~$\n-])"
    r"|(?P<entity>&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});))"
    r"|(?<!`)(?P<ticks>`+)(?!`)(?P<code>.{1,1000}?)(?<!`)(?P=ticks)(?!`)"
    r"|(?<![0-9A-Za-z/])\*\*(?=\S)(?!/(?:(?!\*\*).){0,1000}/\*\*)(?P<strong>.{1,1000}?)(?<=\S)\*\*(?!\*)"
    r"|(?<!\w)__(?=\S)(?!\w+__)(?P<strong2>.{1,1000}?)(?<=\S)__(?!\w)"
    r"|~~(?=\S)(?P<strike>.{1,1000}?)(?<=\S)~~"
    r"|(?<![0-9A-Za-z/*])\*(?=[^\s*])(?P<em>.{1,1000}?)(?<=[^\s*])\*(?!\*)"
    r"|(?<!\w)_(?=[^\s_])(?P<em2>.{1,1000}?)(?<=[^\s_])_(?!\w)"
    r"|!?\[(?P<label>[^\]\n]{1,1000})\]\((?P<url>[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:\s+\"[^\"]*\")?\)"
    r"|<(?P<auto>https?://[^>\s]{1,4000})>"
    r"|(?P<bare>https?://[^\s<>\"'`)\]]*[^\s<>\"'`)\].,;:!?])",
    re.DOTALL,
)
_OPEN = re.compile(
    r"(?P<code>`+)(?=[^`])|(?<![0-9A-Za-z/])(?P<strong>\*\*)(?=[^\s/])|(?P<strike>~~)(?=\S)"
    r"|(?<![\w*/])(?P<em>\*)(?=[^\s*])",
    re.DOTALL,
)


def inline(text: str, style: str = "", *, live: bool = False) -> Iterator[Span]:
    """Yield the spans of a text: strong, emphasised, code, links, escapes. Unclosed marks stay literal, or in a `live`
    text count as closed at the end."""
    if not text.isalnum() and re.search(r"[\\`*_~\[<&$]|://", text):
        yield from _inline(text, style, live=live)
    elif text:
        yield (style, text)


def _meant(text: str, groups: Mapping[str, str]) -> str:
    """Return what an escape, an entity or a formula stands for; the text itself if that is unknown."""
    if "escape" in groups:
        return text[1:]
    if "entity" in groups:
        from html import entities, unescape

        meant = unescape(text) if text[1] == "#" else entities.html5.get(text[1:], text)
        return printable(meant).replace("\xa0", " ").replace("\n", " ")
    draw = drawer("_formula")
    rows = draw(next(groups[name] for name in groups if name.startswith("maths")), MAX_PROSE_COLUMNS) if draw else ()
    return rows[0] if rows else text


def _inline(text: str, style: str, *, live: bool) -> Iterator[Span]:
    last = 0
    for match in _INLINE.finditer(text):
        if match.start() > last:
            yield (style, text[last : match.start()])
        last = match.end()
        found = {name: value for name, value in match.groupdict().items() if value is not None}
        if "sign" in found:
            yield (style, _meant(match.group(), found))
        elif "code" in found:
            code, look = found["code"].strip() or found["code"], f"{style} class:inline-code".strip()
            yield (leading_to(look, code) if names_file(code) else look, code)
        elif "label" in found:
            yield from inline(found["label"], leading_to(f"{style} class:link", found["url"]))
            if found["url"] and found["url"] != found["label"] and not found["url"].startswith("#"):
                yield (f"{style} class:dim".strip(), f" ({found['url']})")
        elif "auto" in found or "bare" in found:
            url = found.get("auto") or found["bare"]
            yield (leading_to(f"{style} class:link", url), url)
        else:
            [(name, inner)] = found.items()
            look = f"class:{name.rstrip('2')}"
            yield from [(style, inner)] if look in style else inline(inner, f"{style} {look}".strip())
    rest = text[last:]
    if live and (opened := _OPEN.search(rest)) and f"class:{opened.lastgroup}" not in style:
        if opened.start():
            yield (style, rest[: opened.start()])
        inner = rest[opened.end() :]
        if opened.lastgroup == "code":
            yield (f"{style} class:inline-code".strip(), inner.rstrip("`"))
        else:
            yield from inline(inner.rstrip("*~"), f"{style} class:{opened.lastgroup}".strip(), live=True)
    elif rest:
        yield (style, rest.rstrip("*`~") if live else rest)


# ----------------------------------------------------------------------------------------------------------------------
# Tables

_MIN_CELL_COLUMNS = 6  # with less for each, the table is no grid


def table_lines(piece: Piece, width: int) -> Iterator[tuple[int, Line]]:
    """Yield the lines of a table, each with the number of its row."""
    rows = [_cells(line) for line in printable(piece.text).split("\n")]
    count, start = len(rows[0]), 0
    marks, *rows = ([*row[:count], *[""] * (count - len(row))] for row in (rows[1], rows[0], *rows[2:]))
    cells = [[tuple(inline(cell)) for cell in row] for row in rows]
    room = width - min(piece.level, width // 3)
    for stop, columns in (*piece.earlier, (len(cells), width)):
        sizes = _column_sizes(piece, cells, columns - min(piece.level, columns // 3))
        for number in range(start, stop):
            for line in _row(cells, number, sizes, marks) if sizes else _list(cells, number, room):
                yield from ((number, part) for part in ([line] if columns <= width else wrap(line, room)))
        start = stop


def _column_sizes(piece: Piece, cells: Sequence[Sequence[Line]], width: int) -> Sequence[int]:
    """Return the columns of a table's cells; () if it does not fit as a grid."""
    known, gaps = cells[: piece.measured - 1] if piece.measured else cells, 3 * (len(cells[0]) - 1)
    sizes = _sizes(known, width)
    if piece.wide:  # where cells differ most, longer ones are likeliest
        spare = max(min(width, MAX_PROSE_COLUMNS) - sum(sizes) - gaps, 0)
        widths = [[line_width(cell) for cell in column] for column in zip(*known, strict=True)]
        varied = [max(column) - min(column) + 1 for column in widths]
        sizes = [size + spare * share // sum(varied) for size, share in zip(sizes, varied, strict=True)]
    return sizes if sum(sizes) + gaps <= width else ()


def _list(cells: Sequence[Sequence[Line]], number: int, width: int) -> Iterator[Line]:
    """Yield a row of a table that does not fit as a grid: its filled cells, one below the other."""
    head = cells[0] if number else [()] * len(cells[0])
    if number > 1:
        yield (("class:dim", "─" * min(width, 40)),)
    for name, cell in zip(head, cells[number], strict=True) if number or len(cells) == 1 else ():
        if line_width(cell):
            named = [(f"class:strong {style}".strip(), text) for style, text in name]
            yield from wrap((*named, *((("", ": "),) if named else ()), *cell), width, (), (("", "  "),))


def _cells(line: str) -> list[str]:
    inner = re.sub(r"<br */?>", "\n", line.strip().removeprefix("|").removesuffix("|"))
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", inner)]


def _sizes(cells: Sequence[Sequence[Line]], width: int) -> list[int]:
    """Return the columns for each cell: its full width; if they do not fit, the widest are reduced first, to less than
    their longest word only if all are."""
    sizes, words = [1] * len(cells[0]), [1] * len(cells[0])
    for row in cells:
        for number, cell in enumerate(row):
            text = plain([cell])
            sizes[number] = max(sizes[number], *(min(width_of(line), width) for line in text.split("\n")))
            words[number] = max(words[number], *map(width_of, text.split() or [""]))
    room = width - 3 * (len(sizes) - 1)
    for least in (words, [_MIN_CELL_COLUMNS] * len(sizes)):
        while sum(sizes) > room:
            wide = [number for number, size in enumerate(sizes) if size > least[number]]
            if not wide:
                break
            sizes[max(wide, key=lambda number: sizes[number])] -= 1
    return sizes


def _row(cells: Sequence[Sequence[Line]], row: int, sizes: Sequence[int], marks: Sequence[str]) -> Iterator[Line]:
    """Yield a row in lines, with cells aligned by their column's mark (":-:", "-:")."""
    columns = [wrap(cell, size) for cell, size in zip(cells[row], sizes, strict=True)]
    style = "" if row else "class:strong"
    for number in range(max(map(len, columns))):
        spans: list[Span] = []
        for index, (column, size) in enumerate(zip(columns, sizes, strict=True)):
            line = column[number] if number < len(column) else ()
            free = size - line_width(line)
            left, right = marks[index].startswith(":"), marks[index].endswith(":")
            before = (free // 2 if left else free) if right else 0
            cell = ((f"{style} {own}".strip(), text) for own, text in line)
            spans += [("class:dim", " │ " * bool(index)), ("", " " * before), *cell, ("", " " * (free - before))]
        while spans and not spans[-1][1].strip():
            spans.pop()
        yield tuple(span for span in spans if span[1])
    if not row:
        yield (("class:dim", "─┼─".join("─" * size for size in sizes)),)


# ----------------------------------------------------------------------------------------------------------------------
# Code: strings, comments, numbers, and words that most languages reserve; line by line and without a grammar, so that a
# line is final the moment it has arrived.

_WORDS = (
    "and as assert async await begin break case catch class const continue def default defer del delete do elif else "
    "end enum except export extends extern final finally fn for from func function global go goto if impl import in "
    "interface is lambda let local loop match mod module mut namespace new not null nil None of or package pass "
    "private protected pub public raise return select self static struct super switch then this throw trait true false "
    "True False try type typedef typeof union unless unsafe use using var virtual void volatile where while with yield"
)
_HASH = frozenset({"", "py", "python", "sh", "bash", "zsh", "shell", "console", "yaml", "yml", "toml", "ruby", "rb"})
_TEXT = frozenset({"text", "txt", "plain", "output", "markdown", "md"})
_DIFF_PLACE = re.compile(r"@@|--- (?:a/|/dev/null)|\+\+\+ (?:b/|/dev/null)")  # not a removed "-- words"
_DIFF = {"+": "class:line-added", "-": "class:line-removed"}


def colour(line: str, language: str) -> Line:
    """Return a line of code in spans; of a diff by its first character."""
    if not line:
        return ()
    if language in ("diff", "patch"):
        if _DIFF_PLACE.match(line):
            return (("class:diff.place", line),)
        style = _DIFF.get(line[0], "class:code")
        return ((style, line), (f"{style} {FILL}", "")) if line[0] in _DIFF else ((style, line),)
    if language in _TEXT:
        return (("class:code", line),)
    spans: list[Span] = []
    last = 0
    for match in _pattern(hashes=language in _HASH or "#" not in line).finditer(line):
        spans += [("class:code", line[last : match.start()]), (f"class:code.{match.lastgroup}", match.group())]
        last = match.end()
    return tuple(span for span in (*spans, ("class:code", line[last:])) if span[1])


def drawer(language: str) -> Callable[[str, int], Sequence[str] | None] | None:
    """Return a function that draws code of a language, or a "_formula", in rows of a width, or returns None if it
    cannot; None for most languages. It is an extra of a plugin of ours, "fence LANGUAGE"."""
    if (named := _drawers().get(language)) is None:
        return None
    from sagent.plugin import resolve

    return cast("Callable[[str, int], Sequence[str] | None]", resolve(named))


@cache
def _drawers() -> Mapping[str, str]:
    """Return the names of these functions by language."""
    from sagent.plugin import Extra, of_ours

    return {extra.to[6:]: extra.add for _, extra in of_ours(Extra, '"fence ') if extra.to.startswith("fence ")}


@cache
def _pattern(*, hashes: bool) -> re.Pattern[str]:
    comment = r"//.*|/\*.*?(?:\*/|$)|--\s.*" + (r"|(?:^|(?<=\s))#.*" if hashes else "")
    words = "|".join(_WORDS.split())
    return re.compile(
        rf"""(?P<comment>{comment})|(?P<string>"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'|`[^`]*`)"""
        rf"|(?P<number>\b\d[\w.]*\b)|(?P<word>\b(?:{words})\b)"
    )
