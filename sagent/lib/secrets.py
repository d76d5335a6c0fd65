"""Keys, tokens and passwords in text, recognized by their shape and removed before the text leaves its owner. Their
shapes are in secrets.toml."""

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import NamedTuple, TypeAlias

from sagent.lib.toml import toml_beside

# Possible starts of a key: after anything but a letter or digit, after an escape (\n, \u000a, %0A), or after a colour.
_AT = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4})|(?<=%[0-9A-F]{2})"
    r"|(?<=\x1b\[m)|(?<=[\[;]\dm)|(?<=[\[;]\d\dm))"
)


class _Shape(NamedTuple):
    """Pattern of a kind of secret; a group is the text before it, which is kept. Text without any of the `hints` has
    none; these are quick to search, and a pattern is compiled when one of its hints is first found."""

    kind: str
    hints: tuple[str, ...]
    pattern: str
    is_long: bool = False  # one word, of _MIN_WORD_CHARS or more


_START = re.compile(_AT)
_GROUP = re.compile(r"(?<!\\)\((?!\?)")


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern, and cache it: re.compile's own cache is limited in size."""
    return re.compile(pattern)


@cache
def _shapes() -> tuple[tuple[_Shape, ...], tuple[tuple[str, int], ...]]:
    """Return the shapes of secrets.toml, and the hints of each by its place."""
    from sagent.lib.json import as_array, as_object, as_str

    rows = tuple(map(as_object, as_array(toml_beside(__file__, "secrets.toml")["shape"])))
    patterns = (f"{_AT if row.get('starts') else ''}{as_str(row['pattern'])}" for row in rows)
    shapes = tuple(
        _Shape(
            as_str(row["kind"]),
            tuple(map(as_str, as_array(row["hints"]))),
            pattern,
            row.get("is_long") is not False and _GROUP.search(pattern) is None,
        )
        for row, pattern in zip(rows, patterns, strict=True)
    )
    return shapes, tuple((hint, place) for place, shape in enumerate(shapes) for hint in shape.hints)


_MIN_WORD_CHARS = 18
_PASSES = 5  # at most; nearly always the second finds nothing
_MIN_SECRET_CHARS = 8  # no secret is recognized by less
_NAME = re.compile(r"key|secret|token|passwd|password|passwort|passphrase|pwd|(?<=_)pass(?![a-z])|credential")
_PASSWORDS = ("pass", "pwd")  # what their names begin with
_KEY_OF = re.compile(
    r"(?:client|api|access|private|account|auth|app|signing|encryption|master|shared|storage|subscription|license)[_-]?\Z"
)
_WORD = re.compile(r"[a-z0-9_.-]*")
_REST = 40  # characters of a word after such a name in it, at most
_VALUE = re.compile(
    r"[a-z0-9_.-]{0,40}\\?[\"']?\s{0,4}(?::=|=>|[:=])\s{0,4}"
    r"(?:\\?[\"']([^\"'\n\\]{6,500})(?=\\?[\"'])|(?!=?\$|[\w.]{0,200}[(\[])([^\s\"',;<>(){}\[\]\\]{8,}))"
)
"""Values assigned to a telling name: api_key=..., "password": "...". A call, `token = read(`, is none, and neither is a
reference, which is not read to its end, because many in one word would take too long."""


_PASSWORD = re.compile(
    r"(?:[a-z0-9_.-]{0,40}\\?[\"']?\s{0,4}[:=]\s{0,4}\\?[\"']([^\"'\n\\]{1,500})(?=\\?[\"'])"
    r"|=(?!(?:none|null|true|false|password|passwd|pwd)\b|[\w.]{0,200}[(\[])([^\s\"',;&<>(){}\[\]\\$]{3,}))"
)
"""A password may be shorter than what else is assigned to names: password=hunter2."""
_OPTION = re.compile(r"[a-z0-9_-]{0,40} [\"']?(?!-)([^\s\"',;&<>(){}\[\]\\$]{8,})")  # --api-token X
_PASSED = re.compile(r"[ =](?!-)([^\s\"',;&<>(){}\[\]\\$]{3,})")  # --password hunter2

_KEY_NAME = re.compile(
    r"(?:keys?|token|secrets?|passw(?:or)?d|passphrase|credentials?|connection_string)(?:_|\d*\Z)"
    r"|_(?:pwd?|headers|auth_config)\Z|(?:_|\A)(?:pat|pass|auth|jwt|cookie|creds)\Z|sshpass|\A(?:bw|op)_session",
    re.IGNORECASE,
)


def is_key(name: str, value: str = "") -> bool:
    """Return True if an environment variable seems to hold a key, by its name or by its value."""
    return _KEY_NAME.search(name) is not None or (len(value) >= _MIN_SECRET_CHARS and redact(value)[1] > 0)


