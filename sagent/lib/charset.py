"""The encoding of text that is not UTF-8, guessed by chardet.

chardet uses statistics of languages, which need some text. For a word or a line its candidates are also compared: a
word uses one alphabet, and capitals come first.
"""

import re
from collections.abc import Collection
from typing import NamedTuple

from sagent.lib.dataclass import dataclass

_MAX_SAMPLE_BYTES = 3_000
_MIN_LOOK = 0.45  # below it no text is believed
_MIN_CLEAR_LOOK = 0.8  # below it, as where a word mixes alphabets, a guess is not "probable"
_MIN_NEAR = 0.8  # of the best score, from which on another reading is likely too
_COMMONEST_LEAD = 0.015  # of confidence that the commonest encoding, cp1252, is given
_COMMONEST_LEAD_OF_ONE = 0.1  # for a single byte
_HIGH = bytes(range(128, 256))
_MIN_LETTERS = 3  # for a "probable" guess

_ENCODINGS = {
    **dict.fromkeys(("cp1252", "gb18030", "cp932", "cp1251", "cp949", "euc_kr", "koi8-r"), 1.0),
    **dict.fromkeys(("big5hkscs", "euc_jis_2004"), 1.0),
    **dict.fromkeys(("koi8-u", "cp1250", "iso8859-2", "cp1253"), 0.97),
    **dict.fromkeys(("iso8859-7", "cp1254", "cp1255", "cp1256", "cp1257", "cp866"), 0.95),
    **dict.fromkeys(("cp874", "iso8859-5", "cp850", "cp852", "iso8859-13"), 0.9),
    **dict.fromkeys(("iso8859-15", "iso8859-4", "mac-roman", "mac-latin2", "mac-greek", "mac-turkish", "cp437"), 0.8),
    **dict.fromkeys(("mac-cyrillic", "cp737", "cp775", "cp855", "cp862", "cp1258"), 0.8),
}
"""The considered encodings, with weights."""

