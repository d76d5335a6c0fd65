"""Names of styles and what they look like. Only the terminal's own colours, so that light and dark both work."""

from collections.abc import Mapping

_DIM = "dim"
BASE: Mapping[str, str] = {
    "dim": _DIM,
    "strong": "bold",
    "em": "italic",
    "strike": "strike",
    "link": "underline",
    "inline-code": "ansicyan",
    "heading": "bold",
    "heading.first": "bold underline",
    "mark": "ansicyan",
    "quote": "italic",
    "code": "",
    "code.comment": "dim italic",
    "code.string": "ansigreen",
    "code.number": "ansicyan",
    "code.word": "ansimagenta",
    "diff.added": "ansigreen",
    "diff.removed": "ansired",
    "diff.context": _DIM,
    "diff.place": "ansicyan",
    "said": "bold",
    "news": "ansiblue",
    "queued": "italic",
    "thinking": "dim italic",
    "tool": "bold",
    "argument": "",
    "outcome": _DIM,
    "output": _DIM,
    "done": "ansigreen",
    "failed": "ansired",
    "warning": "ansiyellow",
    "working": "ansicyan",
    "advice": "ansimagenta",
    "status": "",
    "mode": "ansiyellow",
    "prompt": "ansicyan bold",
    "chosen": "reverse",
    "ask": "ansiyellow bold",
}
THEMES: Mapping[str, Mapping[str, str]] = {
    "auto": {},
    "dark": {"news": "ansibrightblue", "code.word": "ansibrightmagenta", "advice": "ansibrightmagenta"},
    "light": {"warning": "ansimagenta", "mode": "ansimagenta", "working": "ansiblue", "inline-code": "ansiblue"},
    "plain": dict.fromkeys(BASE, ""),
}
"""What each theme changes. "plain" has no styles but those that tell what is chosen."""


def rules_of(name: str) -> Mapping[str, str]:
    """The styles of a theme by class."""
    rules = {**BASE, **THEMES[name]}
    return {**rules, "chosen": "reverse"}
