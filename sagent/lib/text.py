"""Text for people: safe for a terminal, on one line, with counts."""

import errno
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from operator import eq

from sagent.lib.dataclass import dataclass

_CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
_TURNING = r"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_UNSEEN = (
    r"\xad\u180e\u200b\u2060-\u2065\u206a-\u206f\ud800-\udfff\ufeff\ufff0-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
_MISLEADING = re.compile(rf"[{_CONTROLS}{_TURNING}{_UNSEEN}]|(?<=[\x00-\x7f])[\u200c\u200d]")
"""The joiners stay within emoji and scripts that need them."""


_BLANK = (
    r"\xa0\u034f\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200d\u202f\u205f\u2800\u3000\u3164\ufe00-\ufe0e"
    r"\uffa0\U00013430-\U0001343f\U000e0100-\U000e01ef"
)
_JOINED = r"\u20e3\U0001f3fb-\U0001f3ff\U0001f1e6-\U0001f1ff"  # of emoji: drawn as letters, or not at all
_MARKS = r"\u037e\u2024\u2044\u2215\u2236\u29f8\U0001d7ce-\U0001d7ff"  # like separators of paths, and digits
_PICTURES = r"\xa9\xae\u203c-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_NAMED = re.compile(rf"[{_CONTROLS}{_TURNING}{_UNSEEN}{_BLANK}{_JOINED}{_MARKS}]|(?<![{_PICTURES}])\ufe0f")
_LETTERS = re.compile(r"[^\W\d_]+")
_ALIKE = frozenset(
    "ǃɑɡͿΑΒΕΖΗΙΚΜΝΟΡΤΥΧαγικνορτυχωϜϲϳϹЅІЈАВЕКМНОРСТУХагеопрсухьѕіјѡѴѵҬҮүһҽӀӏԁԌԚԛԜԝՍՏՕգզհոսցօဝႽჿᎠ"
    "ᎡᎢᎥᎩᎪᎫᎬᎳᎷᎻᎽᏀᏂᏃᏏᏒᏔᏕᏙᏚᏞᏟᏢᏦᏴᐯᑌᑭᒍᒪᖴᗅᗞᗪᗷ᙭ᴄᴏᴜᴠᴡⲈⲎⲔⲘⲚⲞⲟⲢⲣⲤⲥⲦⲨⲬⲭꓐꓑꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓦꓧꓪꓫꓬꓮꓰꓲꓳꓴꓸꜱ"
)
"""Letters of other alphabets that look like ASCII characters, after https://www.unicode.org/reports/tr39/; wide,
mathematical and other forms of ASCII letters are recognised by their NFKC."""

MAIN_ARGUMENTS = (
    *("command", "file_path", "pattern", "url", "path", "query", "to", "question", "task", "prompt", "operation"),
    *("job", "name", "code"),
)
"""Arguments of calls, most telling first."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells with any text. `right` are the columns of figures, from 0."""

    rows: tuple[tuple[str, ...], ...]
    titles: tuple[str, ...] = ()
    right: tuple[int, ...] = ()


def printable(text: str) -> str:
    """Return the text without control, invisible and direction-changing characters, so that no text of a model or file
    can control the terminal or look like something else."""
    return text if text.isprintable() else _MISLEADING.sub("�", text)


def spelled(text: str) -> str:
    """Return the text for a person to judge: an invisible, direction-changing or look-alike character has its number
    after or instead of it."""
    if text.isascii() and text.isprintable():
        return text
    from unicodedata import normalize

    others = filter(str.isalpha, {*text})
    alike = frozenset(
        one for one in others if not one.isascii() and (one in _ALIKE or normalize("NFKC", one).isascii())
    )
    spelled = _LETTERS.sub(lambda word: _spelled_apart(word[0], alike), text) if alike else text
    return _NAMED.sub(lambda match: f"⟨{_number(match[0])}⟩", spelled)


def spelled_name(text: str) -> str:
    """Spell out a name or rule as `spelled` does, on one line: line ends and tabs become their numbers."""
    return re.sub(r"[\t\n]", lambda match: f"⟨{_number(match[0])}⟩", spelled(text))


def _spelled_apart(word: str, alike: frozenset[str]) -> str:
    if alike.isdisjoint(word) or not (alike.issuperset(word) or any(map(str.isascii, word))):
        return word
    return "".join(f"{letter}⟨{_number(letter)}⟩" if letter in alike else letter for letter in word)


def _number(letter: str) -> str:
    return f"U+{ord(letter):04X}"


