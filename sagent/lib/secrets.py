"""Keys, tokens and passwords in text, found by their shape and taken out before the text leaves its owner."""

import re
from collections.abc import Callable

_SHAPES = (
    ("private key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
    ("key", r"\bsk-[A-Za-z0-9_-]{16,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[A-Za-z0-9_-]{30,}"),
    ("token", r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[A-Za-z0-9_-]{16,})"),
    ("token", r"\bxox[abeprs]-[A-Za-z0-9-]{10,}|\b(?:npm_|hf_|pypi-)[A-Za-z0-9_-]{20,}"),
    ("token", r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    ("token", r"(?<=[Bb]earer )[A-Za-z0-9._~+/-]{16,}=*"),
    ("password", r"(?<=://)[^\s/:@]+:[^\s/@]+(?=@)"),
)
_VALUE = re.compile(
    r"(?i)(?<![a-z0-9_])([a-z0-9_.-]*(?:api[_-]?key|secret|token|passwd|password|credential)[a-z0-9_.-]*"
    r"[\"']?\s*[:=]\s*[\"']?)([^\s\"',;<>(){}\[\]]{8,})"
)
"""What is assigned to a name that says what it is: API_KEY=..., "password": "..."."""


def redact(text: str) -> tuple[str, int]:
    """The text without what looks like a secret, and how many were taken out. The same text always gives the same."""
    found = 0

    def mark(kind: str) -> Callable[[re.Match[str]], str]:
        def replace(match: re.Match[str]) -> str:
            nonlocal found
            name, value = match.groups() if match.lastindex else ("", match[0])
            if value.startswith(("[redacted", "$")):  # a reference to a secret is none
                return match[0]
            found += 1
            return f"{name}[redacted: {kind}]"

        return replace

    for kind, shape in _SHAPES:
        text = re.sub(shape, mark(kind), text, flags=re.DOTALL)
    return _VALUE.sub(mark("value"), text), found