def without_keys(variables: Mapping[str, str], keep: Collection[str], withheld: Collection[str]) -> dict[str, str]:
    """Return environment variables without likely keys, unless they are to be kept, and without withheld ones."""
    return {
        name: value
        for name, value in variables.items()
        if name in keep or not (name in withheld or is_key(name, value))
    }


def redact(text: str) -> tuple[str, int]:
    """Return the text without likely secrets, and their number."""
    clean, found = redact_kinds(text)
    return clean, len(found)


def redact_kinds(text: str) -> tuple[str, list[str]]:
    """Return the text without likely secrets, and the kind of each removed one. Deterministic and idempotent. Takes
    time in proportion to the text, whatever it is. Secrets with escaped characters are found too."""
    found: list[str] = []
    for _ in range(_PASSES):  # where one ended another may begin
        text, more = _redact(text)
        found += more
        if not more:
            break
    return text, found


def _redact(text: str) -> tuple[str, list[str]]:
    if len(text) < _MIN_SECRET_CHARS:
        return text, []
    spans = _find(text)
    if _ESCAPE.search(text):
        plain, place = _unescape(text)
        spans += [(place(start), place(end), kind) for start, end, kind in _find(plain)]
    pieces: list[str] = []
    done, found = 0, list[str]()
    for start, end, kind in sorted(spans, key=lambda span: span[:2]):
        if start >= done:
            pieces += (text[done:start], f"[redacted: {kind}]")
            found.append(kind)
        done = max(done, end)
    return "".join((*pieces, text[done:])), found


_Span: TypeAlias = tuple[int, int, str]  # start and end of a secret, and its kind
_TAKEN = "\x1c"  # replaces each found character: patterns treat it as a blank

_ESCAPE = re.compile(
    r"(?<!\\)\\++(?:([-_.~+/=:@#])|u00([2-7][0-9a-fA-F])|x([2-7][0-9a-fA-F]))"  # Markdown, JSON, Python
    r"|%(2[1-9A-Fa-f]|[3-6][0-9A-Fa-f]|7[0-9A-Ea-e])|&#[xX]0{0,4}([2-7][0-9a-fA-F]);|&#0{0,4}(\d{2,3});"
    r"|&(?:(lowbar)|(hyphen|dash)|(period)|(plus)|(equals)|(sol)|(colon)|(commat));"
    r"|[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]+"  # invisible characters
)
_ENTITIES = "_-.+=/:@"  # those with names, in that order


def _unescape(text: str) -> tuple[str, Callable[[int], int]]:
    """Return text with escapes decoded, and the mapping of positions between both."""
    pieces: list[str] = []
    plain, source = [0], [0]  # positions from which on both correspond
    size = 0
    for match in _ESCAPE.finditer(text):
        before = text[source[-1] : match.start()]
        meant = _meant(match)
        size += len(before) + len(meant)
        pieces += (before, meant)
        plain.append(size)
        source.append(match.end())
    pieces.append(text[source[-1] :])

    def place(at: int) -> int:
        found = bisect_right(plain, at) - 1
        return source[found] + at - plain[found]

    return "".join(pieces), place


def _meant(match: re.Match[str]) -> str:
    number, what = match.lastindex or 0, match[match.lastindex or 0]
    if number in (2, 3, 4, 5):
        return chr(int(what, 16))
    if number == 6:
        return chr(int(what)) if 33 <= int(what) <= 126 else match[0]
    return "" if number == 0 else what if number == 1 else _ENTITIES[number - 7]


def _find(text: str) -> list[_Span]:
    """Find the spans of secrets, without overlaps."""
    spans: list[_Span] = []
    text = _without_shapes(text, spans)
    end = 0
    low = _lower(text)
    word = 0  # end of the last examined word
    for name in _NAME.finditer(low):
        if word < (after := name.end()) and (found_word := _WORD.match(low, after)):
            word = found_word.end()
        if name.start() < end or word - after > _REST:
            continue
        if name[0] == "key" and not _KEY_OF.search(low, max(0, name.start() - 13), name.start()):
            continue
        match = _assigned(low, text, name)
        if match is None:
            continue
        start, stop = match.span(match.lastindex or 0)
        if _is_harmless(name, text, start, stop) or _is_name(low, name.end(), start, stop):
            continue
        spans.append((start, end := stop, "value"))
    return spans


def _assigned(low: str, text: str, name: re.Match[str]) -> re.Match[str] | None:
    """Match what follows a name as its value; the value is the last group."""
    match = _VALUE.match(low, name.end())
    if match is None and name[0].startswith(_PASSWORDS):
        option = low.endswith("--", 0, name.start()) or low.endswith("--", 0, max(0, name.start() - 3))
        match = _PASSWORD.match(low, name.end()) or (_PASSED.match(low, name.end()) if option else None)
    if match is None and name.start() and _named_option(low, name.start()):
        match = _OPTION.match(low, name.end())
        match = match if match and _is_random(text[match.start(1) : match.end(1)]) else None
    return match


