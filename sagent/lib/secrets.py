"""Keys, tokens and passwords in text, found by their shape and taken out before the text leaves its owner."""

import re
from typing import NamedTuple

# Where a key may begin: after what is no letter or digit, after an escape (\n, \u000a, %0A), or after a colour.
_AT = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4})|(?<=%[0-9A-F]{2})"
    r"|(?<=\x1b\[m)|(?<=[\[;]\dm)|(?<=[\[;]\d\dm))"
)


class _Shape(NamedTuple):
    """What a kind of secret looks like; a group is what comes before it, and stays. Text without any of the `hints`
    holds none; they are cheap to look for."""

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


def _shape(kind: str, hints: str, pattern: str) -> _Shape:
    return _Shape(kind, tuple(hints.split()), re.compile(pattern))


_SHAPES = (
    _shape(
        "private key",
        "KEY-----",
        r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[A-Za-z0-9+/=\s\\:,.|\u2192\"'>-]*?"
        r"(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|(?![A-Za-z0-9+/=\s\\:,.|\u2192\"'>-])|\Z)",
    ),
    _shape("key", "sk- sk_ rk_ whsec_", _AT + r"(?:sk-[\w-]{16,}|(?:[sr]k_(?:live|test)|whsec)_\w{16,})"),
    _shape("key", "AKIA ASIA AIza", r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])|AIza[\w-]{30,}"),
    _shape("key", "xai- gsk_ pplx- tvly-", _AT + r"(?:xai-|gsk_|pplx-|tvly-)[\w-]{20,}"),
    _shape("token", "gh github_pat_ glpat-", r"gh[pousr]_\w{30,}|github_pat_\w{30,}|glpat-[\w-]{16,}"),
    _shape("token", "xox xapp- npm_ hf_ pypi-", r"(?:xox[abeprs]|xapp)-[\w-]{10,}|(?:npm_|hf_|pypi-)[\w-]{20,}"),
    _shape("token", "hooks.slack.com", r"(?<=hooks\.slack\.com/)[\w/]{16,}"),
    _shape(
        "token",
        "eyJ",  # looked for from where a word begins: from each eyJ in a long one it would take too long
        r"(?<![\w-])(?=[\w-]{11,}+\.[\w-]{8,}+\.[\w-]{8})([\w-]*?)eyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]{8,}+",
    ),
    _shape("token", "ya29. SG. hvs. dop_v1_", _AT + r"(?:ya29\.|SG\.|hvs\.|dop_v1_)[\w.-]{20,}"),
    _shape("token", "earer ", r"(?<=[Bb]earer )[\w.~+/-]{16,}=*"),
    _shape("password", "asic ", r"(?<=[Bb]asic )[A-Za-z0-9+/]{12,}=*"),
    _shape("password", "curl ", r"(?<=curl )([^\n]{0,200}?-u ?[\"']?[\w.@-]{1,100}:)[^\s\"']{1,200}"),
    _shape("password", "://", r"(?<=://)[^\s/:@]{0,200}:[^\s/]{1,500}(?=@)"),
)
_HINTS = tuple((hint, place) for place, shape in enumerate(_SHAPES) for hint in shape.hints)
_SHORTEST = 8  # characters: no secret is known by less
_NAME = re.compile(r"key|secret|token|passwd|password|passwort|passphrase|pwd|(?<=_)pass(?![a-z])|credential")
_KEY_OF = re.compile(r"(?:api|access|private|account|auth|signing|encryption|master|shared)[_-]?\Z")
_VALUE = re.compile(
    r"[a-z0-9_.-]{0,40}\\?[\"']?\s{0,4}(?::=|=>|[:=])\s{0,4}"
    r"(?:\\?[\"']([^\"'\n\\]{6,500})(?=\\?[\"'])|(?![\w.]{0,200}[(\[])([^\s\"',;<>(){}\[\]\\]{8,}))"
)
"""What is assigned to a name that says what it is: api_key=..., "password": "...". A call, `token = read(`, is none."""


_PASSWORD = re.compile(
    r"(?:[a-z0-9_.-]{0,40}\\?[\"']?\s{0,4}[:=]\s{0,4}\\?[\"']([^\"'\n\\]{1,500})(?=\\?[\"'])"
    r"|=(?!(?:none|null|true|false|password|passwd|pwd)\b|[\w.]{0,200}[(\[])([^\s\"',;&<>(){}\[\]\\$]{3,}))"
)
"""A password may be shorter than what else is assigned to names: password=hunter2."""
_PASSED = re.compile(r"[ =](?!-)([^\s\"',;&<>(){}\[\]\\$]{3,})")  # --password hunter2

_KEY_NAME = re.compile(
    r"(?:keys?|token|secrets?|passw(?:or)?d|passphrase|credentials?|connection_string)(?:_|\d*\Z)"
    r"|_(?:pat|pwd|pass|auth)\Z",
    re.IGNORECASE,
)


def is_key(name: str, value: str = "") -> bool:
    """Whether an environment variable looks like it holds a key: by its name, or by what its value looks like."""
    return _KEY_NAME.search(name) is not None or (len(value) >= _SHORTEST and redact(value)[1] > 0)


def redact(text: str) -> tuple[str, int]:
    """The text without what looks like a secret, and how many were taken out. The same text always gives the same, and
    what it gives is left alone when it comes again. Takes time in proportion to the text, whatever that is."""
    if len(text) < _SHORTEST:
        return text, 0
    found = 0
    for place in sorted({place for hint, place in _HINTS if hint in text}):
        kind, _, pattern = _SHAPES[place]
        before = r"\1" if pattern.groups else ""
        text, count = pattern.subn(f"{before}[redacted: {kind}]", text)
        found += count
    pieces: list[str] = []
    end = 0
    low = _lower(text)
    for name in _NAME.finditer(low):
        if name.start() < end or (
            name[0] == "key" and not _KEY_OF.search(low, max(0, name.start() - 12), name.start())
        ):
            continue
        match = _VALUE.match(low, name.end())
        if match is None and name[0].startswith(("pass", "pwd")):
            option = low.endswith("--", 0, name.start()) or low.endswith("--", 0, max(0, name.start() - 3))
            match = _PASSWORD.match(low, name.end()) or (_PASSED.match(low, name.end()) if option else None)
        if match is None:
            continue
        start, stop = match.span(match.lastindex or 0)
        value = text[start:stop]
        if value.startswith(("[redacted", "$", "{{")) or (value.isdecimal() and name[0] == "token"):
            continue  # a reference to a secret is none, and neither is how many tokens there are
        pieces += (text[end:start], "[redacted: value]")
        end = stop
        found += 1
    return "".join((*pieces, text[end:])), found


def _lower(text: str) -> str:
    """In lower case, each character in its place: some have two in lower case."""
    low = text.lower()
    return low if len(low) == len(text) else "".join(c if len(c.lower()) > 1 else c.lower() for c in text)
