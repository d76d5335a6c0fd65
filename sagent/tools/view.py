"""Lines as a model sees them: numbered, bounded, with a word on how to go on."""

from collections.abc import Sequence

from sagent.lib.dataclass import dataclass
from sagent.lib.json import valid_text

MOST_LINES = 2000
_MOST_TEXT = 50_000  # characters
_MOST_LINE = 2000  # characters


@dataclass(frozen=True, slots=True)
class View:
    """The text to show, and how many lines of the file it holds."""

    text: str
    shown: int


def split_lines(text: str) -> list[str]:
    """Lines without their ends, which are LF, CRLF, or CR where there is nothing else."""
    if "\r" in text:
        text = text.replace("\r\n", "\n") if "\n" in text else text.replace("\r", "\n")
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def number_lines(lines: Sequence[str], first: int, total: int | None) -> View:
    """The lines, numbered from `first`, as many as fit. `total` is None when the file's lines were not counted."""
    shown: list[str] = []
    size = 0
    for number, line in enumerate(lines, first):
        text = line if len(line) <= _MOST_LINE else f"{line[:_MOST_LINE]}... [{len(line) - _MOST_LINE} characters cut]"
        size += len(text) + len(str(number)) + 2
        if size > _MOST_TEXT and shown:
            break
        shown.append(f"{number}\t{text}")
    last = first + len(shown) - 1
    text = "\n".join(shown)
    if not text.isascii():
        text = valid_text(text)
    if total is None or last < total:
        of = f" of {total}" if total is not None else ""
        text += f"\n\n(Lines {first} to {last}{of}. Go on with offset {last + 1}.)"
    return View(text, len(shown))