def escaped(line: str) -> str:
    """Return an equivalent line of JSON, with characters that `printable` would replace as escapes."""
    import json

    return line if line.isprintable() else _MISLEADING.sub(lambda match: json.dumps(match[0])[1:-1], line)


def cut(text: str, width: int) -> str:
    """Return the text in at most `width` characters."""
    return text if len(text) <= width else text[: width - 1] + "…"


def one_line(text: str, width: int) -> str:
    """Return the text on one line of at most `width` characters."""
    return cut(" ".join(text.split()), width)


def main_argument(arguments: Mapping[str, object]) -> str:
    """Return the most telling of a call's arguments; "" if there is none."""
    values = map(arguments.get, MAIN_ARGUMENTS)
    return next((value for value in values if isinstance(value, str) and value.strip()), "")


def fenced(text: str, language: str = "") -> str:
    """Return the text as a block of Markdown that no content can end early."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number and its noun: "1 call", "2 calls"."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def failure(error: BaseException) -> str:
    """Describe an unforeseen error: for a system error, the file and the reason; for others also their kind."""
    if not isinstance(error, OSError) or not error.strerror:
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    from sagent.lib.names import quote_path

    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    return ": ".join((*map(quote_path, names), f"{system_reason(error)}."))


def system_reason(error: OSError) -> str:
    """Return why the system refused something, with a remedy if it is a limit; without a full stop."""
    said = error.strerror or str(error)
    if error.errno == errno.EFBIG:
        return f"{said}. Raise the limit of file sizes, as with ulimit -f unlimited"
    return f"{said}. Raise the limit of open files, as with ulimit -n 1024" if is_limit(error) else said


def is_limit(error: OSError) -> bool:
    """Return True if too many files are open, which says nothing about a file."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def why_unread(error: Exception) -> str:
    """Tell a person why a file could not be read."""
    if isinstance(error, OSError):
        return system_reason(error)
    return "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)


def nearest(word: str, names: Iterable[str]) -> str:
    """Return `. Did you mean ...?`, or ""."""
    from difflib import get_close_matches

    names = list(names)
    near = [name for name in names if len(name) > 2 and word.lower().startswith(name.lower())] or get_close_matches(
        word, names, 1, 0.6
    )
    return f". Did you mean {near[0]}?{unlike(word, near)}" if near else ""


def unlike(word: str, near: Iterable[str]) -> str:
    """Return an addition to "Did you mean ...?" if the difference is invisible: the word with its other letters
    escaped; "" for any other word."""
    if word.isascii():
        return ""
    from sagent.lib.lookalike import look_alike, reveal

    shown = (reveal(word, name)[0] for name in near if look_alike(word, name))
    return next((f" It has other characters: {text}." for text in shown), "")


def same_ends(before: Sequence[object], after: Sequence[object]) -> tuple[int, int]:
    """Count the lines, or characters, that two texts share at their start, and at their end beyond that."""
    head = sum(takewhile(bool, map(eq, before, after)))
    room = min(len(before), len(after)) - head
    return head, min(room, sum(takewhile(bool, map(eq, reversed(before), reversed(after)))))


# A message names a step as a program takes it, or by a command line, which every machine has.
_IN_SHELL: Mapping[str, str] = {"(max_budget_usd)": "(--max-budget-usd)"}
_IN_REPL: Mapping[str, str] = {
    "(max_budget_usd)": "(/cost USD)",
    "sagent sessions compact": "/compact",
    "sagent login ": "/login ",
    "sagent doctor": "/doctor",
}


def in_shell(text: str) -> str:
    """Return a message with its steps as command lines."""
    return _spelled(text, _IN_SHELL)


def in_repl(text: str) -> str:
    """Return a message with its steps as slash commands."""
    return _spelled(text, _IN_REPL)


def _spelled(text: str, steps: Mapping[str, str]) -> str:
    for step, own in steps.items():
        text = text.replace(step, own)
    return text


def head_and_tail(text: str, max_chars: int, location: str) -> str:
    """Cut a text to about `max_chars`: its first two thirds and last third, at line ends if any is near."""
    if len(text) <= max_chars:
        return text
    head, tail = text[: max_chars * 2 // 3], text[-(max_chars // 3) :]
    line_end, line_start = head.rfind("\n"), tail.find("\n")
    if line_end > len(head) * 3 // 4:
        head = head[: line_end + 1]
    if 0 <= line_start < len(tail) // 4:
        tail = tail[line_start + 1 :]
    left_out = len(text) - len(head) - len(tail)
    return f"{head}\n[... {left_out} characters left out; {location} ...]\n{tail}"