def _without_shapes(text: str, spans: list[_Span]) -> str:
    """Return the text with blanks for secrets recognized by shape, which are added to `spans`."""
    shapes, hints = _shapes()
    long = " ".join(word for word in text.split() if len(word) >= _MIN_WORD_CHARS)
    places = sorted({place for hint, place in hints if hint in (long if shapes[place].is_long else text)})
    for place in places:
        kind, _, shape, is_long = shapes[place]
        pattern = _compiled(shape)
        if is_long and pattern.search(long) is None:
            continue

        def without(match: re.Match[str], kind: str = kind, is_long: bool = is_long) -> str:  # noqa: FBT001
            before = match[1] if match.re.groups else ""
            inside = is_long and _START.match(match.string, match.start()) is None
            if inside or match[0].find("[redacted", len(before)) >= 0:
                return match[0]
            spans.append((match.start() + len(before), match.end(), kind))
            return before + _TAKEN * (len(match[0]) - len(before))

        text = pattern.sub(without, text)
    return text


def _is_harmless(name: re.Match[str], text: str, start: int, stop: int) -> bool:
    """Return True if the value of a suspicious name is no secret: a reference, a count, words."""
    value, quoted = text[start:stop], text[start - 1] in "\"'"
    if value.startswith((_TAKEN, "[redacted", "$", "{{")) or value[0] + value[-1] in ("{}", "<>"):
        return True
    if name[0].startswith(_PASSWORDS):
        return not quoted and _DOTTED.fullmatch(value) is not None and _NAME.search(value.lower()) is not None
    if (not quoted and _DOTTED.fullmatch(value)) or (name[0] == "token" and value.replace("_", "").isdecimal()):
        return True
    counted = name[0] == "token" and name.string[name.end() : name.end() + 1].isalpha()  # tokens, tokenizer
    return _is_prose(value, text[stop : stop + 2], wide=counted or (quoted and name[0] != "secret"))


_OF_FILE = re.compile(  # secrets.txt:12: of grep
    r"(?:[\w-]{0,30}\.)?(?:cfg|conf|css|csv|env|go|html?|ini|java|jsx?|json|log|md|py|rb|rs|sh|toml|tsx?|txt|xml|ya?ml)[:-]"
)
_ANOTHER = re.compile(r"[\w.-]{1,100}\s{1,4}(?::=|=>|=|:)\s")


def _is_name(low: str, end: int, start: int, stop: int) -> bool:
    """Return True if a supposed value is another name, or the name belongs to the file that a line was found in."""
    if low[start - 1] in "\"'":
        return False
    another = _ANOTHER.match(low, start)
    return _OF_FILE.match(low, end) is not None or (
        another is not None and another.end() > stop and _NAME.search(low, start, stop) is not None
    )


_HUMPS = r"(?:[A-Z]?[a-z]+(?:[A-Z][a-z]{2,})*|[A-Z]+)"
_DOTTED = re.compile(rf"_*{_HUMPS}(?:[._]+{_HUMPS})+_*")  # a name in a program
_GAP = r"[\s_./:|,\[\]-]"
_WORDS = re.compile(rf"{_GAP}*{_HUMPS}(?:{_GAP}+{_HUMPS})+{_GAP}*|{_GAP}+{_HUMPS}{_GAP}*|[a-z]{{1,12}}")


def _is_prose(value: str, after: str, *, wide: bool) -> bool:
    """Return True if a value reads as words, as in `secret: Permission denied`, or, if it may be `wide`, as a name or
    an address: no key has only letters."""
    words = value.split()
    return (wide and _WORDS.fullmatch(value) is not None) or (
        all(word.strip(".!?:").isalpha() for word in words)
        and (len(words) > 1 or (value[1:].islower() and (after[:1] == " " or not after.strip())))
    )


def _named_option(low: str, start: int) -> bool:
    """Return True if a word that starts there belongs to an option: --token, --api-token."""
    place = low.rfind("--", max(0, start - 40), start)
    return place >= 0 and " " not in low[place:start] and "\n" not in low[place:start]


def _is_random(value: str) -> bool:
    """Return True if a value looks random: digits among letters, and three bits or more a character."""
    from collections import Counter
    from math import log2

    if not (any(map(str.isdigit, value)) and any(map(str.isalpha, value))) or "/" in value[:2]:
        return False
    shares = [number / len(value) for number in Counter(value).values()]
    return -sum(share * log2(share) for share in shares) >= min(2.75, log2(len(value)) - 0.75)


def _lower(text: str) -> str:
    """Lower the case with positions unchanged: characters that become two in lower case stay."""
    low = text.lower()
    return low if len(low) == len(text) else "".join(c if len(c.lower()) > 1 else c.lower() for c in text)
