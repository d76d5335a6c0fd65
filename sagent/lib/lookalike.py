"""Texts that look the same and differ: composed and decomposed letters, signs without a width, similar letters."""

import re
from difflib import SequenceMatcher
from unicodedata import category, combining, name, normalize

from sagent.lib.dataclass import dataclass

_ALIKE = str.maketrans(
    "аАеЕоОрРсСуУхХіІјЈѕЅԁһӏВКМНТкмтвѵԛԝοΟνρΡΑΒΕΖΗΙΚΜΝΤΥΧαικτυχ‐‑‒–—−ʼ’‘“”",
    "aAeEoOpPcCyYxXiIjJsSdhlBKMHTkmtbvqwoOvpPABEZHIKMNTYXaiktux------'''\"\"",
)

_UNSEEN = re.compile(
    "[\ufe00-\ufe0f\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5\u180b-\u180f\u2800\U000e0100-\U000e01ef]"
)


def canonical(text: str) -> str:
    """Return the text with its letters composed (NFC), equal for all canonically equal texts."""
    return text if text.isascii() else normalize("NFC", text)


def skeleton(text: str) -> str:
    """Return the visible part of a text, with similar letters unified."""
    if text.isascii() and text.isprintable():
        return " ".join(text.split())
    shown = "".join(letter for letter in normalize("NFKC", text) if not is_unseen(letter))
    return " ".join(shown.translate(_ALIKE).split())


def look_alike(first: str, second: str) -> bool:
    """Return True if two different texts look the same, or nearly so."""
    mine, theirs = skeleton(first), skeleton(second)
    return first != second and (mine == theirs or (len(mine) == len(theirs) and has_alike(mine, theirs)))


def has_alike(text: str, part: str) -> bool:
    """Return True if a text contains a part, apart from similar letters and signs."""
    if text.isascii() and part.isascii():
        return False
    own, wanted = _clusters(text), _clusters(part)
    for start in range(len(own) - len(wanted) + 1):
        pairs = zip(own[start:], wanted, strict=False)
        if all(mine == theirs or _may_be_taken(mine, theirs) for mine, theirs in pairs):
            return 2 * sum(map(str.__eq__, own[start:], wanted)) >= len(wanted)
    return False


def _may_be_taken(first: str, second: str) -> bool:
    """Return True for letters of different alphabets, for one without an invisible mark, and for signs."""
    if first.isascii() and second.isascii():
        return False
    kinds = {category(each[0])[0] for each in (first, second)}
    if kinds <= {"P", "S", "Z"}:
        return True
    if not kinds <= {"L", "N"}:
        return kinds <= {"L", "P", "S"} and {category(first[0]), category(second[0])} & {"Lo", "Lm"} != set()
    if len({name(each[0], "").split(" ")[0] for each in (first, second)}) > 1:
        return True
    bases = [normalize("NFD", each)[0] for each in (first, second)]
    if bases[0] != bases[1] and "".join(bases).isascii():
        return False
    return (bases[0] == bases[1]) != (first.isascii() or second.isascii())


def reveal(first: str, second: str) -> tuple[str, str]:
    """Return two texts with their differences as escapes (`\\u200b`)."""
    mine, theirs = _clusters(first), _clusters(second)
    shown: tuple[list[str], list[str]] = ([], [])
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes():
        for pieces, part in zip(shown, ("".join(mine[i1:i2]), "".join(theirs[j1:j2])), strict=True):
            pieces.append(part if tag == "equal" else escape(part))
    return "".join(shown[0]), "".join(shown[1])


def escape(text: str) -> str:
    """Return each character as its escape in JSON or Python, except ASCII letters and signs."""
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t", " ": "\\x20"}
    return "".join(
        short.get(letter) or (letter if letter.isascii() and letter.isprintable() else _number(letter))
        for letter in text
    )


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a canonically equal text, and its replacement."""

    start: int
    stop: int
    made: str


def find_canonical(text: str, old: str, new: str) -> list[Place]:
    """Find the places of a text that are canonically equal to `old`, and apply `new` to each: parts that the edit
    leaves alone keep their form."""
    if text.isascii() and old.isascii():
        return []
    own, wanted, given = _clusters(text), _clusters(old), _clusters(new)
    wanted, compared = [canonical(each) for each in wanted], [canonical(each) for each in given]
    starts = [0]
    for each in own:
        starts.append(starts[-1] + len(each))
    joined = [canonical(each) for each in own]
    places: list[Place] = []
    at = 0
    while (at := _index(joined, wanted, at)) >= 0:
        made: list[str] = []
        for tag, i1, i2, j1, j2 in SequenceMatcher(None, wanted, compared, autojunk=False).get_opcodes():
            made += own[at + i1 : at + i2] if tag == "equal" else given[j1:j2]
        places.append(Place(starts[at], starts[at + len(wanted)], "".join(made)))
        at += len(wanted)
    return places


def _index(words: list[str], sought: list[str], start: int) -> int:
    first = sought[0]
    while True:
        try:
            start = words.index(first, start)
        except ValueError:
            return -1
        if words[start : start + len(sought)] == sought:
            return start
        start += 1


def _clusters(text: str) -> list[str]:
    """Return the letters of a text, each with the marks that are put on it."""
    found: list[str] = []
    for letter in text:
        joins = not letter.isascii() and (combining(letter) or "\u1160" <= letter <= "\u11ff")
        if joins and found:
            found[-1] += letter
        else:
            found.append(letter)
    return found


def is_unseen(letter: str) -> bool:
    """Return True for an invisible character, such as a zero-width space or a control character."""
    if letter.isprintable() and letter.isascii():
        return False
    return (category(letter) in ("Cf", "Cc") and not letter.isspace()) or _UNSEEN.match(letter) is not None


def _number(letter: str) -> str:
    number = ord(letter)
    return f"\\x{number:02x}" if number < 0x80 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
