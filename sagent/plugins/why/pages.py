"""Accounts written as Markdown, as a page, and for terminals of any width. Names in them are other people's texts, and
stay texts."""

import re
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import assert_never

from sagent.lib.json import valid_text
from sagent.lib.text import Table, printable
from sagent.plugins.exports.page import contents, escape, page, section, table
from sagent.plugins.why.blocks import Block, Heading, Points

_MARKUP = re.compile(r"([\\`*_{}\[\]()#!|<>&~])")


def as_lines(blocks: Iterable[Block], width: int) -> Iterator[str | Table]:
    """Yield lines no wider than a terminal, and tables."""
    for block in blocks:
        match block:
            case Heading(text):
                yield ""
                yield text
            case Points(points):
                for number, sentences in enumerate(points, 1):
                    yield from _hanging(sentences, number, width)
            case Table():
                yield block
            case str():
                yield from wrap(printable(block), width) or ("",)
            case _:
                assert_never(block)


def _hanging(sentences: Sequence[str], number: int, width: int) -> Iterator[str]:
    """Yield a numbered point; further sentences stand below the first."""
    for place, sentence in enumerate(sentences):
        first = "   " if place else f"{number}. "
        yield from wrap(printable(sentence), width, initial_indent=first, subsequent_indent="   ")


def as_markdown(title: str, blocks: Iterable[Block]) -> Iterator[str]:
    """Yield the lines of a Markdown document."""
    yield f"# {_word(title)}"
    for block in blocks:
        yield ""
        match block:
            case Heading(text):
                yield f"## {_word(text)}"
            case Points(points):
                for number, sentences in enumerate(points, 1):
                    yield f"{number}. {' '.join(map(_word, sentences))}"
            case Table():
                yield from _markdown_table(block)
            case str():
                yield _word(block)
            case _:
                assert_never(block)


def _markdown_table(block: Table) -> Iterator[str]:
    yield f"| {' | '.join(block.titles)} |"
    yield f"|{'|'.join('---:' if number in block.right else '---' for number in range(len(block.titles)))}|"
    for row in block.rows:
        yield f"| {' | '.join(map(_word, row))} |"


def _word(text: str) -> str:
    """Return a text within a line, as it is."""
    return _MARKUP.sub(r"\\\1", printable(" ".join(valid_text(text).split())))


def as_page(title: str, blocks: Iterable[Block]) -> bytes:
    """Return a page without scripts, in UTF-8."""
    head: list[str] = []
    sections: list[tuple[str, list[str]]] = []
    for block in blocks:
        if isinstance(block, Heading):
            sections.append((block.text, []))
        else:
            (sections[-1][1] if sections else head).append(_part(block, sections[-1][0] if sections else title))
    main = "".join(section(f"part{number}", escape(name), *parts) for number, (name, parts) in enumerate(sections))
    return page(
        escape(title), "".join(head) + contents(main), main, "<p>Written by sagent from the sessions' own logs.</p>",
        "part0",
    ).encode()  # fmt: skip


def _part(block: Points | Table | str, name: str) -> str:
    match block:
        case Points(points):
            rows = "".join(f"<li>{' '.join(map(escape, sentences))}</li>\n" for sentences in points)
            return f"<ol>\n{rows}</ol>\n"
        case Table():
            rows = [tuple(map(escape, row)) for row in block.rows]
            return table(tuple(map(escape, block.titles)), rows, escape(name))
        case str():
            return f"<p>{escape(block)}</p>\n"
        case _:
            assert_never(block)