_NAMES = {
    "cp932": "cp932 (Shift-JIS)", "cp949": "cp949 (EUC-KR)", "gb18030": "gb18030 (GBK)", "euc_kr": "euc-kr",
    "euc_jp": "euc-jp", "mac-roman": "Mac Roman",
}  # fmt: skip
_SMALLER = {"big5hkscs": "big5", "euc_jis_2004": "euc_jp", "cp949": "euc_kr"}
_ESCAPES = re.compile("[\udc80-\udcff\uf8f0-\uf8f3]")  # the last are cp932's for undefined bytes
_MIN_UNBROKEN = 7  # bytes that are not ASCII for each undefined one
_UTF8_LETTER = re.compile(rb"(?<![\x80-\xff])[\xc3-\xdf][\x80-\xbf](?![\x80-\xff])")  # by itself
_CONTROLS = re.compile(rb"\x1b\[[\d;:?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
_SIGNS = frozenset("\xa0“”‘’„‚–—…•«»‹›€£§©®™·°¡¿±²³½¼×÷µ№¥ªº´¢")


@dataclass(frozen=True, slots=True)
class Guess:
    """A possible encoding of bytes; `certain` if the file declares it. `other` is the second best, if it is close."""

    codec: str
    certain: bool = False
    clear: bool = True
    other: str = ""

    @property
    def words(self) -> str:
        """The guess for people: "probably koi8-r", "perhaps cp1252, or cp1250"."""
        name = charset_name(self.codec)
        if self.certain:
            return name
        if self.clear:
            return f"probably {name}"
        return f"perhaps {name}" + (f", or {charset_name(self.other)}" if self.other else "")


def charset_name(codec: str) -> str:
    """Return a codec's common name."""
    return _NAMES.get(codec, codec.replace("mac-", "Mac ").replace("iso8859", "iso-8859"))


def guess(data: bytes) -> Guess | None:
    """Return the most probable encoding of bytes; None if they are text in no known one. The data is not UTF-8, and may
    be cut at its end."""
    if (declared := _declared(data)) and _decoded(data, declared) is not None:
        return Guess(declared, certain=True)
    sample = _sample(data)
    found = _rank(sample)
    if not found:
        return None
    best, *others = found
    near = [one for one in others if one.score > best.score * _MIN_NEAR and one.text != best.text]
    letters = sum(letter.isalpha() and not letter.isascii() for letter in best.text)
    smaller = _SMALLER.get(best.codec)
    codec = smaller if smaller and _decoded(sample, smaller) == best.text else best.codec
    mixed = len(best.text) == len(sample) and _UTF8_LETTER.search(sample)  # one byte for each character, but there
    clear = not near and not mixed and letters >= _MIN_LETTERS and _look(best.text) >= _MIN_CLEAR_LOOK
    return Guess(codec, clear=clear, other=near[0].codec if near else "")


class _Reading(NamedTuple):
    """The text of a sample in an encoding, with its score."""

    score: float
    codec: str
    text: str


def _rank(sample: bytes) -> list[_Reading]:
    """Return the likely readings of a sample, best first."""
    texts = {codec: text for codec in _ENCODINGS if (text := _decoded(sample, codec))}
    looks = {codec: look for codec, text in texts.items() if (look := _look(text)) >= _MIN_LOOK}
    whole = [codec for codec in looks if not _ESCAPES.search(texts[codec])]
    found = _trust(sample, whole)
    for codec in looks.keys() - whole:  # chardet drops an encoding for one broken byte
        found |= _trust(_ESCAPES.sub("", texts[codec]).encode(codec, "ignore"), [codec])
    readings = [
        _Reading(trust * _ENCODINGS[codec] * looks[codec] ** 2, codec, texts[codec]) for codec, trust in found.items()
    ]
    return sorted(readings, key=lambda one: -one.score)


def _trust(sample: bytes, codecs: Collection[str]) -> dict[str, float]:
    """Return how much chardet trusts in each of these encodings."""
    import chardet

    if not codecs:
        return {}
    among = {*codecs, "cp1252"}  # chardet's default, with a warning if it is missing here
    found = chardet.detect_all(sample, ignore_threshold=True, include_encodings=among, compat_names=False)
    trusts = {one["encoding"]: one["confidence"] for one in found}
    doubt = _COMMONEST_LEAD if len(sample) - len(sample.translate(None, _HIGH)) > 1 else _COMMONEST_LEAD_OF_ONE
    return {codec: trusts[codec] + (doubt if codec == "cp1252" else 0) for codec in codecs if codec in trusts}


def _declared(data: bytes) -> str:
    """Return the codec that a text names for itself at its beginning or its end (PEP 263, XML, HTML, Emacs, Vim)."""
    import codecs

    ends = data[:1024] + b"\n" + (data[-256:] if len(data) > 1024 else b"")
    for name in re.findall(rb"(?:coding[:=]|encoding=|charset=)[ \t]*[\"']?([-\w.:]+)", ends, re.IGNORECASE):
        try:
            codec = codecs.lookup(name.decode("ascii", "replace").removesuffix("-unix").removesuffix("-dos")).name
        except (LookupError, ValueError):
            continue
        if codec not in ("utf-8", "ascii") and not codec.startswith(("utf-16", "utf-32", "utf-7")):
            wide = {"iso8859-1": "cp1252", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932"}
            return wide.get(codec, codec)
    return ""


def _sample(data: bytes) -> bytes:
    """Return the lines that help to find the encoding, up to a limit."""
    match = re.search(rb"[\x80-\xff]", data)
    start = max(0, match.start() - 200) if match else 0
    text = _CONTROLS.sub(b"", data[start : start + 64 * 1024])  # chardet treats data with ESC differently
    lines = [line[:400] for line in text.split(b"\n") if not line.isascii()]
    return b"\n".join(dict.fromkeys(lines))[:_MAX_SAMPLE_BYTES]


def _decoded(data: bytes, codec: str) -> str | None:
    """Decode data except a character that is cut at the end; None if more than a few bytes are undefined."""
    import codecs

    try:
        text = codecs.getincrementaldecoder(codec)("surrogateescape").decode(data)
    except (UnicodeDecodeError, LookupError):
        return None
    broken = len(_ESCAPES.findall(text))
    return None if broken * _MIN_UNBROKEN > len(data) - sum(map(str.isascii, text)) else text


_WORD = re.compile(r"[^\W\d_]+")


def _look(text: str) -> float:
    """Return how much of the text beyond ASCII looks like words and signs in any language, from 0 to 1."""
    from unicodedata import category

    if re.search(r"[\x80-\x9f\ue000-\uf8ef\uf8f4-\uf8ff]", text):
        return 0.0
    text = "".join(letter for letter in text if letter.isascii() or category(letter)[0] != "M")
    values = [0.0] * (2 * len(_ESCAPES.findall(text)))
    values += [value for found in _WORD.finditer(text) for value in _judge_word(found[0])]
    for place, sign in enumerate(text):
        if sign.isascii() or _WORD.match(sign) or _ESCAPES.match(sign):
            continue
        inside = text[place - 1 : place].isalpha() and text[place + 1 : place + 2].isalpha()
        known = sign in _SIGNS and (not inside or sign in "’·—–")
        values.append(1.0 if known or "\u3000" <= sign <= "\u303f" or "\uff01" <= sign <= "\uff65" else 0.0)
    return sum(values) / len(values) if values else 0.0


def _judge_word(word: str) -> list[float]:
    """Judge each letter beyond ASCII in a word: one alphabet, and capitals in usual places."""
    from unicodedata import name

    others = [letter for letter in word if not letter.isascii()]
    if not others:
        return []
    scripts = {name(letter, "").split(" ")[0] for letter in word}
    if min(others) >= "\u3000":
        mixed = "HANGUL" in scripts and len(scripts - {"LATIN"}) > 1
        return [0.3 if mixed or len(others) == 1 < len(word) else 1.0] * len(others)
    cased = word.islower() or word.isupper() or word[1:].islower() or word.upper() == word.lower()
    alone = len(word) == 1
    return [0.0 if len(scripts) > 1 or not cased else 0.7 if alone else 1.0] * len(others)
